"""The commit of partitions: a success file for each partition whose records have all been written."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from connector_fakes import TestingWriterContext
from operator_fakes import GlobalSinkLife
from test_sink_operator import CHECKPOINTED

from flinkpy.common.clock import ManualClock
from flinkpy.common.errors import ConfigurationError, StateRestoreError
from flinkpy.common.serialization import Encoder
from flinkpy.common.typeinfo import Types
from flinkpy.connectors.file_committer import PendingFile
from flinkpy.connectors.file_sink import FileSink
from flinkpy.connectors.file_sink_config import BucketAssigner, OnCheckpointRollingPolicy
from flinkpy.connectors.partition_commit import (
    END_OF_TIME,
    CommittedPartition,
    PartitionCommitPolicy,
    PartitionCommitSettings,
    PartitionTimeExtractor,
    PendingPartitions,
    PolicyClass,
    WriterProgress,
)
from flinkpy.connectors.partition_committer import PartitionCommitter
from flinkpy.formats.bulk_writer import CsvBulkWriterFactory
from flinkpy.formats.csv_format import CsvOptions
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import schema_of
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.streaming.operators.committables import Committables

MINUTE = 60_000
AT_ONE = 1_704_070_800_000  # 2024-01-01 01:00 UTC
HOURLY = PartitionCommitSettings(extractor=PartitionTimeExtractor("$dt $hour:00:00"), delay_ms=60 * MINUTE)


class ByHour(BucketAssigner):
    def get_bucket_id(self, element, context):
        return f"dt=2024-01-01/hour={element:02d}"


def life_of(path: Path, settings: PartitionCommitSettings, parallelism: int = 2, restored=None) -> GlobalSinkLife:
    sink = (
        FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
        .with_bucket_assigner(ByHour())
        .with_rolling_policy(OnCheckpointRollingPolicy())
        .with_partition_commit(settings)
        .build()
    )
    return GlobalSinkLife(sink, parallelism, restored, CHECKPOINTED)


def write(life: GlobalSinkLife, subtask: int, hours: list[int], watermark_ms: int) -> None:
    operator = life.writers[subtask].operator
    operator.process_batch(Batch(hours))
    operator.process_watermark(Watermark(watermark_ms))


def complete(life: GlobalSinkLife, checkpoint_id: int):
    states = life.checkpoint(checkpoint_id)
    life.committer.operator.notify_checkpoint_complete(checkpoint_id)
    return states


def committed(path: Path) -> list[str]:
    return sorted(str(each.parent.relative_to(path)) for each in path.rglob("_SUCCESS"))


def test_a_partition_is_committed_when_the_watermarks_of_all_writers_have_passed_its_end(tmp_path: Path) -> None:
    life = life_of(tmp_path, HOURLY)
    write(life, 0, [1, 2], AT_ONE + 61 * MINUTE)
    write(life, 1, [1], AT_ONE + 60 * MINUTE)
    complete(life, 1)
    assert committed(tmp_path) == [], "the second writer has not passed the end of the hour, only reached it"
    write(life, 1, [], AT_ONE + 60 * MINUTE + 1)
    complete(life, 2)
    assert committed(tmp_path) == ["dt=2024-01-01/hour=01"]


def test_a_success_file_appears_only_when_the_checkpoint_with_the_last_files_is_complete(tmp_path: Path) -> None:
    life = life_of(tmp_path, HOURLY, parallelism=1)
    write(life, 0, [1], AT_ONE + 90 * MINUTE)
    life.checkpoint(1)
    assert committed(tmp_path) == []
    life.committer.operator.notify_checkpoint_complete(1)
    assert committed(tmp_path) == ["dt=2024-01-01/hour=01"]


def test_pending_partitions_survive_a_restart(tmp_path: Path) -> None:
    life = life_of(tmp_path, HOURLY)
    write(life, 0, [1], AT_ONE)
    write(life, 1, [2], AT_ONE)
    complete(life, 1)
    states = complete(life, 2)
    again = life_of(tmp_path, HOURLY, restored=states)
    for subtask in (0, 1):
        write(again, subtask, [], AT_ONE + 61 * MINUTE)
    complete(again, 3)
    assert committed(tmp_path) == ["dt=2024-01-01/hour=01"]
    again.finish()
    complete(again, 4)
    assert committed(tmp_path) == ["dt=2024-01-01/hour=01", "dt=2024-01-01/hour=02"], "the input has ended"


def test_other_numbers_of_writers_after_a_restart_start_with_unknown_watermarks(tmp_path: Path) -> None:
    pending = PendingPartitions()
    pending.add(["dt=2024-01-01/hour=01"], [WriterProgress(0, 1, AT_ONE + 61 * MINUTE)], 0)
    assert pending.complete(HOURLY, 0) == ["dt=2024-01-01/hour=01"]
    pending.add([], [WriterProgress(1, 2, AT_ONE + 61 * MINUTE)], 0)
    assert pending.complete(HOURLY, 0) == []
    pending.add([], [WriterProgress(0, 2, AT_ONE + 61 * MINUTE)], 0)
    assert pending.complete(HOURLY, 0) == ["dt=2024-01-01/hour=01"]


def test_a_partition_with_files_that_are_not_visible_yet_is_not_committed() -> None:
    pending = PendingPartitions()
    later = AT_ONE + 61 * MINUTE
    pending.add(["dt=2024-01-01/hour=01"], [WriterProgress(0, 1, later, ("dt=2024-01-01/hour=01",))], 0)
    assert pending.complete(HOURLY, 0) == []


class Request:
    def __init__(self, committable):
        self._committable = committable

    def get_committable(self):
        return self._committable

    def signal_already_committed(self) -> None:
        return


def pending_file(path: Path, partition: str, name: str) -> Request:
    directory = path / partition
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f".{name}").write_bytes(b"x")
    return Request(PendingFile(partition, f".{name}", name, 1))


def test_by_processing_time_a_partition_is_committed_at_its_age_and_again_after_late_files(tmp_path: Path) -> None:
    clock = ManualClock(0)
    settings = PartitionCommitSettings("_DONE", delay_ms=MINUTE)
    committer = PartitionCommitter(str(tmp_path), settings, clock)
    committer.commit([pending_file(tmp_path, "k=1", "a"), Request(WriterProgress(0, 1, 0))])
    clock.advance(MINUTE)
    committer.commit([Request(WriterProgress(0, 1, 0))])
    assert not (tmp_path / "k=1" / "_DONE").exists()
    clock.advance(1)
    committer.commit([Request(WriterProgress(0, 1, 0))])
    (tmp_path / "k=1" / "_DONE").unlink()
    committer.commit([pending_file(tmp_path, "k=1", "b"), Request(WriterProgress(0, 1, END_OF_TIME))])
    assert sorted(each.name for each in (tmp_path / "k=1").iterdir()) == ["_DONE", "a", "b"]


def test_a_damaged_state_is_reported_with_the_path_of_the_sink(tmp_path: Path) -> None:
    with pytest.raises(StateRestoreError, match=str(tmp_path)):
        PartitionCommitter(str(tmp_path), HOURLY).restore_state(b'{"version": 1, "seen": 3}')


@pytest.mark.parametrize(
    ("pattern", "formatter", "partition", "expected"),
    [
        (None, None, "dt=2024-01-02", datetime.datetime(2024, 1, 2)),
        ("$dt $hm:00", None, "dt=2024-01-02/hm=03%3A04", datetime.datetime(2024, 1, 2, 3, 4)),
        ("$y-$m-$d", None, "y=2023/m=13/d=1", datetime.datetime(2024, 1, 1)),
        ("$d-$day", "yyyy-dd", "d=2024/day=05", datetime.datetime(2024, 1, 5)),
        ("$day $h:00:00", None, "day=2024-1-2/d=x/h=24", datetime.datetime(2024, 1, 3)),
        (None, "yyyyMMdd", "dt=20240102", datetime.datetime(2024, 1, 2)),
    ],
)
def test_the_time_of_a_partition_is_read_from_its_values(pattern, formatter, partition, expected) -> None:
    assert PartitionTimeExtractor(pattern, formatter).extract(partition) == expected


def test_a_partition_without_a_time_is_reported_with_its_text() -> None:
    with pytest.raises(ConfigurationError, match="partition dt=x: 'x 00' is not a time of the form yyyy-MM-dd"):
        PartitionTimeExtractor("$dt 00").extract("dt=x")


def test_rows_of_tables_are_written_to_the_directories_of_their_partitions(tmp_path: Path) -> None:
    columns = (("n", types.IntType()), ("dt", types.VarCharType()))
    row_type = types.RowType.of(*columns)
    declared = Types.ROW_NAMED(["n", "dt"], [Types.INT(), Types.STRING()])
    builder = FileSink.for_bulk_format(str(tmp_path), CsvBulkWriterFactory(declared, CsvOptions()))
    by_day = BucketAssigner.column_bucket_assigner("dt", default_name="none")
    sink = builder.with_bucket_assigner(by_day).with_partition_commit(PartitionCommitSettings()).build()
    writer = sink.create_writer(TestingWriterContext(input_type=InternalTypeInfo(row_type)))
    rows = [{"n": 1, "dt": "2024-01-01"}, {"n": 2, "dt": None}]
    writer.write(Batch(pa.RecordBatch.from_pylist(rows, schema=schema_of(row_type))))
    writer.flush(True)
    committables = Committables()
    committables.add(1, writer.prepare_commit())
    committables.commit_up_to(1, sink.create_committer(), 0)
    found = {str(each.parent.relative_to(tmp_path)): each.read_text() for each in tmp_path.rglob("part-*")}
    assert found == {"dt=2024-01-01": "1\n", "dt=none": "2\n"}
    assert committed(tmp_path) == ["dt=2024-01-01", "dt=none"]


class Announce(PartitionCommitPolicy):
    """Writes down the partitions that it is told."""

    def __init__(self, file: str) -> None:
        self._file = file

    def commit(self, partition: CommittedPartition) -> None:
        with open(self._file, "a") as file:
            file.write(f"{partition.path.rpartition('/')[2]} {partition.values['dt']}\n")


def test_a_policy_of_the_user_is_told_about_complete_partitions(tmp_path: Path) -> None:
    told = tmp_path / "told"
    policy = PolicyClass(f"{Announce.__module__}.Announce", (str(told),))
    settings = PartitionCommitSettings(None, HOURLY.extractor, HOURLY.delay_ms, policy=policy)
    life = life_of(tmp_path / "table", settings, 1)
    write(life, 0, [1, 2], AT_ONE + 61 * MINUTE)
    complete(life, 1)
    assert told.read_text() == "hour=01 2024-01-01\n"
    assert not list((tmp_path / "table").rglob("_SUCCESS"))


def test_a_class_that_is_no_policy_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"json\.Nothing is no partition commit policy"):
        PolicyClass("json.Nothing").make()
