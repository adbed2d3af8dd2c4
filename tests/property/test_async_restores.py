"""Asynchronous functions on their real loop, with random batches, durations, watermarks and restores.

Every record gets its results once, and no result crosses a watermark.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from async_functions_for_tests import AsyncHarness
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_checkpoints import MemoryStreams
from streaming_fakes import FakeTaskStateManager

from flinkpy._proto import checkpoint_pb2
from flinkpy.functions.async_functions import AsyncFunction
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.streaming.checkpoint.subtask_checkpoint_coordinator import write_states


@pytest.fixture(autouse=True)
def _threads_meet_everywhere() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


class Uneven(AsyncFunction):
    """Some calls return at once, others after some rounds of the loop. They return no, one or two results."""

    async def async_invoke(self, value: int) -> list[int]:
        for _ in range((value * 7919) % 5):
            await asyncio.sleep(0)
        return [value] * (value % 3)


def restored(harness: AsyncHarness, settings: dict[str, Any]) -> AsyncHarness:
    files = MemoryStreams()
    harness.operator.prepare_snapshot_pre_barrier(1)
    states = write_states(harness.operator.snapshots(1, checkpoint_pb2.CheckpointOptions()), files)
    harness.operator.close()
    snapshot = checkpoint_pb2.TaskStateSnapshot()
    for operator_id, state in states.items():
        snapshot.operators[operator_id].CopyFrom(state)
    return AsyncHarness(Uneven(), state=FakeTaskStateManager(snapshot, files=files), **settings)


@settings(max_examples=60)  # each example starts and ends some threads
@given(
    steps=st.lists(st.one_of(st.integers(1, 300), st.sampled_from(["watermark", "restore", "look"])), max_size=12),
    ordered=st.booleans(),
    capacity=st.sampled_from([1, 2, 7, 100, 5000]),
    seed=st.integers(0, 1 << 32),
)
def test_every_record_has_its_results_once_on_its_side_of_the_watermarks(
    steps: list[int | str], ordered: bool, capacity: int, seed: int
) -> None:
    random = Random(seed)
    options: dict[str, Any] = {"ordered": ordered, "capacity": capacity, "timeout_ms": 60_000}
    harness = AsyncHarness(Uneven(), **options)
    emitted: list[Any] = []
    number = watermark = 0
    for step in steps:
        if isinstance(step, int):
            values = list(range(number, number + step))
            number += step
            harness.process(values, values if random.random() < 0.9 else None)
        elif step == "watermark":
            watermark = number
            harness.watermark(watermark)
        elif step == "restore":
            before, harness = harness, restored(harness, options)
            emitted += before.output.items
        else:
            harness.run_mails()
    harness.drain()
    emitted += harness.output.items
    harness.operator.close()

    rows = [row for item in emitted if isinstance(item, Batch) for row in item.values]
    expected = [value for value in range(number) for _ in range(value % 3)]
    assert sorted(rows) == expected
    if ordered:
        assert rows == expected
    for item in emitted:
        if isinstance(item, Batch) and item.timestamps is not None:
            assert item.timestamps.tolist() == item.values
    passed = 0
    for item in emitted:
        if isinstance(item, Watermark):
            passed = item.timestamp
        elif "restore" not in steps:
            # After a restore, records are repeated without the watermark that followed them before the failure.
            assert min(item.values) >= passed
