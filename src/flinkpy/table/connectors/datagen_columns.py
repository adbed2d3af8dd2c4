"""Generators of the columns of `datagen`: from row numbers to Arrow arrays.

Random values come from a hash of seed, column and row number, so any cut into batches gives the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.clock import SystemClock
from flinkpy.connectors.datagen import GeneratorFunction
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import arrow_type_of, schema_of
from flinkpy.sql.types.logical_types import LogicalType, RowType

_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_INT_BITS = {types.TinyIntType: 8, types.SmallIntType: 16, types.IntType: 32, types.BigIntType: 64}
_DAY_MS = 86_400_000
_CLOCK = SystemClock()


def _random_bits(rows: np.ndarray, stream: int) -> np.ndarray:
    """Returns uint64[n]: a random number per row number (splitmix64)."""
    with np.errstate(over="ignore"):
        x = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(
            (stream * 0xD1B54A32D192ED03 + 0x632BE59BD9B4E019) % (1 << 64)
        )
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _fractions(rows: np.ndarray, stream: int) -> np.ndarray:
    """Returns float64[n] from 0 up to, but without, 1."""
    return (_random_bits(rows, stream) >> np.uint64(11)).astype(np.float64) * (1.0 / (1 << 53))


@dataclass(frozen=True, slots=True)
class ColumnGenerator:
    """The base class."""

    type: LogicalType

    def generate(self, rows: np.ndarray, streams: Iterator[int]) -> pa.Array:
        """Returns one value per row number (int64[n]). `streams` numbers the random streams of the table."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SequenceValues(ColumnGenerator):
    """The whole numbers from `start` to `end`, both included, as numbers or texts."""

    start: int
    end: int

    @property
    def count(self) -> int:
        return self.end - self.start + 1

    def generate(self, rows: np.ndarray, streams: Iterator[int]) -> pa.Array:
        return pc.cast(pa.array(rows + self.start), arrow_type_of(self.type))


@dataclass(frozen=True, slots=True)
class RandomValues(ColumnGenerator):
    """Random values within bounds; a part of them null."""

    null_rate: float = 0.0
    low: Any = None
    high: Any = None
    max_past_ms: int = 0
    length: int = 0
    is_var_len: bool = False
    children: tuple[ColumnGenerator, ...] = ()

    def generate(self, rows: np.ndarray, streams: Iterator[int]) -> pa.Array:
        values = self._values(rows, streams)
        if not self.null_rate:
            return values
        is_null = pa.array(_fractions(rows, next(streams)) < self.null_rate)
        return pc.if_else(is_null, pa.scalar(None, values.type), values)

    def _values(self, rows: np.ndarray, streams: Iterator[int]) -> pa.Array:
        kind = self.type
        arrow_type = arrow_type_of(kind)
        bits = _INT_BITS.get(type(kind))
        if bits is not None:
            return pc.cast(pa.array(self._whole(rows, bits, next(streams))), arrow_type)
        if isinstance(kind, (types.FloatType, types.DoubleType, types.DecimalType)):
            return self._fractional(rows, kind, next(streams))
        if isinstance(kind, types.BooleanType):
            return pa.array(_random_bits(rows, next(streams)) & np.uint64(1) == 1)
        if isinstance(kind, (types.TimestampType, types.LocalZonedTimestampType)):
            past = _fractions(rows, next(streams)) * self.max_past_ms
            instants = _CLOCK.now_ms() - past.astype(np.int64)
            return pc.cast(pa.array(instants).cast(pa.timestamp("ms", arrow_type.tz)), arrow_type)
        if isinstance(kind, types.DateType):
            return pa.array(np.full(len(rows), _CLOCK.now_ms() // _DAY_MS, np.int32)).cast(arrow_type)
        if isinstance(kind, types.TimeType):
            day = (_fractions(rows, next(streams)) * _DAY_MS).astype(np.int32)
            return pc.cast(pa.array(day).cast(pa.time32("ms")), arrow_type)
        if isinstance(kind, RowType):
            children = [child.generate(rows, streams) for child in self.children]
            return pa.StructArray.from_arrays(children, fields=list(arrow_type))
        if self.children:
            return self._collection(rows, streams)
        return self._text(rows, next(streams))

    def _whole(self, rows: np.ndarray, bits: int, stream: int) -> np.ndarray:
        """Returns int64[n] from `low` to `high`, both included."""
        low = -(1 << (bits - 1)) if self.low is None else self.low
        high = (1 << (bits - 1)) - 1 if self.high is None else self.high
        span = high - low + 1
        random = _random_bits(rows, stream)
        if span < 1 << 64:
            random = random % np.uint64(span)
        with np.errstate(over="ignore"):
            return (random + np.uint64(low % (1 << 64))).view(np.int64)

    def _fractional(self, rows: np.ndarray, kind: LogicalType, stream: int) -> pa.Array:
        if isinstance(kind, types.DecimalType):
            most = 10.0 ** (kind.precision - kind.scale)
        else:
            most = float(np.finfo(np.float32 if isinstance(kind, types.FloatType) else np.float64).max)
        low = -most if self.low is None else max(self.low, -most)
        high = most if self.high is None else min(self.high, most)
        part = _fractions(rows, stream)
        values = low * (1 - part) + high * part
        if isinstance(kind, types.DecimalType):
            # Binary fractions have more digits than the scale: count units of the last digit.
            units = np.clip(np.trunc(values * 10.0**kind.scale), -(10.0**kind.precision) + 1, 10.0**kind.precision - 1)
            digits = [f"{int(unit)}e-{kind.scale}" for unit in units.tolist()]
            return pc.cast(pa.array(digits), arrow_type_of(kind))
        return pc.cast(pa.array(values), arrow_type_of(kind), safe=False)

    def _collection(self, rows: np.ndarray, streams: Iterator[int]) -> pa.Array:
        size = self.length
        numbers = (rows[:, None] * max(size, 1) + np.arange(size)).ravel()
        parts = [child.generate(numbers, streams) for child in self.children]
        offsets = pa.array(np.arange(len(rows) + 1, dtype=np.int32) * size)
        arrow_type = arrow_type_of(self.type)
        if isinstance(self.type, types.ArrayType):
            return pa.ListArray.from_arrays(offsets, parts[0], type=arrow_type)
        if isinstance(self.type, types.MultisetType):
            parts.append(pa.array(np.ones(len(numbers), np.int32)))
        return _without_equal_keys(pa.MapArray.from_arrays(offsets, *parts, type=arrow_type))

    def _text(self, rows: np.ndarray, stream: int) -> pa.Array:
        num_rows, length = len(rows), self.length
        lengths = np.full(num_rows, length, dtype=np.int64)
        if self.is_var_len and length:
            lengths = 1 + (_fractions(rows, ~stream) * length).astype(np.int64)
        words = [_random_bits(rows * 64 + word, stream) for word in range((length + 15) // 16)]
        nibbles = np.empty((num_rows, len(words) * 16), dtype=np.uint8)
        for word, bits in enumerate(words):
            for place in range(16):
                nibbles[:, word * 16 + place] = (bits >> np.uint64(4 * place)).astype(np.uint8) & 15
        characters = _HEX[nibbles[:, :length]] if length else np.empty((num_rows, 0), np.uint8)
        is_used = np.arange(length) < lengths[:, None]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        data = pa.py_buffer(np.ascontiguousarray(characters[is_used]))
        return pa.Array.from_buffers(arrow_type_of(self.type), num_rows, [None, pa.py_buffer(offsets), data])


def _without_equal_keys(maps: pa.MapArray) -> pa.MapArray:
    """Returns the maps with the last entry of each key."""
    return pa.array([list(dict(entries).items()) for entries in maps.to_pylist()], maps.type)


class RowGenerator(GeneratorFunction):
    """Generates RecordBatches.

    Args:
        row_type: the rows.
        columns: for each column its position in the table, which its random values depend on, and its generator.
    """

    def __init__(self, row_type: RowType, columns: tuple[tuple[int, ColumnGenerator], ...]) -> None:
        self._row_type = row_type
        self._columns = columns

    def map_batch(self, indices: np.ndarray) -> pa.RecordBatch:  # type: ignore[override]
        columns = [column.generate(indices, count(place << 32)) for place, column in self._columns]
        if not columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(indices), pa.struct([])))
        return pa.RecordBatch.from_arrays(columns, schema=schema_of(self._row_type))
