"""Unaligned checkpoints contain in-flight data exactly once, under any interleaving.

Each batch that was sent before a barrier is either processed before the snapshot or persisted with it, once and in
order. All data is delivered exactly once. The test has one gate with local and remote channels, and the real queues and
flow control. It moves every part step by step: producers, sockets, I/O and the consuming task.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "network"))

from network_fakes import ManualTimers
from wire_fakes import Wire, remote_channel

from flinkpy._proto import checkpoint_pb2
from flinkpy.network.buffer_pool import NetworkBufferPool
from flinkpy.network.credit import CreditManager
from flinkpy.network.in_flight import InFlightBatch
from flinkpy.network.input_channel import InputChannel, LocalInputChannel, RequestBackoff
from flinkpy.network.input_gate import InputGate
from flinkpy.network.partition_manager import ResultPartitionManager
from flinkpy.network.result_partition import ResultPartition
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier, Watermark

UNIT = 64


def values_of(batch: Batch) -> list[Any]:
    rows = batch.values if isinstance(batch.values, list) else batch.values.column(0).to_pylist()
    return [row if isinstance(row, int) else row[0] for row in rows]


class Producer:
    """A producer of one channel.

    Args:
        is_late: the consumer attaches after the producer has emitted data.
    """

    def __init__(self, partition: ResultPartition) -> None:
        self.partition = partition
        self.next_value = 0
        self.next_checkpoint = 1
        #: By checkpoint, the number of records emitted before its barrier, and the data that this side persists.
        self.cuts: dict[int, int] = {}
        self.persisted: dict[int, list[int]] = {}

    def emit(self, rows: int, is_columnar: bool, width: int) -> None:
        numbers = range(self.next_value, self.next_value + rows)
        self.next_value += rows
        if is_columnar:
            self.partition.emit(0, Batch(pa.record_batch({"v": list(numbers), "w": ["x" * width] * rows})))
        else:
            self.partition.emit(0, Batch([(number, "x" * width) for number in numbers]))

    def barrier(self, alignment: int) -> None:
        checkpoint_id = self.next_checkpoint
        self.next_checkpoint += 1
        self.cuts[checkpoint_id] = self.next_value
        barrier = CheckpointBarrier(checkpoint_id, 0, checkpoint_pb2.CheckpointOptions(alignment=alignment))
        self.persisted[checkpoint_id] = []
        if alignment == checkpoint_pb2.UNALIGNED:
            self.keep(checkpoint_id, self.partition.emit_priority(barrier))
        else:
            self.partition.emit_element(barrier)

    def time_out(self) -> None:
        checkpoint_id = self.next_checkpoint - 1
        self.keep(checkpoint_id, self.partition.convert_to_unaligned(checkpoint_id) or [])

    def keep(self, checkpoint_id: int, overtaken: list[tuple[int, list[InFlightBatch]]]) -> None:
        for _, batches in overtaken:
            for batch in batches:
                self.persisted[checkpoint_id] += values_of(batch.to_batch())


class CaptureMachine(RuleBasedStateMachine):
    @initialize(
        remote=st.lists(st.booleans(), min_size=1, max_size=3),
        segments=st.sampled_from([1, 2, 4, 10, 40]),
        is_late=st.booleans(),
        unaligned=st.booleans(),
    )
    def begin(self, remote: list[bool], segments: int, is_late: bool, unaligned: bool) -> None:
        self.alignment = checkpoint_pb2.UNALIGNED if unaligned else checkpoint_pb2.ALIGNED
        network = NetworkBufferPool(4096 * UNIT, UNIT)
        timers = ManualTimers()
        manager = ResultPartitionManager(timers)
        self.failures: list[Exception] = []
        pool = network.create_local_pool("gate", len(remote), max(len(remote), segments))
        self.gate = InputGate("consumer", self.failures.append, pool)
        self.credits = CreditManager(pool, sum(remote) or 1, 1)
        self.producers: list[Producer] = []
        self.wires: dict[int, Wire] = {}
        channels: list[InputChannel] = []
        for index, is_remote in enumerate(remote):
            partition = ResultPartition(f"p{index}", 1, network.create_local_pool(f"p{index}", 2, 64), UNIT)
            self.producers.append(Producer(partition))
            if is_remote:
                wire = self.wires[index] = Wire(UNIT)
                channels.append(remote_channel(self.gate, index, self.credits, wire, timers))
            else:
                channels.append(
                    LocalInputChannel(
                        self.gate,
                        index,
                        f"p{index}",
                        RequestBackoff(100, 400),
                        timers,
                        subpartition_index=0,
                        manager=manager,
                        request_timeout_ms=10_000,
                    )
                )
        self.gate.set_channels(channels)
        self.gate.request_partitions()
        self.manager = manager
        self.unattached = list(range(len(remote)))
        if not is_late:
            while self.unattached:
                self.attach()
        #: The processed records of each channel.
        self.processed: list[list[int]] = [[] for _ in remote]
        # State of the current checkpoint.
        self.current = 0
        self.done = 0
        self.seen: set[int] = set()
        self.snapshot: list[int] | None = None

    def attach(self) -> None:
        index = self.unattached.pop()
        if index in self.wires:
            self.wires[index].attach(self.producers[index].partition, 0)
        else:
            self.manager.register(self.producers[index].partition)

    # ---- producers

    @rule(data=st.data(), rows=st.integers(1, 6), is_columnar=st.booleans(), width=st.sampled_from([0, 10, 300]))
    def emit(self, data: st.DataObject, rows: int, is_columnar: bool, width: int) -> None:
        data.draw(st.sampled_from(self.producers)).emit(rows, is_columnar, width)

    @rule(is_columnar=st.booleans(), width=st.sampled_from([0, 10, 900]))
    def emit_everywhere(self, is_columnar: bool, width: int) -> None:
        for producer in self.producers:
            for _ in range(3):
                producer.emit(1, is_columnar, width)

    @precondition(lambda self: len(self.producers) > 1)
    @rule(is_columnar=st.booleans(), polls=st.integers(1, 5))
    def one_barrier_comes_first(self, is_columnar: bool, polls: int) -> None:
        """The first barrier arrives while other channels have data before their barriers, which is processed after the
        snapshot.
        """
        first = self.producers[0]
        if first.next_checkpoint != self.done + 1:
            return
        self.emit_everywhere(is_columnar, 10)
        first.barrier(self.alignment)
        self.pump()
        self.poll(polls)
        self.time_out()
        self.poll(polls)

    @rule(data=st.data())
    def emit_watermark(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.producers)).partition.emit_element(Watermark(5))

    @rule(data=st.data())
    def emit_barrier(self, data: st.DataObject) -> None:
        """Emits a barrier. The next checkpoint starts when the previous one has ended everywhere."""
        waiting = [p for p in self.producers if p.next_checkpoint == self.done + 1]
        if waiting:
            data.draw(st.sampled_from(waiting)).barrier(self.alignment)

    @rule(data=st.data())
    def time_out_output(self, data: st.DataObject) -> None:
        """The output times out while the producer takes a checkpoint. Later there is nothing to add to it."""
        waiting = [p for p in self.producers if p.next_checkpoint == self.done + 2]
        if waiting and self.alignment == checkpoint_pb2.ALIGNED:
            data.draw(st.sampled_from(waiting)).time_out()

    # ---- network

    @precondition(lambda self: self.unattached)
    @rule()
    def attach_consumer(self) -> None:
        self.attach()

    @precondition(lambda self: self.wires)
    @rule(data=st.data(), what=st.sampled_from(["gather", "deliver", "credit"]), times=st.integers(1, 4))
    def move(self, data: st.DataObject, what: str, times: int) -> None:
        wire = self.wires[data.draw(st.sampled_from(sorted(self.wires)))]
        for _ in range(times):
            getattr(wire, what)()

    @rule()
    def pump(self) -> None:
        for wire in self.wires.values():
            while any([wire.gather(), wire.deliver()]):
                pass

    # ---- the consuming task

    @rule(times=st.integers(1, 8))
    def poll(self, times: int) -> None:
        for _ in range(times):
            item = self.gate.poll()
            if item is not None:
                self.process(*item)

    @rule(times=st.integers(1, 4), rows=st.integers(1, 3))
    def poll_in_parts(self, times: int, rows: int) -> None:
        """The task polls a batch and returns the rows that it cannot process at once."""
        for _ in range(times):
            item = self.gate.poll()
            if item is None:
                return
            channel, content = item
            if isinstance(content, Batch) and content.num_rows > rows and not self.gate.is_capturing:
                self.gate.put_back(channel, content.slice(rows, content.num_rows - rows))
                content = content.slice(0, rows)
            self.process(channel, content)

    @rule(times=st.integers(1, 4), rows=st.integers(1, 12))
    def poll_merged(self, times: int, rows: int) -> None:
        """The task merges small batches up to `rows` rows and returns the rest."""
        for _ in range(times):
            item = self.gate.poll()
            if item is None:
                return
            channel, content = item
            if not isinstance(content, Batch):
                self.process(channel, content)
                continue
            taken = [(channel, content)]
            left = rows - content.num_rows
            while left > 0 and (following := self.gate.poll_batch()) is not None:
                taken.append(following)
                left -= following[1].num_rows
            if left < 0 and not self.gate.is_capturing:
                channel, content = taken.pop()
                self.gate.put_back(channel, content.slice(content.num_rows + left, -left))
                taken.append((channel, content.slice(0, content.num_rows + left)))
            for channel, content in taken:
                self.process(channel, content)

    @rule()
    def poll_priority(self) -> None:
        item = self.gate.poll_priority()
        if item is not None:
            self.process(*item)

    @rule()
    def time_out(self) -> None:
        if self.alignment == checkpoint_pb2.ALIGNED and self.seen and self.snapshot is None:
            self.turn_unaligned()

    def process(self, channel: int, item: Any) -> None:
        if isinstance(item, Batch):
            assert not self.gate.channels[channel].is_blocked
            self.processed[channel] += values_of(item)
            if isinstance(item.values, list):
                item.values[:] = [("changed", "by the function that processed it")]
        elif isinstance(item, CheckpointBarrier):
            self.on_barrier(channel, item)

    def on_barrier(self, channel: int, barrier: CheckpointBarrier) -> None:
        assert barrier.checkpoint_id == self.done + 1
        assert channel not in self.seen, "a barrier is given once"
        self.seen.add(channel)
        if self.snapshot is None:
            if barrier.options.alignment == checkpoint_pb2.UNALIGNED:
                self.turn_unaligned()
            else:
                self.gate.block_channel(channel)
        if len(self.seen) == len(self.producers):
            self.complete()

    def turn_unaligned(self) -> None:
        self.snapshot = [len(done) for done in self.processed]
        self.gate.unblock_channels()
        self.gate.start_capture(self.done + 1)

    def complete(self) -> None:
        checkpoint_id = self.done + 1
        captured: dict[int, list[int]] = {}
        if self.snapshot is None:
            self.snapshot = [len(done) for done in self.processed]
            self.gate.unblock_channels()
        else:
            for index, batches in self.gate.finish_capture(checkpoint_id):
                captured[index] = [value for batch in batches for value in values_of(batch.to_batch())]
        for index, producer in enumerate(self.producers):
            before = self.processed[index][: self.snapshot[index]]
            restored = before + captured.get(index, []) + producer.persisted[checkpoint_id]
            assert restored == list(range(producer.cuts[checkpoint_id])), f"channel {index}"
        self.done = checkpoint_id
        self.seen = set()
        self.snapshot = None

    def teardown(self) -> None:
        """Moves all parts to the end: nothing hangs, all barriers arrive, all data is delivered once and in order."""
        if not hasattr(self, "gate"):
            return
        while self.unattached:
            self.attach()
        for producer in self.producers:
            if producer.next_checkpoint == self.done + 1:
                producer.barrier(self.alignment)
        target = self.done + 1
        moved = True
        while moved:
            moved = False
            for wire in self.wires.values():
                for step in (wire.gather, wire.deliver, wire.credit):
                    moved = step() or moved
            while (item := self.gate.poll()) is not None:
                self.process(*item)
                moved = True
        assert self.failures == []
        assert self.done == target, "a barrier did not come"
        for index, producer in enumerate(self.producers):
            assert self.processed[index] == list(range(producer.next_value))
        self.credits.validate()
        for producer in self.producers:
            assert producer.partition.queued_bytes == 0


TestCaptureMachine = CaptureMachine.TestCase
TestCaptureMachine.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
