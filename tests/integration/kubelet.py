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
#: The address of the node, of all pods and of all services.
HOST = "127.0.0.1"
SERVICE_ACCOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_PROBE_PAUSE_S = 0.3
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
        #: Pods that are being deleted.
        self._ending: set[str] = set()
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

    def logs(self) -> list[Path]:
        return sorted(self._directory.glob("*.log"))

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
            self._ending.add(name)
            own = [one for key, one in list(self.processes.items()) if key.partition("/")[0] == name]
            living = [process for process in own if process.poll() is None]
            for process in living:
                process.send_signal(signal.SIGTERM)
            if not living:
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
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
            }
            client.post(f"{self._pods}/{name}/binding", json=binding).raise_for_status()
            self._seen.add(uid)
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

    def _report_containers(self, client: httpx.Client, name: str, containers: _Containers) -> None:
        """Reports the states of all containers. One at a time, so that an older report does not follow a newer one."""
        with containers.reporting:
            self._report(client, name, containers.status())

    def _run_pod(self, pod: Manifest) -> None:
        name = pod["metadata"]["name"]
        containers = _Containers(pod)
        with self.client() as client:
            missing = [each for each in pod["spec"]["containers"] if each["image"].endswith(":missing")]
            if missing:
                for each in missing:
                    problem = {"reason": "ErrImagePull", "message": f"{each['image']}: not found"}
                    containers.states[each["name"]] = {"waiting": problem}
                self._report_containers(client, name, containers)
                return
            directory = self._directory / name
            directory.mkdir()
            places = self._mount(client, pod, directory)
        threads = [
            threading.Thread(target=self._run_container, args=(pod, container, containers, directory, places))
            for container in pod["spec"]["containers"]
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with self.client() as client:
            shown = client.get(f"{self._pods}/{name}")
            if shown.status_code == 200 and "deletionTimestamp" in shown.json()["metadata"]:
                self._remove(client, name)

    def _run_container(
        self, pod: Manifest, container: Manifest, containers: _Containers, directory: Path, places: dict[str, str]
    ) -> None:
        """Runs a container until it ends for good."""
        name, label = pod["metadata"]["name"], container["name"]
        is_main = container is pod["spec"]["containers"][0]
        with self.client() as client:
            environment = self._environment(client, pod, container, places)
            words = [*container.get("command", ["flinkpy"]), *container.get("args", [])]
            while not self._is_closed.is_set() and name not in self._ending:
                log = self._directory / (f"{name}.log" if is_main else f"{name}.{label}.log")
                process = _start(words, environment, places, directory, log)
                self.processes[name if is_main else f"{name}/{label}"] = process
                started = {"startedAt": _timestamp()}
                containers.started(label, {"running": started}, is_ready="readinessProbe" not in container)
                self._report_containers(client, name, containers)
                if "readinessProbe" in container:
                    probe = container["readinessProbe"]["exec"]["command"]
                    while process.poll() is None and _start(probe, environment, places, directory, None).wait() != 0:
                        self._is_closed.wait(_PROBE_PAUSE_S)
                    containers.ready.add(label)
                    self._report_containers(client, name, containers)
                code = process.wait()
                ended = {**started, "finishedAt": _timestamp(), "exitCode": code if code >= 0 else 128 - code}
                containers.ended(label, {"terminated": ended})
                self._report_containers(client, name, containers)
                if pod["spec"].get("restartPolicy", "Always") != "Always":
                    return

    def _mount(self, client: httpx.Client, pod: Manifest, directory: Path) -> dict[str, str]:
        """Makes the volumes of a pod. Returns their directories by mount path, and the host of each service."""
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
        services = client.get(f"{self._namespace}/services").raise_for_status().json()["items"]
        places = {f"{one['metadata']['name']}.{one['metadata']['namespace']}": HOST for one in services}
        files: list[Path] = []
        mounts = {
            mount["mountPath"]: mount["name"]
            for container in pod["spec"]["containers"]
            for mount in container.get("volumeMounts", [])
        }
        for path, label in mounts.items():
            volume = volumes[label]
            if path == SERVICE_ACCOUNT_PATH:
                continue
            place = directory / "volumes" / label
            place.mkdir(parents=True, exist_ok=True)
            places[path] = str(place)
            contents: dict[str, bytes] = {}
            if "configMap" in volume:
                found = self._awaited(client, f"{self._namespace}/configmaps/{volume['configMap']['name']}")
                contents = {key: text.encode() for key, text in found.get("data", {}).items()}
            elif "secret" in volume and volume["secret"].get("optional"):
                asked = client.get(f"{self._namespace}/secrets/{volume['secret']['secretName']}")
                if asked.status_code == 200:
                    contents = {key: base64.b64decode(text) for key, text in asked.json().get("data", {}).items()}
            elif "secret" in volume:
                found = self._awaited(client, f"{self._namespace}/secrets/{volume['secret']['secretName']}")
                contents = {key: base64.b64decode(text) for key, text in found.get("data", {}).items()}
            for key, data in contents.items():
                file = place / key
                file.write_bytes(data)
                file.chmod(0o600)
                files.append(file)
        for file in files:
            file.write_bytes(_replaced(file.read_bytes().decode("latin-1"), places).encode("latin-1"))
        return places

    def _awaited(self, client: httpx.Client, path: str) -> Manifest:
        """Returns an object that a pod needs, when it exists."""
        while not self._is_closed.is_set():
            found = client.get(path)
            if found.status_code == 200:
                return found.json()
            self._is_closed.wait(0.1)
        raise RuntimeError(f"the kubelet ended before {path} existed")

    def _service_account(self, client: httpx.Client, pod: Manifest) -> dict[str, str]:
        """Returns variables by which a process finds the token of its service account."""
        path = f"{self._namespace}/serviceaccounts/{pod['spec']['serviceAccountName']}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = client.post(path, json=request).raise_for_status().json()["status"]["token"]
        return {"KUBECONFIG": str(self._server.kubeconfig(token))}

    def _environment(
        self, client: httpx.Client, pod: Manifest, container: Manifest, places: dict[str, str]
    ) -> dict[str, str]:
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
        if any(mount["mountPath"] == SERVICE_ACCOUNT_PATH for mount in container.get("volumeMounts", [])):
            environment |= self._service_account(client, pod)
        for entry in container.get("env", []):
            source = entry.get("valueFrom", {})
            if "fieldRef" in source:
                assert source["fieldRef"]["fieldPath"] == "status.podIP", source
                value = HOST
            elif "secretKeyRef" in source:
                secret = client.get(f"{self._namespace}/secrets/{source['secretKeyRef']['name']}").raise_for_status()
                value = base64.b64decode(secret.json()["data"][source["secretKeyRef"]["key"]]).decode()
            else:
                value = entry.get("value", "")
            environment[entry["name"]] = _replaced(_expanded(value, environment), places)
        return environment


class _Containers:
    """The states of the containers of a pod."""

    def __init__(self, pod: Manifest) -> None:
        self.reporting = threading.Lock()
        self._pod = pod
        self._containers = pod["spec"]["containers"]
        self.states: dict[str, Manifest] = {}
        self.ready: set[str] = set()
        self._restarts: dict[str, int] = {}
        self._last: dict[str, Manifest] = {}

    def started(self, name: str, state: Manifest, *, is_ready: bool) -> None:
        if name in self._last:
            self._restarts[name] = self._restarts.get(name, 0) + 1
        self.states[name] = state
        if is_ready:
            self.ready.add(name)

    def ended(self, name: str, state: Manifest) -> None:
        self.states[name] = self._last[name] = state
        self.ready.discard(name)

    def status(self) -> Manifest:
        found = [
            {
                "name": each["name"],
                "image": each["image"],
                "imageID": "",
                "restartCount": self._restarts.get(each["name"], 0),
                "ready": each["name"] in self.ready,
                "state": self.states.get(each["name"], {"waiting": {"reason": "ContainerCreating"}}),
                "lastState": self._last.get(each["name"], {}),
            }
            for each in self._containers
        ]
        ready = "True" if len(self.ready) == len(self._containers) else "False"
        return {
            "phase": self._phase(),
            "podIP": HOST,
            "containerStatuses": found,
            "conditions": [{"type": "Ready", "status": ready}],
        }

    def _phase(self) -> str:
        states = [self.states.get(each["name"], {}) for each in self._containers]
        if not any("running" in state or "terminated" in state for state in states):
            return "Pending"
        restarts = self._pod["spec"].get("restartPolicy", "Always") == "Always"
        if restarts or not all("terminated" in state for state in states):
            return "Running"
        return "Failed" if any(state["terminated"]["exitCode"] for state in states) else "Succeeded"


def _start(
    words: list[str], environment: dict[str, str], places: dict[str, str], directory: Path, log: Path | None
) -> subprocess.Popen[bytes]:
    command = [_replaced(_expanded(word, environment), places) for word in words]
    if command[0] == "flinkpy":
        command = [sys.executable, "-m", "flinkpy.cli.main", *command[1:]]
    with (Path(os.devnull) if log is None else log).open("ab") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=directory, env=environment
        )


def _expanded(text: str, environment: dict[str, str]) -> str:
    return _VARIABLE.sub(lambda found: environment.get(found[1], found[0]), text)


def _replaced(text: str, places: dict[str, str]) -> str:
    for path in sorted(places, key=len, reverse=True):
        text = text.replace(path, places[path])
    return text


def _timestamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _register_node(client: httpx.Client) -> None:
    """Makes the node of the test, unless another test has."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
    if client.post("/api/v1/nodes", json=node).status_code not in (201, 409):
        raise RuntimeError("the node cannot be registered")
    status = {"status": {"addresses": [{"type": "InternalIP", "address": HOST}]}}
    client.patch(f"/api/v1/nodes/{NODE}/status", content=json.dumps(status), headers=_MERGE).raise_for_status()


@contextmanager
def kubelet(server: ApiServer, namespace: str, directory: Path) -> Iterator[Kubelet]:
    """Makes a namespace and runs its pods."""
    directory.mkdir(parents=True, exist_ok=True)
    running = Kubelet(server, namespace, directory)
    with running.client() as client:
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        client.post("/api/v1/namespaces", json=manifest).raise_for_status()
        _register_node(client)
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
