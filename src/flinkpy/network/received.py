"""Checks of batches and schemas that another process sent.

A peer that has proved to belong to the cluster may run any code in this process, so the checks are no defence against
it. They find bytes that the network or a bug has changed, before these crash the interpreter. They cost half a
microsecond per batch (`RecordBatch.validate`). Data of an unproven peer is checked down to every string and offset
(`validate(full=True)`, 0.35 ms per MB of strings). Such peers exist only in an environment without a cluster, or in one
that is configured to work without a secret.

A compressed batch declares its decompressed size. A size beyond a limit is refused before memory is allocated.
"""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa

from flinkpy.common.errors import BrokenError
from flinkpy.network.codec import declared_row_bytes, decode_batch, decode_schema
from flinkpy.records.batch import Batch

# Frames of more than a gigabyte are refused, and decoded batches have the same limit. Frames of more than a few
# megabytes, as very long records have, may be decoded to more, up to this ratio.
_MAX_DECODED_BYTES = 1 << 30
_MAX_RATIO = 64
# No real data has deeper types, and all functions that walk through a type are recursive.
_MAX_TYPE_DEPTH = 32
_MAX_FIELDS = 100_000

_HEAD = struct.Struct("<IiI")
_I32 = struct.Struct("<i")
_U32 = struct.Struct("<I")
_U16 = struct.Struct("<H")
_BUFFER = struct.Struct("<qq")
_I64 = struct.Struct("<q")
_CONTINUATION = 0xFFFFFFFF
#: The errors that Arrow raises for messages that it cannot read.
_PARSE_ERRORS = (pa.ArrowException, OSError, ValueError, EOFError, MemoryError)
# The numbers of fields in Arrow's Message and RecordBatch.
_HEADER_FIELD, _BUFFERS_FIELD, _COMPRESSION_FIELD, _CODEC_FIELD = 2, 2, 3, 0
# LZ4 expands one byte to at most 255. The slack covers the frame overhead of small inputs.
_LZ4_RATIO, _LZ4_SLACK_BYTES = 255, 64 << 10


def receive_schema(message: Any) -> pa.Schema:
    """Returns the schema of a SCHEMA frame.

    Raises: BrokenError.
    """
    try:
        schema = decode_schema(message)
    except _PARSE_ERRORS as error:
        raise BrokenError(f"a schema does not parse: {error}") from error
    fields = 0
    level = [field.type for field in schema]
    for _ in range(_MAX_TYPE_DEPTH):
        fields += len(level)
        if fields > _MAX_FIELDS:
            raise BrokenError(f"a schema has more than {_MAX_FIELDS:,} fields")
        level = [kind.field(index).type for kind in level for index in range(kind.num_fields)]
        if not level:
            return schema
    raise BrokenError(f"a schema has types nested deeper than {_MAX_TYPE_DEPTH}")


def receive_batch(
    schema: pa.Schema | None,
    body: pa.Buffer,
    payload_bytes: int,
    timestamps_bytes: int,
    kinds_bytes: int,
    *,
    is_member: bool,
    may_be_compressed: bool,
) -> Batch:
    """Decodes and checks a batch that another process sent.

    Args:
        is_member: True if the peer has proved to belong to this cluster.
        may_be_compressed: True if its producer compresses data.

    Raises:
        BrokenError: the data is not a valid batch. Errors of unpickling the user's rows are raised unchanged.
    """
    check_decoded_size(schema is None, body, payload_bytes, may_be_compressed=may_be_compressed or not is_member)
    try:
        batch = decode_batch(schema, body, payload_bytes, timestamps_bytes, kinds_bytes)
        values = batch.values
        if schema is not None:
            values.validate(full=not is_member)  # type: ignore[union-attr]
    except _PARSE_ERRORS as error:
        if schema is None:
            raise
        raise BrokenError(f"a batch of columns does not parse: {error}") from error
    rows = len(values)
    if (timestamps_bytes and timestamps_bytes != 8 * rows) or (kinds_bytes and kinds_bytes != rows):
        raise BrokenError(f"a batch of {rows} rows has {timestamps_bytes} bytes of timestamps and {kinds_bytes} kinds")
    return batch


def check_decoded_size(is_pickled: bool, body: Any, payload_bytes: int, *, may_be_compressed: bool = True) -> None:
    """Checks the declared size of a compressed batch. Costs one or two microseconds if it is not compressed.

    Raises: BrokenError if the declared size is too large, or if the batch must not be compressed.
    """
    try:
        declared, ratio = (declared_row_bytes(body), None) if is_pickled else _declared_column_bytes(body)
    except (struct.error, IndexError, OverflowError, ValueError) as error:
        raise BrokenError(f"the head of a batch does not parse: {error}") from error
    if declared and not may_be_compressed:
        raise BrokenError("a compressed batch was received, but its producer must not compress")
    most = max(_MAX_DECODED_BYTES, _MAX_RATIO * payload_bytes)
    if ratio is not None:
        most = min(most, ratio * payload_bytes + _LZ4_SLACK_BYTES)
    if declared > most:
        raise BrokenError(
            f"a compressed batch of {payload_bytes:,} bytes declares a decoded size of {declared:,} bytes"
        )


def _declared_column_bytes(message: Any) -> tuple[int, int | None]:
    """Returns the declared decompressed size of an Arrow record batch message; 0 if it is not compressed.

    The second result is the maximum compression ratio of the codec, or None if the codec has no such limit.

    The message has not been verified, so nothing in it is trusted: an offset outside of it raises struct.error.
    """
    data = memoryview(message)
    continuation, metadata_bytes, root = _HEAD.unpack_from(data)
    if continuation != _CONTINUATION:
        raise ValueError("it does not begin like an Arrow message")
    table = 8 + root
    header = _field_of(data, table, _HEADER_FIELD)
    if header is None:
        raise ValueError("a message has no header")
    batch = header + _U32.unpack_from(data, header)[0]
    compression = _field_of(data, batch, _COMPRESSION_FIELD)
    if compression is None:
        return 0, None
    codec = _field_of(data, compression + _U32.unpack_from(data, compression)[0], _CODEC_FIELD)
    ratio = _LZ4_RATIO if codec is None or data[codec] == 0 else None
    buffers = _field_of(data, batch, _BUFFERS_FIELD)
    if buffers is None:
        return 0, None
    vector = buffers + _U32.unpack_from(data, buffers)[0]
    count = _U32.unpack_from(data, vector)[0]
    body = 8 + metadata_bytes
    if body < 0 or vector + 4 + count * _BUFFER.size > len(data):
        raise ValueError(f"{count} buffers do not fit into the message")
    declared = 0
    for index in range(count):
        offset, length = _BUFFER.unpack_from(data, vector + 4 + index * _BUFFER.size)
        if length < _I64.size:
            continue
        if offset < 0:
            raise ValueError("a buffer has a negative offset")
        size = _I64.unpack_from(data, body + offset)[0]
        declared += size if size >= 0 else length  # -1: this one is not compressed
    return declared, ratio


def _field_of(data: memoryview, table: int, number: int) -> int | None:
    """Returns the position of a field of a flatbuffers table, or None if it has its default."""
    vtable = table - _I32.unpack_from(data, table)[0]
    if vtable < 0:
        raise ValueError("a table is outside of its message")
    entry = 4 + 2 * number
    if _U16.unpack_from(data, vtable)[0] < entry + 2:
        return None
    offset = _U16.unpack_from(data, vtable + entry)[0]
    return table + offset if offset else None
