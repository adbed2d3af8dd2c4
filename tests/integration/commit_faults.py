"""Sinks whose committers fail or stop, before, between and after their commits, so that a test can kill processes then.

A test arms a fault by a file: its name says where it happens, and its content what happens. The committer that gets
there renames or removes the file first, so each fault happens once.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flinkpy.connector_api.sink import CommitRequest, Committer, SinkBase, SinkWriter, WriterContext

#: The places of a fault. BETWEEN is after the first of several committables.
BEFORE, BETWEEN, AFTER = PLACES = ("before", "between", "after")
#: The fault of the committer: it raises an error, kills its own process, or waits until the test has killed others.
RAISE, DIE, WAIT = "raise", "die", "wait"
#: The suffix of the file of a committer that waits.
_WAITING = ".waiting"
#: The longest time that a committer waits. Then it goes on, like a process that has not heard that it is replaced.
_LONGEST_WAIT_S = 60.0


class Faults:
    """The faults of the committers of several sinks."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()

    def arm(self, sink: str, place: str, action: str) -> None:
        """Makes the committer of the sink do this when it gets there."""
        assert place in PLACES and action in (RAISE, DIE, WAIT)
        (self.directory / f"{sink}-{place}").write_text(action)

    def arm_all(self, sinks: Iterable[str], action: str) -> None:
        """Arms the fault at every place of every sink."""
        for sink in sinks:
            for place in PLACES:
                self.arm(sink, place, action)

    @property
    def left(self) -> list[str]:
        """The faults that have not happened."""
        return sorted(path.name for path in self.directory.iterdir())

    @contextmanager
    def killing(self, kill: Callable[[], None]) -> Iterator[None]:
        """Calls `kill()` whenever a committer waits, and lets the committer go on, if it still lives."""
        has_ended = threading.Event()

        def watch() -> None:
            while not has_ended.wait(0.02):
                for path in self.directory.glob(f"*{_WAITING}"):
                    kill()
                    path.unlink()

        thread = threading.Thread(target=watch, name="killer")
        thread.start()
        try:
            yield
        finally:
            has_ended.set()
            thread.join()


class FaultySink(SinkBase):
    """Wraps a sink. Its committer has the faults of `name`."""

    def __init__(self, sink: SinkBase, faults: Faults, name: str) -> None:
        self._sink = sink
        self._faults = str(faults.directory / name)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return self._sink.create_writer(context)

    def create_committer(self) -> Committer:
        committer = self._sink.create_committer()
        assert committer is not None
        return _FaultyCommitter(committer, self._faults)

    @property
    def committable_serializer(self) -> Any:
        return self._sink.committable_serializer


class _FaultyCommitter(Committer):
    def __init__(self, committer: Committer, faults: str) -> None:
        self._committer = committer
        self._faults = faults

    def commit(self, requests: list[CommitRequest]) -> None:
        self._fault(BEFORE)
        self._committer.commit(requests[:1])
        self._fault(BETWEEN)
        if requests[1:]:
            self._committer.commit(requests[1:])
        self._fault(AFTER)

    def _fault(self, place: str) -> None:
        path = f"{self._faults}-{place}"
        try:
            with open(path) as file:
                action = file.read()
        except FileNotFoundError:
            return
        if action == WAIT:
            os.rename(path, path + _WAITING)
            deadline = time.monotonic() + _LONGEST_WAIT_S
            while os.path.exists(path + _WAITING) and time.monotonic() < deadline:
                time.sleep(0.02)
            return
        os.unlink(path)
        if action == RAISE:
            raise OSError(f"a fault {place} the commit")
        os.kill(os.getpid(), signal.SIGKILL)

    def close(self) -> None:
        self._committer.close()
