"""Aggregate functions that keep all values of a group, or their counts, to build one result of them.

PERCENTILE, JSON_OBJECTAGG, JSON_ARRAYAGG, APPROX_COUNT_DISTINCT and the aggregates of bitmaps.

Source: org.apache.flink.table.runtime.functions.aggregate.{PercentileAggFunction, JsonObjectAggFunction,
JsonArrayAggFunction}, org.apache.flink.table.runtime.functions.aggregate.bitmap.*.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import TableRuntimeError
from flinkpy.records.roaring_bitmap import bitmap_bytes, bitmap_values
from flinkpy.state.object_accumulators import ArrayAgg, Counted, ObjectAccumulator, ObjectFunction

_JSON = "null"


class ApproxCountDistinct(Counted):
    """APPROX_COUNT_DISTINCT, which counts exactly."""

    def value(self, accumulator: dict[Any, int]) -> int:
        return sum(count > 0 for count in accumulator.values())


class Percentile(ObjectFunction):
    """PERCENTILE(value, fraction or array of fractions [, frequency]), with interpolation between neighbours.

    The accumulator is [count of each value, the fractions]. As in Java, NaN is greater than every number.
    """

    takes_tuples = True
    takes_nulls = True

    def __init__(self) -> None:
        self._counts = ApproxCountDistinct()

    def create(self) -> list[Any]:
        return [{}, None]

    def accumulate(self, accumulator: list[Any], value: Any) -> None:
        self._change(accumulator, value, 1)

    def retract(self, accumulator: list[Any], value: Any) -> None:
        self._change(accumulator, value, -1)

    def _change(self, accumulator: list[Any], value: Any, sign: int) -> None:
        number, accumulator[1] = value[0], value[1]
        frequency = value[2] if len(value) > 2 else 1
        if number is not None and frequency is not None and frequency > 0:
            self._counts.change(accumulator[0], float(number), sign * frequency)

    def merge(self, accumulator: list[Any], other: list[Any]) -> None:
        self._counts.merge(accumulator[0], other[0])
        accumulator[1] = other[1] if accumulator[1] is None else accumulator[1]

    def value(self, accumulator: list[Any]) -> Any:
        counts, fractions = accumulator
        pairs = sorted(self._counts.counts(counts), key=lambda pair: (math.isnan(pair[0]), pair[0]))
        if not pairs or fractions is None:
            return None
        numbers, ends = [number for number, _ in pairs], list(accumulate(count for _, count in pairs))
        if isinstance(fractions, list):
            return [_percentile(numbers, ends, each) for each in fractions]
        return _percentile(numbers, ends, fractions)


def _percentile(numbers: list[float], ends: list[int], fraction: Any) -> float:
    """Returns the value at a fraction of the way through the sorted numbers, of which `ends` are the running counts."""
    place = (ends[-1] - 1) * float(fraction)
    low, high = math.floor(place), math.ceil(place)
    lower = numbers[int(np.searchsorted(ends, low, side="right"))]
    upper = numbers[int(np.searchsorted(ends, high, side="right"))]
    return lower if low == high or lower == upper else (high - place) * lower + (place - low) * upper


class JsonObjectAgg(ObjectFunction):
    """JSON_OBJECTAGG. Its values are (key, JSON text of the value); the accumulator is the texts by their keys."""

    takes_tuples = True
    takes_nulls = True

    def __init__(self, is_absent_on_null: bool) -> None:
        self._is_absent_on_null = is_absent_on_null

    def create(self) -> dict[str, str | None]:
        return {}

    def accumulate(self, accumulator: dict[str, str | None], value: Any) -> None:
        key, text = value
        if key is None:
            raise TableRuntimeError("JSON_OBJECTAGG: a key must not be NULL")
        if key in accumulator:
            raise TableRuntimeError(
                f"Key '{key}' is already present. Duplicate keys are not allowed in JSON_OBJECTAGG. Please ensure that "
                "keys are unique."
            )
        accumulator[key] = text

    def retract(self, accumulator: dict[str, str | None], value: Any) -> None:
        accumulator.pop(value[0], None)

    def merge(self, accumulator: dict[str, str | None], other: dict[str, str | None]) -> None:
        for pair in other.items():
            self.accumulate(accumulator, pair)

    def value(self, accumulator: dict[str, str | None]) -> str:
        shown = (
            f"{json.dumps(key, ensure_ascii=False)}:{_JSON if text is None else text}"
            for key, text in sorted(accumulator.items())
            if text is not None or not self._is_absent_on_null
        )
        return f"{{{','.join(shown)}}}"


class JsonArrayAgg(ArrayAgg):
    """JSON_ARRAYAGG. Its values are JSON texts."""

    def __init__(self, is_absent_on_null: bool) -> None:
        self.takes_nulls = not is_absent_on_null

    def value(self, accumulator: list[list[Any]]) -> str:
        return f"[{','.join(_JSON if text is None else text for text in accumulator[0])}]"


class BitmapAgg(ObjectFunction):
    """An aggregate of bitmaps, or of the numbers of one. The accumulator is [number of rows, count of each number].

    Args:
        is_chosen: (count of a number, number of rows): True if the number is in the result.
        is_build: True if rows are numbers, not bitmaps.
        is_cardinality: True for the size of the result.
    """

    def __init__(self, is_chosen: Callable[[int, int], bool], is_build: bool, is_cardinality: bool) -> None:
        self._is_chosen = is_chosen
        self._is_build = is_build
        self._is_cardinality = is_cardinality
        self._counts = ApproxCountDistinct()

    def create(self) -> list[Any]:
        return [0, {}]

    def accumulate(self, accumulator: list[Any], value: Any) -> None:
        self._change(accumulator, value, 1)

    def retract(self, accumulator: list[Any], value: Any) -> None:
        self._change(accumulator, value, -1)

    def _change(self, accumulator: list[Any], value: Any, by: int) -> None:
        accumulator[0] += by
        numbers = [value & 0xFFFFFFFF] if self._is_build else bitmap_values(value).tolist()
        for number in numbers:
            self._counts.change(accumulator[1], number, by)

    def merge(self, accumulator: list[Any], other: list[Any]) -> None:
        accumulator[0] += other[0]
        self._counts.merge(accumulator[1], other[1])

    def value(self, accumulator: list[Any]) -> bytes | int | None:
        rows, counts = accumulator
        if rows <= 0:
            return None
        chosen = sorted(number for number, count in counts.items() if self._is_chosen(count, rows))
        return len(chosen) if self._is_cardinality else bitmap_bytes(np.array(chosen, dtype=np.uint32))


#: When a number is in the result of the aggregates of bitmaps.
_CHOSEN: dict[str, Callable[[int, int], bool]] = {
    "BUILD": lambda count, rows: count > 0,
    "OR": lambda count, rows: count > 0,
    "AND": lambda count, rows: count == rows,
    "XOR": lambda count, rows: count % 2 == 1,
}


def create_collected_accumulator(name: str, value_type: pa.DataType) -> ObjectAccumulator | None:
    """Returns the accumulator of a function of this module; None for any other name."""
    if name == "PERCENTILE":
        fractions = value_type.field(1).type
        kind = pa.list_(pa.float64()) if pa.types.is_list(fractions) else pa.float64()
        return ObjectAccumulator(Percentile(), kind)
    if name == "APPROX_COUNT_DISTINCT":
        return ObjectAccumulator(ApproxCountDistinct(), pa.int64())
    if name.startswith("JSON_"):
        function, _, on_null = name.partition("AGG_")
        made = (JsonObjectAgg if function == "JSON_OBJECT" else JsonArrayAgg)(on_null == "ABSENT_ON_NULL")
        return ObjectAccumulator(made, pa.string())
    if name.startswith("BITMAP_"):
        operation = name.split("_")[1]
        is_cardinality = "CARDINALITY" in name
        bitmaps = BitmapAgg(_CHOSEN[operation], operation == "BUILD", is_cardinality)
        return ObjectAccumulator(bitmaps, pa.int64() if is_cardinality else pa.binary())
    return None
