"""KubernetesCluster: an API server with pods, config maps and services of one namespace, and a kubelet beside it.

Only what clients of Spark use is served. The kubelet runs a pod's container as a process of this host, with the
environment that the pod asks for, and in place of the image the installed pyspark. The names of services mean this
host.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import re
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from spark_support import OPENED_PACKAGES, kill_with_children

_KINDS = {
    "pods": "Pod",
    "configmaps": "ConfigMap",
    "services": "Service",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "networkpolicies": "NetworkPolicy",
}
_PATH = re.compile(r"/(?:api|apis/networking.k8s.io)/v1/namespaces/([^/]+)/([a-z]+)(?:/([^/]+))?$")
#: The field by which a client selects one resource.
_NAME = "metadata.name"
_EXECUTOR = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
#: A watch without events must see its client's end within this time.
_WATCH_S = 0.5

Resource = dict[str, Any]
Selector = tuple[tuple[str, bool, str], ...]


@dataclass
class Request:
    """A request that the server has answered."""

    verb: str
    path: str
    kind: str
    name: str | None
    body: Any
    headers: dict[str, str] = field(repr=False)


class KubernetesCluster:
    """The state of the cluster. Thread: any."""

    def __init__(self, directory: Path) -> None:
        self.requests: list[Request] = []
        self._directory = directory
        self._lock = threading.Lock()
        self._versions = itertools.count(1)
        self._resources: dict[tuple[str, str], Resource] = {}
        self._watches: list[tuple[str, Selector, queue.Queue[Resource]]] = []
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.is_stopped = threading.Event()
        #: The names that the containers resolve.
        self._hosts = directory / "hosts"
        self._write_hosts()

    # -- what the tests ask ---------------------------------------------------------------------------------------

    def created(self, kind: str) -> list[Resource]:
        """Returns the resources of a kind in the form in which the client asked for them."""
        return [request.body for request in self.requests if request.verb == "POST" and request.kind == kind]

    def now(self, kind: str) -> list[Resource]:
        with self._lock:
            return [resource for (each, _), resource in self._resources.items() if each == kind]

    @property
    def running(self) -> dict[str, subprocess.Popen[bytes]]:
        """The processes of the pods that run, by name."""
        return {name: process for name, process in self._processes.items() if process.poll() is None}

    def log(self, pod: str) -> str:
        return (self._directory / f"{pod}.log").read_text(errors="replace")

    def stop(self) -> None:
        self.is_stopped.set()
        for process in list(self._processes.values()):
            kill_with_children(process.pid)
            process.wait()

    # -- the API server -------------------------------------------------------------------------------------------

    def create(self, kind: str, namespace: str, resource: Resource) -> Resource:
        metadata = resource.setdefault("metadata", {})
        metadata |= {"namespace": namespace, "uid": str(uuid.uuid4()), "creationTimestamp": _timestamp()}
        if kind == "pods":
            resource["status"] = {"phase": "Pending"}
        with self._lock:
            self._resources[kind, metadata["name"]] = resource
            self._publish("ADDED", kind, resource)
            self._write_hosts()
        if kind == "pods":
            threading.Thread(target=self._run_pod, args=(resource,), daemon=True).start()
        return resource

    def select(self, kind: str, labels: Selector) -> list[Resource]:
        with self._lock:
            return [each for (found, _), each in self._resources.items() if found == kind and _matches(each, labels)]

    def get(self, kind: str, name: str) -> Resource | None:
        with self._lock:
            return self._resources.get((kind, name))

    def apply(self, kind: str, namespace: str, name: str, resource: Resource) -> Resource | None:
        """Creates or changes a resource."""
        if self.get(kind, name) is None:
            return self.create(kind, namespace, resource)
        return self.patch(kind, name, resource)

    def patch(self, kind: str, name: str, change: Any) -> Resource | None:
        with self._lock:
            resource = self._resources.get((kind, name))
            if resource is not None:
                _merge(resource, change)
                self._publish("MODIFIED", kind, resource)
            return resource

    def delete(self, kind: str, name: str) -> Resource | None:
        with self._lock:
            resource = self._resources.pop((kind, name), None)
            if resource is not None:
                self._publish("DELETED", kind, resource)
        if resource is not None and kind == "pods" and name in self._processes:
            kill_with_children(self._processes[name].pid)
        return resource

    @contextmanager
    def watch(self, kind: str, labels: Selector) -> Iterator[queue.Queue[Resource]]:
        events: queue.Queue[Resource] = queue.Queue()
        entry = (kind, labels, events)
        with self._lock:
            self._watches.append(entry)
        try:
            yield events
        finally:
            with self._lock:
                self._watches.remove(entry)

    def _publish(self, event: str, kind: str, resource: Resource) -> None:
        resource["metadata"]["resourceVersion"] = str(next(self._versions))
        for watched, labels, events in self._watches:
            if watched == kind and _matches(resource, labels):
                events.put({"type": event, "object": json.loads(json.dumps(resource))})

    def _write_hosts(self) -> None:
        services = [each["metadata"] for (kind, _), each in self._resources.items() if kind == "services"]
        names = ["localhost", socket.gethostname(), *(f"{each['name']}.{each['namespace']}.svc" for each in services)]
        self._hosts.write_text("".join(f"127.0.0.1 {name}\n" for name in names))

    # -- the kubelet ----------------------------------------------------------------------------------------------

    def _run_pod(self, pod: Resource) -> None:
        """Runs the container of a pod as the entry point of Spark's image does, and reports its phases."""
        import pyspark

        name = pod["metadata"]["name"]
        (container,) = pod["spec"]["containers"]
        fields = {"status.podIP": "127.0.0.1", "metadata.name": name}
        asked = {
            entry["name"]: entry.get("value") or fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
            for entry in container["env"]
            if "value" in entry or "valueFrom" in entry
        }
        home = Path(pyspark.__file__).parent
        place = self._directory / name
        place.mkdir()
        local = {"SPARK_HOME": str(home), "SPARK_LOCAL_DIRS": str(place), "PATH": os.environ["PATH"]}
        local["JAVA_TOOL_OPTIONS"] = f"-Djdk.net.hosts.file={self._hosts}"
        if container["args"][0] == "driver":
            command = self._driver_command(pod, container, asked, place, home)
            local["SPARK_CONF_DIR"] = str(place / "conf")
        else:
            assert container["args"] == ["executor"]
            command = self._executor_command(asked, home)
        with (self._directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=place, env={**asked, **local}
            )
        self._processes[name] = process
        started = {"startedAt": _timestamp()}
        self._report(name, "Running", container, {"running": started})
        code = process.wait()
        ended = {"terminated": {**started, "finishedAt": _timestamp(), "exitCode": code if code >= 0 else 128 - code}}
        self._report(name, "Failed" if code else "Succeeded", container, ended)

    def _driver_command(
        self, pod: Resource, container: Resource, asked: dict[str, str], place: Path, home: Path
    ) -> list[str]:
        """Mounts the config maps of a driver, as soon as they exist, and returns its command."""
        maps = [volume["configMap"]["name"] for volume in pod["spec"]["volumes"] if "configMap" in volume]
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts["spark-conf-volume-driver"] == asked["SPARK_CONF_DIR"]
        (place / "conf").mkdir()
        for name in maps:
            while self.get("configmaps", name) is None and not self.is_stopped.wait(0.05):
                continue
            for file, text in (self.get("configmaps", name) or {}).get("data", {}).items():
                (place / "conf" / file).write_text(text)
        arguments = [each.replace(asked["SPARK_CONF_DIR"], str(place / "conf")) for each in container["args"][1:]]
        address = f"spark.driver.bindAddress={asked['SPARK_DRIVER_BIND_ADDRESS']}"
        return [f"{home}/bin/spark-submit", "--conf", address, "--deploy-mode", "client", *arguments]

    def _executor_command(self, asked: dict[str, str], home: Path) -> list[str]:
        own_options = [value for key, value in sorted(asked.items()) if key.startswith("SPARK_JAVA_OPT_")]
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED_PACKAGES]
        return [
            *("java", "-XX:+IgnoreUnrecognizedVMOptions", "--add-modules=jdk.incubator.vector", *opened, *own_options),
            *(f"-Xmx{asked['SPARK_EXECUTOR_MEMORY']}", "-cp", f"{home}/jars/*", _EXECUTOR),
            *("--driver-url", asked["SPARK_DRIVER_URL"], "--executor-id", asked["SPARK_EXECUTOR_ID"]),
            *("--cores", asked["SPARK_EXECUTOR_CORES"], "--app-id", asked["SPARK_APPLICATION_ID"]),
            *("--hostname", asked["SPARK_EXECUTOR_POD_IP"], "--podName", asked["SPARK_EXECUTOR_POD_NAME"]),
            *("--resourceProfileId", asked["SPARK_RESOURCE_PROFILE_ID"]),
        ]

    def _report(self, pod: str, phase: str, container: Resource, state: Resource) -> None:
        status = {"name": container["name"], "image": container["image"], "state": state, "ready": phase == "Running"}
        ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
        report = {"phase": phase, "podIP": "127.0.0.1", "containerStatuses": [status], "conditions": [ready]}
        self.patch("pods", pod, {"status": report})


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection. Thread: its own."""

    protocol_version = "HTTP/1.1"
    cluster: KubernetesCluster

    def do_GET(self) -> None:
        kind, name, query = self._target()
        if name is not None:
            self._answer(self.cluster.get(kind, name))
        elif query.get("watch") == ["true"]:
            self._watch(kind, _labels(query))
        else:
            items = self.cluster.select(kind, _labels(query))
            self._answer({"kind": f"{_KINDS[kind]}List", "apiVersion": "v1", "metadata": {}, "items": items})

    def do_POST(self) -> None:
        kind, _, _ = self._target()
        self._answer(self.cluster.create(kind, self._namespace, self._body), 201)

    def do_PATCH(self) -> None:
        kind, name, _ = self._target()
        assert name is not None, f"{self.command} {self.path}"
        if "apply-patch" in self.headers["Content-Type"]:
            self._answer(self.cluster.apply(kind, self._namespace, name, self._body))
        else:
            self._answer(self.cluster.patch(kind, name, self._body))

    def do_DELETE(self) -> None:
        kind, name, query = self._target()
        names = [name] if name is not None else [_name_of(each) for each in self.cluster.select(kind, _labels(query))]
        deleted = [self.cluster.delete(kind, each) for each in names]
        self._answer(deleted[0] if name is not None else {"kind": "Status", "apiVersion": "v1", "status": "Success"})

    @property
    def _namespace(self) -> str:
        return str(_PATH.match(urlsplit(self.path).path)[1])  # type: ignore[index]

    def _target(self) -> tuple[str, str | None, dict[str, list[str]]]:
        """Reads and records the request. Returns its kind, its name and its query."""
        parts = urlsplit(self.path)
        found = _PATH.match(parts.path)
        length = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(length)
        self._body = json.loads(text) if text else None
        kind, name = (found[2], found[3]) if found is not None else (parts.path, None)
        recorded = json.loads(text) if text else None
        self.cluster.requests.append(Request(self.command, parts.path, kind, name, recorded, dict(self.headers)))
        return kind, name, parse_qs(parts.query)

    def _answer(self, resource: Resource | None, status: int = 200) -> None:
        if resource is None:
            status, resource = 404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}
        data = json.dumps(resource).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _watch(self, kind: str, labels: Selector) -> None:
        if self.headers.get("Upgrade", "").lower() == "websocket":
            # The client then watches by a plain request.
            self._answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503}, 503)
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with self.cluster.watch(kind, labels) as events:
            while not self.cluster.is_stopped.is_set():
                try:
                    event = events.get(timeout=_WATCH_S)
                except queue.Empty:
                    continue
                data = json.dumps(event).encode() + b"\n"
                try:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                except OSError:
                    return
        self.close_connection = True

    def log_message(self, format: str, *arguments: Any) -> None:
        return


@contextmanager
def kubernetes_cluster(directory: Path) -> Iterator[tuple[KubernetesCluster, str]]:
    """Runs a cluster. Yields it with its URL for the option `execution.batch.spark.master`."""
    cluster = KubernetesCluster(directory)
    handler = type("Handler", (_Handler,), {"cluster": cluster})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield cluster, f"k8s://http://127.0.0.1:{server.server_address[1]}"
    finally:
        cluster.stop()
        server.shutdown()
        server.server_close()
        thread.join()


def _labels(query: dict[str, list[str]]) -> Selector:
    """Returns the terms of a query's selector: a label or a name, whether it must be equal, and the value."""
    found = []
    for term in filter(None, ",".join(query.get("fieldSelector", [])).split(",")):
        key, _, value = term.partition("=")
        assert key == _NAME, f"unsupported selector: {term}"
        found.append((key, True, value.removeprefix("=")))
    for term in filter(None, ",".join(query.get("labelSelector", [])).split(",")):
        key, sign, value = term.partition("=")
        assert sign, f"unsupported selector: {term}"
        found.append((key.removesuffix("!"), not key.endswith("!"), value.removeprefix("=")))
    return tuple(found)


def _matches(resource: Resource, selector: Selector) -> bool:
    own = {**(resource["metadata"].get("labels") or {}), _NAME: _name_of(resource)}
    return all((own.get(key) == value) == is_equal for key, is_equal, value in selector)


def _name_of(resource: Resource) -> str:
    return str(resource["metadata"]["name"])


def _merge(resource: Resource, change: Any) -> None:
    """Applies a merge patch, or a patch that is a list of operations."""
    if isinstance(change, list):
        for operation in change:
            *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
            place = resource
            for parent in parents:
                place = place.setdefault(parent, {})
            if operation["op"] == "remove":
                place.pop(last, None)
            else:
                place[last] = operation["value"]
        return
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(resource.get(key), dict):
            _merge(resource[key], value)
        else:
            resource[key] = value


def _timestamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
