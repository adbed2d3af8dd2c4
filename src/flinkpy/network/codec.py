"""The wire form of batches and control elements, without the frames around them.

* Columns: an Arrow IPC record batch message. The schema is sent separately, once per channel. Encoding copies nothing:
  the message is a list of parts, among them the column buffers themselves, for a scatter-gather send.
* Rows (untyped Python objects): one pickle of protocol 5 per batch. Only loaded from authenticated connections.
* Timestamps and kinds follow as raw little-endian arrays.
* Control elements: a kind and a few packed integers. A barrier contains its CheckpointOptions as protobuf.

Differs: dictionary-encoded columns are decoded before they are sent. Otherwise each channel would need memory for
dictionaries.
"""

from __future__ import annotations

import pickle
import struct
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import BrokenError, TypeMismatchError
from flinkpy.network.batch_size import traits_of
from flinkpy.records.batch import Batch
from flinkpy.records.elements import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    Element,
    EndOfData,
    EndOfPartition,
    LatencyMarker,
    Watermark,
    WatermarkStatus,
)

_PICKLE_PROTOCOL = 5


class EncodedBatch:
    """A batch that is ready to be sent.

    Attributes:
        parts: the buffers to send in order: payload, timestamps, kinds, each padded to eight bytes.
        size_bytes: the size of all parts.
    """

    __slots__ = ("is_pickled", "kinds_bytes", "parts", "payload_bytes", "size_bytes", "timestamps_bytes")

    def __init__(self, is_pickled: bool, parts: list[Any], payload_bytes: int, batch: Batch) -> None:
        self.is_pickled = is_pickled
        self.payload_bytes = payload_bytes
        self.timestamps_bytes = self.kinds_bytes = 0
        size = payload_bytes
        if payload_bytes & 7:
            size = _pad(parts, size)
        if batch.timestamps is not None:
            data = np.ascontiguousarray(batch.timestamps, dtype="<i8")
            self.timestamps_bytes = data.nbytes
            size += data.nbytes
            parts.append(data.data.cast("B"))
        if batch.kinds is not None:
            data = np.ascontiguousarray(batch.kinds, dtype=np.int8)
            self.kinds_bytes = data.nbytes
            parts.append(data.data.cast("B"))
            size = _pad(parts, size + data.nbytes)
        self.parts = parts
        self.size_bytes = size


def _pad(parts: list[Any], size: int) -> int:
    missing = -size % 8
    if missing:
        parts.append(bytes(missing))
    return size + missing


class _PartsSink:
    """A file that keeps the written objects. pyarrow passes column buffers to it without copying them."""

    closed = False

    def __init__(self) -> None:
        self.parts: list[Any] = []

    def write(self, data: Any) -> None:
        self.parts.append(data)

    def flush(self) -> None:
        return None

    def close(self) -> None:
        return None


class ColumnEncoder:
    """Encodes the record batches of one channel. Thread: one at a time.

    Args:
        compression: "lz4", "zstd" or None. Column buffers are compressed separately. The message tells readers how.
        use_threads: True to compress several columns at once.
    """

    def __init__(self, compression: str | None = None, *, use_threads: bool = True) -> None:
        self._options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=use_threads)
        self.schema: pa.Schema | None = None
        #: The schema that is sent: `schema` with dictionaries decoded.
        self.wire_schema: pa.Schema | None = None
        self._sink = _PartsSink()
        self._writer: Any = None
        self._has_dictionaries = False

    def open_schema(self, values: pa.RecordBatch) -> bytes | None:
        """Returns the schema to send before `values`, or None if it has not changed since the last batch."""
        schema = values.schema
        if self.schema is not None and schema.equals(self.schema):
            return None
        self.schema = schema
        self._has_dictionaries = traits_of(schema).has_dictionaries
        wire_schema = _without_dictionaries(schema) if self._has_dictionaries else schema
        self.wire_schema = wire_schema
        self._writer = pa.ipc.new_stream(self._sink, wire_schema, options=self._options)
        # The writer sends its own schema message before the first batch. Write an empty batch, and drop both.
        empty = values.slice(0, 0)
        self._writer.write_batch(_decode_dictionaries(empty) if self._has_dictionaries else empty)
        return wire_schema.serialize().to_pybytes()

    def encode(self, batch: Batch) -> EncodedBatch:
        """Encodes a batch for which `open_schema` has been called."""
        values = batch.values
        if self._has_dictionaries:
            values = _decode_dictionaries(values)
        sink = self._sink
        sink.parts = []
        self._writer.write_batch(values)
        parts = sink.parts
        return EncodedBatch(False, parts, sum(map(len, parts)), batch)


def _without_dictionaries(schema: pa.Schema) -> pa.Schema:
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field for field in schema
    ]
    return pa.schema(fields, schema.metadata)


def _decode_dictionaries(values: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in values.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_without_dictionaries(values.schema))


def encode_small_columns(batch: Batch) -> EncodedBatch | None:
    """Returns the batch in one piece, or None if columns have dictionaries.

    Copying some kilobytes costs less than sending each column buffer as a separate part.
    """
    values: Any = batch.values
    if traits_of(values.schema).has_dictionaries:
        return None  # ColumnEncoder decodes them
    message = values.serialize()
    return EncodedBatch(False, [message], message.size, batch)


def encode_rows(batch: Batch) -> EncodedBatch:
    """Encodes rows as one pickle. Classes that only this process can import are pickled by value.

    Raises:
        TypeMismatchError: a row cannot be pickled; names the first such row.
    """
    try:
        data = pickle.dumps(batch.values, protocol=_PICKLE_PROTOCOL)
    except Exception:  # noqa: BLE001 - whatever a user's __reduce__ raises
        data = _cloudpickle_rows(batch.values)
    return EncodedBatch(True, [data], len(data), batch)


def _cloudpickle_rows(rows: Any) -> bytes:
    try:
        return cloudpickle.dumps(rows, protocol=_PICKLE_PROTOCOL)
    except Exception as error:
        for index, row in enumerate(rows):
            try:
                cloudpickle.dumps(row, protocol=_PICKLE_PROTOCOL)
            except Exception as row_error:
                raise TypeMismatchError(
                    f"row {index} of a batch cannot be sent to another process: {type(row).__qualname__} "
                    f"{row!r:.200}: {row_error}",
                    details={"type": type(row).__qualname__},
                ) from row_error
        raise TypeMismatchError(f"a batch of rows cannot be sent to another process: {error}") from error


#: A compressed pickle begins with the number of its codec, where a plain one has 0x80, and its decompressed size in
#: seven bytes.
_CODEC_NUMBERS = {"lz4": 1, "zstd": 2}
_CODEC_NAMES = {number: name for name, number in _CODEC_NUMBERS.items()}
_COMPRESSED_HEAD = struct.Struct("<Q")


def compress_rows(pickled: Any, compression: str) -> Any:
    """Returns a compressed pickle for `decode_batch`, or `pickled` itself if compression does not make it smaller."""
    data = pa.Codec(compression).compress(pickled, asbytes=True)
    if len(data) + _COMPRESSED_HEAD.size >= len(pickled):
        return pickled
    return _COMPRESSED_HEAD.pack(len(pickled) << 8 | _CODEC_NUMBERS[compression]) + data


def declared_row_bytes(payload: Any) -> int:
    """Returns the declared decompressed size of a compressed pickle; 0 for a plain one."""
    data = memoryview(payload)
    return _COMPRESSED_HEAD.unpack_from(data)[0] >> 8 if len(data) and data[0] in _CODEC_NAMES else 0


def _load_rows(payload: pa.Buffer) -> Any:
    data = memoryview(payload)
    if not len(data):
        raise BrokenError("a batch of rows has an empty payload")
    compression = _CODEC_NAMES.get(data[0])
    if compression is None:
        return pickle.loads(data)
    try:
        (head,) = _COMPRESSED_HEAD.unpack_from(data)
        pickled = pa.Codec(compression).decompress(data[_COMPRESSED_HEAD.size :], head >> 8)
    except (struct.error, pa.ArrowException, OSError, ValueError) as error:
        raise BrokenError(f"a compressed batch of rows does not parse: {error}") from error
    return pickle.loads(pickled)


def decode_schema(data: Any) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(data))


def decode_batch(
    schema: pa.Schema | None, body: pa.Buffer, payload_bytes: int, timestamps_bytes: int, kinds_bytes: int
) -> Batch:
    """Returns the batch of a body. Its arrays point into `body`.

    Args:
        schema: the schema of the channel, or None for pickled rows.
    """
    values: Any
    payload = body if payload_bytes == body.size else body.slice(0, payload_bytes)
    if schema is None:
        values = _load_rows(payload)
    else:
        values = pa.ipc.read_record_batch(payload, schema)
    if not (timestamps_bytes or kinds_bytes):
        return Batch(values)
    offset = payload_bytes + (-payload_bytes % 8)
    timestamps = kinds = None
    if timestamps_bytes:
        timestamps = np.frombuffer(body, dtype="<i8", count=timestamps_bytes // 8, offset=offset)
        offset += timestamps_bytes
    if kinds_bytes:
        kinds = np.frombuffer(body, dtype=np.int8, count=kinds_bytes, offset=offset)
    return Batch(values, timestamps, kinds)


# Kinds of control elements on the wire. Never reuse a number.
_WATERMARK, _WATERMARK_STATUS, _BARRIER, _LATENCY_MARKER, _END_OF_DATA, _END_OF_PARTITION = range(1, 7)
_CANCEL_MARKER = 7
#: A barrier that overtakes the queued data of its channel at the consumer.
PRIORITY_BARRIER = 8
_I64 = struct.Struct("<q")
#: Checkpoint id, timestamp, 1 if options follow.
_BARRIER_HEAD = struct.Struct("<qqB")
_MARKER = struct.Struct("<qi")


def encode_element(element: Element) -> tuple[int, bytes]:
    """Returns kind and body."""
    match element:
        case Watermark(timestamp):
            return _WATERMARK, _I64.pack(timestamp)
        case WatermarkStatus(is_idle):
            return _WATERMARK_STATUS, bytes([is_idle])
        case CheckpointBarrier():
            return _BARRIER, _encode_barrier(element)
        case CancelCheckpointMarker(checkpoint_id):
            return _CANCEL_MARKER, _I64.pack(checkpoint_id)
        case LatencyMarker(marked_time_ms, operator_id, subtask_index):
            return _LATENCY_MARKER, _MARKER.pack(marked_time_ms, subtask_index) + operator_id.encode()
        case EndOfData(drain):
            return _END_OF_DATA, bytes([drain])
        case EndOfPartition():
            return _END_OF_PARTITION, b""
    raise TypeError(f"not a control element: {element!r}")


def encode_priority_barrier(barrier: CheckpointBarrier) -> tuple[int, bytes]:
    """Returns kind and body."""
    return PRIORITY_BARRIER, _encode_barrier(barrier)


def _encode_barrier(barrier: CheckpointBarrier) -> bytes:
    options = barrier.options
    head = _BARRIER_HEAD.pack(barrier.checkpoint_id, barrier.timestamp_ms, options is not None)
    return head if options is None else head + bytes(options.SerializeToString())


def _decode_barrier(body: bytes) -> CheckpointBarrier:
    checkpoint_id, timestamp_ms, has_options = _BARRIER_HEAD.unpack_from(body)
    options = checkpoint_pb2.CheckpointOptions.FromString(body[_BARRIER_HEAD.size :]) if has_options else None
    return CheckpointBarrier(checkpoint_id, timestamp_ms, options)


def decode_element(kind: int, body: bytes) -> Element:
    """Returns the element. `body` must not include the padding of its frame.

    Raises:
        BrokenError: an unknown kind, or a body of the wrong length.
    """
    try:
        if kind == _WATERMARK:
            return Watermark(_I64.unpack(body)[0])
        if kind == _WATERMARK_STATUS:
            return WatermarkStatus(bool(body[0]))
        if kind in (_BARRIER, PRIORITY_BARRIER):
            return _decode_barrier(body)
        if kind == _CANCEL_MARKER:
            return CancelCheckpointMarker(_I64.unpack(body)[0])
        if kind == _LATENCY_MARKER:
            marked_time_ms, subtask_index = _MARKER.unpack_from(body)
            return LatencyMarker(marked_time_ms, body[_MARKER.size :].decode(), subtask_index)
        if kind == _END_OF_DATA:
            return EndOfData(bool(body[0]))
        if kind == _END_OF_PARTITION:
            return EndOfPartition()
    except (struct.error, IndexError, UnicodeDecodeError, DecodeError) as error:
        raise BrokenError(f"a control element of kind {kind} does not parse: {error}") from error
    raise BrokenError(f"control element of unknown kind {kind}")
