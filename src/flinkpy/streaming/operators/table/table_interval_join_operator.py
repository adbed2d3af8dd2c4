"""TableIntervalJoinOperator: joins the rows of two inputs whose times are near each other.

A row looks for its partners among the rows of the other input that are in state. It is kept while partners may still
come: until the watermark, or the clock for processing time, passes the last time that a partner can have. Then an outer
join emits the row padded with NULL if it has never had a partner. A row without time has no partners.

```
time of a left row          t
times of its right partners [t + lower, t + upper]      kept until the watermark is > t + upper;
                                                    not kept if the watermark is >= t + upper when it arrives
```

Watermarks are held back by the longest time that a row waits, because results have the times of both rows.

Source: org.apache.flink.table.runtime.operators.join.interval.{TimeIntervalJoin,RowTimeIntervalJoin,
ProcTimeIntervalJoin}, ...join.KeyedCoProcessOperatorWithWatermarkDelay.
Differs: Flink removes the rows of a key together, so a late row may still find rows that have expired. Here it finds
those that have not, whatever the key's other rows are. Times before 1970 are no exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.table_specs import TableIntervalJoinSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, MIN_WATERMARK, Watermark
from flinkpy.state.row_table import RowLayout, RowTable
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.table.rows_by_time import RowsByTime
from flinkpy.streaming.operators.table.table_inputs import is_addition
from flinkpy.streaming.operators.table.time_columns import NO_TIME, milliseconds
from flinkpy.streaming.operators.table.two_table_join import NO_ROWS, TABLE_NAMES, TwoTableJoinOperator, with_lonely

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.streaming.tasks.processing_time_service import ScheduledTimer

_TIME, _MATCHED = "time", "matched"
#: The number of buckets of time in the longest time that a row is kept.
_BUCKETS = 64
#: The number of pairs with equal keys that are looked at together.
_MAX_PAIRS = 1 << 20


class TableIntervalJoinOperator(TwoTableJoinOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: TableIntervalJoinSpec,
        input_types: tuple[Any, Any],
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(spec, input_types, context, output, side_outputs)
        if self._is_semi_or_anti:
            raise UnsupportedOperationError(
                f"operator {context.name}: Interval Join: {spec.join_type.name} Join between stream and stream is not "
                "supported yet.\nplease re-check interval join statement according to description above."
            )
        lower, upper = spec.lower_bound_ms, spec.upper_bound_ms
        self._times = (spec.left_time, spec.right_time)
        #: By side: the times of a row's partners, relative to its own.
        self._bounds = ((lower, upper), (-upper, -lower))
        self._is_empty = lower > upper
        self._delay_ms = 0 if self._is_empty else max(upper, -lower)
        bucket_ms = (abs(upper - lower) + spec.min_cleanup_ms) // _BUCKETS
        self._rows_by_time = (RowsByTime(bucket_ms), RowsByTime(bucket_ms))
        self._timer: ScheduledTimer | None = None

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        self._tables = (self._create_table(0), self._create_table(1))
        for table, index in zip(self._tables, self._rows_by_time):
            rows = table.live_rows()
            index.add(rows, table.ints(_TIME, rows))

    def _create_table(self, side: int) -> RowTable:
        ints = (_TIME, _MATCHED) if self._is_outer[side] else (_TIME,)
        layout = RowLayout(tuple(self._schemas[side].types), self._keys[side], ints=ints)
        return self.backend.row_table(TABLE_NAMES[side], layout)

    def open(self) -> None:
        super().open()
        self._schedule()

    def _now(self) -> int:
        """Returns the watermark, or the clock for processing time."""
        if self._spec.is_event_time:
            return self.current_watermark
        return self.context.processing_time_service.current_time_ms()

    # -- data --------------------------------------------------------------------------------------------------------

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        side = input_index
        columns = self._columns_of(batch, side)
        if not is_addition(batch.kinds, len(columns[0])).all():
            raise UnsupportedOperationError(
                f"operator {self.context.name}: an interval join takes no DELETE and no UPDATE_BEFORE rows"
            )
        now = self._now()
        if self._spec.is_event_time:
            times = milliseconds(columns[self._times[side]])
        else:
            times = np.full(len(columns[0]), now, dtype=np.int64)
        unmatchable = self._unmatchable(columns, side)
        if self._spec.is_event_time:
            has_no_time = times == NO_TIME
            if has_no_time.any():
                unmatchable = has_no_time if unmatchable is None else unmatchable | has_no_time
        positions, rows = self._pairs(columns, side, times, unmatchable)
        has_match = np.zeros(len(times), dtype=bool)
        has_match[positions] = True
        if self._is_outer[1 - side]:
            self._mark_matched(1 - side, rows)
        is_kept = self._kept(side, times, now, unmatchable)
        if self._is_outer[side]:
            positions, rows = with_lonely(positions, rows, np.flatnonzero(~is_kept & ~has_match))
        self._emit_pairs(columns, side, positions, rows, None)
        self._keep(columns, side, times, np.flatnonzero(is_kept), has_match)
        self._schedule()

    def _pairs(
        self, columns: list[pa.Array], side: int, times: np.ndarray, unmatchable: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the pairs that match, as positions in the batch, ascending, and rows of the other table."""
        if self._is_empty:
            return NO_ROWS, NO_ROWS
        table = self._tables[1 - side]
        slots = self._partner_slots(columns, side, unmatchable)
        lower, upper = self._bounds[side]
        ends = np.cumsum(table.counts_of(slots))
        found, start = [], 0
        while start < len(slots):
            limit = (int(ends[start - 1]) if start else 0) + _MAX_PAIRS
            end = max(start + 1, int(np.searchsorted(ends, limit, side="right")))
            positions, rows = table.rows_of(slots[start:end])
            positions += start
            distance = table.ints(_TIME, rows) - times[positions]
            is_near = (distance >= lower) & (distance <= upper)
            found.append(self._meeting(columns, side, positions[is_near], rows[is_near]))
            start = end
        return np.concatenate([each[0] for each in found]), np.concatenate([each[1] for each in found])

    def _mark_matched(self, side: int, rows: np.ndarray) -> None:
        table = self._tables[side]
        rows = np.unique(rows)
        new = rows[table.ints(_MATCHED, rows) == 0]
        table.set_ints(_MATCHED, new, np.ones(len(new), dtype=np.int64))

    def _kept(self, side: int, times: np.ndarray, now: int, unmatchable: np.ndarray | None) -> np.ndarray:
        """Returns bool[n]: true for rows that may still get partners, and so are kept."""
        if self._is_empty:
            return np.zeros(len(times), dtype=bool)
        is_kept: np.ndarray = times + self._bounds[side][1] > now
        if unmatchable is not None and not self._is_outer[side]:
            is_kept &= ~unmatchable
        if self._spec.is_event_time:
            # The sum of NO_TIME and a bound below 0 wraps around.
            is_kept &= times != NO_TIME
        return is_kept

    def _keep(
        self, columns: list[pa.Array], side: int, times: np.ndarray, kept: np.ndarray, has_match: np.ndarray
    ) -> None:
        if not len(kept):
            return
        table = self._tables[side]
        if len(kept) < len(times):
            indices = pa.array(kept)
            columns = [column.take(indices) for column in columns]
        ints = {_TIME: times[kept]}
        if self._is_outer[side]:
            ints[_MATCHED] = has_match[kept].astype(np.int64)
        rows = table.add(table.slots_of(table.layout.key_columns(columns)), columns, ints)
        self._rows_by_time[side].add(rows, times[kept])

    # -- the end of rows ---------------------------------------------------------------------------------------------

    def process_watermark(self, watermark: Watermark) -> None:
        if not self._spec.is_event_time:
            super().process_watermark(watermark)
            return
        self._expire(watermark.timestamp)
        if watermark.timestamp < MAX_WATERMARK:
            watermark = Watermark(max(MIN_WATERMARK, watermark.timestamp - self._delay_ms))
        super().process_watermark(watermark)

    def _waits_ms(self, side: int) -> int:
        """Returns how long after its time a row of the side is kept."""
        return int(self._bounds[side][1] + self._spec.min_cleanup_ms)

    def _schedule(self) -> None:
        """Lets the clock remove the next row, in processing time."""
        if self._spec.is_event_time:
            return
        firsts = [(index.first(), side) for side, index in enumerate(self._rows_by_time)]
        ends = [first + self._waits_ms(side) for first, side in firsts if first is not None]
        if not ends:
            return
        end = min(ends)
        if self._timer is not None:
            if self._timer.timestamp_ms <= end:
                return
            self._timer.cancel()
        self._timer = self.context.processing_time_service.register_timer(end, self._on_timer)

    def _on_timer(self, _: int) -> None:
        self._timer = None
        self._expire(self._now())
        self._schedule()

    def _expire(self, now: int) -> None:
        """Removes the rows that get no more partners, and pads those of an outer side that have had none."""
        for side, (table, index) in enumerate(zip(self._tables, self._rows_by_time)):
            rows, times = index.pop_until(MAX_WATERMARK if now >= MAX_WATERMARK else now - self._waits_ms(side) - 1)
            if not len(rows):
                continue
            if self._is_outer[side]:
                alone = table.ints(_MATCHED, rows) == 0
                lonely = rows[alone]
                lonely = lonely[np.lexsort((table.sequence(lonely), times[alone]))]
                nothing = np.full(len(lonely), -1)
                self._emit_stored(*((lonely, nothing) if side == 0 else (nothing, lonely)))
            table.remove(rows)
