"""TaskExecutors are pods: a real API server, a kubelet that runs pods as processes, and a ResourceManager."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster, StartCluster
from job_support import Gate, environment, resource_overview, wait_until
from kubelet import Kubelet, kubelet
from kubernetes_api_server import ApiServer, api_server
from tcp_proxy import TcpProxy, tcp_proxy

pytestmark = [pytest.mark.timeout(600)]

NAMESPACE = "pipelines"
IMAGE = "registry.example.org/flinkpy:1"
SELECTED = {"labelSelector": "component=taskmanager"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with api_server(tmp_path_factory.mktemp("kubernetes")) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(server: ApiServer) -> Iterator[TcpProxy]:
    """The ResourceManager calls the API server through it; when it is cut, the server is away."""
    with tcp_proxy(server.port) as running:
        yield running


@pytest.fixture
def node(server: ApiServer, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Kubelet]:
    with kubelet(server, _namespace(request), tmp_path / "node") as running:
        yield running


def _namespace(request: pytest.FixtureRequest) -> str:
    return f"{NAMESPACE}-{abs(hash(request.node.name)) % 10**6}"


class Pods:
    """The pods of TaskExecutors, as kubectl shows them."""

    def __init__(self, node: Kubelet, namespace: str) -> None:
        self._client = node.client()
        self._path = f"/api/v1/namespaces/{namespace}"

    def all(self) -> list[dict[str, Any]]:
        return self._client.get(f"{self._path}/pods", params=SELECTED).raise_for_status().json()["items"]

    @property
    def names(self) -> list[str]:
        return sorted(pod["metadata"]["name"] for pod in self.all() if "deletionTimestamp" not in pod["metadata"])

    def evict(self, name: str) -> None:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        self._client.post(f"{self._path}/pods/{name}/eviction", json=eviction).raise_for_status()

    def create(self, kind: str, manifest: dict[str, Any]) -> None:
        self._client.post(f"{self._path}/{kind}", json=manifest).raise_for_status()

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def pods(node: Kubelet, request: pytest.FixtureRequest) -> Iterator[Pods]:
    shown = Pods(node, _namespace(request))
    yield shown
    shown.close()


Start = Callable[..., RunningCluster]


@pytest.fixture
def start(
    proxy: TcpProxy,
    start_cluster: StartCluster,
    server: ApiServer,
    node: Kubelet,
    pods: Pods,
    request: pytest.FixtureRequest,
) -> Iterator[Start]:
    clusters: list[RunningCluster] = []

    def started(restart_services: bool = False, **properties: str) -> RunningCluster:
        options = {
            "flinkpy.resourcemanager.driver": "kubernetes",
            "kubernetes.cluster-id": "demo",
            "kubernetes.namespace": _namespace(request),
            "kubernetes.container.image.ref": IMAGE,
            "kubernetes.config.file": str(server.kubeconfig(port=proxy.port)),
            "kubernetes.taskmanager.cpu.amount": "0.1",
            "resourcemanager.taskmanager-timeout": "1 s",
            "slot.idle.timeout": "100 ms",
            **properties,
        }
        cluster = start_cluster(0, properties=options, restart_services=restart_services)
        clusters.append(cluster)
        secret = Path(cluster.properties["security.secret-file"]).read_text()
        configuration = "security.secret-file: /etc/flinkpy/security/secret\n"
        pods.create("configmaps", {"metadata": {"name": "flink-config-demo"}, "data": {"config.yaml": configuration}})
        pods.create("secrets", {"metadata": {"name": "flink-security-demo"}, "stringData": {"secret": secret}})
        return cluster

    yield started
    # The ResourceManager ends before the node: it would replace the pods.
    for cluster in clusters:
        cluster.stop()


def test_a_job_gets_pods_which_go_when_they_are_idle(start: Start, pods: Pods) -> None:
    cluster = start()
    env = environment(cluster, 2)
    assert sorted(env.from_sequence(1, 10).map(lambda x: x * x).execute_and_collect()) == [x * x for x in range(1, 11)]
    wait_until(lambda: pods.all() == [], "idle pods are deleted")


@pytest.mark.parametrize("how", ["killed", "evicted"])
def test_a_pod_that_ends_is_replaced_and_the_job_goes_on(
    how: str, start: Start, node: Kubelet, pods: Pods, tmp_path: Path
) -> None:
    cluster = start()
    gate = Gate(tmp_path)
    env = environment(
        cluster, 1, **{"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "100 ms"}
    )
    env.from_sequence(1, 10).map(gate.pass_at(5)).print()
    client = env.execute_async("gated")
    gate.wait_for_arrival()
    (name,) = pods.names
    assert node.processes[name].pid == gate.arrivals[0]
    if how == "killed":
        node.kill(name)
    else:
        pods.evict(name)
    gate.wait_for_arrival(2)
    gate.open()
    client.get_job_execution_result().result()
    assert name not in pods.names


def test_an_image_that_cannot_be_pulled_is_reported_in_the_words_of_the_cluster(start: Start, pods: Pods) -> None:
    cluster = start(
        **{
            "kubernetes.container.image.ref": "registry.example.org/flinkpy:missing",
            "slotmanager.number-of-slots.min": "1",
        }
    )
    wait_until(
        lambda: "ErrImagePull: registry.example.org/flinkpy:missing: not found" in cluster.log("resourcemanager"),
        "the reason is in the log",
    )
    wait_until(lambda: "too many workers failed to start" in cluster.log("resourcemanager"), "the rate is limited")


def test_a_quota_that_is_exceeded_is_reported_and_waited_for(start: Start, pods: Pods) -> None:
    pods.create("resourcequotas", {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    cluster = start(**{"slotmanager.number-of-slots.min": "1"})
    wait_until(lambda: "exceeded quota: none" in cluster.log("resourcemanager"), "the reason is in the log")
    pods._client.delete(f"{pods._path}/resourcequotas/none").raise_for_status()
    wait_until(lambda: resource_overview(cluster).num_task_managers == 1, "a pod is made when the quota allows it")


def test_a_restarted_resource_manager_takes_over_the_pods(start: Start, pods: Pods) -> None:
    cluster = start(restart_services=True, **{"slotmanager.number-of-slots.min": "2"})
    wait_until(lambda: resource_overview(cluster).num_task_managers == 2, "two pods run")
    names = pods.names
    cluster.kill("resourcemanager")
    wait_until(lambda: "took over 2 worker(s)" in cluster.log("resourcemanager"), "the next one finds the pods")
    wait_until(lambda: resource_overview(cluster).num_task_managers == 2, "both register again")
    assert pods.names == names


def test_a_pod_that_no_node_takes_is_reported_and_starts_when_there_is_room(
    start: Start, node: Kubelet, pods: Pods
) -> None:
    node.is_full.set()
    cluster = start(**{"slotmanager.number-of-slots.min": "1"})
    wait_until(lambda: "Unschedulable: 0/1 nodes are available" in cluster.log("resourcemanager"), "the reason")
    node.is_full.clear()
    wait_until(lambda: resource_overview(cluster).num_task_managers == 1, "it starts")


def test_running_jobs_do_not_notice_that_the_api_server_is_away(
    start: Start, proxy: TcpProxy, pods: Pods, tmp_path: Path
) -> None:
    cluster = start()
    gate = Gate(tmp_path)
    env = environment(cluster, 1)
    env.from_sequence(1, 10).map(gate.pass_at(5)).print()
    client = env.execute_async("gated")
    gate.wait_for_arrival()
    proxy.cut()
    wait_until(lambda: "cannot list the pods of TaskExecutors" in cluster.log("resourcemanager"), "the driver notices")
    proxy.resume()
    gate.open()
    client.get_job_execution_result().result()
    wait_until(lambda: pods.all() == [], "the idle pod is deleted after all")


def test_a_pod_that_ends_while_the_api_server_is_away_is_replaced(
    start: Start, proxy: TcpProxy, node: Kubelet, pods: Pods
) -> None:
    cluster = start(**{"slotmanager.number-of-slots.min": "1"})
    wait_until(lambda: resource_overview(cluster).num_task_managers == 1, "a pod runs")
    (name,) = pods.names
    proxy.cut()
    node.kill(name)
    wait_until(lambda: resource_overview(cluster).num_task_managers == 0, "the ResourceManager sees it go")
    proxy.resume()
    wait_until(lambda: resource_overview(cluster).num_task_managers == 1, "another pod runs")
    assert name not in pods.names
