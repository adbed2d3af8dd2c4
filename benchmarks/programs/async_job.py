"""Asynchronous calls with 100 under way: by flinkpy's AsyncDataStream, or by a bare asyncio loop.

Prints one line of JSON per size: rows and seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator

CAPACITY = 100


async def yielding(value: int) -> list[int]:
    """A call that yields to the loop once, like a call whose answer is already in a socket's buffer."""
    await asyncio.sleep(0)
    return [value]


async def immediate(value: int) -> list[int]:
    """A call that returns at once, like a call whose answer is in a cache."""
    return [value]


SIDES = ("ordered", "unordered", "ordered-with-retries", "workers", "semaphore")
CALLS: dict[str, Callable[[int], Awaitable[list[int]]]] = {"yielding": yielding, "immediate": immediate}


async def with_workers(call: Callable[[int], Awaitable[list[int]]], rows: int) -> int:
    """Runs the fastest bare loop, in which workers share an iterator. Returns the number of results."""
    count = 0

    async def work(values: Iterator[int]) -> None:
        nonlocal count
        for value in values:
            results = await call(value)
            count += len(results)

    values = iter(range(rows))
    await asyncio.gather(*(work(values) for _ in range(CAPACITY)))
    return count


async def with_semaphore(call: Callable[[int], Awaitable[list[int]]], rows: int) -> int:
    """Runs the usual bare loop, with a task per call and a semaphore."""
    count = 0
    semaphore = asyncio.Semaphore(CAPACITY)

    async def one(value: int) -> None:
        nonlocal count
        try:
            results = await call(value)
            count += len(results)
        finally:
            semaphore.release()

    tasks: set[asyncio.Task[None]] = set()
    for value in range(rows):
        await semaphore.acquire()
        task = asyncio.create_task(one(value))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    return count


def run_bare(side: str, call: str, rows: int) -> None:
    loop = with_workers if side == "workers" else with_semaphore
    assert asyncio.run(loop(CALLS[call], rows)) == rows


def run_flinkpy(mode: str, call: str, rows: int) -> None:
    from flinkpy.common import Time, Types
    from flinkpy.datastream import AsyncDataStream, AsyncFunction, AsyncRetryStrategy, StreamExecutionEnvironment
    from flinkpy.datastream.async_retry_predicates import empty_result_predicate, has_exception_predicate
    from flinkpy.datastream.connectors import DiscardingSink

    class Calling(AsyncFunction):
        async_invoke = staticmethod(CALLS[call])

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    source, timeout = env.from_sequence(1, rows), Time.seconds(60)
    if mode == "ordered-with-retries":
        strategy = AsyncRetryStrategy.fixed_delay(3, 100, empty_result_predicate, has_exception_predicate)
        stream = AsyncDataStream.ordered_wait_with_retry(source, Calling(), timeout, strategy, CAPACITY, Types.LONG())
    else:
        wait = AsyncDataStream.ordered_wait if mode == "ordered" else AsyncDataStream.unordered_wait
        stream = wait(source, Calling(), timeout, CAPACITY, Types.LONG())
    stream.sink_to(DiscardingSink())
    env.execute()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", choices=SIDES, required=True)
    parser.add_argument("--call", choices=sorted(CALLS), required=True)
    parser.add_argument("--rows", type=int, nargs="+", required=True)
    options = parser.parse_args()
    run = run_bare if options.side in ("workers", "semaphore") else run_flinkpy
    for rows in options.rows:
        begin = time.perf_counter()
        run(options.side, options.call, rows)
        print(json.dumps({"rows": rows, "seconds": time.perf_counter() - begin}), flush=True)


if __name__ == "__main__":
    main()
