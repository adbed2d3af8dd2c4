"""LogContext: the job and task that a log line belongs to.

The context of a line is the first of these that exists:

1. that of the current contextvars context. A task thread sets it when it starts; coroutines, `asyncio.to_thread` and
   `contextvars.copy_context().run` keep it.
2. that of the thread that started the current thread. Since Python 3.12 there is an audit event for each start of a
   thread, so threads that user functions start are known without replacing anything in `threading`. A thread of a pool
   keeps the context of the work that made the pool start it. Python 3.11 has no such event: there, a thread that a
   function starts has a context only if it runs in a copied one (`contextvars.copy_context().run`).
3. that of the process, which JobMasters set because they serve one job.

Threads of the runtime that work for one task run `in_current_context`; those that a task happens to start, and that
work for all, run `in_no_context`.

Source: org.apache.flink.util.MdcUtils. Differs: Flink's context has only the id of the job.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ParamSpec, TypeVar

from flinkpy.common.error_text import bounded_text, escaped_line

P = ParamSpec("P")
T = TypeVar("T")

#: Longest names of a job and of a vertex in a line of text. Names of chained operators may be thousands of characters
#: long; the start and the end tell them apart. JSON has longer ones.
MAX_JOB_NAME_CHARS = 60
MAX_VERTEX_NAME_CHARS = 80
#: Longest names in JSON.
MAX_NAME_CHARS = 1_000

#: The attribute of a `threading.Thread` that holds the context of the thread that started it.
_ATTRIBUTE = "_flinkpy_log_context"
#: The audit events of Python 3.12 and of 3.13 and later, raised in the thread that starts another one.
_STARTS = ("_thread.start_new_thread", "_thread.start_joinable_thread")


@dataclass(frozen=True)
class LogContext:
    """The job, and within it the execution attempt of a subtask.

    Attributes:
        subtask_index: the index of the subtask; -1 if the line belongs to the job but to no task.
        thread_name: the name of the task's thread, which a line of text does not repeat.
    """

    job_id: str
    job_name: str = ""
    vertex_id: str = ""
    vertex_name: str = ""
    subtask_index: int = -1
    parallelism: int = 0
    attempt_number: int = 0
    thread_name: str = ""

    @cached_property
    def text(self) -> str:
        """The context in a line of text: the name and id of the job, then `Map (1/2)#0`."""
        job = f"{shown_name(self.job_name, MAX_JOB_NAME_CHARS)} {self.job_id}".strip()
        if self.subtask_index < 0:
            return job
        vertex = shown_name(self.vertex_name, MAX_VERTEX_NAME_CHARS)
        return f"{job} | {vertex} ({self.subtask_index + 1}/{self.parallelism})#{self.attempt_number}"

    @cached_property
    def fields(self) -> dict[str, str | int]:
        """The fields of a line of JSON. `flink-job-id` is Flink's key; the others follow it."""
        fields: dict[str, str | int] = {"flink-job-id": self.job_id}
        if self.job_name:
            fields["flink-job-name"] = bounded_text(self.job_name, MAX_NAME_CHARS)
        if self.subtask_index >= 0:
            fields["flink-vertex-id"] = self.vertex_id
            fields["flink-vertex-name"] = bounded_text(self.vertex_name, MAX_NAME_CHARS)
            fields["flink-subtask-index"] = self.subtask_index
            fields["flink-parallelism"] = self.parallelism
            fields["flink-attempt-number"] = self.attempt_number
        return fields


def shown_name(name: str, max_chars: int) -> str:
    """Returns a name of a user on one bounded line in which nothing looks like the end of a field."""
    if len(name) > max_chars:
        half = (max_chars - 3) // 2
        name = f"{name[:half]}...{name[-half:]}"
    return escaped_line(name).replace("|", r"\x7c").replace("]", r"\x5d")


#: Stands for "belongs to no job", in contrast to None: "look for another source".
_NOBODY = LogContext("")
_CURRENT: ContextVar[LogContext | None] = ContextVar("flinkpy log context", default=None)
_PROCESS: list[LogContext] = []
_HAS_HOOK: list[bool] = []


def current_context() -> LogContext | None:
    """Returns the context of the caller; None if it belongs to no job. Thread: any."""
    context = _CURRENT.get() or getattr(threading.current_thread(), _ATTRIBUTE, None)
    if context is None or context is _NOBODY:
        return _PROCESS[0] if _PROCESS else None
    return context


def use_context(context: LogContext | None) -> None:
    """Makes the current thread one of this task, until it ends."""
    _CURRENT.set(context)


@contextmanager
def in_context(context: LogContext | None) -> Iterator[None]:
    """Runs the body with a context, or with none. For threads that work for many tasks."""
    token = _CURRENT.set(context or _NOBODY)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def in_current_context(call: Callable[P, T]) -> Callable[P, T]:
    """Returns the call in a form for other threads, which have the context of the current one while it runs.

    A pool of threads for all jobs needs it for every call.
    """
    return _in(current_context() or _NOBODY, call)


def in_no_context(call: Callable[P, T]) -> Callable[P, T]:
    """Returns the call in a form for a thread that works for all jobs, though a task may start it."""
    return _in(_NOBODY, call)


def _in(context: LogContext, call: Callable[P, T]) -> Callable[P, T]:
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        token = _CURRENT.set(context)
        try:
            return call(*args, **kwargs)
        finally:
            _CURRENT.reset(token)

    return called


def set_process_context(context: LogContext | None) -> None:
    """Sets the context of all lines of this process that have no other."""
    _PROCESS[:] = [] if context is None else [context]


def follow_threads() -> None:
    """Gives every thread that is started from now on the context of the thread that starts it. Idempotent.

    Python cannot remove an audit hook, so only processes that run tasks of several jobs call this.
    """
    # Python 3.11 has no such event, and a hook costs a little for every other one.
    if not _HAS_HOOK and sys.version_info >= (3, 12):
        _HAS_HOOK.append(True)
        sys.addaudithook(_on_audit_event)


def _on_audit_event(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _STARTS:
        thread = getattr(arguments[0], "__self__", None)
        if isinstance(thread, threading.Thread):
            context = _CURRENT.get() or getattr(threading.current_thread(), _ATTRIBUTE, None)
            if context is not None and context is not _NOBODY:
                setattr(thread, _ATTRIBUTE, context)
