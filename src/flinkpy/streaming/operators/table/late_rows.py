"""LateRows: counts the rows that an operator drops because the watermark has passed them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

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
