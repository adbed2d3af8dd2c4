"""Waits of the main thread that a signal ends.

Python runs the handlers of signals, and raises KeyboardInterrupt, in the main thread and between two instructions. A
wait without a time-out can miss a signal for ever: one that arrives when the thread has just looked for signals and is
about to sleep, or one that the kernel gives to another thread. On a loaded machine the first is likely, because the
thread lets go of the interpreter lock at that very moment. So these waits wake up now and then.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
from concurrent.futures import Future
from types import FrameType
from typing import Any

#: The longest that a missed signal is not noticed: short for a person, and two wake-ups a second cost nothing.
SIGNAL_LATENCY_S = 0.5


def wait_for(future: Future[Any], timeout_s: float | None = None) -> bool:
    """Waits until `future` is done, for `timeout_s` at most; returns whether it is done."""
    # A plain lock: an Event is Python code, and an interrupt inside of it could leave its own lock taken.
    done = threading.Lock()
    done.acquire()
    future.add_done_callback(lambda _: done.release())
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = SIGNAL_LATENCY_S if deadline_s is None else min(SIGNAL_LATENCY_S, deadline_s - time.monotonic())
        if done.acquire(timeout=max(0.0, left_s)):
            return True
        if deadline_s is not None and time.monotonic() >= deadline_s:
            return False


class AwaitedSignals:
    """Signals that are noted, from now on, instead of ending the process. Thread: the main one."""

    def __init__(self, *numbers: signal.Signals) -> None:
        # Taken until one has come. The handler could not set an Event whose own lock the thread it interrupts holds.
        self._none_has_come = threading.Lock()
        self._none_has_come.acquire()
        for number in numbers:
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._none_has_come.locked():
            self._none_has_come.release()

    def wait(self) -> None:
        """Returns once one has come."""
        while not self._none_has_come.acquire(timeout=SIGNAL_LATENCY_S):
            continue


def wait_for_exit(process: subprocess.Popen[bytes]) -> int:
    """Waits until the child has ended; returns its status as Popen does."""
    if process.poll() is None:
        descriptor = os.pidfd_open(process.pid)  # a child that is not reaped yet always has one
        try:
            ended = select.poll()
            ended.register(descriptor, select.POLLIN)
            while process.poll() is None:
                ended.poll(SIGNAL_LATENCY_S * 1000)
        finally:
            os.close(descriptor)
    return process.returncode
