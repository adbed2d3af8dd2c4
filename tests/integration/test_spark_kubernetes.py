"""Regions on Kubernetes: Spark's driver asks an API server for executors, which run as processes of this host."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from clusters import RunningCluster, running_cluster
from java_archives import JAVA_OPTIONS
from job_support import Gate, wait_until
from kubernetes_cluster import KubernetesCluster, kubernetes_cluster
from ports import own_port
from spark_support import SPARK_DEADLINE_S, require_spark, spark_environment
from test_spark_clusters import check, program
from test_spark_submit import EXPECTED, submit, written

from flinkpy.common.errors import JobExecutionError

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos]

_CONF = "execution.batch.spark.conf."


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KubernetesCluster, str]]:
    require_spark()
    with kubernetes_cluster(tmp_path_factory.mktemp("kubernetes")) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path_factory.mktemp("flinkpy"), num_task_executors=1, slots=6) as running:
        yield running


def properties(master: str) -> dict[str, str]:
    return {
        "execution.batch.spark.master": master,
        f"{_CONF}spark.kubernetes.container.image": "registry.example.org/pipelines:7",
        f"{_CONF}spark.kubernetes.namespace": "pipelines",
        f"{_CONF}spark.kubernetes.authenticate.oauthToken": "token-of-the-driver",
        f"{_CONF}spark.kubernetes.executor.label.team": "data",
        f"{_CONF}spark.executorEnv.REGION": "north",
        f"{_CONF}spark.executor.instances": "2",
        f"{_CONF}spark.executor.cores": "1",
        f"{_CONF}spark.executor.memory": "512m",
        f"{_CONF}spark.executor.extraJavaOptions": JAVA_OPTIONS,
        f"{_CONF}spark.driver.host": "127.0.0.1",
        f"{_CONF}spark.pyspark.python": sys.executable,
        f"{_CONF}spark.sql.shuffle.partitions": "4",
    }


def test_a_region_runs_in_executor_pods(
    cluster: RunningCluster, kubernetes: tuple[KubernetesCluster, str], tmp_path: Path
) -> None:
    """The driver asks for the pods that the options of the job describe, and their executors run the region."""
    api, master = kubernetes
    env = spark_environment(cluster, 2, **properties(master))
    check(list(program(env, tmp_path).execute_and_collect()), cluster.task_executors[0].popen.pid)
    assert {request.headers["Authorization"] for request in api.requests} == {"Bearer token-of-the-driver"}
    assert {request.path.split("/")[4] for request in api.requests} == {"pipelines"}
    pods = api.created("pods")
    assert len(pods) == 2
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        environment = {entry["name"]: entry.get("value", "") for entry in container["env"]}
        assert container["image"] == "registry.example.org/pipelines:7"
        assert pod["metadata"]["labels"]["team"] == "data"
        assert pod["spec"]["restartPolicy"] == "Never"
        assert container["resources"]["requests"]["cpu"] == "1"
        assert environment["REGION"] == "north"
        assert environment["SPARK_DRIVER_URL"].startswith("spark://CoarseGrainedScheduler@127.0.0.1:")
        # The executors have directories of their own, and only those of this application may talk to its driver.
        assert environment["SPARK_LOCAL_DIRS"].startswith("/var/data/spark-")
        assert len(environment["_SPARK_AUTH_SECRET"]) >= 32
        assert "token-of-the-driver" not in json.dumps(pod)


def test_a_killed_executor_pod_is_replaced_and_does_not_change_the_result(
    cluster: RunningCluster, kubernetes: tuple[KubernetesCluster, str], tmp_path: Path
) -> None:
    api, master = kubernetes
    gate = Gate(tmp_path)
    env = spark_environment(cluster, 2, **properties(master))
    held = env.from_sequence(1, 1000).map(gate.pass_at(900)).key_by(lambda value: value % 10)
    results = held.reduce(lambda one, other: one + other).execute_and_collect()
    wait_until(lambda: gate.arrivals, "a worker at the gate", SPARK_DEADLINE_S)
    ancestors = {parent.pid for parent in psutil.Process(gate.arrivals[0]).parents()}
    (lost,) = [name for name, process in api.running.items() if process.pid in ancestors]
    num_created = len(api.created("pods"))
    api.delete("pods", lost)
    gate.open()
    assert sorted(results) == sorted(sum(range(rest or 10, 1001, 10)) for rest in range(10))
    wait_until(lambda: len(api.created("pods")) > num_created, "another pod", SPARK_DEADLINE_S)


def test_the_error_names_a_missing_image(
    cluster: RunningCluster, kubernetes: tuple[KubernetesCluster, str], tmp_path: Path
) -> None:
    _, master = kubernetes
    options = properties(master)
    del options[f"{_CONF}spark.kubernetes.container.image"]
    env = spark_environment(cluster, 2, **options)
    with pytest.raises(JobExecutionError) as caught:
        list(env.from_collection([1, 2]).map(str).execute_and_collect())
    last = str(caught.value).splitlines()[-1]
    assert "execution.batch.spark.conf.spark.kubernetes.container.image" in last


def test_spark_submit_runs_a_program_in_a_driver_pod(kubernetes: tuple[KubernetesCluster, str], tmp_path: Path) -> None:
    """The pods get flinkpy, the program and its modules from the directory to which `spark-submit` uploads them."""
    api, master = kubernetes
    uploads = tmp_path / "uploads"
    uploads.mkdir()
    conf = {
        **{key.removeprefix(_CONF): value for key, value in properties(master).items() if key.startswith(_CONF)},
        "spark.kubernetes.driver.master": master.removeprefix("k8s://"),
        "spark.kubernetes.file.upload.path": f"file://{uploads}",
        "spark.kubernetes.driver.label.team": "data",
        "spark.driver.port": str(own_port()),
        "spark.driver.blockManager.port": str(own_port()),
        "spark.pyspark.driver.python": sys.executable,
    }
    # Spark names the driver by its service.
    del conf["spark.driver.host"]
    options = ["--master", master, "--deploy-mode", "cluster", "--driver-memory", "512m"]
    for key, value in conf.items():
        options += ["--conf", f"{key}={value}"]
    num_before = len(api.created("pods"))
    ended = submit(tmp_path, *options)
    driver, *executors = api.created("pods")[num_before:]
    log = api.log(driver["metadata"]["name"])
    assert ended.returncode == 0, ended.stderr[-3000:] + log[-5000:]
    assert driver["spec"]["containers"][0]["image"] == "registry.example.org/pipelines:7"
    assert driver["metadata"]["labels"]["team"] == "data"
    assert len(executors) >= 2
    assert {pod["metadata"]["labels"]["spark-role"] for pod in executors} == {"executor"}
    assert written(tmp_path) == {"one": EXPECTED, "other": EXPECTED}
    assert "collected [10, 20, 30, 40]" in log.splitlines()
    (pod,) = [pod for pod in api.now("pods") if pod["metadata"]["name"] == driver["metadata"]["name"]]
    assert pod["status"]["phase"] == "Succeeded"


def test_the_pods_end_with_the_task_executor(
    cluster: RunningCluster, kubernetes: tuple[KubernetesCluster, str], tmp_path: Path
) -> None:
    """Runs last: it kills the TaskExecutor of the other tests."""
    api, master = kubernetes
    env = spark_environment(cluster, 2, **properties(master))
    assert sorted(env.from_collection([1, 2]).map(str).execute_and_collect()) == ["1", "2"]
    assert api.running
    cluster.kill("taskexecutor-1")
    wait_until(lambda: not api.running and not api.now("pods"), "the end of the pods", SPARK_DEADLINE_S)
