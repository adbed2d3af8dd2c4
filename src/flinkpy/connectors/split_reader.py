"""SequentialSplitReader: a base class of readers that read splits one after the other."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from flinkpy.connector_api.source import ReaderStatus, SourceReader, SourceReaderContext

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch


class OpenSplit(Protocol):
    """A split that is being read. Thread: task thread."""

    def read_batch(self) -> Batch | None:
        """Returns the next batch, which is not empty; None at the end of the split."""
        ...

    def rest(self, rows_back: int) -> Any:
        """Returns the split that remains to be read.

        Args:
            rows_back: the number of records at the end of the last batch that count as not read. It is 0 before the
                first batch.
        """
        ...

    def close(self) -> None: ...


class SequentialSplitReader(SourceReader):
    """Requests a split, reads it to its end, and requests the next one.

    It never requests a split in advance, because an idle subtask could read that split meanwhile. Batches are emitted
    in slices of `context.max_batch_rows`; a checkpoint between two slices stores the position between them. Splits with
    a `split_id` have their own watermarks.

    Subclasses define `open_split`.
    """

    names_splits = True

    def __init__(self, context: SourceReaderContext) -> None:
        self._context = context
        self._splits: deque[Any] = deque()
        self._open: OpenSplit | None = None
        #: The last batch, and the number of its rows that have been emitted; None if all have.
        self._batch: Batch | None = None
        self._offset = 0
        self._no_more_splits = False

    @abstractmethod
    def open_split(self, split: Any) -> OpenSplit:
        """Opens a split for reading."""

    def start(self) -> None:
        if not self._splits:
            self._context.send_split_request()

    def poll_batch(self) -> Batch | ReaderStatus:
        if self._batch is not None:
            return self._next_slice(self._batch)
        while True:
            if self._open is None:
                if not self._splits:
                    return ReaderStatus.END_OF_INPUT if self._no_more_splits else ReaderStatus.NOTHING_AVAILABLE
                # A split that cannot be opened stays in the queue.
                self._open = self.open_split(self._splits[0])
                self.current_split_id = getattr(self._splits.popleft(), "split_id", None)
            batch = self._open.read_batch()
            if batch is not None:
                return batch if batch.num_rows <= self._context.max_batch_rows else self._next_slice(batch)
            self._close_split()
            if self.current_split_id is not None:
                self._context.split_finished(self.current_split_id)
            if not self._splits and not self._no_more_splits:
                self._context.send_split_request()

    def _next_slice(self, batch: Batch) -> Batch:
        offset = self._offset
        rows = min(batch.num_rows - offset, self._context.max_batch_rows)
        if offset + rows == batch.num_rows:
            self._batch, self._offset = None, 0
        else:
            self._batch, self._offset = batch, offset + rows
        return batch.slice(offset, rows)

    def add_splits(self, splits: list[Any]) -> None:
        self._splits.extend(splits)
        self._context.notify_available()

    def notify_no_more_splits(self) -> None:
        self._no_more_splits = True
        self._context.notify_available()

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        """Does nothing: only one split is read at a time, and pausing it would block the splits behind it.

        A source whose watermark is ahead waits as a whole instead.
        """
        return

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        if self._open is None:
            return list(self._splits)
        rows_back = 0 if self._batch is None else self._batch.num_rows - self._offset
        return [self._open.rest(rows_back), *self._splits]

    def close(self) -> None:
        self._batch = None
        self._close_split()

    def _close_split(self) -> None:
        split, self._open = self._open, None
        if split is not None:
            split.close()
