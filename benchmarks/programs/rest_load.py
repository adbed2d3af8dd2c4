"""Polls a REST server in one of two ways, and prints a line of JSON.

`latency`: one client with a fixed rate of requests; prints the times of its answers. `clients`: many clients, each of
which asks for the same pages every few seconds; prints how many answers they got.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import itertools
import json
import sys
import time


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
    """Requests begin at fixed times, whether or not earlier answers were late, so late answers count as late."""
    connection = http.client.HTTPConnection(options.host, options.port, timeout=30)
    headers = {"Authorization": f"Bearer {token}"}
    times_ms = []
    began_s = time.perf_counter()
    paths = itertools.cycle(options.paths)
    for number in range(int(options.seconds * options.rate)):
        due_s = began_s + number / options.rate
        time.sleep(max(0.0, due_s - time.perf_counter()))
        connection.request("GET", next(paths), headers=headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise SystemExit(f"status {answer.status}")
        times_ms.append((time.perf_counter() - due_s) * 1000)
    return {"times_ms": times_ms}


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
