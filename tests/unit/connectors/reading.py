"""Reads a source batch by batch, with checkpoints between any batches, or while threads of its reader fetch."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

from connector_fakes import TestingReaderContext

from flinkpy.connector_api.source import ReaderStatus, SourceBase
from flinkpy.records.lanes import rows_of


def rows_of_batch(batch: Any) -> list[Any]:
    if isinstance(batch.values, list):
        return list(batch.values)
    columns = [column.to_pylist() for column in batch.values.columns]
    return columns[0] if len(columns) == 1 else list(zip(*columns))


def read_until(source: SourceBase, splits: list[Any], max_batch_rows: int, num_batches: int | None = None):
    """Reads `num_batches` batches, or all. Returns their rows, the remaining splits and the number of batches."""
    with closing(source.create_reader(TestingReaderContext(max_batch_rows=max_batch_rows))) as reader:
        if splits:
            reader.add_splits(splits)
        reader.notify_no_more_splits()
        reader.start()
        rows = []
        given = 0
        while num_batches is None or given < num_batches:
            polled = reader.poll_batch()
            if polled is ReaderStatus.END_OF_INPUT:
                break
            assert 0 < polled.num_rows <= max_batch_rows
            rows.extend(rows_of_batch(polled))
            given += 1
        left = pickle.loads(pickle.dumps(reader.snapshot_state(1)))
    return rows, left, given


def check_every_batch_boundary(source: SourceBase, splits: list[Any], max_batch_rows: int) -> list[Any]:
    """Checks that a restore at any batch boundary loses, repeats and reorders nothing. Returns all records.

    Each boundary is tested with one restore, and with a second restore after the next batch.
    """
    expected, left, num_batches = read_until(source, splits, max_batch_rows)
    assert left == [] or read_until(source, left, max_batch_rows)[0] == []
    assert num_batches > 2, "the test reads too few batches"
    for boundary in range(num_batches + 1):
        before, left, _ = read_until(source, splits, max_batch_rows, boundary)
        after, _, _ = read_until(source, left, max_batch_rows + 1)
        assert before + after == expected, f"cut after batch {boundary}"
        middle, left, _ = read_until(source, left, max_batch_rows, 1)
        last, _, _ = read_until(source, left, max_batch_rows + 1)
        assert before + middle + last == expected, f"cut after batch {boundary} and the next"
    return expected


class WaitingReaderContext(TestingReaderContext):
    """A context whose test can wait until the reader has records."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.available = threading.Condition()
        self.events: list[Any] = []

    def notify_available(self) -> None:
        with self.available:
            self.availability_calls += 1
            self.available.notify_all()

    def send_source_event(self, event: Any) -> None:
        self.events.append(event)


class Reading:
    """Reads a source with one reader whose threads fetch the records."""

    def __init__(self, source: SourceBase, splits: list[Any], **values: Any) -> None:
        self.context = WaitingReaderContext(**values)
        self.reader = source.create_reader(self.context)
        self.reader.add_splits(splits)
        self.reader.start()
        #: (split, record, timestamp).
        self.read: list[tuple[str | None, Any, int]] = []
        self.has_ended = False

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.close()

    def poll(self) -> bool:
        """Returns True if the reader had a batch."""
        polled = self.reader.poll_batch()
        if isinstance(polled, ReaderStatus):
            self.has_ended = polled is ReaderStatus.END_OF_INPUT
            return False
        assert polled.timestamps is not None
        split_id = self.reader.current_split_id
        self.read += [(split_id, row, int(at)) for row, at in zip(rows_of(polled), polled.timestamps)]
        return True

    def until(self, condition: Callable[[], bool]) -> None:
        """Reads until the condition holds."""
        while True:
            with self.context.available:
                calls = self.context.availability_calls
            while self.poll():
                if condition():
                    return
            if condition():
                return
            with self.context.available:
                if self.context.availability_calls == calls:
                    assert self.context.available.wait(10)

    def to_the_end(self) -> list[Any]:
        """Reads all records of the splits."""
        self.reader.notify_no_more_splits()
        self.until(lambda: self.has_ended)
        return self.records

    @property
    def records(self) -> list[Any]:
        return [record for _, record, _ in self.read]
