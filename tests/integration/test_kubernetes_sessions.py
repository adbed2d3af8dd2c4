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
import sys

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

    def masters(self, cluster_id: str) -> dict[str, Any]:
        """Returns the pod of the masters."""
        (pod,) = self.all("pods", labelSelector=f"app={cluster_id},component=jobmanager")
        return pod

    def is_restarted(self, cluster_id: str) -> bool:
        containers = self.masters(cluster_id)["status"]["containerStatuses"]
        return all(each["ready"] and each["restartCount"] for each in containers)

    def apply(self, file: Path, *, is_dry_run: bool = False) -> None:
        """Applies manifests as kubectl does; with `is_dry_run`, the server only validates and admits them."""
        for manifest in yaml.safe_load_all(file.read_text()):
            kind = manifest["kind"]
            if kind in ("Kustomization", "Namespace"):
                continue
            group = "api/v1" if manifest["apiVersion"] == "v1" else f"apis/{manifest['apiVersion']}"
            plural = "networkpolicies" if kind == "NetworkPolicy" else f"{kind.lower()}s"
            query = {"fieldManager": "test", "fieldValidation": "Strict"} | ({"dryRun": "All"} if is_dry_run else {})
            answer = self._client.patch(
                f"/{group}/namespaces/{NAMESPACE}/{plural}/{manifest['metadata']['name']}",
                params=query,
                content=yaml.safe_dump(manifest),
                headers={"Content-Type": "application/apply-patch+yaml"},
            )
            assert answer.status_code in (200, 201), f"{file.name}, {kind}: {answer.text}"
            # Refused pods of a Deployment are only a warning.
            assert "Warning" not in answer.headers, f"{file.name}, {kind}: {answer.headers['Warning']}"

    def restrict(self) -> None:
        """Lets the API server refuse pods that do not meet the restricted security standard."""
        standards = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
        labels = {"metadata": {"labels": standards}}
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
    started = flinkpy("kubernetes-session", "start", "--timeout", "120", **options)
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
        # Both masters die. Their containers are started again, and run jobs.
        for container in ("", "/resourcemanager"):
            node.kill(f"{namespace.masters('demo')['metadata']['name']}{container}")
        wait_until(lambda: namespace.is_restarted("demo"), "the masters are ready again")
        again = flinkpy("run", "-t", "kubernetes-session", str(program), **options)
        assert again.returncode == 0, again.stderr
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


def test_an_application_runs_beside_its_dispatcher_and_deletes_its_cluster(
    flinkpy: Run, node: Kubelet, namespace: Namespace, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    program = tmp_path / "squares.py"
    program.write_text(PROGRAM + f"open({str(output)!r}, 'w').write(' '.join(sys.argv[1:]))\n")
    options = {
        "kubernetes.cluster-id": "nightly",
        "jobmanager.rpc.port": str(free_port()),
        "resourcemanager.rpc.port": str(free_port()),
    }
    started = flinkpy("run-application", "-t", "kubernetes-application", f"local://{program}", "--day", "7", **options)
    assert started.returncode == 0, (started.stderr, {path.name: path.read_text()[-3000:] for path in node.logs()})
    wait_until(output.exists, "the program ends")
    assert output.read_text() == "--day 7"
    for kind in ("pods", "configmaps", "secrets"):
        wait_until(lambda kind=kind: not namespace.all(kind, labelSelector="app=nightly"), f"the {kind} are collected")


def test_the_manifests_of_fixed_clusters_are_accepted_by_the_api_server(namespace: Namespace) -> None:
    for file in sorted((MANIFESTS.parent / "kubernetes").glob("*.yaml")):
        namespace.apply(file, is_dry_run=True)
