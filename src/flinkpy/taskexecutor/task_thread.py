"""TaskThread: the thread of a task, which can be interrupted.

Python has no Thread.interrupt. An exception can be set for another thread, which raises it between two bytecodes. So it
interrupts Python code, but not a long call into C. `TaskCanceler` has a time-out for such calls.

Source: the executing thread of org.apache.flink.runtime.taskmanager.Task.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType

_PACKAGE_DIR = str(Path(__file__).resolve().parents[1])
_LIBRARY_DIRS = tuple({sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")})


class TaskInterrupted(BaseException):
    """Raised in a task thread that did not stop. It is no Exception, so `except Exception` does not catch it."""


class TaskThread:
    """Runs `body()` on a daemon thread, then calls `on_exit(error)` there exactly once, without interrupts.

    Thread: any.
    """

    def __init__(self, name: str, body: Callable[[], None], on_exit: Callable[[BaseException | None], None]) -> None:
        self._body = body
        self._on_exit = on_exit
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        #: Guards `_interruptible`: a thread that has begun to exit is not interrupted.
        self._lock = threading.Lock()
        self._interruptible = False

    def start(self) -> None:
        self._interruptible = True
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, timeout_s: float) -> bool:
        """Waits for the end of the thread. Returns False if it still runs after `timeout_s`."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def interrupt(self) -> bool:
        """Raises TaskInterrupted in the thread. Returns False if it is not running `body`."""
        with self._lock:
            ident = self._thread.ident
            if not self._interruptible or ident is None:
                return False
            return _set_async_exception(ident, TaskInterrupted) == 1

    @property
    def is_in_user_code(self) -> bool:
        """True if a function of the user is on the stack."""
        frame: FrameType | None = sys._current_frames().get(self._thread.ident or 0)
        while frame is not None:
            if is_user_file(frame.f_code.co_filename):
                return True
            frame = frame.f_back
        return False

    @property
    def stack(self) -> str:
        """The current stack of the thread, for logs."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "" if frame is None else "".join(traceback.format_stack(frame))

    @property
    def user_stack(self) -> str:
        """The frames of the user's functions on the current stack; empty if there are none."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        frames = [] if frame is None else traceback.extract_stack(frame)
        return "".join(traceback.format_list([one for one in frames if is_user_file(one.filename)]))

    def _run(self) -> None:
        error: BaseException | None = None
        has_run = False
        while True:
            try:
                if not has_run:
                    has_run = True
                    self._body()
                self._end_interrupts()
                break
            except BaseException as raised:  # noqa: BLE001 - passed to on_exit; an interrupt may be raised anywhere
                if error is None:
                    error = raised
        self._on_exit(error)

    def _end_interrupts(self) -> None:
        with self._lock:
            self._interruptible = False
            _set_async_exception(threading.get_ident(), None)  # discards an interrupt that has not been raised yet


def is_user_file(filename: str) -> bool:
    """True if the file belongs to the user: not to flinkpy, the standard library or an installed package."""
    if filename.startswith(("<frozen", "<flinkpy")):
        return False
    return not filename.startswith((_PACKAGE_DIR, *_LIBRARY_DIRS))


def _set_async_exception(ident: int, kind: type[BaseException] | None) -> int:
    value = None if kind is None else ctypes.py_object(kind)
    return ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), value)
