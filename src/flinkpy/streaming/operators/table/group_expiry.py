"""GroupExpiry: the time-to-live of the groups of a GroupTable (`table.exec.state.ttl`).

The last aggregate of the table has the time of each group's last update. A group that occurs again is removed first if
its time is over. The others are found in rounds: each batch looks at some groups in memory, and at some of those that
the store has evicted from it. So the state stays bounded, and no batch waits for a search of all groups.
"""

from __future__ import annotations

import numpy as np

from flinkpy.state.aggregate_table import AggregateColumn
from flinkpy.state.group_table import GroupTable
from flinkpy.state.table_accumulators import SQL
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService

#: The aggregate that a table with a time-to-live has after all others.
UPDATED = AggregateColumn(f"{SQL}$UPDATED")
#: The number of groups that are looked at per record, and at least per batch. More than one per record, so that a round
#: ends although each record may add a group.
_SWEPT_PER_RECORD, _MIN_SWEPT = 2, 1_024
#: A round over evicted groups begins this often per time-to-live. A round reads all of them from the disk.
_ROUNDS_PER_TTL = 2


class GroupExpiry:
    """Thread: task thread."""

    def __init__(self, table: GroupTable, ttl_ms: int, clock: ProcessingTimeService) -> None:
        self._table = table
        self._ttl_ms = ttl_ms
        self._clock = clock
        #: When the next round over evicted groups may begin.
        self._next_round_ms = 0

    @property
    def _updated(self) -> np.ndarray:
        """The time of the last update of each slot, in ms."""
        return self._table.accumulators[-1].arrays[0]

    def note_updated(self, slots: np.ndarray) -> None:
        self._updated[slots] = self._clock.current_time_ms()

    def expire(self, slots: np.ndarray) -> None:
        """Removes the groups of these slots whose time is over, and others that it meets in its rounds.

        Args:
            slots: those of the records of a batch. They stay valid.
        """
        table = self._table
        now = self._clock.current_time_ms()
        expired_until = now - self._ttl_ms
        count = max(_MIN_SWEPT, _SWEPT_PER_RECORD * len(slots))
        candidates = np.concatenate([slots, table.next_live_slots(count)])
        is_over = table.is_live.take(candidates) & (self._updated.take(candidates) <= expired_until)
        if is_over.any():
            table.remove(np.unique(candidates[is_over]))
        if now >= self._next_round_ms:
            has_ended = table.remove_evicted(count, lambda columns: columns[-1].to_numpy() <= expired_until)
            if has_ended:
                self._next_round_ms = now + self._ttl_ms // _ROUNDS_PER_TTL
