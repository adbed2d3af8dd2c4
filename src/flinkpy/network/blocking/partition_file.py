"""The files of a blocking partition: `<partition>.data` and `<partition>.index`.

The data file is a sequence of regions. A region has a run of frames for each subpartition, in the order of the
subpartitions. So the data of neighbouring subpartitions in a region is contiguous, and one consumer can read it
together. A *broadcast* region has one run for all subpartitions. The frames of a subpartition are in the order in which
they were emitted.

```
data:   frame frame frame ...
frame:  header (32 bytes) | body, a multiple of eight bytes

index:  magic | subpartitions, regions, schemas, data bytes | schemas | for each region: kind, offsets | crc
```

The checksum of a frame covers header and body, and the index has its own checksum. So a reader detects every changed or
missing byte. Numbers are little-endian. Nothing is synced to the disk: partitions do not outlive their process.

Compaction merges many regions into few before the file is read. A partition that has many subpartitions and was written
with little memory has many regions with short runs. A consumer would read it in small pieces from all over the file.
Compaction joins the runs of each subpartition in consecutive regions into one run. Frames are copied unchanged.

The old file is read in passes. Each pass reads as many neighbouring subpartitions as fit into the given memory. Their
runs in a region are contiguous, so each pass reads the file once, forward. Meanwhile both files are on the disk. If
there is not enough space for both, the file stays as it is.

Source: org.apache.flink.runtime.io.network.partition.{PartitionedFile, PartitionedFileWriter}.
Differs: the order within the file is that of the subpartitions, not shifted per region; frames have checksums; Flink
does not compact.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from flinkpy.common.errors import PartitionConnectionError, PartitionCorruptedError, PartitionWriteError

#: Kind, element kind, schema; bytes of body, payload, timestamps and kinds; rows, decoded bytes. A crc follows.
_FRAME = struct.Struct("<BBHIIIIII")
_CRC = struct.Struct("<I")
FRAME_HEADER_BYTES = _FRAME.size + _CRC.size

COLUMNS, ROWS, ELEMENT = range(1, 4)

_INDEX_MAGIC = b"FLPSMP01"
#: Subpartitions, regions, schemas, bytes of the data file.
_INDEX_HEAD = struct.Struct("<IIIxxxxQ")
#: The kernel's IOV_MAX.
_MAX_PARTS = 1024
#: The maximum of header fields that are informative only.
_MAX_U32 = (1 << 32) - 1

#: Files with runs of this average length are read efficiently without compaction.
GOOD_RUN_BYTES = 1 << 16
#: With fewer regions each consumer reads few pieces anyway.
MIN_REGIONS = 8


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """The header of a frame.

    Attributes:
        kind: COLUMNS, ROWS or ELEMENT.
        schema: the number of the schema in the index.
        body_bytes: the size of the body after the header.
        decoded_bytes: about the size in memory.
        element_kind, payload_bytes, timestamps_bytes, kinds_bytes: see `EncodedBatch` and `encode_element`.
    """

    kind: int
    element_kind: int
    schema: int
    body_bytes: int
    payload_bytes: int
    timestamps_bytes: int
    kinds_bytes: int
    rows: int
    decoded_bytes: int
    crc: int

    @classmethod
    def unpack_from(cls, data: Any, offset: int) -> FrameHeader:
        return cls(*_FRAME.unpack_from(data, offset), *_CRC.unpack_from(data, offset + _FRAME.size))

    def matches(self, data: Any, offset: int) -> bool:
        """True if the frame at `offset` of `data` has the right checksum."""
        view = memoryview(data)
        crc = zlib.crc32(view[offset : offset + _FRAME.size])
        begin = offset + FRAME_HEADER_BYTES
        return zlib.crc32(view[begin : begin + self.body_bytes], crc) == self.crc


def frame_parts(
    kind: int,
    body: Sequence[Any],
    *,
    element_kind: int = 0,
    schema: int = 0,
    payload_bytes: int = 0,
    timestamps_bytes: int = 0,
    kinds_bytes: int = 0,
    rows: int = 0,
    decoded_bytes: int = 0,
) -> tuple[list[Any], int]:
    """Returns the parts of a frame, in the order to write them, and its bytes.

    Args:
        body: a multiple of eight bytes.
    """
    size = sum(map(len, body))
    head = _FRAME.pack(
        kind,
        element_kind,
        schema,
        size,
        payload_bytes,
        timestamps_bytes,
        kinds_bytes,
        rows,
        min(decoded_bytes, _MAX_U32),
    )
    crc = zlib.crc32(head)
    for part in body:
        crc = zlib.crc32(part, crc)
    return [head + _CRC.pack(crc), *body], FRAME_HEADER_BYTES + size


@dataclass(frozen=True, slots=True)
class Region:
    """The position of a region in the data file.

    Attributes:
        offsets: int64[n + 1], the start of each subpartition's run and the end of the last one; int64[2] for a
            broadcast region.
    """

    is_broadcast: bool
    offsets: np.ndarray

    def extent(self, first: int, count: int) -> tuple[int, int]:
        """Returns the start and end of the data of `count` subpartitions from `first` on."""
        if self.is_broadcast:
            return int(self.offsets[0]), int(self.offsets[1])
        return int(self.offsets[first]), int(self.offsets[first + count])


@dataclass(slots=True)
class PartitionIndex:
    """The contents of a data file and their positions."""

    num_subpartitions: int
    data_bytes: int = 0
    schemas: list[bytes] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)

    def extents(self, first: int, count: int) -> list[tuple[int, int]]:
        """Returns the extents to read for those subpartitions, in order, without empty ones."""
        extents = (region.extent(first, count) for region in self.regions)
        return [(begin, end) for begin, end in extents if begin < end]

    def save(self, path: Path) -> int:
        """Writes the index. Returns its bytes. Raises: OSError."""
        parts = [
            _INDEX_MAGIC,
            _INDEX_HEAD.pack(self.num_subpartitions, len(self.regions), len(self.schemas), self.data_bytes),
        ]
        for schema in self.schemas:
            parts += [_CRC.pack(len(schema)), schema]
        for region in self.regions:
            parts += [bytes([region.is_broadcast]), np.ascontiguousarray(region.offsets, dtype="<i8").tobytes()]
        data = b"".join(parts)
        with open(path, "wb") as file:
            file.write(data)
            file.write(_CRC.pack(zlib.crc32(data)))
        return len(data) + _CRC.size

    @classmethod
    def load(cls, path: Path, partition_id: str) -> PartitionIndex:
        """Reads the index. Raises: PartitionCorruptedError, PartitionConnectionError: see `unreadable`."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise unreadable(partition_id, path, error) from error
        body = memoryview(data)[: -_CRC.size]
        least = len(_INDEX_MAGIC) + _INDEX_HEAD.size
        if len(body) < least or zlib.crc32(body) != _CRC.unpack_from(data, len(body))[0]:
            raise corrupted(partition_id, f"the checksum of its index {path} is wrong")
        num_subpartitions, num_regions, num_schemas, data_bytes = _INDEX_HEAD.unpack_from(data, len(_INDEX_MAGIC))
        index = cls(num_subpartitions, data_bytes)
        position = least
        for _ in range(num_schemas):
            (size,) = _CRC.unpack_from(data, position)
            position += _CRC.size
            index.schemas.append(data[position : position + size])
            position += size
        for _ in range(num_regions):
            is_broadcast = bool(data[position])
            count = 2 if is_broadcast else num_subpartitions + 1
            index.regions.append(Region(is_broadcast, np.frombuffer(data, "<i8", count, position + 1)))
            position += 1 + 8 * count
        return index


class PartitionFileWriter:
    """Appends to a data file. Not thread-safe. An OSError becomes a PartitionWriteError that names the file."""

    #: The bytes to gather before a write call: enough to share its cost, and so few that little data is held twice.
    _WRITE_BYTES = 1 << 21

    def __init__(self, path: Path, partition_id: str) -> None:
        self.path = path
        self.position = 0
        self._partition_id = partition_id
        self._parts: list[Any] = []
        self._pending_bytes = 0
        self._fd = -1
        with self._errors():
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def append(self, parts: list[Any], size: int) -> None:
        self._parts += parts
        self._pending_bytes += size
        self.position += size
        if self._pending_bytes >= self._WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        parts, self._parts, self._pending_bytes = self._parts, [], 0
        with self._errors():
            for start in range(0, len(parts), _MAX_PARTS):
                _write_all(self._fd, parts[start : start + _MAX_PARTS])

    def write_index(self, path: Path, index: PartitionIndex) -> int:
        with self._errors():
            return index.save(path)

    def close(self) -> None:
        """Idempotent."""
        fd, self._fd = self._fd, -1
        self._parts.clear()
        if fd >= 0:
            os.close(fd)

    @contextlib.contextmanager
    def _errors(self) -> Any:
        try:
            yield
        except OSError as error:
            raise PartitionWriteError(
                f"partition {self._partition_id} cannot be written to {self.path}: {error.strerror}",
                details={"result_partition_id": self._partition_id, "path": str(self.path)},
            ) from error


def _write_all(fd: int, parts: list[Any]) -> None:
    while parts:
        written = os.writev(fd, parts)
        whole = 0
        for part in parts:
            if written < len(part):
                break
            written -= len(part)
            whole += 1
        del parts[:whole]
        if written:
            parts[0] = memoryview(parts[0])[written:]


def unreadable(partition_id: str, path: Path, error: OSError) -> PartitionConnectionError | PartitionCorruptedError:
    """Returns the error for a consumer whose file cannot be read.

    If this process lacks a resource, such as file descriptors, the file itself may be intact.
    """
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        return PartitionConnectionError(
            f"partition {partition_id} cannot be read now from {path}: {error.strerror}",
            details={"partition_id": partition_id, "result_partition_id": partition_id},
        )
    return corrupted(partition_id, f"{path} cannot be read: {error.strerror}")


def corrupted(partition_id: str, reason: str) -> PartitionCorruptedError:
    return PartitionCorruptedError(
        f"partition {partition_id} cannot be read any more: {reason}",
        details={"partition_id": partition_id, "result_partition_id": partition_id},
    )


def needs_compaction(index: PartitionIndex) -> bool:
    """True if merging regions would make the file faster to read."""
    unicast = [region for region in index.regions if not region.is_broadcast]
    if len(unicast) < MIN_REGIONS:
        return False
    size = sum(int(region.offsets[-1] - region.offsets[0]) for region in unicast)
    return size < GOOD_RUN_BYTES * len(unicast) * index.num_subpartitions


def compact(path: Path, index: PartitionIndex, partition_id: str, memory_bytes: int) -> PartitionIndex:
    """Replaces the data file by one with merged regions. Returns its index.

    Raises:
        PartitionWriteError, OSError: the old file is unchanged.
    """
    target = path.with_name(path.name + ".merged")
    merged = PartitionIndex(index.num_subpartitions, schemas=index.schemas)
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        writer = PartitionFileWriter(target, partition_id)
        try:
            for is_broadcast, regions in itertools.groupby(index.regions, key=lambda region: region.is_broadcast):
                if is_broadcast:
                    for region in regions:
                        merged.regions.append(_copied(source, region, writer))
                else:
                    merged.regions.append(_merged(source, list(regions), writer, memory_bytes))
            writer.flush()
            os.replace(target, path)
        finally:
            writer.close()
            target.unlink(missing_ok=True)
    finally:
        os.close(source)
    merged.data_bytes = writer.position
    return merged


def _copied(source: int, region: Region, writer: PartitionFileWriter) -> Region:
    begin, end = region.extent(0, 1)
    offset = writer.position
    for position in range(begin, end, 1 << 20):
        data = _read(source, position, min(1 << 20, end - position))
        writer.append([data], len(data))
    return Region(True, np.array([offset, writer.position], np.int64))


def _merged(source: int, regions: list[Region], writer: PartitionFileWriter, memory_bytes: int) -> Region:
    starts = np.stack([region.offsets for region in regions])  # [regions, subpartitions + 1]
    sizes = np.diff(starts, axis=1).sum(axis=0)
    offsets = writer.position + np.concatenate([[0], np.cumsum(sizes)])
    count = len(sizes)
    first = 0
    while first < count:
        held = np.cumsum(sizes[first:])
        last = first + max(1, int(np.searchsorted(held, memory_bytes, side="right")))
        parts = [memoryview(_read(source, int(own[first]), int(own[last] - own[first]))) for own in starts]
        for subpartition in range(first, last):
            for own, data in zip(starts, parts, strict=True):
                begin, end = int(own[subpartition] - own[first]), int(own[subpartition + 1] - own[first])
                if begin < end:
                    writer.append([data[begin:end]], end - begin)
        writer.flush()
        first = last
    return Region(False, offsets.astype(np.int64))


def _read(source: int, offset: int, size: int) -> bytes:
    """Reads exactly `size` bytes. Raises: OSError also if the file ends before."""
    pieces = []
    while size:
        piece = os.pread(source, size, offset)
        if not piece:
            raise OSError(0, f"the file ends at byte {offset}")
        pieces.append(piece)
        offset += len(piece)
        size -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
