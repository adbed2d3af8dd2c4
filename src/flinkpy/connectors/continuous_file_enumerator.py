"""ContinuousFileEnumerator: looks for new files periodically, and assigns each file once.

A file is identified by its path. A file that was discovered is never read again, so it must be complete when it gets a
visible name: write it elsewhere or under a hidden name, and rename it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flinkpy.connector_api.source import SplitEnumerator, SplitEnumeratorContext

_LOG = logging.getLogger(__name__)

#: (path, size in bytes) of every existing file.
Listing = list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class PendingSplitsCheckpoint:
    """The state of a ContinuousFileEnumerator in a checkpoint.

    Source: org.apache.flink.connector.file.src.PendingSplitsCheckpoint.
    """

    remaining: tuple[Any, ...]
    processed_paths: tuple[str, ...]
    #: The number of splits created so far, from which ids continue.
    num_splits: int


class ContinuousFileEnumerator(SplitEnumerator):
    """Assigns splits of new files without end.

    Args:
        list_files: returns all existing files. Runs on an I/O thread.
        make_splits: returns the splits of new files. Its second argument is the number of splits created before.
        interval_ms: the time between the end of one listing and the start of the next.

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
        #: The paths of discovered files, in order. Grows with every file, as Flink's list does.
        self._processed: dict[str, None] = dict.fromkeys(() if state is None else state.processed_paths)
        self._num_splits = 0 if state is None else state.num_splits
        #: Subtasks without a split, in the order of their requests.
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
            # A wrong path fails the job at the start. Later a file server may be unavailable for a while.
            if self._is_first_look:
                raise error
            _LOG.warning("files could not be listed; trying again in %d ms", self._interval_ms, exc_info=error)
        self._is_first_look = False
        # A writer may have just created an empty file.
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
        # A reader that was reset meanwhile requests again when it has restarted.
        self._waiting = {subtask: None for subtask in self._waiting if subtask in registered}
        while self._waiting and self._remaining:
            subtask_index = next(iter(self._waiting))
            del self._waiting[subtask_index]
            self._context.assign_splits({subtask_index: [self._remaining.popleft()]})
