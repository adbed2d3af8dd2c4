"""GroupExpiry: the time-to-live of the groups of a GroupTable (`table.exec.state.ttl`).

The last aggregate of the table has the time of each group's last update.
"""

from __future__ import annotations

import numpy as np

from flinkpy.state.aggregate_table import AggregateColumn
from flinkpy.state.group_table import GroupTable
from flinkpy.state.table_accumulators import SQL
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService

#: The aggregate that a table with a time-to-live has after all others.
UPDATED = AggregateColumn(f"{SQL}$UPDATED")


class GroupExpiry:
    """Thread: task thread."""

    def __init__(self, table: GroupTable, ttl_ms: int, clock: ProcessingTimeService) -> None:
        self._table = table
        self._ttl_ms = ttl_ms
        self._clock = clock
        self._next_sweep_ms = 0

    @property
    def _updated(self) -> np.ndarray:
        """The time of the last update of each slot, in ms."""
        return self._table.accumulators[-1].arrays[0]

    def note_updated(self, slots: np.ndarray) -> None:
        self._updated[slots] = self._clock.current_time_ms()

    def expire(self, slots: np.ndarray) -> None:
        """Removes the groups of these slots whose time is over, and, once per time-to-live, all others in memory."""
        table = self._table
        now = self._clock.current_time_ms()
        if now >= self._next_sweep_ms:
            self._next_sweep_ms = now + self._ttl_ms
            slots = table.live_slots()
        is_over = table.is_live.take(slots) & (self._updated.take(slots) + self._ttl_ms <= now)
        if is_over.any():
            table.remove(np.unique(slots[is_over]))
