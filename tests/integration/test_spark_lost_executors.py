"""Executors are killed or decommissioned at every stage. The result is exact, and only the lost tasks run again."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import Gate, wait_until
from spark_executors import (
    NUM_RECORDS,
    ExecutorKill,
    check_python_program,
    executors_of,
    file_sink,
    lines_of,
    python_program,
)
from spark_support import (
    SPARK_DEADLINE_S,
    StandaloneCluster,
    require_spark,
    spark_cluster,
    spark_environment,
    standalone_cluster,
)

from flinkpy.common import Types
from flinkpy.common.errors import JobExecutionError
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.aggregates import sum_

__all__ = ["spark_cluster"]

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos]

#: A job that loses one of two executors ends within this many times of the time of an undisturbed one.
BAR = 2.0


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    require_spark()
    with standalone_cluster(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=["replicas", "staging", "checkpoint-dir"])
def properties(
    request: pytest.FixtureRequest, standalone: StandaloneCluster, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """The options of a job, for each way to keep frames."""
    directory = str(tmp_path_factory.mktemp(request.param))
    more = {
        "replicas": {},
        "staging": {"execution.batch.spark.staging-dir": directory},
        "checkpoint-dir": {"execution.batch.spark.conf.spark.checkpoint.dir": directory},
    }[request.param]
    return {**standalone.properties, **more}


def timed(env: StreamExecutionEnvironment) -> float:
    started = time.monotonic()
    env.execute()
    return time.monotonic() - started


def undisturbed_s(cluster: RunningCluster, properties: dict[str, str], directory: Path) -> float:
    """Returns the time of the program without a kill, beside that with one.

    The first of two runs warms up the executor that replaces the one of the last kill.
    """
    seconds = []
    for name in ("cold", "warm"):
        (directory / name).mkdir()
        env = spark_environment(cluster, 4, **properties)
        python_program(env, directory / name / "out", ExecutorKill(directory / name))
        seconds.append(timed(env))
        check_python_program(directory / name / "out")
    return min(seconds)


#: The record at which an executor dies, by stage.
STAGES: dict[str, dict[str, Any]] = {
    "the first map": {"in_map": lambda value: value > 100},
    "the end of a map": {"in_map": lambda value: value == NUM_RECORDS},
    "a shuffle write": {"in_pairs": lambda pair: pair[1] == NUM_RECORDS - 10},
    "the first reduction": {"in_first": lambda each: each[0] == 50},
    "the last reduction": {"in_second": lambda each: each[0] == 3},
}
#: The stages in which the other executor dies, which holds kept records, or shuffle files that are read.
READS = {f"{name}, other": STAGES[name] for name in ("a shuffle write", "the last reduction")}


@pytest.mark.parametrize("stage", [*STAGES, *READS])
def test_a_killed_executor_costs_only_its_tasks(
    spark_cluster: RunningCluster,
    properties: dict[str, str],
    tmp_path: Path,
    stage: str,
    record_property: Callable[[str, object], None],
) -> None:
    undisturbed = undisturbed_s(spark_cluster, properties, tmp_path)
    kill = ExecutorKill(tmp_path, others=stage in READS)
    env = spark_environment(spark_cluster, 4, **properties)
    python_program(env, tmp_path / "out", kill, **{**STAGES, **READS}[stage])
    seconds = timed(env)
    assert kill.has_fired
    check_python_program(tmp_path / "out")
    record_property("seconds", f"{undisturbed:.1f} undisturbed, {seconds:.1f} with a killed executor")
    assert seconds <= BAR * undisturbed, f"{seconds:.1f} s with a killed executor, {undisturbed:.1f} s without"


def test_two_jobs_at_once_are_exact_when_an_executor_dies_that_both_use(
    spark_cluster: RunningCluster, properties: dict[str, str], tmp_path: Path
) -> None:
    """The executor that dies holds records that both regions keep."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    kills = {"one": ExecutorKill(tmp_path / "one"), "two": ExecutorKill(tmp_path / "two")}
    clients = []
    for name, kill in kills.items():
        env = spark_environment(spark_cluster, 4, **properties)
        reached = STAGES["the last reduction"] if name == "two" else {}
        python_program(env, tmp_path / name / "out", kill, **reached)
        clients.append(env.execute_async(name))
    for client in clients:
        client.get_job_execution_result().result()
    assert kills["two"].has_fired
    for name in kills:
        check_python_program(tmp_path / name / "out")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGPWR])
def test_an_executor_that_leaves_between_two_stages_of_columns_does_not_change_the_result(
    spark_cluster: RunningCluster, standalone: StandaloneCluster, tmp_path: Path, how: signal.Signals
) -> None:
    """SIGPWR decommissions an executor: it moves its blocks to others and leaves."""
    gate = Gate(tmp_path)
    more = {"execution.batch.spark.conf.spark.decommission.enabled": "true"}
    more["execution.batch.spark.conf.spark.storage.decommission.enabled"] = "true"
    env = spark_environment(spark_cluster, 4, **standalone.properties, **more)
    named = Types.ROW_NAMED(["key", "number"], [Types.LONG(), Types.LONG()])
    rows = env.from_sequence(1, NUM_RECORDS).map(lambda value: (value % 10, value), named)
    summed = rows.key_by("key").aggregate(total=sum_("number"))
    typed = Types.ROW_NAMED(["key", "total"], [Types.LONG(), Types.LONG()])
    held = summed.map(lambda row: (row[0], row[1]), typed).map(gate.pass_at((3, _sum_of(3))), typed)
    held.map(lambda row: f"{row[0]} {row[1]}", Types.STRING()).sink_to(file_sink(tmp_path / "out"))
    client = env.execute_async("columns")
    wait_until(lambda: gate.arrivals, "a worker at the gate", SPARK_DEADLINE_S)
    (leaving, *_) = executors_of(standalone)
    leaving.send_signal(how)
    gate.open()
    client.get_job_execution_result().result()
    assert lines_of(tmp_path / "out") == sorted(f"{key} {_sum_of(key)}" for key in range(10))


def _sum_of(key: int) -> int:
    return sum(range(key or 10, NUM_RECORDS + 1, 10))


def test_an_executor_that_is_killed_while_results_pass_through_the_driver_does_not_change_them(
    spark_cluster: RunningCluster, standalone: StandaloneCluster, tmp_path: Path
) -> None:
    env = spark_environment(spark_cluster, 4, **standalone.properties)
    large = env.from_sequence(1, NUM_RECORDS).map(lambda value: (value, "x" * 1000))
    found = []
    with large.execute_and_collect() as results:
        for number, _ in results:
            if not found:
                executors_of(standalone)[0].kill()
            found.append(number)
    assert sorted(found) == list(range(1, NUM_RECORDS + 1))


def test_records_that_come_out_different_after_a_loss_fail_the_job_with_the_option_to_set(
    spark_cluster: RunningCluster, standalone: StandaloneCluster, tmp_path: Path
) -> None:
    """Both executors die, so that no copy of the kept records is left."""
    gate = Gate(tmp_path)
    env = spark_environment(spark_cluster, 2, **standalone.properties)
    numbers = env.from_sequence(1, 100).map(lambda value: (value, random.random()))
    first = numbers.key_by(lambda each: each[0] % 2).reduce(lambda one, other: (one[0], one[1] + other[1]))
    second = numbers.key_by(lambda each: each[0] % 3).reduce(lambda one, other: (one[0], one[1] + other[1]))
    for name, stream in (("first", first), ("second", second)):
        held = stream.map(_hold(gate)) if name == "first" else stream
        held.map(str, Types.STRING()).sink_to(file_sink(tmp_path / name))
    client = env.execute_async("random")
    wait_until(lambda: gate.arrivals, "a worker at the gate", SPARK_DEADLINE_S)
    for executor in executors_of(standalone):
        executor.kill()
    gate.open()
    with pytest.raises(JobExecutionError) as caught:
        client.get_job_execution_result().result()
    last = str(caught.value).splitlines()[-1]
    assert "executor" in last and "execution.batch.spark.staging-dir" in last
    assert lines_of(tmp_path / "first") == lines_of(tmp_path / "second") == []


def test_executors_that_are_lost_again_and_again_fail_the_job_with_the_reason(
    spark_cluster: RunningCluster, standalone: StandaloneCluster, tmp_path: Path
) -> None:
    def kill_always(value: Any) -> Any:
        return ExecutorKill(tmp_path).at(lambda _: True)(value)

    env = spark_environment(spark_cluster, 2, **standalone.properties)
    numbers = env.from_collection([1, 2, 3], Types.LONG()).map(kill_always, Types.LONG())
    numbers.map(str, Types.STRING()).sink_to(file_sink(tmp_path / "out"))
    with pytest.raises(JobExecutionError) as caught:
        env.execute()
    last = str(caught.value).splitlines()[-1]
    assert "executor lost: it was killed, usually because it used too much memory" in last
    assert "exited with code 137" in last and "Py4J" not in last
    assert lines_of(tmp_path / "out") == []


def _hold(gate: Gate) -> Any:
    wait = gate.pass_at(True)
    return lambda each: (wait(True), each)[1]
