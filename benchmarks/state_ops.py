"""state-ops: operations on keyed state per second on one core, per key and per batch, heap and RocksDB.

checkpoint-pause: how long a snapshot of 1 M keys in the heap stops the task thread.

The loops do what an operator does for a record: set the key, then use the state.
"""

from __future__ import annotations

import hashlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.result import Result
from flinkpy._proto import checkpoint_pb2
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.garbage_collector import tune_garbage_collector
from flinkpy.common.key_groups import KeyGroupRange
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinkpy.state.backend import KeyContext, KeyedStateBackend, KeyedStateBackendParameters
from flinkpy.state.checkpoint_streams import CheckpointedStateScope
from flinkpy.state.factory import create_keyed_state_backend

OPERATIONS = 400_000
KEYS = 100_000
BATCH_KEYS = 8_192
ROUNDS = 3
#: Operations per second that the issue asks for.
BARS = {"heap": (1.5e6, 5e6), "rocksdb": (None, 0.5e6)}

PAUSE_KEYS = 1_000_000
PAUSE_BAR_MS = 50.0
#: The work of the task-like loop between two clock calls: about 0.1 ms.
LOOP_KEYS = 500


@contextmanager
def backend_of(kind: str) -> Iterator[KeyedStateBackend]:
    with tempfile.TemporaryDirectory(prefix="flinkpy-state-ops-") as directory:
        backend = create_keyed_state_backend(
            KeyedStateBackendParameters(
                configuration=Configuration.from_dict({"state.backend.type": kind}),
                key_context=KeyContext(),
                key_group_range=KeyGroupRange(0, 127),
                max_parallelism=128,
                key_type=Types.LONG(),
                operator_name="state-ops",
                directory=Path(directory),
            )
        )
        try:
            yield backend
        finally:
            backend.close()


def _get(context: KeyContext, state: Any, keys: list[int]) -> None:
    for context.key in keys:
        state.value()


def _update(context: KeyContext, state: Any, keys: list[int]) -> None:
    for context.key in keys:
        state.update(1)


def _add(context: KeyContext, state: Any, keys: list[int]) -> None:
    for context.key in keys:
        state.add(1)


def _map_put(context: KeyContext, state: Any, keys: list[int]) -> None:
    for context.key in keys:
        state.put(7, 1)


def _get_many(context: KeyContext, state: Any, keys: list[int]) -> None:
    for start in range(0, len(keys), BATCH_KEYS):
        state.get_many(keys[start : start + BATCH_KEYS])


def _put_many(context: KeyContext, state: Any, keys: list[int]) -> None:
    for start in range(0, len(keys), BATCH_KEYS):
        piece = keys[start : start + BATCH_KEYS]
        state.put_many(piece, piece)


def operations(backend: KeyedStateBackend) -> list[tuple[str, bool, Callable[..., None], Any]]:
    """(name, whether it is per batch, loop, state)."""
    value = backend.value_state(ValueStateDescriptor("value", Types.LONG()))
    return [
        ("value update", False, _update, value),
        ("value get", False, _get, value),
        ("reducing add", False, _add, backend.reducing_state(ReducingStateDescriptor("r", _plus, Types.LONG()))),
        ("map put", False, _map_put, backend.map_state(MapStateDescriptor("m", Types.LONG(), Types.LONG()))),
        ("list add", False, _add, backend.list_state(ListStateDescriptor("l", Types.LONG()))),
        ("put_many", True, _put_many, value),
        ("get_many", True, _get_many, value),
    ]


def _plus(a: int, b: int) -> int:
    return a + b


def run() -> list[Result]:
    """Operations per second; the best of three rounds."""
    keys = np.random.default_rng(0).integers(0, KEYS, OPERATIONS).tolist()
    results = []
    for kind in ("heap", "rocksdb"):
        try:
            with backend_of("hashmap" if kind == "heap" else kind) as backend:
                for name, is_batch, loop, state in operations(backend):
                    best = min(_seconds(loop, backend.key_context, state, keys) for _ in range(ROUNDS))
                    bar = BARS[kind][is_batch]
                    per_second = OPERATIONS / best
                    results.append(
                        Result(
                            f"state-ops {kind} {name}",
                            per_second,
                            bar,
                            "operations/s",
                            "the bar" if bar else "",
                            per_second / bar if bar else None,
                            1.0 if bar else None,
                            f"per {'batch' if is_batch else 'key'}, {KEYS:,} keys",
                        )
                    )
        except UnsupportedOperationError as error:
            results.append(Result(f"state-ops {kind}", 0.0, None, "operations/s", "", None, note=str(error)))
    return results


def _seconds(loop: Callable[..., None], *arguments: Any) -> float:
    start = time.perf_counter()
    loop(*arguments)
    return time.perf_counter() - start


# ---------------------------------------------------------------- checkpoint-pause


class FileStream:
    """A file without durability: the benchmark measures the task thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb", buffering=1 << 20)
        self._sha256 = hashlib.sha256()

    def write(self, data: bytes | bytearray | memoryview) -> int:
        self._sha256.update(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def close_and_get_handle(self) -> checkpoint_pb2.StreamStateHandle:
        size = self._file.tell()
        self._file.close()
        return checkpoint_pb2.StreamStateHandle(path=str(self._path), size_bytes=size, sha256=self._sha256.digest())

    def abort(self) -> None:
        self._file.close()


class FileStreams:
    can_share = False

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def create(self, scope: CheckpointedStateScope = CheckpointedStateScope.EXCLUSIVE) -> FileStream:
        return FileStream(self._directory / "state")

    def store_file(self, source: Path, scope: CheckpointedStateScope) -> checkpoint_pb2.StreamStateHandle:
        raise UnsupportedOperationError("not needed here")


def run_pause() -> list[Result]:
    """The synchronous part, and the longest gap in a loop like a task's while the rest is written; best of three."""
    tune_garbage_collector()  # as in a TaskExecutor
    results = []
    for name, fill, touch in (("counters", _fill_counters, _touch_counters), ("lists", _fill_lists, _touch_lists)):
        with backend_of("hashmap") as backend, tempfile.TemporaryDirectory(prefix="flinkpy-pause-") as directory:
            state = fill(backend)
            rounds = [_measure(backend, state, touch, FileStreams(Path(directory))) for _ in range(ROUNDS)]
            sync_ms, gap_ms, async_ms = map(min, zip(*rounds))
            note = f"{PAUSE_KEYS:,} keys; written in {async_ms:,.0f} ms"
            results += [
                Result(
                    f"checkpoint-pause {name}, synchronous part",
                    sync_ms,
                    PAUSE_BAR_MS,
                    "ms",
                    "the bar",
                    PAUSE_BAR_MS / sync_ms,
                    1.0,
                    note,
                ),
                Result(f"checkpoint-pause {name}, longest gap while written", gap_ms, None, "ms", "", None, note=note),
            ]
    return results


def _measure(
    backend: KeyedStateBackend, state: Any, touch: Callable[[KeyContext, Any, int], None], streams: FileStreams
) -> tuple[float, float, float]:
    """Milliseconds: (synchronous part, longest gap, asynchronous part)."""
    start = time.perf_counter()
    snapshot = backend.snapshot(1, checkpoint_pb2.CheckpointOptions())
    sync_s = time.perf_counter() - start
    took: list[float] = []

    def write() -> None:
        begin = time.perf_counter()
        snapshot.write(streams)
        snapshot.release()
        took.append(time.perf_counter() - begin)

    writer = threading.Thread(target=write)
    gap_s, position = 0.0, 0
    writer.start()
    last = time.perf_counter()
    while writer.is_alive():
        touch(backend.key_context, state, position)
        position = (position + LOOP_KEYS) % PAUSE_KEYS
        now = time.perf_counter()
        gap_s = max(gap_s, now - last)
        last = now
    writer.join()
    return sync_s * 1e3, gap_s * 1e3, took[0] * 1e3


def _fill_counters(backend: KeyedStateBackend) -> Any:
    state = backend.value_state(ValueStateDescriptor("count", Types.LONG()))
    state.put_many(list(range(PAUSE_KEYS)), [key + 1_000 for key in range(PAUSE_KEYS)])
    return state


def _touch_counters(context: KeyContext, state: Any, position: int) -> None:
    for context.key in range(position, position + LOOP_KEYS):
        state.update(state.value() + 1)


def _fill_lists(backend: KeyedStateBackend) -> Any:
    state = backend.list_state(ListStateDescriptor("items", Types.LONG()))
    for backend.key_context.key in range(PAUSE_KEYS):
        state.update([1, 2])
    return state


def _touch_lists(context: KeyContext, state: Any, position: int) -> None:
    for context.key in range(position, position + LOOP_KEYS):
        state.add(3)
