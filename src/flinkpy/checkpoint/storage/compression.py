"""Files of compressed blocks, with random access.

    block ... | stored length of each block (uint32, highest bit: not compressed) | number of blocks (uint32) | magic

Each block but the last has BLOCK_BYTES of content. Integers are big-endian. The size and checksum in a handle are those
of the content, so damaged blocks are detected like any other damage.

Source: org.apache.flink.runtime.state.SnappyStreamCompressionDecorator.
Differs: Flink compresses the section of each key group separately, with Snappy.
"""

from __future__ import annotations

import io
import struct
from typing import Any, BinaryIO

from flinkpy.checkpoint.storage.file_system import AtomicOutput
from flinkpy.common.errors import CorruptStateError, StateRestoreError

CODEC = "lz4"
BLOCK_BYTES = 256 << 10

_MAGIC = b"FLKPBLK1"
_TAIL = struct.Struct(">I8s")
_NOT_COMPRESSED = 1 << 31


def _codec() -> Any:
    import pyarrow

    return pyarrow.Codec("lz4_raw")


class CompressingOutput:
    """Compresses the content of a file. Thread: one at a time. The codec releases the GIL.

    Attributes:
        stored_bytes: the number of compressed bytes written to the file so far.
    """

    def __init__(self, output: AtomicOutput) -> None:
        self._output = output
        self._codec = _codec()
        self._block = bytearray()
        self._lengths: list[int] = []
        self.stored_bytes = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data).cast("B")
        while view:
            room = BLOCK_BYTES - len(self._block)
            self._block += view[:room]
            view = view[room:]
            if len(self._block) == BLOCK_BYTES:
                self._end_block()

    def finish(self) -> None:
        """Writes the last block and the index."""
        if self._block:
            self._end_block()
        index = struct.pack(f">{len(self._lengths)}I", *self._lengths)
        self._put(index + _TAIL.pack(len(self._lengths), _MAGIC))

    def _end_block(self) -> None:
        block, self._block = bytes(self._block), bytearray()
        compressed = self._codec.compress(block, asbytes=True)
        if len(compressed) < len(block):
            self._lengths.append(len(compressed))
            self._put(compressed)
        else:
            self._lengths.append(len(block) | _NOT_COMPRESSED)
            self._put(block)

    def _put(self, data: bytes) -> None:
        self._output.write(data)
        self.stored_bytes += len(data)


def open_compressed(file: BinaryIO, codec: str, size_bytes: int, path: str) -> BinaryIO:
    """Returns a file with the decompressed content, which has `size_bytes`. Takes ownership of `file`.

    Raises: CorruptStateError; StateRestoreError for an unknown codec. Both name the path.
    """
    if codec != CODEC:
        file.close()
        raise StateRestoreError(f"{path} is compressed with {codec!r}, which this release does not support")
    try:
        return io.BufferedReader(_Blocks(file, size_bytes, path), BLOCK_BYTES)
    except BaseException:
        file.close()
        raise


class _Blocks(io.RawIOBase):
    """The decompressed content. Holds one block in memory."""

    def __init__(self, file: BinaryIO, size_bytes: int, path: str) -> None:
        self._file = file
        self._size = size_bytes
        self._path = path
        self._codec = _codec()
        self._starts = self._read_index()
        self._position = 0
        self._block_number = -1
        self._block = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"{base + offset} is before the beginning of {self._path}")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        if self._position >= self._size:
            return 0
        number, start = divmod(self._position, BLOCK_BYTES)
        if number != self._block_number:
            self._block, self._block_number = self._read_block(number), number
        part = memoryview(self._block)[start : start + len(buffer)]
        buffer[: len(part)] = part
        self._position += len(part)
        return len(part)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _read_index(self) -> list[tuple[int, int, bool]]:
        """Returns for each block its begin, its stored length, and True if it is compressed."""
        end = self._file.seek(0, io.SEEK_END)
        if end < _TAIL.size:
            raise self._damaged()
        self._file.seek(end - _TAIL.size)
        count, magic = _TAIL.unpack(self._file.read(_TAIL.size))
        begin = end - _TAIL.size - 4 * count
        if magic != _MAGIC or count != -(-self._size // BLOCK_BYTES) or begin < 0:
            raise self._damaged()
        self._file.seek(begin)
        blocks, position = [], 0
        for length in struct.unpack(f">{count}I", self._file.read(4 * count)):
            stored = length & ~_NOT_COMPRESSED
            blocks.append((position, stored, not length & _NOT_COMPRESSED))
            position += stored
        if position != begin:
            raise self._damaged()
        return blocks

    def _read_block(self, number: int) -> bytes:
        position, stored, is_compressed = self._starts[number]
        self._file.seek(position)
        data = self._file.read(stored)
        size = min(BLOCK_BYTES, self._size - number * BLOCK_BYTES)
        if is_compressed:
            try:
                data = self._codec.decompress(data, decompressed_size=size, asbytes=True)
            except (OSError, ValueError) as error:
                raise self._damaged() from error
        if len(data) != size:
            raise self._damaged()
        return data

    def _damaged(self) -> CorruptStateError:
        return CorruptStateError(
            f"{self._path} is damaged: its compressed blocks cannot be read", details={"path": self._path}
        )
