"""A task checks its mailbox between batches. Slow batches are processed in parts, and small ones are merged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from streaming_fakes import FakeInputGate

from flinkpy._proto import checkpoint_pb2
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier, Watermark
from flinkpy.streaming.io.stream_input_processor import StreamInputProcessor


class SlowHead:
    """Uses CPU time of a manual clock for each record."""

    inputs_without_watermarks: tuple[int, ...] = ()

    def __init__(self, ms_per_record: float) -> None:
        self.now_ns = 0
        self.batches: list[list[int]] = []
        #: The watermarks, each with the number of records before it.
        self.elements: list[tuple[Watermark, int]] = []
        self.ns_per_record = int(ms_per_record * 1e6)
        self.clock: Any = SimpleNamespace(monotonic_ns=lambda: self.now_ns, thread_time_ns=lambda: self.now_ns)

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self.batches.append(
            list(batch.values) if isinstance(batch.values, list) else batch.values.column(0).to_pylist()
        )
        self.now_ns += batch.num_rows * self.ns_per_record

    def process_element(self, element: Watermark) -> None:
        self.elements.append((element, len(self.rows)))

    def after_batch(self, rows: int) -> None:
        return

    @property
    def rows(self) -> list[int]:
        return [row for batch in self.batches for row in batch]


class Inputs:
    """Records the barriers."""

    def __init__(self, gates: object) -> None:
        self.barriers: list[int] = []

    def offset_of(self, index: int) -> int:
        return 0

    def on_barrier(self, channel: int, barrier: CheckpointBarrier) -> None:
        self.barriers.append(barrier.checkpoint_id)


def processor_of(head: SlowHead, gate: FakeInputGate) -> StreamInputProcessor:
    return StreamInputProcessor([(0, 0, gate)], head, lambda: None, Inputs, head.clock)  # type: ignore[arg-type]


def test_slow_operator_gets_parts_of_batches():
    head, gate = SlowHead(1), FakeInputGate()
    for start in range(0, 20_000, 5_000):
        gate.put(0, Batch(list(range(start, start + 5_000))))
    processor = processor_of(head, gate)
    while gate.queue:
        processor.process_next()
    assert head.rows == list(range(20_000))
    assert max(len(batch) for batch in head.batches[-100:]) <= 20
    assert processor.num_records == 20_000


def test_fast_operator_gets_whole_batches():
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


def test_captured_batches_are_not_cut():
    head, gate = SlowHead(1), FakeInputGate()
    gate.put(0, Batch(list(range(10_000))))
    gate.start_capture(7)
    processor_of(head, gate).process_next()
    assert [len(batch) for batch in head.batches] == [10_000]


def drained(head: SlowHead, gate: FakeInputGate) -> StreamInputProcessor:
    processor = processor_of(head, gate)
    while gate.queue:
        processor.process_next()
    return processor


def test_accumulated_small_batches_are_merged():
    head, gate = SlowHead(0.0001), FakeInputGate(2)
    for value in range(200):
        gate.put(value % 2, Batch([value]))

    processor = drained(head, gate)

    assert head.batches == [list(range(200))]
    assert (processor.num_records, processor.num_batches) == (200, 1)


def test_batches_are_not_merged_across_an_element():
    head, gate = SlowHead(0.0001), FakeInputGate()
    for item in (Batch([1]), Batch([2]), Watermark(5), Batch([3]), Batch([4])):
        gate.put(0, item)

    drained(head, gate)

    assert head.batches == [[1, 2], [3, 4]]
    assert head.elements == [(Watermark(5), 2)]


def test_merged_batches_are_limited_to_the_batch_size():
    head, gate = SlowHead(1), FakeInputGate(2)
    for start in range(0, 3_000, 30):
        gate.put((start // 30) % 2, Batch(list(range(start, start + 30))))

    drained(head, gate)

    assert head.rows == list(range(3_000))
    assert len(head.batches[0]) == 256
    assert max(len(batch) for batch in head.batches[-100:]) <= 20


def test_batches_with_other_lanes_or_columns_are_not_merged():
    head, gate = SlowHead(0.0001), FakeInputGate()
    ints = pa.array([1, 2])
    first = Batch(pa.record_batch({"a": ints}))
    for batch in (first, first, Batch(pa.record_batch({"b": ints})), Batch([7]), Batch([8], np.array([1]))):
        gate.put(0, batch)

    drained(head, gate)

    assert [len(batch) for batch in head.batches] == [4, 2, 1, 1]


def test_captured_batches_are_not_merged():
    head, gate = SlowHead(0.0001), FakeInputGate()
    gate.put(0, Batch([1]))
    gate.put(0, Batch([2]))
    gate.start_capture(7)

    drained(head, gate)

    assert head.batches == [[1], [2]]


def test_small_batch_size_grows_again():
    """The first batch is slow, as if it imported the modules of the program."""
    head, gate = SlowHead(50), FakeInputGate()
    processor = processor_of(head, gate)
    gate.put(0, Batch(list(range(256))))
    processor.process_next()
    head.ns_per_record = 100
    for _ in range(12):
        gate.put(0, Batch(list(range(50_000))))
        processor.process_next()

    assert len(head.batches[1]) == 1
    assert len(head.batches[-1]) == 50_000
