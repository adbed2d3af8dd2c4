"""HybridSplitEnumerator: runs the enumerators of a HybridSource one after the other.

A reader reports its position (ReaderAt, SourceFinished), and the enumerator tells it what to read next. The rules:

* The current enumerator learns of a reader only after that reader was told to read its source. The splits that it
  assigns therefore arrive after the SwitchSource.
* When all readers have finished the current source, the next source is created and all readers are told to switch.
* A reader restored from a checkpoint may be behind: it has splits of a source whose enumerator is gone, or it has given
  such splits back. It is told to read that source again and gets only the splits that came back. Then it moves on to
  the next source that has splits left, and in the end to the current one.
* A checkpoint contains the state of the current source's enumerator, the unassigned splits of older sources, and the
  sources that factories have created. A factory is called once in the life of a job.

Source: org.apache.flink.connector.base.source.hybrid.HybridSourceSplitEnumerator. Differs: a source that a factory has
created is part of the checkpoint. Flink calls the factory again, without a previous enumerator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import InternalError
from flinkpy.connector_api.serializer import read_versioned, write_versioned
from flinkpy.connector_api.source import SourceBase, SplitEnumerator, SplitEnumeratorContext
from flinkpy.connectors.hybrid_events import (
    EventOf,
    HybridSplit,
    NoMoreSplitsOf,
    ReaderAt,
    SourceEntry,
    SourceFinished,
    SourceSwitchContext,
    SwitchSource,
)


@dataclass(frozen=True, slots=True)
class HybridEnumeratorState:
    """The state of a HybridSplitEnumerator in a checkpoint."""

    source_index: int
    #: Written by the serializer for the enumerator state of that source.
    enumerator_state: Any
    #: Unassigned splits of earlier sources.
    given_back: tuple[HybridSplit, ...]
    #: Sources that factories have created, by index.
    made: dict[int, SourceBase]


class HybridSplitEnumerator(SplitEnumerator):
    """Enumerates the splits of one source after the other. Thread: JobMaster main thread."""

    def __init__(
        self,
        context: SplitEnumeratorContext,
        entries: tuple[SourceEntry, ...],
        state: HybridEnumeratorState | None = None,
    ) -> None:
        self._context = context
        self._entries = entries
        self._made: dict[int, SourceBase] = {} if state is None else dict(state.made)
        self._index = 0 if state is None else state.source_index
        self._given_back: list[HybridSplit] = [] if state is None else list(state.given_back)
        #: The source that each reader is reading or has finished last, for readers that have reported it.
        self._reader_at: dict[int, int] = {}
        self._finished: set[int] = set()
        source = self._source_at(self._index)
        inner = _InnerContext(self, self._index)
        if state is None:
            self._inner = source.create_enumerator(inner)
        else:
            restored = read_versioned(
                source.enumerator_state_serializer, state.enumerator_state, "the enumerator of a hybrid source"
            )
            self._inner = source.restore_enumerator(inner, restored)

    @property
    def source_index(self) -> int:
        """The index of the current source."""
        return self._index

    @property
    def is_at_last_source(self) -> bool:
        return self._index + 1 == len(self._entries)

    def start(self) -> None:
        self._set_backlog()
        self._inner.start()

    def add_reader(self, subtask_index: int) -> None:
        """Forgets the reader's position, which the reader reports itself."""
        self._reader_at.pop(subtask_index, None)
        self._finished.discard(subtask_index)

    def handle_split_request(self, subtask_index: int) -> None:
        if self._reader_at.get(subtask_index) == self._index:
            self._inner.handle_split_request(subtask_index)

    def add_splits_back(self, splits: list[Any], subtask_index: int) -> None:
        self._reader_at.pop(subtask_index, None)
        self._finished.discard(subtask_index)
        current = [split.split for split in splits if split.source_index == self._index]
        self._given_back.extend(split for split in splits if split.source_index != self._index)
        if current:
            self._inner.add_splits_back(current, subtask_index)

    def handle_source_event(self, subtask_index: int, event: Any) -> None:
        match event:
            case ReaderAt(source_index):
                self._switch_reader(subtask_index, source_index)
            case SourceFinished(source_index, has_splits_of):
                self._on_finished(subtask_index, source_index, has_splits_of)
            case EventOf(source_index, payload):
                if source_index == self._index:
                    self._inner.handle_source_event(subtask_index, payload)
            case _:
                raise InternalError(f"a reader of a hybrid source sent an unknown event: {event!r}")

    def snapshot_state(self, checkpoint_id: int) -> HybridEnumeratorState:
        serializer = self._source_at(self._index).enumerator_state_serializer
        state = write_versioned(serializer, self._inner.snapshot_state(checkpoint_id))
        return HybridEnumeratorState(self._index, state, tuple(self._given_back), dict(self._made))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._inner.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._inner.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        self._inner.close()

    # -- inside --------------------------------------------------------------------------------------------------

    def _on_finished(self, subtask_index: int, source_index: int, has_splits_of: int | None) -> None:
        if self._reader_at.get(subtask_index) != source_index:
            return
        if source_index < self._index:
            self._switch_reader(subtask_index, has_splits_of)
            return
        self._finished.add(subtask_index)
        if len(self._finished) == self._context.parallelism and self._index + 1 < len(self._entries):
            self._switch_enumerator()

    def _switch_reader(self, subtask_index: int, has_splits_of: int | None) -> None:
        """Switches a reader to the first source that has unread splits, or to the current source."""
        left = [split.source_index for split in self._given_back]
        if has_splits_of is not None:
            left.append(has_splits_of)
        index = min([*left, self._index])
        self._reader_at[subtask_index] = index
        is_final = index + 1 == len(self._entries)
        self._context.send_event_to_reader(subtask_index, SwitchSource(index, self._made.get(index), is_final))
        if index == self._index:
            self._inner.add_reader(subtask_index)
            return
        splits = [split for split in self._given_back if split.source_index == index]
        if splits:
            self._given_back = [split for split in self._given_back if split.source_index != index]
            self._context.assign_splits({subtask_index: splits})
        self._context.send_event_to_reader(subtask_index, NoMoreSplitsOf(index))

    def _switch_enumerator(self) -> None:
        previous = self._inner
        self._index += 1
        entry = self._entries[self._index]
        if entry.factory is not None and self._index not in self._made:
            source = entry.factory(SourceSwitchContext(previous))
            if not isinstance(source, SourceBase) or source.source_function is not None:
                raise TypeError(
                    f"the factory of source {self._index} of a hybrid source must return a source, not {source!r}"
                )
            self._made[self._index] = source
        previous.close()
        readers = sorted(self._finished)
        self._finished.clear()
        self._inner = self._source_at(self._index).create_enumerator(_InnerContext(self, self._index))
        self._set_backlog()
        self._inner.start()
        for subtask_index in readers:
            self._switch_reader(subtask_index, None)

    def _set_backlog(self) -> None:
        """Marks all sources before the last as backlog."""
        self._context.set_is_processing_backlog(not self.is_at_last_source)

    def _source_at(self, index: int) -> SourceBase:
        source = self._entries[index].source
        return self._made[index] if source is None else source

    def readers_at(self, index: int) -> set[int]:
        registered = self._context.registered_readers
        return {subtask for subtask, at in self._reader_at.items() if at == index and subtask in registered}


class _InnerContext:
    """The SplitEnumeratorContext of one source's enumerator. Ignores calls after the next source has taken over."""

    def __init__(self, outer: HybridSplitEnumerator, index: int) -> None:
        self._outer = outer
        self._context = outer._context
        self._index = index

    @property
    def _is_current(self) -> bool:
        return self._outer.source_index == self._index

    @property
    def parallelism(self) -> int:
        return self._context.parallelism

    @property
    def registered_readers(self) -> set[int]:
        return self._outer.readers_at(self._index)

    def assign_splits(self, assignment: dict[int, list[Any]]) -> None:
        if self._is_current:
            self._context.assign_splits(
                {
                    subtask: [HybridSplit(self._index, split) for split in splits]
                    for subtask, splits in assignment.items()
                }
            )

    def signal_no_more_splits(self, subtask_index: int) -> None:
        if self._is_current:
            self._context.send_event_to_reader(subtask_index, NoMoreSplitsOf(self._index))

    def send_event_to_reader(self, subtask_index: int, event: Any) -> None:
        if self._is_current:
            self._context.send_event_to_reader(subtask_index, EventOf(self._index, event))

    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        """Applies to the last source only, because all others always count as backlog."""
        if self._is_current and self._outer.is_at_last_source:
            self._context.set_is_processing_backlog(is_processing_backlog)

    def call_async(self, call: Any, on_done: Any) -> None:
        def done(result: Any, error: Any) -> None:
            if self._is_current:
                on_done(result, error)

        self._context.call_async(call, done)

    def schedule(self, delay_ms: int, action: Any) -> None:
        def run() -> None:
            if self._is_current:
                action()

        self._context.schedule(delay_ms, run)
