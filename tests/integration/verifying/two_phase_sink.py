"""TwoPhaseSink: writes records into files that appear atomically when a checkpoint is complete, and never change.

    <directory>/due/<writer>                   the writer has records for the next checkpoint
    <directory>/staged/<transaction>.json      prepared: on the disk, not visible to readers
    <directory>/committed/<transaction>.json   committed: never changed, never removed

A reader of `committed` sees exactly the committed records at any time: `committed_records` returns all of them,
`CommittedLog` new ones. The writer keeps its latest records open as its state, so that a checkpoint contains all three:
open records, prepared transactions and committed ones.
"""

from __future__ import annotations

import json
import os
import secrets
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flinkpy.common.durable_file import sync_directory, write_durably
from flinkpy.connector_api.sink import CommitRequest, Committer, SinkBase, SinkWriter, StatefulSinkWriter, WriterContext

#: The number of records that stay open across a checkpoint.
KEEP_OPEN = 3


@dataclass(frozen=True)
class Transaction:
    """A committable."""

    name: str
    num_records: int


class TwoPhaseSink(SinkBase):
    """Takes tuples of JSON values.

    `faults` (of `verifying.faults`) can strike at `write`, `prepare_commit`, `sink_snapshot`, `commit` (before a
    transaction is committed) and `committed` (after it was).
    """

    def __init__(self, directory: str, faults: Any = None) -> None:
        self.directory = str(directory)
        self.faults = faults

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return TwoPhaseWriter(self, context, [])

    def restore_writer(self, context: WriterContext, states: list[Any]) -> SinkWriter:
        return TwoPhaseWriter(self, context, states)

    def create_committer(self) -> Committer:
        return DirectoryCommitter(self)

    def hit(self, place: str) -> None:
        if self.faults is not None:
            self.faults.hit(place)


class TwoPhaseWriter(StatefulSinkWriter):
    def __init__(self, sink: TwoPhaseSink, context: WriterContext, open_records: list[Any]) -> None:
        self._sink = sink
        self._input_type = context.input_type
        self._open: deque[Any] = deque(open_records)
        self._ready: list[Transaction] = []
        self._staged = _directory(sink.directory, "staged")
        # Differs from the name of any other attempt, even if the same checkpoint is restored repeatedly.
        self._uid = secrets.token_hex(8)
        self._num_transactions = 0
        self._due = _directory(sink.directory, "due") / self._uid
        self._is_due = False

    def write(self, batch: Any) -> None:
        from flinkpy.records.lanes import rows_of

        self._sink.hit("write")
        self._open.extend(map(tuple, rows_of(batch, self._input_type)))
        if len(self._open) > KEEP_OPEN and not self._is_due:
            self._due.touch()
            self._is_due = True

    def flush(self, end_of_input: bool) -> None:
        due = len(self._open) - (0 if end_of_input else KEEP_OPEN)
        if due <= 0:
            return
        records = [self._open.popleft() for _ in range(due)]
        self._due.unlink(missing_ok=True)
        self._is_due = False
        name = f"{self._uid}-{self._num_transactions}"
        self._num_transactions += 1
        write_durably(self._staged / f"{name}.json", json.dumps(records).encode())
        self._ready.append(Transaction(name, len(records)))

    def prepare_commit(self) -> list[Any]:
        self._sink.hit("prepare_commit")
        ready, self._ready = self._ready, []
        return ready

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        self._sink.hit("sink_snapshot")
        # One element per record, because records are redistributed one by one when the parallelism changes.
        return list(self._open)


class DirectoryCommitter(Committer):
    def __init__(self, sink: TwoPhaseSink) -> None:
        self._sink = sink
        self._staged = _directory(sink.directory, "staged")
        self._committed = _directory(sink.directory, "committed")

    def commit(self, requests: list[CommitRequest]) -> None:
        for request in requests:
            name = f"{request.get_committable().name}.json"
            self._sink.hit("commit")
            if (self._committed / name).exists():
                request.signal_already_committed()
                continue
            try:
                os.rename(self._staged / name, self._committed / name)
            except FileNotFoundError as error:
                request.signal_failed_with_unknown_reason(error)
                continue
            self._sink.hit("committed")
        sync_directory(self._committed)


def writers_with_records(directory: str | Path) -> set[str]:
    """Returns the writers that have records to commit with the next checkpoint, including killed writers."""
    try:
        return set(os.listdir(Path(directory, "due")))
    except FileNotFoundError:
        return set()


class CommittedLog:
    """Follows the committed output: each call returns the records of new transactions."""

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory, "committed")
        self._seen: set[str] = set()

    def read_new(self) -> list[tuple[Any, ...]]:
        try:
            names = sorted(set(os.listdir(self._directory)) - self._seen)
        except FileNotFoundError:
            return []
        self._seen.update(names)
        return [tuple(record) for name in names for record in json.loads((self._directory / name).read_text())]


def committed_records(directory: str | Path) -> Iterator[tuple[Any, ...]]:
    """Yields all records that are committed now."""
    return iter(CommittedLog(directory).read_new())


def _directory(parent: str, name: str) -> Path:
    path = Path(parent, name)
    path.mkdir(parents=True, exist_ok=True)
    sync_directory(path.parent)
    return path
