"""Barriers through real sockets and threads, with little memory.

Nothing hangs. Each record that was sent before a barrier is either processed before the snapshot or persisted with it,
exactly once. There are two environments, and every consumer reads from producers in both. Producers respect
back-pressure, consumers are slow at random times, and channels are blocked while a checkpoint is aligned.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from flinkpy._proto import checkpoint_pb2
from flinkpy.network.environment import NetworkEnvironment
from flinkpy.network.in_flight import InFlightBatch
from flinkpy.network.options import NetworkOptions
from flinkpy.network.result_partition import ResultPartition
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier, EndOfPartition

TIMEOUT_S = 60.0
CHECKPOINTS = 6

#: (number of barriers, number of polls without a barrier after which the consumer stops aligning)
MODES = {"aligned": (checkpoint_pb2.ALIGNED, None), "unaligned": (checkpoint_pb2.UNALIGNED, None)}
MODES["aligned with timeout"] = (checkpoint_pb2.ALIGNED, 20)


def values_of(batch: Batch) -> list[int]:
    rows = batch.values if isinstance(batch.values, list) else batch.values.column(0).to_pylist()
    return [row if isinstance(row, int) else row[0] for row in rows]


class Exchange:
    """The shared state of producers and consumers. Thread: any."""

    def __init__(self, num_producers: int, num_consumers: int, seed: int, mode: str) -> None:
        self.num_producers, self.num_consumers = num_producers, num_consumers
        self.seed = seed
        self.alignment, self.patience = MODES[mode]
        self.errors: list[BaseException] = []
        self._changed = threading.Condition()
        self._done = [0] * num_consumers
        #: (checkpoint, producer) -> by consumer: persisted records, and the number of records sent before the barrier.
        self.persisted: dict[tuple[int, int], dict[int, list[int]]] = {}
        self.cuts: dict[tuple[int, int], list[int]] = {}
        #: (checkpoint, consumer) -> by producer: records processed before the snapshot, followed by captured records.
        self.restored: dict[tuple[int, int], list[list[int]]] = {}
        self.sent: dict[int, list[int]] = {}
        self.processed: dict[int, list[list[int]]] = {}
        self.overtaken = 0

    def completed(self, consumer: int, checkpoint_id: int) -> None:
        with self._changed:
            self._done[consumer] = checkpoint_id
            self._changed.notify_all()

    @property
    def last_completed(self) -> int:
        return min(self._done)

    def run(self, name: str, body: Any) -> threading.Thread:
        def guarded() -> None:
            try:
                body()
            except BaseException as error:  # noqa: BLE001 - the test shows it
                self.errors.append(error)

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        thread.start()
        return thread


class Producer:
    def __init__(self, exchange: Exchange, index: int, partition: ResultPartition) -> None:
        self.exchange, self.index, self.partition = exchange, index, partition
        self._random = random.Random(f"producer {exchange.seed} {index}")
        self._next = [0] * exchange.num_consumers
        self._available = threading.Event()
        partition.set_availability_listener(self._available.set)

    def run(self) -> None:
        exchange, rng = self.exchange, self._random
        checkpoint_id = 0
        left = 0
        deadline = time.monotonic() + TIMEOUT_S
        while checkpoint_id < CHECKPOINTS or left:
            assert time.monotonic() < deadline, f"producer {self.index} at checkpoint {checkpoint_id}"
            if exchange.errors:
                return
            if left == 0 and checkpoint_id < CHECKPOINTS and exchange.last_completed == checkpoint_id:
                checkpoint_id += 1
                self.barrier(checkpoint_id)
                left = rng.randrange(5, 40)
            elif self.partition.is_available:
                self.emit()
                left = max(0, left - 1)
            elif not self._available.wait(0.01):
                if exchange.patience and rng.random() < 0.1 and exchange.last_completed < checkpoint_id:
                    self.keep(checkpoint_id, self.partition.convert_to_unaligned(checkpoint_id) or [])
            else:
                self._available.clear()
        exchange.sent[self.index] = list(self._next)
        self.partition.finish()

    def emit(self) -> None:
        rng = self._random
        consumer = rng.randrange(self.exchange.num_consumers)
        count = rng.randrange(1, 60)
        start = self._next[consumer]
        self._next[consumer] += count
        numbers = list(range(start, start + count))
        if rng.random() < 0.5:
            batch = Batch(pa.record_batch({"v": numbers, "w": ["x" * rng.randrange(60)] * count}))
        else:
            batch = Batch([(number, "x" * rng.choice([1, 1, 30, 3_000])) for number in numbers])
        self.partition.emit(consumer, batch)

    def barrier(self, checkpoint_id: int) -> None:
        options = checkpoint_pb2.CheckpointOptions(alignment=self.exchange.alignment)
        barrier = CheckpointBarrier(checkpoint_id, 0, options)
        self.exchange.cuts[checkpoint_id, self.index] = list(self._next)
        self.exchange.persisted[checkpoint_id, self.index] = {}
        if options.alignment == checkpoint_pb2.UNALIGNED:
            self.keep(checkpoint_id, self.partition.emit_priority(barrier))
        else:
            self.partition.emit_element(barrier)

    def keep(self, checkpoint_id: int, overtaken: list[tuple[int, list[InFlightBatch]]]) -> None:
        kept = self.exchange.persisted[checkpoint_id, self.index]
        for consumer, batches in overtaken:
            self.exchange.overtaken += len(batches)
            kept.setdefault(consumer, []).extend(v for batch in batches for v in values_of(batch.to_batch()))


class Consumer:
    def __init__(self, exchange: Exchange, index: int, gate: Any) -> None:
        self.exchange, self.index, self.gate = exchange, index, gate
        self._random = random.Random(f"consumer {exchange.seed} {index}")
        self._woken = threading.Event()
        gate.set_availability_listener(self._woken.set)
        self._processed: list[list[int]] = [[] for _ in range(exchange.num_producers)]
        self._checkpoint_id = 0
        self._seen: set[int] = set()
        self._snapshot: list[int] | None = None
        self._polls = 0

    def run(self) -> None:
        self.gate.request_partitions()
        deadline = time.monotonic() + TIMEOUT_S
        while not self.gate.all_channels_finished:
            assert time.monotonic() < deadline, f"consumer {self.index} waits at {self._checkpoint_id} for {self._seen}"
            if self.exchange.errors:
                return
            patience = self.exchange.patience
            if patience and self._seen and self._snapshot is None and self._polls > patience:
                self.turn_unaligned()
            item = self.gate.poll()
            self._polls += 1
            if item is None:
                self._woken.wait(0.01)
                self._woken.clear()
                continue
            channel, content = item
            if isinstance(content, Batch):
                assert not self.gate.channels[channel].is_blocked
                self._processed[channel] += values_of(content)
                if isinstance(content.values, list):
                    content.values.clear()
                if self._random.random() < 0.05:
                    self._woken.wait(0.002)
            elif isinstance(content, CheckpointBarrier):
                self.on_barrier(channel, content)
        self.exchange.processed[self.index] = self._processed

    def on_barrier(self, channel: int, barrier: CheckpointBarrier) -> None:
        if not self._seen:
            self._checkpoint_id += 1
            self._polls = 0
        assert barrier.checkpoint_id == self._checkpoint_id
        assert channel not in self._seen
        self._seen.add(channel)
        if self._snapshot is None:
            if barrier.options.alignment == checkpoint_pb2.UNALIGNED:
                self.turn_unaligned()
            else:
                self.gate.block_channel(channel)
        if len(self._seen) == self.exchange.num_producers:
            self.complete()

    def turn_unaligned(self) -> None:
        self._snapshot = [len(values) for values in self._processed]
        self.gate.unblock_channels()
        self.gate.start_capture(self._checkpoint_id)

    def complete(self) -> None:
        captured: dict[int, list[int]] = {}
        if self._snapshot is None:
            self._snapshot = [len(values) for values in self._processed]
            self.gate.unblock_channels()
        else:
            for channel, batches in self.gate.finish_capture(self._checkpoint_id):
                captured[channel] = [value for batch in batches for value in values_of(batch.to_batch())]
        self.exchange.restored[self._checkpoint_id, self.index] = [
            values[:size] + captured.get(channel, [])
            for channel, (values, size) in enumerate(zip(self._processed, self._snapshot, strict=True))
        ]
        self._seen = set()
        self._snapshot = None
        self.exchange.completed(self.index, self._checkpoint_id)


@pytest.fixture
def environments() -> Iterator[list[NetworkEnvironment]]:
    # 192 segments of 1 KiB: a batch costs up to a whole window, and a record of 3 KB more than some windows.
    options = NetworkOptions(memory_bytes=192 * 1024, segment_size_bytes=1024)
    made = [NetworkEnvironment(options, resource_id=f"environment-{index}") for index in range(2)]
    for environment in made:
        environment.start()
    yield made
    for environment in made:
        environment.close()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.chaos) for seed in range(1, 4))])
def test_every_record_is_in_every_checkpoint_exactly_once(
    mode: str, seed: int, environments: list[NetworkEnvironment]
) -> None:
    rng = random.Random(seed)
    num_producers, num_consumers = rng.randrange(1, 5), rng.randrange(1, 4)
    exchange = Exchange(num_producers, num_consumers, seed, mode)
    producers, addresses = [], []
    for index in range(num_producers):
        environment = environments[index % 2]
        partition = environment.create_result_partition(partition_id=f"p{index}", num_subpartitions=num_consumers)
        producers.append(Producer(exchange, index, partition))
        addresses.append((f"p{index}", environment.address))
    consumers = []
    for index in range(num_consumers):
        gate = environments[(index + 1) % 2].create_input_gate(
            owner=f"consumer {index}",
            subpartition_index=index,
            partitions=addresses,
            on_failure=exchange.errors.append,
        )
        consumers.append(Consumer(exchange, index, gate))
    threads = [exchange.run(f"producer {p.index}", p.run) for p in producers]
    threads += [exchange.run(f"consumer {c.index}", c.run) for c in consumers]
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert exchange.errors == []
    assert not any(thread.is_alive() for thread in threads)

    for consumer in range(num_consumers):
        for producer in range(num_producers):
            assert exchange.processed[consumer][producer] == list(range(exchange.sent[producer][consumer]))
            for checkpoint_id in range(1, CHECKPOINTS + 1):
                restored = list(exchange.restored[checkpoint_id, consumer][producer])
                restored += exchange.persisted[checkpoint_id, producer].get(consumer, [])
                cut = exchange.cuts[checkpoint_id, producer][consumer]
                assert restored == list(range(cut)), f"checkpoint {checkpoint_id}: {producer} -> {consumer}"


def test_a_barrier_overtakes_the_data_of_a_blocked_consumer(environments: list[NetworkEnvironment]) -> None:
    """The barrier arrives at once although all buffers are full."""
    producer, consumer = environments
    partition = producer.create_result_partition(partition_id="p", num_subpartitions=1)
    woken = threading.Event()
    gate = consumer.create_input_gate(
        owner="consumer", subpartition_index=0, partitions=[("p", producer.address)], on_failure=print
    )
    gate.set_availability_listener(lambda: gate.has_priority and woken.set())
    gate.request_partitions()
    sent = 0
    quiet_until = time.monotonic() + 0.5
    while time.monotonic() < quiet_until:  # until no record has moved for a while
        if partition.is_available:
            partition.emit(0, Batch([sent]))
            sent += 1
            quiet_until = time.monotonic() + 0.5
    overtaken = partition.emit_priority(
        CheckpointBarrier(1, 0, checkpoint_pb2.CheckpointOptions(alignment=checkpoint_pb2.UNALIGNED))
    )
    assert woken.wait(10)
    item = gate.poll()
    assert item is not None and isinstance(item[1], CheckpointBarrier)
    gate.start_capture(1)
    ((_, received),) = gate.finish_capture(1)
    queued = [batch for _, batches in overtaken for batch in batches]
    assert [v for batch in [*received, *queued] for v in values_of(batch.to_batch())] == list(range(sent))
    partition.finish()
    rows = 0
    while not gate.all_channels_finished:
        item = gate.poll()
        if item is not None and isinstance(item[1], Batch):
            rows += item[1].num_rows
        assert not isinstance(item and item[1], EndOfPartition) or rows == sent
    assert rows == sent
