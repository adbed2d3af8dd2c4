"""AsyncBatchFunction: many records in one call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from async_functions_for_tests import AsyncHarness

from flinkpy.common.errors import FunctionError
from flinkpy.functions.async_functions import AsyncBatchFunction
from flinkpy.records.elements import Watermark


class Noting(AsyncBatchFunction):
    """Returns every record as often as its number modulo 3, after some rounds of the loop."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.now = self.most = 0

    async def async_invoke_batch(self, values: list[int]) -> list[list[int]]:
        self.batches.append(values)
        self.now += len(values)
        self.most = max(self.most, self.now)
        for _ in range(values[0] % 4):
            await asyncio.sleep(0)
        self.now -= len(values)
        return [[value] * (value % 3) for value in values]


@pytest.fixture
def opened() -> Iterator[list[AsyncHarness]]:
    harnesses: list[AsyncHarness] = []
    yield harnesses
    for harness in harnesses:
        harness.operator.close()


def open_harness(opened: list[AsyncHarness], function: AsyncBatchFunction, **settings: Any) -> AsyncHarness:
    harness = AsyncHarness(function, **settings)
    opened.append(harness)
    return harness


@pytest.mark.parametrize("ordered", [True, False])
def test_a_call_gets_several_records_and_each_record_gets_its_own_results(opened: Any, ordered: bool) -> None:
    function = Noting()
    harness = open_harness(opened, function, ordered=ordered, capacity=40, max_batch_size=10)
    for begin in range(0, 3000, 300):
        values = list(range(begin, begin + 300))
        harness.process(values, values)
    harness.watermark(3000)
    rows = harness.drain()
    expected = [value for value in range(3000) for _ in range(value % 3)]
    assert sorted(rows) == expected
    assert not ordered or rows == expected
    assert harness.output.timestamps == rows
    assert harness.output.items[-1] == Watermark(3000)
    assert max(map(len, function.batches)) == 10
    assert function.most <= 40
    assert sum(map(len, function.batches)) == 3000


def test_a_single_record_does_not_wait_for_others(opened: Any) -> None:
    function = Noting()
    harness = open_harness(opened, function, max_batch_size=1000)
    harness.process([4])
    assert harness.drain() == [4]
    assert function.batches == [[4]]


def test_a_call_that_takes_too_long_times_out_for_each_of_its_records(opened: Any) -> None:
    class Never(AsyncBatchFunction):
        async def async_invoke_batch(self, values: list[int]) -> list[list[int]]:
            await asyncio.sleep(3600)
            return []

        def timeout(self, value: int) -> list[int]:
            return [-value]

    harness = open_harness(opened, Never(), ordered=True, timeout_ms=20, capacity=4, max_batch_size=2)
    harness.process([1, 2, 3, 4, 5])
    assert harness.drain() == [-1, -2, -3, -4, -5]


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([[1]], "async_invoke_batch must return one list per record: it returned 1 lists for 2 records"),
        ([[1], None], "The result of AsyncFunction cannot be none"),
        ([[1], 2], "The result of AsyncFunction should be of list type"),
        (None, "TypeError"),
    ],
)
def test_results_must_be_one_list_per_record(opened: Any, results: Any, message: str) -> None:
    class Wrong(AsyncBatchFunction):
        async def async_invoke_batch(self, values: list[int]) -> Any:
            return results

    harness = open_harness(opened, Wrong(), max_batch_size=2)
    harness.process([1, 2])
    with pytest.raises(FunctionError, match=message):
        harness.drain()


def test_an_exception_fails_the_task(opened: Any) -> None:
    class Failing(AsyncBatchFunction):
        async def async_invoke_batch(self, values: list[int]) -> Any:
            raise LookupError("no answers today")

    harness = open_harness(opened, Failing(), max_batch_size=2)
    harness.process([1, 2])
    with pytest.raises(FunctionError, match="LookupError: no answers today"):
        harness.drain()
