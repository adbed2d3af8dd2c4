"""The Avro object container file: its header, its blocks, and their compression.

    header (magic, metadata, sync marker), then blocks: number of records, size, data, sync marker

Source: org.apache.avro.file.DataFileReader, org.apache.avro.file.DataFileStream.
"""

from __future__ import annotations

import bz2
import json
import lzma
import os
import zlib
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from flinkpy.common.errors import InputFormatError
from flinkpy.formats.input_files import RandomAccessFile, open_random

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
#: Largest block. A larger size means a damaged file.
MAX_BLOCK_BYTES = 1 << 30
_HEADER_STEP = 64 << 10
_SEARCH_BYTES = 1 << 20
#: Largest size of the two numbers before a block: of records and of bytes.
_COUNTS_BYTES = 20


class DamagedBlockError(ValueError):
    """There is no valid block at this position."""


@dataclass(frozen=True)
class Header:
    """The header of a file.

    Attributes:
        schema: schema of the writer.
        codec: compression of the blocks.
        sync: the sync marker.
        size_bytes: size including the sync marker.
    """

    schema: Any
    codec: str
    sync: bytes
    size_bytes: int


class Block(NamedTuple):
    """A block. `data` is as in the file; `start` is the offset of the block, `end` that after its sync marker."""

    start: int
    end: int
    num_records: int
    data: bytes


def read_header(file: RandomAccessFile, path: str) -> Header:
    """Reads the header of a file. Raises: InputFormatError if it is not an Avro file."""
    size = _HEADER_STEP
    while True:
        data = file.read_at(size, 0)
        try:
            return _parse_header(data, path)
        except IndexError:
            if len(data) < size:
                raise InputFormatError(
                    f"{path} is not a complete Avro file: it ends within its header", details={"path": path}
                ) from None
            size *= 8


def _parse_header(data: bytes, path: str) -> Header:
    if not data.startswith(MAGIC):
        if len(data) < len(MAGIC) and MAGIC.startswith(data):
            raise IndexError
        raise InputFormatError(
            f"{path} is not an Avro file: it begins with {data[:4]!r}, not {MAGIC!r}", details={"path": path}
        )
    position = len(MAGIC)
    metadata: dict[str, bytes] = {}
    while True:
        count, position = read_long(data, position)
        if count == 0:
            break
        if count < 0:
            _, position = read_long(data, position)
        for _ in range(abs(count)):
            key, position = _read_bytes(data, position)
            metadata[key.decode("utf-8", "replace")], position = _read_bytes(data, position)
    if position + SYNC_BYTES > len(data):
        raise IndexError
    try:
        schema = json.loads(metadata["avro.schema"])
    except (KeyError, ValueError) as error:
        raise InputFormatError(
            f"{path} is not an Avro file: it has no readable schema: {error}", details={"path": path}
        ) from error
    codec = metadata.get("avro.codec", b"null").decode("utf-8", "replace")
    return Header(schema, codec, data[position : position + SYNC_BYTES], position + SYNC_BYTES)


def read_long(data: bytes, position: int) -> tuple[int, int]:
    """Reads a zigzag number. Returns it and the next position. Raises: IndexError if the data ends before it."""
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
        shift += 7
        if shift > 63:
            raise DamagedBlockError("a number is longer than 64 bits")


def write_long(number: int) -> bytes:
    """Returns the zigzag form of a 64-bit number."""
    number = (number << 1) ^ (number >> 63)
    parts = bytearray()
    while number > 0x7F:
        parts.append((number & 0x7F) | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _read_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    length, position = read_long(data, position)
    if length < 0 or position + length > len(data):
        raise IndexError
    return data[position : position + length], position + length


def find_block(file: RandomAccessFile, header: Header, offset: int, file_size: int) -> int:
    """Returns the offset of the first block whose preceding sync marker is at `offset` or later, or `file_size`."""
    position = max(offset, header.size_bytes - SYNC_BYTES)
    while position < file_size:
        data = file.read_at(_SEARCH_BYTES, position)
        found = data.find(header.sync)
        if found >= 0:
            return position + found + SYNC_BYTES
        if len(data) < _SEARCH_BYTES:
            break
        position += len(data) - SYNC_BYTES + 1
    return file_size


def read_block(file: RandomAccessFile, header: Header, position: int, file_size: int) -> Block:
    """Reads the block at `position`. Raises: DamagedBlockError."""
    try:
        counts = file.read_at(_COUNTS_BYTES, position)
        num_records, used = read_long(counts, 0)
        size, used = read_long(counts, used)
    except IndexError:
        raise DamagedBlockError("the file ends within a block") from None
    if num_records < 0 or not 0 <= size <= MAX_BLOCK_BYTES:
        raise DamagedBlockError(f"{num_records} records in {size} bytes are not a valid block")
    start = position + used
    end = start + size + SYNC_BYTES
    if end > file_size:
        raise DamagedBlockError("the file ends within a block")
    data = file.read_at(size + SYNC_BYTES, start)
    if data[size:] != header.sync:
        raise DamagedBlockError("there is no sync marker after the block")
    return Block(position, end, num_records, data[:size])


def copy_blocks(paths: list[str], output: BinaryIO) -> None:
    """Writes one file with the blocks of several, which are not decompressed.

    Raises:
        InputFormatError: the files differ in their schema or codec, or a block is damaged.
    """
    first: Header | None = None
    for path in paths:
        file = open_random(path)
        try:
            header, size = read_header(file, path), os.stat(path).st_size
            if first is None:
                first = header
                output.write(file.read_at(header.size_bytes, 0))
            if (header.schema, header.codec) != (first.schema, first.codec):
                raise InputFormatError(f"{path} has another schema or codec than {paths[0]}", details={"path": path})
            position = header.size_bytes
            while position < size:
                block = read_block(file, header, position, size)
                output.write(write_long(block.num_records) + counted(block.data) + first.sync)
                position = block.end
        except DamagedBlockError as error:
            raise InputFormatError(f"{path}: {error}", details={"path": path}) from error
        finally:
            file.close()


def decompressed(data: bytes, codec: str) -> bytes:
    """Returns the decompressed data of a block. Raises: DamagedBlockError."""
    try:
        if codec == "null":
            return data
        if codec == "deflate":
            return zlib.decompress(data, -15)
        if codec == "bzip2":
            return bz2.decompress(data)
        if codec == "xz":
            return lzma.decompress(data)
        if codec == "snappy":
            return _snappy(data)
        if codec == "zstandard":
            return _zstandard(data)
    except (OSError, ValueError, EOFError, IndexError, zlib.error, lzma.LZMAError) as error:
        raise DamagedBlockError(f"the block cannot be decompressed: {error}") from error
    raise DamagedBlockError(f"the codec {codec!r} is unknown")


def snappy_block(data: bytes) -> bytes:
    """Returns the data of a block compressed with Snappy."""
    import pyarrow as pa

    return bytes(pa.Codec("snappy").compress(data, asbytes=True)) + zlib.crc32(data).to_bytes(4, "big")


def _snappy(data: bytes) -> bytes:
    """Decompresses a Snappy block, which ends with a four-byte CRC32."""
    import pyarrow as pa

    size = shift = position = 0
    while True:
        byte = data[position]
        position += 1
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > MAX_BLOCK_BYTES:
        raise ValueError(f"{size} bytes are too many")
    content = bytes(pa.Codec("snappy").decompress(data[:-4], decompressed_size=size))
    if zlib.crc32(content) != int.from_bytes(data[-4:], "big"):
        raise ValueError("wrong checksum")
    return content


def _zstandard(data: bytes) -> bytes:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        return bytes(stream.read())


def counted(data: bytes) -> bytes:
    """Returns bytes after their number."""
    return write_long(len(data)) + data
