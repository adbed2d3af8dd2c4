"""Waits of the main thread that signals can interrupt.

Python runs signal handlers, and raises KeyboardInterrupt, in the main thread between two instructions. A wait without a
timeout can miss a signal forever: either the signal arrives after the thread has checked for signals and before it
sleeps, or the kernel delivers it to another thread. The first is likely on a loaded machine, because the thread
releases the interpreter lock at that moment. So these waits wake up at intervals.
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

#: Maximum delay of a missed signal. It is short for a user, and two wake-ups per second cost almost nothing.
SIGNAL_LATENCY_S = 0.5


def wait_for(future: Future[Any], timeout_s: float | None = None) -> bool:
    """Waits for `future`, at most `timeout_s`; returns True if it is done."""
    # An Event is Python code, and an interrupt inside it could leave its lock taken. A plain lock has no such problem.
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
    """Records signals instead of letting them end the process. Thread: the main thread."""

    def __init__(self, *numbers: signal.Signals) -> None:
        # Held until a signal arrives. A handler cannot set an Event whose lock the interrupted thread holds.
        self._not_received = threading.Lock()
        self._not_received.acquire()
        for number in numbers:
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._not_received.locked():
            self._not_received.release()

    def wait(self) -> None:
        """Returns when one of the signals has arrived."""
        while not self._not_received.acquire(timeout=SIGNAL_LATENCY_S):
            continue

    def wait_for(self, timeout_s: float) -> bool:
        """Waits at most this long. Returns True if one of the signals has arrived, and may be called once then."""
        return self._not_received.acquire(timeout=timeout_s)


def wait_for_exit(process: subprocess.Popen[bytes]) -> int:
    """Waits for the end of the child and returns its status as Popen does."""
    if process.poll() is None:
        descriptor = os.pidfd_open(process.pid)  # never fails for a child that is not reaped yet
        try:
            ended = select.poll()
            ended.register(descriptor, select.POLLIN)
            while process.poll() is None:
                ended.poll(SIGNAL_LATENCY_S * 1000)
        finally:
            os.close(descriptor)
    return process.returncode
