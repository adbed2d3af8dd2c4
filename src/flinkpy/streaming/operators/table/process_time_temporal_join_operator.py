"""ProcessTimeTemporalJoinOperator: joins each left row with the latest right row of its key at that moment.

The state has one right row per key. Left rows are not kept: they are joined when they arrive and keep their kinds. A
change of the right input emits nothing.

A time-to-live ends the right row of a key when neither input has had a row of the key for that time.

Source: org.apache.flink.table.runtime.operators.join.temporal.TemporalProcessTimeJoinOperator.
Differs: state that has outlived its time-to-live is gone at once; in Flink it may stay for half of that time longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flinkpy.records.batch import Batch
from flinkpy.state.row_table import RowLayout
from flinkpy.streaming.operators.table.table_inputs import is_addition
from flinkpy.streaming.operators.table.two_table_join import TwoTableJoinOperator, with_lonely

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

_RIGHT = 1


class ProcessTimeTemporalJoinOperator(TwoTableJoinOperator):
    """Thread: task thread."""

    inputs_without_watermarks = (_RIGHT,)

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        layout = RowLayout(tuple(self._schemas[_RIGHT].types), self._keys[_RIGHT], (), (), self._spec.state_ttl_ms)
        versions = self.backend.row_table("right", layout)
        # The base class reads the rows of the other input only, and there are none of the left one.
        self._tables = (versions, versions)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = self._columns_of(batch, input_index)
        if input_index == _RIGHT:
            self._tables[_RIGHT].apply(columns, is_addition(batch.kinds, batch.num_rows))
            return
        versions = self._tables[_RIGHT]
        slots = self._partner_slots(columns, 0, self._unmatchable(columns, 0))
        positions, rows = versions.rows_of(slots)
        if self._spec.state_ttl_ms:
            versions.touch(np.unique(rows))
        positions, rows = self._meeting(columns, 0, positions, rows)
        if self._is_outer[0]:
            is_alone = np.ones(batch.num_rows, dtype=bool)
            is_alone[positions] = False
            positions, rows = with_lonely(positions, rows, np.flatnonzero(is_alone))
        if len(rows):
            kinds = None if batch.kinds is None else batch.kinds[positions]
            self._emit_pairs(columns, 0, positions, rows, kinds)
