"""PyFlink's `pyflink.datastream.formats.json`.

Beyond PyFlink: `on_error` of the builder sets how malformed messages are handled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.common.serialization import SerializationSchema
from flinkpy.common.typeinfo import RowTypeInfo, TypeInformation
from flinkpy.datastream.formats.row_messages import RowMessageDeserializationSchema
from flinkpy.formats.bad_records import FAIL, checked_on_error
from flinkpy.formats.bulk_writer import JsonBulkWriterFactory
from flinkpy.formats.json_format import JsonFormat
from flinkpy.formats.json_values import JsonReadOptions, row_converter
from flinkpy.formats.row_types import row_type_of, row_type_of_json_schema

if TYPE_CHECKING:
    from flinkpy.formats.json_parser import JsonParser
    from flinkpy.formats.json_writer import JsonWriter
    from flinkpy.records.batch import Batch

__all__ = ["JsonBulkWriters", "JsonReaderFormat", "JsonRowDeserializationSchema", "JsonRowSerializationSchema"]


class JsonReaderFormat(JsonFormat):
    """Reads files with one JSON object per line. Batches stay in columns. Beyond PyFlink."""

    @staticmethod
    def for_row_type(row_type: Any) -> JsonReaderFormat:
        """Returns the format of a row type: `Types.ROW_NAMED(...)`, a `pyarrow.Schema` or a dict of types by name."""
        return JsonReaderFormat(row_type_of(row_type))


class JsonBulkWriters:
    """Writes files with one JSON object per line, with a FileSink. Beyond PyFlink."""

    @staticmethod
    def for_row_type(row_type: Any = None) -> JsonBulkWriterFactory:
        """Returns a writer factory for a row type; None takes the columns of the stream's type."""
        return JsonBulkWriterFactory(None if row_type is None else row_type_of(row_type))


class JsonRowDeserializationSchema(RowMessageDeserializationSchema):
    """Deserializes messages of one JSON object each to Rows with the declared fields. Other fields are ignored."""

    def __init__(self, j_deserialization_schema: Any = None) -> None:
        super().__init__(j_deserialization_schema)
        self._options = JsonReadOptions()

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        return JsonRowDeserializationSchema.Builder()

    def _make_parser(self, row_type: RowTypeInfo) -> JsonParser:
        from flinkpy.formats.json_parser import JsonParser

        return JsonParser(row_type, self._options)

    class Builder:
        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None
            self._fail_on_missing_field = False
            self._ignore_parse_errors = False
            self._on_error: Any = FAIL

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """Sets the ROW type. Fields are matched by name."""
            self._type_info = type_info
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """Sets the type by a JSON schema. Numbers become BIG_DEC."""
            if json_schema is None:
                raise TypeError("The json_schema must not be None.")
            self._type_info = row_type_of_json_schema(json_schema)
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """Treats a missing field as an error. By default it is null."""
            self._fail_on_missing_field = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """Ignores errors: a malformed field is null, and a message that is not an object is skipped."""
            self._ignore_parse_errors = True
            return self

        def on_error(self, on_error: Any) -> JsonRowDeserializationSchema.Builder:
            """Sets how malformed messages are handled: `"fail"`, `"skip"` or an OutputTag for them. Beyond PyFlink."""
            self._on_error = checked_on_error(on_error)
            return self

        def build(self) -> JsonRowDeserializationSchema:
            if self._type_info is None:
                raise TypeError("Type information should be set.")
            if not isinstance(self._type_info, RowTypeInfo):
                raise TypeError(f"Only RowTypeInfo is supported, not {self._type_info!r}")
            if self._fail_on_missing_field and self._ignore_parse_errors:
                raise ValueError(
                    "JSON format doesn't support failOnMissingField and ignoreParseErrors are both enabled."
                )
            schema = JsonRowDeserializationSchema()
            schema._row_type = self._type_info
            schema._options = JsonReadOptions(self._fail_on_missing_field, self._ignore_parse_errors)
            schema.on_error = self._on_error
            row_converter(self._type_info, schema._options)  # raises now if JSON does not support a type
            return schema


class JsonRowSerializationSchema(SerializationSchema):
    """Serializes Rows to JSON objects with all fields, in the order of the type."""

    def __init__(self, j_serialization_schema: Any = None) -> None:
        super().__init__(j_serialization_schema)
        self._row_type: RowTypeInfo | None = None
        self._writer: JsonWriter | None = None

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        return JsonRowSerializationSchema.Builder()

    def serialize(self, element: Any) -> bytes:
        """Raises: TypeMismatchError."""
        from flinkpy.records.batch import Batch

        return self.serialize_batch(Batch([element]), None)[0] or b""

    def serialize_batch(self, batch: Batch, type_info: TypeInformation | None) -> list[bytes | None]:
        """Raises: TypeMismatchError, which names the record."""
        from flinkpy.formats.json_writer import JsonWriter
        from flinkpy.formats.schema import columns_of_batch

        assert self._row_type is not None, "made by the builder"
        if self._writer is None:
            self._writer = JsonWriter(self._row_type)
        return list(map(str.encode, self._writer.texts(columns_of_batch(batch, self._row_type, type_info))))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_writer": None}

    class Builder:
        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """Sets the ROW type of the records."""
            self._type_info = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            if self._type_info is None:
                raise TypeError("Typeinfo should be set.")
            if not isinstance(self._type_info, RowTypeInfo):
                raise TypeError(f"Only RowTypeInfo is supported, not {self._type_info!r}")
            schema = JsonRowSerializationSchema()
            schema._row_type = self._type_info
            return schema
