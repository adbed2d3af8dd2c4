"""Accumulators: what functions add up while a job runs, one result for the whole job.

Each subtask adds to its own; the JobMaster merges those of all subtasks by name. What a failed attempt has added is
dropped with it.

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
    """Takes values and gives one result. Subclasses of users are pickled: as plain as they can be.

    Invariant: merging is associative and commutative, and merging a fresh one changes nothing.
    """

    @abstractmethod
    def add(self, value: V) -> None: ...

    @abstractmethod
    def get_local_value(self) -> R:
        """The result of what was added here; after merging, of everything."""

    @abstractmethod
    def reset_local(self) -> None:
        """As if nothing had been added."""

    @abstractmethod
    def merge(self, other: Any) -> None:
        """Take over what `other`, of the same class, has; `other` must not change."""

    def clone(self) -> Accumulator[V, R]:
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.get_local_value()!r})"


class _Number(Accumulator[Any, Any]):
    """One number, and how two become one."""

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
    """A sum of integers; not bounded, as Python's are not."""


class LongCounter(_Sum):
    """As `IntCounter`."""


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
    """The mean of the values; 0.0 where there were none."""

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
    """How often each value was added, by value in ascending order."""

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
    """All values, in the order of their subtasks."""

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
    """In the place of an accumulator, or of its result, that could not be pickled, merged or computed: who asks for it
    is told. Source: org.apache.flink.util.OptionalFailure, FailedAccumulator."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason

    def error(self) -> AccumulatorError:
        return AccumulatorError(f"accumulator {self.name!r}: {self.reason}", details={"accumulator": self.name})

    def __repr__(self) -> str:
        return f"AccumulatorFailure({self.name!r}, {self.reason!r})"
