"""A thread works for the task whose thread has started it."""

from __future__ import annotations

import threading

from flinkpy.common.task_threads import helper_thread, task_of, work_for_task


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
