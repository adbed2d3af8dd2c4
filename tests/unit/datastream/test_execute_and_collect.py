"""`execute_and_collect` returns a CloseableIterator, or a list if a limit is given, for every kind of stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import get_overloads

import pytest

from flinkpy.common import Configuration
from flinkpy.datastream import DataStream, KeyedStream, OutputTag, StreamExecutionEnvironment
from flinkpy.datastream.collected_results import CloseableIterator


class FakeResults(Iterator[int]):
    """Results of a job with three records."""

    def __init__(self) -> None:
        self._records = iter([1, 2, 3])
        self.is_closed = False

    def __next__(self) -> int:
        return next(self._records)

    def close(self) -> None:
        self.is_closed = True


class FakeEnvironment(StreamExecutionEnvironment):
    """Builds programs, and gives results without running anything."""

    def collect(self, stream: DataStream, job_name: str | None) -> FakeResults:
        self.results = FakeResults()
        return self.results


STREAMS: dict[str, Callable[[DataStream], DataStream]] = {
    "source": lambda numbers: numbers,
    "operator": lambda numbers: numbers.map(str),
    "partitioned": lambda numbers: numbers.rebalance(),
    "union": lambda numbers: numbers.union(numbers),
    "keyed": lambda numbers: numbers.key_by(str),
    "window": lambda numbers: numbers.key_by(str).count_window(2).reduce(max),
    "side output": lambda numbers: numbers.map(str).get_side_output(OutputTag("late")),
    "cached": lambda numbers: numbers.map(str).cache(),
}


@pytest.mark.parametrize("name", STREAMS)
def test_type_depends_on_the_limit_alone(name: str) -> None:
    env = FakeEnvironment(Configuration())
    stream = STREAMS[name](env.from_sequence(1, 3))

    without_limit = stream.execute_and_collect()
    assert type(without_limit) is CloseableIterator
    assert list(without_limit) == [1, 2, 3] and not env.results.is_closed
    assert type(stream.execute_and_collect("job")) is CloseableIterator

    with_limit = stream.execute_and_collect(limit=2)
    assert type(with_limit) is list
    assert with_limit == [1, 2] and env.results.is_closed
    assert stream.execute_and_collect("job", 9) == [1, 2, 3] and env.results.is_closed


@pytest.mark.parametrize("kind", [DataStream, KeyedStream])
def test_type_checkers_infer_the_return_type(kind: type[DataStream]) -> None:
    returned = [
        (overload.__annotations__["limit"], overload.__annotations__["return"])
        for overload in get_overloads(kind.execute_and_collect)
    ]
    assert returned == [("None", "CloseableIterator"), ("int", "list[Any]"), ("int", "list[Any]")]
