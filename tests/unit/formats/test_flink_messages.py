"""JSON and CSV messages against the answers of Flink 2.3's own schemas, which are recorded beside this file.

A row is compared as Flink prints it; "ERROR" stands for an exception, null for no row.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flinkpy.common import Row, Types
from flinkpy.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from flinkpy.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from flinkpy.formats.schema import decode_messages, encode_batch
from flinkpy.formats.text_form import text_of
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import rows_of

ANSWERS = json.loads(Path(__file__).with_name("flink_message_answers.json").read_text())
TEXTS = Types.ROW_NAMED(["a", "b", "c"], [Types.STRING(), Types.STRING(), Types.STRING()])
NUMBERS = Types.ROW_NAMED(
    ["i", "l", "f", "d", "b", "s"],
    [Types.INT(), Types.LONG(), Types.FLOAT(), Types.DOUBLE(), Types.BOOLEAN(), Types.STRING()],
)
TIMES = Types.ROW_NAMED(["d", "t", "ts"], [Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP()])
OTHERS = Types.ROW_NAMED(["d", "i", "b"], [Types.BIG_DEC(), Types.BIG_INT(), Types.PRIMITIVE_ARRAY(Types.BYTE())])
ROWS_OF_TEXT = [
    ("abc", "", None),
    ("a b", "a,b", 'q"q'),
    ("x" * 24, "x" * 25, "new\nline"),
    ("é", "a-b", "2020-01-01"),
    ("tab\t", "back\\slash", "a|b;c"),
    ("#c", "'", "\r"),
]
#: name -> (type, calls on the CSV builder, rows).
WRITTEN = {
    "strings": (TEXTS, {}, ROWS_OF_TEXT),
    "pipe": (TEXTS, {"set_field_delimiter": ["|"]}, ROWS_OF_TEXT),
    "escape": (TEXTS, {"set_escape_character": ["\\"]}, ROWS_OF_TEXT),
    "quote": (TEXTS, {"set_quote_character": ["'"]}, ROWS_OF_TEXT),
    "noquote": (TEXTS, {"disable_quote_character": []}, ROWS_OF_TEXT[:1]),
    "null": (TEXTS, {"set_null_literal": ["null"]}, ROWS_OF_TEXT),
    "crlf": (TEXTS, {"set_line_delimiter": ["\r\n"]}, ROWS_OF_TEXT),
    "nums": (
        NUMBERS,
        {},
        [
            (1, -(2**63), 0.5, 0.1, True, "x"),
            (None,) * 6,
            (0, 0, 1e10, 1e7, False, "s"),
            (0, 0, 0.001, 0.0001, False, "s"),
            (0, 0, 3e38, 2e-308, False, "s"),
            (0, 0, 1.0, 1234567.0, False, "s"),
            (0, 0, 1.0, 100.0, False, "s"),
        ],
    ),
}
CSV_READ = {
    "strings": (
        TEXTS,
        {},
        [
            "a,b,c\n",
            "a,,c",
            '"a b","x,y","q""q"',
            "a,b",
            "a,b,c,d",
            " a , b ,c",
            "a,b,c\r\n",
            "",
            "\n",
            "#x,b,c",
            'a,"b\nc",d',
            'a,b"c,d',
            '"a"b,c,d',
            'a,"b',
        ],
    ),
    "comments": (TEXTS, {"set_allow_comments": [True]}, ["#x,b,c", "# x\na,b,c"]),
    "null": (TEXTS, {"set_null_literal": ["null"]}, ["null,a,b", '"null",a,b', "a,,b"]),
    "ignore": (
        NUMBERS,
        {"set_ignore_parse_errors": [True]},
        ["x,1,1,1,true,s", "1,2", "1,2,3,4,true,s,extra", "", '1,"2'],
    ),
    "nums": (
        NUMBERS,
        {},
        [
            "1,2,1.5,2.5,true,s",
            " 1 , 2 , 1.5 , 2.5 , TRUE ,s",
            "1.0,2,1,1,true,s",
            ",2,1,1,true,s",
            "1,2,1,1,yes,s",
            "+1,2,1e3,NaN,false,s",
            "1,2,1f,1d,false,s",
            "2147483648,1,1,1,true,s",
            "1,2,Infinity,-Infinity,true,s",
            "1_0,2,1,1,true,s",
            "1,2,.5,5.,true,s",
        ],
    ),
    "escape": (TEXTS, {"set_escape_character": ["\\"]}, ["a\\,b,c,d", 'a,"b\\"c",d', "a,b\\\\,c"]),
}
JSON_READ = {
    "nums": (
        NUMBERS,
        [],
        [
            '{"i":1,"l":2,"f":1.5,"d":2.5,"b":true,"s":"x"}',
            '{"i":"1","l":"2","f":"1.5","d":"2.5","b":"true","s":5}',
            '{"i":1.7,"l":2.9}',
            '{"i":true}',
            '{"b":1}',
            '{"b":"yes"}',
            '{"s":true}',
            '{"s":1.50}',
            '{"s":[1,2]}',
            '{"s":{"a":1}}',
            '{"s":null}',
            "{}",
            "[]",
            "null",
            '"x"',
            "",
            '{"i":2147483648}',
            '{"l":9223372036854775808}',
            '{"i":"x"}',
            '{"i":" 1 "}',
            '{"d":"NaN"}',
            '{"d":NaN}',
            '{"i":1}{"i":2}',
            '{"i":1} x',
            '{"i":1,"i":2}',
            '{"f":1e400}',
            '{"d":"1e3"}',
            '{"i":"1.5"}',
            '{"i":"+1"}',
            '{"s":1e3}',
            '{"s":12345678901234567890}',
            '{"i":{}}',
            '{"i":""}',
            '{"b":""}',
            '{"b":"TRUE"}',
            '{"d":"1_0"}',
            '{"i":1e2}',
        ],
    ),
    "ignore": (
        NUMBERS,
        ["ignore_parse_errors"],
        ['{"i":"x","s":"a"}', "nonsense", "[]", '{"i":1.5,"b":"yes"}'],
    ),
    "missing": (
        NUMBERS,
        ["fail_on_missing_field"],
        ['{"i":1}', '{"i":1,"l":2,"f":1.5,"d":2.5,"b":true,"s":null}'],
    ),
    "temporal": (
        TIMES,
        [],
        [
            '{"d":"2020-02-29","t":"12:12:12Z","ts":"2020-02-29T12:12:43Z"}',
            '{"d":"2020-02-30"}',
            '{"t":"12:12:12"}',
            '{"ts":"2020-02-29T12:12:43"}',
            '{"ts":"2020-02-29T12:12:43.123Z"}',
            '{"ts":"2020-02-29T12:12:43+02:00"}',
            '{"t":"12:12:12.5Z"}',
            '{"ts":"2020-02-29 12:12:43"}',
        ],
    ),
    "dec": (
        OTHERS,
        [],
        [
            '{"d":1.50,"i":123456789012345678901234567890,"b":"AP8="}',
            '{"d":"1.5","i":"7"}',
            '{"i":1.5}',
            '{"b":"%%"}',
            '{"b":5}',
        ],
    ),
}
#: Cases in which flinkpy differs on purpose (docs/formats.md), with its own answers.
DIFFERS = {
    "1,2,1,1,yes,s": "ERROR",
    "1,2,1f,1d,false,s": "ERROR",
    '{"b":1}': "ERROR",
    '{"b":"yes"}': "ERROR",
    '{"b":""}': "ERROR",
    '{"i":1}{"i":2}': "ERROR",
    '{"i":1} x': "ERROR",
    '{"b":5}': "ERROR",
    '{"i":1.5,"b":"yes"}': "+I[1, null, null, null, null, null]",
    '{"t":"12:12:12"}': "+I[null, 12:12:12, null]",
    '{"t":"12:12:12.5Z"}': "+I[null, 12:12:12.500000, null]",
    '{"ts":"2020-02-29T12:12:43"}': "+I[null, null, 2020-02-29 12:12:43.0]",
    '{"ts":"2020-02-29 12:12:43"}': "+I[null, null, 2020-02-29 12:12:43.0]",
    '{"ts":"2020-02-29T12:12:43+02:00"}': "+I[null, null, 2020-02-29 10:12:43.0]",
    # Java prints the bytes as a list.
    '{"d":1.50,"i":123456789012345678901234567890,"b":"AP8="}': (
        "+I[1.50, 123456789012345678901234567890, b'\\x00\\xff']"
    ),
}


def configured(builder, calls):
    for name, arguments in calls.items():
        getattr(builder, name)(*arguments)
    return builder.build()


@pytest.mark.parametrize("name", WRITTEN)
def test_written_messages_equal_those_of_flink(name):
    row_type, calls, values = WRITTEN[name]
    csv = configured(CsvRowSerializationSchema.Builder(row_type), calls)
    assert [message.decode() for message in encode_batch(csv, Batch(values), row_type)] == ANSWERS[f"csv ser {name}"]
    writing = JsonRowSerializationSchema.builder().with_type_info(row_type).build()
    assert [writing.serialize(Row(*row)).decode() for row in values] == ANSWERS[f"json ser {name}"]


def check(schema, row_type, texts, answers):
    for text, answer in zip(texts, answers, strict=True):
        try:
            row = schema.deserialize(text.encode())
            found = None if row is None else text_of(row)
        except ValueError:
            found = "ERROR"
        assert found == DIFFERS.get(text, answer), text
        schema.on_error = "skip"
        batch = decode_messages(schema, [text.encode()]).batch
        together = [text_of(row) for row in rows_of(batch, row_type)]
        assert together == ([] if found in (None, "ERROR") else [found]), text


@pytest.mark.parametrize("name", CSV_READ)
def test_csv_messages_are_read_like_by_flink(name):
    row_type, calls, texts = CSV_READ[name]
    schema = configured(CsvRowDeserializationSchema.Builder(row_type), calls)
    check(schema, row_type, texts, ANSWERS[f"csv de {name}"])


@pytest.mark.parametrize("name", JSON_READ)
def test_json_messages_are_read_like_by_flink(name):
    row_type, calls, texts = JSON_READ[name]
    builder = JsonRowDeserializationSchema.builder().type_info(row_type)
    schema = configured(builder, {call: [] for call in calls})
    check(schema, row_type, texts, ANSWERS[f"json de {name}"])
