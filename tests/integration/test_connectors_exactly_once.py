"""Built-in sources and sinks with failures: every input record is in the committed output once."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import FIXED_DELAY, environment

from flinkpy.common import Encoder, Types, WatermarkStrategy
from flinkpy.connectors.file_sink import FileSink
from flinkpy.connectors.file_sink_config import BucketAssigner, RollingPolicy
from flinkpy.connectors.file_source import FileSource
from flinkpy.datastream import MapFunction
from flinkpy.datastream.checkpointed_function import CheckpointListener
from flinkpy.datastream.formats.csv import CsvBulkWriters, CsvSchema
from flinkpy.formats.file_format import StreamFormat

NUM_RECORDS = 40_000
CHECKPOINTS = {**FIXED_DELAY, "execution.checkpointing.interval": "100 ms"}


class FailOnce(MapFunction, CheckpointListener):
    """An identity function that fails once for each number in `at`.

    It fails at the first record that is not below the number after a checkpoint has completed. Until then it is slow.
    """

    def __init__(self, directory: Path, at: set[int]) -> None:
        self._directory = str(directory)
        self._at = at
        self._completed = 0

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._completed = checkpoint_id

    def map(self, value: Any) -> Any:
        number = int(str(value).split(",", 1)[0])
        if number % 50 == 0 and number_of_failures(Path(self._directory)) < len(self._at):
            time.sleep(0.008)
        due = [at for at in self._at if number >= at]
        if self._completed and due:
            for at in due:
                try:
                    os.close(os.open(os.path.join(self._directory, f"failed-{at}"), os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    continue
                raise RuntimeError(f"failing once, at {number}")
        return value


def committed_lines(output: Path) -> Counter[str]:
    files = [path for path in output.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return Counter(line for path in files for line in path.read_text().splitlines())


def number_of_failures(directory: Path) -> int:
    return len(list(directory.glob("failed-*")))


def input_file(tmp_path: Path) -> Path:
    path = tmp_path / "input.txt"
    path.write_text("".join(f"{number},{number * number}\n" for number in range(NUM_RECORDS)))
    return path


@pytest.mark.parametrize(
    "policy",
    ["in progress over checkpoints", "rolled at each", pytest.param("rolled by size", marks=pytest.mark.chaos)],
)
def test_text_files_are_copied_exactly_once(shared_cluster: RunningCluster, tmp_path: Path, policy: str) -> None:
    rolling = {
        "in progress over checkpoints": RollingPolicy.default_rolling_policy(),
        "rolled at each": RollingPolicy.on_checkpoint_rolling_policy(),
        "rolled by size": RollingPolicy.default_rolling_policy(part_size=2_000),
    }[policy]
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(input_file(tmp_path))).build()
    sink = (
        FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(rolling)
        .build()
    )
    env = environment(shared_cluster, **CHECKPOINTS)
    fail = FailOnce(tmp_path, {8_000, 25_000})
    env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").map(fail, Types.STRING()).rebalance().sink_to(
        sink
    )
    env.execute("text")
    assert number_of_failures(tmp_path) == 2
    expected = Counter(f"{number},{number * number}" for number in range(NUM_RECORDS))
    assert committed_lines(tmp_path / "out") == expected
    assert [path for path in (tmp_path / "out").rglob(".*") if path.is_file()] == []


def test_csv_files_contain_every_number_once(shared_cluster: RunningCluster, tmp_path: Path) -> None:
    schema = CsvSchema.builder().add_number_column("number").build()
    sink = (
        FileSink.for_bulk_format(str(tmp_path / "out"), CsvBulkWriters.for_schema(schema))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .build()
    )
    env = environment(shared_cluster, **CHECKPOINTS)
    numbers = env.from_sequence(0, NUM_RECORDS - 1).map(FailOnce(tmp_path, {12_000}), Types.LONG())
    numbers.map(lambda number: (number,), Types.ROW_NAMED(["number"], [Types.LONG()])).sink_to(sink)
    env.execute("csv")
    assert number_of_failures(tmp_path) == 1
    assert committed_lines(tmp_path / "out") == Counter(map(str, range(NUM_RECORDS)))


def test_a_collected_result_continues_after_failures(shared_cluster: RunningCluster, tmp_path: Path) -> None:
    env = environment(shared_cluster, **CHECKPOINTS)
    numbers = env.from_sequence(0, NUM_RECORDS - 1).map(FailOnce(tmp_path, {5_000, 12_500}), Types.LONG())
    with numbers.execute_and_collect("collected") as results:
        assert Counter(results) == Counter(range(NUM_RECORDS))
    assert number_of_failures(tmp_path) == 2


def test_the_records_of_a_collection_are_collected_once_and_in_order(
    shared_cluster: RunningCluster, tmp_path: Path
) -> None:
    env = environment(shared_cluster, parallelism=1, **CHECKPOINTS)
    values = env.from_collection(list(range(NUM_RECORDS)), Types.LONG()).map(FailOnce(tmp_path, {15_000}), Types.LONG())
    with values.execute_and_collect("collection") as results:
        assert list(results) == list(range(NUM_RECORDS))
    assert number_of_failures(tmp_path) == 1
