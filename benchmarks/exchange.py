"""exchange: batches between two processes over one channel, through ResultPartition and InputGate with credits.

The peer is the least that moves Arrow batches between two processes: a loop of `sendall` and a loop of `recv_into` a
buffer that the batch points at, with neither flow control, nor channels, nor threads. Both run in turn on the same
machine, one after the other, several times; the best of each counts, since whatever else runs here only takes away.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import queue
import socket
import struct
import time
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.result import Result, rate
from flinkpy.network.environment import NetworkEnvironment
from flinkpy.network.input_gate import InputGate
from flinkpy.network.transport.authenticator import HmacAuthenticator
from flinkpy.records.batch import Batch
from flinkpy.records.elements import EndOfPartition
from flinkpy.security import TlsMaterial

_COLUMNS = 3
_ROUNDS = 3
#: rows per batch -> (batches per round, the bar)
_CASES = {65_536: (2_000, 0.6), 1_024: (60_000, 0.5)}
_TIMEOUT_S = 120.0
_PARTITION = "exchange#0"

Pipe = multiprocessing.connection.Connection


def run() -> list[Result]:
    """Returns one result per batch size: GB/s for large batches, batches/s for small ones."""
    results = []
    for rows, (batches, bar) in _CASES.items():
        ours, bare = [], []
        for _ in range(_ROUNDS):
            bare.append(measure(_bare_producer, _bare_consumer, rows, batches))
            ours.append(measure(_producer, _consumer, rows, batches))
        scale, unit = scale_of(rows, batches)
        results.append(
            rate(
                f"exchange of {rows:,}-row batches",
                scale / min(ours),
                scale / min(bare),
                unit,
                "bare socket, Arrow IPC",
                bar,
                f"best of {_ROUNDS}; ours {all_of(scale, ours)}, peer {all_of(scale, bare)}",
            )
        )
    return results


def all_of(scale: float, seconds: list[float]) -> str:
    return "/".join(f"{scale / s:,.3g}" if scale / s < 100 else f"{scale / s:,.0f}" for s in seconds)


def measure(producer: Any, consumer: Any, rows: int, batches: int, *more: Any) -> float:
    """Returns the seconds from the first to the last received batch. Both processes get the arguments `more`."""
    context = multiprocessing.get_context("spawn")
    to_consumer, from_producer = context.Pipe()
    to_parent, from_consumer = context.Pipe()
    processes = [
        context.Process(target=producer, args=(from_producer, rows, batches, *more)),
        context.Process(target=consumer, args=(to_consumer, from_consumer, rows, batches, *more)),
    ]
    for process in processes:
        process.start()
    try:
        if not to_parent.poll(_TIMEOUT_S):
            raise TimeoutError(f"{consumer.__name__} did not finish within {_TIMEOUT_S} s")
        seconds = to_parent.recv()
        for process in processes:
            process.join(_TIMEOUT_S)
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
                process.join()
    if any(process.exitcode for process in processes):
        raise RuntimeError(f"exit codes {[process.exitcode for process in processes]}")
    return seconds


def scale_of(rows: int, batches: int) -> tuple[float, str]:
    """Returns the amount that a round moves and its unit per second."""
    if rows >= 10_000:
        return rows * _COLUMNS * 8 * batches / 1e9, "GB/s"
    return float(batches), "batches/s"


def _batch(rows: int) -> pa.RecordBatch:
    return pa.record_batch({f"f{i}": np.arange(rows, dtype=np.int64) + i for i in range(_COLUMNS)})


# ---------------------------------------------------------------- ours


def _producer(pipe: Pipe, rows: int, batches: int) -> None:
    produce(environment_of("producer"), pipe, rows, batches)


def _consumer(pipe: Pipe, result: Pipe, rows: int, batches: int) -> None:
    consume(environment_of("consumer"), pipe, result, rows, batches)


def environment_of(resource_id: str, tls: TlsMaterial | None = None) -> NetworkEnvironment:
    """Returns a network environment whose peers authenticate with the cluster's secret, as they do by default."""
    return NetworkEnvironment(resource_id=resource_id, authenticator=HmacAuthenticator(bytes(32)), tls=tls)


def produce(environment: NetworkEnvironment, pipe: Pipe, rows: int, batches: int) -> None:
    """Sends this number of batches, and ends when they have been received."""
    pipe.send(environment.start())
    partition = environment.create_result_partition(partition_id=_PARTITION, num_subpartitions=1)
    mail: queue.SimpleQueue[None] = queue.SimpleQueue()
    partition.set_availability_listener(lambda: mail.put(None))
    batch = Batch(_batch(rows))
    for _ in range(batches):
        while not partition.is_available:
            mail.get(timeout=_TIMEOUT_S)
        partition.emit(0, batch)
    partition.finish()
    if not partition.wait_released(_TIMEOUT_S):
        raise TimeoutError("the consumer did not take everything")
    environment.close()


def consume(environment: NetworkEnvironment, pipe: Pipe, result: Pipe, rows: int, batches: int) -> None:
    """Receives the batches and reports the time."""
    address = pipe.recv()
    environment.start()
    failures: list[Exception] = []
    gate = environment.create_input_gate(
        owner="consumer", subpartition_index=0, partitions=[(_PARTITION, address)], on_failure=failures.append
    )
    result.send(_consume(gate, rows, batches))
    gate.close()
    environment.close()


def _consume(gate: InputGate, rows: int, batches: int) -> float:
    mail: queue.SimpleQueue[None] = queue.SimpleQueue()
    gate.set_availability_listener(lambda: mail.put(None))
    gate.request_partitions()
    received, started = 0, 0.0
    while True:
        item = gate.poll()
        if item is None:
            mail.get(timeout=_TIMEOUT_S)
            continue
        value = item[1]
        if isinstance(value, Batch):
            if not received:
                started = time.perf_counter()
            received += value.num_rows
        elif isinstance(value, EndOfPartition):
            break
    seconds = time.perf_counter() - started
    if received != rows * batches:
        raise AssertionError(f"{received} rows arrived of {rows * batches}")
    return seconds


# ---------------------------------------------------------------- the bare loop

_LENGTH = struct.Struct("<Q")


def _bare_producer(pipe: Pipe, rows: int, batches: int) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    pipe.send(listener.getsockname())
    sock, _ = listener.accept()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    batch = _batch(rows)
    schema = batch.schema.serialize()
    sock.sendall(_LENGTH.pack(schema.size) + schema.to_pybytes())
    for _ in range(batches):
        message = batch.serialize()
        size = message.size
        sent = sock.sendmsg([_LENGTH.pack(size), message]) - _LENGTH.size
        if sent < size:
            sock.sendall(memoryview(message)[sent:])
    sock.close()
    listener.close()


def _bare_consumer(pipe: Pipe, result: Pipe, rows: int, batches: int) -> None:
    sock = socket.create_connection(pipe.recv())
    header = bytearray(_LENGTH.size)
    schema = pa.ipc.read_schema(_receive(sock, header))
    received, started = 0, 0.0
    for _ in range(batches):
        batch = pa.ipc.read_record_batch(_receive(sock, header), schema)
        if not received:
            started = time.perf_counter()
        received += batch.num_rows
    seconds = time.perf_counter() - started
    if received != rows * batches:
        raise AssertionError(f"{received} rows arrived of {rows * batches}")
    sock.close()
    result.send(seconds)


def _receive(sock: socket.socket, header: bytearray) -> pa.Buffer:
    if sock.recv_into(header, 0, socket.MSG_WAITALL) != len(header):
        raise EOFError("the producer is gone")
    buffer = pa.allocate_buffer(_LENGTH.unpack(header)[0])
    view = memoryview(buffer)
    while len(view):
        view = view[sock.recv_into(view) :]
    return buffer


if __name__ == "__main__":
    from benchmarks.result import print_results

    print_results(run())
