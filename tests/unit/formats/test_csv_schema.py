from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from connector_fakes import TestingWriterContext, read_splits
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource
from flinkpy.datastream.formats.csv import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    CsvSchema,
)
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.committables import Committables


def write(tmp_path, schema, rows):
    builder = FileSink.for_bulk_format(str(tmp_path), CsvBulkWriters.for_schema(schema))
    sink = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    writer = sink.create_writer(TestingWriterContext(input_type=schema.row_type))
    writer.write(Batch(rows))
    writer.flush(True)
    written = Committables()
    written.add(1, writer.prepare_commit())
    written.commit_up_to(1, sink.create_committer(), 0)
    writer.close()


def read(path, schema):
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(path)).build()
    assert source.produced_type == schema.row_type
    return [
        tuple(row.values()) for batch in read_splits(source, source.list_splits(1)) for row in batch.values.to_pylist()
    ]


def test_columns_are_collected_in_their_order():
    first = CsvSchema.builder().add_boolean_column("ok").add_number_column("n", Types.SHORT()).build()
    builder = CsvSchema.builder().add_string_column("gone").clear_columns().add_array_column("list", "|")
    schema = builder.add_columns_from(first).add_number_column("id").add_column("day", Types.SQL_DATE()).build()
    assert builder.size() == schema.size() == len(schema) == 5
    assert schema.row_type == Types.ROW_NAMED(
        ["list", "ok", "n", "id", "day"],
        [Types.LIST(Types.STRING()), Types.BOOLEAN(), Types.SHORT(), Types.LONG(), Types.SQL_DATE()],
    )
    with pytest.raises(ValueError, match="'id' is there already"):
        builder.add_string_column("id")
    with pytest.raises(TypeError, match="is not a number"):
        builder.add_number_column("x", Types.STRING())
    with pytest.raises(UnsupportedOperationError, match="Table API"):
        builder.add_number_column("x", "INT")


def test_every_setting_reaches_the_dialect():
    builder = CsvSchema.builder().add_array_column("a").add_array_column("b")
    builder.set_column_separator("|").set_quote_char("'").set_escape_char("\\").set_null_value("NULL")
    builder.set_allow_comments().set_skip_first_data_row().set_use_header().set_newlines_in_values()
    builder.set_array_element_separator("/").remove_array_element_separator(1).set_line_separator("\r\n")
    schema = builder.build()
    options = schema.options
    assert (options.delimiter, options.quote_char, options.escape_char) == ("|", "'", "\\")
    assert options.null_values == ("NULL",)
    assert (options.allow_comments, options.skip_first_data_row, options.newlines_in_values) == (True, True, True)
    assert options.array_separators == {"a": "/", "b": ""}
    assert options.header.name == "USE"
    assert schema.line_separator == "\r\n"
    plain = builder.disable_quote_char().disable_escape_char().disable_array_element_separator().set_strict_headers()
    assert plain.build().options.quote_char == plain.build().options.escape_char == ""
    assert plain.build().options.array_separators == {"a": "", "b": ""}
    assert plain.build().options.header.name == "STRICT"
    with pytest.raises(UnsupportedOperationError, match="set_any_property_name"):
        builder.set_any_property_name("rest")


def test_all_types_survive_a_round_trip(tmp_path):
    schema = (
        CsvSchema.builder()
        .add_number_column("id")
        .add_number_column("price", Types.DOUBLE())
        .add_number_column("dec", Types.BIG_DEC())
        .add_number_column("big", Types.BIG_INT())
        .add_boolean_column("ok")
        .add_string_column("name")
        .add_array_column("list", ";", Types.INT())
        .add_column("day", Types.SQL_DATE())
        .add_column("at", Types.SQL_TIMESTAMP())
        .set_use_header()
        .set_null_value("NA")
        .build()
    )
    at = datetime.datetime(2013, 1, 1, 10, 11, 12, 500_000)
    rows = [
        (1, 0.1, Decimal("1.500000000000000000"), 10**30, True, "x,y", [1, 2], at.date(), at),
        (None, None, None, None, None, None, [], None, None),
    ]
    write(tmp_path, schema, rows)
    assert read(tmp_path, schema) == rows


@given(
    rows=st.lists(
        st.tuples(
            st.none() | st.integers(-(1 << 63), (1 << 63) - 1), st.none() | st.text('abNA,|"\\\n\r é', max_size=8)
        ),
        min_size=1,
        max_size=20,
    ),
    escape=st.sampled_from(["", "\\"]),
)
def test_any_rows_survive_a_round_trip(tmp_path_factory, rows, escape):
    builder = CsvSchema.builder().add_number_column("id").add_string_column("name").set_null_value("NA")
    builder.set_newlines_in_values().set_use_header()
    if escape:
        builder.set_escape_char(escape)
    schema = builder.build()
    tmp_path = tmp_path_factory.mktemp("csv")
    write(tmp_path, schema, rows)
    assert read(tmp_path, schema) == rows


def test_columns_of_slices_are_written_right(tmp_path):
    schema = CsvSchema.builder().add_array_column("list", ";", Types.INT()).build()
    columns = pa.RecordBatch.from_arrays(
        [pa.array([[1], [2, 3], None, [4]], pa.list_(pa.int32()))], names=["list"]
    ).slice(1, 3)
    write(tmp_path, schema, columns)
    [file] = tmp_path.iterdir()
    assert file.read_text() == "2;3\n\n4\n"


@pytest.mark.parametrize("schema_class", [CsvRowSerializationSchema, CsvRowDeserializationSchema])
def test_message_schemas_say_that_they_are_not_there(schema_class):
    with pytest.raises(UnsupportedOperationError, match=schema_class.__name__):
        schema_class()
