"""Blocking partitions between environments over real sockets: order, flow control, bounded memory, damage, death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.common.errors import PartitionConnectionError, PartitionCorruptedError, PartitionNotFoundError
from flinkpy.network.blocking.sort_merge_result_partition import SortMergeResultPartition
from flinkpy.network.environment import NetworkEnvironment
from flinkpy.network.input_gate import InputGate
from flinkpy.network.options import BlockingShuffleOptions, NetworkOptions
from flinkpy.records.batch import Batch
from flinkpy.records.elements import EndOfData, EndOfPartition, Watermark

TIMEOUT_S = 60.0
KIB = 1024
SMALL = {"memory_bytes": 512 * KIB, "segment_size_bytes": 4 * KIB}


class Environments:
    """Producer and consumer processes of one test, in one process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._made: list[NetworkEnvironment] = []

    def start(self, read_memory: int = 1 << 20, **options: Any) -> NetworkEnvironment:
        directory = self._directory / str(len(self._made))
        directory.mkdir()
        environment = NetworkEnvironment(
            NetworkOptions(**options),
            resource_id=f"environment-{len(self._made)}",
            blocking=BlockingShuffleOptions(min_buffers=64, read_memory_bytes=read_memory),
            directories=[directory],
        )
        environment.start()
        self._made.append(environment)
        return environment

    def files(self) -> list[Path]:
        return [path for path in self._directory.rglob("*") if path.is_file()]

    def close(self) -> None:
        for environment in self._made:
            environment.close()


@pytest.fixture
def environments(tmp_path: Path) -> Iterator[Environments]:
    threads, descriptors = set(threading.enumerate()), len(os.listdir("/proc/self/fd"))
    made = Environments(tmp_path)
    yield made
    made.close()
    assert made.files() == []
    assert set(threading.enumerate()) <= threads
    assert len(os.listdir("/proc/self/fd")) <= descriptors


class Reader:
    """A consuming task of some subpartitions."""

    def __init__(
        self, environment: NetworkEnvironment, *partitions: tuple[str, str], first: int = 0, count: int = 1
    ) -> None:
        self.failures: list[Exception] = []
        self._woken = threading.Event()
        self.gate: InputGate = environment.create_input_gate(
            owner="consumer",
            subpartition_index=first,
            num_subpartitions=count,
            partitions=partitions,
            on_failure=self.failures.append,
            is_blocking=True,
        )
        self.gate.set_availability_listener(self._woken.set)
        self.gate.request_partitions()

    def next(self) -> Any:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            item = self.gate.poll()
            if item is not None:
                return item[1]
            left = deadline - time.monotonic()
            if left <= 0 or not self._woken.wait(left):
                raise TimeoutError("nothing arrived")
            self._woken.clear()

    def read_all(self) -> list[Any]:
        """Returns the values of the records and the control elements, except the ends of partitions."""
        found: list[Any] = []
        while not self.gate.all_channels_finished:
            item = self.next()
            if isinstance(item, Batch):
                found += item.values if isinstance(item.values, list) else item.values.column(0).to_pylist()
            elif not isinstance(item, EndOfPartition):
                found.append(item)
        self.gate.close()
        return found


def partition_of(
    environment: NetworkEnvironment, subpartitions: int, partition_id: str = "p"
) -> SortMergeResultPartition:
    partition = environment.create_result_partition(
        partition_id=partition_id, num_subpartitions=subpartitions, partition_type="BLOCKING"
    )
    assert isinstance(partition, SortMergeResultPartition)
    return partition


def columns(values: list[int], width: int = 0) -> Batch:
    fields: dict[str, Any] = {"n": np.array(values, np.int64)}
    if width:
        fields["bytes"] = [os.urandom(width) for _ in values]
    return Batch(pa.RecordBatch.from_pydict(fields))


def fill(partition: SortMergeResultPartition, batches: int = 60, width: int = 200) -> None:
    """Writes to subpartition s the numbers that are s modulo the number of subpartitions, and EndOfData to all."""
    count = partition.num_subpartitions
    for number in range(batches):
        values = list(range(number * 100, number * 100 + 100))
        for subpartition in range(count):
            own = [value for value in values if value % count == subpartition]
            partition.emit(subpartition, columns(own, width) if number % 3 else Batch(own))
    partition.emit_element(EndOfData())
    partition.finish()


def test_remote_and_local_consumers_of_ranges_get_the_same_records(environments: Environments) -> None:
    producer, consumer = environments.start(), environments.start()
    partition = partition_of(producer, 6)
    partition.emit_broadcast(Batch(["to all"]))
    partition.emit_element(Watermark(3))
    fill(partition)
    for first, count in [(0, 1), (5, 1), (1, 3), (0, 6)]:
        local = Reader(producer, ("p", ""), first=first, count=count).read_all()
        remote = Reader(consumer, ("p", producer.address), first=first, count=count).read_all()
        assert local == remote
        assert local[:2] == ["to all", Watermark(3)] and local[-1] == EndOfData()
        numbers = local[2:-1]
        assert sorted(numbers) == [n for n in range(6000) if first <= n % 6 < first + count]
        for subpartition in range(first, first + count):
            own = [n for n in numbers if n % 6 == subpartition]
            assert own == sorted(own)


def test_many_consumers_of_several_partitions_read_at_once(environments: Environments) -> None:
    producers = [environments.start(), environments.start()]
    consumer = environments.start()
    for index, producer in enumerate(producers):
        fill(partition_of(producer, 4, f"p{index}"))
    descriptors = [(f"p{index}", producer.address) for index, producer in enumerate(producers)]
    results: dict[int, list[Any]] = {}

    def read(subpartition: int) -> None:
        results[subpartition] = Reader(consumer, *descriptors, first=subpartition).read_all()

    threads = [threading.Thread(target=read, args=(subpartition,)) for subpartition in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    for subpartition in range(4):
        numbers = [n for n in results[subpartition] if isinstance(n, int)]
        assert sorted(numbers) == sorted(2 * [n for n in range(6000) if n % 4 == subpartition])


def test_frames_larger_than_the_credit_window_arrive_in_pieces(environments: Environments) -> None:
    producer, consumer = environments.start(), environments.start(**SMALL)
    partition = partition_of(producer, 1)
    large = [os.urandom(700 * KIB), os.urandom(3_000 * KIB)]
    partition.emit(0, Batch([large[0]]))
    partition.emit(0, columns(list(range(500)), 1_000))
    partition.emit(0, Batch([large[1]]))
    partition.emit(0, Batch(["last"]))
    partition.finish()
    assert Reader(consumer, ("p", producer.address)).read_all() == [large[0], *range(500), large[1], "last"]
    assert consumer.statistics().used_segments == 0


def test_a_consumer_that_does_not_read_delays_nobody_and_uses_bounded_memory(environments: Environments) -> None:
    read_memory = 512 * KIB
    producer, consumer = environments.start(read_memory=read_memory), environments.start(**SMALL)
    fill(partition_of(producer, 2), batches=200, width=400)
    idle = [Reader(consumer, ("p", producer.address), first=0) for _ in range(2)]
    for one in idle:
        one.next()
    assert len(Reader(consumer, ("p", producer.address), first=1).read_all()) == 10_001
    # Each consumer may hold its next frames in addition to the bound.
    assert producer.blocking.scheduler.used_bytes <= read_memory + 2 * KIB * 512
    for one in idle:
        one.read_all()


def test_a_consumer_that_disconnects_leaves_nothing_behind(environments: Environments) -> None:
    producer, consumer = environments.start(), environments.start()
    fill(partition_of(producer, 1), batches=300)
    reader = Reader(consumer, ("p", producer.address))
    reader.next()
    reader.gate.close()
    scheduler = producer.blocking.scheduler
    deadline = time.monotonic() + TIMEOUT_S
    while scheduler.used_bytes:
        assert time.monotonic() < deadline, f"{scheduler.used_bytes} bytes are held"
        time.sleep(0.005)
    assert len(Reader(consumer, ("p", producer.address)).read_all()) == 30_001


@pytest.mark.parametrize("is_remote", [False, True])
def test_the_consumer_gets_a_typed_error_that_names_a_damaged_partition(
    environments: Environments, is_remote: bool
) -> None:
    producer = environments.start()
    consumer = environments.start() if is_remote else producer
    partition = partition_of(producer, 1)
    fill(partition)
    with open(partition.data_path, "r+b") as file:
        file.seek(partition.data_path.stat().st_size // 2)
        file.write(b"damage")
    with pytest.raises(PartitionCorruptedError) as raised:
        Reader(consumer, ("p", producer.address)).read_all()
    assert raised.value.details["result_partition_id"] == "p"


@pytest.mark.parametrize("is_remote", [False, True])
def test_consumers_do_not_wait_for_a_missing_finished_partition(environments: Environments, is_remote: bool) -> None:
    patient = {"partition_request_timeout_ms": 3_600_000}
    producer = environments.start(**patient)
    consumer = environments.start(**patient) if is_remote else producer
    with pytest.raises(PartitionNotFoundError) as raised:
        Reader(consumer, ("gone", producer.address)).read_all()
    assert raised.value.details["result_partition_id"] == "gone"


@pytest.mark.parametrize("is_remote", [False, True])
def test_releasing_a_partition_fails_its_readers(environments: Environments, is_remote: bool) -> None:
    producer = environments.start()
    consumer = environments.start() if is_remote else producer
    partition = partition_of(producer, 1)
    fill(partition, batches=600)
    reader = Reader(consumer, ("p", producer.address))
    reader.next()
    producer.release_partition("p")
    with pytest.raises(PartitionConnectionError, match="partition p"):
        reader.read_all()


_PRODUCER = """
import os
import sys
from pathlib import Path
from flinkpy.network.environment import NetworkEnvironment
from flinkpy.records.batch import Batch

environment = NetworkEnvironment(directories=[Path(sys.argv[1])])
address = environment.start()
partition = environment.create_result_partition(partition_id="p", num_subpartitions=1, partition_type="BLOCKING")
# Far more than what a consumer and the sockets take before the producer is killed, and compression saves little.
for number in range(20_000):
    partition.emit(0, Batch([(number, os.urandom(1_000))]))
partition.finish()
print(address, flush=True)
sys.stdin.read()
"""


def test_a_killed_producer_process_fails_its_consumers_at_once(environments: Environments, tmp_path: Path) -> None:
    consumer = environments.start(**SMALL)
    directory = tmp_path / "killed"
    directory.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", _PRODUCER, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdin is not None
        reader = Reader(consumer, ("p", process.stdout.readline().strip()))
        reader.next()
        process.send_signal(signal.SIGKILL)
        with pytest.raises(PartitionConnectionError) as raised:
            reader.read_all()
        assert raised.value.details["result_partition_id"] == "p"
    finally:
        process.kill()
        process.communicate()
        for path in directory.iterdir():
            path.unlink()
