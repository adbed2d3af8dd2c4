"""ContinuousFileEnumerator: looks for new files again and again, and hands out each once.

A file is known by its path. One that has been seen is never looked at again, so files must be complete when they get a
name that readers see (write elsewhere or under a hidden name, then rename).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flinkpy.connector_api.source import SplitEnumerator, SplitEnumeratorContext

_LOG = logging.getLogger(__name__)

#: (path, size in bytes) of every file there is.
Listing = list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class PendingSplitsCheckpoint:
    """What a checkpoint holds of a ContinuousFileEnumerator.

    Source: org.apache.flink.connector.file.src.PendingSplitsCheckpoint.
    """

    remaining: tuple[Any, ...]
    processed_paths: tuple[str, ...]
    #: Splits made so far: their ids go on from here.
    num_splits: int


class ContinuousFileEnumerator(SplitEnumerator):
    """Never says that there are no more splits.

    Args:
        list_files: all files there are; runs on an I/O thread.
        make_splits: of new files; its ids go on after so many.
        interval_ms: between the end of one look and the next.

    Source: org.apache.flink.connector.file.src.impl.ContinuousFileSplitEnumerator.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext,
        list_files: Callable[[], Listing],
        make_splits: Callable[[Listing, int], list[Any]],
        interval_ms: int,
        state: PendingSplitsCheckpoint | None = None,
    ) -> None:
        self._context = context
        self._list_files = list_files
        self._make_splits = make_splits
        self._interval_ms = interval_ms
        self._is_first_look = state is None
        self._remaining: deque[Any] = deque(() if state is None else state.remaining)
        #: A dict for its order; grows with the number of files ever seen, as Flink's does.
        self._processed: dict[str, None] = dict.fromkeys(() if state is None else state.processed_paths)
        self._num_splits = 0 if state is None else state.num_splits
        #: Subtasks that have nothing to read, in the order in which they asked.
        self._waiting: dict[int, None] = {}

    def start(self) -> None:
        self._look()

    def handle_split_request(self, subtask_index: int) -> None:
        self._waiting[subtask_index] = None
        self._assign()

    def add_splits_back(self, splits: list[Any], subtask_index: int) -> None:
        self._waiting.pop(subtask_index, None)
        self._remaining.extendleft(reversed(splits))
        self._assign()

    def snapshot_state(self, checkpoint_id: int) -> PendingSplitsCheckpoint:
        return PendingSplitsCheckpoint(tuple(self._remaining), tuple(self._processed), self._num_splits)

    def _look(self) -> None:
        self._context.call_async(self._list_files, self._on_listed)

    def _on_listed(self, files: Listing | None, error: BaseException | None) -> None:
        if error is not None:
            # At the start a wrong path should be noticed; later a file server may be away for a while.
            if self._is_first_look:
                raise error
            _LOG.warning("files could not be listed; trying again in %d ms", self._interval_ms, exc_info=error)
        self._is_first_look = False
        # An empty file may be one that somebody has just begun to write.
        new = [(path, size) for path, size in files or () if path not in self._processed and size]
        new = list(dict(new).items())
        if new:
            splits = self._make_splits(new, self._num_splits)
            self._num_splits += len(splits)
            self._remaining.extend(splits)
            self._processed.update(dict.fromkeys(path for path, _ in new))
            self._assign()
        self._context.schedule(self._interval_ms, self._look)

    def _assign(self) -> None:
        registered = self._context.registered_readers
        # One that was reset meanwhile asks again when it is back.
        self._waiting = {subtask: None for subtask in self._waiting if subtask in registered}
        while self._waiting and self._remaining:
            subtask_index = next(iter(self._waiting))
            del self._waiting[subtask_index]
            self._context.assign_splits({subtask_index: [self._remaining.popleft()]})
