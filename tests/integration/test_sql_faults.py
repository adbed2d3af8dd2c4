"""kill -9 of a TaskExecutor in the middle of a query, and savepoints of queries: the table is that of a calm run."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from clusters import RunningCluster, StartCluster
from job_support import busy_task_executor, environment, wait_until
from verifying.harness import RESTARTS
from verifying.held_nexmark import HeldNexmark

from benchmarks.nexmark.statements import QUERIES, Input, split, with_input
from flinkpy.common import Row
from flinkpy.common.states import JobState
from flinkpy.connectors.nexmark.options import NexmarkOptions
from flinkpy.connectors.nexmark.source import NexmarkSource
from flinkpy.table import StreamTableEnvironment
from flinkpy.table.materialized_rows import materialized

#: Six seconds of events. Each of two generators makes an event per millisecond, so no two bids for an auction have the
#: same time, and which of them wins is a matter of the input alone.
EVENTS = Input(events=12_000, rate=2_000)
#: The source waits for a file that a test makes with half of the events.
HELD_AFTER_S = 3.0
#: The fault comes after this number of checkpoints, when most events of the first half are in the state.
CHECKPOINTS = 8
CHECKPOINTING = {**RESTARTS, "execution.checkpointing.interval": "300 ms"}
MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "1000",
}

CHAOS = pytest.mark.chaos

Table = Counter[tuple[Any, ...]]


def nexmark(
    cluster: RunningCluster, parallelism: int = 2, hurry: Path | None = None, **settings: str
) -> StreamTableEnvironment:
    """Returns an environment with Nexmark's tables.

    Args:
        cluster: where its jobs run.
        parallelism: that of its jobs.
        hurry: the file that the source waits for; None if it emits all events as fast as possible.
        settings: options of the jobs.
    """
    tables = StreamTableEnvironment.create(environment(cluster, parallelism, **settings))
    for statement in split(with_input((QUERIES / "events.sql").read_text(), EVENTS)):
        if hurry is not None:
            statement = statement.replace(
                "'connector' = 'nexmark'", "'connector' = 'nexmark', 'max-emit-speed' = 'false'"
            )
        tables.execute_sql(statement)
    return tables


@pytest.fixture
def hurry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the source waits for if its rate is limited."""
    path = tmp_path / "hurry"

    def source(options: NexmarkOptions) -> NexmarkSource:
        return NexmarkSource(options) if options.max_emit_speed else HeldNexmark(options, HELD_AFTER_S, path)

    monkeypatch.setattr("flinkpy.table.connectors.nexmark.NexmarkSource", source)
    return path


def query(name: str) -> str:
    """Returns the SELECT of a query of Nexmark."""
    insert = split((QUERIES / f"{name}.sql").read_text())[-1]
    target, _, select = insert.partition("\n")
    assert target == f"INSERT INTO nexmark_{name}"
    return select


class Running:
    """A query whose changes a thread reads."""

    def __init__(self, cluster: RunningCluster, client: Any, changes: Future[list[Row]]) -> None:
        self._cluster = cluster
        self._client = client
        self._changes = changes

    @property
    def job_id(self) -> str:
        return str(self._client.get_job_id())

    def statistics(self) -> Any:
        return self._cluster.client.request_checkpoint_statistics(self.job_id)

    def wait_for_checkpoints(self) -> int:
        """Waits until some checkpoints have completed. Returns the id of the latest."""
        wait_until(lambda: self.statistics().num_completed >= CHECKPOINTS, f"{CHECKPOINTS} checkpoints")
        latest = self.statistics().latest_completed
        assert latest.state_size_bytes > 0
        return int(latest.checkpoint_id)

    def changes(self) -> list[pa.RecordBatch]:
        """Waits for the end, and returns all changes."""
        found = self._changes.result()
        assert self._cluster.client.request_job_status(self.job_id) is JobState.FINISHED
        return found


@contextmanager
def started(cluster: RunningCluster, tables: StreamTableEnvironment, name: str) -> Iterator[Running]:
    """Runs a query of Nexmark. The end of the block ends it if it still runs."""
    result = tables.execute_sql(query(name))
    with ThreadPoolExecutor(1) as reader, result.collect_batches() as changes:
        yield Running(cluster, result.get_job_client(), reader.submit(list, changes))


def table(changes: list[pa.RecordBatch]) -> Table:
    """Returns how often the table has each row. A change that removes a row that is not there is an error."""
    columns = changes[0].schema
    has_kinds = columns.names[0] == "op"
    rows = materialized(changes, columns.remove(0) if has_kinds else columns, has_kinds=has_kinds)
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def expected(cluster: RunningCluster, name: str) -> Table:
    """Returns the table that a run without checkpoints and faults makes."""
    with started(cluster, nexmark(cluster), name) as run:
        found = table(run.changes())
    assert found
    return found


def cases() -> list[Any]:
    """Returns all queries with each kind of state. Two are part of `make test`, the others of `make chaos`."""
    in_every_run = {("q4", "hashmap"), ("q18", "rocksdb")}
    return [
        pytest.param(name, backend, id=f"{name}-{backend}", marks=[] if (name, backend) in in_every_run else [CHAOS])
        for name in ("q4", "q5", "q9", "q18", "q20")
        for backend in ("hashmap", "rocksdb")
    ]


def assert_survives_a_kill(cluster: RunningCluster, hurry: Path, name: str, **settings: str) -> None:
    """Kills a TaskExecutor that runs the query, after some checkpoints, and checks the table."""
    directory = {"execution.checkpointing.dir": str(hurry.parent / "checkpoints")}
    with started(cluster, nexmark(cluster, 2, hurry, **CHECKPOINTING, **directory, **settings), name) as run:
        checkpoint = run.wait_for_checkpoints()
        os.kill(busy_task_executor(cluster, run.job_id), signal.SIGKILL)
        hurry.touch()
        found = table(run.changes())
    assert cluster.client.request_job(run.job_id).num_restarts >= 1
    assert run.statistics().latest_restored.checkpoint_id >= checkpoint
    assert found == expected(cluster, name)


@pytest.mark.parametrize(("name", "backend"), cases())
def test_a_killed_task_executor_changes_nothing_in_the_table(
    start_cluster: StartCluster, hurry: Path, name: str, backend: str
) -> None:
    cluster = start_cluster(3)  # two run the job, and one takes the place of the killed one
    assert_survives_a_kill(cluster, hurry, name, **{"state.backend.type": backend})


@CHAOS
@pytest.mark.parametrize("name", ["q4", "q18", "q20"])
def test_folded_changes_are_not_lost_with_a_task_executor(start_cluster: StartCluster, hurry: Path, name: str) -> None:
    assert_survives_a_kill(start_cluster(3), hurry, name, **MINI_BATCH)


def write_bids(tables: StreamTableEnvironment, folder: Path) -> Any:
    """Starts query 20, whose rows never change, with files as its sink. Returns the client of the job."""
    create, insert = split((QUERIES / "q20.sql").read_text())
    declared = create.partition(" WITH (")[0]
    tables.execute_sql(f"{declared} WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json')")
    return tables.execute_sql(insert).get_job_client()


def lines(folder: Path) -> Counter[str]:
    """Returns the rows in the finished files."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    return Counter(line for path in files for line in path.read_text().splitlines())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param((2, "hashmap"), (3, "rocksdb"), id="2-3"),
        pytest.param((3, "rocksdb"), (2, "hashmap"), id="3-2", marks=CHAOS),
    ],
)
def test_a_savepoint_moves_a_query_to_another_parallelism_and_backend(
    wide_cluster: RunningCluster, tmp_path: Path, hurry: Path, before: tuple[int, str], after: tuple[int, str]
) -> None:
    client = wide_cluster.client
    settings = {**CHECKPOINTING, "execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    first = nexmark(wide_cluster, before[0], hurry, **settings, **{"state.backend.type": before[1]})
    job_id = str(write_bids(first, tmp_path / "moved").get_job_id())
    wait_until(lambda: client.request_checkpoint_statistics(job_id).num_completed >= CHECKPOINTS, "checkpoints")
    settings["execution.state-recovery.path"] = client.stop_with_savepoint(job_id, str(tmp_path / "savepoints"))
    written = lines(tmp_path / "moved")
    hurry.touch()
    second = nexmark(wide_cluster, after[0], hurry, **settings, **{"state.backend.type": after[1]})
    write_bids(second, tmp_path / "moved").get_job_execution_result().result()
    calm = nexmark(wide_cluster, before[0])  # the events depend on the number of generators, that of the first start
    write_bids(calm, tmp_path / "calm").get_job_execution_result().result()
    assert 0 < written.total() < lines(tmp_path / "moved").total()
    assert lines(tmp_path / "moved") == lines(tmp_path / "calm")


def test_the_reader_of_a_query_that_is_stopped_with_a_savepoint_gets_all_rows_up_to_it(
    wide_cluster: RunningCluster, tmp_path: Path
) -> None:
    # Checkpoints are rare, so that most rows are held back when the job stops.
    tables = StreamTableEnvironment.create(
        environment(wide_cluster, 2, **{"execution.checkpointing.interval": "1 min", "parallelism.default": "2"})
    )
    tables.execute_sql(
        "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', "
        "'fields.n.start' = '0', 'fields.n.end' = '100000000', 'rows-per-second' = '2000')"
    )
    result = tables.execute_sql("SELECT DISTINCT n FROM numbers")
    job = result.get_job_client()
    assert job is not None

    def received() -> int:
        return max(
            each.metrics.num_records_in for each in wide_cluster.client.request_job(str(job.get_job_id())).vertices
        )

    with ThreadPoolExecutor(1) as reader:
        rows = reader.submit(lambda: [row[0] for row in result.collect()])
        wait_until(lambda: received() > 1000, "rows")
        job.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
        read = sorted(rows.result())
    half = 50_000_000  # where the second generator begins
    first = sum(number < half for number in read)
    assert len(read) > 1000
    assert read == [*range(first), *range(half, half + len(read) - first)]
