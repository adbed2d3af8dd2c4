"""AvroSchema, and the type of streams of Avro records.

Source: pyflink.datastream.formats.avro, org.apache.flink.formats.avro.typeutils.GenericRecordAvroTypeInfo.
"""

from __future__ import annotations

import json
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import PickledBytesTypeInfo


def load_fastavro() -> Any:
    """The module `fastavro`.

    Raises:
        UnsupportedOperationError: it is not installed.
    """
    try:
        import fastavro
        import fastavro.write
    except ImportError as error:
        raise UnsupportedOperationError(
            f"Avro needs fastavro, which cannot be imported ({error}): pip install 'flinkpy[avro]'"
        ) from error
    return fastavro


class AvroSchema:
    """The schema of Avro records."""

    def __init__(self, j_schema: Any) -> None:
        """Args:
        j_schema: the schema as JSON text (PyFlink has a Java object here).

        Raises:
            ValueError: it is no Avro schema.
        """
        if not isinstance(j_schema, str):
            raise UnsupportedOperationError("AvroSchema: give its JSON text; a Java object cannot be used")
        try:
            self._definition = json.loads(j_schema)
        except ValueError as error:
            raise ValueError(f"the Avro schema is not JSON: {error}") from error
        self._text = json.dumps(self._definition, separators=(",", ":"), ensure_ascii=False)
        self._parsed: Any = None
        self.parsed  # noqa: B018 - an invalid one is an error now

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Raises: ValueError."""
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """Raises: ValueError; OSError, where the file cannot be read."""
        with open(file_path, encoding="utf-8") as file:
            return AvroSchema(file.read())

    @property
    def definition(self) -> Any:
        """The parsed JSON; not to be changed."""
        return self._definition

    @property
    def parsed(self) -> Any:
        """As fastavro wants it."""
        if self._parsed is None:
            fastavro = load_fastavro()
            try:
                self._parsed = fastavro.parse_schema(json.loads(self._text))
            except (
                fastavro.schema.SchemaParseException,
                fastavro.schema.UnknownType,
                KeyError,
                TypeError,
                ValueError,
            ) as error:
                raise ValueError(f"this is no Avro schema: {type(error).__name__}: {error}") from error
        return self._parsed

    def __str__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroSchema) and self._definition == other._definition

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> Any:
        return AvroSchema, (self._text,)


class GenericRecordAvroTypeInfo(PickledBytesTypeInfo):
    """Records of an Avro schema: dicts, with lists, dicts and plain values in them.

    They travel as Python objects. What a sink for Avro gets is checked against the schema when it is written.
    """

    def __init__(self, schema: AvroSchema) -> None:
        if not isinstance(schema, AvroSchema):
            raise TypeError(f"{schema!r} is not an AvroSchema")
        super().__init__()
        self._schema = schema

    @property
    def schema(self) -> AvroSchema:
        return self._schema

    def _key(self) -> tuple[Any, ...]:
        return (self._schema,)

    def __repr__(self) -> str:
        return f"GenericRecord({self._schema})"
