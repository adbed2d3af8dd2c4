"""User mistakes end in one typed error that names the culprit, and leave no partial results."""

from __future__ import annotations

import platform
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from clusters import RunningCluster
from job_support import environment, wait_until_idle

from flinkpy import __version__
from flinkpy._proto import job_pb2
from flinkpy.common import Types, WatermarkStrategy
from flinkpy.common.errors import (
    FunctionSerializationError,
    InputNotFoundError,
    JobExecutionError,
    JobSubmissionError,
    VersionMismatchError,
)
from flinkpy.connectors.file_sink import FileSink
from flinkpy.connectors.file_source import FileSource
from flinkpy.datastream.formats.parquet import ParquetBulkWriters

PAIR = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.LONG()])


@pytest.fixture
def cluster(shared_cluster: RunningCluster) -> RunningCluster:
    return shared_cluster


def read_csv(cluster: RunningCluster, path: Path, parallelism: int = 2):
    env = environment(cluster, parallelism)
    source = FileSource.for_csv(str(path), schema=PAIR, header=False)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "csv")


def test_the_error_names_a_missing_input_file(cluster: RunningCluster, tmp_path: Path) -> None:
    with pytest.raises((JobExecutionError, InputNotFoundError), match=r"nowhere\.csv"):
        read_csv(cluster, tmp_path / "nowhere.csv").execute_and_collect(limit=1)
    wait_until_idle(cluster)


def test_the_error_of_a_row_that_does_not_parse_names_the_row_and_its_file(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    lines = [f"{i},{i}" for i in range(5_000)]
    lines[4_321] = "4321,oops"
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    (inputs / "good.csv").write_text("1,2\n")
    (inputs / "bad.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(JobExecutionError) as raised, read_csv(cluster, inputs).execute_and_collect() as results:
        list(results)
    text = str(raised.value)
    assert "bad.csv" in text and "row 4322" in text and "oops" in text and "'b'" in text
    wait_until_idle(cluster)


def test_the_error_names_a_function_that_cannot_be_pickled_and_nothing_is_submitted(cluster: RunningCluster) -> None:
    lock = threading.Lock()

    def guarded(value: int) -> int:
        with lock:
            return value

    before = cluster.client.list_jobs()
    env = environment(cluster)
    env.from_sequence(1, 3).map(guarded).print()
    with pytest.raises(FunctionSerializationError) as raised:
        env.execute()
    assert "guarded" in str(raised.value) and "lock" in str(raised.value)
    assert cluster.client.list_jobs() == before


def test_the_error_of_a_job_that_needs_more_slots_than_exist_says_how_many(cluster: RunningCluster) -> None:
    env = environment(cluster, 5, **{"slot.request.timeout": "300 ms"})
    # One pipelined region: its subtasks exchange records, so none can run before the others.
    env.from_sequence(1, 3).rebalance().map(lambda n: n).print()
    with pytest.raises(JobExecutionError, match="slot") as raised:
        env.execute()
    assert "5" in str(raised.value)
    wait_until_idle(cluster)


def test_a_failed_job_leaves_no_half_written_file(cluster: RunningCluster, tmp_path: Path) -> None:
    def fail_late(n: int) -> int:
        if n == 900_000:
            raise RuntimeError("late")
        return n

    env = environment(cluster)
    schema = Types.ROW_NAMED(["n"], [Types.LONG()])
    rows = env.from_sequence(1, 1_000_000).map(fail_late).map(lambda n: (n,), Types.TUPLE([Types.LONG()]))
    sink = FileSink.for_bulk_format(str(tmp_path / "out"), ParquetBulkWriters.for_row_type(schema)).build()
    rows.map(lambda t: t, Types.TUPLE([Types.LONG()])).sink_to(sink)
    with pytest.raises(JobExecutionError, match="late"):
        env.execute()
    wait_until_idle(cluster)
    # The output of the other subtask stays: without checkpoints its file is committed at the end of its input.
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert [path.name for path in files if path.name.startswith(".")] == []
    assert sum(pq.read_metadata(path).num_rows for path in files) in (0, 500_000)


def test_the_error_names_a_file_whose_content_does_not_match_its_format(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    pq.write_table(pa.table({"n": [1, 2]}), inputs / "a-good.parquet")
    (inputs / "b-bad.parquet").write_bytes(b"no parquet at all")
    env = environment(cluster)
    source = FileSource.for_parquet(str(inputs))
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "parquet")
    with pytest.raises(JobExecutionError, match=r"b-bad\.parquet"), stream.execute_and_collect() as results:
        list(results)
    wait_until_idle(cluster)


def graph(**changes: object) -> job_pb2.JobGraph:
    operator = job_pb2.OperatorDescriptor(operator_id="0" * 32, name="op", factory_pickle=b"x")
    vertex = job_pb2.JobVertex(id="1" * 32, name="v", parallelism=1, max_parallelism=-1, chain=[operator])
    fields = {"client_version": __version__, "python_version": platform.python_version(), **changes}
    return job_pb2.JobGraph(job_id="2" * 32, name="job", vertices=[vertex], **fields)  # type: ignore[arg-type]


def test_a_graph_with_a_missing_data_set_is_refused_by_name(cluster: RunningCluster) -> None:
    before = cluster.client.list_jobs()
    broken = graph()
    broken.vertices[0].inputs.add(source_data_set_id="f" * 32)
    with pytest.raises(JobSubmissionError, match="f" * 32):
        cluster.client.submit_job(broken)
    assert cluster.client.list_jobs() == before


def test_the_error_for_a_client_of_another_release_names_both_versions(cluster: RunningCluster) -> None:
    with pytest.raises(VersionMismatchError, match=r"0\.0\.1"):
        cluster.client.submit_job(graph(client_version="0.0.1"))
