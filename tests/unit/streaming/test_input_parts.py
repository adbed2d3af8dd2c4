"""A task looks at its mailbox in between: what takes long is processed in parts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from streaming_fakes import FakeInputGate

from flinkpy._proto import checkpoint_pb2
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier
from flinkpy.streaming.io.stream_input_processor import StreamInputProcessor


class SlowHead:
    """Takes a millisecond of a clock of its own for each record."""

    def __init__(self, ms_per_record: float) -> None:
        self.now_ns = 0
        self.batches: list[list[int]] = []
        self._ns_per_record = int(ms_per_record * 1e6)
        self.clock: Any = SimpleNamespace(monotonic_ns=lambda: self.now_ns)

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self.batches.append(list(batch.values))
        self.now_ns += batch.num_rows * self._ns_per_record

    def after_batch(self, rows: int) -> None:
        return

    @property
    def rows(self) -> list[int]:
        return [row for batch in self.batches for row in batch]


class Inputs:
    """Takes down the barriers."""

    def __init__(self, gates: object) -> None:
        self.barriers: list[int] = []

    def offset_of(self, index: int) -> int:
        return 0

    def on_barrier(self, channel: int, barrier: CheckpointBarrier) -> None:
        self.barriers.append(barrier.checkpoint_id)


def processor_of(head: SlowHead, gate: FakeInputGate) -> StreamInputProcessor:
    return StreamInputProcessor([(0, 0, gate)], head, lambda: None, Inputs, head.clock)  # type: ignore[arg-type]


def test_a_slow_operator_gets_batches_in_parts_of_some_milliseconds():
    head, gate = SlowHead(1), FakeInputGate()
    for start in range(0, 20_000, 5_000):
        gate.put(0, Batch(list(range(start, start + 5_000))))
    processor = processor_of(head, gate)
    while gate.queue:
        processor.process_next()
    assert head.rows == list(range(20_000))
    assert max(len(batch) for batch in head.batches[-100:]) <= 20
    assert processor.num_records == 20_000


def test_a_fast_operator_gets_whole_batches():
    head, gate = SlowHead(0.0001), FakeInputGate()
    processor = processor_of(head, gate)
    for start in range(0, 500_000, 50_000):
        gate.put(0, Batch(list(range(start, start + 50_000))))
        while gate.queue:
            processor.process_next()
    assert head.rows == list(range(500_000))
    assert len(head.batches[-1]) == 50_000


def test_a_barrier_overtakes_the_rest_of_a_batch():
    head, gate = SlowHead(1), FakeInputGate()
    gate.put(0, Batch(list(range(10_000))))
    processor = processor_of(head, gate)
    processor.process_next()
    gate.put(0, CheckpointBarrier(7, 0, checkpoint_pb2.CheckpointOptions(alignment=checkpoint_pb2.UNALIGNED)))
    processor.process_next()
    assert processor.checkpointed.barriers == [7]  # type: ignore[attr-defined]
    assert 0 < len(head.rows) < 10_000


def test_what_is_captured_is_not_taken_apart():
    head, gate = SlowHead(1), FakeInputGate()
    gate.put(0, Batch(list(range(10_000))))
    gate.start_capture(7)
    processor_of(head, gate).process_next()
    assert [len(batch) for batch in head.batches] == [10_000]
