"""Processes on one virtual-time loop. Each has its own context, and can be killed between any two of its steps.

Code that runs for a process carries it in a context variable that tasks, timers and callbacks inherit. A killed process
takes no further step: no `finally`, no timer, no answer, as after `kill -9`. At the end of a simulation the remaining
coroutines are unwound where they can do no harm, so the garbage collector finds nothing of them.
"""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from simulated_threads import BlockingCall
from virtual_time import VirtualTimeLoop

CURRENT: contextvars.ContextVar[SimulatedProcess | None] = contextvars.ContextVar("process", default=None)
#: Coroutines that could not be unwound. Collecting them would run their `finally` clauses during another test.
_GRAVEYARD: list[Any] = []

#: The most steps of the loop while no time passes. More of them mean an endless loop.
MAX_STEPS = 20_000


class ProcessKilled(BaseException):
    """Raised in a process that is killed in the middle of a step."""


class _NumberedTask(asyncio.Task):  # type: ignore[type-arg]
    """A task whose hash is its number, so sets of tasks have the same order in every run."""

    def __init__(self, number: int, coroutine: Any, **rest: Any) -> None:
        self._number = number
        super().__init__(coroutine, **rest)

    def __hash__(self) -> int:
        return self._number


class _NumberedFuture(asyncio.Future):  # type: ignore[type-arg]
    """A future whose hash is its number, like `_NumberedTask`."""

    def __init__(self, number: int, **rest: Any) -> None:
        self._number = number
        super().__init__(**rest)

    def __hash__(self) -> int:
        return self._number


class ProcessLoop(VirtualTimeLoop):
    """A loop that knows the process of every callback. The seed decides how long blocking calls take."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random
        self.processes: list[SimulatedProcess] = []
        self.is_unwinding = False
        self._busy_since, self._num_steps = 0.0, 0
        self._num_made = 0
        #: Called before each blocking call of a process. It raises the fault of the call, if there is one.
        self.disk_of: Callable[[SimulatedProcess], None] = lambda process: None

    def _run_once(self) -> None:
        if self._now == self._busy_since:
            self._num_steps += 1
            assert self._num_steps < MAX_STEPS, f"time stands still at {self._now}: {list(self._ready)[:20]}"
        else:
            self._busy_since, self._num_steps = self._now, 0
        super()._run_once()  # type: ignore[misc]

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        return super().call_soon(*self._of_process(callback, args, context), context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        return super().call_at(when, *self._of_process(callback, args, context), context=context)

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
        return self.call_soon(callback, *args, context=context)

    def _of_process(self, callback: Any, args: tuple[Any, ...], context: Any) -> tuple[Any, ...]:
        process = CURRENT.get() if context is None else context.get(CURRENT)
        if process is None:
            return (callback, *args)
        return (process.step, callback, context, *args)

    def create_task(self, coroutine: Any, *, name: str | None = None, context: Any = None) -> Any:
        self._num_made += 1
        task = _NumberedTask(self._num_made, coroutine, loop=self, name=name, context=context)
        process = CURRENT.get() if context is None else context.get(CURRENT)
        if process is not None:
            process.tasks[task] = None
            task.add_done_callback(process.task_done, context=_NO_PROCESS)
        return task

    def create_future(self) -> Any:
        self._num_made += 1
        return _NumberedFuture(self._num_made, loop=self)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """Runs a blocking call on virtual time: see `simulated_threads`."""
        process = CURRENT.get()
        future = self.create_future()
        context = contextvars.copy_context()

        def run() -> Any:
            if process is not None and not self.is_unwinding:
                self.disk_of(process)
            return context.run(func, *args)

        def done(result: Any, error: BaseException | None) -> None:
            if future.done() or isinstance(error, ProcessKilled):
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error if isinstance(error, Exception) else asyncio.CancelledError())

        def later(seconds: float, resume: Callable[[], None]) -> None:
            self.call_later(seconds, resume, context=context.copy())

        call = BlockingCall(run, later, done)
        if process is not None:
            process.calls[call] = None
        is_slow = self._random.random() < 0.1
        later(self._random.uniform(0.1, 1.0) if is_slow else self._random.uniform(0.001, 0.02), call.resume)
        return future

    def add_signal_handler(self, sig: int, callback: Any, *args: Any) -> None:
        process = CURRENT.get()
        if process is not None:
            process.on_signal = lambda: callback(*args)

    def remove_signal_handler(self, sig: int) -> bool:
        return True


#: The context of the simulated world: the network, ZooKeeper's servers, and fault injection.
_NO_PROCESS = contextvars.Context()


class SimulatedProcess:
    """A process of a host. `main` is the coroutine of its entrypoint and returns its exit status."""

    def __init__(self, loop: ProcessLoop, name: str, host: str, pid: int) -> None:
        self.loop = loop
        self.name = name
        self.host = host
        self.pid = pid
        self.context = _NO_PROCESS.copy()
        self.context.run(CURRENT.set, self)
        self.is_dead = False
        self.exit_status: int | None = None
        self.error: BaseException | None = None
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.calls: weakref.WeakKeyDictionary[BlockingCall, None] = weakref.WeakKeyDictionary()
        self._parked: list[tuple[Any, ...]] = []
        self.on_signal: Callable[[], None] | None = None
        #: Actions of the machine after the end of the process, in order.
        self.at_exit: list[Callable[[], None]] = []
        loop.processes.append(self)

    def start(self, main: Callable[[], Coroutine[Any, Any, int]]) -> None:
        async def run() -> None:
            try:
                self.exit_status = await main()
            except Exception as error:  # noqa: BLE001 - as an interpreter does
                self.exit_status, self.error = 1, error
            self._gone()

        self.loop.create_task(run(), context=self.context)

    def step(self, callback: Any, context: Any, *args: Any) -> None:
        if self.is_dead and not self.loop.is_unwinding:
            self._parked.append((callback, context, *args))
            return
        callback(*args)

    def task_done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(task, None)

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str = "") -> asyncio.Task[Any]:
        """Runs a coroutine in this process."""
        return self.loop.create_task(coroutine, name=name, context=self.context)

    def run(self, action: Callable[[], Any]) -> None:
        """Schedules a callback in this process."""
        self.loop.call_soon(action, context=self.context)

    def kill(self) -> None:
        if not self.is_dead:
            self.exit_status = -9
            self._gone()

    def terminate(self) -> None:
        """Sends SIGTERM."""
        if self.is_dead:
            return
        if self.on_signal is None:
            self.kill()
        else:
            self.run(self.on_signal)

    def _gone(self) -> None:
        self.is_dead = True
        at_exit, self.at_exit = self.at_exit, []
        for action in at_exit:
            self.loop.call_soon(action, context=_NO_PROCESS.copy())

    def unwind(self) -> None:
        self.is_dead = True
        for call in list(self.calls):
            call.is_aborted = True
        for callback, context, *args in self._parked:
            self.loop.call_soon(callback, *args, context=context)
        self._parked.clear()
        for task in list(self.tasks):
            task.cancel()

    def __repr__(self) -> str:
        return f"<{self.name} {self.pid}>"


async def unwind(loop: ProcessLoop, for_s: float = 60.0) -> None:
    """Ends everything that still runs in any process, dead or alive."""
    for process in loop.processes:
        process.is_dead = True
    loop.is_unwinding = True
    until = loop.time() + for_s
    while loop.time() < until:
        for process in loop.processes:
            process.unwind()
        await asyncio.sleep(0.5)
        if not any(process.tasks for process in loop.processes):
            break
    for process in loop.processes:
        _GRAVEYARD.extend(process.tasks)
    loop.processes.clear()
    await loop.shutdown_asyncgens()


def no_process() -> contextvars.Context:
    """Returns a context without a process, for actions of the simulated world."""
    return _NO_PROCESS.copy()
