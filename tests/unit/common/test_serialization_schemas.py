"""Schemas of `flinkpy.common.serialization`."""

from __future__ import annotations

import pickle

import pytest

from flinkpy.common import ByteArraySchema, Encoder, Row, SimpleStringSchema
from flinkpy.common.serialization import RowFieldExtractorSchema


def test_text_and_bytes_survive_a_round_trip() -> None:
    schema = SimpleStringSchema()
    assert schema.deserialize(schema.serialize("ein Tässchen")) == "ein Tässchen"
    assert SimpleStringSchema("latin-1").serialize("é") == b"\xe9"
    assert ByteArraySchema().deserialize(ByteArraySchema().serialize(b"\0x")) == b"\0x"


def test_schemas_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(SimpleStringSchema("utf-16-le"))).serialize("a") == b"a\0"
    assert pickle.loads(pickle.dumps(RowFieldExtractorSchema(1))) == RowFieldExtractorSchema(1)


def test_an_unknown_charset_is_refused_by_the_constructor() -> None:
    with pytest.raises(LookupError):
        SimpleStringSchema("no-such-charset")
    with pytest.raises(LookupError):
        Encoder.simple_string_encoder("no-such-charset")


def test_a_schema_extracts_a_single_field_of_a_row() -> None:
    row = Row(b"first", b"second", None, "text")

    assert RowFieldExtractorSchema(0).serialize(row) == b"first"
    assert RowFieldExtractorSchema(1).serialize(row) == b"second"
    assert RowFieldExtractorSchema(0).serialize(Row(bytearray(b"x"))) == b"x"
    assert RowFieldExtractorSchema(2).serialize(row) == b"", "null gives nothing"
    assert RowFieldExtractorSchema(0).serialize(None) == b""
    with pytest.raises(TypeError, match="Field at index 3 must be"):
        RowFieldExtractorSchema(3).serialize(row)


def test_the_field_index_is_validated_and_returned() -> None:
    assert RowFieldExtractorSchema(4).get_field_index() == 4
    with pytest.raises(ValueError, match="Field index must be non-negative, got: -1"):
        RowFieldExtractorSchema(-1)
    for wrong in ("1", 1.0, True):
        with pytest.raises(TypeError, match="must be an integer"):
            RowFieldExtractorSchema(wrong)  # type: ignore[arg-type]


def test_schemas_of_the_same_field_are_equal() -> None:
    assert RowFieldExtractorSchema(1) == RowFieldExtractorSchema(1) != RowFieldExtractorSchema(2)
    assert hash(RowFieldExtractorSchema(1)) == hash(RowFieldExtractorSchema(1))
