"""HybridSourceReader: runs the readers of a HybridSource one after the other.

It starts nothing by itself: the enumerator says which source is to be read. Splits of sources that come later wait.

Source: org.apache.flink.connector.base.source.hybrid.HybridSourceReader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import InternalError
from flinkpy.connector_api.source import ReaderStatus, SourceReader, SourceReaderContext
from flinkpy.connectors.hybrid_events import (
    EventOf,
    HybridSplit,
    NoMoreSplitsOf,
    ReaderAt,
    SourceEntry,
    SourceFinished,
    SwitchSource,
)

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch


class HybridSourceReader(SourceReader):
    """Thread: task thread. The ids of splits begin with the index of their source. A split of a source whose turn has
    not come holds watermarks back like any other.
    """

    names_splits = True

    def __init__(self, context: SourceReaderContext, entries: tuple[SourceEntry, ...]) -> None:
        self._context = context
        self._entries = entries
        self._inner: SourceReader | None = None
        #: Which source `_inner` reads, or the last one read.
        self._index = -1
        self._is_final = False
        #: Splits of sources whose turn has not come.
        self._waiting: list[HybridSplit] = []

    def start(self) -> None:
        self._context.send_source_event(ReaderAt(self._first_waiting))

    def poll_batch(self) -> Batch | ReaderStatus:
        inner = self._inner
        if inner is None:
            return ReaderStatus.NOTHING_AVAILABLE
        polled = inner.poll_batch()
        if polled is not ReaderStatus.END_OF_INPUT:
            self.current_split_id = self._prefixed(inner.current_split_id)
            return polled
        if self._is_final:
            return polled
        self._close_inner()
        self._context.send_source_event(SourceFinished(self._index, self._first_waiting))
        return ReaderStatus.NOTHING_AVAILABLE

    def add_splits(self, splits: list[Any]) -> None:
        self._waiting.extend(splits)
        self._hand_over()

    def notify_no_more_splits(self) -> None:
        return

    def handle_source_event(self, event: Any) -> None:
        match event:
            case SwitchSource():
                self._switch(event)
            case NoMoreSplitsOf(source_index):
                if self._inner is not None and source_index == self._index:
                    self._inner.notify_no_more_splits()
            case EventOf(source_index, payload):
                if self._inner is not None and source_index == self._index:
                    self._inner.handle_source_event(payload)
            case _:
                raise InternalError(f"the enumerator of a hybrid source sent an unknown event: {event!r}")

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        if self._inner is not None:
            self._inner.pause_or_resume_splits(self._own(splits_to_pause), self._own(splits_to_resume))

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        current = [] if self._inner is None else self._inner.snapshot_state(checkpoint_id)
        return [*(HybridSplit(self._index, split) for split in current), *self._waiting]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._inner is not None:
            self._inner.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        if self._inner is not None:
            self._inner.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        self._close_inner()

    # -- inside --------------------------------------------------------------------------------------------------

    @property
    def _first_waiting(self) -> int | None:
        return min((split.source_index for split in self._waiting), default=None)

    def _switch(self, event: SwitchSource) -> None:
        self._close_inner()
        self._index = event.source_index
        self._is_final = event.is_final
        source = event.made or self._entries[event.source_index].source
        if source is None:
            raise InternalError(f"nobody has made source {event.source_index} of a hybrid source")
        self._inner = source.create_reader(_InnerContext(self._context, self))
        self._hand_over()
        self._inner.start()
        self._context.notify_available()

    def _hand_over(self) -> None:
        """Give the reader what has come for its source."""
        if self._inner is None:
            return
        mine = [split.split for split in self._waiting if split.source_index == self._index]
        if not self._inner.names_splits:
            # They have no watermarks of their own from here on.
            for split_id in [split.split_id for split in self._waiting if split.source_index == self._index]:
                if split_id is not None:
                    self._context.split_finished(split_id)
        if mine:
            self._waiting = [split for split in self._waiting if split.source_index != self._index]
            self._inner.add_splits(mine)

    def _close_inner(self) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.close()

    def _prefixed(self, split_id: str | None) -> str | None:
        return None if split_id is None else f"{self._index}:{split_id}"

    def _own(self, split_ids: list[str]) -> list[str]:
        prefix = f"{self._index}:"
        return [split_id.removeprefix(prefix) for split_id in split_ids if split_id.startswith(prefix)]


class _InnerContext:
    """The context of the reader of one of the sources."""

    def __init__(self, context: SourceReaderContext, reader: HybridSourceReader) -> None:
        self._context = context
        self._reader = reader
        self._index = reader._index

    def send_source_event(self, event: Any) -> None:
        self._context.send_source_event(EventOf(self._index, event))

    def split_finished(self, split_id: str) -> None:
        self._context.split_finished(f"{self._index}:{split_id}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)
