"""Whole jobs on a real cluster: results, failures, and no remains."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster, StartCluster
from job_support import Gate, environment, wait_for_state, wait_until, wait_until_idle

from flinkpy.common import Types
from flinkpy.common.errors import JobCancelledError, JobExecutionError
from flinkpy.common.states import JobState
from flinkpy.datastream.functions import MapFunction


@pytest.fixture
def cluster(shared_cluster: RunningCluster) -> RunningCluster:
    return shared_cluster


def test_a_chain_of_functions_gives_the_results_of_plain_python(cluster: RunningCluster) -> None:
    env = environment(cluster)
    stream = env.from_sequence(1, 20_000).map(lambda x: x * 3).filter(lambda x: x % 2 == 0)
    with stream.execute_and_collect() as results:
        assert sorted(results) == [x * 3 for x in range(1, 20_001) if x * 3 % 2 == 0]
    wait_until_idle(cluster)


def test_a_keyed_count_crosses_processes(cluster: RunningCluster) -> None:
    env = environment(cluster)
    counts = (
        env.from_sequence(0, 9_999)
        .map(lambda x: (x % 17, 1), output_type=Types.TUPLE([Types.LONG(), Types.LONG()]))
        .key_by(lambda pair: pair[0])
        .sum(1)
    )
    last: Counter[int] = Counter()
    with counts.execute_and_collect() as results:
        for key, count in results:
            last[key] = max(last[key], count)
    assert last == Counter(x % 17 for x in range(10_000))
    wait_until_idle(cluster)


def test_untyped_objects_travel_between_processes(cluster: RunningCluster) -> None:
    env = environment(cluster)
    stream = env.from_collection([{"n": i, "odd": {i % 2}} for i in range(100)]).rebalance().map(lambda d: d)
    with stream.execute_and_collect() as results:
        assert sorted((d["n"], d["odd"]) for d in results) == [(i, {i % 2}) for i in range(100)]


def test_several_jobs_run_one_after_another_on_the_same_slots(cluster: RunningCluster) -> None:
    for size in (10, 1_000, 10):
        env = environment(cluster)
        with env.from_sequence(1, size).rebalance().map(lambda x: -x).execute_and_collect() as results:
            assert sorted(results) == list(range(-size, 0))
    wait_until_idle(cluster)


def test_a_user_exception_reaches_the_client_with_the_users_traceback_first(cluster: RunningCluster) -> None:
    def divide(x: int) -> float:
        return 1 / (x - 500)

    env = environment(cluster)
    env.from_sequence(1, 1_000).rebalance().map(divide).name("divider").print()
    with pytest.raises(JobExecutionError) as caught:
        env.execute("division")
    text = str(caught.value).lstrip()
    assert text.startswith("Traceback")
    assert text.index("return 1 / (x - 500)") < text.index("ZeroDivisionError") < text.index("division")
    assert "divider" in text
    first_frame = next(line for line in text.splitlines() if line.strip().startswith("File"))
    assert "test_job_execution.py" in first_frame
    wait_until_idle(cluster)


class FailsInOpen(MapFunction):
    def open(self, runtime_context: Any) -> None:
        raise RuntimeError("no open today")

    def map(self, value: Any) -> Any:
        return value


class FailsInClose(MapFunction):
    def close(self) -> None:
        raise RuntimeError("no close today")

    def map(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize("function", [FailsInOpen, FailsInClose])
def test_an_exception_in_open_or_close_fails_the_job(cluster: RunningCluster, function: type[MapFunction]) -> None:
    env = environment(cluster)
    env.from_sequence(1, 10).map(function()).print()
    with pytest.raises(JobExecutionError, match=r"no (open|close) today"):
        env.execute()
    wait_until_idle(cluster)


def test_a_function_that_exits_the_interpreter_fails_its_job_and_not_the_process(cluster: RunningCluster) -> None:
    import sys

    env = environment(cluster)
    env.from_sequence(1, 10).map(lambda x: sys.exit(3)).print()
    with pytest.raises(JobExecutionError, match=r"sys\.exit|SystemExit"):
        env.execute()
    wait_until_idle(cluster)
    assert all(process.popen.poll() is None for process in cluster.task_executors)


def test_a_running_job_can_be_cancelled(cluster: RunningCluster, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    env = environment(cluster)
    env.from_sequence(1, 1_000_000_000).map(gate.pass_at(10)).rebalance().map(lambda x: x).print()
    client = env.execute_async("endless")
    gate.wait_for_arrival()
    wait_for_state(cluster, str(client.get_job_id()), JobState.RUNNING)
    client.cancel().result()
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result()
    wait_until_idle(cluster)


def test_a_function_that_never_returns_is_interrupted(cluster: RunningCluster, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    wait_at_gate = gate.pass_at(1)

    def spin(x: int) -> int:
        wait_at_gate(x)
        while True:
            x += 1

    gate.open()
    env = environment(cluster, parallelism=1)
    env.from_sequence(1, 10).map(spin).print()
    client = env.execute_async("spinning")
    gate.wait_for_arrival()
    started = time.monotonic()
    client.cancel().result()
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result()
    assert time.monotonic() - started < 40
    wait_until_idle(cluster)


def test_a_function_that_cannot_be_interrupted_takes_its_process_down_and_the_job_ends(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    cluster = start_cluster(
        1, properties={"task.cancellation.interval": "200 ms", "task.cancellation.timeout": "1500 ms"}
    )
    gate = Gate(tmp_path)
    wait_at_gate = gate.pass_at(1)

    def swallow(x: int) -> int:
        wait_at_gate(x)
        while True:
            try:
                while True:
                    x += 1
            except BaseException:  # noqa: BLE001 - what this test is about
                continue

    gate.open()
    env = environment(cluster, parallelism=1)
    env.from_sequence(1, 10).map(swallow).print()
    client = env.execute_async("stuck")
    gate.wait_for_arrival()
    client.cancel().result()
    assert cluster.task_executors[0].popen.wait(30) == 1
    log = cluster.log("taskexecutor-1")
    assert "FATAL" in log and "task.cancellation.timeout" in log and "in swallow" in log
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result()


def test_a_shipped_module_is_found_and_another_job_sees_its_own(cluster: RunningCluster, tmp_path: Path) -> None:
    for version in ("one", "two"):
        home = tmp_path / version
        home.mkdir()
        (home / "shipped_module.py").write_text(f"def label(x):\n    return '{version}', x\n")
        env = environment(cluster)
        env.add_python_file(str(home / "shipped_module.py"))

        def label(x: int) -> Any:
            import shipped_module  # type: ignore[import-not-found]

            return shipped_module.label(x)

        with env.from_sequence(1, 3).map(label).execute_and_collect() as results:
            assert sorted(results) == [(version, 1), (version, 2), (version, 3)]
        wait_until_idle(cluster)


def test_no_file_of_a_job_stays_in_the_working_directories(start_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = start_cluster()
    (tmp_path / "m.py").write_text("")
    env = environment(cluster)
    env.add_python_file(str(tmp_path / "m.py"))
    with env.from_sequence(1, 10).execute_and_collect() as results:
        assert len(list(results)) == 10
    wait_until_idle(cluster)
    directories = list((tmp_path / "tmp").rglob("flinkpy-taskexecutor-*"))
    assert len(directories) == 2
    # The directories belong to the process. Files of tasks are removed in the background.
    own = [".lock", "blocking-shuffle", "localState", "tasks"]
    for directory in directories:
        wait_until(lambda d=directory: sorted(path.name for path in d.rglob("*")) == own, f"{directory} is clean")
