"""LateRows: counts the rows that an operator drops because the watermark has passed them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from flinkpy.records.elements import MIN_WATERMARK
from flinkpy.state.row_table import RowTable
from flinkpy.streaming.operators.metric_group import OperatorMetricGroup


class LateRows:
    """The metrics `numLateRecordsDropped` and `lateRecordsDroppedRate`.

    Source: org.apache.flink.table.runtime.operators.window.tvf.common.WindowOperatorBase.
    """

    def __init__(self, metrics: OperatorMetricGroup) -> None:
        self._dropped = metrics.counter("numLateRecordsDropped")
        self._rate = metrics.meter("lateRecordsDroppedRate")

    def drop(self, count: int) -> None:
        if count:
            self._dropped.inc(count)
            self._rate.mark_event(count)

    def without(
        self, is_late: np.ndarray, columns: list[pa.Array], times: np.ndarray
    ) -> tuple[list[pa.Array], np.ndarray]:
        """Returns the rows that are not late, with their times, and counts the others."""
        if not is_late.any():
            return columns, times
        kept = np.flatnonzero(~is_late)
        self.drop(len(times) - len(kept))
        indices = pa.array(kept)
        return [column.take(indices) for column in columns], times[kept]


def behind_done_rows(
    table: RowTable, key_columns: Sequence[pa.Array], times: np.ndarray, time: str, is_done: str
) -> np.ndarray:
    """Returns bool[n]: true for rows that are not later than the last row of their key that has been processed.

    Args:
        times: int64[n]: the times of the rows, whose keys are `key_columns`.
        time, is_done: the names of the numbers that a row of the table has: its time, and 1 if it has been processed.
    """
    slots = table.find(key_columns)
    known = np.unique(slots[slots >= 0])
    positions, rows = table.rows_of(known)
    has_been = table.ints(is_done, rows) == 1
    last = np.full(len(known) + 1, MIN_WATERMARK)
    np.maximum.at(last, positions[has_been], table.ints(time, rows[has_been]))
    places = np.where(slots >= 0, np.searchsorted(known, slots), len(known))
    found: np.ndarray = times <= last[places]
    return found
