"""CSV messages: CsvRowDeserializationSchema and CsvRowSerializationSchema."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkpy.common.errors import InputFormatError, TypeMismatchError, UnsupportedOperationError
from flinkpy.common.typeinfo import Types
from flinkpy.common.types import Row
from flinkpy.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from flinkpy.formats.csv_format import CsvOptions
from flinkpy.formats.csv_writer import CsvLineWriter
from flinkpy.formats.schema import decode_messages, encode_batch
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import rows_of

FIELDS = Types.ROW_NAMED(["id", "name", "ok"], [Types.INT(), Types.STRING(), Types.BOOLEAN()])


def reading(row_type=FIELDS):
    return CsvRowDeserializationSchema.Builder(row_type)


def writing(row_type=FIELDS):
    return CsvRowSerializationSchema.Builder(row_type)


def decoded(schema, *messages):
    batch = decode_messages(schema, list(messages)).batch
    return [tuple(row) for row in rows_of(batch, schema.get_produced_type())]


@pytest.mark.parametrize(
    ("field_type", "text", "value"),
    [
        (Types.STRING(), "'123''4**'", "123'4*"),
        (Types.STRING(), "'a;b''c'", "a;b'c"),
        (Types.INT(), "12", 12),
        (Types.ROW([Types.STRING(), Types.STRING()]), "'1:hello'", Row("1", "hello")),
        (Types.ROW([Types.STRING(), Types.STRING()]), "'1:hello world'", Row("1", "hello world")),
        (Types.STRING(), "null", "null"),
        (Types.LIST(Types.INT()), "'1:2:3'", [1, 2, 3]),
    ],
)
def test_fields_are_written_and_read_like_flinks(field_type, text, value):
    row_type = Types.ROW([Types.STRING(), field_type, Types.STRING()])
    message = f"BEGIN;{text};END\n".encode()

    def configured(builder):
        builder.set_escape_character("*").set_quote_character("'")
        return builder.set_array_element_delimiter(":").set_field_delimiter(";").build()

    row = Row("BEGIN", value, "END")
    assert configured(writing(row_type)).serialize(row) == message
    schema = configured(reading(row_type))
    assert schema.deserialize(message) == row
    assert decoded(schema, message, message) == [("BEGIN", value, "END")] * 2


def test_simple_types_are_parsed_into_columns():
    schema = reading().build()
    assert decode_messages(schema, [b"1,a,true\n", b"2,b,false"]).batch.is_columnar
    assert decoded(schema, b"1,a,true\n", b"2,b,false") == [(1, "a", True), (2, "b", False)]


@pytest.mark.parametrize(
    ("message", "row"),
    [
        (b"1,,true", (1, "", True)),
        (b" 1 , a ,TRUE", (1, " a ", True)),
        (b'1,"x,\ny",true\r\n', (1, "x,\ny", True)),
        (b'1,"say ""hi""",true', (1, 'say "hi"', True)),
        ("1,é,false".encode(), (1, "é", False)),
        (b"\xef\xbb\xbf1,a,true", (1, "a", True)),
        (b"1,NULL,true\nignored,second,row", (1, "NULL", True)),
    ],
)
def test_messages_are_read(message, row):
    assert decoded(reading().build(), message) == [row]
    assert decoded(reading().build(), b"7,z,true", message) == [(7, "z", True), row]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"x,a,true", "field 'id': 'x' is not an integer"),
        (b",a,true", "field 'id': '' is not an integer"),
        (b"1_0,a,true", "not an integer"),
        (b"2147483648,a,true", "out of range"),
        (b"1,a,yes", "field 'ok': 'yes' is not a boolean"),
        (b"1,a", "row length mismatch: 3 fields are expected, and there are 2"),
        (b"1,a,true,4", "there are 4"),
        (b'1,"a,true', "not CSV"),
        (b"1,\xff,true", "not UTF-8"),
    ],
)
def test_the_error_names_and_shows_a_malformed_message(message, reason):
    with pytest.raises(InputFormatError) as raised:
        decode_messages(reading().build(), [b"1,a,true", message], lambda index: f"offset {index}")
    assert "offset 1: " in str(raised.value)
    assert reason in str(raised.value)
    with pytest.raises(ValueError):
        reading().build().deserialize(message)


def test_errors_can_be_ignored_skipped_or_reported():
    messages = [b"x,a,true", b"1,a", b"1,a,true,4", b'1,"a,true', b"2,b,true"]
    ignoring = reading().set_ignore_parse_errors(True).build()
    assert decoded(ignoring, *messages) == [
        (None, "a", True),
        (1, "a", None),
        (2, "b", True),
    ]
    assert ignoring.deserialize(b'1,"a') is None
    result = decode_messages(reading().on_error("skip").build(), messages)
    assert [tuple(row) for row in rows_of(result.batch, FIELDS)] == [(2, "b", True)]
    assert [record.raw for record in result.bad] == messages[:4]
    assert result.positions.tolist() == [4]


PRICES = Types.ROW_NAMED(["id", "price"], [Types.INT(), Types.DECIMAL(5, 2)])


@pytest.mark.parametrize(
    ("text", "price"), [("1.005", "1.01"), ("1.004", "1.00"), ("-1.005", "-1.01"), ("1e2", "100.00"), (" 7 ", "7.00")]
)
def test_a_decimal_is_rounded_half_up_to_its_scale_when_it_is_read(text, price):
    [(_, value)] = decoded(reading(PRICES).build(), f"1,{text}".encode())

    assert str(value) == price  # with trailing zeros


@pytest.mark.parametrize("text", [b"12345.6", b"999.995"])
def test_a_decimal_with_too_many_digits_makes_a_bad_message(text):
    messages = [b"1," + text, b"2,3"]

    with pytest.raises(
        InputFormatError, match=r"field 'price': .* is not a Decimal\(5, 2\): it has more than 3 digits"
    ):
        decoded(reading(PRICES).build(), *messages)

    assert decoded(reading(PRICES).on_error("skip").build(), *messages) == [(2, Decimal("3.00"))]
    ignoring = reading(PRICES).set_ignore_parse_errors(True).build()
    assert decoded(ignoring, *messages) == [(1, None), (2, Decimal("3.00"))]


def test_a_message_without_a_row_is_bad():
    schema = reading().set_allow_comments(True).on_error("skip").build()
    result = decode_messages(schema, [b"", b"1,#a,true", b"# no", None, b"\n"])
    assert result.positions.tolist() == [1]
    assert [record.raw for record in result.bad] == [b"", b"# no", b"\n"]
    assert decoded(schema, b"# comment\n1,a,true") == [(1, "a", True)]
    with pytest.raises(ValueError, match="the message has no row"):
        schema.deserialize(b"")


def test_only_the_null_literal_is_null():
    schema = reading().set_null_literal("NULL").build()
    assert decoded(schema, b"NULL,NULL,true", b'1,"NULL",NULL') == [(None, None, True), (1, None, None)]
    assert writing().set_null_literal("NULL").build().serialize(Row(id=None, name=None, ok=None)) == b"NULL,NULL,NULL\n"
    assert writing().build().serialize(Row(id=None, name=None, ok=None)) == b",,\n"


def test_every_type_survives_a_round_trip():
    kinds = [
        (Types.BYTE(), -1),
        (Types.BIG_INT(), 10**40),
        (Types.BIG_DEC(), Decimal("1.25")),
        (Types.FLOAT(), 0.1),
        (Types.DOUBLE(), 1e-300),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff" * 20),
        (Types.SQL_DATE(), datetime.date(2020, 2, 29)),
        (Types.SQL_TIME(), datetime.time(1, 2, 3)),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2020, 2, 29, 1, 2, 3, 500_000)),
        (Types.OBJECT_ARRAY(Types.STRING()), ["a", "b c"]),
    ]
    row_type = Types.ROW([kind for kind, _ in kinds])
    row = Row(*(value for _, value in kinds))
    message = writing(row_type).build().serialize(row)
    read = reading(row_type).build().deserialize(message)
    assert read[3] == pytest.approx(0.1, rel=1e-7)
    read[3] = 0.1
    assert read == row
    assert message.startswith(b"-1,1" + b"0" * 40 + b',1.25,0.1,1.0E-300,"')
    assert b',2020-02-29,01:02:03,"2020-02-29 01:02:03.5",' in message


def test_quotes_and_line_ends_can_be_configured():
    row = Row(id=1, name="a b", ok=True)
    assert writing().disable_quote_character().set_line_delimiter("").build().serialize(row) == b"1,a b,true"
    assert writing().set_line_delimiter("\r\n").build().serialize(row) == b'1,"a b",true\r\n'
    with pytest.raises(ValueError, match="line delimiter"):
        writing().set_line_delimiter(";")


def test_a_builder_refuses_wrong_arguments():
    for builder in (CsvRowDeserializationSchema.Builder, CsvRowSerializationSchema.Builder):
        with pytest.raises(TypeError):
            builder(None)
        with pytest.raises(TypeError, match="Row type"):
            builder(Types.STRING())
        with pytest.raises(ValueError, match="single character"):
            builder(FIELDS).set_field_delimiter("ab")
        with pytest.raises(TypeError):
            builder(FIELDS).set_null_literal(None)
    with pytest.raises(UnsupportedOperationError, match="CSV does not support"):
        reading(Types.ROW([Types.MAP(Types.STRING(), Types.INT())])).build()
    with pytest.raises(UnsupportedOperationError, match="JVM"):
        CsvRowSerializationSchema(object())
    with pytest.raises(TypeMismatchError, match="record 0"):
        writing().build().serialize(Row(id="x", name="a", ok=True))


def test_schemas_can_be_pickled():
    schema = pickle.loads(pickle.dumps(reading().set_field_delimiter("|").build()))
    assert schema.deserialize(b"1|a|true") == Row(id=1, name="a", ok=True)
    write = pickle.loads(pickle.dumps(writing().set_field_delimiter("|").build()))
    assert write.serialize(Row(id=1, name="a", ok=True)) == b'1|"a"|true\n'


TEXTS = st.text('ab1 ,"\n\r#;tru\\', max_size=8)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=12) | TEXTS.map(str.encode)), st.sampled_from(["", "\\"]))
def test_messages_parsed_together_equal_messages_parsed_alone(messages, escape):
    row_type = Types.ROW_NAMED(["name", "id"], [Types.STRING(), Types.INT()])
    builder = reading(row_type).on_error("skip")
    schema = (builder.set_escape_character(escape) if escape else builder).build()
    one_by_one = []
    for message in messages:
        try:
            row = schema.deserialize(message)
        except ValueError:
            continue
        one_by_one.extend([] if row is None else [tuple(row)])
    assert decoded(schema, *messages) == one_by_one


@given(st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.text('ab1 ,"\n\ré😀\\', max_size=30), st.booleans())))
def test_any_rows_survive_a_round_trip(rows):
    messages = encode_batch(writing().build(), Batch(rows), FIELDS)
    assert decoded(reading().build(), *messages) == rows


def test_rows_of_a_batch_are_written_like_batches_of_one_row():
    times = [0, 86_400_000, None, 0, 0, 1, 86_400_000, None]
    texts = ['say "hi"', "a" * 30, "short", None, 'long "quoted" text, with a comma', "x,y", "", "é" * 24]
    columns = pa.RecordBatch.from_arrays(
        [pa.array(times, pa.timestamp("ms")), pa.array(times, pa.int64()).cast(pa.date64()), pa.array(texts)],
        names=["t", "d", "s"],
    )
    for options in (CsvOptions(), CsvOptions(escape_char="\\", delimiter=";")):
        writer = CsvLineWriter(options, "\r\n")
        singles = [writer.rows(columns.slice(row, 1)) for row in range(columns.num_rows)]
        assert writer.rows(columns) == b"".join(singles)
        assert writer.rows(columns.slice(3, 4)) == b"".join(singles[3:7])
