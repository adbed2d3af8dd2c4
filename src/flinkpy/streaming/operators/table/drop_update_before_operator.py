"""DropUpdateBeforeOperator: drops UPDATE_BEFORE rows, for consumers that know the old row by its key.

Source: org.apache.flink.table.runtime.operators.misc.DropUpdateBeforeFunction.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flinkpy.graph.table_specs import DropUpdateBeforeSpec
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.operators.table.table_inputs import UPDATE_BEFORE


class DropUpdateBeforeOperator(StreamOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: DropUpdateBeforeSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        kinds = batch.kinds
        if kinds is None or not (kinds == UPDATE_BEFORE).any():
            self.output.emit(batch)
            return
        kept = np.flatnonzero(kinds != UPDATE_BEFORE)
        if len(kept):
            self.output.emit(batch.take(kept))
