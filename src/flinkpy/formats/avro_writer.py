"""Writing Avro object container files.

Source: org.apache.flink.formats.avro.{AvroWriters, AvroBulkWriter}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from flinkpy.common.errors import TypeMismatchError
from flinkpy.common.types import Row
from flinkpy.formats.avro_rows import plain_value
from flinkpy.formats.avro_schema import AvroSchema, load_fastavro
from flinkpy.formats.bulk_writer import BatchWriterFactory, BulkWriter

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch

#: What fastavro raises for a record that is not of its schema.
ENCODE_ERRORS = (ValueError, TypeError, KeyError, AttributeError, OverflowError, ArithmeticError, IndexError)
_SHOWN_CHARACTERS = 200


class AvroBulkWriterFactory(BatchWriterFactory):
    """Files of records of `schema`, not compressed, as Flink's are."""

    def __init__(self, schema: AvroSchema, codec: str = "null") -> None:
        super().__init__()
        load_fastavro()
        self._schema = schema
        self._codec = codec

    def create(self, file: BinaryIO, input_type: Any) -> BulkWriter:
        return _AvroBulkWriter(file, self._schema, self._codec, input_type)


class _AvroBulkWriter:
    def __init__(self, file: BinaryIO, schema: AvroSchema, codec: str, input_type: Any) -> None:
        self._schema = schema
        self._input_type = input_type
        self._writer = load_fastavro().write.Writer(file, schema.parsed, codec=codec)

    def add(self, batch: Batch) -> None:
        from flinkpy.records.lanes import rows_of

        write = self._writer.write
        for record in rows_of(batch, self._input_type):
            try:
                write(plain_value(record))
            except ENCODE_ERRORS as error:
                raise mismatch_error(record, self._schema, error) from error

    def finish(self) -> None:
        self._writer.flush()

    def discard(self) -> None:
        return


def mismatch_error(record: Any, schema: AvroSchema, error: BaseException, converted: Any = None) -> TypeMismatchError:
    """Returns the error for a record that the schema does not hold. It names the field where fastavro can tell.

    Args:
        converted: the record as fastavro was given it, where that is not the record itself.
    """
    from fastavro.validation import ValidationError, validate

    reason = str(error) or type(error).__name__
    try:
        validate(plain_value(record if converted is None else converted), schema.parsed)
    except ValidationError as invalid:
        reason = " ".join(str(invalid).split())
    except ENCODE_ERRORS as invalid:
        if str(invalid) != reason:
            reason = f"{reason}; {invalid}"
    shown = repr(record)
    shown = shown if len(shown) <= _SHOWN_CHARACTERS else shown[:_SHOWN_CHARACTERS] + "..."
    kind = "Row" if isinstance(record, Row) else type(record).__name__
    return TypeMismatchError(
        f"{shown} ({kind}) is no record of the Avro schema: {reason}", details={"value": shown, "schema": str(schema)}
    )
