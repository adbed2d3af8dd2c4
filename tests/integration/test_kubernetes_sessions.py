"""Clusters on Kubernetes: a real API server with its controllers, and a kubelet that runs the pods as processes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from clusters import run_flinkpy
from job_support import wait_until
from kubelet import Kubelet, kubelet
from kubernetes_api_server import ApiServer, api_server, free_port
from tcp_proxy import tcp_proxy

pytestmark = [pytest.mark.timeout(600)]

NAMESPACE = "sessions"
MANIFESTS = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes-session"
PROGRAM = """
from flinkpy.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
print(sorted(env.from_sequence(1, 10).map(lambda x: x * x).execute_and_collect()))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with api_server(tmp_path_factory.mktemp("kubernetes")) as running:
        yield running


@pytest.fixture(scope="module")
def node(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelet]:
    with kubelet(server, NAMESPACE, tmp_path_factory.mktemp("node")) as running:
        yield running


class Namespace:
    """The objects of the namespace, as kubectl shows them."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def all(self, kind: str, group: str = "api/v1", **query: str) -> list[dict[str, Any]]:
        path = f"/{group}/namespaces/{NAMESPACE}/{kind}"
        return self._client.get(path, params=query).raise_for_status().json()["items"]

    def apply(self, file: Path) -> None:
        """Applies manifests, which have no namespace of their own."""
        for manifest in yaml.safe_load_all(file.read_text()):
            plural = manifest["kind"].lower() + "s" if manifest["kind"] != "NetworkPolicy" else "networkpolicies"
            group = "api/v1" if manifest["apiVersion"] == "v1" else f"apis/{manifest['apiVersion']}"
            name = manifest["metadata"]["name"]
            answer = self._client.patch(
                f"/{group}/namespaces/{NAMESPACE}/{plural}/{name}",
                params={"fieldManager": "test", "fieldValidation": "Strict"},
                content=yaml.safe_dump(manifest),
                headers={"Content-Type": "application/apply-patch+yaml"},
            )
            assert answer.status_code in (200, 201), answer.text

    def restrict(self) -> None:
        """Lets the API server refuse pods that do not meet the restricted security standard."""
        labels = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
        merge = {"Content-Type": "application/merge-patch+json"}
        self._client.patch(f"/api/v1/namespaces/{NAMESPACE}", json=labels, headers=merge).raise_for_status()


@pytest.fixture(scope="module")
def namespace(node: Kubelet) -> Iterator[Namespace]:
    with node.client() as client:
        found = Namespace(client)
        found.restrict()
        for file in ("rbac.yaml", "network-policy.yaml"):
            found.apply(MANIFESTS / file)
        yield found


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def flinkpy(server: ApiServer, namespace: Namespace, tmp_path_factory: pytest.TempPathFactory) -> Run:
    options = {
        "kubernetes.namespace": NAMESPACE,
        "kubernetes.config.file": str(server.kubeconfig()),
        "kubernetes.container.image.ref": "registry.example.org/flinkpy:1",
        "kubernetes.jobmanager.service-account": "flinkpy",
        "kubernetes.rest-service.exposed.type": "NodePort",
        "kubernetes.taskmanager.cpu.amount": "0.1",
        "rest.enabled": "false",
    }

    def run(*arguments: str, **properties: str) -> subprocess.CompletedProcess[str]:
        lines = "\n".join(f"{key}={value}" for key, value in {**options, **properties}.items())
        return run_flinkpy(*arguments, environment={"FLINKPY_DYNAMIC_PROPERTIES": lines}, timeout_s=200.0)

    return run


def test_a_session_runs_jobs_in_pods_and_leaves_nothing(
    flinkpy: Run, node: Kubelet, namespace: Namespace, tmp_path: Path
) -> None:
    rpc_port = free_port()
    options = {
        "kubernetes.cluster-id": "demo",
        "jobmanager.rpc.port": str(rpc_port),
        "resourcemanager.rpc.port": str(free_port()),
    }
    started = flinkpy("kubernetes-session", "start", **options)
    logs = {path.name: path.read_text()[-3000:] for path in node.logs()}
    assert started.returncode == 0, (started.stderr, logs)
    again = flinkpy("kubernetes-session", "start", **options)
    assert again.returncode != 0 and "cluster demo already exists in namespace sessions" in again.stderr
    (port,) = next(s for s in namespace.all("services") if s["metadata"]["name"] == "demo-rest")["spec"]["ports"]
    program = tmp_path / "squares.py"
    program.write_text(PROGRAM)
    with tcp_proxy(rpc_port, port["nodePort"]):
        ran = flinkpy("run", "-t", "kubernetes-session", str(program), **options)
        logs = {path.name: path.read_text()[-3000:] for path in node.logs()}
        assert ran.returncode == 0, (ran.stderr, logs)
        assert str([x * x for x in range(1, 11)]) in ran.stdout
        assert namespace.all("pods", labelSelector="app=demo,component=taskmanager")
        listed = flinkpy("list", "-a", "-D", "execution.target=kubernetes-session", **options)
        assert "FINISHED" in listed.stdout
    stopped = flinkpy("kubernetes-session", "stop", **options)
    assert stopped.returncode == 0, stopped.stderr
    for kind in ("pods", "services", "configmaps", "secrets"):
        wait_until(lambda kind=kind: not namespace.all(kind, labelSelector="app=demo"), f"the {kind} are collected")
    assert "there is no cluster demo to stop" in flinkpy("kubernetes-session", "stop", **options).stderr


def test_a_session_whose_masters_cannot_start_is_refused_in_the_words_of_the_cluster(
    flinkpy: Run, namespace: Namespace
) -> None:
    options = {
        "kubernetes.cluster-id": "sick",
        "kubernetes.container.image.ref": "registry.example.org/flinkpy:missing",
    }
    refused = flinkpy("kubernetes-session", "start", **options)
    assert refused.returncode != 0
    assert "cannot start: ErrImagePull: registry.example.org/flinkpy:missing: not found" in refused.stderr
    wait_until(lambda: not namespace.all("configmaps", labelSelector="app=sick"), "nothing is left")
