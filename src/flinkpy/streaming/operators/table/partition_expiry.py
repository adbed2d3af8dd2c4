"""PartitionExpiry: the time-to-live of the partitions whose last rows OVER keeps (`table.exec.state.ttl`).

A partition expires if no row of it has come or been emitted for that time. Then its emitted rows are removed, and
later rows begin anew. A partition with rows that still wait for the watermark does not expire.

Source: org.apache.flink.table.runtime.functions.KeyedProcessFunctionWithCleanupState.
Differs: a partition expires after the time-to-live. In Flink it does so between that time and half as much again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from flinkpy.state.row_table import RowTable
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService

#: The number of a row that has the time when it came or was emitted, in ms.
USED = "used"


class PartitionExpiry:
    """Thread: task thread.

    Args:
        table: has the number USED for each row.
        is_done: the name of the number that is 1 for emitted rows and 0 for those that wait.
    """

    def __init__(self, table: RowTable, is_done: str, ttl_ms: int, clock: ProcessingTimeService) -> None:
        self._table = table
        self._is_done = is_done
        self._ttl_ms = ttl_ms
        self._clock = clock

    def now(self, count: int) -> np.ndarray:
        """Returns the value of USED for `count` rows that come, or are emitted."""
        return np.full(count, self._clock.current_time_ms(), dtype=np.int64)

    def expire(self, key_columns: Sequence[pa.Array]) -> None:
        """Removes the rows of expired partitions: those of the keys of a batch, and others that a round meets.

        It is called before the rows of the batch are added.
        """
        table = self._table
        met = table.next_rows(len(key_columns[0]))
        met = met[self._is_over(met)]
        slots = np.concatenate([table.find(key_columns), table.slots_of_rows(met)])
        slots = np.unique(slots[slots >= 0])
        positions, rows = table.rows_of(slots)
        is_kept = np.zeros(len(slots), dtype=bool)
        is_kept[positions[~self._is_over(rows)]] = True
        table.remove(rows[~is_kept.take(positions)])

    def _is_over(self, rows: np.ndarray) -> np.ndarray:
        """Returns bool[n]: true for emitted rows whose time is over."""
        is_old = self._table.ints(USED, rows) <= self._clock.current_time_ms() - self._ttl_ms
        return is_old & (self._table.ints(self._is_done, rows) == 1)
