"""Channel state: the file with the batches that were in flight at an unaligned checkpoint.

```
   file   magic | schema | batch | batch | schema | batch ...
   batch  header | payload, timestamps and kinds, each padded to eight bytes, as the codec makes them
```

A schema is stored once in a file, and a batch refers to its position. So every batch can be read on its own. The
handles, one per channel, list the batches of a channel and their order. Watermarks are not stored: the restored data is
followed by new ones.

Source: org.apache.flink.runtime.checkpoint.channel.{ChannelStateCheckpointWriter,ChannelStateSerializer}. Differs: the
file is not shared between subtasks.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import CorruptStateError
from flinkpy.network.codec import decode_batch, decode_schema
from flinkpy.network.in_flight import InFlightBatch, freeze
from flinkpy.records.batch import Batch
from flinkpy.state.checkpoint_streams import CheckpointStreams, StateFiles

_MAGIC = b"FPYCHAN1"
#: 1 for pickled rows, else 0; bytes of payload, timestamps and kinds; offset and bytes of the schema.
_HEADER = struct.Struct("<Q5Q")


class _Layout:
    """Assigns each piece its position in a file."""

    def __init__(self) -> None:
        self.pieces: list[Any] = [_MAGIC]
        self.size = len(_MAGIC)
        self._schemas: list[tuple[pa.Schema, int, int]] = []

    def add(self, batch: InFlightBatch) -> tuple[int, int]:
        """Adds a batch. Returns its offset and length."""
        wire = batch.to_wire()
        schema_offset, schema_bytes = (0, 0) if wire.schema is None else self._place_of(wire.schema)
        offset = self.size
        header = _HEADER.pack(
            wire.schema is None,
            wire.payload_bytes,
            wire.timestamps_bytes,
            wire.kinds_bytes,
            schema_offset,
            schema_bytes,
        )
        self._put(header)
        for part in wire.parts:
            self._put(part)
        return offset, self.size - offset

    def _place_of(self, schema: pa.Schema) -> tuple[int, int]:
        for known, offset, size in self._schemas:
            if known.equals(schema, check_metadata=True):
                return offset, size
        data = schema.serialize().to_pybytes()
        place = self.size, len(data)
        self._put(data + bytes(-len(data) % 8))
        self._schemas.append((schema, *place))
        return place

    def _put(self, piece: Any) -> None:
        self.pieces.append(piece)
        self.size += memoryview(piece).nbytes


def write_channel_state(
    streams: CheckpointStreams,
    is_output: bool,
    edge_index: int,
    subtask_index: int,
    captured: Iterable[tuple[int, Sequence[InFlightBatch | Batch]]],
) -> list[checkpoint_pb2.ChannelStateHandle]:
    """Writes the batches that an `InputGate` captured, or a barrier of a `ResultPartition` overtook, into one file.

    Thread: any.

    Args:
        captured: (channel, its batches in order).

    Returns: a handle for each channel that has batches.
    Raises: CheckpointStorageError; the incomplete file is removed.
    """
    frozen = [
        (channel, [batch if isinstance(batch, InFlightBatch) else freeze(batch) for batch in batches])
        for channel, batches in captured
        if batches
    ]
    if not frozen:
        return []
    layout = _Layout()
    places = [(channel, [layout.add(batch) for batch in batches]) for channel, batches in frozen]
    file = _write(streams, layout)
    if file.WhichOneof("location") == "data" and len(frozen) > 1:
        # Inlined: each handle gets its own part instead of a copy of all data.
        return [
            handle
            for channel, batches in frozen
            for handle in _inlined(is_output, edge_index, subtask_index, channel, batches)
        ]
    return [_handle(is_output, edge_index, subtask_index, channel, file, where) for channel, where in places]


def _write(streams: CheckpointStreams, layout: _Layout) -> checkpoint_pb2.StreamStateHandle:
    stream = streams.create()
    try:
        for piece in layout.pieces:
            stream.write(memoryview(piece).cast("B"))
    except BaseException:
        stream.abort()
        raise
    return stream.close_and_get_handle()


def _inlined(
    is_output: bool, edge_index: int, subtask_index: int, channel: int, batches: Sequence[InFlightBatch]
) -> Iterator[checkpoint_pb2.ChannelStateHandle]:
    layout = _Layout()
    where = [layout.add(batch) for batch in batches]
    data = b"".join(bytes(piece) for piece in layout.pieces)
    file = checkpoint_pb2.StreamStateHandle(data=data, size_bytes=len(data), sha256=hashlib.sha256(data).digest())
    yield _handle(is_output, edge_index, subtask_index, channel, file, where)


def _handle(
    is_output: bool,
    edge_index: int,
    subtask_index: int,
    channel: int,
    file: checkpoint_pb2.StreamStateHandle,
    where: Sequence[tuple[int, int]],
) -> checkpoint_pb2.ChannelStateHandle:
    return checkpoint_pb2.ChannelStateHandle(
        is_output=is_output,
        edge_index=edge_index,
        subtask_index=subtask_index,
        channel_index=channel,
        file=file,
        offsets=[offset for offset, _ in where],
        lengths=[length for _, length in where],
    )


class ChannelStateReader:
    """Reads many handles. A file that consecutive handles share is opened and verified once.

    Thread: one at a time. Close it.
    """

    def __init__(self, files: StateFiles) -> None:
        self._files = files
        self._opened: tuple[checkpoint_pb2.StreamStateHandle, BinaryIO] | None = None
        self._schemas: dict[int, pa.Schema] = {}

    def read(self, handle: checkpoint_pb2.ChannelStateHandle) -> Iterator[Batch]:
        """Yields the batches of the handle in order, until another handle is read.

        Raises: CorruptStateError, CheckpointStorageError: name the file.
        """
        file = self._open(handle.file)
        for offset, length in zip(handle.offsets, handle.lengths, strict=True):
            yield self._batch(file, handle.file, offset, length)

    def close(self) -> None:
        """Idempotent."""
        if self._opened is not None:
            self._opened[1].close()
        self._opened = None
        self._schemas.clear()

    def _open(self, handle: checkpoint_pb2.StreamStateHandle) -> BinaryIO:
        if self._opened is not None and self._opened[0] == handle:
            return self._opened[1]
        self.close()
        file = self._files.open(handle)
        self._opened = handle, file
        if _exactly(file, handle, 0, len(_MAGIC)) != _MAGIC:
            raise _corrupt(handle, "it does not begin with the magic number")
        return file

    def _batch(self, file: BinaryIO, handle: checkpoint_pb2.StreamStateHandle, offset: int, length: int) -> Batch:
        data = _exactly(file, handle, offset, length)
        if length < _HEADER.size:
            raise _corrupt(handle, f"the batch at {offset} has only {length} bytes")
        is_pickled, payload, timestamps, kinds, schema_offset, schema_bytes = _HEADER.unpack_from(data)
        if payload + timestamps + kinds > length - _HEADER.size:
            raise _corrupt(handle, f"the batch at {offset} is longer than its entry")
        schema = None if is_pickled else self._schema(file, handle, schema_offset, schema_bytes)
        body = pa.py_buffer(data).slice(_HEADER.size)
        return decode_batch(schema, body, payload, timestamps, kinds)

    def _schema(self, file: BinaryIO, handle: checkpoint_pb2.StreamStateHandle, offset: int, size: int) -> pa.Schema:
        schema = self._schemas.get(offset)
        if schema is None:
            schema = self._schemas[offset] = decode_schema(_exactly(file, handle, offset, size))
        return schema


def _exactly(file: BinaryIO, handle: checkpoint_pb2.StreamStateHandle, offset: int, size: int) -> bytes:
    file.seek(offset)
    data = file.read(size)
    if len(data) != size:
        raise _corrupt(handle, f"it ends before byte {offset + size}")
    return data


def _corrupt(handle: checkpoint_pb2.StreamStateHandle, what: str) -> CorruptStateError:
    where = handle.path or f"{handle.size_bytes} inlined bytes"
    return CorruptStateError(f"{where} is not a file of in-flight data: {what}")
