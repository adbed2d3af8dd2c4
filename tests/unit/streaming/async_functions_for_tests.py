"""Asynchronous functions whose calls end when the test lets them, and a harness that runs them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from streaming_fakes import FakeTaskStateManager, OperatorHarness

from flinkpy.datastream.async_retry_strategies import NO_RETRY_STRATEGY
from flinkpy.functions.async_functions import AsyncBatchFunction, AsyncFunction, AsyncRetryStrategy
from flinkpy.graph.operator_specs import AsyncWaitSpec

#: A test that waits longer has failed.
PATIENCE_S = 20.0


class Gated(AsyncFunction):
    """A call of value v ends when `let(v)` is called; its result is `[v * 10]`."""

    def __init__(self) -> None:
        self.lock = threading.Condition()
        self.started: list[Any] = []
        self.cancelled: list[Any] = []
        self.gates: dict[Any, asyncio.Event] = {}
        self.allowed: set[Any] = set()
        self.loop: asyncio.AbstractEventLoop | None = None

    def __reduce__(self) -> Any:
        # The harness pickles its spec, and runs the one it was given.
        return Gated, ()

    async def async_invoke(self, value: Any) -> list[Any]:
        gate = asyncio.Event()
        with self.lock:
            self.loop = asyncio.get_running_loop()
            self.started.append(value)
            self.gates[value] = gate
            if value in self.allowed:
                gate.set()
            self.lock.notify_all()
        try:
            await gate.wait()
        except asyncio.CancelledError:
            with self.lock:
                self.cancelled.append(value)
                self.lock.notify_all()
            raise
        return [value * 10]

    def let(self, *values: Any) -> None:
        with self.lock:
            for value in values:
                self.allowed.add(value)
                if value in self.gates:
                    assert self.loop is not None
                    self.loop.call_soon_threadsafe(self.gates[value].set)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        with self.lock:
            assert self.lock.wait_for(condition, PATIENCE_S), f"started: {self.started}"


class MailHarness(OperatorHarness):
    """Mail is run only by `run_until` and `run_mails`, as on a task thread."""

    def run_mails(self) -> None:
        while (mail := self.mailbox.take()) is not None:
            mail.action()

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Runs mail until the condition holds."""
        limit = threading.Event()
        timer = threading.Timer(PATIENCE_S, lambda: (limit.set(), self.mailbox.wake()))
        timer.start()
        try:
            while not condition():
                assert not limit.is_set(), f"emitted so far: {self.output.items}"
                self.mailbox.wait(1.0)
                self.run_mails()
        finally:
            timer.cancel()

    def drain(self) -> list[Any]:
        self.run_until(lambda: self.operator.is_drained)
        return self.output.rows


class AsyncHarness(MailHarness):
    """Runs an AsyncFunction."""

    def __init__(
        self,
        function: AsyncFunction | AsyncBatchFunction,
        *,
        ordered: bool = False,
        capacity: int = 100,
        timeout_ms: int = 0,
        retry: AsyncRetryStrategy = NO_RETRY_STRATEGY,
        state: FakeTaskStateManager | None = None,
        input_types: tuple[Any, ...] = (),
        max_batch_size: int = 0,
    ) -> None:
        spec = AsyncWaitSpec(
            function, timeout_ms, capacity, retry, ordered, input_types=input_types, max_batch_size=max_batch_size
        )
        try:
            super().__init__(spec, state=state)
        except BaseException:
            # A chain does the same after an operator could not be opened.
            self.operator.close()
            raise


class SharedGated(Gated):
    """The function of whole tasks, whose specs are pickled: every copy is `SharedGated.current`."""

    current: Gated

    def __init__(self) -> None:
        super().__init__()
        SharedGated.current = self

    def __reduce__(self) -> Any:
        return _current, ()


def _current() -> Gated:
    return SharedGated.current
