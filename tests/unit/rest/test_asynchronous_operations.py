"""Operations that are triggered, and asked about later."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from flinkpy.common.clock import ManualClock
from flinkpy.rest import asynchronous_operations
from flinkpy.rest.asynchronous_operations import AsynchronousOperations
from flinkpy.rest.errors import RestError

STORE_MS = 1_000


class Work:
    """An operation that ends when the test says so, and counts how often it was started."""

    def __init__(self) -> None:
        self.starts: list[str] = []
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def __call__(self, trigger_id: str) -> Any:
        self.starts.append(trigger_id)
        return await self.answer


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_a_trigger_id_given_twice_is_one_operation() -> None:
    async def test() -> None:
        operations, work = AsynchronousOperations(STORE_MS, ManualClock(0)), Work()
        assert operations.trigger("savepoint", "job", work, "1" * 32) == "1" * 32
        assert operations.trigger("savepoint", "job", work, "1" * 32) == "1" * 32
        work.answer.set_result("path")
        assert await operations.outcome("savepoint", "job", "1" * 32) == "path"
        assert operations.trigger("savepoint", "job", work, "1" * 32) == "1" * 32
        assert work.starts == ["1" * 32]

    run(test())


def test_operations_without_an_id_get_different_ones() -> None:
    async def test() -> None:
        operations, work = AsynchronousOperations(STORE_MS, ManualClock(0)), Work()
        ids = {operations.trigger("savepoint", "job", work) for _ in range(3)}
        assert len(ids) == 3 and all(len(one) == 32 for one in ids)
        await operations.close()

    run(test())


def test_the_same_id_of_another_job_is_another_operation() -> None:
    async def test() -> None:
        operations, work = AsynchronousOperations(STORE_MS, ManualClock(0)), Work()
        operations.trigger("savepoint", "job", work, "1" * 32)
        with pytest.raises(RestError, match="no operation"):
            operations.outcome("savepoint", "other", "1" * 32)
        with pytest.raises(RestError, match="no operation"):
            operations.outcome("checkpoint", "job", "1" * 32)
        await operations.close()

    run(test())


def test_results_are_forgotten_after_their_time_but_running_operations_are_not() -> None:
    async def test() -> None:
        clock = ManualClock(0)
        operations, ended, running = AsynchronousOperations(STORE_MS, clock), Work(), Work()
        first = operations.trigger("savepoint", "job", ended)
        second = operations.trigger("savepoint", "job", running)
        ended.answer.set_exception(ValueError("disk"))
        with pytest.raises(ValueError, match="disk"):
            await operations.outcome("savepoint", "job", first)
        await asyncio.sleep(0)  # the callback that notes the time runs
        clock.advance(STORE_MS - 1)
        assert operations.outcome("savepoint", "job", first).done()
        clock.advance(1)
        with pytest.raises(RestError, match="no operation"):
            operations.outcome("savepoint", "job", first)
        assert not operations.outcome("savepoint", "job", second).done()
        await operations.close()

    run(test())


def test_the_number_of_operations_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        operations, work = AsynchronousOperations(STORE_MS, ManualClock(0)), Work()
        operations.trigger("savepoint", "job", work)
        with pytest.raises(RestError) as raised:
            operations.trigger("savepoint", "job", work)
        assert raised.value.status == 503
        await operations.close()

    monkeypatch.setattr(asynchronous_operations, "MAX_OPERATIONS", 1)
    run(test())
