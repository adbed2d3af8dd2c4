"""Notices a program that ends without having executed what it built, which otherwise ends in silence.

A sink that a script adds is noted, with the line that added it, until its environment executes, plans or forgets its
program. What is noted when the interpreter exits is told on standard error. Sinks that other modules add are not noted:
tests and libraries build programs that nobody means to execute.
"""

from __future__ import annotations

import atexit
import os
import sys
from dataclasses import dataclass
from types import FrameType

_PACKAGE = __name__.partition(".")[0]

#: Sinks that are kept for the message; it names the first one.
MAX_NOTED = 100


@dataclass(frozen=True, slots=True)
class _Sink:
    environment: int
    name: str
    file: str
    line: int
    pid: int


_noted: list[_Sink] = []
_is_registered = False


def note_sink(environment: object, name: str) -> None:
    """A sink was added to a program; called somewhere below the user's own call."""
    frame = _users_frame(sys._getframe(1))
    if frame is None or frame.f_globals.get("__name__") != "__main__" or len(_noted) >= MAX_NOTED:
        return
    global _is_registered
    if not _is_registered:
        _is_registered = True
        atexit.register(_tell)
    _noted.append(_Sink(id(environment), name, frame.f_code.co_filename, frame.f_lineno, os.getpid()))


def forget_sinks(environment: object | None = None) -> None:
    """The program of this environment, or of all, was executed, or will not be."""
    _noted[:] = [] if environment is None else [sink for sink in _noted if sink.environment != id(environment)]


def describe_unexecuted() -> str | None:
    """Returns what to tell a user whose program ends now, or None if nothing was left out."""
    ours = [sink for sink in _noted if sink.pid == os.getpid()]  # a forked child ends without its parent's program
    if not ours:
        return None
    first = ours[0]
    more = f" and {len(ours) - 1} more" if len(ours) > 1 else ""
    return (
        f"flinkpy: the program has ended without running: execute() was not called after the sink "
        f"'{first.name}' was added ({os.path.basename(first.file)}:{first.line}){more}"
    )


def _tell() -> None:
    has_failed = getattr(sys, "last_value", None) is not None
    if not has_failed and (text := describe_unexecuted()) is not None:
        sys.stderr.write(f"{text}\n")  # logging may be shut down by now


def _users_frame(frame: FrameType | None) -> FrameType | None:
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return frame
