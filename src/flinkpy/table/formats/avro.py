"""The format `avro`: rows as Avro records, in messages without their schema and in files with it.

Source: org.apache.flink.formats.avro.{AvroFormatFactory, AvroFileFormatFactory, AvroFormatOptions}. Differs: records of
files are matched with the columns of the table by name only, and not also by aliases.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import TypeMismatchError, ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType, without_effect
from flinkpy.formats.avro_format import DECODE_ERRORS, ENCODE_ERRORS
from flinkpy.formats.avro_schema import AvroSchema, load_fastavro
from flinkpy.formats.schema import MessageError, reason_of
from flinkpy.table.formats.avro_schemas import avro_schema_of, without_logical_types
from flinkpy.table.formats.message_schemas import (
    DecodedChanges,
    TableDeserializationSchema,
    TableSerializationSchema,
)
from flinkpy.table.formats.table_format import TableFormat

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from flinkpy.formats.bulk_writer import ColumnBulkWriterFactory
    from flinkpy.formats.file_format import FileFormat
    from flinkpy.sql.types.logical_types import RowType
    from flinkpy.table.connectors.table_options import TableOptions

CODECS = ("null", "deflate", "snappy", "bzip2", "xz", "zstandard")

CODEC = ConfigOption("codec", OptionType.ENUM, "snappy", "The compression of files.", choices=CODECS)
ENCODING = ConfigOption("encoding", OptionType.ENUM, "binary", "The encoding of messages.", choices=("binary", "json"))
LEGACY_TIMES = ConfigOption(
    "timestamp_mapping.legacy",
    OptionType.BOOL,
    True,
    "True for Flink's former types: TIMESTAMP is timestamp-millis. False: TIMESTAMP is a local timestamp, and "
    "TIMESTAMP_LTZ a timestamp.",
)
FAST_READ = without_effect(ConfigOption("open.fastread", OptionType.BOOL, False, "Reading is always as fast."))


class AvroTableFormat(TableFormat):
    """Rows as records of the schema that follows from the columns."""

    identifier = "avro"
    optional_options: tuple[ConfigOption[Any], ...] = (CODEC, ENCODING, LEGACY_TIMES, FAST_READ)

    def file_format(self, row_type: RowType, options: TableOptions) -> FileFormat:
        from flinkpy.table.formats.avro_files import AvroTableFiles

        checked_schema(row_type, options.get(LEGACY_TIMES))
        return AvroTableFiles(row_type)

    def file_writer(self, row_type: RowType, options: TableOptions) -> ColumnBulkWriterFactory:
        from flinkpy.table.formats.avro_files import AvroTableFileWriterFactory

        schema = checked_schema(row_type, options.get(LEGACY_TIMES))
        return AvroTableFileWriterFactory(row_type, schema, options.get(CODEC))

    def deserialization_schema(self, row_type: RowType, options: TableOptions) -> TableDeserializationSchema:
        schema = checked_schema(row_type, options.get(LEGACY_TIMES))
        return _AvroMessageReader(row_type, schema, options.get(ENCODING) == "json")

    def serialization_schema(self, row_type: RowType, options: TableOptions) -> TableSerializationSchema:
        schema = checked_schema(row_type, options.get(LEGACY_TIMES))
        return _AvroMessageWriter(row_type, schema, options.get(ENCODING) == "json")


def checked_schema(row_type: RowType, has_legacy_times: bool = True) -> AvroSchema:
    """Returns the schema of the records of a table. Raises: ValidationError, UnsupportedOperationError."""
    definition = avro_schema_of(row_type.not_null(), has_legacy_times)
    try:
        return AvroSchema(json.dumps(definition))
    except ValueError as error:
        raise ValidationError(f"avro: the columns {', '.join(row_type.names)} are no Avro record: {error}") from error


class AvroCoder:
    """Encodes and decodes records of a schema, as plain values. Thread: any, one at a time.

    Args:
        is_json: True for Avro's JSON encoding.
    """

    def __init__(self, schema: AvroSchema, is_json: bool = False) -> None:
        self._plain = AvroSchema(json.dumps(without_logical_types(schema.definition)))
        self.schema = schema
        self._is_json = is_json

    def decoder(self) -> Callable[[bytes], dict[str, Any]]:
        """Returns a function that decodes a message. It raises DECODE_ERRORS."""
        fastavro, parsed = load_fastavro(), self._plain.parsed
        if self._is_json:
            return lambda message: next(iter(fastavro.json_reader(io.StringIO(message.decode()), parsed)))
        read = fastavro.schemaless_reader
        return lambda message: read(io.BytesIO(message), parsed, None)

    def encode(self, records: Sequence[dict[str, Any]]) -> list[bytes]:
        """Returns one message per record. Raises: TypeMismatchError that names the record."""
        fastavro, parsed = load_fastavro(), self._plain.parsed
        if self._is_json:
            return [_as_json(record, parsed, self.schema) for record in records]
        output = io.BytesIO()
        write, ends = fastavro.schemaless_writer, [0]
        for record in records:
            try:
                write(output, parsed, record)
            except ENCODE_ERRORS as error:
                raise _mismatch(record, self.schema, error) from error
            ends.append(output.tell())
        data = output.getvalue()
        return [data[start:end] for start, end in pairwise(ends)]


def _as_json(record: dict[str, Any], parsed: Any, schema: AvroSchema) -> bytes:
    output = io.StringIO()
    try:
        load_fastavro().json_writer(output, parsed, [record])
    except ENCODE_ERRORS as error:
        raise _mismatch(record, schema, error) from error
    return output.getvalue().encode()


def _mismatch(record: Any, schema: AvroSchema, error: BaseException) -> TypeMismatchError:
    return TypeMismatchError(f"{record!r} does not match the Avro schema {schema}: {reason_of(error)}")


#: Errors of values that do not fit the columns of a table.
COLUMN_ERRORS = (*DECODE_ERRORS, NotImplementedError)


def decoded_rows(
    messages: Sequence[bytes | None], decode: Callable[[bytes], dict[str, Any]], row_type: RowType
) -> DecodedChanges:
    """Returns the rows of messages of one record each.

    Args:
        decode: returns the record of a message as plain values; raises DECODE_ERRORS.
    """
    import numpy as np

    from flinkpy.table.formats.avro_columns import AvroColumns

    columns = AvroColumns(row_type)
    records: list[dict[str, Any]] = []
    positions: list[int] = []
    errors: list[MessageError] = []
    for position, message in enumerate(messages):
        if message is None:
            continue
        try:
            records.append(decode(message))
            positions.append(position)
        except DECODE_ERRORS as error:
            errors.append(MessageError(position, f"it is no record of the Avro schema: {reason_of(error)}"))
    try:
        rows = columns.batch_of(records)
    except COLUMN_ERRORS:
        good = [place for place, record in enumerate(records) if _error_of(columns, record) is None]
        bad = sorted(set(range(len(records))) - set(good))
        errors += [MessageError(positions[place], _error_of(columns, records[place]) or "") for place in bad]
        rows = columns.batch_of([records[place] for place in good])
        positions = [positions[place] for place in good]
    return DecodedChanges(rows, None, np.array(positions, np.int64), sorted(errors))


def _error_of(columns: Any, record: dict[str, Any]) -> str | None:
    try:
        columns.batch_of([record])
    except COLUMN_ERRORS as error:
        return f"the record {record!r} does not fit the columns: {reason_of(error)}"
    return None


class _AvroMessageReader(TableDeserializationSchema):
    def __init__(self, row_type: RowType, schema: AvroSchema, is_json: bool) -> None:
        super().__init__(row_type)
        self._coder = AvroCoder(schema, is_json)

    def decode(self, messages: Sequence[bytes | None]) -> DecodedChanges:
        return decoded_rows(messages, self._coder.decoder(), self.row_type)


class _AvroMessageWriter(TableSerializationSchema):
    def __init__(self, row_type: RowType, schema: AvroSchema, is_json: bool) -> None:
        super().__init__(row_type)
        self._coder = AvroCoder(schema, is_json)

    def encode(self, rows: pa.RecordBatch, kinds: np.ndarray | None) -> list[bytes | None]:
        from flinkpy.table.formats.avro_columns import AvroColumns

        return [*self._coder.encode(AvroColumns(self.row_type).records_of(rows))]
