"""ListView and MapView: collections in the accumulators of aggregate functions.

Source: pyflink.table.data_view.
Differs: they are part of the accumulator in state, and not states of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

__all__ = ["DataView", "ListView", "MapView"]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class DataView(ABC):
    """A collection that may be large."""

    @abstractmethod
    def clear(self) -> None:
        """Removes all elements."""


class ListView(DataView, Generic[T]):
    """A list."""

    def __init__(self) -> None:
        self._list: list[T] = []

    def get(self) -> Iterable[T]:
        """Returns the elements in the order in which they were added."""
        return self._list

    def add(self, value: T) -> None:
        self._list.append(value)

    def add_all(self, values: list[T]) -> None:
        self._list.extend(values)

    def clear(self) -> None:
        self._list = []

    def __iter__(self) -> Iterator[T]:
        return iter(self._list)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, ListView) and self._list == other._list

    def __hash__(self) -> int:
        return hash(tuple(self._list))


class MapView(DataView, Generic[K, V]):
    """A map."""

    def __init__(self) -> None:
        self._dict: dict[K, V] = {}

    def get(self, key: K) -> V:
        """Returns the value of a key. Raises: KeyError if there is none."""
        return self._dict[key]

    def put(self, key: K, value: V) -> None:
        self._dict[key] = value

    def put_all(self, dict_value: dict[K, V]) -> None:
        self._dict.update(dict_value)

    def remove(self, key: K) -> None:
        """Removes a key. Raises: KeyError if it is not there."""
        del self._dict[key]

    def contains(self, key: K) -> bool:
        return key in self._dict

    def items(self) -> Iterable[tuple[K, V]]:
        return self._dict.items()

    def keys(self) -> Iterable[K]:
        return self._dict.keys()

    def values(self) -> Iterable[V]:
        return self._dict.values()

    def is_empty(self) -> bool:
        return not self._dict

    def clear(self) -> None:
        self._dict = {}

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, MapView) and self._dict == other._dict

    def __hash__(self) -> int:
        return hash(tuple(self._dict.items()))

    def __getitem__(self, key: K) -> V:
        return self.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Any:
        return iter(self.keys())
