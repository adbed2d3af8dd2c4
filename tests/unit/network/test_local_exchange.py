"""Partitions and gates of one process: order, fairness, backpressure, end and failure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.common.errors import ClosedError, PartitionConnectionError, PartitionNotFoundError
from flinkpy.network.batch_size import batch_bytes
from flinkpy.records.batch import Batch
from flinkpy.records.elements import EndOfPartition, Watermark

from .network_fakes import UNIT, LocalNetwork, drain, rows


def columns(count: int, start: int = 0) -> Batch:
    return Batch(pa.record_batch({"a": np.arange(start, start + count, dtype=np.int64)}))


def test_a_batch_is_passed_by_reference_and_its_segments_are_recycled() -> None:
    network = LocalNetwork()
    partition, gate = network.partition(), network.gate()
    batch = Batch([object()])

    partition.emit(0, batch)
    assert network.pool.used == 1

    item = gate.poll()
    assert item is not None and item[1] is batch
    assert network.pool.used == 0
    assert gate.poll() is None


def test_batches_and_elements_keep_their_order() -> None:
    network = LocalNetwork()
    partition, gate = network.partition(), network.gate()

    partition.emit(0, Batch([1]))
    partition.emit_element(Watermark(5))
    partition.emit(0, Batch([2]))
    partition.finish()

    items = drain(gate)
    assert [getattr(item, "values", item) for _, item in items] == [[1], Watermark(5), [2], EndOfPartition()]
    assert gate.all_channels_finished


def test_each_subpartition_goes_to_its_own_consumer_and_elements_to_all() -> None:
    network = LocalNetwork()
    partition = network.partition(subpartitions=2)
    gates = [network.gate(subpartition=index) for index in range(2)]

    partition.emit(1, Batch(["second"]))
    partition.emit_element(Watermark(1), subpartition=0)
    partition.emit_broadcast(Batch(["both"]))

    assert [getattr(item, "values", item) for _, item in drain(gates[0])] == [Watermark(1), ["both"]]
    assert [getattr(item, "values", item) for _, item in drain(gates[1])] == [["second"], ["both"]]


def test_channels_with_data_are_served_in_turn() -> None:
    network = LocalNetwork()
    full, sparse = network.partition("full"), network.partition("sparse")
    gate = network.gate("full", "sparse")
    for number in range(3):
        full.emit(0, Batch([number]))
    sparse.emit(0, Batch(["x"]))

    assert [index for index, _ in drain(gate)] == [0, 1, 0, 0]


def test_poll_batch_takes_no_element() -> None:
    network = LocalNetwork()
    partition = network.partition()
    gate = network.gate()
    assert gate.poll_batch() is None
    partition.emit(0, Batch([1]))
    partition.emit_element(Watermark(5))
    partition.emit(0, Batch([2]))

    assert gate.poll_batch()[1].values == [1]  # type: ignore[index]
    assert gate.poll_batch() is None
    assert [item if isinstance(item, Watermark) else item.values for _, item in drain(gate)] == [Watermark(5), [2]]


def test_the_gate_notifies_only_when_it_gets_data_after_it_was_empty() -> None:
    network = LocalNetwork()
    first, second = network.partition("first"), network.partition("second")
    gate = network.gate("first", "second")
    calls: list[bool] = []
    gate.set_availability_listener(lambda: calls.append(gate.is_available))

    for _ in range(3):
        first.emit(0, Batch([1]))
    second.emit(0, Batch([1]))
    assert calls == [True]

    drain(gate)
    assert not gate.is_available
    second.emit(0, Batch([1]))
    assert calls == [True, True]


def test_a_late_consumer_gets_the_queued_data() -> None:
    network = LocalNetwork()
    partition = network.partition()
    partition.emit(0, Batch([1]))

    gate = network.gate()

    assert rows(gate.poll()) == [1]


def test_an_early_consumer_is_served_when_the_partition_is_registered() -> None:
    network = LocalNetwork()
    gate = network.gate()

    network.partition().emit(0, Batch([1]))

    assert rows(gate.poll()) == [1]
    assert all(timer.is_cancelled for timer in network.timers.pending)


def test_requests_for_a_missing_partition_are_repeated_with_growing_pauses_and_then_fail() -> None:
    network = LocalNetwork()
    gate = network.gate()
    pauses = []
    while network.timers.pending:
        pauses.append(network.timers.fire_next())

    assert pauses == [10_000, 100, 10_000, 200, 10_000, 400, 10_000]
    assert isinstance(network.failures[0], PartitionNotFoundError)
    with pytest.raises(PartitionNotFoundError, match="partition p did not appear"):
        gate.poll()


def test_a_subpartition_is_consumed_once() -> None:
    network = LocalNetwork()
    network.partition()
    network.gate()

    network.gate()

    assert "already been consumed" in str(network.failures[0])


def test_a_full_partition_is_unavailable_until_half_of_it_was_consumed() -> None:
    network = LocalNetwork(segments=16)
    partition, gate = network.partition(), network.gate()
    calls: list[int] = []
    partition.set_availability_listener(lambda: calls.append(partition.pool.used))

    emitted = 0
    while partition.is_available:
        partition.emit(0, columns(UNIT // 8))
        emitted += 1
    assert emitted == 13, "the headroom of a quarter is touched, not used up"
    assert partition.queued_bytes <= 16 * UNIT

    while not partition.is_available:
        gate.poll()
    assert calls == [8]


def test_a_batch_larger_than_the_headroom_is_queued_in_slices_in_order() -> None:
    network = LocalNetwork(segments=16)
    partition, gate = network.partition(), network.gate()

    partition.emit(0, columns(UNIT))  # 8 segments; the headroom is 4

    batches = [item for _, item in drain(gate) if isinstance(item, Batch)]
    assert [batch.num_rows for batch in batches] == [UNIT // 2, UNIT // 2]
    assert pa.Table.from_batches([batch.values for batch in batches])["a"].to_pylist() == list(range(UNIT))


def test_a_partition_lives_until_all_data_is_consumed() -> None:
    network = LocalNetwork()
    partition, gate = network.partition(), network.gate()
    partition.emit(0, Batch([1]))

    partition.finish()
    assert not partition.is_released
    drain(gate)

    assert partition.is_released
    assert network.manager.find("p") is None
    assert network.pool.required == 0


def test_a_finished_partition_accepts_no_data() -> None:
    partition = LocalNetwork().partition()
    partition.finish()
    partition.finish()

    with pytest.raises(ClosedError):
        partition.emit(0, Batch([1]))


def test_a_released_partition_fails_its_consumers_and_its_producer() -> None:
    network = LocalNetwork()
    partition, gate = network.partition(), network.gate()
    partition.emit(0, Batch([1]))

    partition.release(RuntimeError("the task was cancelled"))

    assert network.pool.used == 0
    with pytest.raises(PartitionConnectionError, match="the producer of partition p is gone: the task was cancelled"):
        gate.poll()
    assert len(network.failures) == 1
    with pytest.raises(PartitionConnectionError, match="released while its producer was emitting"):
        partition.emit(0, Batch([1]))


def test_the_producer_goes_on_without_its_consumer() -> None:
    network = LocalNetwork(segments=8)
    partition, gate = network.partition(), network.gate()
    partition.emit(0, columns(UNIT))

    gate.close()

    for _ in range(100):
        assert partition.is_available
        partition.emit(0, columns(UNIT // 8))
    partition.finish()
    assert partition.is_released
    assert network.pool.used == 0
    assert network.failures == []


def test_a_closed_gate_no_longer_waits_for_partitions() -> None:
    network = LocalNetwork()
    gate = network.gate()

    gate.close()
    network.partition().emit(0, Batch([1]))

    assert gate.poll() is None


def test_a_partition_id_is_registered_once() -> None:
    network = LocalNetwork()
    network.partition()

    with pytest.raises(ValueError, match="registered already"):
        network.partition()


def test_the_size_of_columns_is_that_of_the_slice_and_the_size_of_objects_is_estimated() -> None:
    whole = columns(1000)
    assert batch_bytes(whole) == 8000
    assert batch_bytes(whole.slice(10, 10)) == 80
    assert batch_bytes(Batch(whole.values, np.zeros(1000, np.int64), np.zeros(1000, np.int8))) == 17_000
    texts = Batch(pa.record_batch({"s": ["x" * 100] * 50}))
    assert 5000 <= batch_bytes(texts) <= 5500

    objects = Batch([{"key": "x" * 10_000}] * 100)
    assert 1_000_000 <= batch_bytes(objects) <= 1_200_000
