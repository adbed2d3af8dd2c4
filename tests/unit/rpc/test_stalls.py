"""A process that was suspended does not consider its silent peers dead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from virtual_time import LoopClock, VirtualTimeLoop

from flinkpy.rpc.endpoint import RpcEndpoint


def on_virtual_time(
    test: Callable[[RpcEndpoint, Callable[[float], None]], Awaitable[None]],
) -> Callable[[], None]:
    """Gives the test an endpoint, and a function that suspends the process for some seconds."""

    def run() -> None:
        async def body() -> None:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualTimeLoop)
            await test(RpcEndpoint(loop, LoopClock(loop)), loop.advance_by)

        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(body())

    run.__name__ = test.__name__
    return run


def tick(endpoint: RpcEndpoint, interval_ms: int) -> None:
    endpoint.schedule(interval_ms, lambda: tick(endpoint, interval_ms))


@on_virtual_time
async def test_time_during_which_the_process_was_suspended_does_not_count(
    endpoint: RpcEndpoint, stand_still: Callable[[float], None]
) -> None:
    tick(endpoint, 500)
    await asyncio.sleep(10)
    before_ms = endpoint.awake_ms()
    stand_still(60)
    await asyncio.sleep(5)
    passed_ms = endpoint.awake_ms() - before_ms
    assert 5_000 <= passed_ms <= 5_500, "the stall is unknown between two ticks"


@on_virtual_time
async def test_several_late_timers_are_one_stall(endpoint: RpcEndpoint, stand_still: Callable[[float], None]) -> None:
    for interval_ms in (300, 400, 500):
        tick(endpoint, interval_ms)
    await asyncio.sleep(2)
    before_ms = endpoint.awake_ms()
    for _ in range(3):
        stand_still(20)
        await asyncio.sleep(1)
    assert 3_000 <= endpoint.awake_ms() - before_ms <= 4_500


@on_virtual_time
async def test_a_short_delay_counts_as_ordinary_time(
    endpoint: RpcEndpoint, stand_still: Callable[[float], None]
) -> None:
    tick(endpoint, 500)
    await asyncio.sleep(2)
    before_ms = endpoint.awake_ms()
    for _ in range(10):
        stand_still(0.9)
        await asyncio.sleep(1)
    assert endpoint.awake_ms() - before_ms >= 18_000
