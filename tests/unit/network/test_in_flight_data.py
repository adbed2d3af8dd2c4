"""Barriers that overtake data, blocked channels, and the files with the overtaken batches."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pytest

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import CorruptStateError, InternalError
from flinkpy.network.buffer_pool import NetworkBufferPool
from flinkpy.network.channel_state import ChannelStateReader, write_channel_state
from flinkpy.network.credit import CreditManager
from flinkpy.network.in_flight import InFlightBatch, freeze
from flinkpy.network.input_gate import InputGate
from flinkpy.network.partitioner import GlobalPartitioner
from flinkpy.network.record_writer import RecordWriter
from flinkpy.network.result_partition import ResultPartition
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier, EndOfPartition, Watermark
from flinkpy.state.checkpoint_streams import CheckpointedStateScope

from .network_fakes import LocalNetwork, ManualTimers, drain, rows
from .wire_fakes import Wire, remote_channel


def barrier(checkpoint_id: int = 1, alignment: str = "UNALIGNED") -> CheckpointBarrier:
    return CheckpointBarrier(checkpoint_id, 10, checkpoint_pb2.CheckpointOptions(alignment=alignment))


def captured(gate: InputGate, checkpoint_id: int = 1) -> list[tuple[int, list[Any]]]:
    return [
        (channel, [batch.to_batch().values for batch in batches])
        for channel, batches in gate.finish_capture(checkpoint_id)
    ]


# ---- within a process


def test_a_priority_barrier_is_delivered_before_queued_batches() -> None:
    network = LocalNetwork()
    partition, gate = network.partition(), network.gate("p")
    partition.emit(0, Batch([1]))
    partition.emit_element(Watermark(7))
    assert partition.emit_priority(barrier()) == []  # the local consumer captures the overtaken batches
    partition.emit(0, Batch([2]))

    assert gate.poll() == (0, barrier())
    gate.start_capture(1)
    assert captured(gate) == [(0, [[1]])]
    assert rows(gate.poll()) == [1]
    assert gate.poll() == (0, Watermark(7))
    assert rows(gate.poll()) == [2]
    assert gate.poll() is None


def test_the_producer_captures_batches_overtaken_before_the_consumer_attached() -> None:
    network = LocalNetwork()
    partition = network.partition()
    partition.emit(0, Batch([1]))
    ((subpartition, batches),) = partition.emit_priority(barrier())
    assert (subpartition, [b.to_batch().values for b in batches]) == (0, [[1]])

    gate = network.gate("p")
    assert gate.poll() == (0, barrier())
    gate.start_capture(1)
    assert captured(gate) == []
    assert rows(gate.poll()) == [1]


def test_batches_before_the_barrier_are_captured_when_they_are_processed() -> None:
    network = LocalNetwork()
    partitions = [network.partition(f"p{i}") for i in range(2)]
    gate = network.gate("p0", "p1")
    partitions[0].emit_priority(barrier())
    partitions[1].emit(0, Batch([1]))
    assert gate.poll() == (0, barrier())
    gate.start_capture(1)
    item = gate.poll()
    assert rows(item) == [1]
    item[1].values[0] = "changed by the function"  # type: ignore[index,union-attr]
    partitions[0].emit(0, Batch(["behind the barrier"]))
    partitions[1].emit(0, Batch([2]))
    partitions[1].emit_priority(barrier())
    assert gate.poll() == (1, barrier())
    assert captured(gate) == [(1, [[1], [2]])]


def test_a_capture_waits_for_every_channel_that_has_not_ended() -> None:
    network = LocalNetwork()
    partitions = [network.partition(f"p{i}") for i in range(3)]
    gate = network.gate("p0", "p1", "p2")
    partitions[0].finish()
    assert drain(gate) == [(0, EndOfPartition())]
    partitions[1].emit_priority(barrier())
    assert gate.poll() == (1, barrier())
    gate.start_capture(1)
    with pytest.raises(InternalError, match=r"channels \[2\] have not delivered the barrier of checkpoint 1"):
        gate.finish_capture(1)
    partitions[2].finish()
    drain(gate)
    assert gate.finish_capture(1) == []
    with pytest.raises(InternalError, match="no capture"):
        gate.finish_capture(1)


def test_late_barriers_of_an_aborted_capture_are_ignored() -> None:
    network = LocalNetwork()
    partitions = [network.partition(f"p{i}") for i in range(2)]
    gate = network.gate("p0", "p1")
    partitions[0].emit_priority(barrier(1))
    gate.poll()
    gate.start_capture(1)
    gate.abort_capture(1)
    partitions[1].emit(0, Batch([1]))
    partitions[1].emit_priority(barrier(1))
    assert gate.poll() == (1, barrier(1))
    assert rows(gate.poll()) == [1]
    for partition in partitions:
        partition.emit_priority(barrier(2))
    assert gate.poll() == (0, barrier(2))
    gate.start_capture(2)
    assert gate.poll() == (1, barrier(2))
    assert gate.finish_capture(2) == []


def test_an_aligned_barrier_is_expedited_from_its_queue_and_on_arrival() -> None:
    network = LocalNetwork()
    partitions = [network.partition(f"p{i}") for i in range(3)]
    gate = network.gate("p0", "p1", "p2")
    partitions[0].emit_element(barrier(1, "ALIGNED"))
    assert gate.poll() == (0, barrier(1, "ALIGNED"))
    gate.block_channel(0)
    partitions[1].emit(0, Batch([1]))
    partitions[1].emit_element(barrier(1, "ALIGNED"))

    gate.convert_to_unaligned(1)
    assert gate.poll() == (1, barrier(1))
    gate.unblock_channels()
    gate.start_capture(1)
    partitions[2].emit(0, Batch([2]))
    partitions[2].emit_element(barrier(1, "ALIGNED"))
    assert gate.poll() == (2, barrier(1))
    assert captured(gate) == [(1, [[1]]), (2, [[2]])]
    assert sorted(rows(item)[0] for item in drain(gate)) == [1, 2]  # type: ignore[type-var]


def test_a_forced_aligned_barrier_is_not_expedited() -> None:
    network = LocalNetwork()
    partitions = [network.partition(f"p{i}") for i in range(2)]
    gate = network.gate("p0", "p1")
    for number, partition in enumerate(partitions):
        partition.emit(0, Batch([number]))
    partitions[0].emit_element(barrier(1, "FORCED_ALIGNED"))
    gate.convert_to_unaligned(1)
    partitions[1].emit_element(barrier(1, "FORCED_ALIGNED"))
    assert not gate.has_priority
    assert [type(item).__name__ for _, item in drain(gate)] == ["Batch", "Batch"] + 2 * ["CheckpointBarrier"]


def test_a_producer_converts_only_the_requested_barrier() -> None:
    network = LocalNetwork()
    partition = network.partition()
    assert partition.convert_to_unaligned(1) is None
    partition.emit(0, Batch([1]))
    partition.emit_element(barrier(1, "ALIGNED"))
    assert partition.convert_to_unaligned(2) is None
    ((_, batches),) = partition.convert_to_unaligned(1) or []
    assert [b.to_batch().values for b in batches] == [[1]]
    assert partition.convert_to_unaligned(1) is None
    assert drain(network.gate("p"))[0] == (0, barrier(1))


def test_a_priority_barrier_overtakes_rows_gathered_by_the_writer() -> None:
    network = LocalNetwork()
    partition, gate = network.partition(), network.gate("p")
    writer = RecordWriter(partition, GlobalPartitioner())
    writer.emit(Batch([1]))
    writer.emit_priority(barrier())
    assert gate.poll() == (0, barrier())
    gate.start_capture(1)
    assert captured(gate) == [(0, [[1]])]


def test_a_priority_barrier_wakes_a_task_that_does_not_poll() -> None:
    network = LocalNetwork()
    partition, gate = network.partition(), network.gate("p")
    partition.emit(0, Batch([1]))
    calls: list[str] = []
    gate.set_availability_listener(lambda: calls.append("available"))
    assert not gate.has_priority
    partition.emit_priority(barrier())
    assert calls == ["available"] and gate.has_priority and gate.is_available
    assert gate.poll_priority() == (0, barrier())
    assert gate.poll_priority() is None and not gate.has_priority
    assert rows(gate.poll()) == [1]


# ---- blocked channels


def test_a_blocked_channel_delivers_no_data_and_is_not_available() -> None:
    network = LocalNetwork()
    partitions = [network.partition(f"p{i}") for i in range(2)]
    gate = network.gate("p0", "p1")
    partitions[0].emit(0, Batch([1]))
    gate.block_channel(0)
    gate.block_channel(0)
    partitions[0].emit(0, Batch([2]))
    assert not gate.is_available and gate.poll() is None
    partitions[1].emit(0, Batch([3]))
    assert rows(gate.poll()) == [3]
    gate.unblock_channels()
    gate.unblock_channels()
    assert [rows(item) for item in drain(gate)] == [[1], [2]]


def test_a_priority_barrier_passes_a_blocked_channel() -> None:
    network = LocalNetwork()
    partition, gate = network.partition(), network.gate("p")
    gate.block_channel(0)
    partition.emit(0, Batch([1]))
    partition.emit_priority(barrier())
    assert gate.poll() == (0, barrier())
    assert gate.poll() is None


# ---- between processes


class Remote:
    """A producer and a consumer with a wire between them; `segments` is the size of the gate's pool."""

    def __init__(self, segments: int = 64, unit: int = 64, *, attach: bool = True) -> None:
        pools = NetworkBufferPool(1024 * unit, unit)
        self.partition = ResultPartition("p0", 1, pools.create_local_pool("p0", 2, 256), unit)
        self.failures: list[Exception] = []
        pool = pools.create_local_pool("gate", 1, segments)
        self.gate = InputGate("consumer", self.failures.append, pool)
        self.wire = Wire(unit)
        self.gate.set_channels([remote_channel(self.gate, 0, CreditManager(pool, 1, 1), self.wire, ManualTimers())])
        self.gate.request_partitions()
        if attach:
            self.wire.attach(self.partition, 0)

    def pump(self) -> None:
        while any([self.wire.gather(), self.wire.deliver(), self.wire.credit()]):
            pass


def test_the_consumer_captures_batches_handed_to_the_socket_before_the_barrier() -> None:
    remote = Remote()
    remote.partition.emit(0, Batch([1]))
    remote.wire.gather()
    remote.partition.emit(0, Batch([2]))
    ((_, batches),) = remote.partition.emit_priority(barrier())
    assert [b.to_batch().values for b in batches] == [[2]]
    remote.pump()
    assert remote.gate.poll() == (0, barrier())
    remote.gate.start_capture(1)
    assert captured(remote.gate) == [(0, [[1]])]
    assert [rows(item) for item in drain(remote.gate)] == [[1], [2]]


def test_the_producer_captures_a_partly_sent_record_as_a_whole() -> None:
    remote = Remote(segments=2)
    remote.partition.emit(0, Batch(["x" * 900]))
    polled: list[Any] = []
    while remote.wire.sender is not None and remote.wire.sender._rest is None:
        remote.wire.gather()
        remote.wire.deliver()
        remote.wire.credit()
    remote.wire.deliver()  # the first part arrives
    remote.partition.emit(0, Batch([2]))
    ((_, batches),) = remote.partition.emit_priority(barrier())
    assert [b.to_batch().values for b in batches] == [["x" * 900], [2]]
    remote.pump()
    polled += drain(remote.gate)
    assert polled[0] == (0, barrier())
    remote.gate.start_capture(1)
    assert captured(remote.gate) == []
    remote.pump()
    polled += drain(remote.gate)
    assert [rows(item) for item in polled[1:]] == [["x" * 900], [2]]


def test_a_barrier_passes_a_sender_without_credit() -> None:
    remote = Remote(segments=1)
    for number in range(5):
        remote.partition.emit(0, Batch([number]))
    remote.pump()
    remote.partition.emit_priority(barrier())
    remote.pump()
    assert remote.gate.poll() == (0, barrier())


def test_a_barrier_emitted_before_the_consumer_attached_is_sent_first() -> None:
    remote = Remote(attach=False)
    remote.partition.emit(0, Batch([1]))
    ((_, batches),) = remote.partition.emit_priority(barrier())
    assert len(batches) == 1
    remote.wire.attach(remote.partition, 0)
    remote.pump()
    assert remote.gate.poll() == (0, barrier())
    remote.gate.start_capture(1)
    assert captured(remote.gate) == []
    assert rows(remote.gate.poll()) == [1]


def test_the_producer_cannot_convert_an_aligned_barrier_that_was_sent() -> None:
    remote = Remote()
    remote.partition.emit(0, Batch([1]))
    remote.partition.emit_element(barrier(1, "ALIGNED"))
    remote.pump()
    assert remote.partition.convert_to_unaligned(1) is None
    remote.gate.convert_to_unaligned(1)
    assert remote.gate.poll() == (0, barrier(1))


def test_closing_a_gate_drops_its_barriers() -> None:
    remote = Remote()
    remote.partition.emit(0, Batch([1]))
    remote.partition.emit_priority(barrier())
    remote.pump()
    remote.gate.close()
    assert not remote.gate.has_priority and remote.gate.poll() is None


# ---- files


class Streams:
    """Args: directory: None: all state is inlined."""

    can_share = False

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        self.opened = 0

    def create(self, scope: CheckpointedStateScope = CheckpointedStateScope.EXCLUSIVE) -> Any:
        return _Stream(self.directory)

    def store_file(self, source: Path, scope: CheckpointedStateScope) -> checkpoint_pb2.StreamStateHandle:
        raise AssertionError("not used")

    def open(self, handle: checkpoint_pb2.StreamStateHandle) -> BinaryIO:
        self.opened += 1
        data = handle.data or Path(handle.path).read_bytes()
        assert hashlib.sha256(data).digest() == handle.sha256
        return io.BytesIO(data)

    def fetch(
        self,
        handle: checkpoint_pb2.StreamStateHandle,
        target: Path,
        *,
        never_changes: bool = False,
        checks_itself: bool = False,
    ) -> None:
        raise AssertionError("not used")


class _Stream(io.BytesIO):
    def __init__(self, directory: Path | None) -> None:
        super().__init__()
        self._directory = directory

    def close_and_get_handle(self) -> checkpoint_pb2.StreamStateHandle:
        data = self.getvalue()
        handle = checkpoint_pb2.StreamStateHandle(size_bytes=len(data), sha256=hashlib.sha256(data).digest())
        if self._directory is None:
            handle.data = data
        else:
            path = self._directory / hashlib.sha256(data).hexdigest()
            path.write_bytes(data)
            handle.path = str(path)
        return handle

    def abort(self) -> None:
        self.close()


@pytest.fixture(params=["inlined", "file"])
def streams(request: pytest.FixtureRequest, tmp_path: Path) -> Streams:
    return Streams(tmp_path if request.param == "file" else None)


COLUMNS = pa.record_batch({"a": [1, None, 3], "b": ["x", "", None], "c": pa.array(["u", "v", "u"]).dictionary_encode()})


def plain(batch: Batch) -> tuple[Any, ...]:
    values = batch.values if isinstance(batch.values, list) else batch.values.to_pylist()
    return (
        values,
        None if batch.timestamps is None else batch.timestamps.tolist(),
        None if batch.kinds is None else batch.kinds.tolist(),
    )


BATCHES: list[tuple[int, list[Batch]]] = [
    (0, [Batch(COLUMNS, np.array([1, 2, 3])), Batch(COLUMNS.slice(1, 1))]),
    (
        3,
        [
            Batch([{"k": (1, "ü")}, None], np.array([-5, 1 << 60]), np.array([0, 3], dtype=np.int8)),
            Batch(pa.record_batch({"other": [1.5]})),
        ],
    ),
    (7, []),
]


def test_restored_batches_have_their_timestamps_and_kinds(streams: Streams) -> None:
    frozen: list[tuple[int, list[InFlightBatch | Batch]]] = [
        (channel, [freeze(batch) if index % 2 else batch for index, batch in enumerate(batches)])
        for channel, batches in BATCHES
    ]
    handles = write_channel_state(streams, True, 2, 5, frozen)
    assert [(h.is_output, h.edge_index, h.subtask_index, h.channel_index) for h in handles] == [
        (True, 2, 5, 0),
        (True, 2, 5, 3),
    ]
    for handle, (_, batches) in zip(handles, BATCHES, strict=False):
        assert [plain(b) for b in ChannelStateReader(streams).read(handle)] == [plain(b) for b in batches]


def test_channels_share_a_file_that_is_opened_once(tmp_path: Path) -> None:
    streams = Streams(tmp_path)
    handles = write_channel_state(streams, False, 0, 0, BATCHES)
    assert len({handle.file.path for handle in handles}) == 1
    reader = ChannelStateReader(streams)
    assert [len(list(reader.read(handle))) for handle in handles] == [2, 2]
    assert streams.opened == 1
    reader.close()


def test_no_file_is_written_without_in_flight_batches(tmp_path: Path) -> None:
    assert write_channel_state(Streams(tmp_path), False, 0, 0, [(0, [])]) == []
    assert list(tmp_path.iterdir()) == []


def test_received_batches_are_written_in_their_wire_form(streams: Streams) -> None:
    remote = Remote()
    remote.partition.emit(0, Batch(COLUMNS.slice(0, 2), np.array([8, 9])))
    remote.pump()
    remote.partition.emit_priority(barrier())
    remote.pump()
    assert remote.gate.poll() == (0, barrier())
    remote.gate.start_capture(1)
    (handle,) = write_channel_state(streams, False, 0, 0, remote.gate.finish_capture(1))
    (batch,) = ChannelStateReader(streams).read(handle)
    assert plain(batch) == plain(Batch(COLUMNS.slice(0, 2), np.array([8, 9])))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda h, data: data.replace(b"FPYCHAN1", b"notthis1"), "does not begin with the magic number"),
        (lambda h, data: data[:-8], "ends before byte"),
        (lambda h, data: h.lengths.__setitem__(0, 8) or data, "has only 8 bytes"),
        (lambda h, data: h.lengths.__setitem__(0, 56) or data, "longer than its entry"),
    ],
)
def test_a_corrupt_file_is_refused(damage: Callable[[Any, bytes], bytes], message: str, tmp_path: Path) -> None:
    streams = Streams(tmp_path)
    (handle,) = write_channel_state(streams, False, 0, 0, [(0, [Batch([1, 2])])])
    data = damage(handle, Path(handle.file.path).read_bytes())
    Path(handle.file.path).write_bytes(data)
    handle.file.sha256 = hashlib.sha256(data).digest()
    with pytest.raises(CorruptStateError, match=message):
        list(ChannelStateReader(streams).read(handle))
