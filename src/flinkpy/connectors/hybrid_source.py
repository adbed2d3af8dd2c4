"""HybridSource and its reader: several sources read one after the other, such as old files and then a topic.

All sources except the last are bounded. When every reader has finished a source, the enumerator of the next source is
created and the readers switch. A SourceFactory can create the next source from the enumerator of the previous one.
`hybrid_enumerator` describes how switches and failures work together.

Source: org.apache.flink.connector.base.source.hybrid.{HybridSource,HybridSourceReader}.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import InternalError
from flinkpy.connector_api.serializer import SimpleVersionedSerializer
from flinkpy.connector_api.source import (
    Boundedness,
    ReaderStatus,
    SourceBase,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkpy.connectors.hybrid_enumerator import HybridSplitEnumerator
from flinkpy.connectors.hybrid_events import (
    EventOf,
    HybridSplit,
    HybridSplitSerializer,
    NoMoreSplitsOf,
    ReaderAt,
    SourceEntry,
    SourceFinished,
    SourceSwitchContext,
    SwitchSource,
)

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch

__all__ = ["HybridSource", "HybridSourceBuilder", "SourceFactory"]

#: Creates a source when its turn comes.
SourceFactory = Callable[[SourceSwitchContext], SourceBase]


class HybridSource(SourceBase):
    """Reads several sources one after the other.

    Example:
        >>> source = HybridSource.builder(file_source).add_source(kafka_source).build()
        >>> stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "history and present")
    """

    def __init__(self, entries: tuple[SourceEntry, ...]) -> None:
        self._entries = entries

    @staticmethod
    def builder(first_source: SourceBase) -> HybridSourceBuilder:
        """Returns a builder whose first source is `first_source`."""
        return HybridSourceBuilder().add_source(first_source)

    @property
    def boundedness(self) -> Boundedness:
        return self._entries[-1].boundedness

    @property
    def produced_type(self) -> Any:
        """The type of the first source that declares one."""
        for entry in self._entries:
            if entry.source is not None and entry.source.produced_type is not None:
                return entry.source.produced_type
        return None

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return HybridSplitEnumerator(context, self._entries)

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        return HybridSplitEnumerator(context, self._entries, state)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return HybridSourceReader(context, self._entries)

    @property
    def split_serializer(self) -> SimpleVersionedSerializer:
        return HybridSplitSerializer(self._entries)

    def for_coordinator(self) -> SourceBase:
        return HybridSource(
            tuple(
                entry if entry.source is None else replace(entry, source=entry.source.for_coordinator())
                for entry in self._entries
            )
        )


class HybridSourceBuilder:
    """Builds a HybridSource from sources in the order in which they are read."""

    def __init__(self) -> None:
        self._entries: list[SourceEntry] = []

    def add_source(self, source: SourceBase) -> HybridSourceBuilder:
        """Adds a source that is read after those added before.

        Raises:
            ValueError: the previous source is unbounded, so this one would never be read.
            TypeError: `source` is not a source, or is a SourceFunction.
        """
        if not isinstance(source, SourceBase):
            raise TypeError(
                f"add_source takes a source, not {source!r}; pass a function that creates one to add_source_factory"
            )
        if source.source_function is not None:
            raise TypeError("a SourceFunction cannot be part of a HybridSource, because it has no splits")
        return self._add(SourceEntry(source, None, source.boundedness))

    def add_source_factory(
        self, factory: SourceFactory, boundedness: Boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    ) -> HybridSourceBuilder:
        """Adds a source that is created when its turn comes. Beyond PyFlink.

        Args:
            factory: a function that takes a SourceSwitchContext and returns a source. The context's
                `get_previous_enumerator()` is the enumerator of the previous source. The JobMaster calls the factory
                once in the life of a job.
            boundedness: the boundedness of the source that the factory returns.

        Raises:
            ValueError: this is the first source, or the previous source is unbounded.
        """
        if not callable(factory):
            raise TypeError(f"add_source_factory takes a function that creates a source, not {factory!r}")
        if not self._entries:
            raise ValueError("The first source cannot be a factory, because it has no previous enumerator.")
        return self._add(SourceEntry(None, factory, boundedness))

    def _add(self, entry: SourceEntry) -> HybridSourceBuilder:
        if self._entries and self._entries[-1].boundedness is not Boundedness.BOUNDED:
            raise ValueError("All sources except the final source need to be bounded.")
        self._entries.append(entry)
        return self

    def build(self) -> HybridSource:
        return HybridSource(tuple(self._entries))


class HybridSourceReader(SourceReader):
    """Runs the readers of the sources one after the other.

    The enumerator tells the reader which source to read. Splits of later sources wait and hold watermarks back like any
    other split. The id of a split begins with the index of its source.

    Thread: task thread.
    """

    names_splits = True

    def __init__(self, context: SourceReaderContext, entries: tuple[SourceEntry, ...]) -> None:
        self._context = context
        self._entries = entries
        self._inner: SourceReader | None = None
        #: The index of the source that `_inner` reads, or of the source read last.
        self._index = -1
        self._is_final = False
        #: Splits of sources whose turn has not come yet.
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
            raise InternalError(f"source {event.source_index} of a hybrid source has not been created")
        self._inner = source.create_reader(_InnerContext(self._context, self))
        self._hand_over()
        self._inner.start()
        self._context.notify_available()

    def _hand_over(self) -> None:
        """Passes waiting splits of the current source to its reader."""
        if self._inner is None:
            return
        current = [split for split in self._waiting if split.source_index == self._index]
        if not self._inner.names_splits:
            # From here on these splits have no watermarks of their own.
            for split in current:
                if split.split_id is not None:
                    self._context.split_finished(split.split_id)
        if current:
            self._waiting = [split for split in self._waiting if split.source_index != self._index]
            self._inner.add_splits([split.split for split in current])

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
    """The SourceReaderContext of one source's reader."""

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
