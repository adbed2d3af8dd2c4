"""KeyedStateBackend: the interface between keyed operators and whatever holds their state.

Per-key face: an operator sets `key_context.key` before each record, which is one attribute store; the state objects it
was given read it. A backend is owned by one operator of one subtask, and holds the keys of that subtask's key groups.
The key group of a key is not looked at per record: the exchange has already brought each key to its owner, and a
snapshot computes the groups of all keys in one vectorised pass.

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
from flinkpy.state.aggregate_table import TableLayout
from flinkpy.state.checkpoint_streams import StateFiles
from flinkpy.state.key_context import KeyContext
from flinkpy.state.meta_info import AGGREGATING, LIST, MAP, REDUCING, VALUE, StateMetaInfo, ttl_config_of
from flinkpy.state.snapshot import StateSnapshot
from flinkpy.state.timer_queue import TimerQueue
from flinkpy.state.ttl import IncrementalCleanup, TimeToLive
from flinkpy.state.ttl_states import TtlState, clean_keys, create_ttl_state

__all__ = ["KeyContext", "KeyedStateBackend", "KeyedStateBackendParameters"]

if TYPE_CHECKING:
    from flinkpy.state.aggregate_table import AggregateColumn, AggregateTable
    from flinkpy.state.pane_table import PaneTable
    from flinkpy.state.session_table import SessionTable
    from flinkpy.state.window_table import WindowTable


@dataclass(frozen=True, slots=True)
class KeyedStateBackendParameters:
    """What a backend is made from.

    Attributes:
        configuration: of the job, with the cluster's beneath.
        key_type: TypeInformation of the keys, or None: any Python objects.
        operator_name: for messages.
        restored: of earlier subtasks of this operator; only key groups in `key_group_range` are taken from them.
        files: reads them. directory: for files of the backend's own; exists and is empty.
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


class KeyedStateBackend(ABC):
    """Thread: task thread. Asking twice for the same name gives the same state; for another kind of it is an error.

    A subclass restores `parameters.restored` in its constructor, or when a state is asked for; in any case state that
    nobody asks for is kept and part of every snapshot.

    Attributes:
        key_context: shared with the operator, which sets the key.
        key_group_range: the key groups whose keys may appear.
    """

    #: Whether expired values are looked for a few keys at a time. A backend that scans on its own says no.
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
        #: Of the states that have one, by name. There before `create_state` is called.
        self.time_to_live: dict[str, TimeToLive] = {}
        self._cleanups: list[IncrementalCleanup] = []

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
        """The timers of that name; those of the restored key groups are in it. Names of queues are their own."""
        queue = self._timer_queues.get(name)
        if queue is None:
            queue = self._timer_queues[name] = self.create_timer_queue(name)
        return queue

    # -- per batch -------------------------------------------------------------------------------------------------

    def aggregate_table(
        self, name: str, key_types: Sequence[pa.DataType], aggregates: Sequence[AggregateColumn]
    ) -> AggregateTable:
        """Key columns -> slots -> accumulators; what was restored is in it.

        Raises: StateMigrationError (the columns are other ones).
        """
        self._check_is_free(name, "table")
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = self.create_aggregate_table(name, key_types, aggregates)
        return table

    def pane_table(
        self, name: str, key_types: Sequence[pa.DataType], aggregates: Sequence[AggregateColumn]
    ) -> PaneTable:
        """Key columns and panes -> slots -> accumulators; what was restored is in it.

        Raises: StateMigrationError (the columns are other ones).
        """
        return self._window_table(name, TableLayout(tuple(key_types), tuple(aggregates), 1), self.create_pane_table)

    def session_table(
        self, name: str, key_types: Sequence[pa.DataType], aggregates: Sequence[AggregateColumn]
    ) -> SessionTable:
        """Key columns and spans of time -> slots -> accumulators; what was restored is in it.

        Raises: StateMigrationError (the columns are other ones).
        """
        return self._window_table(name, TableLayout(tuple(key_types), tuple(aggregates), 2), self.create_session_table)

    def _window_table(self, name: str, layout: TableLayout, create: Callable[[str, TableLayout], Any]) -> Any:
        self._check_is_free(name, "table")
        table = self._window_tables.get(name)
        if table is None:
            table = self._window_tables[name] = create(name, layout)
        return table

    def clean_up_expired(self, num_records: int) -> None:
        """After each batch: for states whose configuration has them cleaned up for every record."""
        for cleanup in self._cleanups:
            cleanup.run(num_records)

    # -- snapshots -------------------------------------------------------------------------------------------------

    @abstractmethod
    def snapshot(
        self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions
    ) -> StateSnapshot[checkpoint_pb2.KeyedStateHandle]:
        """Freeze the state as it is now. Several snapshots may be under way."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Its files stay until it is subsumed."""
        return

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Its files must not be relied on."""
        return

    # -- what a subclass provides ----------------------------------------------------------------------------------

    @abstractmethod
    def create_state(self, kind: str, meta: StateMetaInfo, descriptor: Any) -> Any:
        """A new state object with what was restored of `meta.name` in it.

        Args:
            kind: how it is laid out: value, list, map, reducing or aggregating. That is `meta.kind`, but where the
                state has a time-to-live a reducing or aggregating state is asked for as a value.
            meta: what to write down about it. With `has_ttl` every value, element or map value given to the state
                is a tuple `(value, time in ms)`.

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
    def keys(self, state_name: str) -> Iterable[Any]:
        """The keys that have something in that state, in no particular order."""

    @abstractmethod
    def num_entries(self) -> int:
        """Keys over all states."""

    def close(self) -> None:
        """Release everything; called once. Snapshots that are being written are written to their end."""
        return

    # --------------------------------------------------------------------------------------------------------------

    @property
    def state_names(self) -> list[str]:
        return list(self._states)

    def _state(self, kind: str, descriptor: Any) -> Any:
        name = descriptor.get_name()
        self._check_is_free(name, kind)
        known = self._states.get(name)
        if known is None:
            known = self._states[name] = (kind, self._create(kind, descriptor))
        return known[1]

    def _check_is_free(self, name: str, kind: str) -> None:
        is_table = name in self._tables or name in self._window_tables
        known = "table" if is_table else self._states[name][0] if name in self._states else kind
        if known != kind:
            raise UnsupportedOperationError(f"state {name!r} is a {known} state already, not a {kind} state")

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
        """Where the state looks for its key: a descriptor of a built-in operator may have a `key_context` of its own,
        for state under a NamespacedKey.
        """
        return getattr(descriptor, "key_context", None) or self.key_context

    def cleaner_of(self, meta: StateMetaInfo, state: TtlState, context: KeyContext) -> Callable[[Iterable[Any]], int]:
        """What removes what has expired of some keys, and returns a time stamp that no other of them is older than."""
        return partial(clean_keys, state, context)
