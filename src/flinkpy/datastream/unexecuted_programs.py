"""Reports a program that ends without executing the sinks that it added, which would otherwise end silently.

A sink that a script adds is recorded, with the line that added it, until its environment executes, plans or forgets its
program. If sinks are left when the interpreter exits, a message goes to standard error. Sinks that other modules add
are not recorded: tests and libraries build programs that are not meant to be executed.
"""

from __future__ import annotations

import atexit
import os
import sys
from dataclasses import dataclass
from types import FrameType

_PACKAGE = __name__.partition(".")[0]

#: The number of recorded sinks. The message names the first one and the number of the others.
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
    """Records a sink that was added to a program, with the line of the user's call."""
    frame = _users_frame(sys._getframe(1))
    if frame is None or frame.f_globals.get("__name__") != "__main__" or len(_noted) >= MAX_NOTED:
        return
    global _is_registered
    if not _is_registered:
        _is_registered = True
        atexit.register(_tell)
    _noted.append(_Sink(id(environment), name, frame.f_code.co_filename, frame.f_lineno, os.getpid()))


def forget_sinks(environment: object | None = None) -> None:
    """Forgets the sinks of an environment, or of all: their program was executed, or need not be."""
    _noted[:] = [] if environment is None else [sink for sink in _noted if sink.environment != id(environment)]


def describe_unexecuted() -> str | None:
    """Returns the message for a program that ends now; None if all its sinks were executed."""
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
