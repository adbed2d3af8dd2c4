"""Roaring bitmaps: sets of 32-bit numbers as bytes, in the portable format that all libraries of RoaringBitmap read.

A bitmap has a container for each distinct value of the upper 16 bits: a sorted array of the lower 16 bits, a bitmap of
8 KiB, or runs, whichever is smallest. Numbers are little-endian.

Source: https://github.com/RoaringBitmap/RoaringFormatSpec, org.apache.flink.types.bitmap.RoaringBitmapData.
"""

from __future__ import annotations

import struct

import numpy as np

#: The first bytes of a bitmap without, and with containers of runs.
_COOKIE_WITHOUT_RUNS = 12_346
_COOKIE_WITH_RUNS = 12_347
#: From this number of containers on, a bitmap with runs has their offsets, too.
_OFFSETS_FROM = 4
#: The largest number of values in an array container.
_MAX_ARRAY = 4_096
_BITMAP_BYTES = 8_192


def bitmap_bytes(values: np.ndarray) -> bytes:
    """Returns a bitmap as bytes.

    Args:
        values: uint32[n], ascending and distinct.
    """
    keys, starts = np.unique(values >> 16, return_index=True)
    lows = (values & 0xFFFF).astype("<u2")
    ends = np.append(starts[1:], len(values))
    containers, has_runs, sizes = [], [], []
    for start, end in zip(starts.tolist(), ends.tolist()):
        data, is_run = _container(lows[start:end])
        containers.append(data)
        has_runs.append(is_run)
        sizes.append(end - start)
    count = len(containers)
    if any(has_runs):
        header = struct.pack("<HH", _COOKIE_WITH_RUNS, count - 1)
        header += np.packbits(np.array(has_runs), bitorder="little").tobytes()
    else:
        header = struct.pack("<II", _COOKIE_WITHOUT_RUNS, count)
    for key, size in zip(keys.tolist(), sizes):
        header += struct.pack("<HH", key, size - 1)
    if not any(has_runs) or count >= _OFFSETS_FROM:
        offset = len(header) + 4 * count
        for data in containers:
            header += struct.pack("<I", offset)
            offset += len(data)
    return header + b"".join(containers)


def _container(lows: np.ndarray) -> tuple[bytes, bool]:
    """Returns a container as bytes, and True if it consists of runs."""
    size = len(lows)
    breaks = np.flatnonzero(np.diff(lows.astype(np.int32)) != 1)
    run_starts = np.append(0, breaks + 1)
    run_ends = np.append(breaks, size - 1)
    is_array = size <= _MAX_ARRAY
    if (2 * size if is_array else _BITMAP_BYTES) > 2 + 4 * len(run_starts):
        runs = np.stack([lows[run_starts], lows[run_ends] - lows[run_starts]], axis=1)
        return struct.pack("<H", len(run_starts)) + runs.astype("<u2").tobytes(), True
    if is_array:
        return lows.tobytes(), False
    bits = np.zeros(1 << 16, dtype=bool)
    bits[lows] = True
    return np.packbits(bits, bitorder="little").tobytes(), False


def bitmap_values(data: bytes) -> np.ndarray:
    """Returns the values of a bitmap: uint32[n], ascending. Raises: ValueError if the bytes are no bitmap."""
    try:
        return _values(data)
    except (struct.error, ValueError) as error:
        raise ValueError(f"the {len(data)} bytes are not a serialized roaring bitmap: {error}") from None


def _values(data: bytes) -> np.ndarray:
    cookie, upper = struct.unpack_from("<HH", data)
    at = 4
    if cookie == _COOKIE_WITH_RUNS:
        count = upper + 1
        marks = np.frombuffer(data, np.uint8, (count + 7) // 8, at)
        is_run = np.unpackbits(marks, bitorder="little").astype(bool)
        at += len(marks)
    elif cookie == _COOKIE_WITHOUT_RUNS and not upper:
        (count,) = struct.unpack_from("<I", data, at)
        is_run = np.zeros(min(count, 1 << 16), dtype=bool)
        at += 4
    else:
        raise ValueError(f"unknown cookie {cookie}")
    if count > 1 << 16:
        raise ValueError(f"{count} containers")
    heads = [struct.unpack_from("<HH", data, at + 4 * number) for number in range(count)]
    at += 4 * count
    if cookie == _COOKIE_WITHOUT_RUNS or count >= _OFFSETS_FROM:
        at += 4 * count
    parts = []
    for (key, last), runs in zip(heads, is_run.tolist()):
        lows, at = _lows(data, at, last + 1, runs)
        parts.append(lows.astype(np.uint32) | np.uint32(key << 16))
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint32)


def _lows(data: bytes, at: int, size: int, is_run: bool) -> tuple[np.ndarray, int]:
    """Returns the lower 16 bits of the values of the container at this place, and where it ends."""
    if is_run:
        (count,) = struct.unpack_from("<H", data, at)
        runs = np.frombuffer(data, "<u2", 2 * count, at + 2).reshape(count, 2).astype(np.int64)
        lengths = runs[:, 1] + 1
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.repeat(runs[:, 0], lengths) + within, at + 2 + 4 * count
    if size <= _MAX_ARRAY:
        return np.frombuffer(data, "<u2", size, at), at + 2 * size
    bits = np.unpackbits(np.frombuffer(data, np.uint8, _BITMAP_BYTES, at), bitorder="little")
    return np.flatnonzero(bits), at + _BITMAP_BYTES


def bitmap_text(data: bytes) -> str:
    """Returns a bitmap as Flink shows it: `{1,2,4294967295}`."""
    return f"{{{','.join(map(str, bitmap_values(data).tolist()))}}}"
