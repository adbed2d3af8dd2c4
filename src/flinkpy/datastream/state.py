"""State as user functions see it: the kinds of state, and the descriptors that ask for them.

Source: pyflink.datastream.state. The backends in `flinkpy.state` implement the interfaces.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from flinkpy.common.typeinfo import TypeInformation
from flinkpy.datastream.state_ttl import StateTtlConfig

if TYPE_CHECKING:
    from flinkpy.datastream.functions import AggregateFunction, ReduceFunction

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "OperatorStateStore",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class OperatorStateStore(ABC):
    """State of a whole subtask instead of a key."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState:
        """The same entries in every subtask."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState:
        """Elements of this subtask; a restore deals all elements out among the subtasks. Beyond PyFlink."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState:
        """Elements of this subtask; a restore gives all elements to every subtask. Beyond PyFlink."""


class State(ABC):
    """Belongs to the key of the record being processed."""

    @abstractmethod
    def clear(self) -> None:
        """Remove this key's value."""


class ValueState(State, Generic[T]):
    """One value per key."""

    @abstractmethod
    def value(self) -> T:
        """The value, or None where the key has none."""

    @abstractmethod
    def update(self, value: T) -> None:
        """Replace the value; None removes it."""


class AppendingState(State, Generic[IN, OUT]):
    """State that elements are added to."""

    @abstractmethod
    def get(self) -> OUT: ...

    @abstractmethod
    def add(self, value: IN) -> None: ...


class MergingState(AppendingState[IN, OUT]):
    """Appending state of which two can be merged, as session windows need."""


class ReducingState(MergingState[T, T]):
    """All added values reduced to one."""


class AggregatingState(MergingState[IN, OUT]):
    """All added values aggregated into an accumulator."""


class ListState(MergingState[T, Iterable[T]]):
    """A list per key."""

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replace the list."""

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Append the values."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class MapState(State, Generic[K, V]):
    """A dict per key."""

    @abstractmethod
    def get(self, key: K) -> V:
        """The value of this entry, or None."""

    @abstractmethod
    def put(self, key: K, value: V) -> None: ...

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None: ...

    @abstractmethod
    def remove(self, key: K) -> None: ...

    @abstractmethod
    def contains(self, key: K) -> bool: ...

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]: ...

    @abstractmethod
    def keys(self) -> Iterable[K]: ...

    @abstractmethod
    def values(self) -> Iterable[V]: ...

    @abstractmethod
    def is_empty(self) -> bool: ...

    def __getitem__(self, key: K) -> V:
        return self.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class ReadOnlyBroadcastState(State, Generic[K, V]):
    """A dict that every subtask has the same copy of."""

    @abstractmethod
    def get(self, key: K) -> V: ...

    @abstractmethod
    def contains(self, key: K) -> bool: ...

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]: ...

    @abstractmethod
    def keys(self) -> Iterable[K]: ...

    @abstractmethod
    def values(self) -> Iterable[V]: ...

    @abstractmethod
    def is_empty(self) -> bool: ...

    def __getitem__(self, key: K) -> V:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class BroadcastState(ReadOnlyBroadcastState[K, V]):
    """The same, for the side that receives the broadcast elements."""

    @abstractmethod
    def put(self, key: K, value: V) -> None: ...

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None: ...

    @abstractmethod
    def remove(self, key: K) -> None: ...

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class StateDescriptor(ABC):  # noqa: B024  only its subclasses are made
    """Name and type of a state. A function that asks twice for the same name gets the same state."""

    def __init__(self, name: str, type_info: TypeInformation) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"a state's name must be a non-empty string, not {name!r}")
        self.name = name
        self.type_info = type_info
        self._ttl_config: StateTtlConfig | None = None
        #: For values restored from a checkpoint that have other fields. Beyond PyFlink.
        self.renamed_fields: dict[str, str] = {}
        self.field_defaults: dict[str, Any] = {}

    def with_renamed_fields(self, renamed: dict[str, str]) -> Self:
        """Old to new name of fields of a ROW_NAMED type, for values written before: they keep their content.

        A field of a row inside another is named with the way to it: `{"address.zip": "address.postcode"}`. Renamings of
        earlier versions may stay.
        """
        for old, new in renamed.items():
            if old.rpartition(".")[0] != new.rpartition(".")[0]:
                raise ValueError(f"renaming field {old!r} to {new!r} would move it to another row")
        self.renamed_fields = dict(renamed)
        return self

    def with_field_defaults(self, defaults: dict[str, Any]) -> Self:
        """What fields that were added since are in values written before; without a default they are None."""
        self.field_defaults = dict(defaults)
        return self

    def get_name(self) -> str:
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let values expire."""
        self._ttl_config = ttl_config

    @property
    def ttl_config(self) -> StateTtlConfig | None:
        return self._ttl_config


class ValueStateDescriptor(StateDescriptor):
    def __init__(self, name: str, value_type_info: TypeInformation) -> None:
        super().__init__(name, _checked(value_type_info))


class ListStateDescriptor(StateDescriptor):
    def __init__(self, name: str, elem_type_info: TypeInformation) -> None:
        super().__init__(name, _checked(elem_type_info))

    @property
    def element_type(self) -> TypeInformation:
        return self.type_info


class MapStateDescriptor(StateDescriptor):
    def __init__(self, name: str, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        from flinkpy.common.typeinfo import MapTypeInfo

        super().__init__(name, MapTypeInfo(_checked(key_type_info), _checked(value_type_info)))
        self.key_type = key_type_info
        self.value_type = value_type_info


class ReducingStateDescriptor(StateDescriptor):
    """`reduce_function`: a ReduceFunction or a callable of two values."""

    def __init__(
        self,
        name: str,
        reduce_function: ReduceFunction | Callable[[Any, Any], Any],
        type_info: TypeInformation,
    ) -> None:
        from flinkpy.datastream.functions import ReduceFunction, ReduceFunctionWrapper

        super().__init__(name, _checked(type_info))
        if not isinstance(reduce_function, ReduceFunction):
            if not callable(reduce_function):
                raise TypeError("The input must be a ReduceFunction or a callable function!")
            reduce_function = ReduceFunctionWrapper(reduce_function)
        self._reduce_function = reduce_function

    def get_reduce_function(self) -> ReduceFunction:
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """`state_type_info` is the type of the accumulator."""

    def __init__(self, name: str, agg_function: AggregateFunction, state_type_info: TypeInformation) -> None:
        from flinkpy.datastream.functions import AggregateFunction

        super().__init__(name, _checked(state_type_info))
        if not isinstance(agg_function, AggregateFunction):
            raise TypeError("The input must be an AggregateFunction!")
        self._agg_function = agg_function

    def get_agg_function(self) -> AggregateFunction:
        return self._agg_function


def _checked(type_info: Any) -> TypeInformation:
    if not isinstance(type_info, TypeInformation):
        raise TypeError(f"a state's type must be a TypeInformation, not {type_info!r}")
    return type_info
