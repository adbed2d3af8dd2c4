"""StaticSplitEnumerator: hands out a fixed list of splits, one per request."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flinkpy.connector_api.source import SplitEnumerator, SplitEnumeratorContext


@dataclass(frozen=True, slots=True)
class StaticEnumeratorState:
    """What a checkpoint holds of a StaticSplitEnumerator."""

    #: Whether all splits are known; false: they have to be listed again.
    is_listed: bool
    #: Those nobody has, in the order in which they are handed out.
    remaining: tuple[Any, ...]


class StaticSplitEnumerator(SplitEnumerator):
    """The first reader to ask gets the next split, so a slow subtask does not hold up the others.

    Args:
        list_splits: gives all splits. With `blocking` it runs on an I/O thread (it looks at files); requests that come
            meanwhile wait for its result.
        state: what an earlier one gave with `snapshot_state`. The splits are listed only once in the life of a job:
            what is added meanwhile is not read, whether there was a failure or not.

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
        #: Subtasks that asked before the splits were known, in the order in which they asked.
        self._waiting: dict[int, None] = {}

    @property
    def remaining(self) -> tuple[Any, ...]:
        """The splits nobody has."""
        return tuple(self._remaining)

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

    def snapshot_state(self, checkpoint_id: int) -> StaticEnumeratorState:
        return StaticEnumeratorState(self._is_listed, tuple(self._remaining))

    def _on_listed(self, splits: list[Any] | None, error: BaseException | None) -> None:
        if error is not None:
            raise error
        self._remaining.extend(splits or ())
        self._is_listed = True
        waiting, self._waiting = self._waiting, {}
        for subtask_index in waiting:
            # One that was reset meanwhile asks again when it is back.
            if subtask_index in self._context.registered_readers:
                self.handle_split_request(subtask_index)
