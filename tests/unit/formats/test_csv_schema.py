from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from connector_fakes import TestingWriterContext, read_splits
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.common.errors import InputFormatError, UnsupportedOperationError
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource
from flinkpy.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
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
    with pytest.raises(ValueError, match="'id' already exists"):
        builder.add_string_column("id")
    with pytest.raises(TypeError, match="is not a number"):
        builder.add_number_column("x", Types.STRING())
    with pytest.raises(UnsupportedOperationError, match="give a type such as DataTypes"):
        builder.add_number_column("x", "INT")


def test_each_setting_changes_the_dialect():
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
    assert options.header.name == "SKIP"
    assert schema.line_separator == "\r\n"
    plain = builder.disable_quote_char().disable_escape_char().disable_array_element_separator().set_strict_headers()
    assert plain.build().options.quote_char == plain.build().options.escape_char == ""
    assert plain.build().options.array_separators == {"a": "", "b": ""}
    assert plain.build().options.header.name == "STRICT"
    assert CsvSchema.builder().set_strict_headers().build().options.header.name == "NONE"
    assert str(schema) == "CsvSchema[a: ListTypeInfo<String>, b: ListTypeInfo<String>]"
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


def test_slices_of_columns_are_written_correctly(tmp_path):
    schema = CsvSchema.builder().add_array_column("list", ";", Types.INT()).build()
    columns = pa.RecordBatch.from_arrays(
        [pa.array([[1], [2, 3], None, [4]], pa.list_(pa.int32()))], names=["list"]
    ).slice(1, 3)
    write(tmp_path, schema, columns)
    [file] = tmp_path.iterdir()
    assert file.read_text() == "2;3\n\n4\n"


@pytest.mark.parametrize(
    ("build", "rows", "text"),
    [
        (lambda b: b.set_column_separator("|"), [("string", "string2")], '"string"|"string2"\n'),
        (lambda b: b.set_column_separator("|").set_quote_char("`"), [("string", "s")], "`string`|`s`\n"),
        (lambda b: b.set_escape_char("\\"), [("string,", '"string2"')], '"string,","""string2"""\n'),
        (lambda b: b, [("abc", "a b"), ("a-b", "x" * 25), ("", None)], 'abc,"a b"\na-b,"' + "x" * 25 + '"\n,\n'),
        (lambda b: b.disable_quote_char(), [("a b", "c")], "a b,c\n"),
        (lambda b: b.set_line_separator("\r\n"), [("a", "b")], "a,b\r\n"),
    ],
)
def test_the_output_equals_that_of_flink(tmp_path, build, rows, text):
    schema = build(CsvSchema.builder().add_string_column("string").add_string_column("string2")).build()
    write(tmp_path, schema, rows)
    [file] = tmp_path.iterdir()
    assert file.read_bytes().decode() == text


def test_numbers_are_written_like_javas(tmp_path):
    schema = (
        CsvSchema.builder()
        .add_number_column("tinyint", Types.BYTE())
        .add_number_column("float", Types.FLOAT())
        .add_number_column("double", Types.DOUBLE())
        .add_boolean_column("boolean")
        .add_array_column("array", ":", Types.DOUBLE())
        .build()
    )
    write(tmp_path, schema, [(127, 3e38, 2e-308, True, [1.0, 0.1]), (1, 0.1, 1e7, False, [])])
    [file] = tmp_path.iterdir()
    assert file.read_text() == "127,3.0E38,2.0E-308,true,1.0:0.1\n1,0.1,1.0E7,false,\n"


def test_the_names_of_a_header_are_ignored_unless_headers_are_strict(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("h1,h2\nstring,123\n")
    builder = CsvSchema.builder().add_string_column("string").add_number_column("number").set_use_header()
    assert read(path, builder.build()) == [("string", 123)]
    with pytest.raises(InputFormatError, match=r"the header is \['h1', 'h2'\]"):
        read(path, builder.set_strict_headers().build())


def test_escaped_characters_and_comments_are_read(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text('# a comment\nstring\\,,\\"string2\\"\n')
    builder = CsvSchema.builder().add_string_column("string").add_string_column("string2")
    assert read(path, builder.set_escape_char("\\").set_allow_comments().build()) == [("string,", '"string2"')]


def test_arrays_are_read_and_written_with_the_separator_of_their_column(tmp_path):
    schema = (
        CsvSchema.builder()
        .add_array_column("numbers", ";", Types.INT())
        .add_array_column("booleans", ":", Types.BOOLEAN())
        .add_array_column("strings", ",")
        .set_column_separator("|")
        .disable_quote_char()
        .build()
    )
    path = tmp_path / "in.csv"
    path.write_text("1;2;3|true:false|a,b,c\n")
    rows = read(path, schema)
    assert rows == [([1, 2, 3], [True, False], ["a", "b", "c"])]
    (tmp_path / "out").mkdir()
    write(tmp_path / "out", schema, rows)
    [file] = (tmp_path / "out").iterdir()
    assert file.read_text() == path.read_text()
