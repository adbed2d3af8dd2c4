"""TemporalJoinOperator: joins each left row with the version of a table that was valid at the row's event time.

Left rows wait until the watermark reaches their time: then all versions up to it are known. Each change of the right
input is a version of its key, valid from its time until that of the next one. A deletion is a version too: no row.

When the watermark passes, all versions of a key that are older than the one valid at the watermark are removed.

```
versions of a key      1 (+I)    4 (+U)    9 (-D)    12 (+I)
left row at            3 -> 1    6 -> 4    10 -> none    12 -> 12
```

A time-to-live ends the state of a key, left rows included, when nothing has happened to the key for that time.

Source: org.apache.flink.table.runtime.operators.join.temporal.{TemporalRowTimeJoinOperator,
BaseTwoInputStreamOperatorWithStateRetention}.
Differs: rows are emitted in the order of their arrival; in Flink only those of one key. State that has outlived its
time-to-live is gone at once; in Flink it may stay for half of that time longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.table_specs import JoinType, TemporalJoinSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.state.row_table import RowLayout, RowTable
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.table.rows_by_time import RowsByTime
from flinkpy.streaming.operators.table.table_inputs import is_addition
from flinkpy.streaming.operators.table.time_columns import milliseconds
from flinkpy.streaming.operators.table.two_table_join import NO_ROWS, TABLE_NAMES, TwoTableJoinOperator

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

_TIME, _KIND = "time", "kind"
#: The length of a bucket of RowsByTime. Rows usually wait for the delay of the watermark: some seconds.
_BUCKET_MS = 1_000


class TemporalJoinOperator(TwoTableJoinOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: TemporalJoinSpec,
        input_types: tuple[Any, Any],
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(spec, input_types, context, output, side_outputs)
        if spec.join_type not in (JoinType.INNER, JoinType.LEFT):
            raise UnsupportedOperationError(
                f"operator {context.name}: Temporal table join currently only support INNER JOIN and LEFT JOIN, but "
                f"was {spec.join_type.name} JOIN."
            )
        self._times = (spec.left_time, spec.right_time)
        #: The left rows that wait, and the versions that the watermark has not reached.
        self._rows_by_time = (RowsByTime(_BUCKET_MS), RowsByTime(_BUCKET_MS))

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        self._tables = (self._create_table(0), self._create_table(1))
        for table, index in zip(self._tables, self._rows_by_time):
            rows = table.live_rows()
            index.add(rows, table.ints(_TIME, rows))

    def _create_table(self, side: int) -> RowTable:
        row_key = None if side == 0 else (self._times[1],)
        types = tuple(self._schemas[side].types)
        layout = RowLayout(types, self._keys[side], row_key, (_TIME, _KIND), self._spec.state_ttl_ms)
        return self.backend.row_table(TABLE_NAMES[side], layout)

    # -- data --------------------------------------------------------------------------------------------------------

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        side = input_index
        columns = self._columns_of(batch, side)
        ints = {
            _TIME: milliseconds(columns[self._times[side]]),
            _KIND: np.zeros(len(columns[0]), np.int64) if batch.kinds is None else batch.kinds.astype(np.int64),
        }
        unmatchable = self._unmatchable(columns, side)
        if unmatchable is not None and not self._is_outer[side]:
            kept = np.flatnonzero(~unmatchable)
            indices = pa.array(kept)
            columns = [column.take(indices) for column in columns]
            ints = {name: values[kept] for name, values in ints.items()}
        if not len(columns[0]):
            return
        table = self._tables[side]
        if side == 0:
            rows = table.add(table.slots_of(table.layout.key_columns(columns)), columns, ints)
        else:
            table.apply(columns, None, ints)
            rows = table.find_identified(columns)
        self._rows_by_time[side].add(rows, ints[_TIME])
        self._touch(table.layout.key_columns(columns))

    def _touch(self, keys: list[pa.Array]) -> None:
        """Lets the time-to-live of these keys begin again."""
        if self._spec.state_ttl_ms:
            for table in self._tables:
                _, rows = table.rows_of(np.unique(table.find(keys)))
                table.touch(rows)

    # -- results -----------------------------------------------------------------------------------------------------

    def process_watermark(self, watermark: Watermark) -> None:
        left = self._due(0, watermark.timestamp)
        if len(left):
            self._join(left)
            self._tables[0].remove(left)
        self._remove_old_versions(watermark.timestamp)
        super().process_watermark(watermark)

    def _due(self, side: int, time: int) -> np.ndarray:
        """Takes the rows up to a time out of the index. Returns those that still exist, in the order of addition."""
        table = self._tables[side]
        rows, times = self._rows_by_time[side].pop_until(time)
        is_there = table.exists(rows)
        rows, times = rows[is_there], times[is_there]
        # A row that has been removed may have left its number to another one.
        rows = np.unique(rows[table.ints(_TIME, rows) == times])
        return rows[np.argsort(table.sequence(rows), kind="stable")]

    def _join(self, left: np.ndarray) -> None:
        """Emits left rows with the versions that are valid at their times."""
        table = self._tables[0]
        right = self._versions(left)
        condition = self._condition
        if condition is not None:
            found = np.flatnonzero(right >= 0)
            a, b = left[found], right[found]
            mask = condition.mask_of(len(found), lambda part: self._stored_columns(a[part], b[part], condition.columns))
            right[found[~mask]] = -1
        if not self._is_outer[0]:
            left, right = left[right >= 0], right[right >= 0]
        self._emit_stored(left, right, table.ints(_KIND, left).astype(np.int8))

    def _versions(self, left: np.ndarray) -> np.ndarray:
        """Returns int64[n]: the version that is valid at the time of each left row; negative if there is none."""
        left_table, right_table = self._tables
        keys = left_table.take(left, self._keys[0])
        self._touch(keys)
        slots = right_table.find(keys)
        unmatchable = self._unmatchable_keys(keys)
        if unmatchable is not None:
            slots[unmatchable] = -1
        distinct, key_of_left = np.unique(slots, return_inverse=True)
        key_of_version, versions = right_table.rows_of(distinct)
        # Left rows and versions in the order of (key, time), versions first. Then the last version before a left row is
        # the one that is valid, if it is of the same key.
        key = np.concatenate([key_of_version, key_of_left])
        time = np.concatenate([right_table.ints(_TIME, versions), left_table.ints(_TIME, left)])
        is_left = np.arange(len(key)) >= len(versions)
        order = np.lexsort((is_left, time, key))
        place = np.where(is_left[order], -1, np.arange(len(order)))
        last = np.maximum.accumulate(place) if len(place) else place
        candidate = order[np.maximum(last, 0)]
        is_valid = (last >= 0) & (key[candidate] == key[order])
        found = np.full(len(left), -1, dtype=np.int64)
        chosen = is_left[order] & is_valid
        found[order[chosen] - len(versions)] = versions[candidate[chosen]]
        known = np.flatnonzero(found >= 0)
        is_row = is_addition(right_table.ints(_KIND, found[known]), len(known))
        found[known[~is_row]] = -1
        return found

    def _remove_old_versions(self, time: int) -> None:
        """Removes the versions that a later one, which is valid at the time at the latest, has replaced."""
        table = self._tables[1]
        due = self._due(1, time)
        if not len(due):
            return
        key, rows = table.rows_of(np.unique(table.slots_of_rows(due)))
        times = table.ints(_TIME, rows)
        past = np.flatnonzero(times <= time)
        past = past[np.lexsort((times[past], key[past]))]
        is_replaced = np.append(key[past[1:]] == key[past[:-1]], False) if len(past) else NO_ROWS.astype(bool)
        table.touch(rows)
        table.remove(rows[past[is_replaced]])
