"""COUNT(DISTINCT), variances and standard deviations, as accumulators and in both state backends."""

from __future__ import annotations

import datetime as dt
import math
import statistics
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.state.accumulators import Accumulator, create_accumulator

NAN = float("nan")
#: Values and the number of distinct ones.
DISTINCT: list[tuple[pa.DataType, list[Any], int]] = [
    (pa.int64(), [5, 5, None, -(1 << 63), (1 << 63) - 1, 0], 4),
    (pa.float64(), [0.0, -0.0, NAN, -NAN, 1.5, None], 3),
    (pa.string(), ["a", "", None, "a", "\u00e4"], 3),
    (pa.binary(), [b"a", b"", b"a", None], 2),
    (pa.bool_(), [True, False, None, True], 2),
    (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("1.5"), Decimal("2"), None], 2),
    (pa.date32(), [dt.date(2024, 1, 1), dt.date(1900, 1, 1), None, dt.date(2024, 1, 1)], 2),
    (pa.timestamp("ns"), [1, 2, 1, None], 2),
    (pa.time32("ms"), [1, 2, 1, None], 2),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a", None], 2),
]
NUMBERS = [3.5, -1.0, 4.25, 1e6, 3.5, 12.0, -7.75]


def made(function: str, kind: pa.DataType, size: int = 4) -> Accumulator:
    accumulator = create_accumulator(function, kind)
    accumulator.grow(size)
    return accumulator


def slots(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


def restored(accumulator: Accumulator, function: str, kind: pa.DataType, at: np.ndarray) -> Accumulator:
    """Returns a new accumulator with the slots `at`, restored from a snapshot."""
    copy = made(function, kind)
    columns = [column.take(pa.array(at)) for column in accumulator.freeze(4)()]
    copy.restore(at, columns)
    return copy


@pytest.mark.parametrize(("kind", "values", "expected"), DISTINCT, ids=lambda value: str(value)[:20])
def test_values_are_counted_once_and_nulls_not_at_all(kind: pa.DataType, values: list[Any], expected: int) -> None:
    accumulator = made("COUNT_DISTINCT", kind)
    array = pa.array(values, kind)
    accumulator.add(np.full(len(values), 2), array)
    accumulator.add(np.full(len(values), 2), array)
    accumulator.add(slots(1), array.slice(0, 1))

    assert accumulator.results(slots(0, 1, 2)).to_pylist() == [0, 1, expected]
    copy = restored(accumulator, "COUNT_DISTINCT", kind, slots(2))
    copy.add(np.full(len(values), 2), array)
    assert copy.results(slots(2, 1)).to_pylist() == [expected, 0]


def test_sets_of_values_are_merged_within_and_between_accumulators() -> None:
    one, other = made("COUNT_DISTINCT", pa.string()), made("COUNT_DISTINCT", pa.string())
    one.add(slots(0, 0, 1), pa.array(["a", "b", "b"]))
    other.add(slots(0, 0, 1, 3), pa.array(["c", "b", "a", "c"]))
    one.merge(slots(0, 0, 2), other, slots(0, 1, 3))
    assert one.results(slots(0, 1, 2, 3)).to_pylist() == [3, 1, 1, 0]

    one.merge(slots(1), one, slots(0))
    assert one.results(slots(0, 1)).to_pylist() == [3, 3]
    empty = made("COUNT_DISTINCT", pa.string())
    empty.merge(slots(0, 1), one, slots(2, 2))
    empty.add(slots(0, 1), pa.array(["c", "d"]))
    assert empty.results(slots(0, 1)).to_pylist() == [1, 2]
    assert one.results(slots(2)).to_pylist() == [1]


def test_values_of_removed_slots_are_removed() -> None:
    accumulator = made("COUNT_DISTINCT", pa.int64(), 100)
    accumulator.add(np.arange(100), pa.array(range(100)))
    accumulator.add(np.arange(100), pa.array(np.arange(100) + 1))
    before = accumulator.extra_bytes
    accumulator.keep(slots(3, 50))
    accumulator.grow(3)

    assert accumulator.extra_bytes < before / 10
    accumulator.add(slots(0, 1, 2), pa.array([3, 7, 50]))
    assert accumulator.results(slots(0, 1, 2)).to_pylist() == [2, 3, 1]


def spread(function: str, values: list[float]) -> float | None:
    if len(values) < (2 if function.endswith("SAMP") else 1):
        return None
    exact = {
        "VAR_POP": statistics.pvariance,
        "VAR_SAMP": statistics.variance,
        "STDDEV_POP": statistics.pstdev,
        "STDDEV_SAMP": statistics.stdev,
    }
    return exact[function](values)


@pytest.mark.parametrize("function", ["VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP"])
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.int16(), pa.decimal128(12, 2)], ids=str)
def test_spreads_match_the_statistics_module(function: str, kind: pa.DataType) -> None:
    numbers = [1, 2, 2, 7, -3] if pa.types.is_integer(kind) else [1.5, 2.25, 2.25, 7.0, -3.5]
    values = pa.array([*map(Decimal, map(str, numbers)), None] if pa.types.is_decimal(kind) else [*numbers, None], kind)
    accumulator = made(function, kind)
    accumulator.add(slots(1, 1, 1, 1, 1, 1), values)
    accumulator.add(slots(2), values.slice(0, 1))

    nothing, all_of_them, one = accumulator.results(slots(0, 1, 2)).to_pylist()
    assert nothing is None
    assert all_of_them == pytest.approx(spread(function, [float(n) for n in numbers]), rel=1e-12)
    assert one == (None if function.endswith("SAMP") else 0.0)


@pytest.mark.parametrize("origin", [0.0, 1e9, -1e12])
def test_spreads_are_precise_for_values_far_from_zero_and_an_early_outlier(origin: float) -> None:
    numbers = [0.0] + [origin + number for number in NUMBERS] * 20
    for values in (numbers, numbers[1:]):
        accumulator = made("VAR_SAMP", pa.float64())
        accumulator.add(np.zeros(len(values), dtype=np.int64), pa.array(values))
        assert accumulator.results(slots(0)).to_pylist() == [pytest.approx(statistics.variance(values), rel=1e-9)]


def test_results_do_not_depend_on_batch_boundaries() -> None:
    generator = np.random.default_rng(7)
    values, at = generator.normal(1e6, 3.0, 500), generator.integers(0, 4, 500)
    whole, cut = made("VAR_POP", pa.float64()), made("VAR_POP", pa.float64())
    whole.add(at, pa.array(values))
    for start in range(0, 500, 7):
        cut.add(at[start : start + 7], pa.array(values[start : start + 7]))
        if start == 140:
            cut = restored(cut, "VAR_POP", pa.float64(), slots(0, 1, 2, 3))

    assert cut.results(slots(0, 1, 2, 3)).equals(whole.results(slots(0, 1, 2, 3)))


def test_spreads_of_parts_can_be_merged() -> None:
    one, other = made("STDDEV_SAMP", pa.float64()), made("STDDEV_SAMP", pa.float64())
    one.add(slots(0, 0), pa.array(NUMBERS[:2]))
    other.add(slots(0, 0, 1, 1, 1), pa.array(NUMBERS[2:]))
    one.merge(slots(0, 0, 0, 1, 1), other, slots(0, 1, 3, 0, 1))

    expected = [statistics.stdev(NUMBERS), statistics.stdev(NUMBERS[2:]), None]
    assert one.results(slots(0, 1, 2)).to_pylist() == [
        None if number is None else pytest.approx(number, rel=1e-12) for number in expected
    ]
    one.keep(slots(1))
    assert one.results(slots(0)).to_pylist() == [pytest.approx(statistics.stdev(NUMBERS[2:]), rel=1e-12)]


def test_nan_values_have_no_spread_and_infinities_give_nan() -> None:
    accumulator = made("VAR_POP", pa.float64())
    accumulator.add(slots(0, 0, 1), pa.array([math.inf, 1.0, NAN]))
    assert all(math.isnan(value) for value in accumulator.results(slots(0, 1)).to_pylist())
    with pytest.raises(UnsupportedOperationError, match="VAR_SAMP needs a numeric column, not string"):
        create_accumulator("VAR_SAMP", pa.string())
    with pytest.raises(UnsupportedOperationError, match="aggregate function 'VAR_X'"):
        create_accumulator("VAR_X", pa.int64())
