"""Snapshots of a database, in the canonical format or as the files of the database (native).

Their synchronous phases do not wait for the disk. A canonical snapshot reads a view of the database. A native snapshot
flushes the database and hard-links its files before the next write to the database, which takes some milliseconds for
any size of state. Then it uploads the files that no completed checkpoint has.

Source: org.apache.flink.state.rocksdb.snapshot.{RocksFullSnapshotStrategy,RocksIncrementalSnapshotStrategy,
RocksNativeFullSnapshotStrategy}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.key_groups import KeyGroupRange
from flinkpy.logs.context import in_current_context
from flinkpy.records.key_identity import entry_key
from flinkpy.state.aggregate_table import TableLayout
from flinkpy.state.checkpoint_streams import CheckpointedStateScope, CheckpointStreams
from flinkpy.state.heap_snapshot import ChunkSize
from flinkpy.state.key_groups_file import KeyGroupsFileWriter, KeyGroupsHeader
from flinkpy.state.meta_info import LIST, MAP, ROWS, TABLE, TIMERS, StateMetaInfo
from flinkpy.state.rocksdb.database import DatabaseFiles, DatabaseView, Pair
from flinkpy.state.rocksdb.entry_store import table_batches
from flinkpy.state.rocksdb.key_codec import PREFIX, after_prefix
from flinkpy.state.rocksdb.key_codec import decode as decode_key
from flinkpy.state.rocksdb.list_state import decode_chunk
from flinkpy.state.rocksdb.row_journal import read_rows
from flinkpy.state.rocksdb.row_table import entry_schema
from flinkpy.state.rocksdb.tables import RowCodec
from flinkpy.state.rocksdb.timer_queue import decode_timer
from flinkpy.state.rocksdb.value_codec import decode
from flinkpy.state.row_table import RowLayout
from flinkpy.state.ttl import TimeToLive

#: The suffixes of files that never change after they were written.
IMMUTABLE_FILES = (".sst", ".blob")
#: The names of files that only concern this process.
_LOCAL = ("LOCK", "LOG", "IDENTITY")
Handles = dict[str, checkpoint_pb2.StreamStateHandle]


class CanonicalSnapshot:
    """A StateSnapshot in the format of `key_groups_file`.

    Args:
        states: the states by their numbers in the database, in the order of the header.
        time_to_live: the time-to-live of the states whose expired values are left out, by name.
    """

    def __init__(
        self,
        view: DatabaseView,
        header: KeyGroupsHeader,
        states: Mapping[int, StateMetaInfo],
        key_group_range: KeyGroupRange,
        time_to_live: Mapping[str, TimeToLive],
    ) -> None:
        self._view = view
        self._header = header
        #: The states in the order of the database, so that one pass reads them all.
        self._in_order = sorted((state_id, index, meta) for index, (state_id, meta) in enumerate(states.items()))
        self._range = key_group_range
        self._time_to_live = dict(time_to_live)
        self._chunks = ChunkSize()

    def write(self, streams: CheckpointStreams) -> checkpoint_pb2.KeyedStateHandle | None:
        stream = streams.create()
        try:
            writer = KeyGroupsFileWriter(stream, self._header, self._range)
            for key_group in range(self._range.start, self._range.end + 1):
                writer.begin_key_group(key_group)
                for state_id, index, meta in self._in_order:
                    prefix = PREFIX.pack(key_group, state_id)
                    self._write_state(writer, index, meta, self._view.scan(prefix, after_prefix(prefix)))
            if not writer.is_empty:
                return writer.finish()
        except BaseException:
            stream.abort()
            raise
        stream.abort()
        return None

    def _write_state(self, writer: KeyGroupsFileWriter, index: int, meta: StateMetaInfo, pairs: Iterator[Pair]) -> None:
        if meta.kind == TABLE:
            assert meta.table is not None
            rows = RowCodec(TableLayout.from_json(meta.table))
            for batch in table_batches(pairs, rows):
                _write_batch(writer, index, batch)
            return
        if meta.kind == ROWS:
            assert meta.table is not None
            _write_rows(writer, index, RowLayout.from_json(meta.table), pairs)
            return
        entries = _entries(meta.kind, pairs)
        ttl = self._time_to_live.get(meta.name) if meta.kind != TIMERS else None
        if ttl is not None:
            entries = _unexpired(entries, meta.kind, ttl)
        while chunk := list(islice(entries, self._chunks.size)):
            self._chunks.run(len(chunk), lambda c=chunk: writer.write_chunk(index, *map(list, zip(*c))))  # type: ignore[misc]

    def release(self) -> None:
        self._view.close()


#: Rows of one batch in a file. Writing them takes about a millisecond.
_BATCH_ROWS = 16_384


def _write_rows(writer: KeyGroupsFileWriter, index: int, layout: RowLayout, pairs: Iterable[Pair]) -> None:
    rows = read_rows(pairs, entry_schema(layout)).live
    if rows is None:
        return
    rows = rows.select(range(rows.num_columns - 1))
    for begin in range(0, rows.num_rows, _BATCH_ROWS):
        _write_batch(writer, index, rows.slice(begin, _BATCH_ROWS))


def _write_batch(writer: KeyGroupsFileWriter, index: int, batch: pa.RecordBatch) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    writer.write_payload(index, batch.num_rows, memoryview(sink.getvalue()))


def _entries(kind: str, pairs: Iterable[Pair]) -> Iterator[tuple[Any, Any]]:
    """Yields (key, value) pairs in the canonical format. Lists and maps are yielded in several parts."""
    offset = PREFIX.size
    if kind == TIMERS:
        for data, _ in pairs:
            timestamp, key = decode_timer(data)
            yield key, timestamp
    elif kind == LIST:
        for data, value in pairs:
            yield decode_key(data, offset)[0], decode_chunk(value)
    elif kind == MAP:
        yield from _map_entries(pairs)
    else:
        for data, value in pairs:
            yield decode_key(data, offset)[0], decode(value)


#: The maximum number of map entries in a part.
_MAP_PART = 256


def _map_entries(pairs: Iterable[Pair]) -> Iterator[tuple[Any, Any]]:
    offset = PREFIX.size
    prefix = b""
    key: Any = None
    entries: dict[Any, Any] = {}
    for data, value in pairs:
        if not prefix or not data.startswith(prefix) or len(entries) >= _MAP_PART:
            if entries:
                yield key, entries
            entries = {}
            key, end = decode_key(data, offset)
            prefix = data[:end]
        entries[entry_key(decode_key(data, len(prefix))[0])] = decode(value)
    if entries:
        yield key, entries


def _unexpired(entries: Iterator[tuple[Any, Any]], kind: str, ttl: TimeToLive) -> Iterator[tuple[Any, Any]]:
    now_ms = ttl.now_ms()
    for key, value in entries:
        left = ttl.unexpired(kind, value, now_ms)
        if left is not None:
            yield key, left


class NativeSnapshot:
    """A StateSnapshot that consists of the files of the database.

    Args:
        files: the files with the current content. `release` closes them.
        meta: the content of the `meta` file.
        reusable: the handles of uploaded files of a completed checkpoint, by name. Equal names mean equal files.
        is_shared: later checkpoints may use the files that this one uploads.
        on_written: called when all files are written, with the checkpoint id and the files that later checkpoints may
            use once this checkpoint is complete.

    Attributes:
        bytes_persisted: the number of bytes that `write` wrote, without reused files.
    """

    def __init__(
        self,
        files: DatabaseFiles,
        backend_id: str,
        checkpoint_id: int,
        key_group_range: KeyGroupRange,
        meta: bytes,
        reusable: Handles,
        is_shared: bool,
        transfer_threads: int,
        on_written: Callable[[int, Handles], None],
    ) -> None:
        self._files = files
        self._handle = checkpoint_pb2.IncrementalKeyedStateHandle(backend_id=backend_id, checkpoint_id=checkpoint_id)
        self._handle.key_groups.start, self._handle.key_groups.end = key_group_range.start, key_group_range.end
        self._meta = meta
        self._reusable = reusable
        self._is_shared = is_shared
        self._transfer_threads = transfer_threads
        self._on_written = on_written
        self.bytes_persisted = 0

    def write(self, streams: CheckpointStreams) -> checkpoint_pb2.KeyedStateHandle:
        self._files.link()
        can_share = self._is_shared and streams.can_share
        scope = CheckpointedStateScope.SHARED if can_share else CheckpointedStateScope.EXCLUSIVE
        reusable = self._reusable if can_share else {}
        handle = self._handle
        shared: Handles = {}
        uploads: list[tuple[Path, CheckpointedStateScope]] = []
        for path in sorted(self._files.directory.iterdir()):
            if path.suffix in IMMUTABLE_FILES:
                known = reusable.get(path.name)
                if known is not None and known.size_bytes == path.stat().st_size:
                    shared[path.name] = known
                else:
                    uploads.append((path, scope))
            elif not path.name.startswith(_LOCAL) and not _is_empty_log(path):
                uploads.append((path, CheckpointedStateScope.EXCLUSIVE))
        private: Handles = {}
        for path, uploaded in zip([path for path, _ in uploads], self._upload(streams, uploads)):
            (shared if path.suffix in IMMUTABLE_FILES else private)[path.name] = uploaded
            self.bytes_persisted += uploaded.size_bytes
        stream = streams.create()
        try:
            stream.write(self._meta)
            meta = stream.close_and_get_handle()
        except BaseException:
            stream.abort()
            raise
        handle.meta.CopyFrom(meta)
        self.bytes_persisted += meta.size_bytes
        for target, files in ((handle.shared, shared), (handle.private, private)):
            for name, file in files.items():
                target.add(local_name=name, handle=file)
        if can_share:
            self._on_written(handle.checkpoint_id, shared)
        return checkpoint_pb2.KeyedStateHandle(incremental=handle)

    def _upload(
        self, streams: CheckpointStreams, uploads: list[tuple[Path, CheckpointedStateScope]]
    ) -> list[checkpoint_pb2.StreamStateHandle]:
        if not uploads:
            return []
        with ThreadPoolExecutor(self._transfer_threads, "rocksdb-upload") as executor:
            futures = [executor.submit(in_current_context(streams.store_file), path, scope) for path, scope in uploads]
            try:
                return [future.result() for future in futures]
            except BaseException:
                executor.shutdown(wait=True, cancel_futures=True)
                raise

    def release(self) -> None:
        self._files.close()


def _is_empty_log(path: Path) -> bool:
    """True for an empty write-ahead log, which is off."""
    return path.suffix == ".log" and path.stat().st_size == 0
