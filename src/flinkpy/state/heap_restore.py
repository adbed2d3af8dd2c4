"""What a heap backend was restored with, until its states are asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flinkpy.common.errors import StateRestoreError
from flinkpy.records.key_identity import entry_key, state_keys
from flinkpy.state.backend import KeyedStateBackendParameters
from flinkpy.state.key_groups_file import Chunk
from flinkpy.state.key_groups_restore import restored_chunks
from flinkpy.state.meta_info import LIST, MAP, TABLE, TIMERS, StateMetaInfo


@dataclass(slots=True, eq=False)
class RestoredState:
    """One state as it was written with one type.

    Attributes:
        entries: key to value; of every kind but the following.
        keys, times: of timers.
        batches: Arrow IPC streams, of tables, with the number of rows in each.
    """

    meta: StateMetaInfo
    entries: dict[Any, Any] = field(default_factory=dict)
    keys: list[Any] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    batches: list[tuple[int, bytes]] = field(default_factory=list)

    def add(self, chunk: Chunk) -> None:
        kind = self.meta.kind
        if kind == TABLE:
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
        """A long list or dict comes in several parts."""
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
    """Everything of the subtask's key groups, each (name, kind) once per type it was written with.

    Raises: as `key_groups_restore.restored_chunks`.
    """
    states: list[RestoredState] = []
    for handle in parameters.restored:
        if not handle.HasField("key_groups"):
            raise StateRestoreError(
                f"operator {parameters.operator_name!r}: its state was written by the backend 'rocksdb' in its own "
                "format; restore it with state.backend.type: rocksdb, or from a canonical savepoint"
            )
        for meta, chunk in restored_chunks(parameters, handle.key_groups):
            state = next((known for known in states if known.meta == meta), None)
            if state is None:
                state = RestoredState(meta)
                states.append(state)
            state.add(chunk)
    return states
