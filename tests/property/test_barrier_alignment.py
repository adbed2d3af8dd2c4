"""Each record is on the right side of a checkpoint for any order of barriers, batches and ends on up to four
channels.
"""

from __future__ import annotations

import sys
from collections import deque
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent / "unit" / "streaming"))

from streaming_fakes import FakeInputGate

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.clock import ManualClock
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier, EndOfData, EndOfPartition
from flinkpy.streaming.io.checkpointing.checkpointed_inputs import CheckpointedInputs
from flinkpy.streaming.io.stream_input_processor import StreamInputProcessor
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus

ALIGNED = checkpoint_pb2.ALIGNED
UNALIGNED = checkpoint_pb2.UNALIGNED
FORCED = checkpoint_pb2.FORCED_ALIGNED
AT_LEAST_ONCE = checkpoint_pb2.AT_LEAST_ONCE
NUM_CHECKPOINTS = 3


class Head:
    """Records the processed batches."""

    inputs_without_watermarks: tuple[int, ...] = ()

    def __init__(self) -> None:
        self.processed: list[Any] = []

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self.processed.extend(batch.values)

    def after_batch(self, num_rows: int) -> None:
        return

    def process_element(self, element: Any) -> None:
        raise AssertionError(element)

    def end_input(self, input_index: int) -> None:
        return


class Model:
    """The inputs of a task, driven step by step. gates[0] may be unaligned, gates[1] (optional) not."""

    def __init__(self, scripts: list[list[Any]], num_aligned_only: int, timeout_ms: int = 0) -> None:
        self.scripts = scripts
        free = len(scripts) - num_aligned_only
        self.gates = [FakeInputGate(count) for count in (free, num_aligned_only) if count]
        self.channels = [(gate, index) for gate in self.gates for index in range(gate.num_channels)]
        self.head = Head()
        self.clock = ManualClock(0)
        self.timers: list[Any] = []
        self.snapshots: dict[int, list[Any]] = {}
        self.captured: dict[int, list[Any]] = {}
        self.aborted: set[int] = set()
        aligned_only = frozenset({len(self.gates) - 1} if num_aligned_only else ())
        self.processor = StreamInputProcessor(
            [(0, position, gate) for position, gate in enumerate(self.gates)],
            self.head,  # type: ignore[arg-type]
            lambda: None,
            lambda gates: CheckpointedInputs(
                gates, aligned_only, self, self.clock, lambda delay_ms, action: self.timers.append(action)
            ),
            self.clock,
        )
        self.queues = [deque(script) for script in scripts]
        self.has_ended = False

    # -- the task ----------------------------------------------------------------------------------------------

    def on_inputs_aligned(self, barrier: CheckpointBarrier, metrics: Any, *, has_capture: bool) -> None:
        assert barrier.checkpoint_id not in self.snapshots
        assert metrics.alignment_duration_ns >= 0
        self.snapshots[barrier.checkpoint_id] = list(self.head.processed)
        if not has_capture:
            self.captured[barrier.checkpoint_id] = []

    def on_capture_finished(self, checkpoint_id: int, captured: Any, duration_ns: int, num_bytes: int) -> None:
        assert checkpoint_id in self.snapshots
        self.captured[checkpoint_id] = [row for _, _, batches in captured for batch in batches for row in batch.values]

    def on_checkpoint_aborted(self, checkpoint_id: int, reason: Any) -> None:
        self.aborted.add(checkpoint_id)

    # -- steps -------------------------------------------------------------------------------------------------

    def deliver(self, channel: int) -> None:
        if self.queues[channel]:
            gate, index = self.channels[channel]
            gate.put(index, self.queues[channel].popleft())

    def process(self) -> None:
        if self.has_ended:
            self.processor.drain_ends()
        else:
            self.has_ended = self.processor.process_next() is ActionStatus.END

    def time_out(self) -> None:
        timers, self.timers = self.timers, []
        for timer in timers:
            timer(0)

    def run_out(self) -> None:
        for channel in range(len(self.scripts)):
            while self.queues[channel]:
                self.deliver(channel)
        for _ in range(3 * sum(map(len, self.scripts)) + 10):
            self.process()

    # -- invariants --------------------------------------------------------------------------------------------

    def before(self, checkpoint_id: int) -> list[Any]:
        """Returns the records before the barrier. A channel that ended without a barrier counts completely."""
        rows: list[Any] = []
        for script in self.scripts:
            for item in script:
                if isinstance(item, CheckpointBarrier) and item.checkpoint_id == checkpoint_id:
                    break
                if isinstance(item, Batch):
                    rows.extend(item.values)
        return rows

    def check_everything_came_once_and_in_order(self) -> None:
        assert all(not any(gate.blocked) for gate in self.gates)
        assert all(not gate.queue for gate in self.gates)
        for channel, script in enumerate(self.scripts):
            sent = [row for item in script if isinstance(item, Batch) for row in item.values]
            assert [row for row in self.head.processed if row[0] == channel] == sent


def barrier(checkpoint_id: int, alignment: Any, timeout_ms: int = 0) -> CheckpointBarrier:
    options = checkpoint_pb2.CheckpointOptions(alignment=alignment, aligned_timeout_ms=timeout_ms)
    return CheckpointBarrier(checkpoint_id, 0, options)


@st.composite
def channels(draw: st.DrawFn) -> tuple[list[list[int]], int]:
    """Draws the number of batches per channel before each barrier and after the last one, and how many of the last
    channels must stay aligned. A negative number of batches means that the channel ends before that barrier.
    """
    count = draw(st.integers(1, 4))
    shapes = [
        draw(st.lists(st.integers(-1, 3), min_size=NUM_CHECKPOINTS + 1, max_size=NUM_CHECKPOINTS + 1))
        for _ in range(count)
    ]
    return shapes, draw(st.integers(0, count - 1))


def scripts_of(shapes: list[list[int]], make_barrier: Any) -> list[list[Any]]:
    scripts = []
    for channel, shape in enumerate(shapes):
        script: list[Any] = []
        number = 0
        for position, count in enumerate(shape):
            for _ in range(max(count, 0)):
                script.append(Batch([(channel, number), (channel, number + 1)]))
                number += 2
            if count < 0:
                break
            if position < NUM_CHECKPOINTS:
                script.append(make_barrier(channel, position + 1))
        scripts.append([*script, EndOfData(), EndOfPartition()])
    return scripts


STEPS = st.lists(st.integers(0, 5), max_size=120)


def drive(model: Model, steps: list[int], *, can_time_out: bool = False) -> None:
    for step in steps:
        if step < len(model.scripts):
            model.deliver(step)
        elif step == 5 and can_time_out:
            model.time_out()
        else:
            model.process()
    model.run_out()
    model.check_everything_came_once_and_in_order()


def reached(shapes: list[list[int]], checkpoint_id: int) -> bool:
    """True if some channel delivers this barrier."""
    return any(all(count >= 0 for count in shape[:checkpoint_id]) for shape in shapes)


@given(channels(), STEPS)
def test_an_aligned_snapshot_contains_exactly_the_records_before_the_barriers(shapes_and_forced, steps):
    shapes, _ = shapes_and_forced
    model = Model(scripts_of(shapes, lambda channel, number: barrier(number, ALIGNED)), 0)

    drive(model, steps)

    for checkpoint_id in range(1, NUM_CHECKPOINTS + 1):
        if reached(shapes, checkpoint_id):
            assert sorted(model.snapshots[checkpoint_id]) == sorted(model.before(checkpoint_id))
    assert not model.aborted


@given(channels(), STEPS)
def test_an_at_least_once_snapshot_contains_all_records_before_the_barriers(shapes_and_forced, steps):
    shapes, _ = shapes_and_forced
    model = Model(scripts_of(shapes, lambda channel, number: barrier(number, AT_LEAST_ONCE)), 0)

    drive(model, steps)

    for checkpoint_id in range(1, NUM_CHECKPOINTS + 1):
        if reached(shapes, checkpoint_id):
            assert set(model.before(checkpoint_id)) <= set(model.snapshots[checkpoint_id])


@given(channels(), STEPS)
def test_an_unaligned_checkpoint_contains_each_record_once_processed_or_captured(shapes_and_forced, steps):
    shapes, num_aligned_only = shapes_and_forced
    free = len(shapes) - num_aligned_only

    def make_barrier(channel, number):
        return barrier(number, UNALIGNED if channel < free else FORCED)

    model = Model(scripts_of(shapes, make_barrier), num_aligned_only)

    drive(model, steps)

    check_complete_or_aborted(model, shapes)


@given(channels(), STEPS)
def test_a_checkpoint_that_turns_unaligned_contains_each_record_once(shapes_and_forced, steps):
    shapes, num_aligned_only = shapes_and_forced
    free = len(shapes) - num_aligned_only

    def make_barrier(channel, number):
        return barrier(number, ALIGNED if channel < free else FORCED, timeout_ms=1_000)

    model = Model(scripts_of(shapes, make_barrier), num_aligned_only)

    drive(model, steps, can_time_out=True)

    check_complete_or_aborted(model, shapes)


def check_complete_or_aborted(model: Model, shapes: list[list[int]]) -> None:
    for checkpoint_id in range(1, NUM_CHECKPOINTS + 1):
        if not reached(shapes, checkpoint_id):
            continue
        if checkpoint_id in model.aborted:
            # Permitted only if a newer barrier overtook all data of a channel that still owed this barrier.
            assert any(newer in model.snapshots for newer in range(checkpoint_id + 1, NUM_CHECKPOINTS + 1))
            continue
        both = model.snapshots[checkpoint_id] + model.captured[checkpoint_id]
        assert sorted(both) == sorted(model.before(checkpoint_id))
