"""Schemas in batches: what connectors whose records are bytes (Kafka, RabbitMQ, ...) call.

A schema is a `DeserializationSchema` or `SerializationSchema`. One of a user defines `deserialize` or `serialize` for a
single record; those that come with flinkpy also read and write many at a time, as columns where their type has any.
Connectors need not know which:

    decoded = decode_messages(schema, messages, lambda index: f"topic t, partition 0, offset {offsets[index]}")
    batch = decoded.batch                       # records in the order of the messages, in either lane
    timestamps = times[decoded.positions]       # record i came from message positions[i]
    reporter.report(decoded.bad)                # formats.bad_records.BadRecordReporter(context, on_error_of(schema))

    values = encode_batch(schema, batch, input_type)   # bytes or None, one for each record

A message that is None (a tombstone), and one for which `deserialize` returns None, gives no record.
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
    """The message at `position` could not be read."""

    position: int
    reason: str


class DecodedBatch(NamedTuple):
    """What `deserialize_batch` of a schema gives.

    Attributes:
        values: the records, a list or a `pyarrow.RecordBatch` with the columns of the produced type.
        positions: int64[n]: the index of the message that each came from, rising; None: of message i the record i.
        errors: of the messages that could not be read, by rising index.
    """

    values: Any
    positions: np.ndarray | None = None
    errors: Sequence[MessageError] = ()


class DecodedMessages(NamedTuple):
    """What `decode_messages` gives; `positions` is int64[n], `bad` is empty where `on_error` is "fail"."""

    batch: Batch
    positions: np.ndarray
    bad: list[BadRecord]


def on_error_of(schema: Any) -> Any:
    """`"fail"`, `"skip"` or an OutputTag; a schema of a user may have it as an attribute `on_error`."""
    return getattr(schema, "on_error", FAIL)


def produced_type_of(schema: Any) -> TypeInformation:
    """The type of the records; pickled where the schema does not tell."""
    get = getattr(schema, "get_produced_type", None)
    produced = None if get is None else get()
    return Types.PICKLED_BYTE_ARRAY() if produced is None else produced


def decode_messages(
    schema: Any, messages: Sequence[bytes | None], origin: Callable[[int], str] | None = None
) -> DecodedMessages:
    """Messages to records.

    Args:
        origin: where the message with that index came from, for errors.

    Raises:
        InputFormatError: a message could not be read and `on_error` is "fail"; names its origin and shows it.
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
    """Each record as bytes, in order.

    Raises:
        TypeMismatchError: a record does not fit the schema; names it.
    """
    encode = getattr(schema, "serialize_batch", None)
    if encode is not None:
        encoded: list[bytes | None] = encode(batch, type_info)
        return encoded
    from flinkpy.records.lanes import rows_of

    return [schema.serialize(row) for row in rows_of(batch, type_info)]


def _decode_each(schema: Any, messages: Sequence[bytes | None]) -> DecodedBatch:
    """With the schema's `deserialize`. What a user's own raises is the user's error where nothing else is asked for."""
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
    """The records one by one; an exception of one of these types is an error of its message."""
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
    """The indices of the messages that are not None; None: of all."""
    if None not in messages:
        return None
    return np.array([index for index, message in enumerate(messages) if message is not None], np.int64)


def reason_of(error: BaseException) -> str:
    text = error.message if isinstance(error, FlinkError) else str(error)
    return text or type(error).__name__


def columns_of_batch(batch: Batch, type_info: TypeInformation, input_type: TypeInformation | None) -> Any:
    """The batch as `RecordBatch[schema=arrow_schema(type_info)]`, for schemas that write columns.

    Raises:
        TypeMismatchError: a record does not fit the schema's type; names it.
    """
    from flinkpy.records.lanes import conform, has_columns, rows_of, to_columns

    if batch.is_columnar and has_columns(input_type):
        return conform(batch.values, type_info)
    rows = rows_of(batch, input_type)
    if not has_columns(type_info):
        raise UnsupportedOperationError(f"{type_info!r} has no columns")
    return to_columns(Batch(rows), type_info).values


def check_row(element: Any, type_info: TypeInformation) -> Any:
    """One record as columns. Raises: TypeMismatchError."""
    if element is None:
        raise TypeMismatchError("a record is None")
    return columns_of_batch(Batch([element]), type_info, None)
