"""Tells which task a thread works for.

A task has its task thread. Some operators start further threads, e.g. for an asyncio loop or to fetch records. They
belong to the task of the thread that starts them.

Thread: any.
"""

from __future__ import annotations

import threading

#: The attribute of a Thread that holds the id of the execution attempt.
_ATTRIBUTE = "_flinkpy_task"


def work_for_task(execution_attempt_id: str) -> None:
    """Marks the calling thread as one of this task."""
    setattr(threading.current_thread(), _ATTRIBUTE, execution_attempt_id)


def task_of(thread: threading.Thread) -> str | None:
    """Returns the id of the execution attempt that the thread works for, or None."""
    task: str | None = getattr(thread, _ATTRIBUTE, None)
    return task


def share_task(thread: threading.Thread) -> None:
    """Marks a thread, which has not started yet, as one of the task of the calling thread."""
    setattr(thread, _ATTRIBUTE, task_of(threading.current_thread()))
