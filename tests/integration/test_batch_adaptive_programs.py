"""Batch programs whose operators have no explicit parallelism, on real processes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import environment

from flinkpy._proto import job_pb2
from flinkpy.common import Encoder, Types, WatermarkStrategy
from flinkpy.datastream import MapFunction, RuntimeContext, RuntimeExecutionMode, StreamExecutionEnvironment
from flinkpy.datastream.connectors.file_system import FileSink, FileSource, StreamFormat

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
VOLUME = "execution.batch.adaptive.auto-parallelism.avg-data-volume-per-task"


def batch(cluster: RunningCluster, parallelism: int = 4, **properties: str) -> StreamExecutionEnvironment:
    env = environment(cluster, parallelism, **properties)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return env


class WithSubtask(MapFunction):
    """Emits (value, subtask index, parallelism of the runtime context)."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._own = (runtime_context.get_index_of_this_subtask(), runtime_context.get_number_of_parallel_subtasks())

    def map(self, value: Any) -> Any:
        return (*value, *self._own)


def vertex(cluster: RunningCluster, job_id: str, part_of_name: str) -> job_pb2.VertexDetails:
    details = cluster.client.request_job(job_id)
    return next(one for one in details.vertices if part_of_name in one.name)


def counted_by_key(env: StreamExecutionEnvironment, numbers: int, keys: int, output: Path) -> str:
    """Runs a job that writes key, count, subtask and parallelism, and returns its id."""
    (
        env.from_sequence(1, numbers)
        .map(lambda x: (x % keys, 1), output_type=PAIR)
        .key_by(lambda p: p[0])
        .sum(1)
        .map(WithSubtask())
        .map(lambda row: ",".join(map(str, row)), output_type=Types.STRING())
        .sink_to(FileSink.for_row_format(str(output), Encoder.simple_string_encoder()).build())
    )
    client = env.execute_async("counting")
    client.get_job_execution_result().result()
    return str(client.get_job_id())


def rows_of(output: Path) -> list[tuple[int, ...]]:
    files = [path for path in output.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    return sorted(tuple(map(int, line.split(","))) for path in files for line in path.read_text().splitlines())


@pytest.mark.parametrize(("volume", "expected"), [("16 mb", 1), ("100 kb", 4)])
def test_the_data_volume_decides_the_parallelism_and_each_key_goes_to_one_subtask(
    shared_cluster: RunningCluster, tmp_path: Path, volume: str, expected: int
) -> None:
    job_id = counted_by_key(batch(shared_cluster, **{VOLUME: volume}), 70_000, 700, tmp_path / "out")

    rows = rows_of(tmp_path / "out")
    assert [row[:2] for row in rows] == [(key, 100) for key in range(700)]
    assert {row[3] for row in rows} == {expected}
    assert len({row[2] for row in rows}) == expected
    assert max(Counter(row[0] for row in rows).values()) == 1
    keyed = vertex(shared_cluster, job_id, "Keyed")
    assert keyed.parallelism == len(keyed.subtasks) == expected
    assert "of input at" in keyed.parallelism_reason


def test_info_shows_the_decided_parallelism_and_why(shared_cluster: RunningCluster, tmp_path: Path) -> None:
    job_id = counted_by_key(batch(shared_cluster), 1_000, 10, tmp_path / "out")

    shown = shared_cluster.flinkpy("info", job_id).stdout

    assert "at 16.0 MB per task, at most 4" in shown


def test_a_file_source_gets_as_many_subtasks_as_there_are_files(shared_cluster: RunningCluster, tmp_path: Path) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    for number in range(2):
        (directory / f"{number}.txt").write_text("".join(f"{number},{line}\n" for line in range(50)))
    env = batch(shared_cluster)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(directory)).build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    lines.map(lambda line: line.upper(), output_type=Types.STRING()).sink_to(
        FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
    )
    client = env.execute_async("files")
    client.get_job_execution_result().result()

    assert len(rows_of(tmp_path / "out")) == 100
    found = vertex(shared_cluster, str(client.get_job_id()), "files")
    assert (found.parallelism, found.parallelism_reason) == (2, "2 splits, at most 4")
