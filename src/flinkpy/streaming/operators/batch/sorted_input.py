"""SortedInput: the records of bounded inputs, key by key, and of a key by their timestamps.

All in memory. Keys come in the order of their first record, and records of the same timestamp in the order they
arrived; those without a timestamp come first, and those of the first input before those of the second.

Source: org.apache.flink.streaming.api.operators.sort.{SortingDataInput,MultiInputSortingDataInput}. Differs: Flink
sorts keys by their bytes, and says nothing about their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np

from flinkpy.records.batch import Batch
from flinkpy.records.elements import MIN_WATERMARK


class _Input:
    """What has come of one input; the lists are parallel, record by record."""

    __slots__ = ("has_kinds", "has_timestamps", "kinds", "rows", "timestamps")

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.timestamps: list[int | None] = []
        self.kinds: list[int] = []
        self.has_timestamps = False
        self.has_kinds = False

    def add(self, rows: list[Any], batch: Batch) -> None:
        self.rows.extend(rows)
        if batch.timestamps is None:
            self.timestamps.extend([None] * len(rows))
        else:
            self.has_timestamps = True
            self.timestamps.extend(batch.timestamps.tolist())
        if batch.kinds is None:
            self.kinds.extend([0] * len(rows))
        else:
            self.has_kinds = True
            self.kinds.extend(batch.kinds.tolist())

    def take(self, positions: list[int]) -> Batch:
        """These records, all of which have a timestamp or none."""
        rows = self.rows
        first = self.timestamps[positions[0]]
        timestamps = kinds = None
        if first is not None:
            timestamps = np.array([self.timestamps[position] for position in positions], dtype=np.int64)
        if self.has_kinds:
            kinds = np.array([self.kinds[position] for position in positions], dtype=np.int8)
        return Batch([rows[position] for position in positions], timestamps, kinds)


class SortedInput:
    """Thread: task thread."""

    def __init__(self, num_inputs: int) -> None:
        self._inputs = [_Input() for _ in range(num_inputs)]
        #: Key -> (input, position in it) of its records, as they arrived.
        self._records: dict[Any, list[tuple[int, int]]] = {}

    def add(self, keys: list[Any], rows: list[Any], batch: Batch, input_index: int) -> None:
        """`rows` are the batch's records and `keys` theirs."""
        records = self._records
        target = self._inputs[input_index]
        for position, key in enumerate(keys, len(target.rows)):
            found = records.get(key)
            if found is None:
                records[key] = [(input_index, position)]
            else:
                found.append((input_index, position))
        target.add(rows, batch)

    def by_key(self) -> Iterator[tuple[Any, list[tuple[int, Batch]]]]:
        """Each key, once, with its records: (input, batch), to be processed in that order."""
        records = self._records
        is_arrival_order = len(self._inputs) == 1 and not self._inputs[0].has_timestamps
        for key in list(records):
            of_key = records.pop(key)
            if is_arrival_order:
                yield key, [(0, self._inputs[0].take([position for _, position in of_key]))]
            else:
                of_key.sort(key=self._place)
                yield key, self._batches(of_key)

    def _place(self, record: tuple[int, int]) -> tuple[int, int]:
        input_index, position = record
        timestamp = self._inputs[input_index].timestamps[position]
        return (MIN_WATERMARK if timestamp is None else timestamp), input_index

    def _batches(self, records: list[tuple[int, int]]) -> list[tuple[int, Batch]]:
        """Consecutive records of one input, with timestamps or without."""
        runs = groupby(records, lambda record: (record[0], self._inputs[record[0]].timestamps[record[1]] is None))
        return [(input_index, self._inputs[input_index].take([at for _, at in run])) for (input_index, _), run in runs]
