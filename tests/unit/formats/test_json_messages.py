"""JSON messages: JsonRowDeserializationSchema and JsonRowSerializationSchema."""

from __future__ import annotations

import datetime
import json
import pickle
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.common.errors import InputFormatError, TypeMismatchError, UnsupportedOperationError
from flinkpy.common.time import Instant
from flinkpy.common.typeinfo import Types
from flinkpy.common.types import Row
from flinkpy.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from flinkpy.datastream.output_tag import OutputTag
from flinkpy.formats.schema import decode_messages, encode_batch
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import rows_of

FIELDS = Types.ROW_NAMED(["id", "name", "x"], [Types.INT(), Types.STRING(), Types.DOUBLE()])


def reading(row_type=FIELDS, **options):
    builder = JsonRowDeserializationSchema.builder().type_info(row_type)
    if options.get("missing"):
        builder.fail_on_missing_field()
    if options.get("ignore"):
        builder.ignore_parse_errors()
    return builder.on_error(options.get("on_error", "fail")).build()


def decoded(schema, *messages):
    result = decode_messages(schema, list(messages))
    return [tuple(row) for row in rows_of(result.batch, schema.get_produced_type())], result


def written(row_type, *rows):
    schema = JsonRowSerializationSchema.builder().with_type_info(row_type).build()
    return [message.decode() for message in encode_batch(schema, Batch(list(rows)), row_type)]


def test_objects_are_converted_to_rows_and_back():
    row_type = Types.ROW_NAMED(
        ["svt", "ops", "ids"],
        [Types.STRING(), Types.ROW_NAMED(["id"], [Types.STRING()]), Types.PRIMITIVE_ARRAY(Types.INT())],
    )
    texts = [
        '{"svt":"2020-02-24T12:58:09.209+0800"}',
        '{"svt":"2020-02-24T12:58:09.209+0800", "ops":{"id":"281708d0-4092-4c21-9233-931950b6eccf"},"ids":[1, 2, 3]}',
    ]
    rows = [
        Row(svt="2020-02-24T12:58:09.209+0800", ops=None, ids=None),
        Row(svt="2020-02-24T12:58:09.209+0800", ops=Row(id="281708d0-4092-4c21-9233-931950b6eccf"), ids=[1, 2, 3]),
    ]
    schema = reading(row_type)
    writing = JsonRowSerializationSchema.builder().with_type_info(row_type).build()
    assert [schema.deserialize(text.encode()) for text in texts] == rows
    assert [json.loads(writing.serialize(row)) for row in rows] == [
        {"svt": "2020-02-24T12:58:09.209+0800", "ops": None, "ids": None},
        json.loads(texts[1]),
    ]
    assert writing.serialize(rows[0]) == b'{"svt":"2020-02-24T12:58:09.209+0800","ops":null,"ids":null}'
    assert rows_of(decode_messages(schema, [text.encode() for text in texts]).batch, row_type) == rows


def test_simple_types_are_parsed_into_columns_and_others_into_rows():
    assert decode_messages(reading(), [b'{"id": 1}', b'{"name": "a"}']).batch.is_columnar
    dates = reading(Types.ROW_NAMED(["d"], [Types.SQL_DATE()]))
    assert not decode_messages(dates, [b'{"d": "2020-01-02"}']).batch.is_columnar


def test_each_record_has_the_position_of_its_message():
    _, result = decoded(reading(), None, b'{"id": 1}', None, b'{"id": 3}')
    assert result.positions.tolist() == [1, 3]
    _, result = decoded(reading(on_error="skip"), b"nonsense", b'{"id": 1}', b"null", b'{"id": 3}')
    assert result.positions.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ('{"id": "12", "name": 7, "x": "1.5"}', (12, "7", 1.5)),
        ('{"id": 1, "name": true, "x": 3}', (1, "true", 3.0)),
        ('{"id": null, "name": {"b": [1, 2.50]}, "x": null}', (None, '{"b":[1,2.5]}', None)),
        ('{"x": 1e3, "other": [1], "name": 1.50}', (None, "1.5", 1000.0)),
        ("{}", (None, None, None)),
        (' {"id": 1}\n', (1, None, None)),
        ('{"name": "\\u00e9\\n\\"", "id": -2147483648}', (-(2**31), 'é\n"', None)),
        ('{"id": 1, "id": 2}', (2, None, None)),
        ('{"i\\u0064": 1.0, "x": -0}', (1, None, 0.0)),
        ('{"name": "\\ud83d\\ude00", "x": "NaN"}', (None, "😀", pytest.approx(float("nan"), nan_ok=True))),
    ],
)
def test_reading_is_as_lenient_as_flinks(text, row):
    for messages in ([text.encode()], [b'{"id": 5}', text.encode()]):
        rows, _ = decoded(reading(), *messages)
        assert rows[-1] == row


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nonsense", "not JSON"),
        ("", "not JSON"),
        ("[1]", "an object is expected, not an array"),
        ('{"id": "x"}', "field 'id': \"x\" is not an integer"),
        ('{"id": 1_0}', "not JSON"),
        ('{"id": "1_0"}', "not an integer"),
        ('{"id": 2147483648}', "field 'id': 2147483648 is out of range"),
        ('{"id": true}', "not an integer"),
        ('{"x": NaN}', "NaN is not a JSON number"),
        ('{"id": 1} {"id": 2}', "not JSON"),
        ('{"id": 1}\n{"id": 2}', "not JSON"),
        ('{"x": {}}', "field 'x'"),
        ('{"name": "\\ud800"}', "half of a surrogate pair"),
        ('{"id": 01}', "not JSON"),
        ('{"id": 1,}', "not JSON"),
        ('{"id": 1}//', "not JSON"),
        ('/**/{"id": 1}', "not JSON"),
        ("{'id': 1}", "not JSON"),
        ('{"name": "a\tb"}', "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"id": ' + "9" * 5000 + "}", "not JSON"),
    ],
)
def test_the_error_names_and_shows_a_malformed_message(text, reason):
    with pytest.raises(InputFormatError) as raised:
        decode_messages(reading(), [b'{"id": 1}', text.encode()], lambda index: f"topic t, offset {40 + index}")
    assert "topic t, offset 41" in str(raised.value)
    assert reason in str(raised.value)
    assert raised.value.details["text"] == (text if len(text) <= 500 else text[:500] + "...")
    with pytest.raises(ValueError):
        reading().deserialize(text.encode())


def test_bytes_that_are_not_text_are_malformed():
    with pytest.raises(InputFormatError, match="not UTF-8"):
        decode_messages(reading(), [b'{"name": "\xff"}'])


def test_bad_messages_are_skipped_or_go_to_a_side_output():
    messages = [b'{"id": 1}', b"x", b'{"id": "y"}', b'{"id": 2}']
    for on_error in ("skip", OutputTag("bad")):
        rows, result = decoded(reading(on_error=on_error), *messages)
        assert [row[0] for row in rows] == [1, 2]
        assert [record.raw for record in result.bad] == [b"x", b'{"id": "y"}']
        assert "not an integer" in result.bad[1].error
    with pytest.raises(ValueError, match="on_error"):
        JsonRowDeserializationSchema.builder().on_error("ignore")


def test_ignored_errors_are_null_fields_and_missing_rows():
    rows, result = decoded(reading(ignore=True), b'{"id": "y", "name": "n"}', b"x", b'{"id": 2}')
    assert rows == [(None, "n", None), (2, None, None)]
    assert result.bad == []
    assert reading(ignore=True).deserialize(b"x") is None


PRICES = Types.ROW_NAMED(["id", "price"], [Types.INT(), Types.DECIMAL(5, 2)])


@pytest.mark.parametrize(
    ("text", "price"),
    [("1.005", "1.01"), ("1.004", "1.00"), ("-1.005", "-1.01"), ('"2.555"', "2.56"), ("1e2", "100.00"), ("7", "7.00")],
)
def test_a_decimal_is_rounded_half_up_to_its_scale_when_it_is_read(text, price):
    message = b'{"id": 1, "price": %s}' % text.encode()

    rows, _ = decoded(reading(PRICES), message)

    assert str(rows[0][1]) == price  # with trailing zeros
    assert str(reading(PRICES).deserialize(message)[1]) == price


def test_decimals_inside_lists_maps_and_rows_are_rounded_too():
    inner = Types.DECIMAL(5, 2)
    row_type = Types.ROW_NAMED(
        ["l", "m", "r"], [Types.LIST(inner), Types.MAP(Types.STRING(), inner), Types.ROW_NAMED(["d"], [inner])]
    )

    row = reading(row_type).deserialize(b'{"l": [0.125], "m": {"a": 0.125}, "r": {"d": 0.125}}')

    assert row == Row(l=[Decimal("0.13")], m={"a": Decimal("0.13")}, r=Row(d=Decimal("0.13")))


@pytest.mark.parametrize("text", ["12345.6", "999.995", "1e9999"])
def test_a_decimal_with_too_many_digits_makes_a_bad_message(text):
    message, good = b'{"id": 1, "price": %s}' % text.encode(), b'{"id": 2, "price": 3}'

    with pytest.raises(
        InputFormatError, match=r"field 'price': .* is not a Decimal\(5, 2\): it has more than 3 digits"
    ):
        decoded(reading(PRICES), message)

    assert decoded(reading(PRICES, on_error="skip"), message, good)[0] == [(2, Decimal("3.00"))]
    assert decoded(reading(PRICES, ignore=True), message)[0] == [(1, None)]


def test_a_missing_field_is_an_error_on_demand():
    schema = reading(missing=True)
    assert decoded(schema, b'{"id": 1, "name": null, "x": 2}')[0] == [(1, None, 2.0)]
    with pytest.raises(InputFormatError, match="field 'x' is missing"):
        decode_messages(schema, [b'{"id": 1, "name": "a"}'])
    with pytest.raises(ValueError, match="failOnMissingField"):
        reading(missing=True, ignore=True)


def test_every_type_survives_a_round_trip():
    inner = Types.ROW_NAMED(["a", "b"], [Types.LIST(Types.STRING()), Types.MAP(Types.STRING(), Types.LONG())])
    kinds = {
        "byte": (Types.BYTE(), -128),
        "big": (Types.BIG_INT(), 10**40),
        "dec": (Types.BIG_DEC(), Decimal("12345678901234567890.123456789")),
        "float": (Types.FLOAT(), 0.5),
        "double": (Types.DOUBLE(), 1e300),
        "ok": (Types.BOOLEAN(), True),
        "text": (Types.STRING(), 'q"\\\n\u2028é😀'),
        "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
        "date": (Types.SQL_DATE(), datetime.date(2020, 2, 29)),
        "time": (Types.SQL_TIME(), datetime.time(1, 2, 3, 500_000)),
        "at": (Types.SQL_TIMESTAMP(), datetime.datetime(2020, 2, 29, 1, 2, 3, 4)),
        "instant": (Types.INSTANT(), Instant(1_600_000_000, 123_000)),
        "rows": (Types.OBJECT_ARRAY(inner), [Row(a=["x", None], b={"k": 1, "l": None}), None, Row(a=None, b={})]),
        "map": (Types.MAP(Types.INT(), inner), {3: Row(a=[], b=None)}),
        "any": (Types.PICKLED_BYTE_ARRAY(), {"free": [1, None, 2.5]}),
    }
    row_type = Types.ROW_NAMED(list(kinds), [kind for kind, _ in kinds.values()])
    rows = [Row(**{name: value for name, (_, value) in kinds.items()}), Row(**dict.fromkeys(kinds))]
    texts = written(row_type, *rows)
    assert [reading(row_type).deserialize(text.encode()) for text in texts] == rows
    parsed = json.loads(texts[0])
    assert parsed["at"] == "2020-02-29T01:02:03.000004Z"
    assert parsed["time"] == "01:02:03.5Z"
    assert parsed["bytes"] == "AP8="
    assert parsed["big"] == 10**40
    assert parsed["map"] == {"3": {"a": [], "b": None}}
    assert '"dec":12345678901234567890.123456789,' in texts[0]


def test_slices_of_columns_are_written_correctly():
    row_type = Types.ROW_NAMED(["m", "l"], [Types.MAP(Types.STRING(), Types.INT()), Types.LIST(Types.INT())])
    rows = [Row(m={"a": i}, l=list(range(i))) for i in range(4)]
    from flinkpy.records.lanes import columns_of

    schema = JsonRowSerializationSchema.builder().with_type_info(row_type).build()
    columns = columns_of(rows, row_type).slice(2, 2)
    assert encode_batch(schema, Batch(columns), row_type) == [
        b'{"m":{"a":2},"l":[0,1]}',
        b'{"m":{"a":3},"l":[0,1,2]}',
    ]


def test_numbers_that_json_lacks_are_quoted_names():
    row_type = Types.ROW_NAMED(["d", "f"], [Types.DOUBLE(), Types.FLOAT()])
    assert written(row_type, Row(d=float("nan"), f=float("-inf")), Row(d=1.0, f=0.1)) == [
        '{"d":"NaN","f":"-Infinity"}',
        '{"d":1.0,"f":0.1}',
    ]


def test_the_error_names_a_record_of_another_type():
    with pytest.raises(TypeMismatchError, match="record 1"):
        written(FIELDS, Row(id=1, name="a", x=None), Row(id="x", name="a", x=None))


def test_a_builder_names_missing_settings():
    with pytest.raises(TypeError):
        JsonRowDeserializationSchema.builder().build()
    with pytest.raises(TypeError):
        JsonRowSerializationSchema.builder().build()
    with pytest.raises(TypeError, match="RowTypeInfo"):
        reading(Types.STRING())
    with pytest.raises(TypeError, match="json_schema"):
        JsonRowDeserializationSchema.builder().json_schema(None)
    with pytest.raises(UnsupportedOperationError, match="JVM"):
        JsonRowDeserializationSchema(object())


def test_schemas_can_be_pickled():
    schema = reading()
    decode_messages(schema, [b"{}"])
    assert pickle.loads(pickle.dumps(schema)).deserialize(b'{"id": 1}') == Row(id=1, name=None, x=None)
    writing = JsonRowSerializationSchema.builder().with_type_info(FIELDS).build()
    writing.serialize(Row(id=1, name="", x=None))
    assert pickle.loads(pickle.dumps(writing)).serialize(Row(id=1, name="", x=None)) == b'{"id":1,"name":"","x":null}'


def test_a_json_schema_describes_the_type():
    text = json.dumps(
        {
            "type": "object",
            "definitions": {"address": {"type": "object", "properties": {"city": {"type": "string"}}}},
            "properties": {
                "id": {"type": "integer"},
                "when": {"type": "string", "format": "date-time"},
                "day": {"type": "string", "format": "date"},
                "raw": {"type": "string", "contentEncoding": "base64"},
                "home": {"$ref": "#/definitions/address"},
                "tags": {"type": "array", "items": {"type": ["string", "null"]}},
                "maybe": {"oneOf": [{"type": "null"}, {"type": "boolean"}]},
            },
        }
    )
    schema = JsonRowDeserializationSchema.builder().json_schema(text).build()
    assert schema.get_produced_type() == Types.ROW_NAMED(
        ["id", "when", "day", "raw", "home", "tags", "maybe"],
        [
            Types.BIG_DEC(),
            Types.SQL_TIMESTAMP(),
            Types.SQL_DATE(),
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
            Types.ROW_NAMED(["city"], [Types.STRING()]),
            Types.OBJECT_ARRAY(Types.STRING()),
            Types.BOOLEAN(),
        ],
    )
    row = schema.deserialize(b'{"id": 12.5, "home": {"city": "x"}, "when": "2020-01-01T12:00:00+02:00", "tags": ["a"]}')
    assert (row.id, row.home.city, row.when) == (Decimal("12.5"), "x", datetime.datetime(2020, 1, 1, 10))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ('{"type": "string"}', "must describe an object"),
        ('{"type": "object", "properties": {"a": {"allOf": []}}}', "<root>/a: 'allOf' is not supported"),
        ('{"type": "object", "properties": {"a": {"$ref": "#/x"}}}', "'#/x' does not exist"),
        ('{"type": "object", "properties": {"a": {"$ref": "#"}}}', "refers to itself"),
        ('{"type": "object", "properties": {"a": {"type": "array"}}}', "`items`"),
        ('{"type": "object", "properties": {"a": {"type": ["string", "number"]}}}', "several types"),
    ],
)
def test_the_error_names_the_wrong_part_of_a_json_schema(text, problem):
    with pytest.raises((ValueError, UnsupportedOperationError), match=problem.replace("(", "\\(")):
        JsonRowDeserializationSchema.builder().json_schema(text)


VALUES = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5)


@given(st.lists(st.dictionaries(st.sampled_from(["id", "name", "x", "y"]), VALUES | st.lists(VALUES, max_size=2))))
def test_messages_parsed_together_equal_messages_parsed_alone(objects):
    """If pyarrow accepts the messages, its result must equal that of parsing them one by one."""
    messages = [json.dumps(item).encode() for item in objects]
    schema = reading(on_error="skip")
    one_by_one = []
    for message in messages:
        try:
            one_by_one.append(tuple(schema.deserialize(message)))
        except ValueError:
            continue
    rows, _ = decoded(schema, *messages)
    assert repr(rows) == repr(one_by_one)
    singles = [row for message in messages for row in decoded(schema, message)[0]]
    assert repr(singles) == repr(one_by_one)


@given(
    st.lists(
        st.builds(
            lambda i, n, x: Row(id=i, name=n, x=x),
            st.none() | st.integers(-(2**31), 2**31 - 1),
            st.none() | st.text(),
            st.none() | st.floats(allow_nan=False, allow_infinity=False),
        )
    )
)
def test_any_rows_survive_a_round_trip(rows):
    texts = written(FIELDS, *rows)
    assert [tuple(row) for row in rows] == decoded(reading(), *(text.encode() for text in texts))[0]
    assert [json.loads(text) for text in texts] == [row.as_dict() for row in rows]
