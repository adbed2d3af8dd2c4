"""Protobuf in messages of tables: fields are columns, and what is not set is null or a default."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from flinkpy.common.errors import ValidationError
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import schema_of
from flinkpy.table.connectors.table_options import TableOptions
from flinkpy.table.formats.table_format import format_of

TEXT, INT, BIGINT = types.VarCharType(), types.IntType(), types.BigIntType()
INNER = types.RowType.of(("v1", BIGINT), ("v2", INT))
EVERY_TYPE = types.RowType.of(
    ("uid", BIGINT),
    ("name", TEXT),
    ("category", INT),
    ("content", types.VarBinaryType()),
    ("price", types.DoubleType()),
    ("rate", types.FloatType()),
    ("flag", types.BooleanType()),
    ("small", INT),
    ("big", BIGINT),
    ("corpus_int", INT),
    ("corpus_str", TEXT),
    ("inner", INNER),
    ("numbers", types.ArrayType(INT)),
    ("texts", types.ArrayType(TEXT)),
    ("inners", types.ArrayType(INNER)),
    ("value_map", types.MapType(BIGINT, INNER)),
    ("text_map", types.MapType(TEXT, TEXT)),
)
VALUES: dict[str, Any] = {
    "uid": 1 << 60,
    "name": "é",
    "category": -5,
    "content": b"\x00\xff",
    "price": 2.25,
    "rate": 0.5,
    "flag": True,
    "small": -1,
    "big": -1,
    "corpus_int": 7,
    "corpus_str": "WEB",
    "inner": {"v1": 1, "v2": None},
    "numbers": [1, 2],
    "texts": ["a", ""],
    "inners": [{"v1": 1, "v2": 2}, {"v1": None, "v2": 3}],
    "value_map": [(5, {"v1": 1, "v2": 2})],
    "text_map": [("k", "v")],
}
_F = FieldDescriptorProto
_TYPES = {
    "uid": _F.TYPE_INT64,
    "name": _F.TYPE_STRING,
    "category": _F.TYPE_SINT32,
    "content": _F.TYPE_BYTES,
    "price": _F.TYPE_DOUBLE,
    "rate": _F.TYPE_FLOAT,
    "flag": _F.TYPE_BOOL,
    "small": _F.TYPE_UINT32,
    "big": _F.TYPE_FIXED64,
}


def definition(syntax: str) -> FileDescriptorSet:
    """Returns the file that protoc would write for a message with fields of all kinds."""
    files = FileDescriptorSet()
    file = files.file.add(name="test.proto", package="shop", syntax=syntax)
    corpus = file.enum_type.add(name="Corpus")
    for name, number in (("UNIVERSAL", 0), ("WEB", 1), ("VIDEO", 7)):
        corpus.value.add(name=name, number=number)
    message = file.message_type.add(name="Every")
    inner = message.nested_type.add(name="Inner")
    for number, (name, kind) in enumerate((("v1", _F.TYPE_INT64), ("v2", _F.TYPE_INT32)), 1):
        inner.field.add(name=name, number=number, type=kind, label=_F.LABEL_OPTIONAL)
    fields: dict[str, Any] = {name: {"type": kind} for name, kind in _TYPES.items()}
    if syntax == "proto2":
        fields["name"]["default_value"] = "nobody"
    fields["corpus_int"] = fields["corpus_str"] = {"type": _F.TYPE_ENUM, "type_name": ".shop.Corpus"}
    fields["inner"] = {"type": _F.TYPE_MESSAGE, "type_name": ".shop.Every.Inner"}
    fields["numbers"] = {"type": _F.TYPE_INT32, "label": _F.LABEL_REPEATED}
    fields["texts"] = {"type": _F.TYPE_STRING, "label": _F.LABEL_REPEATED}
    fields["inners"] = {**fields["inner"], "label": _F.LABEL_REPEATED}
    for name, key, value in (
        ("value_map", _F.TYPE_INT64, {"type": _F.TYPE_MESSAGE, "type_name": ".shop.Every.Inner"}),
        ("text_map", _F.TYPE_STRING, {"type": _F.TYPE_STRING}),
    ):
        entry = message.nested_type.add(name="".join(part.title() for part in name.split("_")) + "Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=key, label=_F.LABEL_OPTIONAL)
        entry.field.add(name="value", number=2, label=_F.LABEL_OPTIONAL, **value)
        of_entry = {"type": _F.TYPE_MESSAGE, "type_name": f".shop.Every.{entry.name}", "label": _F.LABEL_REPEATED}
        fields[name] = of_entry
    for number, (name, facts) in enumerate(fields.items(), 1):
        message.field.add(name=name, number=number, **{"label": _F.LABEL_OPTIONAL, **facts})
    return files


@pytest.fixture(params=["proto2", "proto3"])
def syntax(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def file(tmp_path: Path, syntax: str) -> str:
    (tmp_path / "shop.desc").write_bytes(definition(syntax).SerializeToString())
    return str(tmp_path / "shop.desc")


def schemas_of(row_type: types.RowType, name: str, **options: str) -> tuple[Any, Any]:
    given = {f"protobuf.{key.replace('_', '-')}": text for key, text in {"message_class_name": name, **options}.items()}
    found, own = format_of("protobuf", TableOptions(given, "table 't'"), "table 't'")
    made = found.deserialization_schema(row_type, own), found.serialization_schema(row_type, own)
    return pickle.loads(pickle.dumps(made))


def rows_of(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=schema_of(EVERY_TYPE))


def test_rows_of_every_type_survive_a_message(file: str, syntax: str) -> None:
    reader, writer = schemas_of(EVERY_TYPE, "shop.Every", descriptor_file=file)
    messages = writer.encode(rows_of(VALUES), None)
    (found,) = reader.decode(messages).rows.to_pylist()
    zero = 0 if syntax == "proto3" else None
    inner, inners = {"v1": 1, "v2": zero}, [{"v1": 1, "v2": 2}, {"v1": zero, "v2": 3}]
    assert found == {**VALUES, "inner": inner, "inners": inners}
    pool = DescriptorPool()
    pool.Add(definition(syntax).file[0])
    message = GetMessageClass(pool.FindMessageTypeByName("shop.Every")).FromString(messages[0])
    assert (message.small, message.big, message.corpus_str) == ((1 << 32) - 1, (1 << 64) - 1, 1)
    assert message.value_map[5].v2 == 2


def test_fields_that_are_not_set_are_null_but_plain_ones_of_proto3_have_defaults(file: str, syntax: str) -> None:
    reader, writer = schemas_of(EVERY_TYPE, "shop.Every", descriptor_file=file)
    (message,) = writer.encode(rows_of(dict.fromkeys(VALUES)), None)
    assert message == b""
    (found,) = reader.decode([message]).rows.to_pylist()
    if syntax == "proto2":
        assert set(found.values()) == {None}
    else:
        assert (found["uid"], found["name"], found["flag"], found["corpus_str"]) == (0, "", False, "UNIVERSAL")
        assert (found["inner"], found["numbers"], found["value_map"]) == (None, None, None)


def test_defaults_are_read_if_asked(file: str, syntax: str) -> None:
    reader, _ = schemas_of(EVERY_TYPE, "shop.Every", descriptor_file=file, read_default_values="true")
    (found,) = reader.decode([b""]).rows.to_pylist()
    assert found["name"] == ("nobody" if syntax == "proto2" else "")
    assert (found["inner"], found["numbers"], found["value_map"]) == ({"v1": 0, "v2": 0}, [], [])


def test_null_elements_are_written_as_defaults_and_texts_as_the_literal(file: str) -> None:
    reader, writer = schemas_of(EVERY_TYPE, "shop.Every", descriptor_file=file, write_null_string_literal="n/a")
    row = {**VALUES, "numbers": [None, 1], "texts": [None], "inners": [None], "text_map": [("k", None)]}
    (found,) = reader.decode(writer.encode(rows_of(row), None)).rows.to_pylist()
    assert (found["numbers"], found["texts"], found["text_map"]) == ([0, 1], ["n/a"], [("k", "n/a")])
    assert len(found["inners"]) == 1


def test_unknown_names_of_enums_become_the_first_value(file: str) -> None:
    reader, writer = schemas_of(EVERY_TYPE, "shop.Every", descriptor_file=file, read_default_values="true")
    row = {**VALUES, "corpus_str": "RADIO", "corpus_int": 99}
    (found,) = reader.decode(writer.encode(rows_of(row), None)).rows.to_pylist()
    assert (found["corpus_str"], found["corpus_int"]) == ("UNIVERSAL", 0)


def test_malformed_messages_are_errors_or_are_skipped(file: str) -> None:
    row_type = types.RowType.of(("name", TEXT))
    reader, writer = schemas_of(row_type, "shop.Every", descriptor_file=file)
    (good,) = writer.encode(pa.RecordBatch.from_pylist([{"name": "x"}]), None)
    decoded = reader.decode([good, b"\xff", None, good])
    assert [error.position for error in decoded.errors] == [1]
    assert decoded.positions.tolist() == [0, 3]
    skipping, _ = schemas_of(row_type, "shop.Every", descriptor_file=file, ignore_parse_errors="true")
    assert not skipping.decode([b"\xff"]).errors


def test_a_generated_class_is_found_by_its_path_also_below_another_one() -> None:
    row_type = types.RowType.of(("name", TEXT), ("type", TEXT))
    reader, writer = schemas_of(row_type, "google.protobuf.descriptor_pb2.FieldDescriptorProto")
    rows = pa.RecordBatch.from_pylist([{"name": "x", "type": "TYPE_INT64"}])
    assert reader.decode(writer.encode(rows, None)).rows.to_pylist() == rows.to_pylist()
    schemas_of(types.RowType.of(("start", INT)), "google.protobuf.descriptor_pb2.DescriptorProto.ReservedRange")


@pytest.mark.parametrize(
    ("name", "column", "expected"),
    [
        ("no.such_pb2.Message", ("name", TEXT), "get no.such_pb2.Message class failed"),
        ("google.protobuf.descriptor_pb2.Nothing", ("name", TEXT), "class failed"),
        ("json.JSONDecoder", ("name", TEXT), "is not a message class of Protobuf"),
        (
            "google.protobuf.type_pb2.Type",
            ("nam", TEXT),
            "Column nam does not exists in definition.*Its fields are name",
        ),
        (
            "google.protobuf.type_pb2.Type",
            ("name", INT),
            "string name .protobuf. is not compatible for column name INT",
        ),
        ("google.protobuf.type_pb2.Type", ("fields", TEXT), "repeated message fields"),
    ],
)
def test_wrong_classes_and_columns_are_reported(name: str, column: Any, expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        schemas_of(types.RowType.of(column), name)


def test_a_missing_message_of_a_file_is_reported(file: str) -> None:
    with pytest.raises(ValidationError, match=r"has no definition of the message shop\.Nothing"):
        schemas_of(types.RowType.of(("name", TEXT)), "shop.Nothing", descriptor_file=file)
