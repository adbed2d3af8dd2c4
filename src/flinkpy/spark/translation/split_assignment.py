"""Assigns the splits of a source. In Spark its enumerator runs to its end before any reader starts.

The enumerator sees requests from all readers in turn, as if they were equally fast. The workers replay its answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.connector_api.source import AddSplits, NoMoreSplits, SourceBase, SourceEvent

#: The limit for an enumerator that never signals the end of its splits.
_MAX_REQUESTS = 10_000_000

_Event = AddSplits | NoMoreSplits | SourceEvent


@dataclass(frozen=True, slots=True)
class ReaderEvents:
    """The events for a reader: those after its registration, and the answers to its requests."""

    first: tuple[_Event, ...]
    answers: tuple[_Event, ...]


class _EnumeratorContext:
    """Implements SplitEnumeratorContext. Thread: the driver's, which may block."""

    def __init__(self, parallelism: int) -> None:
        self.parallelism = parallelism
        self.registered_readers = set(range(parallelism))
        self.events: list[list[_Event]] = [[] for _ in range(parallelism)]
        #: The number of events by subtask that came before its first request.
        self.num_first = [0] * parallelism
        self.waiting = set(range(parallelism))

    def assign_splits(self, assignment: dict[int, list[Any]]) -> None:
        for subtask_index, splits in assignment.items():
            if splits:
                self.events[subtask_index].append(AddSplits(tuple(splits)))

    def signal_no_more_splits(self, subtask_index: int) -> None:
        self.events[subtask_index].append(NoMoreSplits())
        self.waiting.discard(subtask_index)

    def send_event_to_reader(self, subtask_index: int, event: Any) -> None:
        self.events[subtask_index].append(SourceEvent(event))

    def call_async(self, call: Callable[[], Any], on_done: Callable[[Any, BaseException | None], None]) -> None:
        try:
            result = call()
        except Exception as error:  # noqa: BLE001 - the enumerator handles it
            on_done(None, error)
            return
        on_done(result, None)

    def schedule(self, delay_ms: int, action: Any) -> None:
        """Ignores the action, because a bounded source has discovered all splits when it starts."""
        return

    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        """Ignores the flag, because there are no checkpoints."""
        return


def assign_splits(source: SourceBase, parallelism: int, name: str) -> tuple[ReaderEvents, ...]:
    """Returns the events for the readers by subtask. Blocks while the enumerator lists files or calls servers.

    Raises:
        UnsupportedOperationError: the enumerator waits for something other than requests. Its own errors are raised
        too.
    """
    context = _EnumeratorContext(parallelism)
    enumerator = source.for_coordinator().create_enumerator(context)
    try:
        enumerator.start()
        for subtask_index in range(parallelism):
            enumerator.add_reader(subtask_index)
        context.num_first = [len(events) for events in context.events]
        for _ in range(_MAX_REQUESTS):
            if not context.waiting:
                break
            known = sum(map(len, context.events))
            for subtask_index in sorted(context.waiting):
                enumerator.handle_split_request(subtask_index)
            if sum(map(len, context.events)) == known:
                raise UnsupportedOperationError(
                    f"the source '{name}' does not assign its splits before its readers run, so it cannot be read from "
                    "Spark: run it with set_batch_backend('native')"
                )
    finally:
        enumerator.close()
    return tuple(
        ReaderEvents(tuple(events[:count]), tuple(events[count:]))
        for events, count in zip(context.events, context.num_first, strict=True)
    )
