"""Polls a REST server in one of two ways, and prints a line of JSON.

`latency`: one client with a fixed rate of requests; prints the times of its answers. `clients`: many clients, each of
which asks for the same pages every few seconds; prints how many answers they got.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import socket
import sys
import time

from flinkpy.common.cpu_scheduling import SERVICE_SLICE_NS, request_time_slice


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("latency", "clients"))
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--paths", nargs="+", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--rate", type=float, default=50.0, help="requests per second of `latency`")
    parser.add_argument("--count", type=int, default=500, help="number of `clients`")
    parser.add_argument("--interval", type=float, default=3.0, help="seconds between two requests of a client")
    options = parser.parse_args()
    token = sys.stdin.readline().strip()
    told = latency(options, token) if options.kind == "latency" else asyncio.run(clients(options, token))
    sys.stdout.write(json.dumps(told) + "\n")


def latency(options: argparse.Namespace, token: str) -> dict[str, object]:
    """Requests begin at fixed times, whether or not earlier answers were late, so late answers count as late.

    This client shares the CPUs with what it measures, which clients of a cluster do not. So it uses a plain socket,
    which takes a third of the time of `http.client`, and short time slices, so that its own waiting counts for little.
    """
    request_time_slice(SERVICE_SLICE_NS)
    with socket.create_connection((options.host, options.port), timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        fields = f"host: {options.host}:{options.port}\r\nauthorization: Bearer {token}\r\n\r\n"
        requests = itertools.cycle(f"GET {path} HTTP/1.1\r\n{fields}".encode() for path in options.paths)
        times_ms = []
        cpu_s, began_s = time.process_time(), time.perf_counter()
        for number in range(int(options.seconds * options.rate)):
            due_s = began_s + number / options.rate
            time.sleep(max(0.0, due_s - time.perf_counter()))
            connection.sendall(next(requests))
            read_answer(connection)
            times_ms.append((time.perf_counter() - due_s) * 1000)
        took_s = time.perf_counter() - began_s
    return {"times_ms": times_ms, "client_load": (time.process_time() - cpu_s) / took_s}


def read_answer(connection: socket.socket) -> None:
    """Reads an answer to its end. Raises: SystemExit if its status is not 200."""
    received = b""
    while (end := received.find(b"\r\n\r\n")) < 0:
        received += receive(connection)
    head = received[:end].lower()
    if head.split(None, 2)[1] != b"200":
        raise SystemExit(f"status {head.decode('latin-1')}")
    length = int(head.partition(b"\r\ncontent-length:")[2].split(None, 1)[0])
    missing = end + 4 + length - len(received)
    while missing > 0:
        missing -= len(receive(connection))


def receive(connection: socket.socket) -> bytes:
    part = connection.recv(1 << 20)
    if not part:
        raise SystemExit("the server closed the connection")
    return part


async def clients(options: argparse.Namespace, token: str) -> dict[str, object]:
    end_s = time.monotonic() + options.seconds
    answers = await asyncio.gather(*(client(options, token, number, end_s) for number in range(options.count)))
    return {"answers": sum(answers)}


async def client(options: argparse.Namespace, token: str, number: int, end_s: float) -> int:
    # The clients are spread over the interval, as people are.
    await asyncio.sleep(options.interval * number / options.count)
    reader, writer = await asyncio.open_connection(options.host, options.port)
    answers = 0
    for path in itertools.cycle(options.paths):
        request = f"GET {path} HTTP/1.1\r\nhost: {options.host}:{options.port}\r\nauthorization: Bearer {token}\r\n\r\n"
        writer.write(request.encode())
        head = await reader.readuntil(b"\r\n\r\n")
        status, *fields = head.decode("latin-1").split("\r\n")
        if status.split()[1] != "200":
            raise SystemExit(status)
        length = next(int(field.partition(":")[2]) for field in fields if field.lower().startswith("content-length:"))
        await reader.readexactly(length)
        answers += 1
        if time.monotonic() + options.interval > end_s:
            break
        await asyncio.sleep(options.interval)
    writer.close()
    return answers


if __name__ == "__main__":
    main()
