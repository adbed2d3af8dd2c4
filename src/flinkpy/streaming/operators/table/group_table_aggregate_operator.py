"""GroupTableAggregateOperator: a table aggregate function over groups, which emits any number of rows per group.

After each row of the input it takes back all rows that the function emitted for the group, and sends the ones that it
emits now. A group whose last row is taken back is deleted.

Source: org.apache.flink.table.runtime.operators.aggregate.GroupTableAggFunction.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flinkpy.state.row_groups import RowGroups
from flinkpy.streaming.operators.table.changelog import DELETE, INSERT
from flinkpy.streaming.operators.table.group_aggregate_operator import GroupAggregateOperator
from flinkpy.streaming.operators.table.table_inputs import emit_columns


class GroupTableAggregateOperator(GroupAggregateOperator):
    """Thread: task thread. The only aggregate is the list of the function's rows."""

    def _emit(
        self,
        columns: pa.RecordBatch,
        groups: RowGroups,
        first_rows: np.ndarray,
        results: list[pa.Array],
        is_deleted: np.ndarray | None,
        is_running: bool,
    ) -> None:
        assert is_running, "there are no mini-batches"
        lists, num_groups, previous = results[0], groups.num_groups, groups.previous
        is_at_start = previous < 0
        old = np.where(is_at_start, groups.group, num_groups + previous)
        new = np.arange(num_groups, num_groups + groups.num_rows)
        offsets = lists.offsets.to_numpy()
        sizes = np.diff(offsets)
        counts = np.empty(2 * len(new), dtype=np.int64)
        counts[0::2] = np.where(is_at_start & groups.is_fresh.take(groups.group), 0, sizes.take(old))
        counts[1::2] = sizes.take(new) if is_deleted is None else np.where(is_deleted, 0, sizes.take(new))
        starts = np.empty(2 * len(new), dtype=np.int64)
        starts[0::2], starts[1::2] = offsets.take(old), offsets.take(new)
        total = int(counts.sum())
        if not total:
            return
        elements = pa.array(np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(total))
        change = np.repeat(np.arange(2 * len(new)), counts)
        rows = pa.array(change // 2)
        values = [columns.column(position).take(rows) for position in self._grouping]
        values += [field.take(elements) for field in lists.values.flatten()]
        kinds = np.where(change % 2 == 0, DELETE, INSERT).astype(np.int8)
        emit_columns(self.output, self._output_schema, values, kinds)
