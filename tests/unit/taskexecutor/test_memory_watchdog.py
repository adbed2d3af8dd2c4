"""The watchdog measures the process and its tasks, and carries out what the guard decides."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from taskexecutor_fakes import Harness
from test_task_executor import scenario

from flinkpy.common.cgroup import CgroupMemory
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ConfigurationError, TaskOutOfMemoryError
from flinkpy.common.memory_use import MemoryMeter, MemoryReading
from flinkpy.common.task_threads import work_for_task
from flinkpy.logs.context import LogContext
from flinkpy.taskexecutor.memory_guard import MemoryGuard
from flinkpy.taskexecutor.memory_watchdog import CpuTimes, MemoryWatchdog, memory_guard

MB = 1 << 20


class GrowingTask:
    """A task that the watchdog sees: it grows whenever it is not paused."""

    def __init__(self, name: str, rate: int) -> None:
        self.execution_attempt_id = self.task_name = name
        self.user_stack = f"the stack of {name}"
        self.log_context = LogContext(job_id="a", job_name="j")
        self.rate, self.owned, self.cpu_ns = rate, 0, 0
        self.reported_bytes = 0
        self.is_paused = False
        self.num_releases = 0
        self.failure: TaskOutOfMemoryError | None = None

    def set_paused(self, is_paused: bool) -> None:
        self.is_paused = is_paused

    def release_memory(self) -> None:
        self.num_releases += 1

    def fail(self, cause: TaskOutOfMemoryError, *, interrupts: bool) -> None:
        assert interrupts
        self.failure = cause
        self.rate = self.owned = 0


@scenario()
async def test_the_task_that_grows_is_named_with_the_figures(h: Harness) -> None:
    leak, quiet = GrowingTask("leak (1/1)", 4 * MB), GrowingTask("quiet (1/2)", 0)
    tasks = [leak, quiet]

    def read() -> MemoryReading:
        for task in tasks:
            if not task.is_paused:
                task.owned += task.rate
                task.cpu_ns += 20_000_000
        used = 600 * MB + sum(task.owned for task in tasks)
        return MemoryReading(used, 1000 * MB, 1000 * MB - used)

    meter: Any = SimpleNamespace(read=read)
    watchdog = MemoryWatchdog(
        h.task_executor,
        meter,
        MemoryGuard(),
        lambda: [task for task in tasks if task.failure is None],  # type: ignore[misc]
        lambda: None,
        lambda: {task.execution_attempt_id: task.cpu_ns for task in tasks},
    )
    watchdog.start()
    await asyncio.sleep(100)
    watchdog.stop()
    assert quiet.failure is None and not quiet.is_paused and quiet.num_releases
    assert leak.failure is not None
    message = str(leak.failure)
    assert message.startswith("task leak (1/1) was failed before its TaskExecutor runs out of memory: 95")
    assert "of 1000 MB are in use" in message and "taskmanager.memory.process.size" in message
    assert leak.failure.remote_traceback == "the stack of leak (1/1)"
    assert (watchdog.num_push_backs, watchdog.num_failed_tasks) == (1, 1)


def test_cpu_times_belong_to_the_task_of_each_thread() -> None:
    times = CpuTimes()
    go_on, has_worked = threading.Event(), threading.Event()

    def work() -> None:
        work_for_task("t")
        sum(range(300_000))
        has_worked.set()
        go_on.wait()

    threads = [threading.Thread(target=work) for _ in range(2)]
    threads[0].start()
    has_worked.wait()
    one = times.read()["t"]
    has_worked.clear()
    threads[1].start()
    has_worked.wait()
    assert times.read()["t"] > one > 0
    go_on.set()
    for thread in threads:
        thread.join()
    assert "t" not in times.read()


def test_the_closest_limit_counts(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmRSS:\t 900 kB\nRssAnon:\t 400 kB\nRssFile:\t 500 kB\nRssShmem:\t 0 kB\n")
    group = tmp_path / "group"
    group.mkdir()
    (group / "memory.current").write_text("3000000\n")
    (group / "memory.stat").write_text("anon 2000000\nactive_file 600000\ninactive_file 400000\n")
    container = CgroupMemory(2_500_000, group, is_version_1=False)
    used = 400 * 1024
    assert MemoryMeter(1 << 20, None, str(status)).read() == MemoryReading(used, 1 << 20, (1 << 20) - used)
    both = MemoryMeter(1 << 20, container, str(status))
    assert both.read() == MemoryReading(used, 2_500_000, 500_000)
    assert both.limit_bytes == 1 << 20
    assert not MemoryMeter(None, None).has_limit
    status.write_text("VmRSS:\t 900 kB\n")
    assert MemoryMeter(1 << 20, None, str(status)).used_bytes() == 900 * 1024


def test_this_process_is_measured() -> None:
    meter = MemoryMeter(1 << 40, None)
    gc.collect()
    before = meter.used_bytes()
    kept = bytearray(64 * MB)
    assert meter.used_bytes() - before > 60 * MB
    del kept


def test_the_levels_must_be_in_order() -> None:
    configuration = Configuration.from_dict({"flinkpy.taskmanager.memory.watchdog.push-back-fraction": "0.99"})
    with pytest.raises(ConfigurationError, match=r"push-back-fraction. is 0.99, but must not be above"):
        memory_guard(configuration)
