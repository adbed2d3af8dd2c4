from __future__ import annotations

import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from connector_fakes import TestingCoordinatorContext, TestingReaderContext, read_splits

from flinkpy.common.errors import InputFormatError, InputNotFoundError, StateRestoreError, UnsupportedOperationError
from flinkpy.common.time import Duration
from flinkpy.common.typeinfo import Types
from flinkpy.connector_api.source import (
    AddSplits,
    Boundedness,
    NoMoreSplits,
    ReaderRegistered,
    ReaderStatus,
    RequestSplit,
)
from flinkpy.connector_api.source_coordinator import SourceCoordinator
from flinkpy.connectors import file_source
from flinkpy.connectors.file_source import FileEnumeratorProvider, FileSource, FileSplitAssignerProvider, list_files
from flinkpy.formats.file_format import StreamFormat


def text_source(*paths, **builder):
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), *map(str, paths)).build()


def rows_in(source, parallelism=2, max_batch_rows=1000):
    return [
        row
        for batch in read_splits(source, source.list_splits(parallelism), max_batch_rows)
        for row in (batch.values if not batch.is_columnar else batch.values.to_pylist())
    ]


def test_a_directory_is_read_recursively_in_order_without_hidden_files(tmp_path):
    for name in ("b.txt", "a.txt", "sub/c.txt", ".hidden", "_temporary/x.txt", "sub/.part-0.inprogress", "empty.txt"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("" if name == "empty.txt" else f"{name}\n")
    assert rows_in(text_source(tmp_path)) == ["a.txt", "b.txt", "sub/c.txt"]


def test_pending_bytes_are_those_of_splits_that_have_not_been_read(tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(f"{'x' * 999}\n" * 5_000)
    source = text_source(tmp_path)
    reader = source.create_reader(TestingReaderContext())
    reader.add_splits(source.list_splits(1))
    reader.notify_no_more_splits()
    pending = [reader.pending_bytes]
    while reader.poll_batch() is not ReaderStatus.END_OF_INPUT:
        pending.append(reader.pending_bytes)
    assert pending[0] == 10_000_000 and reader.pending_bytes == 0
    assert pending == sorted(pending, reverse=True) and len(set(pending)) > 4


def test_paths_are_made_absolute_and_file_uris_are_understood(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("a\n")
    monkeypatch.chdir(tmp_path)
    source = text_source("a.txt", f"file://{tmp_path}/a.txt", f"file:{tmp_path}/a.txt")
    monkeypatch.chdir("/")
    assert rows_in(source) == ["a", "a", "a"]
    with pytest.raises(UnsupportedOperationError, match="nothing://bucket"):
        text_source("nothing://bucket/a.txt").list_splits(1)


def test_error_names_a_missing_path(tmp_path):
    with pytest.raises(InputNotFoundError, match="nowhere: No such file or directory") as caught:
        text_source(tmp_path / "nowhere").list_splits(1)
    assert caught.value.details == {"path": str(tmp_path / "nowhere")}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_error_names_an_unreadable_file(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "a.txt").chmod(0)
    with pytest.raises(InputNotFoundError, match=r"a\.txt: Permission denied"):
        text_source(tmp_path).list_splits(1)


def test_error_names_a_file_that_vanished_after_listing(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    source = text_source(tmp_path)
    splits = source.list_splits(1)
    (tmp_path / "a.txt").unlink()
    with pytest.raises(InputNotFoundError, match=r"a\.txt"):
        read_splits(source, splits)


def test_large_file_is_divided_into_even_splits(tmp_path, monkeypatch):
    monkeypatch.setattr(file_source, "MIN_SPLIT_BYTES", 10)
    monkeypatch.setattr(file_source, "SPLITS_PER_SUBTASK", 4)
    (tmp_path / "a.txt").write_text("0123456789\n" * 100)
    source = text_source(tmp_path)
    splits = source.list_splits(parallelism=2)
    assert len(splits) == 8
    assert {split.length for split in splits} <= {137, 138}
    assert [split.offset for split in splits[1:]] == [split.end for split in splits[:-1]]
    assert rows_in(source) == ["0123456789"] * 100
    assert len({split.split_id for split in splits}) == 8


def test_files_can_be_kept_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(file_source, "MIN_SPLIT_BYTES", 10)
    (tmp_path / "a.txt").write_text("0123456789\n" * 100)
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
    builder.set_file_enumerator(FileEnumeratorProvider.default_non_splittable_file_enumerator())
    builder.set_split_assigner(FileSplitAssignerProvider.locality_aware_split_assigner())
    assert len(builder.process_static_file_set().build().list_splits(4)) == 1


def monitored(tmp_path, context):
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
    source = builder.monitor_continuously(Duration.of_seconds(5)).build()
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    return SourceCoordinator(source, context)


def assigned_files(context):
    return [
        (subtask, os.path.basename(split.path))
        for subtask, event in context.take_sent()
        for split in event.splits
        if isinstance(event, AddSplits)
    ]


def ask(coordinator, subtask, attempt=0):
    coordinator.subtask_ready(subtask)
    coordinator.handle_event(subtask, attempt, ReaderRegistered())
    coordinator.handle_event(subtask, attempt, RequestSplit())


def look_again(context):
    [(delay_ms, look)] = context.timers
    assert delay_ms == 5_000
    context.timers.clear()
    look()
    context.finish_blocking()


def test_new_files_are_discovered_and_assigned_to_waiting_readers(tmp_path):
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "begun.txt").touch()
    context = TestingCoordinatorContext(2)
    coordinator = monitored(tmp_path, context)
    coordinator.start()
    ask(coordinator, 0)
    ask(coordinator, 1)
    context.finish_blocking()
    assert assigned_files(context) == [(0, "a.txt")]
    (tmp_path / "b.txt").write_text("b\n")
    (tmp_path / "begun.txt").write_text("done\n")
    ask(coordinator, 0)
    look_again(context)
    assert assigned_files(context) == [(1, "b.txt"), (0, "begun.txt")]
    look_again(context)
    assert assigned_files(context) == []


def test_restored_discovery_assigns_every_file_once(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(name)
    context = TestingCoordinatorContext(1)
    coordinator = monitored(tmp_path, context)
    coordinator.start()
    context.finish_blocking()
    ask(coordinator, 0)
    assert assigned_files(context) == [(0, "a.txt")]
    state = coordinator.checkpoint(1)
    (tmp_path / "d.txt").write_text("d")
    context = TestingCoordinatorContext(1)
    coordinator = monitored(tmp_path, context)
    coordinator.reset_to_checkpoint(1, state)
    coordinator.start()
    context.finish_blocking()
    for _ in range(4):
        ask(coordinator, 0)
    assert assigned_files(context) == [(0, "b.txt"), (0, "c.txt"), (0, "d.txt")]


def test_failed_listing_is_repeated_but_the_first_one_fails_the_job(tmp_path):
    missing = tmp_path / "missing"
    context = TestingCoordinatorContext(1)
    monitored(missing, context).start()
    context.finish_blocking()
    assert isinstance(context.failures[0], InputNotFoundError)
    missing.mkdir()
    context = TestingCoordinatorContext(1)
    coordinator = monitored(missing, context)
    coordinator.start()
    context.finish_blocking()
    missing.rmdir()
    look_again(context)
    assert context.failures == []
    missing.mkdir()
    (missing / "a.txt").write_text("a")
    ask(coordinator, 0)
    look_again(context)
    assert assigned_files(context) == [(0, "a.txt")]


def test_a_fixed_set_cannot_be_restored_as_a_discovery(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    context = TestingCoordinatorContext(1)
    coordinator = SourceCoordinator(text_source(tmp_path), context)
    coordinator.start()
    context.finish_blocking()
    state = coordinator.checkpoint(1)
    coordinator = monitored(tmp_path, context)
    coordinator.reset_to_checkpoint(1, state)
    coordinator.start()
    assert isinstance(context.failures[0], StateRestoreError)
    with pytest.raises(ValueError, match="positive"):
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), "x").monitor_continuously(
            Duration.of_nanos(1)
        )


def test_coordinator_lists_files_off_the_main_thread_and_assigns_them(tmp_path):
    (tmp_path / "a.txt").write_text("a\n")
    context = TestingCoordinatorContext(1)
    coordinator = SourceCoordinator(text_source(tmp_path), context)
    coordinator.start()
    coordinator.subtask_ready(0)
    for event in (ReaderRegistered(), RequestSplit()):
        coordinator.handle_event(0, 0, event)
    assert context.sent == []
    context.finish_blocking()
    coordinator.handle_event(0, 0, RequestSplit())
    [(_, first), (_, second)] = context.sent
    assert isinstance(first, AddSplits)
    assert second == NoMoreSplits()


def test_a_missing_path_fails_the_job(tmp_path):
    context = TestingCoordinatorContext(1)
    SourceCoordinator(text_source(tmp_path / "nowhere"), context).start()
    context.finish_blocking()
    assert isinstance(context.failures[0], InputNotFoundError)


def test_csv_types_are_inferred_from_the_first_block(tmp_path):
    (tmp_path / "a.csv").write_text("id,price,name,ok,day\n1,1.5,x,true,2013-01-01\n2,,NA,false,\n")
    source = FileSource.for_csv(str(tmp_path / "a.csv"), null_values=("NA",))
    assert source.produced_type == Types.ROW_NAMED(
        ["id", "price", "name", "ok", "day"],
        [Types.LONG(), Types.DOUBLE(), Types.STRING(), Types.BOOLEAN(), Types.SQL_DATE()],
    )
    assert [tuple(row.values())[:4] for row in rows_in(source)] == [(1, 1.5, "x", True), (2, None, None, False)]
    assert source.boundedness is Boundedness.BOUNDED


def test_csv_schema_selects_columns_by_name_in_each_file(tmp_path):
    (tmp_path / "a.csv").write_text("id,price,name\n1,1.5,x\n")
    (tmp_path / "b.csv").write_text("name,id\ny,2\n")
    for schema in (
        {"name": Types.STRING(), "id": Types.INT()},
        {"name": pa.string(), "id": pa.int32()},
        pa.schema([("name", pa.string()), ("id", pa.int32())]),
        Types.ROW_NAMED(["name", "id"], [Types.STRING(), Types.INT()]),
    ):
        source = FileSource.for_csv(str(tmp_path), schema=schema)
        assert rows_in(source) == [{"name": "x", "id": 1}, {"name": "y", "id": 2}]
        assert read_splits(source, source.list_splits(1))[0].values.schema.field("id").type == pa.int32()


def test_error_names_a_missing_csv_column(tmp_path):
    (tmp_path / "a.csv").write_text("id\n1\n")
    source = FileSource.for_csv(str(tmp_path), schema={"id": Types.INT(), "nope": Types.INT()})
    with pytest.raises(InputFormatError, match=r"a\.csv, row 1: the header has no column 'nope'; it has \['id'\]"):
        rows_in(source)


def test_csv_without_header_takes_columns_by_position(tmp_path):
    (tmp_path / "a.csv").write_text("1;x\n2;y\n")
    source = FileSource.for_csv(str(tmp_path), header=False, delimiter=";")
    assert rows_in(source) == [{"f0": 1, "f1": "x"}, {"f0": 2, "f1": "y"}]


@pytest.mark.parametrize("header", [True, False])
def test_csv_columns_can_be_selected_and_an_unknown_one_is_named(tmp_path, header):
    (tmp_path / "a.csv").write_text(("a,b,c\n" if header else "") + "1,2,3\n4,5,6\n")
    schema = {"a": Types.LONG(), "b": Types.LONG(), "c": Types.LONG()}
    source = FileSource.for_csv(str(tmp_path), schema=schema, columns=["c", "a"], header=header)
    assert source.produced_type.get_field_names() == ["c", "a"]
    assert rows_in(source) == [{"c": 3, "a": 1}, {"c": 6, "a": 4}]
    with pytest.raises(ValueError, match="no column 'nope'"):
        FileSource.for_csv(str(tmp_path), schema=schema, columns=["nope"], header=header)


def test_inference_needs_a_file_with_content(tmp_path):
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(InputNotFoundError, match="no file with any content"):
        FileSource.for_csv(str(tmp_path))
    with pytest.raises(InputNotFoundError, match="nowhere"):
        FileSource.for_csv(str(tmp_path / "nowhere"))


def test_parquet_columns_are_chosen_by_name(tmp_path):
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"], "c": [0.5, None]}), tmp_path / "p.parquet")
    assert rows_in(FileSource.for_parquet(str(tmp_path))) == [
        {"a": 1, "b": "x", "c": 0.5},
        {"a": 2, "b": "y", "c": None},
    ]
    assert rows_in(FileSource.for_parquet(str(tmp_path), columns=["c", "a"])) == [
        {"c": 0.5, "a": 1},
        {"c": None, "a": 2},
    ]
    with pytest.raises(InputFormatError, match=r"has no columns \['z'\]"):
        FileSource.for_parquet(str(tmp_path), columns=["z"])


def test_a_source_without_a_path_or_with_the_wrong_format_is_refused():
    with pytest.raises(ValueError, match="at least one path"):
        text_source()
    with pytest.raises(TypeError, match="not a StreamFormat"):
        FileSource.for_record_stream_format("text", "/x")
    with pytest.raises(TypeError, match="not a BulkFormat"):
        FileSource.for_bulk_file_format(StreamFormat.text_line_format(), "/x")


def test_the_job_master_loads_sources_without_arrow(tmp_path):
    code = (
        "import sys; import flinkpy.connectors.file_source, flinkpy.connectors.number_sequence, "
        "flinkpy.connectors.collection, flinkpy.connectors.collect_coordinator, flinkpy.connectors.collect_sink, "
        "flinkpy.connector_api.source_coordinator, flinkpy.formats.text_line, flinkpy.formats.parquet_format; "
        "assert not {'pyarrow', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_listing_returns_the_sizes_of_files(tmp_path):
    (tmp_path / "a.txt").write_text("abc")
    assert list_files(str(tmp_path)) == [(str(tmp_path / "a.txt"), 3)]
