"""Bundle: the rows that a mini-batch collects before they are processed together.

Source: org.apache.flink.table.runtime.operators.bundle.AbstractMapBundleOperator, CountBundleTrigger.
Differs: a bundle ends with the batch that fills it, so it may have more rows than its size. Its time limit is a
processing-time timer of the operator, in Flink a watermark of a MiniBatchAssigner.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from flinkpy.graph.table_specs import MiniBatch
from flinkpy.records.batch import Batch
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService, ScheduledTimer


class Bundle:
    """Collects batches. Thread: task thread.

    Args:
        process: called with the rows of a bundle: one batch per input; None for inputs without rows.
        num_inputs: the number of inputs that share the bundle.
    """

    def __init__(
        self, mini_batch: MiniBatch, clock: ProcessingTimeService, process: Callable[..., None], num_inputs: int = 1
    ) -> None:
        self._mini_batch = mini_batch
        self._clock = clock
        self._process = process
        self._batches: list[list[Batch]] = [[] for _ in range(num_inputs)]
        self._num_rows = 0
        self._timer: ScheduledTimer | None = None

    def add(self, batch: Batch, input_index: int = 0) -> None:
        self._batches[input_index].append(batch)
        self._num_rows += batch.num_rows
        if self._num_rows >= self._mini_batch.size:
            self.finish()
        elif self._timer is None:
            self._timer = self._clock.schedule_after(self._mini_batch.latency_ms, self._on_timer)

    def _on_timer(self, _: int) -> None:
        self._timer = None
        self.finish()

    def finish(self) -> None:
        """Processes the rows. Called before a barrier, a watermark and the end of the input."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._num_rows:
            return
        batches, self._batches, self._num_rows = self._batches, [[] for _ in self._batches], 0
        self._process(*(concatenated(each) if each else None for each in batches))


def concatenated(batches: list[Batch]) -> Batch:
    """Returns one batch with the rows of all. They have the same schema."""
    if len(batches) == 1:
        return batches[0]
    values = pa.concat_batches([batch.values for batch in batches])
    if all(batch.kinds is None for batch in batches):
        return Batch(values)
    kinds = [np.zeros(batch.num_rows, dtype=np.int8) if batch.kinds is None else batch.kinds for batch in batches]
    return Batch(values, None, np.concatenate(kinds))
