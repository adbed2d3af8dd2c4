"""Commits of batch sinks when processes are killed: the output of each sink appears exactly once."""

from __future__ import annotations

from pathlib import Path

from clusters import RunningCluster, StartCluster
from commit_faults import AFTER, BETWEEN, SELF, Faults, FaultySink
from job_support import environment

from flinkpy.common import Encoder, Types
from flinkpy.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from flinkpy.datastream.connectors.file_system import FileSink

NUM_RECORDS = 1000
RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "20",
    "restart-strategy.fixed-delay.delay": "100 ms",
    "sink.committer.retries": "0",
}


def add_sinks(env: StreamExecutionEnvironment, directory: Path, faults: Faults, *names: str) -> None:
    numbers = env.from_sequence(1, NUM_RECORDS).map(str, Types.STRING())
    for name in names:
        sink = FileSink.for_row_format(str(directory / name), Encoder.simple_string_encoder()).build()
        numbers.sink_to(FaultySink(sink, faults, name))


def assert_exactly_once(directory: Path) -> None:
    files = [path for path in directory.rglob("*") if path.is_file() and not path.name.startswith(".")]
    lines = [int(line) for path in files for line in path.read_text().split()]
    assert len(lines) == NUM_RECORDS, f"{len(lines)} records in {directory.name}"
    assert sorted(lines) == list(range(1, NUM_RECORDS + 1))


def native_environment(cluster: RunningCluster, parallelism: int = 2) -> StreamExecutionEnvironment:
    env = environment(cluster, parallelism, **RESTARTS)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return env


def test_killed_task_executors_commit_nothing_twice(start_cluster: StartCluster, tmp_path: Path) -> None:
    """The first commit ends with the death of its TaskExecutor, the second one is interrupted by the death of both."""
    cluster = start_cluster(2, restart_services=True)
    faults = Faults(tmp_path / "faults")
    pids = [process.popen.pid for process in cluster.task_executors]
    faults.kill("first", AFTER, SELF)
    faults.kill("second", BETWEEN, *pids)
    env = native_environment(cluster)
    add_sinks(env, tmp_path, faults, "first", "second")
    env.execute("two sinks")
    assert faults.armed == []
    for name in ("first", "second"):
        assert_exactly_once(tmp_path / name)
