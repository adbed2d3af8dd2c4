"""A kubelet for tests: it runs the containers of pods as processes of this host, and reports their states.

What the image of a container has is what this host has. A volume is a directory, and its mount path in arguments,
variables and mounted files means that directory. Images whose tag is `missing` cannot be pulled.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from kubernetes_api_server import ADMINISTRATOR_TOKEN, ApiServer

Manifest = dict[str, Any]

NODE = "node-of-the-test"
#: How long processes may take to end.
_GRACE_S = 20.0
_MERGE = {"Content-Type": "application/strategic-merge-patch+json"}
_VARIABLE = re.compile(r"\$\((\w+)\)")


class Kubelet:
    """Runs the pods of one namespace. Thread: its own, and one for each pod."""

    def __init__(self, server: ApiServer, namespace: str, directory: Path) -> None:
        self._server = server
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._namespace = f"/api/v1/namespaces/{namespace}"
        self._directory = directory
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._seen: set[str] = set()
        self._is_closed = threading.Event()
        self._threads: list[threading.Thread] = []
        #: Pods wait for a node while this is set.
        self.is_full = threading.Event()

    def client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {ADMINISTRATOR_TOKEN}"}
        return httpx.Client(base_url=self._server.url, verify=False, headers=headers, timeout=30.0)

    def start(self) -> None:
        self._run(self._follow)

    def close(self) -> None:
        """Ends the pods, as far as they have not ended. What creates pods must have ended before."""
        self._is_closed.set()
        self._threads[0].join()
        for process in list(self.processes.values()):
            process.terminate()
        for thread in self._threads:
            thread.join(_GRACE_S)
        for process in list(self.processes.values()):
            process.kill()

    def kill(self, pod: str) -> None:
        """Kills the process of a pod with SIGKILL."""
        self.processes[pod].kill()

    def log(self, pod: str) -> str:
        return (self._directory / f"{pod}.log").read_text(errors="replace")

    def _run(self, target: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _follow(self) -> None:
        """Lists and watches the pods until the end; when the server is away, it begins again."""
        with self.client() as client:
            while not self._is_closed.is_set():
                try:
                    listed = client.get(self._pods).raise_for_status().json()
                    for pod in listed["items"]:
                        self._handle(client, pod)
                    version = listed["metadata"]["resourceVersion"]
                    query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "1"}
                    with client.stream("GET", self._pods, params=query) as events:
                        for line in events.iter_lines():
                            event = json.loads(line)
                            if event["type"] in ("ADDED", "MODIFIED"):
                                self._handle(client, event["object"])
                except (httpx.HTTPError, KeyError):
                    self._is_closed.wait(0.1)

    def _handle(self, client: httpx.Client, pod: Manifest) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if "deletionTimestamp" in pod["metadata"]:
            if uid not in self._seen or (name in self.processes and self.processes[name].poll() is not None):
                self._remove(client, name)
            elif name in self.processes:
                self.processes[name].send_signal(signal.SIGTERM)
            else:
                self._remove(client, name)
        elif uid not in self._seen:
            if self.is_full.is_set():
                self._report(
                    client,
                    name,
                    {
                        "phase": "Pending",
                        "conditions": [
                            {
                                "type": "PodScheduled",
                                "status": "False",
                                "reason": "Unschedulable",
                                "message": "0/1 nodes are available: 1 Insufficient cpu.",
                            }
                        ],
                    },
                )
                return
            self._seen.add(uid)
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
            }
            client.post(f"{self._pods}/{name}/binding", json=binding).raise_for_status()
            self._run(self._run_pod, pod)

    def _remove(self, client: httpx.Client, name: str) -> None:
        client.request("DELETE", f"{self._pods}/{name}", json={"gracePeriodSeconds": 0})

    def _report(self, client: httpx.Client, name: str, status: Manifest) -> None:
        while not self._is_closed.is_set():
            try:
                client.patch(f"{self._pods}/{name}/status", content=json.dumps({"status": status}), headers=_MERGE)
                return
            except httpx.HTTPError:
                self._is_closed.wait(0.2)

    def _run_pod(self, pod: Manifest) -> None:
        name = pod["metadata"]["name"]
        (container,) = pod["spec"]["containers"]
        with self.client() as client:
            if container["image"].endswith(":missing"):
                problem = {"reason": "ErrImagePull", "message": f"{container['image']}: not found"}
                self._report(client, name, self._status(container, {"waiting": problem}, "Pending"))
                return
            directory = self._directory / name
            directory.mkdir()
            places = self._mount(client, pod, container, directory)
            environment = self._environment(client, container, places)
            words = [*container.get("command", ["flinkpy"]), *container.get("args", [])]
            command = [_replaced(_expanded(word, environment), places) for word in words]
            if command[0] == "flinkpy":
                command = [sys.executable, "-m", "flinkpy.cli.main", *command[1:]]
            with (self._directory / f"{name}.log").open("wb") as log:
                if self._is_closed.is_set():
                    return
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory, env=environment
                )
            self.processes[name] = process
            started = {"startedAt": _timestamp()}
            self._report(client, name, self._status(container, {"running": started}, "Running"))
            code = process.wait()
            ended = {**started, "finishedAt": _timestamp(), "exitCode": code if code >= 0 else 128 - code}
            phase = "Failed" if code else "Succeeded"
            self._report(client, name, self._status(container, {"terminated": ended}, phase))
            shown = client.get(f"{self._pods}/{name}")
            if shown.status_code == 200 and "deletionTimestamp" in shown.json()["metadata"]:
                self._remove(client, name)

    def _status(self, container: Manifest, state: Manifest, phase: str) -> Manifest:
        status = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "restartCount": 0,
            "ready": phase == "Running",
            "state": state,
        }
        return {"phase": phase, "podIP": "127.0.0.1", "containerStatuses": [status]}

    def _mount(self, client: httpx.Client, pod: Manifest, container: Manifest, directory: Path) -> dict[str, str]:
        """Makes the volumes of a container. Returns their directories by mount path."""
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
        places: dict[str, str] = {}
        files: list[Path] = []
        for mount in container.get("volumeMounts", []):
            volume = volumes[mount["name"]]
            place = directory / "volumes" / mount["name"]
            place.mkdir(parents=True, exist_ok=True)
            contents: dict[str, bytes] = {}
            if "configMap" in volume:
                found = client.get(f"{self._namespace}/configmaps/{volume['configMap']['name']}").raise_for_status()
                contents = {key: text.encode() for key, text in found.json().get("data", {}).items()}
            elif "secret" in volume:
                found = client.get(f"{self._namespace}/secrets/{volume['secret']['secretName']}")
                if found.status_code == 200:
                    contents = {key: base64.b64decode(text) for key, text in found.json().get("data", {}).items()}
            for key, data in contents.items():
                file = place / key
                file.write_bytes(data)
                file.chmod(0o600)
                files.append(file)
            places[mount["mountPath"]] = str(place)
        for file in files:
            file.write_bytes(_replaced(file.read_bytes().decode("latin-1"), places).encode("latin-1"))
        return places

    def _environment(self, client: httpx.Client, container: Manifest, places: dict[str, str]) -> dict[str, str]:
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
        for entry in container.get("env", []):
            source = entry.get("valueFrom", {})
            if "fieldRef" in source:
                assert source["fieldRef"]["fieldPath"] == "status.podIP", source
                value = "127.0.0.1"
            elif "secretKeyRef" in source:
                secret = client.get(f"{self._namespace}/secrets/{source['secretKeyRef']['name']}").raise_for_status()
                value = base64.b64decode(secret.json()["data"][source["secretKeyRef"]["key"]]).decode()
            else:
                value = entry.get("value", "")
            environment[entry["name"]] = _replaced(_expanded(value, environment), places)
        return environment


def _expanded(text: str, environment: dict[str, str]) -> str:
    return _VARIABLE.sub(lambda found: environment.get(found[1], found[0]), text)


def _replaced(text: str, places: dict[str, str]) -> str:
    for path in sorted(places, key=len, reverse=True):
        text = text.replace(path, places[path])
    return text


def _timestamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@contextmanager
def kubelet(server: ApiServer, namespace: str, directory: Path) -> Iterator[Kubelet]:
    """Makes a namespace and runs its pods."""
    directory.mkdir(parents=True, exist_ok=True)
    running = Kubelet(server, namespace, directory)
    with running.client() as client:
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        client.post("/api/v1/namespaces", json=manifest).raise_for_status()
        deadline = time.monotonic() + 60
        # The admission of pods wants the service account, which a controller makes.
        while client.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/default").status_code != 200:
            assert time.monotonic() < deadline, "the controllers do not make service accounts"
            threading.Event().wait(0.1)
    running.start()
    try:
        yield running
    finally:
        running.close()
