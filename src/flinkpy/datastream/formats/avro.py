"""PyFlink's `pyflink.datastream.formats.avro`. Needs fastavro: `pip install 'flinkpy[avro]'`.

Differs: `AvroInputFormat` reads a file, or all files of a directory, in several subtasks.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.io import InputFormat
from flinkpy.common.serialization import DeserializationSchema, SerializationSchema
from flinkpy.common.typeinfo import RowTypeInfo, TypeInformation
from flinkpy.formats.avro_format import DECODE_ERRORS, ENCODE_ERRORS, AvroBulkWriterFactory, AvroFormat, mismatch_error
from flinkpy.formats.avro_rows import row_type_of_avro, to_avro_converter, to_row_converter
from flinkpy.formats.avro_schema import AvroSchema, GenericRecordAvroTypeInfo, load_fastavro

if TYPE_CHECKING:
    from flinkpy.connectors.file_source import FileSource
    from flinkpy.formats.schema import DecodedBatch
    from flinkpy.records.batch import Batch

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]


class AvroInputFormat(InputFormat):
    """Reads an Avro file, or all files of a directory, for `StreamExecutionEnvironment.create_input`.

    The records are dicts with the fields of the schema.
    """

    def __init__(self, path: str, schema: AvroSchema) -> None:
        self._path = path
        self._type_info = GenericRecordAvroTypeInfo(schema)

    def get_produced_type(self) -> GenericRecordAvroTypeInfo:
        return self._type_info

    def to_source(self) -> FileSource:
        """Returns the source that reads the files."""
        from flinkpy.connectors.file_source import FileSource

        return FileSource.for_bulk_file_format(AvroFormat(self._type_info.schema), self._path).build()


class AvroBulkWriters:
    """Writes Avro files with a FileSink."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> AvroBulkWriterFactory:
        """Returns a writer factory. Records must be dicts that match `schema`, or Rows with its fields."""
        return AvroBulkWriterFactory(schema)


class AvroRowDeserializationSchema(DeserializationSchema):
    """Deserializes messages of one Avro record each, in binary form without the schema, to (nested) Rows.

    `on_error` sets how malformed messages are handled. Beyond PyFlink.
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        super().__init__()
        self._schema = _schema_of(self, record_class, avro_schema_string)
        self._row_type = row_type_of_avro(self._schema)
        self._convert: Any = None

    def get_produced_type(self) -> RowTypeInfo:
        return self._row_type

    def deserialize(self, message: bytes) -> Any:
        """Raises: ValueError."""
        if message is None:
            return None
        if self._convert is None:
            self._convert = to_row_converter(self._row_type)
        try:
            record = load_fastavro().schemaless_reader(io.BytesIO(message), self._schema.parsed, None)
            return self._convert(record)
        except DECODE_ERRORS as error:
            reason = str(error) or type(error).__name__
            raise ValueError(f"the message is not a record of the Avro schema {self._schema}: {reason}") from error

    def deserialize_batch(self, messages: list[bytes | None]) -> DecodedBatch:
        from flinkpy.formats.schema import decode_each

        return decode_each(messages, self.deserialize, (ValueError,))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_convert": None}


class AvroRowSerializationSchema(SerializationSchema):
    """Serializes Rows to Avro's binary form, without the schema."""

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        super().__init__()
        self._schema = _schema_of(self, record_class, avro_schema_string)
        self._row_type = row_type_of_avro(self._schema)
        self._convert: Any = None

    def serialize(self, element: Any) -> bytes:
        """Raises: TypeMismatchError, which names the field."""
        if self._convert is None:
            self._convert = to_avro_converter(self._row_type)
        output = io.BytesIO()
        record = element
        try:
            record = self._convert(element)
            load_fastavro().schemaless_writer(output, self._schema.parsed, record)
        except ENCODE_ERRORS as error:
            raise mismatch_error(element, self._schema, error, record) from error
        return output.getvalue()

    def serialize_batch(self, batch: Batch, type_info: TypeInformation | None) -> list[bytes | None]:
        from flinkpy.records.lanes import rows_of

        return [self.serialize(row) for row in rows_of(batch, type_info)]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_convert": None}


def _schema_of(owner: object, record_class: str | None, avro_schema_string: str | None) -> AvroSchema:
    if avro_schema_string is not None:
        return AvroSchema.parse_string(avro_schema_string)
    if record_class is None:
        raise TypeError("record_class or avro_schema_string should be specified.")
    raise UnsupportedOperationError(
        f"{type(owner).__name__}: record_class names a Java class, and flinkpy has no JVM; pass avro_schema_string"
    )
