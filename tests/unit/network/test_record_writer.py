"""RecordWriter: the time, form and order of the batches that it sends."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.common.clock import ManualClock
from flinkpy.common.errors import FunctionError, TypeMismatchError, UserError
from flinkpy.common.typeinfo import Types
from flinkpy.common.types import Row, RowKind
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.network.partitioner import (
    BroadcastPartitioner,
    CustomPartitioner,
    ForwardPartitioner,
    KeyGroupStreamPartitioner,
    Partitioner,
    RebalancePartitioner,
)
from flinkpy.network.record_writer import MAX_BATCH_ROWS, RecordWriter
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark

from .network_fakes import LocalNetwork, drain

PAIR = Types.TUPLE([Types.LONG(), Types.STRING()])


class Exchange:
    """A writer and the gates that read its output."""

    def __init__(self, partitioner: Partitioner, channels: int = 1, type_info: object = None, timeout_ms: int = 100):
        network = LocalNetwork()
        self.clock = ManualClock(1_000)
        self.partition = network.partition(subpartitions=channels)
        self.gates = [network.gate(subpartition=index) for index in range(channels)]
        self.writer = RecordWriter(
            self.partition, partitioner, type_info, buffer_timeout_ms=timeout_ms, clock=self.clock
        )

    def received(self, channel: int = 0) -> list[object]:
        return [
            (item.values if isinstance(item.values, list) else item.values.to_pylist())
            if isinstance(item, Batch)
            else item
            for _, item in drain(self.gates[channel])
        ]


def test_small_batches_are_gathered_until_flushed() -> None:
    exchange = Exchange(ForwardPartitioner())

    exchange.writer.emit(Batch([1]))
    exchange.writer.emit(Batch([2]))
    assert exchange.received() == []
    exchange.writer.flush()

    assert exchange.received() == [[1, 2]]
    exchange.writer.flush()
    assert exchange.received() == []


def test_the_deadline_starts_with_the_first_gathered_batch_and_ends_with_the_flush() -> None:
    exchange = Exchange(ForwardPartitioner(), timeout_ms=100)
    assert exchange.writer.next_flush_deadline is None

    exchange.writer.emit(Batch([1]))
    exchange.clock.advance(50)
    exchange.writer.emit(Batch([2]))
    assert exchange.writer.next_flush_deadline == 1_100

    exchange.writer.flush()
    assert exchange.writer.next_flush_deadline is None


def test_a_timeout_of_zero_sends_every_batch_at_once() -> None:
    exchange = Exchange(ForwardPartitioner(), timeout_ms=0)

    exchange.writer.emit(Batch([1]))

    assert exchange.received() == [[1]]
    assert exchange.writer.next_flush_deadline is None


def test_without_a_timeout_there_is_no_deadline() -> None:
    exchange = Exchange(ForwardPartitioner(), timeout_ms=-1)

    exchange.writer.emit(Batch([1]))

    assert exchange.writer.next_flush_deadline is None
    assert exchange.received() == []


def test_enough_rows_or_bytes_are_sent_without_a_flush() -> None:
    exchange = Exchange(ForwardPartitioner(), timeout_ms=-1)
    exchange.writer.emit(Batch([1]))
    exchange.writer.emit(Batch(list(range(5_000))))
    assert [len(batch) for batch in exchange.received()] == [5_001]  # type: ignore[arg-type]

    exchange.writer.emit(Batch(["x" * 600_000]))
    exchange.writer.emit(Batch(["x" * 600_000]))
    assert [len(batch) for batch in exchange.received()] == [2]  # type: ignore[arg-type]


def test_a_huge_batch_is_cut() -> None:
    exchange = Exchange(ForwardPartitioner())

    exchange.writer.emit(Batch(list(range(2 * MAX_BATCH_ROWS + 1))))

    assert [len(batch) for batch in exchange.received()] == [MAX_BATCH_ROWS, MAX_BATCH_ROWS, 1]  # type: ignore[arg-type]


def test_a_control_element_is_sent_after_earlier_records() -> None:
    exchange = Exchange(RebalancePartitioner(), channels=2)

    exchange.writer.emit(Batch([1, 2]))
    exchange.writer.emit_element(Watermark(7))
    exchange.writer.emit(Batch([3, 4]))
    exchange.writer.finish()

    assert exchange.received(0)[:3] == [[1], Watermark(7), [3]]
    assert exchange.received(1)[:3] == [[2], Watermark(7), [4]]


def test_timestamps_and_kinds_are_routed_with_their_rows() -> None:
    exchange = Exchange(KeyGroupStreamPartitioner(FieldKeySelector((0,))), channels=2)
    values = [(i, str(i)) for i in range(100)]

    exchange.writer.emit(Batch(values, np.arange(100), np.arange(100).astype(np.int8)))
    exchange.writer.flush()

    seen = 0
    for gate in exchange.gates:
        for _, item in drain(gate):
            assert isinstance(item, Batch)
            assert [row[0] for row in item.values] == item.timestamps.tolist() == item.kinds.tolist()
            seen += item.num_rows
    assert seen == 100


def test_typed_rows_are_sent_as_columns() -> None:
    exchange = Exchange(ForwardPartitioner(), type_info=PAIR, timeout_ms=0)

    exchange.writer.emit(Batch([(1, "a"), (2, None)]))

    assert exchange.received() == [[{"f0": 1, "f1": "a"}, {"f0": 2, "f1": None}]]


def test_the_kinds_of_typed_rows_are_sent_with_their_columns() -> None:
    exchange = Exchange(ForwardPartitioner(), type_info=Types.ROW_NAMED(["n"], [Types.LONG()]), timeout_ms=0)
    deleted = Row(2)
    deleted.set_row_kind(RowKind.DELETE)

    exchange.writer.emit(Batch([Row(1), deleted]))

    [(_, batch)] = drain(exchange.gates[0])
    assert isinstance(batch, Batch) and batch.kinds is not None
    assert batch.kinds.tolist() == [RowKind.INSERT.value, RowKind.DELETE.value]


def test_a_row_that_does_not_match_the_declared_type_is_refused() -> None:
    exchange = Exchange(ForwardPartitioner(), type_info=PAIR, timeout_ms=0)

    with pytest.raises(TypeMismatchError):
        exchange.writer.emit(Batch([("a", 1)]))


def test_batches_that_cannot_be_joined_are_sent_separately_and_in_order() -> None:
    exchange = Exchange(ForwardPartitioner())

    exchange.writer.emit(Batch(pa.record_batch({"a": [1]})))
    exchange.writer.emit(Batch(pa.record_batch({"b": [1]})))
    exchange.writer.emit(Batch([1]))
    exchange.writer.emit(Batch([2], np.zeros(1, np.int64)))
    exchange.writer.flush()

    assert exchange.received() == [[{"a": 1}], [{"b": 1}], [1], [2]]


def test_every_channel_gets_the_whole_broadcast_batch() -> None:
    exchange = Exchange(BroadcastPartitioner(), channels=3, timeout_ms=0)

    exchange.writer.emit(Batch([1, 2]))

    assert [exchange.received(channel) for channel in range(3)] == [[[1, 2]]] * 3


def test_an_error_of_the_key_selector_is_a_function_error() -> None:
    exchange = Exchange(KeyGroupStreamPartitioner(lambda row: row["missing"]), channels=2, timeout_ms=0)

    with pytest.raises(FunctionError, match="key selector: TypeError"):
        exchange.writer.emit(Batch([(1,)]))


def test_a_custom_partitioner_must_return_a_channel() -> None:
    def wrong(key: object, count: int) -> int:
        return count

    exchange = Exchange(CustomPartitioner(wrong, lambda row: row), channels=2, timeout_ms=0)
    with pytest.raises(UserError, match="wrong returned 2 for key 1: it must return an int from 0 to 1"):
        exchange.writer.emit(Batch([1]))

    exchange = Exchange(CustomPartitioner(lambda key, count: 1 / 0, lambda row: row), channels=2, timeout_ms=0)
    with pytest.raises(FunctionError, match="custom partitioner: ZeroDivisionError"):
        exchange.writer.emit(Batch([1]))


def test_an_error_about_a_missing_key_field_names_it_and_the_existing_ones() -> None:
    exchange = Exchange(KeyGroupStreamPartitioner(FieldKeySelector(("user",))), channels=2, timeout_ms=0)

    with pytest.raises(TypeMismatchError, match=r"user.*a, b"):
        exchange.writer.emit(Batch(pa.record_batch({"a": [1], "b": [2]})))


def test_a_typed_record_is_routed_by_the_key_that_its_consumer_sees() -> None:
    """An int in a DOUBLE field is a float after the exchange, and 0.1 in a FLOAT field is another number."""
    kind = Types.TUPLE([Types.DOUBLE(), Types.FLOAT()])
    partitioner = KeyGroupStreamPartitioner(lambda row: (row[0], row[1]))
    exchange = Exchange(partitioner, channels=8, type_info=kind, timeout_ms=0)
    consumers = KeyGroupStreamPartitioner(lambda row: (row["f0"], row["f1"]))
    consumers.setup(8)

    exchange.writer.emit(Batch([(number, 0.1) for number in range(50)]))

    for channel in range(8):
        for rows in exchange.received(channel):
            assert [to for to, _ in consumers.split(Batch(rows))] == [channel]


def test_an_error_about_a_key_names_the_task_and_the_key() -> None:
    partitioner = KeyGroupStreamPartitioner(lambda row: [row], Types.LONG())
    partition = LocalNetwork().partition(subpartitions=2)
    writer = RecordWriter(partition, partitioner, buffer_timeout_ms=0, owner="Source: numbers (1/2)")

    with pytest.raises(TypeMismatchError, match=r"Source: numbers \(1/2\): the key \[7\] \(list\) is not a Long"):
        writer.emit(Batch([7]))
