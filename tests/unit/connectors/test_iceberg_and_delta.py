"""Iceberg and Delta tables as sources and sinks, with real tables in a directory."""

from __future__ import annotations

import datetime
import pickle
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest
from connector_fakes import TestingWriterContext
from reading import check_every_batch_boundary
from real_tables import FIRST_DAY, FORMATS, RealTable, records
from table_fakes import commit, rows_of_source, written

from flinkpy.common.errors import (
    CommitError,
    ConfigurationError,
    InputNotFoundError,
    TypeMismatchError,
    UnsupportedOperationError,
)
from flinkpy.common.time import Instant
from flinkpy.datastream.connectors.tables import TableSink, TableSource
from flinkpy.expressions.nodes import col
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import type_info_of_schema

pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")


@pytest.fixture(params=FORMATS)
def table(request, tmp_path):
    return RealTable(request.param, tmp_path)


# -- reading -----------------------------------------------------------------------------------------------------------


def test_source_reads_the_columns_of_the_table(table):
    table.create().append(records(range(10)))
    source = table.source().build()
    assert source.produced_type.get_field_names() == ["id", "name", "day", "price"]
    assert sorted(rows_of_source(source, 4), key=lambda row: row["id"]) == records(range(10)).to_pylist()
    assert source.estimated_size_bytes() > 0


def test_source_reads_selected_columns_in_their_order(table):
    table.create(partition_by="day").append(records(range(4)))
    source = table.source().project("day", "id").build()
    assert source.produced_type.get_field_names() == ["day", "id"]
    rows = sorted(rows_of_source(source), key=lambda row: row["id"])
    assert [tuple(row) for row in rows] == [("day", "id")] * 4
    assert rows[2] == {"day": FIRST_DAY + datetime.timedelta(days=2), "id": 2}
    with pytest.raises(ValueError, match="there is no column 'colour'"):
        table.source().project("colour").build()


def test_source_of_an_empty_table_has_no_records(table):
    table.create()
    assert rows_of_source(table.source().build()) == []


def test_source_keeps_the_version_that_it_was_built_for(table):
    table.create().append(records(range(3)))
    source = pickle.loads(pickle.dumps(table.source().build()))
    table.append(records(range(3, 6)))
    assert len(rows_of_source(source)) == 3
    assert len(rows_of_source(table.source().build())) == 6


def test_filters_skip_files_by_partitions_and_statistics(table):
    table.create(partition_by="day")
    table.append(records(range(30)))
    source = table.source().build()
    assert len(source.snapshot.list_splits(None)) == 3
    second_day = FIRST_DAY + datetime.timedelta(days=1)
    by_day = source.filtered_by(col("day") == second_day)
    assert len(by_day.snapshot.list_splits(by_day._predicate)) == 1
    assert {row["day"] for row in rows_of_source(by_day)} == {second_day}
    for predicate, ids in (
        (col("id") > 100, set()),
        ((col("id") < 0) | (col("day") == second_day), {*range(1, 30, 3)}),
        (col("name").is_null & (col("id") <= 9), {4, 9}),
        (col("name").in_("n1", "n2"), {1, 2}),
        (col("name").starts_with("n2"), {2, 20, 21, 22, 23, 25, 26, 27, 28}),
        (col("id") != 5, {*range(30)} - {5}),
    ):
        found = {row["id"] for row in rows_of_source(source.filtered_by(predicate))}
        assert ids <= found, predicate
    assert source.filtered_by(col("id") > 100).snapshot.list_splits(col("id") > 100) == []


@pytest.mark.parametrize(
    "predicate",
    [
        col("id") > 2.5,
        col("id") == "2",
        col("price") > 3,
        col("id") + 1 > 5,
        col("day") == datetime.datetime(2024, 1, 1),
    ],
    ids=str,
)
def test_filters_that_formats_would_convert_are_not_passed_on(table, predicate):
    table.create().append(records(range(6)))
    source = table.source().build()
    assert len(rows_of_source(source.filtered_by(predicate))) == 6


def test_source_resumes_at_every_batch(table):
    table.create(partition_by="day").append(records(range(25)))
    source = table.source().project("id").build().filtered_by(col("id") > 3)
    splits = source.snapshot.list_splits(source._predicate)
    assert len(splits) == 3
    found = check_every_batch_boundary(source, splits, 4)
    assert sorted(found) == list(range(4, 25))


def _wait_for_a_later_millisecond(time_ms):
    while time.time_ns() // 1_000_000 <= time_ms:
        pass


def test_earlier_versions_are_read_by_number_and_by_time(table):
    table.create()
    table.append(records(range(2)))
    if table.format == "iceberg":
        first = table.iceberg().current_snapshot()
        number, time_ms = first.snapshot_id, first.timestamp_ms
        by_number = table.source().snapshot_id(number)
    else:
        number = table.delta().version()
        time_ms = table.delta().history(1)[0]["timestamp"]
        by_number = table.source().version_as_of(number)
    _wait_for_a_later_millisecond(time_ms)
    table.append(records(range(2, 4)))
    assert len(rows_of_source(by_number.build())) == 2
    assert len(rows_of_source(table.source().as_of_timestamp(time_ms).build())) == 2
    assert len(rows_of_source(table.source().as_of_timestamp(Instant.of_epoch_milli(time_ms)).build())) == 2
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    assert len(rows_of_source(table.source().as_of_timestamp(later).build())) == 4


def test_unknown_versions_are_named(table):
    table.create().append(records(range(2)))
    builder = table.source()
    unknown = builder.snapshot_id(77) if table.format == "iceberg" else builder.version_as_of(77)
    with pytest.raises(InputNotFoundError, match="77"):
        unknown.build()
    with pytest.raises(InputNotFoundError, match="at or before 5 ms"):
        table.source().as_of_timestamp(5).build()
    with pytest.raises(ConfigurationError, match="has been set already"):
        table.source().as_of_timestamp(5).as_of_timestamp(6)
    with pytest.raises(ValueError, match="no time zone"):
        table.source().as_of_timestamp(datetime.datetime(2024, 1, 1))


def test_branches_and_tags_of_iceberg_are_read(tmp_path):
    table = RealTable("iceberg", tmp_path).create()
    table.append(records(range(2)))
    made = table.iceberg()
    made.manage_snapshots().create_tag(made.current_snapshot().snapshot_id, "eom").commit()
    table.append(records(range(2, 4)))
    assert len(rows_of_source(table.source().tag("eom").build())) == 2
    with pytest.raises(InputNotFoundError, match="branch or tag 'gone'"):
        table.source().branch("gone").build()


def test_columns_that_were_added_later_are_null_in_old_files(table):
    table.create().append(records(range(2)))
    if table.format == "iceberg":
        from pyiceberg.types import StringType

        with table.iceberg().update_schema() as update:
            update.add_column("colour", StringType())
    else:
        from deltalake import Field

        table.delta().alter.add_columns([Field("colour", "string")])
    rows = rows_of_source(table.source().project("id", "colour").build())
    assert sorted(row["id"] for row in rows) == [0, 1] and {row["colour"] for row in rows} == {None}


def test_missing_tables_and_bad_names_are_named(tmp_path, table):
    with pytest.raises(InputNotFoundError, match=r"lake\.db\.t|no Delta table at"):
        table.source().build()
    with pytest.raises(InputNotFoundError):
        table.sink().build()
    with pytest.raises(ConfigurationError, match="catalog, namespace and table"):
        TableSource.for_catalog("orders")
    with pytest.raises(ConfigurationError, match="'hudi' is not a format"):
        TableSource.for_path("hudi", str(tmp_path))
    with pytest.raises(ConfigurationError, match="without a catalog"):
        TableSink.for_path("iceberg", str(tmp_path))
    wrong = table.source().version_as_of if table.format == "iceberg" else table.source().snapshot_id
    with pytest.raises(ConfigurationError, match="is for tables of"):
        wrong(1)


def test_iceberg_tables_are_read_by_their_metadata_file(tmp_path):
    table = RealTable("iceberg", tmp_path).create()
    table.append(records(range(3)))
    location = table.iceberg().metadata_location
    assert len(rows_of_source(TableSource.for_path("iceberg", location).build())) == 3


def test_records_that_spark_marked_as_deleted_are_not_read(tmp_path):
    """The table was made by Spark 4.1 with Delta 4.4: 20 records in three days, then two were deleted."""
    directory = Path(__file__).parents[2] / "recorded" / "delta_with_deletion_vectors"
    source = TableSource.for_path("delta", str(directory)).project("id").build()
    left = sorted({*range(20)} - {3, 5})
    assert sorted(row["id"] for row in rows_of_source(source)) == left
    splits = source.snapshot.list_splits(None)
    assert sorted(check_every_batch_boundary(source, splits, 1)) == left
    # Filters skip files, and leave the positions of deleted records as they are.
    filtered = source.filtered_by(col("id") > 4)
    assert {row["id"] for row in rows_of_source(filtered)} >= {number for number in left if number > 4}
    before = TableSource.for_path("delta", str(directory)).version_as_of(1).build()
    assert len(rows_of_source(before)) == 20
    shutil.copytree(directory, tmp_path / "copy")
    written_to = TableSink.for_path("delta", str(tmp_path / "copy")).overwrite_partitions().build()
    day = pa.table({"id": [100], "day": [datetime.date(2024, 1, 3)]})
    with pytest.raises(UnsupportedOperationError, match="deletion vectors"):
        commit(written_to, written(written_to, day.set_column(1, "day", day.column("day").cast(pa.date32()))))
    appended = TableSink.for_path("delta", str(tmp_path / "copy")).build()
    commit(appended, written(appended, day))
    copied = TableSource.for_path("delta", str(tmp_path / "copy")).build()
    assert sorted(row["id"] for row in rows_of_source(copied)) == [*left, 100]


# -- writing -----------------------------------------------------------------------------------------------------------


def test_sink_appends_in_one_version(table):
    table.create(partition_by="day")
    table.append(records(range(3)))
    before = table.num_versions()
    sink = table.sink().build()
    committables = written(sink, records(range(3, 10)), records(range(10, 20)))
    assert table.num_versions() == before, "nothing is visible before the commit"
    assert commit(sink, committables) == [[], []]
    assert table.num_versions() == before + 1
    assert table.ids() == list(range(20))
    assert sorted(rows_of_source(table.source().build()), key=lambda row: row["id"]) == records(range(20)).to_pylist()


def test_commit_is_done_once_however_often_it_is_repeated(table):
    table.create()
    sink = table.sink().build()
    one, other, third = written(sink, records(range(5)), records(range(5, 9)), records(range(9, 12)))
    commit(sink, [one, other])
    versions = table.num_versions()
    assert commit(sink, [one, other]) == [["already committed"]] * 2
    assert table.num_versions() == versions
    # A restored job may distribute the committables differently.
    assert commit(sink, [other, third]) == [["already committed"], []]
    assert table.ids() == list(range(12))


def test_version_names_the_job(table):
    table.create()
    sink = table.sink().build()
    [made] = written(sink, records(range(5)))
    commit(sink, [made])
    if table.format == "iceberg":
        summary = table.iceberg().current_snapshot().summary.additional_properties
        assert summary["flinkpy.job-id"] == made.job_id
    else:
        assert table.delta().history(1)[0]["flinkpy.job-id"] == made.job_id
        assert table.delta().transaction_version(f"flinkpy-{made.job_id}-{made.writer_id}") == 1


def test_commit_that_meets_another_writer_is_tried_again(table, monkeypatch):
    table.create()
    sink = table.sink().build()
    committables = written(sink, records(range(5)))
    others = [records([100]), records([101])]
    with sink.table.open() as opened:
        kind = type(opened)
    looked = kind.committed

    def meanwhile(self, asked):
        found = looked(self, asked)
        if others:
            table.append(others.pop())
        return found

    monkeypatch.setattr(kind, "committed", meanwhile)
    commit(sink, committables)
    assert table.ids() == [0, 1, 2, 3, 4, 100, 101]


def test_commit_that_another_attempt_makes_at_the_same_time_is_done_once(table, monkeypatch):
    table.create()
    sink = table.sink().build()
    committables = written(sink, records(range(5)))
    with sink.table.open() as opened:
        kind = type(opened)
    looked = kind.committed
    runs = []

    def meanwhile(self, asked):
        found = looked(self, asked)
        if not runs:
            runs.append(None)
            commit(sink, committables)
        return found

    monkeypatch.setattr(kind, "committed", meanwhile)
    assert commit(sink, committables) == [["already committed"]]
    assert table.ids() == list(range(5))


def test_commit_that_always_meets_another_writer_fails(table, monkeypatch):
    table.create()
    sink = table.sink().build()
    committables = written(sink, records(range(5)))
    with sink.table.open() as opened:
        monkeypatch.setattr(type(opened), "try_commit", lambda *_: False)
    with pytest.raises(CommitError, match="other writers have changed it during each of 10 tries"):
        commit(sink, committables)


def test_overwrite_replaces_all_records_in_one_version(table):
    table.create(partition_by="day")
    table.append(records(range(9)))
    sink = table.sink().overwrite().build()
    before = table.num_versions()
    commit(sink, written(sink, records([100]), records([])))
    assert (table.ids(), table.num_versions()) == ([100], before + 1)
    commit(sink, written(sink, records([])))
    assert table.ids() == []


def test_repeated_overwrite_keeps_what_came_after_it(table):
    table.create()
    sink = table.sink().overwrite().build()
    committables = written(sink, records([1]))
    commit(sink, committables)
    table.append(records([2]))
    commit(sink, committables)
    assert table.ids() == [1, 2]


def test_overwritten_partitions_are_those_with_new_records(table):
    table.create(partition_by="day")
    table.append(records(range(9)))
    sink = table.sink().overwrite_partitions().build()
    before = table.num_versions()
    commit(sink, written(sink, records([103]), records([106])))
    assert table.ids() == [0, 2, 3, 5, 6, 8, 103, 106]
    assert table.num_versions() == before + 1
    commit(sink, written(sink, records([])))
    assert len(table.ids()) == 8


def test_overwriting_partitions_replaces_a_table_that_has_none(table):
    table.create().append(records(range(9)))
    sink = table.sink().overwrite_partitions().build()
    commit(sink, written(sink, records([100])))
    assert table.ids() == [100]


@pytest.mark.parametrize("name", ["day", "bucket", "truncate"])
def test_iceberg_transforms_place_records_in_partitions(tmp_path, name):
    from pyiceberg.transforms import BucketTransform, DayTransform, TruncateTransform

    transforms = {
        "day": ("day", DayTransform()),
        "bucket": ("id", BucketTransform(4)),
        "truncate": ("name", TruncateTransform(1)),
    }
    column, transform = transforms[name]
    table = RealTable("iceberg", tmp_path).create(partition_by=column, transform=transform)
    sink = table.sink().build()
    commit(sink, written(sink, records(range(20))))
    assert table.ids() == list(range(20))
    if name == "bucket":
        predicate = col("id") == 7
        assert len(table.source().build().snapshot.list_splits(predicate)) == 1
    replacing = table.sink().overwrite_partitions().build()
    commit(replacing, written(replacing, records([1])))
    assert 1 in table.ids() and len(table.ids()) < 20


def test_files_are_refused_when_the_partitioning_has_changed(tmp_path):
    table = RealTable("iceberg", tmp_path).create(partition_by="day")
    sink = table.sink().build()
    committables = written(sink, records(range(5)))
    with table.iceberg().update_spec() as update:
        update.add_identity("name")
    with pytest.raises(CommitError, match="partitioning has changed"):
        commit(sink, committables)
    assert table.ids() == []


def test_tables_whose_partitioning_has_changed_are_read_and_written(tmp_path):
    table = RealTable("iceberg", tmp_path).create(partition_by="day")
    table.append(records(range(6)))
    with table.iceberg().update_spec() as update:
        update.add_identity("name")
    sink = table.sink().build()
    commit(sink, written(sink, records(range(6, 12))))
    assert sorted(row["id"] for row in rows_of_source(table.source().build())) == list(range(12))


@pytest.mark.parametrize("value", ["a b", "c/d", "x%y=z", "ü", None, "part-0"])
def test_delta_partitions_have_any_value(tmp_path, value):
    schema = pa.schema([("id", pa.int64()), ("key", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    table = RealTable("delta", tmp_path).create(schema, partition_by="key")
    sink = table.sink().build()
    row = {"id": 1, "key": value, "at": datetime.datetime(2024, 1, 1, 1, 2, 3, 4567, tzinfo=datetime.UTC)}
    commit(sink, written(sink, pa.Table.from_pylist([row], schema)))
    assert rows_of_source(table.source().build()) == [row]
    assert table.delta().to_pyarrow_table().to_pylist() == [row]


def test_columns_are_matched_by_name(table):
    table.create()
    sink = table.sink().build()
    commit(sink, written(sink, pa.table({"name": ["x"], "id": pa.array([7], pa.int32())})))
    assert rows_of_source(table.source().build()) == [{"id": 7, "name": "x", "day": None, "price": None}]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": pa.array([1]), "colour": ["red"]}, "has no column 'colour'"),
        ({"id": ["one"]}, "column 'id' is int64, and the stream has string"),
    ],
)
def test_records_that_do_not_fit_the_table_are_refused(table, columns, message):
    table.create()
    with pytest.raises(TypeMismatchError, match=message):
        written(table.sink().build(), pa.table(columns))


def test_required_columns_are_checked(table):
    table.create(pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())]))
    sink = table.sink().build()
    with pytest.raises(TypeMismatchError, match="needs column 'id'"):
        written(sink, pa.table({"name": ["x"]}))
    with pytest.raises(TypeMismatchError, match="column 'id' has a null"):
        written(sink, pa.table({"id": pa.array([None], pa.int64())}))
    commit(sink, written(sink, pa.table({"id": pa.array([1], pa.int64())})))
    assert table.ids() == [1]


def test_writer_deletes_files_that_no_checkpoint_contains(table, tmp_path):
    table.create()
    context = TestingWriterContext()
    context.input_type = type_info_of_schema(records([]).schema)
    writer = table.sink().build().create_writer(context)
    writer.write(Batch(records(range(3)).to_batches()[0]))
    writer.flush(False)
    assert len(list(tmp_path.rglob("*.parquet"))) == 1
    writer.close()
    assert list(tmp_path.rglob("*.parquet")) == []


def test_large_input_is_written_before_its_end(table, monkeypatch, tmp_path):
    monkeypatch.setattr("flinkpy.connectors.tables.table_sink.BUFFER_BYTES", 100)
    table.create()
    sink = table.sink().build()
    committables = written(sink, records(range(30)))
    assert len(committables) == 1 and len(committables[0].files) > 3
    commit(sink, committables)
    assert table.ids() == list(range(30))


@pytest.mark.parametrize(
    ("configuration", "reason"),
    [({"delta.constraints.positive": "id > 0"}, "delta.constraints.positive")],
)
def test_delta_rules_that_the_sink_does_not_apply_are_refused(tmp_path, configuration, reason):
    from deltalake import DeltaTable

    DeltaTable.create(str(tmp_path), records([]).schema, configuration=configuration, raise_if_key_not_exists=False)
    with pytest.raises(UnsupportedOperationError, match=reason):
        TableSink.for_path("delta", str(tmp_path)).build()
