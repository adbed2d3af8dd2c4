"""Parquet and ORC: damage, projections, and round trips."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from connector_fakes import TestingReaderContext, TestingWriterContext, read_splits
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import (
    InputFormatError,
    InputNotFoundError,
    TypeMismatchError,
    UnsupportedOperationError,
)
from flinkpy.common.typeinfo import Types
from flinkpy.connector_api.source import ReaderStatus
from flinkpy.connectors.file_sink import FileSink
from flinkpy.connectors.file_sink_config import BucketAssigner
from flinkpy.connectors.file_source import FileSource
from flinkpy.datastream.formats.orc import OrcBulkWriters
from flinkpy.datastream.formats.parquet import ParquetBulkWriters
from flinkpy.datastream.output_tag import OutputTag
from flinkpy.formats.orc_format import OrcFormat
from flinkpy.formats.text_line import TextLineFormat
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import rows_of
from flinkpy.streaming.operators.committables import Committables

FIELDS = Types.ROW_NAMED(
    ["id", "name", "dec", "day", "at", "raw", "list", "map", "row"],
    [
        Types.LONG(),
        Types.STRING(),
        Types.BIG_DEC(),
        Types.SQL_DATE(),
        Types.SQL_TIMESTAMP(),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.LIST(Types.STRING()),
        Types.MAP(Types.INT(), Types.STRING()),
        Types.ROW_NAMED(["x"], [Types.DOUBLE()]),
    ],
)
FORMATS = {
    "parquet": (ParquetBulkWriters.for_row_type, FileSource.for_parquet),
    "orc": (OrcBulkWriters.for_row_type, FileSource.for_orc),
}


@pytest.fixture(params=FORMATS)
def name(request):
    return request.param


def written(tmp_path, factory, records, input_type=FIELDS):
    builder = FileSink.for_bulk_format(str(tmp_path), factory)
    sink = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    writer = sink.create_writer(TestingWriterContext(input_type=input_type))
    try:
        for start in range(0, len(records), 3):
            writer.write(Batch(records[start : start + 3]))
        writer.flush(True)
        pending = Committables()
        pending.add(1, writer.prepare_commit())
        pending.commit_up_to(1, sink.create_committer(), 0)
    finally:
        writer.close()
    [file] = tmp_path.iterdir()
    return file


def rows(source):
    return [
        tuple(row)
        for batch in read_splits(source, source.list_splits(2))
        for row in rows_of(batch, source.produced_type)
    ]


VALUES = st.tuples(
    st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
    st.none() | st.text(max_size=6),
    st.none() | st.decimals(-(10**9), 10**9, places=6),
    st.none() | st.dates(datetime.date(1900, 1, 1), datetime.date(2200, 1, 1)),
    st.none() | st.datetimes(datetime.datetime(1971, 1, 1), datetime.datetime(2200, 1, 1)),
    st.none() | st.binary(max_size=5),
    st.none() | st.lists(st.none() | st.text(max_size=3), max_size=3),
    st.none() | st.dictionaries(st.integers(-5, 5), st.none() | st.text(max_size=3), max_size=3),
    st.none() | st.floats(allow_nan=False).map(lambda x: (x,)),
)


@settings(max_examples=30, deadline=None)
@given(records=st.lists(VALUES, min_size=1, max_size=15))
def test_any_rows_survive_a_round_trip(tmp_path_factory, records):
    for name, (writers, _) in FORMATS.items():
        file = written(tmp_path_factory.mktemp(name), writers(FIELDS), records)
        if name == "parquet":
            from flinkpy.datastream.formats.parquet import ParquetColumnarRowInputFormat

            source = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(FIELDS), str(file)).build()
        else:
            source = FileSource.for_bulk_file_format(OrcFormat(FIELDS), str(file)).build()
        found = [(*row[:8], row[8] and tuple(row[8])) for row in rows(source)]
        assert found == records, name


def test_columns_are_chosen_and_ordered(tmp_path, name):
    writers, source_of = FORMATS[name]
    row_type = Types.ROW_NAMED(["a", "b", "c"], [Types.INT(), Types.STRING(), Types.DOUBLE()])
    file = written(tmp_path, writers(row_type), [(1, "x", 0.5), (2, None, 1.5)], row_type)
    source = source_of(str(file), columns=["c", "a"])
    assert source.produced_type == Types.ROW_NAMED(["c", "a"], [Types.DOUBLE(), Types.INT()])
    assert rows(source) == [(0.5, 1), (1.5, 2)]
    with pytest.raises(InputFormatError, match=r"no columns \['z'\]"):
        source_of(str(file), columns=["z"])


@pytest.mark.parametrize("content", [b"", b"PAR1", b"ORC", b"nothing of the kind" * 100])
def test_the_error_names_a_file_of_another_format(tmp_path, name, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises((InputFormatError, InputNotFoundError), match=str(path) if content else "no file with any"):
        FORMATS[name][1](str(path))


def test_the_error_names_a_truncated_file(tmp_path, name):
    writers, source_of = FORMATS[name]
    row_type = Types.ROW_NAMED(["a"], [Types.INT()])
    file = written(tmp_path, writers(row_type), [(i,) for i in range(100)], row_type)
    source = source_of(str(file))
    file.write_bytes(file.read_bytes()[:-20])
    for on_error in ("fail", "skip"):
        broken = FileSource.for_bulk_file_format(source._format, str(file)).set_on_error(on_error).build()
        with pytest.raises(InputFormatError, match=f"{file} is not a"):
            rows(broken)


def test_the_error_names_a_missing_column(tmp_path, name):
    writers, source_of = FORMATS[name]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    written(
        tmp_path / "a", writers(Types.ROW_NAMED(["a"], [Types.INT()])), [(1,)], Types.ROW_NAMED(["a"], [Types.INT()])
    )
    other = Types.ROW_NAMED(["b"], [Types.INT()])
    written(tmp_path / "b", writers(other), [(1,)], other)
    with pytest.raises(InputFormatError, match="has no column 'a'"):
        rows(source_of(str(tmp_path)))


def damaged_file(tmp_path, name):
    """Returns a file of three blocks with 100 rows each, and its content with a damaged second block."""
    path = tmp_path / "file"
    table = pa.table({"a": [f"value {i * 7919 % 1000}" for i in range(300)]})
    if name == "parquet":
        pq.write_table(table, path, row_group_size=100, compression="snappy", use_dictionary=False)
        with pq.ParquetFile(path) as file:
            start = file.metadata.row_group(1).column(0).data_page_offset + 60
        end = start + 40
    else:
        with orc.ORCWriter(path, stripe_size=64, compression="uncompressed") as writer:
            for first in range(0, 300, 100):
                writer.write(table.slice(first, 100))
        assert orc.ORCFile(path).nstripes == 3
        size = path.stat().st_size
        start, end = size * 36 // 100, size * 60 // 100
    content = bytearray(path.read_bytes())
    content[start:end] = b"\xff" * (end - start)
    return path, content


def test_a_damaged_block_is_an_error_or_is_skipped(tmp_path, name):
    path, content = damaged_file(tmp_path, name)
    source = FORMATS[name][1](str(path))
    path.write_bytes(content)
    with pytest.raises(InputFormatError, match=f"{path}, (row group|stripe) "):
        rows(source)
    tag = OutputTag("bad")
    lenient = FileSource.for_bulk_file_format(source._format, str(path)).set_on_error(tag).build()
    context = TestingReaderContext(max_batch_rows=64)
    reader = lenient.create_reader(context)
    reader.add_splits(lenient.list_splits(1))
    reader.notify_no_more_splits()
    reader.start()
    found = 0
    while (polled := reader.poll_batch()) is not ReaderStatus.END_OF_INPUT:
        found += polled.num_rows
    reader.close()
    assert found == 200
    [(_, [(raw, error)])] = context.side_outputs
    assert raw == b""
    assert str(path) in error


def test_text_lines_support_no_bad_records():
    with pytest.raises(UnsupportedOperationError, match="TextLineFormat"):
        TextLineFormat().with_on_error("skip")


def test_orc_properties_become_settings():
    row_type = Types.ROW_NAMED(["a"], [Types.INT()])
    properties = Configuration()
    properties.set_string("orc.compress", "NONE")
    properties.set_string("orc.stripe.size", "65536")
    OrcBulkWriters.for_row_type(row_type, properties, Configuration())
    with pytest.raises(UnsupportedOperationError, match=r"'orc\.nothing' is unknown"):
        OrcBulkWriters.for_row_type(row_type, {"orc.nothing": "1"})
    with pytest.raises(UnsupportedOperationError, match="Hadoop"):
        OrcBulkWriters.for_row_type(row_type, None, {"fs.defaultFS": "x"})


def test_the_error_names_a_column_that_orc_does_not_support(tmp_path):
    row_type = Types.ROW_NAMED(["a"], [Types.BIG_INT()])
    with pytest.raises(TypeMismatchError, match="ORC cannot hold"):
        written(tmp_path, OrcBulkWriters.for_row_type(row_type), [(1,)], row_type)
