"""HeapSnapshot: writes the frozen state of a heap backend in the canonical format.

Freezing only copies references, which costs about 20 ns per key. All other work happens here, on another thread, in
pieces small enough that the task thread never waits long for the GIL. Key groups are computed a piece at a time.
Entries are pickled in chunks, and the size of a chunk follows from the duration of the previous one.

Source: org.apache.flink.runtime.state.heap.HeapSnapshotStrategy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import Any

import numpy as np

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.errors import StateRestoreError
from flinkpy.common.key_groups import KeyGroupRange
from flinkpy.records.key_hash import hash_keys, key_groups
from flinkpy.state.checkpoint_streams import CheckpointStreams
from flinkpy.state.key_groups_file import KeyGroupsFileWriter, KeyGroupsHeader
from flinkpy.state.meta_info import LIST, MAP, StateMetaInfo

#: The number of keys hashed at once, which takes about half a millisecond.
_HASH_PIECE = 8_192
#: The CPU time that pickling a chunk should take, and the bounds of its number of entries (including their elements).
_CHUNK_NS = 1_000_000
_MIN_CHUNK, _FIRST_CHUNK, _MAX_CHUNK = 64, 1_024, 16_384
#: The number of references dropped at once.
_RELEASE_PIECE = 16_384


class FrozenState(ABC):
    """A frozen state. Thread: the thread that writes the snapshot."""

    def __init__(self, meta: StateMetaInfo) -> None:
        self.meta = meta

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def sort(self, max_parallelism: int) -> np.ndarray:
        """Sorts the entries by key group. Returns int64[max_parallelism + 1]: the begin of each group, and the end."""

    @abstractmethod
    def write(self, writer: KeyGroupsFileWriter, index: int, start: int, end: int) -> None:
        """Writes the sorted entries from `start` up to `end` as chunks of the state `index`."""

    @abstractmethod
    def drop(self) -> None:
        """Drops the references to the entries, a piece at a time."""


class FrozenEntries(FrozenState):
    """Frozen (key, value) pairs. Long lists and dicts are split over several chunks.

    Args:
        unexpired: returns the part of a value that has not expired, or None if nothing is left.
    """

    def __init__(
        self,
        meta: StateMetaInfo,
        keys: list[Any],
        values: list[Any],
        chunks: ChunkSize,
        unexpired: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(meta)
        self._unexpired = unexpired
        self._keys = keys
        self._values = values
        self._chunks = chunks
        self._order: np.ndarray = np.empty(0, dtype=np.int64)
        #: The average weight of an entry in the previous chunk: 1 for the entry itself, and 1 for each of its elements.
        self._weight = 1.0

    def __len__(self) -> int:
        return len(self._keys)

    def sort(self, max_parallelism: int) -> np.ndarray:
        keys = self._keys
        groups = np.empty(len(keys), dtype=np.uint16)  # max_parallelism is at most 2**15
        for start in range(0, len(keys), _HASH_PIECE):
            piece = keys[start : start + _HASH_PIECE]
            groups[start : start + len(piece)] = key_groups(hash_keys(piece), max_parallelism)
        self._order = np.argsort(groups, kind="stable")
        return ends_of_groups(groups, max_parallelism)

    def write(self, writer: KeyGroupsFileWriter, index: int, start: int, end: int) -> None:
        while start < end:
            stop = min(end, start + max(1, int(self._chunks.size / self._weight)))
            rows = self._order[start:stop].tolist()
            start = stop
            keys, values = _pick(self._keys, rows), _pick(self._values, rows)
            if self._unexpired is not None:
                kept = [(key, self._unexpired(value)) for key, value in zip(keys, values)]
                keys = [key for key, value in kept if value is not None]
                values = [value for _, value in kept if value is not None]
            weight = len(keys)
            if self.meta.kind in (LIST, MAP):
                weight += sum(map(len, values))
                self._weight = weight / len(keys) if keys else 1.0
            if weight > 2 * self._chunks.size:
                self._write_collections(writer, index, keys, values)
            elif weight:
                self._chunks.run(weight, writer.write_chunk, index, keys, values)

    def _write_collections(
        self, writer: KeyGroupsFileWriter, index: int, keys: Sequence[Any], values: Sequence[Any]
    ) -> None:
        """Writes lists or dicts in chunks limited by the number of elements. Splits long ones."""
        pending_keys: list[Any] = []
        pending: list[Any] = []
        weight = 0

        def flush() -> None:
            nonlocal weight
            if pending:
                self._chunks.run(weight, writer.write_chunk, index, pending_keys, pending)
            pending_keys.clear()
            pending.clear()
            weight = 0

        for key, value in zip(keys, values):
            size = self._chunks.size
            parts = (value,) if len(value) <= size else _parts(value, size)
            for part in parts:
                pending_keys.append(key)
                pending.append(part)
                weight += len(part) + 1
                if weight >= size:
                    flush()
        flush()

    def drop(self) -> None:
        for entries in (self._keys, self._values):
            while entries:
                del entries[-_RELEASE_PIECE:]


class FrozenTimers(FrozenState):
    """Frozen timers: buckets of keys by time."""

    def __init__(
        self, meta: StateMetaInfo, times: list[int], buckets: list[dict[Any, None]], chunks: ChunkSize
    ) -> None:
        super().__init__(meta)
        self._times = times
        self._buckets = buckets
        self._chunks = chunks
        self._entries: FrozenEntries | None = None
        self._size: int | None = None

    def __len__(self) -> int:
        if self._size is None:
            self._size = sum(map(len, self._buckets))
        return self._size

    def sort(self, max_parallelism: int) -> np.ndarray:
        keys: list[Any] = []
        times: list[int] = []
        for start in range(0, len(self._buckets), _HASH_PIECE):
            buckets = self._buckets[start : start + _HASH_PIECE]
            keys.extend(chain.from_iterable(buckets))
            times.extend(chain.from_iterable(map(repeat, self._times[start : start + _HASH_PIECE], map(len, buckets))))
        self._entries = FrozenEntries(self.meta, keys, times, self._chunks)
        return self._entries.sort(max_parallelism)

    def write(self, writer: KeyGroupsFileWriter, index: int, start: int, end: int) -> None:
        assert self._entries is not None
        self._entries.write(writer, index, start, end)

    def drop(self) -> None:
        for entries in (self._times, self._buckets):
            while entries:
                del entries[-_RELEASE_PIECE:]
        if self._entries is not None:
            self._entries.drop()


class ChunkSize:
    """The number of entries whose pickling takes about `_CHUNK_NS`. The states of a snapshot share it.

    It measures CPU time, because the time that the thread waits for the GIL and the disk does not depend on the size.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.size = _FIRST_CHUNK
        self._clock = clock or SystemClock()

    def run(self, weight: int, work: Callable[..., None], *arguments: Any) -> None:
        start = self._clock.thread_time_ns()
        work(*arguments)
        took = max(1, self._clock.thread_time_ns() - start)
        if weight >= _MIN_CHUNK:
            wanted = weight * _CHUNK_NS // took
            # Moves only half the way, so that one slow write does not make all later chunks tiny.
            self.size = min(_MAX_CHUNK, max(_MIN_CHUNK, (self.size + wanted) // 2))


def ends_of_groups(groups: np.ndarray, max_parallelism: int) -> np.ndarray:
    """Returns int64[max_parallelism + 1]: the begin of each key group in entries sorted by key group, and the end."""
    counts = np.bincount(groups, minlength=max_parallelism)
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])


def _pick(items: list[Any], rows: list[int]) -> Sequence[Any]:
    if len(rows) == 1:
        return (items[rows[0]],)
    return itemgetter(*rows)(items)  # type: ignore[no-any-return]


def _parts(value: Any, size: int) -> Iterator[Any]:
    """Splits a long list into slices, and a long dict into smaller dicts."""
    if isinstance(value, dict):
        items = list(value.items())
        for start in range(0, len(items), size):
            yield dict(items[start : start + size])
    else:
        for start in range(0, len(value), size):
            yield value[start : start + size]


class HeapSnapshot:
    """The StateSnapshot of a heap backend.

    Args:
        states: the frozen states.
        on_release: called once. After it values may be changed in place again.
    """

    def __init__(
        self,
        operator_name: str,
        key_type: Any,
        max_parallelism: int,
        key_group_range: KeyGroupRange,
        states: list[FrozenState],
        on_release: Callable[[], None],
    ) -> None:
        self._operator_name = operator_name
        self._header = KeyGroupsHeader(max_parallelism, key_type, tuple(state.meta for state in states))
        self._range = key_group_range
        self._states = states
        self._on_release: Callable[[], None] | None = on_release

    def write(self, streams: CheckpointStreams) -> checkpoint_pb2.KeyedStateHandle | None:
        if not any(len(state) for state in self._states):
            return None
        max_parallelism = self._header.max_parallelism
        stream = streams.create()
        try:
            starts = [self._sorted(state, max_parallelism) for state in self._states]
            writer = KeyGroupsFileWriter(stream, self._header, self._range, self._operator_name)
            for key_group in range(self._range.start, self._range.end + 1):
                writer.begin_key_group(key_group)
                for index, state in enumerate(self._states):
                    start, end = int(starts[index][key_group]), int(starts[index][key_group + 1])
                    if start < end:
                        state.write(writer, index, start, end)
            return writer.finish()
        except BaseException:
            stream.abort()
            raise

    def _sorted(self, state: FrozenState, max_parallelism: int) -> np.ndarray:
        starts = state.sort(max_parallelism)
        owned = int(starts[self._range.end + 1]) - int(starts[self._range.start])
        if owned != len(state):
            raise StateRestoreError(
                f"operator {self._operator_name!r}, state {state.meta.name!r}: {len(state) - owned} keys are not in "
                f"the key groups {self._range.start} to {self._range.end} of this subtask. A key selector must return "
                "equal keys of the same type for the same record, and a key must not be modified while it is in use"
            )
        return starts

    def release(self) -> None:
        on_release, self._on_release = self._on_release, None
        if on_release is not None:
            on_release()
            for state in self._states:
                state.drop()
