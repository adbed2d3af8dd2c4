"""Batches between environments over real sockets: order, flow control, memory bounds, failure and clean-up."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import (
    AddressInUseError,
    InsufficientNetworkBuffersError,
    PartitionConnectionError,
    PartitionNotFoundError,
    TypeMismatchError,
)
from flinkpy.network.environment import NetworkEnvironment
from flinkpy.network.input_gate import InputGate
from flinkpy.network.options import MIB, NetworkOptions
from flinkpy.network.result_partition import ResultPartition
from flinkpy.network.transport import frames
from flinkpy.network.transport.authenticator import Introductions, LoopbackAuthenticator, PeerRole
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier, Element, EndOfPartition, Watermark
from tests.certificates import authority

TIMEOUT_S = 60.0

Start = Callable[..., NetworkEnvironment]


def descriptors() -> set[str]:
    return {f"{name} {os.readlink(f'/proc/self/fd/{name}')}" for name in os.listdir("/proc/self/fd") if _exists(name)}


def _exists(name: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{name}")


@pytest.fixture(params=["plain", "tls"])
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    """Starts environments, with and without TLS; closes them after the test and checks that no thread, descriptor or
    port is left."""
    material = authority().member() if request.param == "tls" else None
    environments: list[NetworkEnvironment] = []
    threads, open_before = set(threading.enumerate()), descriptors()

    def start_one(**options: object) -> NetworkEnvironment:
        authenticator = options.pop("authenticator", None)
        environment = NetworkEnvironment(
            NetworkOptions(**options),  # type: ignore[arg-type]
            resource_id=f"environment-{len(environments)}",
            authenticator=authenticator,  # type: ignore[arg-type]
            tls=material,
        )
        environments.append(environment)
        environment.start()
        return environment

    yield start_one
    addresses = [environment.address for environment in environments]
    for environment in environments:
        environment.close()
        environment.close()
    assert set(threading.enumerate()) <= threads
    assert descriptors() - open_before == set()
    for address in filter(None, addresses):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=1)


class Reader:
    """A consuming task that polls its gate and waits when it is empty."""

    def __init__(self, environment: NetworkEnvironment, *partitions: tuple[str, str], subpartition: int = 0) -> None:
        self.failures: list[Exception] = []
        self._woken = threading.Event()
        self.gate: InputGate = environment.create_input_gate(
            owner="consumer",
            subpartition_index=subpartition,
            partitions=partitions,
            on_failure=self.failures.append,
        )
        self.gate.set_availability_listener(self._woken.set)
        self.gate.request_partitions()

    def next(self, timeout_s: float = TIMEOUT_S) -> tuple[int, Batch | Element]:
        deadline = time.monotonic() + timeout_s
        while True:
            item = self.gate.poll()
            if item is not None:
                return item
            left = deadline - time.monotonic()
            if left <= 0 or not self._woken.wait(left):
                raise TimeoutError("nothing arrived")
            self._woken.clear()

    def read_all(self) -> list[tuple[int, Batch | Element]]:
        items = []
        while not self.gate.all_channels_finished:
            items.append(self.next())
        return items


def numbers(count: int, start: int = 0) -> Batch:
    return Batch(pa.record_batch({"n": np.arange(start, start + count, dtype=np.int64)}))


def total_rows(items: list[tuple[int, Batch | Element]]) -> int:
    return sum(item.num_rows for _, item in items if isinstance(item, Batch))


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Waits for a condition that has no listener."""
    deadline = time.monotonic() + TIMEOUT_S
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        pause.wait(0.005)


def emit_all(partition: ResultPartition, batches: list[Batch]) -> None:
    """Emits all batches like a producing task that respects back-pressure."""
    available = threading.Event()
    partition.set_availability_listener(available.set)
    for batch in batches:
        while not partition.is_available:
            assert available.wait(TIMEOUT_S)
            available.clear()
        partition.emit(0, batch)
    partition.finish()


def emit_until_stalled(producer: NetworkEnvironment, partition: ResultPartition, batch: Batch) -> int:
    """Emits until nothing has moved for a tenth of a second. Returns the number of batches."""
    emitted, still, sent = 0, 0, 0
    pause = threading.Event()
    while still < 20:
        while partition.is_available:
            partition.emit(0, batch)
            emitted += 1
            still = 0
            statistics = producer.statistics()
            assert statistics.used_segments <= statistics.total_segments
        pause.wait(0.005)
        still = still + 1 if producer.statistics().bytes_sent == sent else 0
        sent = producer.statistics().bytes_sent
    return emitted


def in_background(action: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=action)
    thread.start()
    return thread


def test_everything_arrives_in_order(start: Start) -> None:
    producer, consumer = start(), start()
    partition = producer.create_result_partition(partition_id="p", num_subpartitions=1)
    reader = Reader(consumer, ("p", producer.address))

    partition.emit(0, Batch([{"a": 1}, None], np.array([5, 6])))
    partition.emit_element(Watermark(6))
    partition.emit(0, Batch(numbers(3).values, np.array([7, 8, 9]), np.array([0, 1, 2], np.int8)))
    partition.emit(0, Batch(pa.record_batch({"s": ["x", None, "long " * 100]})))
    partition.emit_element(CheckpointBarrier(1, 2, checkpoint_pb2.CheckpointOptions(alignment="ALIGNED")))
    partition.emit(0, numbers(2))
    partition.finish()

    (rows, watermark, typed, texts, barrier, last, end) = (item for _, item in reader.read_all())
    assert isinstance(rows, Batch) and rows.values == [{"a": 1}, None] and rows.timestamps.tolist() == [5, 6]
    assert watermark == Watermark(6)
    assert isinstance(typed, Batch) and typed.values.column("n").to_pylist() == [0, 1, 2]
    assert typed.timestamps.tolist() == [7, 8, 9] and typed.kinds.tolist() == [0, 1, 2]
    assert isinstance(texts, Batch) and texts.values.column("s").to_pylist() == ["x", None, "long " * 100]
    assert barrier == CheckpointBarrier(1, 2, checkpoint_pb2.CheckpointOptions(alignment="ALIGNED"))
    assert isinstance(last, Batch) and last.values.column("n").to_pylist() == [0, 1]
    assert end == EndOfPartition()
    assert partition.wait_released(TIMEOUT_S)
    assert consumer.statistics().used_segments == 0 or not reader.gate.close()
    wait_until(lambda: consumer.statistics().used_segments == 0, "the gate's buffers come back")


@pytest.mark.parametrize("rows", [1, 1_000, 100_000])
def test_many_batches_of_any_size_arrive_once_and_in_order(start: Start, rows: int) -> None:
    producer, consumer = start(), start()
    partition = producer.create_result_partition(partition_id="p", num_subpartitions=1)
    reader = Reader(consumer, ("p", producer.address))
    count = 300 if rows < 100_000 else 60
    thread = in_background(lambda: emit_all(partition, [numbers(rows, i * rows) for i in range(count)]))

    expected = 0
    while not isinstance((item := reader.next()[1]), EndOfPartition):
        assert isinstance(item, Batch)
        column = item.values.column("n").to_numpy()
        assert column[0] == expected and column[-1] == expected + len(column) - 1
        expected += len(column)
    thread.join()
    assert expected == rows * count


def test_channels_share_one_connection_and_the_next_job_reuses_it(start: Start) -> None:
    producer, consumer = start(), start()
    for job in range(2):
        ids = [f"job-{job}-partition-{index}" for index in range(5)]
        partitions = [producer.create_result_partition(partition_id=id_, num_subpartitions=1) for id_ in ids]
        reader = Reader(consumer, *((id_, producer.address) for id_ in ids))
        for index, partition in enumerate(partitions):
            partition.emit(0, Batch([index]))
            partition.finish()

        items = reader.read_all()

        assert sorted((channel, item.values[0]) for channel, item in items if isinstance(item, Batch)) == [
            (index, index) for index in range(5)
        ]
        assert consumer.statistics().connections == producer.statistics().connections == 1
        reader.gate.close()


def test_memory_in_flight_stays_under_the_bound_while_the_sink_is_stalled(start: Start) -> None:
    producer, consumer = start(memory_bytes=4 * MIB), start(memory_bytes=2 * MIB)
    partition = producer.create_result_partition(partition_id="p", num_subpartitions=1)
    reader = Reader(consumer, ("p", producer.address))
    batch = numbers(10_000)  # 80,000 bytes: 3 segments

    emitted = emit_until_stalled(producer, partition, batch)

    in_flight = emitted * 80_000
    assert 2 * MIB < in_flight <= (4 + 2) * MIB
    # Only data that fits into the consumer's memory has left the producer.
    assert producer.statistics().bytes_sent <= 2 * MIB + 64 * 1024
    assert producer.statistics().in_flight_bytes <= 4 * MIB
    assert consumer.statistics().in_flight_bytes <= 2 * MIB

    partition.finish()
    assert total_rows(reader.read_all()) == emitted * 10_000
    wait_until(lambda: producer.statistics().used_segments == 0, "the producer's buffers come back")


def test_a_slow_consumer_blocks_only_its_own_channel(start: Start) -> None:
    producer, consumer = start(memory_bytes=8 * MIB), start(memory_bytes=8 * MIB)
    slow = producer.create_result_partition(partition_id="slow", num_subpartitions=1)
    quick = producer.create_result_partition(partition_id="quick", num_subpartitions=1)
    stalled_reader = Reader(consumer, ("slow", producer.address))
    quick_reader = Reader(consumer, ("quick", producer.address))
    batch = numbers(10_000)
    blocked = emit_until_stalled(producer, slow, batch)

    thread = in_background(lambda: emit_all(quick, [batch] * 500))
    assert total_rows(quick_reader.read_all()) == 5_000_000
    thread.join()

    assert slow.queued_bytes > 0, "the channel is still blocked"
    slow.finish()
    assert total_rows(stalled_reader.read_all()) == blocked * 10_000


def test_a_broadcast_reaches_consumers_in_this_and_in_other_processes(start: Start) -> None:
    producer, first, second = start(), start(), start()
    partition = producer.create_result_partition(partition_id="p", num_subpartitions=3)
    readers = [
        Reader(environment, ("p", producer.address), subpartition=index)
        for index, environment in enumerate((producer, first, second))
    ]
    wait_until(lambda: all(part.has_view for part in partition.subpartitions), "all are attached")
    large, small, rows = numbers(100_000), numbers(10), Batch([{"a": 1}], np.array([5]))

    for batch in (large, small, rows):
        partition.emit_broadcast(batch)
    partition.finish()

    for reader in readers:
        *batches, end = (item for _, item in reader.read_all())
        assert end == EndOfPartition()
        columns = [batch.values for batch in batches[:-1]]  # type: ignore[union-attr]
        assert pa.Table.from_batches(columns).equals(pa.Table.from_batches([large.values, small.values]))
        assert batches[-1].values == [{"a": 1}] and batches[-1].timestamps.tolist() == [5]  # type: ignore[union-attr]
    wait_until(lambda: producer.statistics().used_segments == 0, "the producer's buffers come back")


def test_a_batch_with_more_columns_than_one_system_call_accepts_arrives(start: Start) -> None:
    producer, consumer = start(), start()
    partition = producer.create_result_partition(partition_id="p", num_subpartitions=1)
    reader = Reader(consumer, ("p", producer.address))
    wide = pa.record_batch({f"c{index}": np.arange(100, dtype=np.int64) for index in range(2_000)})
    partition.emit(0, Batch(wide))
    partition.finish()

    batches = [item.values for _, item in reader.read_all() if isinstance(item, Batch)]

    assert pa.Table.from_batches(batches).equals(pa.Table.from_batches([wide]))


@pytest.mark.parametrize("row", [b"x" * (3 * MIB), "columns"], ids=["pickled", "columns"])
def test_a_record_larger_than_the_maximum_credit_arrives(start: Start, row: object) -> None:
    producer, consumer = start(memory_bytes=MIB), start(memory_bytes=MIB)
    partition = producer.create_result_partition(partition_id="p", num_subpartitions=1)
    reader = Reader(consumer, ("p", producer.address))
    huge = Batch(pa.record_batch({"s": ["y" * (3 * MIB)]})) if row == "columns" else Batch([row])
    for batch in (huge, numbers(5), huge):
        partition.emit(0, batch)
    partition.finish()

    first, second, third, _ = (item for _, item in reader.read_all())

    for item in (first, third):
        assert isinstance(item, Batch)
        if row == "columns":
            assert item.values.equals(huge.values)
        else:
            assert item.values == huge.values
    assert isinstance(second, Batch) and second.num_rows == 5


def test_idle_credit_is_returned_to_a_gate_that_needs_it(start: Start) -> None:
    producer, consumer = start(), start(memory_bytes=2 * MIB)
    idle = producer.create_result_partition(partition_id="idle", num_subpartitions=1)
    idle_reader = Reader(consumer, ("idle", producer.address))
    idle.emit(0, numbers(1))
    idle_reader.next()
    assert consumer.statistics().used_segments == 32, "half of the memory is granted to the only gate"

    readers = []
    for index in range(8):
        busy = producer.create_result_partition(partition_id=f"busy-{index}", num_subpartitions=1)
        readers.append(Reader(consumer, (f"busy-{index}", producer.address)))
        in_background(lambda busy=busy: emit_all(busy, [numbers(20_000)] * 20))  # type: ignore[misc]

    for reader in readers:
        assert total_rows(reader.read_all()) == 400_000
    assert consumer.statistics().used_segments <= consumer.statistics().total_segments
    idle.emit(0, numbers(50_000))
    assert isinstance(idle_reader.next()[1], Batch)


def test_credit_granted_before_the_partition_appears_is_not_lost(start: Start) -> None:
    producer, consumer = start(), start(memory_bytes=2 * MIB)
    others = [consumer.buffer_pool.create_local_pool(f"other {index}", 1) for index in range(10)]
    reader = Reader(consumer, ("late", producer.address))
    wait_until(lambda: "late" in producer.partition_manager._requests, "the partition is waited for")
    requested = consumer.statistics().bytes_sent

    for other in others:
        other.destroy()
    wait_until(lambda: consumer.statistics().bytes_sent > requested, "the gate, having more memory, granted more")
    for index in range(10):
        consumer.buffer_pool.create_local_pool(f"another {index}", 1)
    partition = producer.create_result_partition(partition_id="late", num_subpartitions=1)
    in_background(lambda: emit_all(partition, [numbers(200_000)] * 5))

    assert total_rows(reader.read_all()) == 1_000_000


def test_two_processes_whose_memory_is_full_of_each_others_input_do_not_deadlock(start: Start) -> None:
    first, second = start(memory_bytes=MIB), start(memory_bytes=MIB)
    for environment, partition_id in ((first, "p1"), (second, "p2")):
        partition = environment.create_result_partition(partition_id=partition_id, num_subpartitions=1)
        partition.emit(0, numbers(1_000_000))  # far more than the memory, but `emit` cannot refuse it
        partition.finish()

    of_second, of_first = Reader(first, ("p2", second.address)), Reader(second, ("p1", first.address))

    assert total_rows(of_second.read_all()) == total_rows(of_first.read_all()) == 1_000_000


def test_gates_beyond_the_network_memory_are_refused(start: Start) -> None:
    environment = start(memory_bytes=MIB)

    with pytest.raises(InsufficientNetworkBuffersError, match=r"input gate of consumer requires 40 .* 32 of 32"):
        Reader(environment, *((f"p{index}", "127.0.0.1:1") for index in range(40)))
    assert environment.buffer_pool.required == 0


def test_a_consumer_finds_a_partition_that_is_registered_late(start: Start) -> None:
    producer, consumer = start(partition_request_timeout_ms=20), start(request_backoff_initial_ms=5)
    reader = Reader(consumer, ("late", producer.address))
    wait_until(lambda: producer.statistics().bytes_sent > 200, "the request was answered with not found at least once")

    partition = producer.create_result_partition(partition_id="late", num_subpartitions=1)
    partition.emit(0, Batch([1]))
    partition.finish()

    assert total_rows(reader.read_all()) == 1


def test_a_partition_that_never_appears_fails_the_gate(start: Start) -> None:
    producer = start(partition_request_timeout_ms=5)
    consumer = start(request_backoff_initial_ms=1, request_backoff_max_ms=4)
    reader = Reader(consumer, ("never", producer.address))

    with pytest.raises(PartitionNotFoundError, match="partition never did not appear"):
        reader.next()
    assert len(reader.failures) == 1


def test_a_producer_that_fails_fails_its_consumers(start: Start) -> None:
    producer, consumer = start(), start()
    partition = producer.create_result_partition(partition_id="p", num_subpartitions=1)
    reader = Reader(consumer, ("p", producer.address))
    partition.emit(0, Batch([1]))
    reader.next()

    producer.release_partition("p", RuntimeError("task failed: no luck"))

    with pytest.raises(PartitionConnectionError, match="producer of partition p is gone: task failed: no luck"):
        reader.next()
    assert consumer.statistics().connections == 1, "other channels continue"


def test_a_consumer_that_disconnects_is_forgotten(start: Start) -> None:
    producer, consumer = start(memory_bytes=MIB), start()
    partition = producer.create_result_partition(partition_id="p", num_subpartitions=1)
    reader = Reader(consumer, ("p", producer.address))
    partition.emit(0, numbers(1))
    reader.next()

    reader.gate.close()
    wait_until(lambda: partition.subpartitions[0].is_released, "the producer notices it")

    for _ in range(100):
        assert partition.is_available
        partition.emit(0, numbers(10_000))
    partition.finish()
    assert partition.is_released


def test_a_dictionary_column_is_split_by_its_decoded_size(start: Start) -> None:
    producer, consumer = start(), start()
    partition = producer.create_result_partition(partition_id="p", num_subpartitions=1)
    reader = Reader(consumer, ("p", producer.address))
    words = pa.DictionaryArray.from_arrays(np.arange(8_000, dtype=np.int8) % 4, [letter * 1000 for letter in "abcd"])
    partition.emit(0, Batch(pa.record_batch({"word": words})))
    partition.emit(0, Batch(pa.record_batch({"word": words.slice(0, 10)})))
    partition.finish()

    batches = [item for _, item in reader.read_all() if isinstance(item, Batch)]
    assert sum(batch.num_rows for batch in batches) == 8_010
    assert max(batch.values.nbytes for batch in batches) < 5 * MIB  # type: ignore[union-attr]
    assert consumer.statistics().used_segments == 0


def test_an_address_without_a_listener_fails_the_gate(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = "127.0.0.1:%d" % server.getsockname()[1]  # noqa: UP031 - clearer beside a tuple
    reader = Reader(start(), ("p", address))

    with pytest.raises(PartitionConnectionError, match=f"cannot connect to {address}"):
        reader.next()


def test_an_invalid_address_fails_the_gate(start: Start) -> None:
    with pytest.raises(PartitionConnectionError, match="'nowhere' is not a data address"):
        Reader(start(), ("p", "nowhere")).next()


def test_a_row_that_cannot_be_pickled_fails_the_task_that_emits_it(start: Start) -> None:
    producer, consumer = start(), start()
    partition = producer.create_result_partition(partition_id="p", num_subpartitions=1)
    reader = Reader(consumer, ("p", producer.address))
    partition.emit(0, Batch([1]))
    reader.next()

    with pytest.raises(TypeMismatchError, match="row 1 of a batch cannot be sent"):
        partition.emit(0, Batch([1, threading.Lock()]))


class Suspicious(LoopbackAuthenticator):
    """Accepts only peers that prove knowledge of the nonce. With `is_honest` this side can prove it."""

    def __init__(self, is_honest: bool) -> None:
        self._is_honest = is_honest

    def proof(self, introductions: Introductions, role: PeerRole) -> bytes:
        return introductions.producer_nonce[::-1] if self._is_honest else b"let me in"

    def accepts(self, peer_host: str, introductions: Introductions, role: PeerRole, proof: bytes) -> bool:
        return proof == introductions.producer_nonce[::-1]


def test_peers_that_authenticate_each_other_exchange_data(start: Start) -> None:
    producer, consumer = start(authenticator=Suspicious(True)), start(authenticator=Suspicious(True))
    partition = producer.create_result_partition(partition_id="p", num_subpartitions=1)
    reader = Reader(consumer, ("p", producer.address))
    partition.emit(0, Batch([1]))
    partition.finish()

    assert total_rows(reader.read_all()) == 1


@pytest.mark.parametrize(("producer_honest", "reason"), [(True, "refused"), (False, "was not authenticated")])
def test_a_peer_that_is_not_authenticated_gets_nothing(start: Start, producer_honest: bool, reason: str) -> None:
    producer = start(authenticator=Suspicious(producer_honest))
    consumer = start(authenticator=Suspicious(not producer_honest))
    if not producer_honest:
        producer._connections._authenticator.accepts = lambda *args, **kwargs: True  # type: ignore[method-assign]
    producer.create_result_partition(partition_id="p", num_subpartitions=1).emit(0, Batch([1]))
    reader = Reader(consumer, ("p", producer.address))

    with pytest.raises(PartitionConnectionError, match=reason):
        reader.next()


@pytest.mark.parametrize(
    "junk",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + b" " * 64,
        frames.frame(frames.HELLO, a=99, b=99, body=bytes(32)),
        frames.frame(frames.PARTITION_REQUEST, 1, 0, 1000, 1000, d=1, body=b"p"),
        frames.HEADER.pack(1 << 31, frames.HELLO, 0, 0, 0, 0, 0, 0, 0, 0),
    ],
    ids=["http", "another version", "no greeting", "too long"],
)
def test_a_peer_with_another_protocol_is_disconnected_and_others_are_not_affected(start: Start, junk: bytes) -> None:
    producer, consumer = start(), start()
    host, _, port = producer.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as stranger:
        stranger.sendall(junk)
        while stranger.recv(4096):
            pass

    partition = producer.create_result_partition(partition_id="p", num_subpartitions=1)
    reader = Reader(consumer, ("p", producer.address))
    partition.finish()
    assert len(reader.read_all()) == 1


def test_the_error_names_a_data_port_in_use(start: Start) -> None:
    address = start().address

    with pytest.raises(AddressInUseError, match=f"{address}.*in use"):
        environment = NetworkEnvironment(port=int(address.rpartition(":")[2]))
        try:
            environment.start()
        finally:
            environment.close()


_PRODUCER = """
import sys, threading
import numpy as np, pyarrow as pa
from flinkpy.network.environment import NetworkEnvironment
from flinkpy.records.batch import Batch
environment = NetworkEnvironment()
print(environment.start(), flush=True)
partitions = [environment.create_result_partition(partition_id=f"p{i}", num_subpartitions=1) for i in range(3)]
for partition in partitions:
    partition.emit(0, Batch(pa.record_batch({"n": np.arange(10)})))
threading.Event().wait()
"""


@pytest.mark.parametrize("start", ["plain"], indirect=True)
def test_a_killed_producer_process_fails_all_its_channels_at_once(start: Start) -> None:
    process = subprocess.Popen([sys.executable, "-c", _PRODUCER], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        consumer = start()
        readers = [Reader(consumer, (f"p{index}", address)) for index in range(3)]
        for reader in readers:
            assert isinstance(reader.next()[1], Batch)

        process.send_signal(signal.SIGKILL)

        for reader in readers:
            with pytest.raises(PartitionConnectionError, match=r"channel to partition p\d broke"):
                reader.next(timeout_s=2.0)
        wait_until(lambda: consumer.statistics().connections == 0, "the broken connection is forgotten")
    finally:
        process.kill()
        process.communicate()
