"""HeapKeyedStateBackend: keyed state in Python dicts (`state.backend.type: hashmap`).

Source: org.apache.flink.runtime.state.heap.HeapKeyedStateBackend.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flinkpy._proto import checkpoint_pb2
from flinkpy.state.aggregate_table import AggregateTable, FrozenTable, HeapAggregateTable, TableLayout
from flinkpy.state.backend import KeyedStateBackend, KeyedStateBackendParameters
from flinkpy.state.group_table import GroupMap, GroupTable
from flinkpy.state.heap_snapshot import ChunkSize, FrozenEntries, FrozenState, FrozenTimers, HeapSnapshot
from flinkpy.state.heap_states import (
    HeapAggregatingState,
    HeapListState,
    HeapMapState,
    HeapReducingState,
    HeapState,
    HeapValueState,
)
from flinkpy.state.key_context import KeyContext
from flinkpy.state.meta_info import (
    AGGREGATING,
    LIST,
    MAP,
    REDUCING,
    ROWS,
    TABLE,
    TIMERS,
    VALUE,
    StateMetaInfo,
    element_conversion,
    layout_conversion,
)
from flinkpy.state.pane_table import PaneTable
from flinkpy.state.row_table import RestoredRows, RowLayout, RowTable
from flinkpy.state.session_table import SessionTable
from flinkpy.state.timer_queue import HeapTimerQueue
from flinkpy.state.ttl import TtlState
from flinkpy.state.type_snapshot import PICKLED, describe_type
from flinkpy.state.window_table import WindowTable

if TYPE_CHECKING:
    from flinkpy.state.aggregate_table import AggregateColumn
from dataclasses import dataclass, field

from flinkpy.common.errors import StateRestoreError
from flinkpy.records.key_identity import entry_key, state_keys
from flinkpy.state.key_groups_file import Chunk, restored_chunks


@dataclass(slots=True, eq=False)
class RestoredState:
    """A restored state, or the part of it that was written with one type.

    Attributes:
        entries: key to value, for all kinds of state except timers and tables.
        keys: the keys of the timers.
        times: the times of the timers, in ms.
        batches: a table's Arrow IPC streams, each with its number of rows.
    """

    meta: StateMetaInfo
    entries: dict[Any, Any] = field(default_factory=dict)
    keys: list[Any] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    batches: list[tuple[int, bytes]] = field(default_factory=list)

    def add(self, chunk: Chunk) -> None:
        kind = self.meta.kind
        if kind in (TABLE, ROWS):
            self.batches.append((chunk.num_entries, chunk.payload))
            return
        keys, values = chunk.keys_and_values()
        keys = state_keys(list(keys))
        if kind == TIMERS:
            self.keys.extend(keys)
            self.times.extend(values)
        elif kind in (LIST, MAP):
            if kind == MAP:
                values = [{entry_key(key): value for key, value in entries.items()} for entries in values]
            self._merge(keys, values)
        else:
            self.entries.update(zip(keys, values))

    def _merge(self, keys: list[Any], values: list[Any]) -> None:
        """Joins the parts of lists and dicts. A long one is stored in several parts."""
        entries = self.entries
        is_list = self.meta.kind == LIST
        for key, value in zip(keys, values):
            known = entries.get(key)
            if known is None:
                entries[key] = value
            elif is_list:
                known.extend(value)
            else:
                known.update(value)


def read_restored(parameters: KeyedStateBackendParameters) -> list[RestoredState]:
    """Reads all state of the subtask's key groups. A state is returned once per type with which it was written.

    Raises: see `restored_chunks`.
    """
    states: list[RestoredState] = []
    for handle in parameters.restored:
        if not handle.HasField("key_groups"):
            raise StateRestoreError(
                f"operator {parameters.operator_name!r}: its state was written in the native format of the backend "
                "'rocksdb'; restore it with state.backend.type: rocksdb, or from a canonical savepoint"
            )
        for meta, chunk in restored_chunks(parameters, handle.key_groups):
            state = next((known for known in states if known.meta == meta), None)
            if state is None:
                state = RestoredState(meta)
                states.append(state)
            state.add(chunk)
    return states


class HeapKeyedStateBackend(KeyedStateBackend):
    """Keeps state in Python dicts, and values as the user's objects.

    A function that changes a value it read from the state changes the state. Restored state stays in RestoredState
    objects until the operator requests it.
    """

    def __init__(self, parameters: KeyedStateBackendParameters) -> None:
        super().__init__(parameters)
        self._heap_states: dict[str, tuple[StateMetaInfo, HeapState]] = {}
        self._heap_queues: dict[str, tuple[StateMetaInfo, HeapTimerQueue]] = {}
        self._heap_tables: dict[
            str, tuple[StateMetaInfo, HeapAggregateTable | WindowTable | GroupTable | GroupMap | RowTable]
        ] = {}
        #: Restored state that the operator has not requested.
        self._restored: list[RestoredState] = read_restored(parameters)
        #: Guards the counter, and the dicts of states and queues: snapshots are released on other threads.
        self._lock = threading.Lock()
        self._running_snapshots = 0

    # -- states ----------------------------------------------------------------------------------------------------

    def create_state(self, kind: str, meta: StateMetaInfo, descriptor: Any) -> HeapState:
        state = self._new_state(kind, descriptor, self._claim(kind, meta, descriptor))
        with self._lock:
            self._heap_states[meta.name] = (meta, state)
            if self._running_snapshots:
                state.freeze()
        return state

    def _new_state(self, kind: str, descriptor: Any, table: dict[Any, Any]) -> HeapState:
        context = self.context_of(descriptor)
        if kind == VALUE:
            return HeapValueState(context, table)
        if kind == LIST:
            return HeapListState(context, table)
        if kind == MAP:
            return HeapMapState(context, table)
        if kind == REDUCING:
            return HeapReducingState(context, descriptor.get_reduce_function().reduce, table)
        assert kind == AGGREGATING, kind
        return HeapAggregatingState(context, descriptor.get_agg_function(), table)

    def _claim(self, layout: str, meta: StateMetaInfo, descriptor: Any) -> dict[Any, Any]:
        """Takes the restored entries of the state, converted to its current type."""
        restored = [state for state in self._restored if state.meta.name == meta.name and state.meta.kind != TIMERS]
        operator_name, now_ms = self.parameters.operator_name, self.parameters.clock.now_ms
        conversions = [
            layout_conversion(layout, element_conversion(state.meta, meta, descriptor, operator_name, now_ms))
            for state in restored
        ]
        entries: dict[Any, Any] = {}
        for state, convert in zip(restored, conversions):
            self._restored.remove(state)
            if convert is not None:
                # A running snapshot may hold the old dict, so this makes a new one.
                state.entries = {key: convert(value) for key, value in state.entries.items()}
            if entries:
                entries.update(state.entries)
            else:
                entries = state.entries
        return entries

    def create_timer_queue(self, name: str) -> HeapTimerQueue:
        queue = HeapTimerQueue()
        for state in [state for state in self._restored if state.meta.name == name and state.meta.kind == TIMERS]:
            self._restored.remove(state)
            queue.add_all(state.keys, state.times)
        with self._lock:
            self._heap_queues[name] = (StateMetaInfo(name, TIMERS, PICKLED), queue)
            if self._running_snapshots:
                queue.freeze()
        return queue

    def create_aggregate_table(
        self, name: str, key_types: Sequence[pa.DataType], aggregates: Sequence[AggregateColumn]
    ) -> AggregateTable:
        layout = TableLayout(tuple(key_types), tuple(aggregates))
        table = HeapAggregateTable(layout)
        self._restore_table(name, layout, table)
        return table

    def create_pane_table(self, name: str, layout: TableLayout) -> PaneTable:
        table = PaneTable(layout)
        self._restore_table(name, layout, table)
        return table

    def create_session_table(self, name: str, layout: TableLayout) -> SessionTable:
        table = SessionTable(layout)
        self._restore_table(name, layout, table)
        return table

    def create_group_table(self, name: str, layout: TableLayout) -> GroupTable:
        table = GroupTable(layout)
        self._restore_table(name, layout, table)
        return table

    def create_group_map(self, name: str, table: GroupTable, layout: TableLayout) -> GroupMap:
        entries = GroupMap(table, layout)
        self._restore_table(name, layout, entries)
        return entries

    def create_row_table(self, name: str, layout: RowLayout) -> RowTable:
        table = RowTable(layout, self.parameters.clock.now_ms)
        self._restore_table(name, layout, table)
        return table

    def _restore_table(
        self,
        name: str,
        layout: TableLayout | RowLayout,
        table: HeapAggregateTable | WindowTable | GroupTable | GroupMap | RowTable,
    ) -> None:
        for state in [state for state in self._restored if state.meta.name == name and state.meta.kind != TIMERS]:
            layout.check_restored(state.meta, self.parameters.operator_name)
            self._restored.remove(state)
            for _, data in state.batches:
                table.restore(data)
        self._heap_tables[name] = (layout.meta_info(name), table)

    def table(self, state_name: str) -> dict[Any, Any]:
        """Returns the dict of a state, from key to value. It is not a copy."""
        return self._heap_states[state_name][1].table

    def keys(self, state_name: str) -> Iterable[Any]:
        return list(self.table(state_name))

    def forget_keys(self) -> None:
        """Drops the values of all keys. In batch mode a key does not come again once its records are processed."""
        for _, state in self._heap_states.values():
            state.table.clear()

    def num_entries(self) -> int:
        return (
            sum(len(state.table) for _, state in self._heap_states.values())
            + sum(len(queue) for _, queue in self._heap_queues.values())
            + sum(table.size for _, table in self._heap_tables.values())
            + sum(len(state.entries) + len(state.keys) for state in self._restored)
            + sum(rows for state in self._restored for rows, _ in state.batches)
        )

    def cleaner_of(self, meta: StateMetaInfo, state: TtlState, context: KeyContext) -> Callable[[Iterable[Any]], int]:
        """See the base class. Works on the table directly, because the default configuration runs it all the time."""
        ttl = self.time_to_live[meta.name]
        kind = meta.kind
        table = self.table(meta.name)
        get = table.get

        def clean(keys: Iterable[Any]) -> int:
            now_ms = oldest = ttl.now_ms()
            for key in keys:
                stored = get(key)
                left = None if stored is None else ttl.unexpired(kind, stored, now_ms)
                if left is not None:
                    oldest = min(oldest, *(stamp for _, stamp in (left if kind == LIST else left.values())))
                    if left is not stored:
                        table[key] = left
                elif stored is not None:
                    del table[key]
            return oldest

        def clean_values(keys: Iterable[Any]) -> int:
            oldest = ttl.now_ms()
            alive_after = oldest - ttl.ttl_ms
            for key in keys:
                stored = get(key)
                if stored is not None:
                    if stored[1] <= alive_after:
                        del table[key]
                    elif stored[1] < oldest:
                        oldest = stored[1]
            return oldest

        return clean if kind in (LIST, MAP) else clean_values

    # -- snapshots -------------------------------------------------------------------------------------------------

    def snapshot(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> HeapSnapshot:
        chunks = ChunkSize()
        with self._lock:
            self._running_snapshots += 1
            frozen: list[FrozenState] = [
                FrozenEntries(meta, *state.freeze(), chunks, self._unexpired(meta))
                for meta, state in self._heap_states.values()
            ]
            frozen += [FrozenTimers(meta, *queue.freeze(), chunks) for meta, queue in self._heap_queues.values()]
        frozen += [table.freeze(meta) for meta, table in self._heap_tables.values()]
        frozen += [self._freeze_restored(state, chunks) for state in self._restored]
        key_type = self.parameters.key_type
        return HeapSnapshot(
            self.parameters.operator_name,
            None if key_type is None else describe_type(key_type),
            self.max_parallelism,
            self.key_group_range,
            frozen,
            self._on_release,
        )

    def _unexpired(self, meta: StateMetaInfo) -> Callable[[Any], Any] | None:
        """Returns a function that removes expired values, if the snapshots of the state leave them out."""
        ttl = self.time_to_live.get(meta.name)
        if ttl is None or not ttl.cleans_snapshots:
            return None
        return partial(ttl.unexpired, meta.kind, now_ms=ttl.now_ms())

    def _freeze_restored(self, state: RestoredState, chunks: ChunkSize) -> FrozenState:
        """Freezes restored state that was not requested. It never changes, so this needs no copy on write."""
        if state.meta.kind == TABLE:
            return FrozenTable.of_batches(state.meta, state.batches)
        if state.meta.kind == ROWS:
            return RestoredRows(state.meta, state.batches.copy())
        if state.meta.kind == TIMERS:
            return FrozenEntries(state.meta, state.keys.copy(), state.times.copy(), chunks)
        return FrozenEntries(state.meta, list(state.entries), list(state.entries.values()), chunks)

    def _on_release(self) -> None:
        """Called when a snapshot has been written or abandoned. Thread: any."""
        with self._lock:
            self._running_snapshots -= 1
            if not self._running_snapshots:
                for _, state in self._heap_states.values():
                    state.thaw()
                for _, queue in self._heap_queues.values():
                    queue.thaw()

    def close(self) -> None:
        with self._lock:
            # The dicts of the states are not cleared, because a snapshot may be reading their values.
            self._heap_states.clear()
            self._heap_queues.clear()
        self._heap_tables.clear()
        self._restored.clear()
        self._states.clear()
        self._timer_queues.clear()
        self._tables.clear()
        self._window_tables.clear()
        self._group_tables.clear()
        self._row_tables.clear()
