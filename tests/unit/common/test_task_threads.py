"""A thread works for the task whose thread has started it."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from flinkpy.common.task_threads import task_of, work_for_task
from flinkpy.connectors.source_reader_base import FetcherThreads
from flinkpy.logs.context import LogContext, current_context, use_context
from flinkpy.logs.helper_threads import helper_thread
from flinkpy.streaming.async_io.async_runner import AsyncRunner
from flinkpy.streaming.async_io.element_queue import OrderedElementQueue


def test_helpers_work_for_the_task_of_the_thread_that_makes_them() -> None:
    seen: dict[str, str | None] = {}

    def helper(name: str) -> None:
        seen[name] = task_of(threading.current_thread())
        if name == "helper":
            run(helper_thread(helper, "second", ("helper of a helper",)))

    def task() -> None:
        work_for_task("attempt-1")
        run(helper_thread(helper, "first", ("helper",)))
        run(threading.Thread(target=helper, args=("thread of the user",)))

    def run(thread: threading.Thread) -> None:
        thread.start()
        thread.join()

    run(threading.Thread(target=task))
    assert seen == {"helper": "attempt-1", "helper of a helper": "attempt-1", "thread of the user": None}


def test_log_lines_of_a_helper_name_its_task() -> None:
    seen: list[LogContext | None] = []
    context = LogContext("job")

    def task() -> None:
        use_context(context)
        thread = helper_thread(lambda: seen.append(current_context()), "helper")
        thread.start()
        thread.join()

    thread = threading.Thread(target=task)
    thread.start()
    thread.join()
    assert seen == [context]


def test_the_threads_of_fetchers_and_asynchronous_functions_work_for_their_task() -> None:
    seen: list[str | None] = []
    fetcher = FetcherThreads("a system", lambda: None)

    def task() -> None:
        work_for_task("attempt-1")
        fetcher._start_thread("fetch", lambda: seen.append(task_of(threading.current_thread())))
        runner = AsyncRunner(
            "async",
            SimpleNamespace(invoke=None),  # type: ignore[arg-type]
            lambda value: value,
            OrderedElementQueue(),
            capacity=1,
            timeout_s=1.0,
            check_results=lambda results: results,
            on_released=lambda: None,
            on_error=lambda error, item: None,
        )
        seen.append(task_of(runner._thread))

    thread = threading.Thread(target=task)
    thread.start()
    thread.join()
    fetcher.close()
    assert seen == ["attempt-1", "attempt-1"]
