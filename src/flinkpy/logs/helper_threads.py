"""helper_thread: a thread that works for the task that makes it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from flinkpy.common.task_threads import share_task
from flinkpy.logs.context import in_current_context

__all__ = ["helper_thread"]


def helper_thread(target: Callable[..., Any], name: str, args: tuple[Any, ...] = ()) -> threading.Thread:
    """Returns a daemon thread, not started, that works for the task of the calling thread.

    Flame graphs of the task contain it, and its log lines name the task.
    """
    thread = threading.Thread(target=in_current_context(target), name=name, args=args, daemon=True)
    share_task(thread)
    return thread
