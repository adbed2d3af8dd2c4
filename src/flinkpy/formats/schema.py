"""Applies schemas to batches, for connectors whose records are bytes (Kafka, RabbitMQ and others).

A schema is a `DeserializationSchema` or a `SerializationSchema`. A user's schema defines `deserialize` or `serialize`
for one record. Schemas of flinkpy also read and write many records at a time, as columns if their type has columns.
Connectors handle both kinds in the same way:

    decoded = decode_messages(schema, messages, lambda index: f"topic t, partition 0, offset {offsets[index]}")
    batch = decoded.batch                       # records in the order of the messages, in either lane
    timestamps = times[decoded.positions]       # record i came from message positions[i]
    reporter.report(decoded.bad)                # formats.bad_records.BadRecordReporter(context, on_error_of(schema))

    values = encode_batch(schema, batch, input_type)   # bytes or None, one for each record

A message that is None (a tombstone), or for which `deserialize` returns None, has no record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from flinkpy.common.errors import FlinkError, InputFormatError, TypeMismatchError, UnsupportedOperationError
from flinkpy.common.serialization import ByteArraySchema, SimpleStringSchema
from flinkpy.common.typeinfo import TypeInformation, Types
from flinkpy.formats.bad_records import FAIL, BadRecord, shown
from flinkpy.records.batch import Batch


class MessageError(NamedTuple):
    """The reason why the message at `position` is malformed."""

    position: int
    reason: str


class DecodedBatch(NamedTuple):
    """The result of a schema's `deserialize_batch`.

    Attributes:
        values: the records: a list, or a `pyarrow.RecordBatch` with the columns of the produced type.
        positions: int64[n], the index of each record's message, ascending. None if record i is from message i.
        errors: errors of malformed messages, by ascending position.
    """

    values: Any
    positions: np.ndarray | None = None
    errors: Sequence[MessageError] = ()


class DecodedMessages(NamedTuple):
    """The result of `decode_messages`. `positions` is int64[n]; `bad` is empty if `on_error` is "fail"."""

    batch: Batch
    positions: np.ndarray
    bad: list[BadRecord]


def on_error_of(schema: Any) -> Any:
    """Returns the schema's attribute `on_error`: "fail" (default), "skip" or an OutputTag."""
    return getattr(schema, "on_error", FAIL)


def produced_type_of(schema: Any) -> TypeInformation:
    """Returns the type of the schema's records. Without one, records are pickled."""
    get = getattr(schema, "get_produced_type", None)
    produced = None if get is None else get()
    return Types.PICKLED_BYTE_ARRAY() if produced is None else produced


def decode_messages(
    schema: Any, messages: Sequence[bytes | None], origin: Callable[[int], str] | None = None
) -> DecodedMessages:
    """Deserializes messages.

    Args:
        schema: the schema.
        messages: the messages; None has no record.
        origin: returns the origin of the message with an index, for errors.

    Raises:
        InputFormatError: a message is malformed and `on_error` is "fail". The error names its origin and shows it.
    """
    decode = getattr(schema, "deserialize_batch", None)
    decoded = _decode_each(schema, messages) if decode is None else decode(messages)
    bad = []
    for index, reason in decoded.errors:
        raw = messages[index] or b""
        place = f"{origin(index)}: " if origin is not None else f"message {index}: "
        if on_error_of(schema) == FAIL:
            raise InputFormatError(
                f"{place}{reason}; the message is: {shown(raw)}", details={"text": shown(raw), "message": str(index)}
            )
        bad.append(BadRecord(bytes(raw), f"{place}{reason}"))
    positions = decoded.positions
    if positions is None:
        positions = np.arange(len(messages), dtype=np.int64)
    return DecodedMessages(Batch(decoded.values), positions, bad)


def encode_batch(schema: Any, batch: Batch, type_info: TypeInformation | None) -> list[bytes | None]:
    """Serializes each record, in order.

    Raises:
        TypeMismatchError: a record does not fit the schema. The error names the record.
    """
    encode = getattr(schema, "serialize_batch", None)
    if encode is not None:
        encoded: list[bytes | None] = encode(batch, type_info)
        return encoded
    from flinkpy.records.lanes import rows_of

    return [schema.serialize(row) for row in rows_of(batch, type_info)]


def _decode_each(schema: Any, messages: Sequence[bytes | None]) -> DecodedBatch:
    """Calls `deserialize` per message. If `on_error` is "fail", its exceptions are raised unchanged."""
    if type(schema) is SimpleStringSchema:
        charset = schema.charset
        texts = [message.decode(charset, "replace") for message in messages if message is not None]
        return DecodedBatch(texts, present(messages))
    if type(schema) is ByteArraySchema:
        return DecodedBatch([message for message in messages if message is not None], present(messages))
    fails = on_error_of(schema) == FAIL
    return decode_each(messages, schema.deserialize, () if fails else (Exception,))


def decode_each(
    messages: Sequence[bytes | None],
    deserialize: Callable[[bytes], Any],
    errors_of_messages: tuple[type[BaseException], ...],
) -> DecodedBatch:
    """Deserializes messages one by one. An exception of the given types means a malformed message."""
    values: list[Any] = []
    positions: list[int] = []
    errors: list[MessageError] = []
    for index, message in enumerate(messages):
        if message is None:
            continue
        try:
            value = deserialize(message)
        except errors_of_messages as error:
            errors.append(MessageError(index, reason_of(error)))
            continue
        if value is not None:
            values.append(value)
            positions.append(index)
    return DecodedBatch(values, np.array(positions, np.int64), errors)


def present(messages: Sequence[bytes | None]) -> np.ndarray | None:
    """Returns the indices of messages that are not None; None if all are present."""
    if None not in messages:
        return None
    return np.array([index for index, message in enumerate(messages) if message is not None], np.int64)


def reason_of(error: BaseException) -> str:
    text = error.message if isinstance(error, FlinkError) else str(error)
    return text or type(error).__name__


def columns_of_batch(batch: Batch, type_info: TypeInformation, input_type: TypeInformation | None) -> Any:
    """Returns the batch as `RecordBatch[schema=arrow_schema(type_info)]`, for schemas that write columns.

    Raises:
        TypeMismatchError: a record does not fit the schema's type. The error names the record.
    """
    from flinkpy.records.lanes import conform, has_columns, rows_of, to_columns

    if batch.is_columnar and has_columns(input_type):
        return conform(batch.values, type_info)
    rows = rows_of(batch, input_type)
    if not has_columns(type_info):
        raise UnsupportedOperationError(f"{type_info!r} has no columns")
    return to_columns(Batch(rows), type_info).values


def check_row(element: Any, type_info: TypeInformation) -> Any:
    """Returns one record as columns. Raises: TypeMismatchError."""
    if element is None:
        raise TypeMismatchError("a record is None")
    return columns_of_batch(Batch([element]), type_info, None)
