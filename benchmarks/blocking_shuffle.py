"""blocking-shuffle: columns written to a blocking partition, sorted by subpartition, and read back by its consumers.

The peer writes the same record batches to one plain Arrow IPC file, with the same codec, and reads it back from its
beginning to its end: no subpartitions, no checksums, no flow control. Both write and read in one process, one after the
other, several times; the best of each counts. The first result is held to the bar: batches come partitioned already, as
the peer's do. In the second our side also computes each key's hash and moves the rows accordingly, which any exchange
by key costs, blocking or not; it is there to be seen.
"""

from __future__ import annotations

import queue
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.result import Result, rate
from flinkpy.common.typeinfo import Types
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.network.environment import NetworkEnvironment
from flinkpy.network.input_gate import InputGate
from flinkpy.network.options import BlockingShuffleOptions
from flinkpy.network.partitioner import KeyGroupStreamPartitioner
from flinkpy.network.record_writer import RecordWriter
from flinkpy.records.batch import Batch
from flinkpy.records.elements import EndOfPartition

_BYTES = 2_000_000_000
_ROWS = 65_536
_SUBPARTITIONS = 16
_ROUNDS = 3
_BAR = 0.5
_CODEC = "lz4"
_TIMEOUT_S = 300.0
_PARTITION = "shuffle#0"


def run(total_bytes: int = _BYTES, rounds: int = _ROUNDS) -> list[Result]:
    """MB/s of Arrow data, written and read back."""
    source = _Source(total_bytes)
    hashed, partitioned, plain = [], [], []
    for _ in range(rounds):
        plain.append(_measure(lambda directory: _plain_file(directory, source)))
        hashed.append(_measure(lambda directory: _shuffle(directory, source, is_hashed=True)))
        partitioned.append(_measure(lambda directory: _shuffle(directory, source, is_hashed=False)))
    megabytes = source.total_bytes / 1e6
    size = f"{megabytes:,.0f} MB over {_SUBPARTITIONS} subpartitions"
    cases = [
        (f"blocking shuffle of partitioned batches, {size}", partitioned, _BAR),
        (f"the same with hash partitioning, {size}", hashed, None),
    ]
    best = min(plain, key=sum)
    return [
        rate(
            name,
            megabytes / sum(min(ours, key=sum)),
            megabytes / sum(best),
            "MB/s",
            f"one Arrow IPC file, {_CODEC}",
            bar,
            f"best of {rounds}; write/read ours {_seconds(min(ours, key=sum))}, peer {_seconds(best)}",
        )
        for name, ours, bar in cases
    ]


def _seconds(times: tuple[float, float]) -> str:
    return f"{times[0]:.2f}/{times[1]:.2f} s"


class _Source:
    """Batches of a key, a measure, a price and a short text, made once: some eight of them, again and again."""

    def __init__(self, total_bytes: int) -> None:
        random = np.random.default_rng(7)
        words = np.array([f"word-{number:05d}" for number in range(5_000)])
        self.batches = [
            pa.record_batch(
                {
                    "key": random.integers(0, 1_000_000, _ROWS),
                    "count": random.integers(0, 500, _ROWS),
                    "price": random.random(_ROWS).round(2),
                    "text": pa.array(words[random.integers(0, len(words), _ROWS)]),
                }
            )
            for _ in range(8)
        ]
        self.type_info = Types.ROW_NAMED(
            ["key", "count", "price", "text"], [Types.LONG(), Types.LONG(), Types.DOUBLE(), Types.STRING()]
        )
        self.num_batches = max(1, total_bytes // self.batches[0].nbytes)
        self.total_bytes = sum(batch.nbytes for batch in self)
        self.num_rows = self.num_batches * _ROWS

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for number in range(self.num_batches):
            yield self.batches[number % len(self.batches)]


def _measure(case) -> tuple[float, float]:  # type: ignore[no-untyped-def]
    directory = Path(tempfile.mkdtemp(prefix="flinkpy-benchmark-"))
    try:
        return case(directory)
    finally:
        shutil.rmtree(directory)


# ---------------------------------------------------------------- the peer


def _plain_file(directory: Path, source: _Source) -> tuple[float, float]:
    path = directory / "plain.arrow"
    started = time.perf_counter()
    options = pa.ipc.IpcWriteOptions(compression=_CODEC)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, source.batches[0].schema, options=options) as writer:
        for batch in source:
            writer.write_batch(batch)
    written = time.perf_counter()
    rows = 0
    with pa.OSFile(str(path), "rb") as file:
        reader = pa.ipc.open_file(file)
        for number in range(reader.num_record_batches):
            rows += reader.get_batch(number).num_rows
    assert rows == source.num_rows
    return written - started, time.perf_counter() - written


# ---------------------------------------------------------------- ours


def _shuffle(directory: Path, source: _Source, *, is_hashed: bool) -> tuple[float, float]:
    environment = NetworkEnvironment(blocking=BlockingShuffleOptions(compression=_CODEC), directories=[directory])
    environment.start()
    try:
        partition = environment.create_result_partition(
            partition_id=_PARTITION, num_subpartitions=_SUBPARTITIONS, partition_type="BLOCKING"
        )
        started = time.perf_counter()
        if is_hashed:
            writer = RecordWriter(partition, KeyGroupStreamPartitioner(FieldKeySelector(("key",))), source.type_info)
            for batch in source:
                writer.emit(Batch(batch))
            writer.finish()
        else:
            share = _ROWS // _SUBPARTITIONS
            for batch in source:
                for subpartition in range(_SUBPARTITIONS):
                    partition.emit(subpartition, Batch(batch.slice(subpartition * share, share)))
            partition.finish()
        written = time.perf_counter()
        assert _read(environment) == source.num_rows
        return written - started, time.perf_counter() - written
    finally:
        environment.close()


def _read(environment: NetworkEnvironment) -> int:
    """Rows of all subpartitions, one gate each, read at the same time as their tasks would."""
    mail: queue.SimpleQueue[InputGate] = queue.SimpleQueue()
    gates = []
    for subpartition in range(_SUBPARTITIONS):
        gate = environment.create_input_gate(
            owner=f"consumer {subpartition}",
            subpartition_index=subpartition,
            partitions=[(_PARTITION, "")],
            on_failure=lambda error: None,
            is_blocking=True,
        )
        gate.set_availability_listener(lambda gate=gate: mail.put(gate))  # type: ignore[misc]
        gates.append(gate)
    for gate in gates:
        gate.request_partitions()
    rows, unfinished = 0, len(gates)
    while unfinished:
        gate = mail.get(timeout=_TIMEOUT_S)
        while (item := gate.poll()) is not None:
            if isinstance(item[1], Batch):
                rows += item[1].num_rows
            elif isinstance(item[1], EndOfPartition):
                unfinished -= 1
    for gate in gates:
        gate.close()
    return rows
