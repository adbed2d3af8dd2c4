"""StaticSplitEnumerator: assigns a fixed list of splits, one per request."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flinkpy.connector_api.source import SplitEnumerator, SplitEnumeratorContext


@dataclass(frozen=True, slots=True)
class StaticEnumeratorState:
    """The state of a StaticSplitEnumerator in a checkpoint."""

    #: True if the splits have been listed; False if they have to be listed again.
    is_listed: bool
    #: Unassigned splits, in the order in which they are assigned.
    remaining: tuple[Any, ...]


class StaticSplitEnumerator(SplitEnumerator):
    """Gives the next split to the first reader that requests one, so a slow subtask does not delay the others.

    Args:
        list_splits: returns all splits. It is called once in the life of a job.
        blocking: True to call `list_splits` on an I/O thread, because it does I/O. Requests then wait for its result.
        state: the result of `snapshot_state` of an earlier enumerator, if there was one.

    Source: org.apache.flink.api.connector.source.lib.util.IteratorSourceEnumerator,
    org.apache.flink.connector.file.src.impl.StaticFileSplitEnumerator.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext,
        list_splits: Callable[[], list[Any]],
        *,
        blocking: bool = False,
        state: StaticEnumeratorState | None = None,
    ) -> None:
        self._context = context
        self._list_splits = list_splits
        self._blocking = blocking
        self._is_listed = state is not None and state.is_listed
        self._remaining: deque[Any] = deque(() if state is None else state.remaining)
        #: Subtasks that requested a split before the splits were known, in the order of their requests.
        self._waiting: dict[int, None] = {}

    @property
    def remaining(self) -> tuple[Any, ...]:
        """The unassigned splits."""
        return tuple(self._remaining)

    @property
    def num_unassigned_splits(self) -> int | None:
        return len(self._remaining) if self._is_listed else None

    def start(self) -> None:
        if self._is_listed:
            return
        if self._blocking:
            self._context.call_async(self._list_splits, self._on_listed)
        else:
            self._on_listed(self._list_splits(), None)

    def handle_split_request(self, subtask_index: int) -> None:
        if not self._is_listed:
            self._waiting[subtask_index] = None
        elif self._remaining:
            self._context.assign_splits({subtask_index: [self._remaining.popleft()]})
        else:
            self._context.signal_no_more_splits(subtask_index)

    def add_splits_back(self, splits: list[Any], subtask_index: int) -> None:
        self._remaining.extendleft(reversed(splits))

    def adopt_splits(self, splits: list[Any]) -> bool:
        """Splits that have to be listed again may have other ids then."""
        ids = {split.split_id for split in splits if hasattr(split, "split_id")}
        left = deque(split for split in self._remaining if getattr(split, "split_id", None) not in ids)
        if len(ids) != len(splits) or len(self._remaining) - len(left) != len(splits):
            return False
        self._remaining = left
        return True

    def snapshot_state(self, checkpoint_id: int) -> StaticEnumeratorState:
        return StaticEnumeratorState(self._is_listed, tuple(self._remaining))

    def _on_listed(self, splits: list[Any] | None, error: BaseException | None) -> None:
        if error is not None:
            raise error
        self._remaining.extend(splits or ())
        self._is_listed = True
        waiting, self._waiting = self._waiting, {}
        for subtask_index in waiting:
            # A reader that was reset meanwhile requests again when it has restarted.
            if subtask_index in self._context.registered_readers:
                self.handle_split_request(subtask_index)
