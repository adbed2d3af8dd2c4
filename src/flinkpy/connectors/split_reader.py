"""SequentialSplitReader: reads its splits one after the other, batch by batch."""

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
        """The next batch, never an empty one; None at the end of the split."""
        ...

    def close(self) -> None: ...


class SequentialSplitReader(SourceReader):
    """Asks for a split, reads it to its end, asks for the next.

    It never asks ahead: a split waiting behind a long one could have been read by an idle subtask.
    """

    def __init__(self, context: SourceReaderContext) -> None:
        self._context = context
        self._splits: deque[Any] = deque()
        self._open: OpenSplit | None = None
        self._no_more_splits = False

    @abstractmethod
    def open_split(self, split: Any) -> OpenSplit: ...

    def start(self) -> None:
        if not self._splits:
            self._context.send_split_request()

    def poll_batch(self) -> Batch | ReaderStatus:
        while True:
            if self._open is None:
                if not self._splits:
                    return ReaderStatus.END_OF_INPUT if self._no_more_splits else ReaderStatus.NOTHING_AVAILABLE
                self._open = self.open_split(self._splits.popleft())
            batch = self._open.read_batch()
            if batch is not None:
                return batch
            self._close_split()
            if not self._splits and not self._no_more_splits:
                self._context.send_split_request()

    def add_splits(self, splits: list[Any]) -> None:
        self._splits.extend(splits)
        self._context.notify_available()

    def notify_no_more_splits(self) -> None:
        self._no_more_splits = True
        self._context.notify_available()

    def close(self) -> None:
        self._close_split()

    def _close_split(self) -> None:
        split, self._open = self._open, None
        if split is not None:
            split.close()
