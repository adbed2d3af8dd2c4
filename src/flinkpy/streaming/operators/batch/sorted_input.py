"""SortedInput: the records of bounded inputs, key by key, and of a key by their timestamps.

All in memory. Keys come in the order of their first record, and records of the same timestamp in the order they
arrived; those without a timestamp come first, and those of the first input before those of the second.

Source: org.apache.flink.streaming.api.operators.sort.{SortingDataInput,MultiInputSortingDataInput}. Differs: Flink
sorts keys by their bytes, and says nothing about their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from flinkpy.records.batch import Batch
from flinkpy.records.elements import MIN_WATERMARK


class SortedInput:
    """Thread: task thread."""

    def __init__(self) -> None:
        #: Key -> number of the key.
        self._numbers: dict[Any, int] = {}
        self._rows: list[Any] = []
        # Of all records as they arrived, batch by batch: what they are sorted by, and their kinds.
        self._keys: list[np.ndarray] = []
        self._inputs: list[np.ndarray] = []
        self._has_time: list[np.ndarray] = []
        self._times: list[np.ndarray] = []
        self._kinds: list[np.ndarray] = []
        self._has_kinds = False

    def add(self, keys: list[Any], rows: list[Any], batch: Batch, input_index: int) -> None:
        """`rows` are the batch's records and `keys` theirs."""
        number_of, numbers, count = self._numbers.setdefault, self._numbers, len(rows)
        self._keys.append(np.fromiter((number_of(key, len(numbers)) for key in keys), dtype=np.int64, count=count))
        self._rows.extend(rows)
        self._inputs.append(np.full(count, input_index, dtype=np.int8))
        times = batch.timestamps
        self._has_time.append(np.full(count, times is not None, dtype=np.bool_))
        self._times.append(np.full(count, MIN_WATERMARK, dtype=np.int64) if times is None else times)
        self._has_kinds = self._has_kinds or batch.kinds is not None
        self._kinds.append(np.zeros(count, dtype=np.int8) if batch.kinds is None else batch.kinds)

    def by_key(self) -> Iterator[tuple[Any, list[tuple[int, Batch]]]]:
        """Each key, once, with its records: (input, batch), to be processed in that order. Call it once."""
        if not self._rows:
            return
        keys, inputs, has_time, times, kinds = map(
            np.concatenate, (self._keys, self._inputs, self._has_time, self._times, self._kinds)
        )
        # Stable: what is equal stays in the order it arrived.
        order = np.lexsort((inputs, times, has_time, keys))
        unsorted, self._rows = self._rows, []
        rows = [unsorted[position] for position in order.tolist()]
        del unsorted
        keys, inputs, has_time, times, kinds = (column[order] for column in (keys, inputs, has_time, times, kinds))
        # A batch is records of one key and input, all with timestamps or all without.
        is_first = (np.diff(keys) != 0) | (np.diff(inputs) != 0) | (np.diff(has_time))
        starts = [0, *(np.flatnonzero(is_first) + 1).tolist()]
        names = list(self._numbers)
        batches: list[tuple[int, Batch]] = []
        number = int(keys[0])
        for start, end in zip(starts, [*starts[1:], len(rows)]):
            if keys[start] != number:
                yield names[number], batches
                number, batches = int(keys[start]), []
            batch = Batch(
                rows[start:end],
                times[start:end] if has_time[start] else None,
                kinds[start:end] if self._has_kinds else None,
            )
            batches.append((int(inputs[start]), batch))
        yield names[number], batches
