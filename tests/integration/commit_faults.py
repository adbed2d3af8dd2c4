"""Sinks whose committers kill processes or fail, before, between and after their commits.

A test arms a fault by a file: its name says where it happens, and its content what happens. The committer that gets
there removes the file first, so each fault happens once.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from flinkpy.connector_api.sink import CommitRequest, Committer, SinkBase, SinkWriter, WriterContext

#: The places of a fault. BETWEEN is after the first committable of several.
BEFORE, BETWEEN, AFTER = PLACES = ("before", "between", "after")
#: The process that commits, in the list of processes to kill.
SELF = "self"
#: How long a committer waits after it has killed other processes: until its task is canceled, at most this long.
_LINGER_S = 3.0


class Faults:
    """Arms faults of the committers of sinks, by the sink's name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()

    def raise_error(self, sink: str, place: str) -> None:
        """Makes the committer fail there."""
        self._arm(sink, place, "raise")

    def kill(self, sink: str, place: str, *victims: int | str) -> None:
        """Makes the committer kill these processes there, the last one SELF perhaps."""
        self._arm(sink, place, " ".join(map(str, victims)))

    @property
    def armed(self) -> list[str]:
        """The faults that have not happened."""
        return sorted(path.name for path in self.directory.iterdir())

    def _arm(self, sink: str, place: str, action: str) -> None:
        assert place in PLACES
        target = self.directory / f"{sink}-{place}"
        temporary = self.directory.with_suffix(".tmp")
        temporary.write_text(action)
        temporary.replace(target)


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
            os.unlink(path)
        except FileNotFoundError:
            return
        if action == "raise":
            raise OSError(f"a fault {place} the commit")
        for victim in action.split():
            os.kill(os.getpid() if victim == SELF else int(victim), signal.SIGKILL)
        time.sleep(_LINGER_S)

    def close(self) -> None:
        self._committer.close()
