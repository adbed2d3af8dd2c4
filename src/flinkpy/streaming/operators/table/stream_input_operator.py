"""StreamInputOperator: turns the records of a DataStream into rows of a table.

Source: org.apache.flink.table.runtime.operators.source.InputConversionOperator.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flinkpy.common.errors import TypeMismatchError
from flinkpy.graph.table_specs import StreamInputSpec
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import arrow_schema, conform
from flinkpy.streaming.operators.lane_border import as_columnar
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator


class StreamInputOperator(StreamOperator):
    """Keeps the kinds of Rows. Thread: task thread."""

    def __init__(
        self,
        spec: StreamInputSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        self._spec = spec
        self._input_type = input_type
        schema = arrow_schema(spec.output_type)
        assert schema is not None
        self._schema = schema

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columnar = as_columnar(batch, self._input_type)
        columns: Any = columnar.values
        arrays = list(columns.columns)
        if self._spec.has_rowtime:
            arrays.append(self._rowtimes(batch))
        # The columns of a DataStream of bare values or tuples have other names, so they are taken by position.
        named = pa.RecordBatch.from_arrays(arrays, names=self._schema.names)
        self.output.emit(Batch(conform(named, self._spec.output_type), None, columnar.kinds))

    def _rowtimes(self, batch: Batch) -> pa.Array:
        if batch.timestamps is None:
            raise TypeMismatchError(
                "Rowtime timestamp is not defined. Please make sure that a proper TimestampAssigner is defined and the "
                "stream environment uses the EventTime time characteristic.",
                details={"operator": self.context.name},
            )
        return pa.array(batch.timestamps).cast(self._schema.field(len(self._schema) - 1).type)
