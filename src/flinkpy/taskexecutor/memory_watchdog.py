"""MemoryWatchdog: watches what a TaskExecutor uses, and carries out what `MemoryGuard` decides.

It exists where there is a limit: `taskmanager.memory.process.size`, or that of a container.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ConfigurationError, TaskOutOfMemoryError
from flinkpy.common.memory_use import MemoryMeter, MemoryReading
from flinkpy.common.task_threads import task_of
from flinkpy.configuration import memory_options, read_option
from flinkpy.logs.context import in_context
from flinkpy.rpc.endpoint import RpcEndpoint, TimerHandle
from flinkpy.taskexecutor.memory_guard import FailTask, GuardPhase, MemoryGuard, ReleaseMemory, ReportNoCulprit, TaskUse
from flinkpy.taskexecutor.task import Task

logger = logging.getLogger(__name__)

#: Operators are asked for the sizes of their data when less than this share of the budget is left.
_ASK_OPERATORS_SHARE = 0.4


class MemoryWatchdog:
    """Thread: main thread.

    Args:
        unfinished_tasks: returns the tasks of the process that have not ended.
        free_memory: collects garbage and returns free memory to the system.
        cpu_times: returns the CPU time in ns of the threads of each task, by attempt; tests use another one.
    """

    def __init__(
        self,
        endpoint: RpcEndpoint,
        meter: MemoryMeter,
        guard: MemoryGuard,
        unfinished_tasks: Callable[[], Sequence[Task]],
        free_memory: Callable[[], object],
        cpu_times: Callable[[], dict[str, int]] | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._meter = meter
        self._guard = guard
        self._unfinished_tasks = unfinished_tasks
        self._free_memory = free_memory
        self._cpu_times = cpu_times or CpuTimes().read
        self._timer: TimerHandle | None = None
        self._last_ms = 0
        self._asks_operators = False
        self.num_push_backs = 0
        self.num_failed_tasks = 0

    def start(self) -> None:
        self._last_ms = self._endpoint.clock.monotonic_ms()
        self.look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def look(self) -> None:
        """Takes a reading, acts on it, and schedules the next one."""
        now_ms = self._endpoint.clock.monotonic_ms()
        elapsed_ms, self._last_ms = max(1, now_ms - self._last_ms), now_ms
        tasks = {task.execution_attempt_id: task for task in self._unfinished_tasks()}
        reading = self._meter.read()
        self._asks_operators = reading.room_bytes < _ASK_OPERATORS_SHARE * reading.budget_bytes
        phase, turn = self._guard.phase, self._guard.turn
        actions = self._guard.observe(now_ms, reading, self._uses(tasks.values()))
        for action in actions:
            match action:
                case ReleaseMemory():
                    self._release(tasks.values())
                case FailTask():
                    self._fail(tasks[action.attempt], action, reading)
                case ReportNoCulprit():
                    self._report(reading)
        if turn is not None or self._guard.turn is not None:
            for attempt, task in tasks.items():
                task.set_paused(self._guard.turn not in (None, attempt))
        if self._guard.phase is not phase:
            self._tell_phase(reading)
        self._timer = self._endpoint.schedule(self._guard.next_interval_ms(elapsed_ms), self.look)

    def _uses(self, tasks: Iterable[Task]) -> dict[str, TaskUse]:
        cpu = self._cpu_times()
        return {
            task.execution_attempt_id: TaskUse(
                cpu.get(task.execution_attempt_id, 0), task.reported_bytes if self._asks_operators else None
            )
            for task in tasks
        }

    def _release(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            task.release_memory()
        self._free_memory()

    def _fail(self, task: Task, failed: FailTask, reading: MemoryReading) -> None:
        self.num_failed_tasks += 1
        figures = {
            "used_bytes": reading.budget_bytes - reading.room_bytes,
            "budget_bytes": reading.budget_bytes,
            "grown_bytes": failed.grown_bytes,
        }
        certainty = "" if failed.is_certain else " (estimated from CPU time, because other tasks ran at the same time)"
        error = TaskOutOfMemoryError(
            f"task {task.task_name} was failed before its TaskExecutor runs out of memory: "
            f"{_mb(figures['used_bytes'])} of {_mb(reading.budget_bytes)} are in use, and the task has allocated "
            f"{_mb(failed.grown_bytes)} of the last {_mb(failed.total_bytes)}{certainty}. Keep less in memory, use the "
            f"state backend rocksdb for large state, or raise `{memory_options.TOTAL_PROCESS_MEMORY.key}`",
            details={name: str(value) for name, value in figures.items()},
            remote_traceback=task.user_stack,
        )
        with in_context(task.log_context):
            logger.error("%s", error)
        task.fail(error, interrupts=True)

    def _report(self, reading: MemoryReading) -> None:
        logger.warning(
            "%s of %s are in use, but no task grows: tasks that have ended may have left objects in modules, or the "
            "budget is too small for the running ones (%s)",
            _mb(reading.budget_bytes - reading.room_bytes),
            _mb(reading.budget_bytes),
            memory_options.TOTAL_PROCESS_MEMORY.key,
        )

    def _tell_phase(self, reading: MemoryReading) -> None:
        if self._guard.phase is GuardPhase.PUSHING_BACK:
            self.num_push_backs += 1
            logger.warning(
                "%s of %s are in use: tasks take turns, so that they allocate less",
                _mb(reading.budget_bytes - reading.room_bytes),
                _mb(reading.budget_bytes),
            )
        elif self._guard.phase is GuardPhase.WATCHING:
            logger.info("memory: %s of %s, tasks run freely", _mb(reading.used_bytes), _mb(reading.budget_bytes))


class CpuTimes:
    """Reads the CPU times of the threads of tasks. Thread: any one."""

    def __init__(self) -> None:
        #: The CPU time of threads that have ended, by task; and the last readings, by thread.
        self._ended: dict[str, int] = {}
        self._threads: dict[int, tuple[str, int]] = {}

    def read(self) -> dict[str, int]:
        """Returns the CPU time in ns of each task: that of its threads, also of those that have ended meanwhile."""
        alive: dict[int, tuple[str, int]] = {}
        for thread in threading.enumerate():
            task, native_id = task_of(thread), thread.native_id
            if task is None or native_id is None:
                continue
            try:
                # Linux's clock of a thread. It fails if the thread has ended.
                alive[native_id] = (task, time.clock_gettime_ns((~native_id << 3) | 6))
            except OSError:
                continue
        for native_id in self._threads.keys() - alive.keys():
            task, used_ns = self._threads[native_id]
            self._ended[task] = self._ended.get(task, 0) + used_ns
        self._threads = alive
        running = {task for task, _ in alive.values()}
        self._ended = {task: used_ns for task, used_ns in self._ended.items() if task in running}
        times = dict(self._ended)
        for task, used_ns in alive.values():
            times[task] = times.get(task, 0) + used_ns
        return times


def memory_guard(configuration: Configuration) -> MemoryGuard:
    """Returns the guard with the configured levels. Raises: ConfigurationError."""
    push_back = read_option(configuration, memory_options.WATCHDOG_PUSH_BACK)
    fail = read_option(configuration, memory_options.WATCHDOG_FAIL)
    if push_back > fail:
        raise ConfigurationError(
            f"`{memory_options.WATCHDOG_PUSH_BACK.key}` is {push_back}, but must not be above "
            f"`{memory_options.WATCHDOG_FAIL.key}`, which is {fail}",
            details={"option": memory_options.WATCHDOG_PUSH_BACK.key},
        )
    return MemoryGuard(push_back, fail)


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):.0f} MB"
