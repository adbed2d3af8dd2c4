"""Restores the database of a backend from files in the canonical format, or from the files of databases.

A database with exactly the key groups of the subtask is opened as it is. Otherwise the database with the largest
overlap is opened, its other key groups are deleted, and the missing ones are copied from the other databases.

Source: org.apache.flink.state.rocksdb.restore.{RocksDBFullRestoreOperation,RocksDBIncrementalRestoreOperation}.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import CorruptStateError, StateRestoreError, UnsupportedOperationError
from flinkpy.common.key_groups import KeyGroupRange
from flinkpy.logs.context import in_current_context
from flinkpy.records.key_identity import entry_key, state_keys
from flinkpy.state.aggregate_table import TableLayout
from flinkpy.state.backend import KeyedStateBackendParameters
from flinkpy.state.checkpoint_streams import StateFiles
from flinkpy.state.key_groups_file import (
    UNREADABLE,
    Chunk,
    KeyGroupsHeader,
    check_header,
    read_bytes,
    read_header,
    restored_chunks,
)
from flinkpy.state.meta_info import LIST, MAP, ROWS, TABLE, TIMERS, StateMetaInfo
from flinkpy.state.rocksdb.database import Pair, RocksDatabase
from flinkpy.state.rocksdb.key_codec import StateKeyCodec, classes_by_value
from flinkpy.state.rocksdb.key_codec import encode as encode_key
from flinkpy.state.rocksdb.list_state import CHUNK_NUMBER, encode_chunk
from flinkpy.state.rocksdb.row_journal import encode_entry
from flinkpy.state.rocksdb.row_table import entry_schema
from flinkpy.state.rocksdb.settings import RocksDBSettings
from flinkpy.state.rocksdb.snapshots import IMMUTABLE_FILES, Handles
from flinkpy.state.rocksdb.tables import RowCodec
from flinkpy.state.rocksdb.timer_queue import encode_timers
from flinkpy.state.rocksdb.value_codec import encode, encode_many, freeze
from flinkpy.state.row_table import RowLayout
from flinkpy.state.type_snapshot import TypeDescription

_Incremental = checkpoint_pb2.IncrementalKeyedStateHandle
_U16 = struct.Struct(">H")


_LENGTH = struct.Struct("<I")
#: State numbers have 16 bits.
_MAX_STATES = 0xFFFF


class StateRegistry:
    """The numbers of the states in the database keys, and the descriptions of the states.

    Numbers are assigned in the order in which states are first requested. A native snapshot stores them. After a
    restore with another parallelism a name may occur more than once, with different types, until the operator requests
    the state. Thread: task thread; snapshots copy `states`.

    Attributes:
        states: the descriptions by number, ascending.
        last_chunk: the number of the last chunk of any list (`list_state`).
    """

    def __init__(self) -> None:
        self.last_chunk = 0
        self.states: dict[int, StateMetaInfo] = {}
        self._next_id = 0

    def find(self, name: str, *, timers: bool) -> list[int]:
        """Returns the numbers of the restored or registered states, or of the timer queues, of that name."""
        return [
            state_id for state_id, meta in self.states.items() if meta.name == name and (meta.kind == TIMERS) is timers
        ]

    def register(self, meta: StateMetaInfo) -> int:
        """Assigns a new number to a state and returns it."""
        state_id = self._next_id
        if state_id >= _MAX_STATES:
            raise UnsupportedOperationError(f"state {meta.name!r}: a database has at most {_MAX_STATES} states")
        self._next_id += 1
        self.states[state_id] = meta
        return state_id

    def next_chunk(self) -> int:
        self.last_chunk += 1
        return self.last_chunk

    def number_of(self, meta: StateMetaInfo) -> int:
        """Returns the number of exactly this state. Registers it if it is new."""
        for state_id, known in self.states.items():
            if known == meta:
                return state_id
        return self.register(meta)

    def header(self, max_parallelism: int, key_type: TypeDescription | None) -> KeyGroupsHeader:
        """Returns the header of the canonical format, with the states in the order of `states`."""
        return KeyGroupsHeader(max_parallelism, key_type, tuple(self.states.values()))

    def to_bytes(self, header: KeyGroupsHeader) -> bytes:
        """Returns the `meta` file of a native snapshot: the canonical header, then data for the database."""
        classes = [[*name, base64.b64encode(data).decode()] for name, data in list(classes_by_value.items())]
        data = json.dumps({"numbers": list(self.states), "last_chunk": self.last_chunk, "classes": classes}).encode()
        return header.to_bytes() + _LENGTH.pack(len(data)) + data

    @staticmethod
    def from_file(file: BinaryIO, name: str) -> tuple[StateRegistry, KeyGroupsHeader]:
        """Reads a `meta` file, and registers the classes of its keys in `classes_by_value`.

        Raises: CorruptStateError; StateRestoreError if the file has a newer format.
        """
        header = read_header(file, name)
        try:
            (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
            data = json.loads(read_bytes(file, length))
            registry = StateRegistry()
            registry.states = dict(zip(map(int, data["numbers"]), header.states, strict=True))
            registry._next_id = max(registry.states, default=-1) + 1
            registry.last_chunk = int(data["last_chunk"])
            for module, qualname, pickled in data["classes"]:
                classes_by_value.setdefault((module, qualname), base64.b64decode(pickled))
        except (struct.error, *UNREADABLE) as error:
            raise CorruptStateError(f"{name}: the numbers of the states cannot be read: {error}") from error
        return registry, header


@dataclass(slots=True)
class RestoredDatabase:
    """A restored database.

    Attributes:
        files: the handles of the files with which the database was opened; empty if it was not opened as it is.
    """

    database: RocksDatabase
    registry: StateRegistry
    files: Handles


def restore(parameters: KeyedStateBackendParameters, settings: RocksDBSettings, directory: Path) -> RestoredDatabase:
    """Opens the database of a backend. It is empty if there is nothing to restore.

    Args:
        directory: the directory of the database. It must not exist.

    Raises: StateRestoreError, StateMigrationError, CorruptStateError, CheckpointStorageError, StateBackendError.
    """
    return _Restore(parameters, settings, directory).run()


class _Restore:
    def __init__(self, parameters: KeyedStateBackendParameters, settings: RocksDBSettings, directory: Path) -> None:
        self._parameters = parameters
        self._settings = settings
        self._directory = directory
        self._range = parameters.key_group_range
        self._registry = StateRegistry()
        #: The last number of an entry of rows, and the next id of a row.
        self._row_entry = self._next_row_id = 0

    def run(self) -> RestoredDatabase:
        ours = [handle for handle in self._parameters.restored if _overlap(_range_of(handle), self._range)]
        native = [handle.incremental for handle in ours if handle.HasField("incremental")]
        canonical = [handle.key_groups for handle in ours if handle.HasField("key_groups")]
        base = self._base_of(native)
        files: Handles = {}
        if base is None:
            database = self._open(self._directory)
        else:
            database, self._registry = self._open_native(base, self._directory)
            native.remove(base)
            if _range_of(base) == self._range:
                files = {file.local_name: file.handle for file in base.shared}
        try:
            if base is not None:
                self._drop_others(database, base)
            for number, handle in enumerate(native):
                self._copy_native(
                    database, handle, self._directory.with_name(f"{self._directory.name}-source-{number}")
                )
            for key_groups in canonical:
                self._read_canonical(database, key_groups)
        except BaseException:
            database.release()
            raise
        return RestoredDatabase(database, self._registry, files)

    def _base_of(self, native: list[_Incremental]) -> _Incremental | None:
        """Returns the database to open; None if no overlap reaches the threshold."""
        threshold = self._settings.restore_overlap_threshold

        def overlap(handle: _Incremental) -> int:
            return _overlap(_range(handle.key_groups), self._range)

        fitting = [handle for handle in native if overlap(handle) / len(_range(handle.key_groups)) >= threshold]
        return max(fitting, key=overlap, default=None)

    def _open(self, directory: Path) -> RocksDatabase:
        return RocksDatabase(directory, self._settings.database_options(), self._settings.write_batch_bytes)

    # -- databases -------------------------------------------------------------------------------------------------

    def _open_native(
        self, handle: _Incremental, directory: Path, *, is_only_read: bool = False
    ) -> tuple[RocksDatabase, StateRegistry]:
        """Opens a database with the files of a handle.

        Args:
            is_only_read: the database is a source of records. It checks each block that it reads, so that its files
                need not be read whole before.
        """
        files = self._files
        with files.open(handle.meta) as file:
            registry, header = StateRegistry.from_file(file, handle.meta.path or "inlined native state")
        check_header(self._parameters, header)
        path = directory / "db"
        path.mkdir(parents=True)
        with ThreadPoolExecutor(self._settings.transfer_threads, "rocksdb-download") as executor:
            fetch = in_current_context(files.fetch)
            futures = [
                executor.submit(
                    fetch, file.handle, path / name, never_changes=is_fixed, checks_itself=is_fixed and is_only_read
                )
                for file in (*handle.shared, *handle.private)
                for name in [Path(file.local_name).name]
                for is_fixed in [name.endswith(IMMUTABLE_FILES)]
            ]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                executor.shutdown(wait=True, cancel_futures=True)
                raise
        return self._open(directory), registry

    @property
    def _files(self) -> StateFiles:
        if self._parameters.files is None:
            raise StateRestoreError(
                f"operator {self._parameters.operator_name!r}: there is state to restore, but no reader for its files"
            )
        return self._parameters.files

    def _drop_others(self, database: RocksDatabase, base: _Incremental) -> None:
        """Deletes the key groups that do not belong to the subtask."""
        had, wanted = _range(base.key_groups), self._range
        if had.start < wanted.start:
            database.delete_range(_U16.pack(had.start), _U16.pack(wanted.start))
        if had.end > wanted.end:
            database.delete_range(_U16.pack(wanted.end + 1), _U16.pack(had.end + 1))

    def _copy_native(self, database: RocksDatabase, handle: _Incremental, directory: Path) -> None:
        source, registry = self._open_native(handle, directory, is_only_read=True)
        try:
            self._registry.last_chunk = max(self._registry.last_chunk, registry.last_chunk)
            numbers = {
                _U16.pack(state_id): _U16.pack(self._registry.number_of(meta))
                for state_id, meta in registry.states.items()
            }
            start, end = self._range.start, self._range.end
            pairs = source.scan(_U16.pack(start), _U16.pack(end + 1))
            if any(theirs != ours for theirs, ours in numbers.items()):
                pairs = ((key[:2] + numbers[key[2:4]] + key[4:], value) for key, value in pairs)
            database.put_pairs(pairs)
        finally:
            source.release()

    # -- canonical files -------------------------------------------------------------------------------------------

    def _read_canonical(self, database: RocksDatabase, handle: checkpoint_pb2.KeyGroupsStateHandle) -> None:
        for meta, chunk in restored_chunks(self._parameters, handle):
            database.write(self._entries(self._registry.number_of(meta), meta, chunk))

    def _entries(self, state_id: int, meta: StateMetaInfo, chunk: Chunk) -> Iterator[Pair]:
        codec = StateKeyCodec(state_id, self._parameters.max_parallelism)
        if meta.kind == TABLE:
            yield from self._table_entries(codec, meta, chunk)
            return
        if meta.kind == ROWS:
            yield from self._row_entries(codec, meta, chunk)
            return
        keys, values = chunk.keys_and_values()
        keys = state_keys(list(keys))
        if meta.kind == TIMERS:
            for timer in encode_timers(state_id, self._parameters.max_parallelism, values, keys):
                yield timer, b""
            return
        encoded = codec.encode_many(keys)
        if meta.kind == LIST:
            for key, elements in zip(encoded, values):
                chunk_number = CHUNK_NUMBER.pack(self._registry.next_chunk())
                yield key + chunk_number, encode_chunk([freeze(each) for each in elements])
        elif meta.kind == MAP:
            for key, entries in zip(encoded, values):
                for map_key, value in entries.items():
                    yield key + encode_key(entry_key(map_key)), encode(value)
        else:
            yield from zip(encoded, encode_many(values))

    def _table_entries(self, codec: StateKeyCodec, meta: StateMetaInfo, chunk: Chunk) -> Iterator[Pair]:
        assert meta.table is not None
        layout = TableLayout.from_json(meta.table)
        rows = RowCodec(layout)
        width = len(layout.entry_types)
        for batch in pa.ipc.open_stream(chunk.payload):
            keys = rows.encode_keys(codec, batch.columns[:width], self._parameters.max_parallelism)
            yield from zip(keys, rows.encode_values(batch.columns[width:]))

    def _row_entries(self, codec: StateKeyCodec, meta: StateMetaInfo, chunk: Chunk) -> Iterator[Pair]:
        """Yields one entry per chunk. The ids of its rows follow those of the rows before it."""
        assert meta.table is not None
        schema = entry_schema(RowLayout.from_json(meta.table))
        for batch in pa.ipc.open_stream(chunk.payload):
            self._row_entry += 1
            ids = pa.array(np.arange(self._next_row_id, self._next_row_id + batch.num_rows))
            self._next_row_id += batch.num_rows
            rows = pa.RecordBatch.from_arrays([*batch.columns, ids], schema=schema)
            (key,) = codec.encode_ints(np.array([chunk.key_group]), np.array([self._row_entry]))
            yield key, encode_entry(rows, np.empty(0, dtype=np.int64))


def _range(message: checkpoint_pb2.KeyGroupRangeMessage) -> KeyGroupRange:
    return KeyGroupRange(message.start, message.end)


def _range_of(handle: checkpoint_pb2.KeyedStateHandle | _Incremental) -> KeyGroupRange:
    if isinstance(handle, checkpoint_pb2.KeyedStateHandle):
        return _range((handle.incremental if handle.HasField("incremental") else handle.key_groups).key_groups)
    return _range(handle.key_groups)


def _overlap(one: KeyGroupRange, other: KeyGroupRange) -> int:
    """Returns the number of key groups in both ranges."""
    return max(0, min(one.end, other.end) - max(one.start, other.start) + 1)
