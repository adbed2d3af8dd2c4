"""KeyedStateBackend: the interface between keyed operators and the store of their state.

An operator sets `key_context.key` before each record, which costs one attribute store. The state objects of the
operator read the key from there. Each operator of each subtask owns a backend, which holds the keys of the subtask's
key groups. A backend does not compute the key group of each record's key: the exchange has already sent the record to
the owner of its key. A snapshot computes the key groups of all keys in one vectorised pass.

Source: org.apache.flink.runtime.state.KeyedStateBackend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.key_groups import KeyGroupRange
from flinkpy.state.access_tracking import LatencyTracking, SizeTracking
from flinkpy.state.aggregate_table import TableLayout
from flinkpy.state.checkpoint_streams import StateFiles, StateSnapshot
from flinkpy.state.key_context import KeyContext
from flinkpy.state.meta_info import AGGREGATING, LIST, MAP, REDUCING, VALUE, StateMetaInfo, ttl_config_of
from flinkpy.state.timer_queue import TimerQueue
from flinkpy.state.ttl import IncrementalCleanup, TimeToLive, TtlState, clean_keys, create_ttl_state

__all__ = ["KeyContext", "KeyedStateBackend", "KeyedStateBackendParameters"]

if TYPE_CHECKING:
    from flinkpy.metrics.metric_registry import NamedMetricGroup
    from flinkpy.state.aggregate_table import AggregateColumn, AggregateTable
    from flinkpy.state.group_table import GroupMap, GroupTable
    from flinkpy.state.pane_table import PaneTable
    from flinkpy.state.row_table import RowLayout, RowTable
    from flinkpy.state.session_table import SessionTable
    from flinkpy.state.window_table import WindowTable


@dataclass(frozen=True, slots=True)
class KeyedStateBackendParameters:
    """The parameters of a backend's constructor.

    Attributes:
        configuration: the configuration of the job; the configuration of the cluster supplies the other values.
        key_type: the TypeInformation of the keys; None if keys may be any Python objects.
        operator_name: used in messages.
        restored: state of previous subtasks of this operator. The backend takes only the key groups in
            `key_group_range` from it.
        files: reads the files of `restored`.
        directory: an existing, empty directory for the files of the backend.
        metrics: the metrics of the operator; None: the backend reports none.
    """

    configuration: Any
    key_context: KeyContext
    key_group_range: KeyGroupRange
    max_parallelism: int
    key_type: Any = None
    operator_name: str = ""
    restored: tuple[checkpoint_pb2.KeyedStateHandle, ...] = ()
    files: StateFiles | None = None
    directory: Path | None = None
    clock: Clock = field(default_factory=SystemClock)
    metrics: NamedMetricGroup | None = None


class KeyedStateBackend(ABC):
    """The keyed state of one operator in one subtask. Thread: task thread.

    Two requests with the same name return the same state. A second request for another kind of state raises
    UnsupportedOperationError.

    A subclass restores `parameters.restored` in its constructor or when the operator requests a state. It keeps
    restored state that the operator never requests, and writes it into every snapshot.

    Attributes:
        key_context: holds the current key. The operator sets it.
        key_group_range: the key groups of the subtask. All keys belong to them.
    """

    #: True if IncrementalCleanup looks for expired values, a few keys at a time. False for a backend that scans its
    #: state itself.
    cleans_incrementally = True

    def __init__(self, parameters: KeyedStateBackendParameters) -> None:
        self.parameters = parameters
        self.key_context = parameters.key_context
        self.key_group_range = parameters.key_group_range
        self.max_parallelism = parameters.max_parallelism
        self._states: dict[str, tuple[str, Any]] = {}
        self._timer_queues: dict[str, TimerQueue] = {}
        self._tables: dict[str, AggregateTable] = {}
        self._window_tables: dict[str, WindowTable] = {}
        self._group_tables: dict[str, GroupTable | GroupMap] = {}
        self._row_tables: dict[str, RowTable] = {}
        #: The time-to-live of each state that has one, by name. An entry is set before `create_state` is called.
        self.time_to_live: dict[str, TimeToLive] = {}
        self._cleanups: list[IncrementalCleanup] = []
        self._latency_tracking = LatencyTracking.of(parameters.configuration, parameters.metrics, parameters.clock)
        self._size_tracking = SizeTracking.of(parameters.configuration, parameters.metrics)

    # -- per key ---------------------------------------------------------------------------------------------------

    def value_state(self, descriptor: Any) -> Any:
        return self._state(VALUE, descriptor)

    def list_state(self, descriptor: Any) -> Any:
        return self._state(LIST, descriptor)

    def map_state(self, descriptor: Any) -> Any:
        return self._state(MAP, descriptor)

    def reducing_state(self, descriptor: Any) -> Any:
        return self._state(REDUCING, descriptor)

    def aggregating_state(self, descriptor: Any) -> Any:
        return self._state(AGGREGATING, descriptor)

    def timer_queue(self, name: str) -> TimerQueue:
        """Returns the timer queue of that name, with its restored timers.

        A queue and a state may have the same name.
        """
        queue = self._timer_queues.get(name)
        if queue is None:
            queue = self._timer_queues[name] = self.create_timer_queue(name)
        return queue

    # -- per batch -------------------------------------------------------------------------------------------------

    def aggregate_table(
        self, name: str, key_types: Sequence[pa.DataType], aggregates: Sequence[AggregateColumn]
    ) -> AggregateTable:
        """Returns the table that maps key columns to slots of accumulators, with its restored entries.

        Raises: StateMigrationError if the table was stored with other columns.
        """
        self._check_is_free(name, "table")
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = self.create_aggregate_table(name, key_types, aggregates)
        return table

    def pane_table(
        self, name: str, key_types: Sequence[pa.DataType], aggregates: Sequence[AggregateColumn]
    ) -> PaneTable:
        """Returns the table that maps key columns and panes to slots of accumulators, with its restored entries.

        Raises: StateMigrationError if the table was stored with other columns.
        """
        return self._window_table(name, TableLayout(tuple(key_types), tuple(aggregates), 1), self.create_pane_table)

    def session_table(
        self, name: str, key_types: Sequence[pa.DataType], aggregates: Sequence[AggregateColumn]
    ) -> SessionTable:
        """Returns the table that maps key columns and time spans to slots of accumulators, with its restored entries.

        Raises: StateMigrationError if the table was stored with other columns.
        """
        return self._window_table(name, TableLayout(tuple(key_types), tuple(aggregates), 2), self.create_session_table)

    def group_table(
        self, name: str, key_types: Sequence[pa.DataType], aggregates: Sequence[AggregateColumn]
    ) -> GroupTable:
        """Returns the table that maps key columns to accumulators of SQL, with its restored entries.

        Raises: StateMigrationError if the table was stored with other columns.
        """
        return self._group_table(
            name, lambda: self.create_group_table(name, TableLayout(tuple(key_types), tuple(aggregates)))
        )

    def group_map(
        self, name: str, table: GroupTable, map_types: Sequence[pa.DataType], aggregates: Sequence[AggregateColumn]
    ) -> GroupMap:
        """Returns a map that belongs to a GroupTable of this backend, with its restored entries.

        Raises: StateMigrationError if the map was stored with other columns.
        """
        layout = TableLayout(table.layout.key_types, tuple(aggregates), 0, tuple(map_types))
        return self._group_table(name, lambda: self.create_group_map(name, table, layout))

    def _group_table(self, name: str, create: Callable[[], Any]) -> Any:
        self._check_is_free(name, "table")
        table = self._group_tables.get(name)
        if table is None:
            table = self._group_tables[name] = create()
        return table

    def row_table(self, name: str, layout: RowLayout) -> RowTable:
        """Returns the table of rows by key, with its restored rows.

        Raises: StateMigrationError if the rows were stored with other columns.
        """
        self._check_is_free(name, "table of rows")
        table = self._row_tables.get(name)
        if table is None:
            table = self._row_tables[name] = self.create_row_table(name, layout)
        return table

    def _window_table(self, name: str, layout: TableLayout, create: Callable[[str, TableLayout], Any]) -> Any:
        self._check_is_free(name, "table")
        table = self._window_tables.get(name)
        if table is None:
            table = self._window_tables[name] = create(name, layout)
        return table

    def clean_up_expired(self, num_records: int) -> None:
        """Removes expired values from states that are configured to run the clean-up for every record.

        Called after each batch.
        """
        for cleanup in self._cleanups:
            cleanup.run(num_records)
        for table in self._row_tables.values():
            table.after_batch(num_records)

    # -- memory ----------------------------------------------------------------------------------------------------

    @property
    def reported_bytes(self) -> int:
        """The size of the state in memory, as far as it is known: that of the columns of row tables. Thread: any."""
        return sum(table.size_bytes for table in list(self._row_tables.values()))

    def release_memory(self) -> None:
        """Writes what is only in memory to files, if the backend has files."""
        return

    # -- snapshots -------------------------------------------------------------------------------------------------

    @abstractmethod
    def snapshot(
        self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions
    ) -> StateSnapshot[checkpoint_pb2.KeyedStateHandle]:
        """Freezes the current state. Several snapshots may run at the same time."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Called when the checkpoint is complete. Its files stay until a later checkpoint subsumes it."""
        return

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Called when the checkpoint is aborted. Later snapshots must not reuse its files."""
        return

    # -- implemented by subclasses ----------------------------------------------------------------------------------

    @abstractmethod
    def create_state(self, kind: str, meta: StateMetaInfo, descriptor: Any) -> Any:
        """Creates a state object with the restored entries of the state `meta.name`.

        Args:
            kind: the layout of the state: value, list, map, reducing or aggregating. It is `meta.kind`, except that a
                reducing or aggregating state with a time-to-live is created as a value state.
            meta: the description of the state to store in snapshots. With `has_ttl` each value, element or map value
                given to the state is a tuple `(value, time in ms)`.

        Raises: StateRestoreError, StateMigrationError.
        """

    @abstractmethod
    def create_timer_queue(self, name: str) -> TimerQueue: ...

    @abstractmethod
    def create_aggregate_table(
        self, name: str, key_types: Sequence[pa.DataType], aggregates: Sequence[AggregateColumn]
    ) -> AggregateTable: ...

    @abstractmethod
    def create_pane_table(self, name: str, layout: TableLayout) -> PaneTable: ...

    @abstractmethod
    def create_session_table(self, name: str, layout: TableLayout) -> SessionTable: ...

    @abstractmethod
    def create_group_table(self, name: str, layout: TableLayout) -> GroupTable: ...

    @abstractmethod
    def create_group_map(self, name: str, table: GroupTable, layout: TableLayout) -> GroupMap: ...

    @abstractmethod
    def create_row_table(self, name: str, layout: RowLayout) -> RowTable: ...

    @abstractmethod
    def keys(self, state_name: str) -> Iterable[Any]:
        """Returns the keys that have an entry in that state, in no particular order."""

    @abstractmethod
    def num_entries(self) -> int:
        """Returns the number of keys, summed over all states."""

    def close(self) -> None:
        """Releases all resources. Called once. Running snapshots are still written to their end."""
        return

    # --------------------------------------------------------------------------------------------------------------

    def _state(self, kind: str, descriptor: Any) -> Any:
        name = descriptor.get_name()
        self._check_is_free(name, kind)
        known = self._states.get(name)
        if known is None:
            state = self._create(kind, descriptor)
            if self._latency_tracking is not None:
                state = self._latency_tracking.track(kind, name, state)
            if self._size_tracking is not None:
                ttl = self.time_to_live.get(name)
                stamp = None if ttl is None else ttl.stamp
                state = self._size_tracking.track(kind, name, state, self.context_of(descriptor), stamp)
            known = self._states[name] = (kind, state)
        return known[1]

    def _check_is_free(self, name: str, kind: str) -> None:
        if name in self._tables or name in self._window_tables or name in self._group_tables:
            known = "table"
        elif name in self._row_tables:
            known = "table of rows"
        elif name in self._states:
            known = self._states[name][0]
        else:
            known = kind
        if known != kind:
            raise UnsupportedOperationError(
                f"state {name!r} is already a {known} state; it cannot be requested as a {kind} state"
            )

    def _create(self, kind: str, descriptor: Any) -> Any:
        meta = StateMetaInfo.of(kind, descriptor)
        config = ttl_config_of(descriptor)
        if config is None:
            return self.create_state(kind, meta, descriptor)
        ttl = TimeToLive(config, self.parameters.clock.now_ms)
        self.time_to_live[meta.name] = ttl
        raw = self.create_state(VALUE if kind in (REDUCING, AGGREGATING) else kind, meta, descriptor)
        state = create_ttl_state(kind, raw, ttl, descriptor)
        if ttl.incremental is not None and self.cleans_incrementally:
            size, for_every_record = ttl.incremental
            cleaner = self.cleaner_of(meta, state, self.context_of(descriptor))
            cleanup = IncrementalCleanup(ttl, size, partial(self.keys, meta.name), cleaner)
            state.on_access = cleanup.on_access
            if for_every_record:
                self._cleanups.append(cleanup)
        return state

    def context_of(self, descriptor: Any) -> KeyContext:
        """Returns the context from which the state reads the current key.

        A descriptor of a built-in operator may have its own `key_context`, for state under a NamespacedKey.
        """
        return getattr(descriptor, "key_context", None) or self.key_context

    def cleaner_of(self, meta: StateMetaInfo, state: TtlState, context: KeyContext) -> Callable[[Iterable[Any]], int]:
        """Returns a function that removes the expired values of some keys.

        The function returns a lower bound for the time stamps of the values that are left.
        """
        return partial(clean_keys, state, context)
