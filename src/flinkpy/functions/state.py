"""States, their descriptors, and StateTtlConfig, the time to live of their values.

The backends in `flinkpy.state` implement the interfaces. Source: pyflink.datastream.state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from flinkpy.common.time import Time
from flinkpy.common.typeinfo import TypeInformation

if TYPE_CHECKING:
    from flinkpy.functions.stream_functions import AggregateFunction, ReduceFunction


class StateTtlConfig:
    """The time to live of a state's values. Immutable.

    Example:
        ```
        descriptor = ValueStateDescriptor("session", Types.STRING())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write().build())
        ```
    """

    class UpdateType(Enum):
        """The accesses that renew the life of a value."""

        Disabled = 0
        OnCreateAndWrite = 1
        OnReadAndWrite = 2

    class StateVisibility(Enum):
        """Tells if an expired value may be read until it is removed."""

        ReturnExpiredIfNotCleanedUp = 0
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(Enum):
        """The time by which values expire."""

        ProcessingTime = 0

    class CleanupStrategies:
        """The ways in which expired values are removed, apart from on access."""

        class Strategies(Enum):
            FULL_STATE_SCAN_SNAPSHOT = 0
            INCREMENTAL_CLEANUP = 1
            ROCKSDB_COMPACTION_FILTER = 2

        class CleanupStrategy:
            """The base of the strategies."""

        class EmptyCleanupStrategy(CleanupStrategy):
            """A strategy without parameters."""

        class IncrementalCleanupStrategy(CleanupStrategy):
            """Checks `cleanup_size` entries on every state access and, if configured, for every record."""

            def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
                self._cleanup_size = cleanup_size
                self._run_cleanup_for_every_record = run_cleanup_for_every_record

            def get_cleanup_size(self) -> int:
                return self._cleanup_size

            def run_cleanup_for_every_record(self) -> bool:
                return self._run_cleanup_for_every_record

        class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
            """Drops expired entries when RocksDB compacts its files."""

            def __init__(self, query_time_after_num_entries: int, periodic_compaction_time: Time | None = None) -> None:
                self._query_time_after_num_entries = query_time_after_num_entries
                self._periodic_compaction_time = periodic_compaction_time

            def get_query_time_after_num_entries(self) -> int:
                return self._query_time_after_num_entries

            def get_periodic_compaction_time(self) -> Time | None:
                return self._periodic_compaction_time

        EMPTY_STRATEGY = EmptyCleanupStrategy()

        def __init__(
            self,
            strategies: dict[StateTtlConfig.CleanupStrategies.Strategies, CleanupStrategy],
            is_cleanup_in_background: bool,
        ) -> None:
            self._strategies = dict(strategies)
            self._is_cleanup_in_background = is_cleanup_in_background

        def is_cleanup_in_background(self) -> bool:
            return self._is_cleanup_in_background

        def in_full_snapshot(self) -> bool:
            return self.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

        def get_incremental_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy | None:
            default = self.IncrementalCleanupStrategy(5, False) if self._is_cleanup_in_background else None
            return self._strategies.get(self.Strategies.INCREMENTAL_CLEANUP, default)  # type: ignore[return-value]

        def get_rocksdb_compact_filter_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.RocksdbCompactFilterCleanupStrategy | None:
            default = (
                self.RocksdbCompactFilterCleanupStrategy(1000, Time.days(30))
                if self._is_cleanup_in_background
                else None
            )
            return self._strategies.get(self.Strategies.ROCKSDB_COMPACTION_FILTER, default)  # type: ignore[return-value]

    def __init__(
        self,
        update_type: UpdateType,
        state_visibility: StateVisibility,
        ttl_time_characteristic: TtlTimeCharacteristic,
        ttl: Time,
        cleanup_strategies: StateTtlConfig.CleanupStrategies,
    ) -> None:
        if ttl.to_milliseconds() <= 0:
            raise ValueError("TTL is expected to be positive.")
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = ttl
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: Time) -> StateTtlConfig.Builder:
        """Returns a builder for values that live for `ttl` after the last access that renews them."""
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> StateTtlConfig.UpdateType:
        return self._update_type

    def get_state_visibility(self) -> StateTtlConfig.StateVisibility:
        return self._state_visibility

    def get_ttl(self) -> Time:
        return self._ttl

    def get_ttl_time_characteristic(self) -> StateTtlConfig.TtlTimeCharacteristic:
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        return self._update_type is not StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> StateTtlConfig.CleanupStrategies:
        return self._cleanup_strategies

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig<updateType={self._update_type}, stateVisibility={self._state_visibility}, "
            f"ttlTimeCharacteristic={self._ttl_time_characteristic}, ttl={self._ttl}>"
        )

    class Builder:
        """Builds a StateTtlConfig. By default writes renew a value, and expired values are never returned."""

        def __init__(self, ttl: Time) -> None:
            self._ttl = ttl
            self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
            self._state_visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
            self._ttl_time_characteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            self._is_cleanup_in_background = True
            self._strategies: dict[
                StateTtlConfig.CleanupStrategies.Strategies, StateTtlConfig.CleanupStrategies.CleanupStrategy
            ] = {}

        def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> StateTtlConfig.Builder:
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: StateTtlConfig.StateVisibility) -> StateTtlConfig.Builder:
            self._state_visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> StateTtlConfig.Builder:
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
        ) -> StateTtlConfig.Builder:
            self._ttl_time_characteristic = ttl_time_characteristic
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            kinds = StateTtlConfig.CleanupStrategies
            self._strategies[kinds.Strategies.FULL_STATE_SCAN_SNAPSHOT] = kinds.EMPTY_STRATEGY
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool
        ) -> StateTtlConfig.Builder:
            kinds = StateTtlConfig.CleanupStrategies
            strategy = kinds.IncrementalCleanupStrategy(cleanup_size, run_cleanup_for_every_record)
            self._strategies[kinds.Strategies.INCREMENTAL_CLEANUP] = strategy
            return self

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int, periodic_compaction_time: Time | None = None
        ) -> StateTtlConfig.Builder:
            kinds = StateTtlConfig.CleanupStrategies
            period = Time.days(30) if periodic_compaction_time is None else periodic_compaction_time
            strategy = kinds.RocksdbCompactFilterCleanupStrategy(query_time_after_num_entries, period)
            self._strategies[kinds.Strategies.ROCKSDB_COMPACTION_FILTER] = strategy
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            self._is_cleanup_in_background = False
            return self

        def set_ttl(self, ttl: Time) -> StateTtlConfig.Builder:
            self._ttl = ttl
            return self

        def build(self) -> StateTtlConfig:
            return StateTtlConfig(
                self._update_type,
                self._state_visibility,
                self._ttl_time_characteristic,
                self._ttl,
                StateTtlConfig.CleanupStrategies(self._strategies, self._is_cleanup_in_background),
            )


T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class OperatorStateStore(ABC):
    """Access to operator state, which belongs to a subtask instead of a key."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState:
        """Returns a broadcast state, whose entries are the same in every subtask."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState:
        """Returns a list of this subtask. A restore distributes all elements among the subtasks. Beyond PyFlink."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState:
        """Returns a list of this subtask. A restore gives all elements to every subtask. Beyond PyFlink."""


class State(ABC):
    """The base of all kinds of state. Keyed state belongs to the key of the record that is being processed."""

    @abstractmethod
    def clear(self) -> None:
        """Removes the value of the current key."""


class ValueState(State, Generic[T]):
    """State with one value per key.

    Example:
        ```
        class Count(MapFunction):
            def open(self, runtime_context):
                self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

            def map(self, value):
                count = (self.count.value() or 0) + 1
                self.count.update(count)
                return value, count
        ```
    """

    @abstractmethod
    def value(self) -> T:
        """Returns the value of the current key; None if it has none."""

    @abstractmethod
    def update(self, value: T) -> None:
        """Replaces the value of the current key. None removes it."""


class AppendingState(State, Generic[IN, OUT]):
    """State to which elements are added."""

    @abstractmethod
    def get(self) -> OUT:
        """Returns the content of the current key."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Adds an element to the current key."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state that can be merged with another, which session windows require."""


class ReducingState(MergingState[T, T]):
    """State that a ReduceFunction reduces to one value per key."""


class AggregatingState(MergingState[IN, OUT]):
    """State that an AggregateFunction aggregates: it keeps one accumulator per key."""


class ListState(MergingState[T, Iterable[T]]):
    """State with a list per key."""

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replaces the list of the current key."""

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Appends the values to the list of the current key."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class MapState(State, Generic[K, V]):
    """State with a map per key. It also supports `state[key]`, `del state[key]`, `key in state` and `for`."""

    @abstractmethod
    def get(self, key: K) -> V:
        """Returns the value of an entry; None if there is none."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Adds or replaces an entry."""

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Adds or replaces entries."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Removes an entry. It does nothing if there is none."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Returns True if there is such an entry."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Returns all entries as pairs of key and value."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Returns the keys of all entries."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Returns the values of all entries."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Returns True if there are no entries."""

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
    """A map of which every subtask has the same copy, for the side that may only read it."""

    @abstractmethod
    def get(self, key: K) -> V:
        """Returns the value of an entry; None if there is none."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Returns True if there is such an entry."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Returns all entries as pairs of key and value."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Returns the keys of all entries."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Returns the values of all entries."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Returns True if there are no entries."""

    def __getitem__(self, key: K) -> V:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class BroadcastState(ReadOnlyBroadcastState[K, V]):
    """A map of which every subtask has the same copy, for the side that receives the broadcast records."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Adds or replaces an entry."""

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Adds or replaces entries."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Removes an entry. It does nothing if there is none."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class StateDescriptor(ABC):  # noqa: B024  only its subclasses are made
    """The name and the type of a state. A function that asks twice for the same name gets the same state.

    Args:
        name: the name of the state, unique in the operator. A restored job finds the state by it.
        type_info: the type of the values.
    """

    def __init__(self, name: str, type_info: TypeInformation) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"a state's name must be a non-empty string, not {name!r}")
        self.name = name
        self.type_info = type_info
        self._ttl_config: StateTtlConfig | None = None
        #: Changes of the fields since the checkpoint that the values are restored from. Beyond PyFlink.
        self.renamed_fields: dict[str, str] = {}
        self.field_defaults: dict[str, Any] = {}

    def with_renamed_fields(self, renamed: dict[str, str]) -> Self:
        """Declares that fields of a ROW_NAMED type have new names, so that restored values keep their content.

        Args:
            renamed: the new name of each field by its old name. A field of a nested row has a path, as in
                `{"address.zip": "address.postcode"}`. Entries of earlier versions of the program may stay.

        Returns:
            this descriptor.

        Raises:
            ValueError: a new name would move the field to another row.
        """
        for old, new in renamed.items():
            if old.rpartition(".")[0] != new.rpartition(".")[0]:
                raise ValueError(f"renaming field {old!r} to {new!r} would move it to another row")
        self.renamed_fields = dict(renamed)
        return self

    def with_field_defaults(self, defaults: dict[str, Any]) -> Self:
        """Sets the values of new fields in restored values that lack them. Without a default they are None."""
        self.field_defaults = dict(defaults)
        return self

    def get_name(self) -> str:
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Lets the values of this state expire.

        Args:
            ttl_config: how long values live and how expired values are removed.
        """
        self._ttl_config = ttl_config

    @property
    def ttl_config(self) -> StateTtlConfig | None:
        return self._ttl_config


class ValueStateDescriptor(StateDescriptor):
    """The name and the type of a ValueState, for `RuntimeContext.get_state`."""

    def __init__(self, name: str, value_type_info: TypeInformation) -> None:
        super().__init__(name, _checked(value_type_info))


class ListStateDescriptor(StateDescriptor):
    """The name and the element type of a ListState, for `RuntimeContext.get_list_state`."""

    def __init__(self, name: str, elem_type_info: TypeInformation) -> None:
        super().__init__(name, _checked(elem_type_info))

    @property
    def element_type(self) -> TypeInformation:
        return self.type_info


class MapStateDescriptor(StateDescriptor):
    """The name, the key type and the value type of a MapState or a broadcast state."""

    def __init__(self, name: str, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        from flinkpy.common.typeinfo import MapTypeInfo

        super().__init__(name, MapTypeInfo(_checked(key_type_info), _checked(value_type_info)))
        self.key_type = key_type_info
        self.value_type = value_type_info


class ReducingStateDescriptor(StateDescriptor):
    """The name, the function and the type of a ReducingState.

    Args:
        reduce_function: a ReduceFunction, or a function of two values.
        type_info: the type of the values.
    """

    def __init__(
        self,
        name: str,
        reduce_function: ReduceFunction | Callable[[Any, Any], Any],
        type_info: TypeInformation,
    ) -> None:
        from flinkpy.functions.stream_functions import ReduceFunction, ReduceFunctionWrapper

        super().__init__(name, _checked(type_info))
        if not isinstance(reduce_function, ReduceFunction):
            if not callable(reduce_function):
                raise TypeError("The input must be a ReduceFunction or a callable function!")
            reduce_function = ReduceFunctionWrapper(reduce_function)
        self._reduce_function = reduce_function

    def get_reduce_function(self) -> ReduceFunction:
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """The name, the function and the type of an AggregatingState.

    Args:
        agg_function: the function of the accumulator.
        state_type_info: the type of the accumulator.
    """

    def __init__(self, name: str, agg_function: AggregateFunction, state_type_info: TypeInformation) -> None:
        from flinkpy.functions.stream_functions import AggregateFunction

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
