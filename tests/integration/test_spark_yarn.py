"""Regions on a real YARN, whose executors and ApplicationMasters are containers.

YARN sends flinkpy, functions and their files to the containers, through HDFS.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from clusters import RunningCluster, running_cluster
from hadoop_cluster.daemons import HadoopCluster, hadoop_cluster
from job_support import Gate, wait_until
from spark_support import SPARK_DEADLINE_S, java_processes_of, spark_environment
from test_spark_clusters import check, program
from test_spark_submit import EXPECTED, submit, written

from flinkpy.common import Encoder, Types
from flinkpy.common.errors import JobExecutionError
from flinkpy.datastream.connectors.file_system import FileSink
from flinkpy.spark.staging_leases import LEASE

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos]

_EXECUTOR = "org.apache.spark.executor.YarnCoarseGrainedExecutorBackend"
_APPLICATION_MASTER = "org.apache.spark.deploy.yarn.ExecutorLauncher"
_CLUSTER_APPLICATION_MASTER = "org.apache.spark.deploy.yarn.ApplicationMaster"
_CONF = "execution.batch.spark.conf."


@pytest.fixture(scope="module")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HadoopCluster]:
    with hadoop_cluster(tmp_path_factory.mktemp("hadoop")) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(hadoop: HadoopCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HADOOP_CONF_DIR", str(hadoop.configuration))
        with running_cluster(tmp_path_factory.mktemp("flinkpy"), num_task_executors=1, slots=6) as running:
            yield running


def test_a_region_runs_in_containers_of_yarn(cluster: RunningCluster, hadoop: HadoopCluster, tmp_path: Path) -> None:
    """The containers get flinkpy and the files of the job. No secret is on a command line, where all users see it."""
    env = spark_environment(cluster, 2, **hadoop.properties)
    check(list(program(env, tmp_path).execute_and_collect()), cluster.task_executors[0].popen.pid)
    containers = [*hadoop.processes(_EXECUTOR), *hadoop.processes(_APPLICATION_MASTER)]
    assert len(containers) >= 2
    for process in [*containers, *java_processes_of(cluster)]:
        assert not [argument for argument in process.cmdline() if "secret" in argument.lower()]


def test_records_pass_through_a_staging_directory_on_hdfs(
    cluster: RunningCluster, hadoop: HadoopCluster, tmp_path: Path
) -> None:
    """Twelve megabytes pass from a native operator to Spark, which writes a sink, and back to a native operator.

    The attempt also removes what a dead one has left behind.
    """
    staging = f"{hadoop.file_system}/staging"
    hadoop.write_file(f"/staging/dead/{LEASE}", age_s=25 * 3600)
    hadoop.write_file(f"/staging/alive/{LEASE}", age_s=3600)
    hadoop.write_file("/staging/of-somebody/file", age_s=25 * 3600)
    env = spark_environment(cluster, 2, **hadoop.properties, **{"execution.batch.spark.staging-dir": staging})
    num_records = 20_000
    numbers = env.from_sequence(1, num_records).set_batch_backend("native")
    wide = numbers.map(lambda value: (value % 7, f"{value:0600}"), Types.TUPLE([Types.LONG(), Types.STRING()]))
    keyed = wide.set_batch_backend("native").key_by(lambda pair: pair[0], Types.LONG())
    counted = keyed.reduce(lambda one, other: (one[0], max(one[1], other[1])))
    texts = wide.map(lambda pair: pair[1].lstrip("0"), Types.STRING())
    texts.sink_to(FileSink.for_row_format(str(tmp_path / "sink"), Encoder.simple_string_encoder()).build())
    largest = sorted((key, int(text)) for key, text in counted.execute_and_collect())
    assert largest == [(key, max(range(key or 7, num_records + 1, 7))) for key in range(7)]
    files = [path for path in (tmp_path / "sink").rglob("*") if path.is_file() and not path.name.startswith(".")]
    lines = [int(line) for path in files for line in path.read_text().split()]
    assert sorted(lines) == list(range(1, num_records + 1))
    assert sorted(hadoop.files("/staging")) == [".flinkpy-cleaned", "alive", "of-somebody"]


def test_a_killed_executor_container_does_not_change_the_result(
    cluster: RunningCluster, hadoop: HadoopCluster, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    env = spark_environment(cluster, 2, **hadoop.properties)
    held = env.from_sequence(1, 1000).map(gate.pass_at(900)).key_by(lambda value: value % 10)
    results = held.reduce(lambda one, other: one + other).execute_and_collect()
    wait_until(lambda: gate.arrivals, "a worker at the gate", SPARK_DEADLINE_S)
    ancestors = {parent.pid for parent in psutil.Process(gate.arrivals[0]).parents()}
    (lost,) = [executor for executor in hadoop.processes(_EXECUTOR) if executor.pid in ancestors]
    lost.kill()
    gate.open()
    assert sorted(results) == sums_of_tens()


def test_a_killed_application_master_does_not_change_the_result(
    cluster: RunningCluster, hadoop: HadoopCluster, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    restarts = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "5",
        "restart-strategy.fixed-delay.delay": "1 s",
    }
    env = spark_environment(cluster, 2, **hadoop.properties, **restarts)
    held = env.from_sequence(1, 1000).map(gate.pass_at(900)).key_by(lambda value: value % 10)
    results = held.reduce(lambda one, other: one + other).execute_and_collect()
    wait_until(lambda: gate.arrivals, "a worker at the gate", SPARK_DEADLINE_S)
    (master,) = hadoop.processes(_APPLICATION_MASTER)
    master.kill()
    gate.open()
    assert sorted(results) == sums_of_tens()


def test_the_error_names_a_missing_python_of_containers(cluster: RunningCluster, hadoop: HadoopCluster) -> None:
    properties: dict[str, Any] = {**hadoop.properties, f"{_CONF}spark.pyspark.python": "/nowhere/python9"}
    env = spark_environment(cluster, 2, **properties)
    with pytest.raises(JobExecutionError) as caught:
        list(env.from_collection([1, 2]).map(str).name("Text").execute_and_collect())
    last = str(caught.value).splitlines()[-1]
    assert "have no Python '/nowhere/python9': set execution.batch.spark.conf.spark.pyspark.python" in last


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_spark_submit_runs_a_program_on_yarn(hadoop: HadoopCluster, tmp_path: Path, mode: str) -> None:
    """In cluster mode the driver is the ApplicationMaster, which gets flinkpy, the program and its modules."""
    options = submit_options(hadoop, mode)
    num_before = len(hadoop.applications())
    ended = submit(tmp_path, *options, HADOOP_CONF_DIR=str(hadoop.configuration))
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-3000:] + hadoop.container_logs()[-5000:]
    assert written(tmp_path) == {"one": EXPECTED, "other": EXPECTED}
    (application,) = hadoop.applications()[num_before:]
    number = application["id"]
    wait_until(lambda: hadoop.final_status(number) != "UNDEFINED", "the end of the application", SPARK_DEADLINE_S)
    assert hadoop.final_status(number) == "SUCCEEDED"
    assert hadoop.num_attempts(number) == 1


@pytest.mark.parametrize("killed", ["ApplicationMaster", "driver", "ApplicationMaster and driver"])
def test_a_second_attempt_on_yarn_commits_what_the_first_has_written(
    hadoop: HadoopCluster, tmp_path: Path, killed: str
) -> None:
    """The first attempt has committed one of two sinks when it dies. YARN starts another ApplicationMaster.

    A driver that is left without its ApplicationMaster may go on to commit, which must not change the result.
    """
    gate = Gate(tmp_path)
    staging = ["-D", f"execution.batch.spark.staging-dir={hadoop.file_system}/second-attempts"]
    options = [*submit_options(hadoop, "cluster"), *staging]
    num_before = len(hadoop.applications())
    with ThreadPoolExecutor(1) as submitting:
        ended = submitting.submit(
            submit, tmp_path, *options, arguments=(str(tmp_path),), HADOOP_CONF_DIR=str(hadoop.configuration)
        )
        try:
            wait_until(lambda: gate.arrivals or ended.done(), "a driver at the gate", SPARK_DEADLINE_S)
            assert not ended.done(), ended.result().stdout[-3000:] + hadoop.container_logs()[-5000:]
            assert written(tmp_path) == {"one": EXPECTED, "other": Counter()}
            (first_driver,) = gate.arrivals
            (master,) = hadoop.processes(_CLUSTER_APPLICATION_MASTER)
            if "ApplicationMaster" in killed:
                master.kill()
            if "driver" in killed:
                psutil.Process(first_driver).kill()
        finally:
            gate.open()
        status = ended.result()
    assert status.returncode == 0, (status.stdout + status.stderr)[-3000:] + hadoop.container_logs()[-5000:]
    assert written(tmp_path) == {"one": EXPECTED, "other": EXPECTED}
    (application,) = hadoop.applications()[num_before:]
    assert hadoop.final_status(application["id"]) == "SUCCEEDED"
    assert hadoop.num_attempts(application["id"]) == 2
    assert len(set(gate.arrivals)) == 2, "the second attempt has committed"
    logs = hadoop.container_logs()
    assert "has written its sinks" in logs or "has committed its output" in logs
    assert hadoop.files("/second-attempts/flinkpy-jobs") == []
    assert sorted(hadoop.files("/second-attempts")) == [".flinkpy-cleaned", "flinkpy-jobs"]


def submit_options(hadoop: HadoopCluster, mode: str) -> list[str]:
    """Returns the options of `flinkpy spark-submit` for this YARN."""
    conf = {
        **{key.removeprefix(_CONF): value for key, value in hadoop.properties.items() if key.startswith(_CONF)},
        "spark.pyspark.driver.python": sys.executable,
    }
    if mode == "cluster":
        # YARN says where the driver is. Without these it would not be at the address of `submit`.
        del conf["spark.driver.bindAddress"]
        conf |= {f"{prefix}.SPARK_LOCAL_IP": "127.0.0.1" for prefix in ("spark.yarn.appMasterEnv", "spark.executorEnv")}
    options = ["--master", "yarn", "--deploy-mode", mode, "--driver-memory", "512m"]
    for key, value in conf.items():
        options += ["--conf", f"{key}={value}"]
    return options


def sums_of_tens() -> list[int]:
    return sorted(sum(range(rest or 10, 1001, 10)) for rest in range(10))
