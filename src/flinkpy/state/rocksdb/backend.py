"""RocksDBKeyedStateBackend: keyed state on local disk (`state.backend.type: rocksdb`).

Source: org.apache.flink.state.rocksdb.RocksDBKeyedStateBackend.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import uuid
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import StateBackendError
from flinkpy.state.aggregate_table import AggregateTable, TableLayout
from flinkpy.state.backend import KeyedStateBackend, KeyedStateBackendParameters
from flinkpy.state.checkpoint_streams import StateSnapshot
from flinkpy.state.group_table import GroupMap, GroupTable
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
    ttl_config_of,
)
from flinkpy.state.pane_table import PaneTable
from flinkpy.state.rocksdb.cached_state import CachedState
from flinkpy.state.rocksdb.entry_store import RocksDBEntryStore, table_batches
from flinkpy.state.rocksdb.key_codec import PREFIX, StateKeyCodec, after_prefix, decode_state_key
from flinkpy.state.rocksdb.key_codec import decode as decode_key
from flinkpy.state.rocksdb.list_state import RocksDBListState, decode_chunk, encode_chunk
from flinkpy.state.rocksdb.map_state import RocksDBMapState
from flinkpy.state.rocksdb.native_metrics import register_native_metrics
from flinkpy.state.rocksdb.restore import restore
from flinkpy.state.rocksdb.row_journal import read_rows
from flinkpy.state.rocksdb.row_table import RocksDBRowTable, entry_schema
from flinkpy.state.rocksdb.settings import BLOB_GC_START, BLOB_GC_STOP, RocksDBSettings
from flinkpy.state.rocksdb.single_states import RocksDBAggregatingState, RocksDBReducingState, RocksDBValueState
from flinkpy.state.rocksdb.snapshots import CanonicalSnapshot, Handles, NativeSnapshot
from flinkpy.state.rocksdb.tables import (
    RocksDBAggregateTable,
    RowCodec,
)
from flinkpy.state.rocksdb.timer_queue import RocksDBTimerQueue
from flinkpy.state.rocksdb.value_codec import decode, encode, freeze
from flinkpy.state.rocksdb.window_tables import RocksDBPaneTable, RocksDBSessionTable
from flinkpy.state.row_table import RowLayout, RowTable
from flinkpy.state.session_table import SessionTable
from flinkpy.state.type_snapshot import PICKLED, Conversion, describe_type

if TYPE_CHECKING:
    from flinkpy.state.aggregate_table import AggregateColumn
from collections.abc import Callable

from flinkpy.state.key_context import KeyContext
from flinkpy.state.rocksdb.database import RocksDatabase

_SAVEPOINTS = (
    checkpoint_pb2.SAVEPOINT,
    checkpoint_pb2.SYNC_SAVEPOINT_SUSPEND,
    checkpoint_pb2.SYNC_SAVEPOINT_TERMINATE,
)


_ACCESSES_PER_KEY = 10


class ExpiredStateSweep:
    """Removes expired values of a state, a few keys at a time, while the state is used. Thread: task thread.

    `on_access` is called at each access to the state. Rocksdict has no compaction filters, which Flink uses, so the
    task thread checks the keys in rounds, one key per `_ACCESSES_PER_KEY` accesses.

    Source: org.apache.flink.state.rocksdb.ttl.RocksDbTtlCompactFiltersManager.

    Args:
        state_id: the number of the state in the database.
        clean: removes the expired values of the current key.
        accesses_per_step: the number of accesses between two steps.
    """

    def __init__(
        self,
        database: RocksDatabase,
        state_id: int,
        key_groups: range,
        context: KeyContext,
        clean: Callable[[], None],
        accesses_per_step: int,
    ) -> None:
        self._database = database
        self._state_id = state_id
        self._key_groups = key_groups
        self._context = context
        self._clean = clean
        self._accesses_per_step = accesses_per_step
        self._accesses = 0
        self._keys = self._round()

    def on_access(self) -> None:
        self._accesses += 1
        if self._accesses >= self._accesses_per_step:
            self._accesses = 0
            self._step(max(1, self._accesses_per_step // _ACCESSES_PER_KEY))

    def _step(self, size: int) -> None:
        """Checks `size` keys. After the last key of the state, the next step begins a new round."""
        context = self._context
        current = context.key
        try:
            for _ in range(size):
                key = next(self._keys, self)
                if key is self:
                    self._keys = self._round()
                    return
                context.key = key
                self._clean()
        finally:
            context.key = current

    def _round(self) -> Iterator[Any]:
        """Yields each key in the database. Seeks each key, because an iterator would pin files for a round."""
        for key_group in self._key_groups:
            prefix = PREFIX.pack(key_group, self._state_id)
            begin: bytes | None = prefix
            end = after_prefix(prefix)
            while begin is not None:
                pair = next(self._database.scan(begin, end), None)
                if pair is None:
                    break
                key, stop = decode_state_key(pair[0], PREFIX.size)
                begin = after_prefix(pair[0][:stop])
                yield key


class RocksDBKeyedStateBackend(KeyedStateBackend):
    """Keeps state in a RocksDB database.

    A value is stored when it is given to the state. A later change of the object does not change the state.

    Raises: see `restore.restore`. UnsupportedOperationError if rocksdict is not installed.
    """

    #: Rounds over all keys would read the whole database again and again.
    cleans_incrementally = False

    def __init__(self, parameters: KeyedStateBackendParameters) -> None:
        super().__init__(parameters)
        self._settings = RocksDBSettings.read(parameters.configuration)
        self._backend_id = str(uuid.uuid4())
        self._directory = self._create_directory()
        try:
            restored = restore(parameters, self._settings, self._directory / "state")
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise
        self._database = restored.database
        if parameters.metrics is not None:
            register_native_metrics(self._database, parameters.configuration, parameters.metrics)
        self._registry = restored.registry
        self._caches: dict[str, CachedState] = {}
        self._queues: dict[str, RocksDBTimerQueue] = {}
        self._rocksdb_tables: dict[
            str,
            RocksDBAggregateTable | RocksDBPaneTable | RocksDBSessionTable | GroupTable | GroupMap | RocksDBRowTable,
        ] = {}
        self._collects_blobs = False
        #: Guards `_uploaded` and `_unconfirmed`, which snapshots change from their own threads.
        self._lock = threading.Lock()
        #: The files of the last checkpoint that is known to be complete.
        self._uploaded: Handles = restored.files
        #: The files of checkpoints that are written but not known to be complete, by checkpoint id.
        self._unconfirmed: dict[int, Handles] = {}

    def _create_directory(self) -> Path:
        parents = self._settings.local_directories
        name = f"rocksdb-{self._backend_id}"
        if not parents and self.parameters.directory is None:
            return Path(tempfile.mkdtemp(prefix="flinkpy-rocksdb-"))
        if parents:
            # Distributes the operators over the directories, which are usually on different disks.
            parent = Path(parents[zlib.crc32(self._backend_id.encode()) % len(parents)])
        else:
            parent = self.parameters.directory or Path()
        directory = parent / name
        try:
            directory.mkdir(parents=True, mode=0o700)
        except OSError as error:
            raise StateBackendError(f"cannot create the directory {directory}: {error.strerror or error}") from error
        return directory

    # -- states ----------------------------------------------------------------------------------------------------

    def create_state(self, kind: str, meta: StateMetaInfo, descriptor: Any) -> Any:
        codec = StateKeyCodec(self._claim(meta, descriptor), self.max_parallelism)
        state = self._new_state(kind, descriptor, codec)
        self._caches[meta.name] = state
        return state

    def _new_state(self, kind: str, descriptor: Any, codec: StateKeyCodec) -> CachedState:
        common = (self.context_of(descriptor), self._database, codec, self._settings.write_batch_bytes)
        if kind == VALUE:
            return RocksDBValueState(*common)
        if kind == LIST:
            return RocksDBListState(*common, self._registry.next_chunk)
        if kind == MAP:
            return RocksDBMapState(*common)
        if kind == REDUCING:
            return RocksDBReducingState(*common, descriptor.get_reduce_function().reduce)
        assert kind == AGGREGATING, kind
        return RocksDBAggregatingState(*common, descriptor.get_agg_function())

    def _create(self, kind: str, descriptor: Any) -> Any:
        state = super()._create(kind, descriptor)
        config = ttl_config_of(descriptor)
        if config is not None:
            strategy = config.get_cleanup_strategies().get_rocksdb_compact_filter_cleanup_strategy()
            if strategy is not None:
                (state_id,) = self._registry.find(descriptor.get_name(), timers=False)
                sweep = ExpiredStateSweep(
                    self._database,
                    state_id,
                    self._key_groups,
                    self.context_of(descriptor),
                    state.clean,
                    max(1, strategy.get_query_time_after_num_entries()),
                )
                state.on_access = sweep.on_access
        return state

    def _claim(self, meta: StateMetaInfo, descriptor: Any) -> int:
        """Returns the number of the state. Converts its restored entries to the current type."""
        operator_name, now_ms = self.parameters.operator_name, self.parameters.clock.now_ms
        stored = self._registry.find(meta.name, timers=False)
        conversions = [
            element_conversion(self._registry.states[state_id], meta, descriptor, operator_name, now_ms)
            for state_id in stored
        ]
        if not stored:
            return self._registry.register(meta)
        target = stored[0]
        for state_id, convert in zip(stored, conversions):
            if convert is not None or state_id != target:
                self._rewrite(state_id, target, meta.kind, convert)
        for state_id in stored[1:]:
            del self._registry.states[state_id]
        self._registry.states[target] = meta
        return target

    def _rewrite(self, source: int, target: int, kind: str, convert: Conversion | None) -> None:
        """Moves all entries of the state `source` to the state `target`, and converts each element."""
        view = self._database.view()
        try:
            for key_group in self._key_groups:
                old, new = PREFIX.pack(key_group, source), PREFIX.pack(key_group, target)
                end = after_prefix(old)
                self._database.write(
                    (new + key[len(old) :], _converted(value, kind, convert)) for key, value in view.scan(old, end)
                )
                if source != target:
                    assert end is not None
                    self._database.delete_range(old, end)
        finally:
            view.close()

    @property
    def _key_groups(self) -> range:
        return range(self.key_group_range.start, self.key_group_range.end + 1)

    def create_timer_queue(self, name: str) -> RocksDBTimerQueue:
        stored = self._registry.find(name, timers=True)
        queue_id = stored[0] if stored else self._registry.register(StateMetaInfo(name, TIMERS, PICKLED))
        queue = self._queues[name] = RocksDBTimerQueue(
            self._database,
            queue_id,
            self.max_parallelism,
            self.key_group_range,
            None if self._settings.timers_in_memory else self._settings.timer_cache_size,
        )
        return queue

    def create_aggregate_table(
        self, name: str, key_types: Sequence[pa.DataType], aggregates: Sequence[AggregateColumn]
    ) -> AggregateTable:
        layout = TableLayout(tuple(key_types), tuple(aggregates))
        table = self._rocksdb_tables[name] = RocksDBAggregateTable(
            layout, self._database, self._table_codec(name, layout), self.max_parallelism, self._key_groups
        )
        return table

    def create_pane_table(self, name: str, layout: TableLayout) -> PaneTable:
        table = self._rocksdb_tables[name] = RocksDBPaneTable(
            layout, self._database, self._table_codec(name, layout), self.max_parallelism, self._key_groups
        )
        return table

    def create_session_table(self, name: str, layout: TableLayout) -> SessionTable:
        table = self._rocksdb_tables[name] = RocksDBSessionTable(
            layout, self._database, self._table_codec(name, layout), self.max_parallelism, self._key_groups
        )
        return table

    def create_group_table(self, name: str, layout: TableLayout) -> GroupTable:
        table = self._rocksdb_tables[name] = GroupTable(layout, self._entry_store(name, layout))
        return table

    def create_group_map(self, name: str, table: GroupTable, layout: TableLayout) -> GroupMap:
        entries = self._rocksdb_tables[name] = GroupMap(table, layout, self._entry_store(name, layout))
        return entries

    def _entry_store(self, name: str, layout: TableLayout) -> RocksDBEntryStore:
        return RocksDBEntryStore(
            layout, self._database, self._table_codec(name, layout), self.max_parallelism, self._key_groups
        )

    def create_row_table(self, name: str, layout: RowLayout) -> RowTable:
        table = self._rocksdb_tables[name] = RocksDBRowTable(
            layout,
            self.parameters.clock.now_ms,
            self._database,
            self._table_codec(name, layout),
            self.max_parallelism,
            self._key_groups,
            self._directory,
        )
        return table

    def _table_codec(self, name: str, layout: TableLayout | RowLayout) -> StateKeyCodec:
        """Returns the codec for the table's keys. Moves all its restored entries to one number."""
        stored = self._registry.find(name, timers=False)
        for state_id in stored:
            layout.check_restored(self._registry.states[state_id], self.parameters.operator_name)
        meta = layout.meta_info(name)
        for state_id in stored[1:]:
            self._rewrite(state_id, stored[0], meta.kind, None)
            del self._registry.states[state_id]
        return StateKeyCodec(stored[0] if stored else self._registry.register(meta), self.max_parallelism)

    def keys(self, state_name: str) -> Iterable[Any]:
        self._caches[state_name].spill()
        for state_id in self._registry.find(state_name, timers=False):
            yield from self._keys_of(state_id)

    def _keys_of(self, state_id: int) -> Iterator[Any]:
        """Yields each key of a state once. A list or a map has several database entries per key."""
        for data, end in self._distinct(state_id):
            yield decode_state_key(data[:end], PREFIX.size)[0]

    def _distinct(self, state_id: int) -> Iterator[tuple[bytes, int]]:
        """Yields the first database key of each key of a state, and the end of the key in it."""
        last = b""
        for key_group in self._key_groups:
            prefix = PREFIX.pack(key_group, state_id)
            for data, _ in self._database.scan(prefix, after_prefix(prefix)):
                if not last or not data.startswith(last):
                    end = decode_key(data, PREFIX.size)[1]
                    last = data[:end]
                    yield data, end

    def num_entries(self) -> int:
        self._spill()
        entries = 0
        for state_id, meta in self._registry.states.items():
            if meta.kind == ROWS:
                entries += self._num_rows(state_id, meta)
            elif meta.kind == TABLE:
                entries += self._num_table_entries(state_id, meta)
            elif meta.kind == TIMERS:
                for key_group in self._key_groups:
                    prefix = PREFIX.pack(key_group, state_id)
                    entries += sum(1 for _ in self._database.scan(prefix, after_prefix(prefix)))
            else:
                entries += sum(1 for _ in self._distinct(state_id))
        return entries

    def _num_rows(self, state_id: int, meta: StateMetaInfo) -> int:
        assert meta.table is not None
        layout = RowLayout.from_json(meta.table)
        count = 0
        for key_group in self._key_groups:
            prefix = PREFIX.pack(key_group, state_id)
            rows = read_rows(self._database.scan(prefix, after_prefix(prefix)), entry_schema(layout)).live
            count += 0 if rows is None else rows.num_rows
        return count

    def _num_table_entries(self, state_id: int, meta: StateMetaInfo) -> int:
        assert meta.table is not None
        rows = RowCodec(TableLayout.from_json(meta.table))
        prefixes = [PREFIX.pack(key_group, state_id) for key_group in self._key_groups]
        scans = [self._database.scan(prefix, after_prefix(prefix)) for prefix in prefixes]
        return sum(batch.num_rows for pairs in scans for batch in table_batches(pairs, rows))

    @property
    def reported_bytes(self) -> int:
        return 0  # the rows are in files, and the memory of databases is bounded by options

    def release_memory(self) -> None:
        self._spill()

    def _spill(self) -> None:
        """Writes all changes in memory to the database."""
        for state in self._caches.values():
            state.spill()
        for queue in self._queues.values():
            queue.spill()
        for table in self._rocksdb_tables.values():
            table.spill()

    # -- snapshots -------------------------------------------------------------------------------------------------

    def snapshot(
        self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions
    ) -> StateSnapshot[checkpoint_pb2.KeyedStateHandle]:
        self._spill()
        key_type = self.parameters.key_type
        header = self._registry.header(self.max_parallelism, None if key_type is None else describe_type(key_type))
        is_savepoint = options.kind in _SAVEPOINTS
        if is_savepoint:
            is_canonical = options.format != checkpoint_pb2.NATIVE
        else:
            is_canonical = not self._settings.is_incremental
        if is_canonical:
            ttl = {name: ttl for name, ttl in self.time_to_live.items() if ttl.cleans_snapshots}
            return CanonicalSnapshot(self._database.view(), header, self._registry.states, self.key_group_range, ttl)
        self._collect_blobs()
        return NativeSnapshot(
            self._database.files(self._directory / f"checkpoint-{checkpoint_id}-{uuid.uuid4()}"),
            self._backend_id,
            checkpoint_id,
            self.key_group_range,
            self._registry.to_bytes(header),
            self._reusable(options) if options.kind == checkpoint_pb2.CHECKPOINT else {},
            not is_savepoint,
            self._settings.transfer_threads,
            self._on_written,
        )

    def _reusable(self, options: checkpoint_pb2.CheckpointOptions) -> Handles:
        """Returns the uploaded files that the checkpoint may use.

        After a restore they may be files of another job or of a savepoint, which others may delete. The job only owns
        the files in its directory of shared files.
        """
        owned = options.location.shared_directory.rstrip("/")
        if not owned:
            return {}
        with self._lock:
            return {name: handle for name, handle in self._uploaded.items() if handle.path.startswith(f"{owned}/")}

    def _on_written(self, checkpoint_id: int, files: Handles) -> None:
        """Called when the files of a checkpoint have been written. Thread: any."""
        with self._lock:
            self._unconfirmed[checkpoint_id] = files

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        with self._lock:
            files = self._unconfirmed.pop(checkpoint_id, None)
            if files is not None:
                self._uploaded = files
            # Earlier checkpoints are subsumed, so their files may have been deleted.
            for earlier in [known for known in self._unconfirmed if known < checkpoint_id]:
                del self._unconfirmed[earlier]

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        with self._lock:
            self._unconfirmed.pop(checkpoint_id, None)

    def _collect_blobs(self) -> None:
        """Switches the garbage collection of blob files on or off.

        The collection rewrites live values, so it only runs while there is much garbage.
        """
        total = self._database.property("rocksdb.live-blob-file-size")
        garbage = self._database.property("rocksdb.live-blob-file-garbage-size")
        threshold = BLOB_GC_STOP if self._collects_blobs else BLOB_GC_START
        wanted = total > 0 and garbage > total * threshold
        if wanted is not self._collects_blobs:
            self._collects_blobs = wanted
            self._database.set_options({"enable_blob_garbage_collection": str(wanted).lower()})

    def close(self) -> None:
        """See the base class. The files stay until the snapshots that read them are released."""
        self._caches.clear()
        self._queues.clear()
        self._rocksdb_tables.clear()
        self._states.clear()
        self._timer_queues.clear()
        self._tables.clear()
        self._window_tables.clear()
        self._row_tables.clear()
        self._database.release()


def _converted(value: bytes, kind: str, convert: Conversion | None) -> bytes:
    """Returns a database value of a state of that kind with each element converted."""
    if convert is None:
        return value
    if kind == LIST:
        return encode_chunk([freeze(convert(element)) for element in decode_chunk(value)])
    return encode(convert(decode(value)))
