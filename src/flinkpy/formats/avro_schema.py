"""AvroSchema and GenericRecordAvroTypeInfo, the type of streams of Avro records.

Source: pyflink.datastream.formats.avro, org.apache.flink.formats.avro.typeutils.GenericRecordAvroTypeInfo.
"""

from __future__ import annotations

import json
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import PickledBytesTypeInfo


def load_fastavro() -> Any:
    """Imports and returns the module `fastavro`.

    Raises:
        UnsupportedOperationError: fastavro is not installed.
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
    """The schema of Avro records.

    Example:
        >>> schema = AvroSchema.parse_file("/schemas/click.avsc")
    """

    def __init__(self, j_schema: Any) -> None:
        """Creates a schema.

        Args:
            j_schema: the schema as JSON text. In PyFlink it is a Java object.

        Raises:
            ValueError: the text is not an Avro schema.
        """
        if not isinstance(j_schema, str):
            raise UnsupportedOperationError("AvroSchema: pass its JSON text; Java objects are not supported")
        try:
            self._definition = json.loads(j_schema)
        except ValueError as error:
            raise ValueError(f"the Avro schema is not JSON: {error}") from error
        self._text = json.dumps(self._definition, separators=(",", ":"), ensure_ascii=False)
        self._parsed: Any = None
        self.parsed  # noqa: B018 - raises now if the schema is invalid

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Returns the schema of a JSON text. Raises: ValueError if it is not an Avro schema."""
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """Returns the schema in a JSON file. Raises: ValueError if it is not an Avro schema; OSError."""
        with open(file_path, encoding="utf-8") as file:
            return AvroSchema(file.read())

    @property
    def definition(self) -> Any:
        """The parsed JSON. Do not change it."""
        return self._definition

    @property
    def parsed(self) -> Any:
        """The schema in the form that fastavro needs."""
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
                raise ValueError(f"this is not an Avro schema: {type(error).__name__}: {error}") from error
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
    """The type of records of an Avro schema: dicts that contain lists, dicts and plain values.

    Records are serialized as Python objects. A sink for Avro checks them against the schema when it writes them.
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
