"""SequencePerKeySource: emits the numbers 0, 1, 2, ... for each key at a given rate.

A consumer can detect lost, repeated and out-of-order records, because number n + 1 follows n for each key. The module
is also a small, complete example of a source: the enumerator assigns one split per key, a reader reads many splits at
the same time, and a checkpoint contains the next number of each split.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flinkpy.common import Types
from flinkpy.connector_api.source import (
    Boundedness,
    ReaderStatus,
    SourceBase,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)

#: The interval between two checks for due records.
TICK_S = 0.01


@dataclass(frozen=True)
class KeySplit:
    """The unread part of one key: the numbers from `next_number` to the end."""

    key: int
    next_number: int = 0


class SequencePerKeySource(SourceBase):
    """Emits (key, number) for keys 0 to `keys` - 1 and numbers 0 to `records_per_key` - 1, then ends.

    The numbers of all keys of a reader advance together.

    Args:
        rate: records per second of all readers together. None: as fast as possible.
        hurry: the path of a file with which a test ends the job. Until it exists, readers hold back the last number of
            each key. Afterwards the rate is ignored.
    """

    def __init__(
        self, keys: int, records_per_key: int, rate: float | None = None, hurry: str | Path | None = None
    ) -> None:
        self.keys = keys
        self.records_per_key = records_per_key
        self.rate = rate
        self.hurry = None if hurry is None else str(hurry)

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def produced_type(self) -> Any:
        return Types.TUPLE([Types.LONG(), Types.LONG()])

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return KeyEnumerator(context, [KeySplit(key) for key in range(self.keys)])

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        return KeyEnumerator(context, state)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return SequenceReader(context, self)


class KeyEnumerator(SplitEnumerator):
    """Assigns each key to subtask `key % parallelism`. A subtask gets all its keys when it asks."""

    def __init__(self, context: SplitEnumeratorContext, splits: list[KeySplit]) -> None:
        self._context = context
        self._remaining = list(splits)

    def start(self) -> None:
        return

    def handle_split_request(self, subtask_index: int) -> None:
        owned = [split for split in self._remaining if split.key % self._context.parallelism == subtask_index]
        self._remaining = [split for split in self._remaining if split not in owned]
        self._context.assign_splits({subtask_index: owned})
        self._context.signal_no_more_splits(subtask_index)

    def add_splits_back(self, splits: list[KeySplit], subtask_index: int) -> None:
        self._remaining += splits
        # After a change of the parallelism, a split may come back from a subtask that is not its owner, and the owner
        # may have asked already.
        for split in list(self._remaining):
            owner = split.key % self._context.parallelism
            if owner != subtask_index and owner in self._context.registered_readers:
                self._remaining.remove(split)
                self._context.assign_splits({owner: [split]})

    def snapshot_state(self, checkpoint_id: int) -> list[KeySplit]:
        return list(self._remaining)


class SequenceReader(SourceReader):
    def __init__(self, context: SourceReaderContext, source: SequencePerKeySource) -> None:
        self._context = context
        self._end = source.records_per_key
        self._rate = None if source.rate is None else source.rate / context.parallelism
        self._hurry = source.hurry
        self._is_held = source.rate is not None and source.hurry is not None
        self._splits: deque[KeySplit] = deque()
        self._no_more_splits = False
        self._has_asked = False
        self._started_s = time.monotonic()
        self._num_emitted = 0
        self._closed = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="sequence source", daemon=True)

    def start(self) -> None:
        if not self._splits:
            self._ask()
        if self._rate is not None:
            self._ticker.start()

    def add_splits(self, splits: list[KeySplit]) -> None:
        self._splits.extend(splits)
        self._context.notify_available()

    def notify_no_more_splits(self) -> None:
        self._no_more_splits = True
        self._context.notify_available()

    def poll_batch(self) -> Any:
        from flinkpy.records.batch import Batch

        rows: list[tuple[int, int]] = []
        wanted = self._num_due()
        while len(rows) < wanted and self._splits:
            if self._is_held and self._splits[0].next_number + 1 >= self._end:
                break
            split = self._splits.popleft()
            rows.append((split.key, split.next_number))
            if split.next_number + 1 < self._end:
                self._splits.append(KeySplit(split.key, split.next_number + 1))
        if rows:
            self._num_emitted += len(rows)
            return Batch(rows)
        if self._splits:
            return ReaderStatus.NOTHING_AVAILABLE
        if self._no_more_splits:
            return ReaderStatus.END_OF_INPUT
        if not self._has_asked:
            # The splits of the checkpoint are assigned, but there may be others.
            self._ask()
        return ReaderStatus.NOTHING_AVAILABLE

    def _ask(self) -> None:
        self._has_asked = True
        self._context.send_split_request()

    def snapshot_state(self, checkpoint_id: int) -> list[KeySplit]:
        return list(self._splits)

    def close(self) -> None:
        self._closed.set()
        if self._ticker.is_alive():
            self._ticker.join()

    def _num_due(self) -> int:
        if self._rate is None or (self._hurry is not None and not self._is_held):
            return self._context.max_batch_rows
        due = int((time.monotonic() - self._started_s) * self._rate) - self._num_emitted
        return min(due, self._context.max_batch_rows)

    def _tick(self) -> None:
        while not self._closed.wait(TICK_S):
            if self._is_held and self._hurry is not None and os.path.exists(self._hurry):
                self._is_held = False
            self._context.notify_available()
