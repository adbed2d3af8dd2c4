from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from async_functions_for_tests import MailHarness
from changelogs import Change, to_batch, to_changes
from memory_checkpoints import OPTIONS, MemoryStreams
from streaming_fakes import FakeTaskStateManager
from test_table_lookup_joins import INPUT, KEY, OUTPUT, TABLE, found_rows

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import FunctionError
from flinkpy.graph.table_specs import AsyncLookupOptions, JoinType, LookupCacheOptions, LookupJoinSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.streaming.checkpoint.subtask_checkpoint_coordinator import write_states
from flinkpy.table.connectors.table_source import AsyncLookupFunction


class Gate:
    """The state that the calls of all functions share. A key is answered once it is let through; None: all keys are."""

    def __init__(self) -> None:
        self.open: set[int | None] = {None}
        self.asked: list[int] = []
        self.running = self.most_running = 0
        self.misses: dict[int, int] = {}
        self.changed = threading.Event()

    def let(self, *keys: int) -> None:
        self.open |= set(keys)


GATE = Gate()


class SlowNames(AsyncLookupFunction):
    async def lookup(self, keys: pa.RecordBatch) -> Any:
        (key,) = keys.column(0).to_pylist()
        gate = GATE
        gate.asked.append(key)
        gate.running += 1
        gate.most_running = max(gate.most_running, gate.running)
        gate.changed.set()
        await asyncio.sleep(0)
        while not gate.open & {key, None}:
            await asyncio.sleep(0.001)
        gate.running -= 1
        if key < 0:
            raise ValueError("no such key")
        if gate.misses.get(key, 0):
            gate.misses[key] -= 1
            return found_rows([])
        return found_rows([(0, key, f"n{key}")] if key else [])


class Clocked(AsyncLookupFunction):
    """Each call takes 36 s on the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._passed_s = 0.0
        monotonic = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: monotonic() + self._passed_s)

    async def lookup(self, keys: pa.RecordBatch) -> Any:
        self._passed_s += 36
        # Timers that are due run.
        for _ in range(3):
            await asyncio.sleep(0)
        (key,) = keys.column(0).to_pylist()
        return found_rows([(0, key, f"n{key}")])


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[MailHarness]]:
    monkeypatch.setitem(globals(), "GATE", Gate())
    # Small pieces show the order of keys.
    monkeypatch.setattr("flinkpy.streaming.async_io.async_pieces_operator._PIECE_ROWS", 2)
    harnesses: list[MailHarness] = []
    yield harnesses
    for harness in harnesses:
        harness.operator.close()


def start(
    opened: list[MailHarness],
    state: Any = None,
    retry: tuple[int, int] | None = None,
    cache: LookupCacheOptions | None = None,
    function: AsyncLookupFunction | None = None,
    **options: Any,
) -> MailHarness:
    how = {"asynchronous": AsyncLookupOptions(**options), "retry": retry, "cache": cache}
    types = {"input_types": (INPUT,), "output_type": OUTPUT, "table_name": "names_of_ids"}
    spec = LookupJoinSpec(function or SlowNames(), JoinType.LEFT, KEY, TABLE, **how, **types)
    harness = MailHarness(spec, state=state)
    opened.append(harness)
    return harness


def feed(harness: MailHarness, *keys: int | None) -> None:
    harness.operator.process_batch(to_batch([("+I", key, 0) for key in keys], INPUT))


def names(harness: MailHarness) -> list[Any]:
    changes: list[Change] = [
        change for item in harness.output.items if isinstance(item, Batch) for change in to_changes(item)
    ]
    return [change[4] for change in changes]


def wait_for_calls(number: int) -> None:
    while len(GATE.asked) < number:
        GATE.changed.wait(10)
        GATE.changed.clear()


def test_results_keep_the_order_of_the_rows(opened):
    GATE.open.clear()
    join = start(opened)
    feed(join, 1, None, 2, 2, 0, 3)
    wait_for_calls(4)
    GATE.let(3, 0, 2)
    GATE.let(1)
    join.drain()

    assert names(join) == ["n1", None, "n2", "n2", None, "n3"]
    assert sorted(GATE.asked) == [0, 1, 2, 3]


def test_unordered_results_come_when_they_are_there_but_never_pass_a_watermark(opened):
    GATE.open.clear()
    join = start(opened, ordered=False)
    feed(join, 1, 1, 2, 2)
    join.operator.process_element(Watermark(5))
    feed(join, 3)
    GATE.let(3, 2)
    join.run_until(lambda: names(join) == ["n2", "n2"])
    GATE.let(1)
    join.drain()

    assert names(join) == ["n2", "n2", "n1", "n1", "n3"]
    assert [item for item in join.output.items[:-1] if isinstance(item, Watermark)] == [Watermark(5)]


def test_no_more_calls_than_the_capacity_run_side_by_side(opened):
    join = start(opened, capacity=3)
    feed(join, *range(1, 40))
    join.drain()

    assert names(join) == [f"n{key}" for key in range(1, 40)]
    assert GATE.most_running == 3


def test_short_batches_fill_the_capacity(opened):
    GATE.open.clear()
    join = start(opened, capacity=100)
    for key in range(1, 101):
        assert join.operator.is_writable
        feed(join, key)
    assert not join.operator.is_writable
    wait_for_calls(100)
    GATE.let(None)
    join.drain()

    assert join.operator.is_writable
    assert names(join) == [f"n{key}" for key in range(1, 101)]


def test_the_number_of_waiting_rows_is_bounded(opened, monkeypatch):
    monkeypatch.setattr("flinkpy.streaming.async_io.async_pieces_operator._MAX_ROWS", 4)
    GATE.open.clear()
    join = start(opened, capacity=1)
    feed(join, 1, 2, 3)
    assert join.operator.is_writable
    feed(join, 4)
    assert not join.operator.is_writable
    GATE.let(None)
    join.drain()

    assert join.operator.is_writable


def test_keys_that_find_nothing_are_asked_again(opened):
    GATE.misses = {1: 2, 2: 9}
    join = start(opened, retry=(1, 2))
    feed(join, 1, 2)
    join.drain()

    assert names(join) == ["n1", None]
    assert sorted(GATE.asked) == [1, 1, 1, 2, 2, 2]


def test_keys_that_the_cache_knows_are_not_asked(opened):
    join = start(opened, cache=LookupCacheOptions())
    for _ in range(2):
        feed(join, 1, 2)
        join.drain()

    assert names(join) == ["n1", "n2", "n1", "n2"]
    assert sorted(GATE.asked) == [1, 2]


def test_a_checkpoint_contains_the_rows_that_are_not_answered(opened):
    GATE.open.clear()
    join = start(opened)
    feed(join, 1, 1, 2, 3)
    GATE.let(1, 3)
    join.run_until(lambda: names(join) == ["n1", "n1"])
    files = MemoryStreams()
    join.operator.prepare_snapshot_pre_barrier(1)
    states = write_states(join.operator.snapshots(1, OPTIONS), files)
    restored = checkpoint_pb2.TaskStateSnapshot()
    for operator_id, state in states.items():
        restored.operators[operator_id].CopyFrom(state)
    GATE.asked.clear()
    again = start(opened, FakeTaskStateManager(restored, files=files))
    GATE.let(2)
    again.drain()

    assert names(again) == ["n2", "n3"]
    assert sorted(GATE.asked) == [2, 3]


def test_a_lookup_that_takes_too_long_or_fails_ends_the_task(opened):
    failing = start(opened)
    feed(failing, -1)
    with pytest.raises(FunctionError, match="no such key") as failure:
        failing.drain()
    assert "SlowNames'>' during the lookup of [{'id': -1}] in the table names_of_ids" in failure.value.remote_traceback
    assert "LookupRequest" not in failure.value.remote_traceback
    GATE.open.clear()
    slow = start(opened, timeout_ms=20)
    feed(slow, 1)
    with pytest.raises(FunctionError, match="Async function call has timed out"):
        slow.drain()


def test_the_wait_for_a_free_call_does_not_count_as_time_of_the_call(opened, monkeypatch):
    join = start(opened, capacity=1, timeout_ms=60_000, function=Clocked(monkeypatch))
    feed(join, 1, 2, 3, 4)
    join.drain()

    assert names(join) == ["n1", "n2", "n3", "n4"]
