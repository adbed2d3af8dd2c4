"""Accumulators: values that functions collect while a job runs, with one result for the whole job.

Each subtask adds to its own accumulator, and the JobMaster merges those of all subtasks by name. The values of a failed
attempt are dropped.

Source: org.apache.flink.api.common.accumulators. Beyond PyFlink.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections import Counter as Multiset
from typing import Any, Generic, TypeVar

from flinkpy.common.errors import AccumulatorError

__all__ = [
    "Accumulator",
    "AccumulatorFailure",
    "AverageAccumulator",
    "DoubleCounter",
    "DoubleMaximum",
    "DoubleMinimum",
    "Histogram",
    "IntCounter",
    "IntMaximum",
    "IntMinimum",
    "ListAccumulator",
    "LongCounter",
    "LongMaximum",
    "LongMinimum",
]

V = TypeVar("V")
R = TypeVar("R")


class Accumulator(ABC, Generic[V, R]):
    """Collects values and returns one result. A subclass must be picklable.

    Register it with `RuntimeContext.add_accumulator` and read the result from `JobExecutionResult`.

    Invariant: merging is associative and commutative, and merging a new accumulator changes nothing.
    """

    @abstractmethod
    def add(self, value: V) -> None:
        """Adds a value."""

    @abstractmethod
    def get_local_value(self) -> R:
        """Returns the result of all added and merged values."""

    @abstractmethod
    def reset_local(self) -> None:
        """Removes all values."""

    @abstractmethod
    def merge(self, other: Any) -> None:
        """Adds the values of `other`, an accumulator of the same class, which must not change."""

    def clone(self) -> Accumulator[V, R]:
        """Returns a copy."""
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.get_local_value()!r})"


class _Number(Accumulator[Any, Any]):
    """An accumulator of one number."""

    _START: Any = 0

    def __init__(self, value: Any = None) -> None:
        self._value = self._START if value is None else value

    def get_local_value(self) -> Any:
        return self._value

    def reset_local(self) -> None:
        self._value = self._START

    def merge(self, other: _Number) -> None:
        self.add(other._value)


class _Sum(_Number):
    def add(self, value: Any) -> None:
        self._value += value


class _Maximum(_Number):
    def add(self, value: Any) -> None:
        if value > self._value:
            self._value = value


class _Minimum(_Number):
    def add(self, value: Any) -> None:
        if value < self._value:
            self._value = value


class IntCounter(_Sum):
    """A sum of integers of any size."""


class LongCounter(_Sum):
    """A sum of integers of any size, like `IntCounter`."""


class DoubleCounter(_Sum):
    _START = 0.0


class IntMaximum(_Maximum):
    _START = -(1 << 31)


class IntMinimum(_Minimum):
    _START = (1 << 31) - 1


class LongMaximum(_Maximum):
    _START = -(1 << 63)


class LongMinimum(_Minimum):
    _START = (1 << 63) - 1


class DoubleMaximum(_Maximum):
    _START = float("-inf")


class DoubleMinimum(_Minimum):
    _START = float("inf")


class AverageAccumulator(Accumulator[Any, float]):
    """The mean of the values; 0.0 if there are none."""

    def __init__(self) -> None:
        self._count = 0
        self._sum: Any = 0

    def add(self, value: Any) -> None:
        self._count += 1
        self._sum += value

    def get_local_value(self) -> float:
        return self._sum / self._count if self._count else 0.0

    def reset_local(self) -> None:
        self._count, self._sum = 0, 0

    def merge(self, other: AverageAccumulator) -> None:
        self._count += other._count
        self._sum += other._sum


class Histogram(Accumulator[Any, dict[Any, int]]):
    """The count of each value, in ascending order of the values."""

    def __init__(self) -> None:
        self._counts: Multiset[Any] = Multiset()

    def add(self, value: Any) -> None:
        self._counts[value] += 1

    def get_local_value(self) -> dict[Any, int]:
        return dict(sorted(self._counts.items()))

    def reset_local(self) -> None:
        self._counts.clear()

    def merge(self, other: Histogram) -> None:
        self._counts.update(other._counts)


class ListAccumulator(Accumulator[Any, list[Any]]):
    """A list of all values, in the order of the subtasks."""

    def __init__(self) -> None:
        self._values: list[Any] = []

    def add(self, value: Any) -> None:
        self._values.append(value)

    def get_local_value(self) -> list[Any]:
        return list(self._values)

    def reset_local(self) -> None:
        self._values.clear()

    def merge(self, other: ListAccumulator) -> None:
        self._values.extend(other._values)


class AccumulatorFailure:
    """Replaces an accumulator, or its result, that could not be pickled, merged or computed; reading it raises `error`.

    Source: org.apache.flink.util.OptionalFailure, FailedAccumulator.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason

    def error(self) -> AccumulatorError:
        return AccumulatorError(f"accumulator {self.name!r}: {self.reason}", details={"accumulator": self.name})

    def __repr__(self) -> str:
        return f"AccumulatorFailure({self.name!r}, {self.reason!r})"
