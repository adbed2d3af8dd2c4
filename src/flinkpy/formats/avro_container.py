"""The blocks of an Avro object container file.

    header (magic, metadata, sync marker), then blocks: number of records, size, data, sync marker

A split is a range of bytes cut anywhere; it owns the blocks whose preceding marker begins in its range, so neighbouring
splits agree on every block without looking at each other.

Source: org.apache.avro.file.DataFileReader.
"""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from dataclasses import dataclass
from typing import Any, NamedTuple

from flinkpy.common.errors import InputFormatError
from flinkpy.formats.input_files import RandomAccessFile

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
#: A block larger than that is a damaged length.
MAX_BLOCK_BYTES = 1 << 30
_HEADER_STEP = 64 << 10
_SEARCH_BYTES = 1 << 20
#: The longest that a number of records and a size take.
_COUNTS_BYTES = 20


class DamagedBlockError(ValueError):
    """There is no whole block at this place."""


@dataclass(frozen=True)
class Header:
    """Attributes:
    size_bytes: with the marker.
    """

    schema: Any
    codec: str
    sync: bytes
    size_bytes: int


class Block(NamedTuple):
    """`data` is as in the file; `start` is where the block begins, `end` behind its marker."""

    start: int
    end: int
    num_records: int
    data: bytes


def read_header(file: RandomAccessFile, path: str) -> Header:
    """Raises: InputFormatError: it is no Avro file."""
    size = _HEADER_STEP
    while True:
        data = file.read_at(size, 0)
        try:
            return _parse_header(data, path)
        except IndexError:
            if len(data) < size:
                raise InputFormatError(
                    f"{path} is not a whole Avro file: it ends within its header", details={"path": path}
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
    """A zigzag number and what follows it. Raises: IndexError: the data ends within."""
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
    """A zigzag number of 64 bits."""
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
    """Where the first block begins whose preceding marker begins at `offset` or later; `file_size`: there is none."""
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
    """The block that begins at `position`. Raises: DamagedBlockError."""
    try:
        counts = file.read_at(_COUNTS_BYTES, position)
        num_records, used = read_long(counts, 0)
        size, used = read_long(counts, used)
    except IndexError:
        raise DamagedBlockError("the file ends within a block") from None
    if num_records < 0 or not 0 <= size <= MAX_BLOCK_BYTES:
        raise DamagedBlockError(f"{num_records} records in {size} bytes are no block")
    start = position + used
    end = start + size + SYNC_BYTES
    if end > file_size:
        raise DamagedBlockError("the file ends within a block")
    data = file.read_at(size + SYNC_BYTES, start)
    if data[size:] != header.sync:
        raise DamagedBlockError("there is no sync marker behind the block")
    return Block(position, end, num_records, data[:size])


def decompressed(data: bytes, codec: str) -> bytes:
    """Raises: DamagedBlockError."""
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
    raise DamagedBlockError(f"the codec {codec!r} is not known")


def _snappy(data: bytes) -> bytes:
    """With four bytes of CRC32 behind it."""
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
