"""Accumulators: the result of each kind, alone and merged."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from flinkpy.common import accumulators as acc
from flinkpy.common.errors import AccumulatorError
from flinkpy.common.ids import JobID
from flinkpy.common.job_execution_result import JobExecutionResult

CASES: list[tuple[type[acc.Accumulator[Any, Any]], list[Any], Any, Any]] = [
    (acc.IntCounter, [1, 2, -4], -1, 0),
    (acc.LongCounter, [1 << 62, 1 << 62], 1 << 63, 0),
    (acc.DoubleCounter, [0.5, 0.25], 0.75, 0.0),
    (acc.IntMaximum, [3, -9, 4], 4, -(1 << 31)),
    (acc.IntMinimum, [3, -9, 4], -9, (1 << 31) - 1),
    (acc.LongMaximum, [-5, -7], -5, -(1 << 63)),
    (acc.LongMinimum, [5, 7], 5, (1 << 63) - 1),
    (acc.DoubleMaximum, [-1.5], -1.5, float("-inf")),
    (acc.DoubleMinimum, [1.5], 1.5, float("inf")),
    (acc.AverageAccumulator, [1, 2, 6], 3.0, 0.0),
    (acc.Histogram, [3, 1, 3], {1: 1, 3: 2}, {}),
    (acc.ListAccumulator, ["b", "a"], ["b", "a"], []),
]


@pytest.mark.parametrize(("kind", "values", "expected", "empty"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_adding_and_merging_return_the_same_result(kind: Any, values: list[Any], expected: Any, empty: Any) -> None:
    whole = kind()
    for value in values:
        whole.add(value)
    merged = kind()
    for value in values:
        part = kind()
        part.add(value)
        before = copy.deepcopy(part.get_local_value())
        merged.merge(part)
        assert part.get_local_value() == before
    assert whole.get_local_value() == merged.get_local_value() == expected
    clone = whole.clone()
    whole.reset_local()
    assert whole.get_local_value() == empty
    assert clone.get_local_value() == expected


def test_a_histogram_returns_its_values_in_order() -> None:
    histogram = acc.Histogram()
    for value in (5, 1, 3):
        histogram.add(value)
    assert list(histogram.get_local_value()) == [1, 3, 5]


def test_reading_a_failed_accumulator_raises() -> None:
    failed = acc.AccumulatorFailure("words", "cannot be merged")
    result = JobExecutionResult(JobID("0" * 32), 1, {"words": failed, "lines": 3})
    assert result.get_accumulator_result("lines") == 3
    assert result.get_accumulator_result("nothing") is None
    with pytest.raises(AccumulatorError, match="accumulator 'words': cannot be merged"):
        result.get_accumulator_result("words")
    with pytest.raises(AccumulatorError):
        result.get_all_accumulator_results()
