"""Batch programs in Spark, on real processes: users see the same as with tasks of flinkpy."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from clusters import RunningCluster
from job_support import Gate, wait_for_state, wait_until
from spark_support import SPARK_DEADLINE_S, java_processes_of, require_spark, spark_environment

from flinkpy.common import Types
from flinkpy.common.errors import JobExecutionError
from flinkpy.common.states import JobState
from flinkpy.datastream.functions import MapFunction, RuntimeContext

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def spark_cluster(engine_cluster: RunningCluster) -> RunningCluster:
    """A cluster that keeps its Spark session between jobs."""
    require_spark()
    return engine_cluster


def worker_of_map(value: Any) -> tuple[Any, int, str]:
    """Returns the value with the id of its process and the program that the process was forked from."""
    return value, os.getpid(), str(sys.modules["__main__"].__spec__.name)  # type: ignore[union-attr]


def test_a_program_runs_in_python_workers_of_spark_and_its_results_come_back(spark_cluster: RunningCluster) -> None:
    env = spark_environment(spark_cluster)
    results = list(env.from_collection(range(1, 101)).map(worker_of_map).execute_and_collect())
    assert sorted(value for value, *_ in results) == list(range(1, 101))
    (java,) = java_processes_of(spark_cluster)
    workers = {child.pid for child in java.children(recursive=True)}
    assert {pid for _, pid, _ in results} <= workers
    assert {program for *_, program in results} == {"flinkpy.spark.worker_daemon"}, "that has loaded what they need"


def test_operators_around_a_spark_region_stay_in_native_tasks(spark_cluster: RunningCluster) -> None:
    env = spark_environment(spark_cluster, 2, **{"execution.batch.backend": "native"})
    before = env.from_sequence(1, 50).map(lambda value: (value, os.getpid()))
    inside = before.map(lambda pair: (*pair, os.getpid())).set_batch_backend("spark")
    after = inside.key_by(lambda triple: triple[0] % 5).reduce(max)
    results = list(after.map(lambda triple: (*triple, os.getpid())).execute_and_collect())
    task_executor = spark_cluster.task_executors[0].popen.pid
    assert sorted(value for value, *_ in results) == [46, 47, 48, 49, 50]
    assert {(first, last) for _, first, _, last in results} == {(task_executor, task_executor)}
    assert all(middle != task_executor for _, _, middle, _ in results)


def test_the_plan_shows_where_operators_run_and_why(spark_cluster: RunningCluster) -> None:
    env = spark_environment(spark_cluster)
    env.from_collection([1]).map(str).print()
    nodes = json.loads(env.get_execution_plan())["nodes"]
    assert [(node["backend"], node["backend_reason"]) for node in nodes] == [
        ("spark", "execution.batch.backend is spark"),
        ("spark", "execution.batch.backend is spark"),
        ("native", "it writes to the process of the task"),
    ]


def test_the_error_of_a_function_is_shown_before_the_one_of_spark(spark_cluster: RunningCluster) -> None:
    def divide(value: int) -> float:
        return 1 / (value - 7)

    env = spark_environment(spark_cluster)
    with pytest.raises(JobExecutionError) as caught:
        list(env.from_collection(range(10)).map(divide).name("Divide").execute_and_collect())
    text = str(caught.value)
    assert "return 1 / (value - 7)" in text
    assert "operator Divide: ZeroDivisionError: division by zero" in text.splitlines()[-1]
    assert "pyspark" not in text
    assert "\n\nSpark: " in text and " failed; Spark jobs " in text


def test_a_cancelled_job_stops_its_spark_jobs_and_keeps_the_session(
    spark_cluster: RunningCluster, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    env = spark_environment(spark_cluster)
    env.from_collection(range(10)).map(gate.pass_at(5)).print()
    client = env.execute_async("held")
    wait_until(lambda: gate.arrivals, "a worker at the gate", SPARK_DEADLINE_S)
    (java,) = java_processes_of(spark_cluster)
    (held,) = gate.arrivals
    client.cancel().result()
    wait_for_state(spark_cluster, str(client.get_job_id()), JobState.CANCELED)
    wait_until(lambda: not psutil.pid_exists(held), "the end of the worker", SPARK_DEADLINE_S)
    assert list(spark_environment(spark_cluster).from_collection([1]).map(str).execute_and_collect()) == ["1"]
    assert java_processes_of(spark_cluster) == [java]


def test_a_region_runs_although_the_process_that_waited_for_it_was_killed(spark_cluster: RunningCluster) -> None:
    def waiting() -> list[psutil.Process]:
        """Returns the processes that the template of regions has forked. No region runs."""
        task_executor = psutil.Process(spark_cluster.task_executors[0].popen.pid)
        (template,) = [child for child in task_executor.children() if "flinkpy.spark.region_main" in child.cmdline()]
        return [child for child in template.children() if child.status() != psutil.STATUS_ZOMBIE]

    def run() -> list[str]:
        return list(spark_environment(spark_cluster, 1).from_collection([1]).map(str).execute_and_collect())

    assert run() == ["1"]
    wait_until(lambda: len(waiting()) == 1, "a process for the next region", SPARK_DEADLINE_S)
    (first,) = waiting()
    first.kill()
    assert run() == ["1"]
    wait_until(lambda: [process != first for process in waiting()] == [True], "another process", SPARK_DEADLINE_S)


def test_jobs_share_one_session_at_the_same_time(spark_cluster: RunningCluster, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    env = spark_environment(spark_cluster, parallelism=1)
    env.from_collection([1]).map(gate.pass_at(1)).print()
    waiting = env.execute_async("waiting")
    wait_until(lambda: gate.arrivals, "a worker at the gate", SPARK_DEADLINE_S)
    quick = spark_environment(spark_cluster, parallelism=1)
    assert list(quick.from_collection([2]).map(str).execute_and_collect()) == ["2"]
    assert len(java_processes_of(spark_cluster)) == 1
    gate.open()
    waiting.get_job_execution_result().result()


def test_jobs_with_other_settings_run_at_the_same_time_and_their_sessions_end(
    spark_cluster: RunningCluster, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    env = spark_environment(spark_cluster, parallelism=1)
    env.from_collection([1]).map(gate.pass_at(1)).print()
    waiting = env.execute_async("waiting")
    wait_until(lambda: gate.arrivals, "a worker at the gate", SPARK_DEADLINE_S)
    (java,) = java_processes_of(spark_cluster)
    other = {
        "execution.batch.spark.conf.spark.sql.shuffle.partitions": "3",
        "execution.batch.spark.session.idle-timeout": "1 s",
    }
    quick = spark_environment(spark_cluster, parallelism=1, **other)
    assert list(quick.from_collection([2]).map(str).execute_and_collect()) == ["2"]
    gate.open()
    waiting.get_job_execution_result().result()
    wait_until(lambda: java_processes_of(spark_cluster) == [java], "the end of the unused session", SPARK_DEADLINE_S)
    assert "which no job has used for 1 s" in spark_cluster.log("taskexecutor-1")


def test_two_jobs_have_different_modules_of_one_name_at_the_same_time(
    spark_cluster: RunningCluster, tmp_path: Path
) -> None:
    """Both jobs ship a module. The TaskExecutor has one slot for each, so their tasks share its process."""
    gate = Gate(tmp_path)

    def word_after(passes: Any) -> Any:
        def word(value: int) -> str:
            from clashing_module import WORD  # type: ignore[import-not-found]

            return str(WORD) + str(passes(value))

        return word

    def program(word: str, passes: Any) -> Any:
        path = tmp_path / word / "clashing_module.py"
        path.parent.mkdir()
        path.write_text(f"WORD = {word!r}\n")
        env = spark_environment(spark_cluster, parallelism=1)
        env.add_python_file(str(path))
        return env.from_collection([1]).map(word_after(passes)).execute_and_collect()

    held = program("first", gate.pass_at(1))
    wait_until(lambda: gate.arrivals, "a worker at the gate", SPARK_DEADLINE_S)
    assert list(program("second", str)) == ["second1"]
    gate.open()
    assert list(held) == ["first1"]


class Counting(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_int_counter("seen")

    def map(self, value: Any) -> Any:
        self.seen.add(1)
        return value


def test_accumulators_count_every_record_once(spark_cluster: RunningCluster) -> None:
    env = spark_environment(spark_cluster)
    counted = env.from_collection(range(1000)).rebalance().map(Counting())
    counted.key_by(lambda value: value % 3).reduce(lambda one, other: one + other).print()
    assert env.execute().get_accumulator_result("seen") == 1000


def test_metrics_show_the_progress_of_spark(spark_cluster: RunningCluster, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    env = spark_environment(spark_cluster, parallelism=1)
    env.from_collection(range(3)).map(gate.pass_at(2)).print()
    client = env.execute_async("measured")
    wait_until(lambda: gate.arrivals, "a worker at the gate", SPARK_DEADLINE_S)
    job_id = str(client.get_job_id())

    def metrics() -> dict[str, int]:
        printed = spark_cluster.flinkpy("metrics", job_id, "-f", "*spark*", "--json").stdout
        return {one["name"]: one["value"] for one in json.loads(printed)["metrics"]} if printed else {}

    running = wait_until(lambda: (now := metrics()).get("sparkTasks", 0) > 0 and now, "a task of Spark's")
    assert running["sparkTasksDone"] < running["sparkTasks"]
    told = spark_cluster.flinkpy("info", job_id).stdout
    assert (
        "\n  Source: Collection Source: Python worker, because Spark cannot do it itself: a CollectionSource\n" in told
    )
    assert "\n  Map: Python worker, because it calls a function of the program\n" in told
    gate.open()
    client.get_job_execution_result().result()


def test_the_log_names_the_jobs_and_stages_of_spark(spark_cluster: RunningCluster) -> None:
    env = spark_environment(spark_cluster)
    env.from_collection([1, 2]).map(str).name("Lineage").print()
    job_id = str(env.execute().get_job_id())
    told = spark_cluster.flinkpy("info", job_id).stdout
    assert "\nIn Spark: Source: Collection Source, Lineage (execution.batch.backend is spark)\n" in told
    log = spark_cluster.log("taskexecutor-1")
    (line,) = [line for line in log.splitlines() if "Lineage" in line and "; Spark jobs " in line]
    assert "stages, " in line and " tasks" in line and "; Spark jobs " in line
    # A record of the process of the region names the task that the region is.
    assert re.search(rf" \[[^\]]* {job_id} \| [^\]]* \(1/1\)#0", line), line


def test_functions_can_import_modules_and_read_files_of_their_job(
    spark_cluster: RunningCluster, tmp_path: Path
) -> None:
    for number, text in ((1, "first"), (2, "second")):
        directory = tmp_path / str(number)
        directory.mkdir()
        (directory / "brought_along.py").write_text(f"def word():\n    return {text!r}\n")
        (directory / "table.txt").write_text(f"table of the {text}")
        env = spark_environment(spark_cluster)
        env.add_python_file(str(directory / "brought_along.py"))
        env.register_cached_file(str(directory / "table.txt"), "table")
        assert list(env.from_collection([1]).map(UsesFiles()).execute_and_collect()) == [(text, f"table of the {text}")]


class UsesFiles(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.path = runtime_context.get_distributed_cache().get_file("table")

    def map(self, value: Any) -> Any:
        import brought_along  # type: ignore[import-not-found]

        return brought_along.word(), Path(self.path).read_text()


def test_many_records_pass_through_spark(spark_cluster: RunningCluster) -> None:
    """The records exceed the memory on both sides, as columns and as Python objects."""
    env = spark_environment(spark_cluster, 2, **{"execution.batch.backend": "native"})
    count = 300_000
    typed = env.from_sequence(1, count).map(lambda value: value, Types.LONG())
    objects = typed.map(lambda value: {"value": value, "text": "x" * 20}).set_batch_backend("spark")
    sums = (
        objects.map(lambda each: each["value"]).key_by(lambda value: value % 2).reduce(lambda one, other: one + other)
    )
    assert sum(sums.execute_and_collect()) == count * (count + 1) // 2
