"""PartitionOperator: the base class of operators over all records of a subtask.

They emit nothing before the end of the input, also no watermarks, because the results would come after them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.state import ListStateDescriptor
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.row_emitter import RowEmitter
from flinkpy.streaming.operators.stream_operator import OperatorContext, UserFunctionOperator

if TYPE_CHECKING:
    from flinkpy.graph.operator_specs import PartitionSpec

#: The maximum number of results per batch.
OUTPUT_ROWS = 4096


class PartitionOperator(UserFunctionOperator):
    """Processes all records of a subtask, and emits results at the end of the input. Thread: task thread.

    It holds watermarks back until then, because the results would come after them.
    """

    def __init__(
        self, spec: PartitionSpec, input_type: Any, context: OperatorContext, output: Output, side: dict[str, Output]
    ) -> None:
        super().__init__(context, output, side, spec.function)
        self.spec = spec
        self.input_type = input_type
        self._emitter = RowEmitter(output, side)
        self._watermark: Watermark | None = None

    def process_watermark(self, watermark: Watermark) -> None:
        self._watermark = watermark

    def finish(self) -> None:
        try:
            self.emit_results()
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        if self._watermark is not None:
            self.emit_to_all(self._watermark)

    def emit_results(self) -> None:
        """Emits all results. Called at the end of the input."""
        raise NotImplementedError

    def emit_rows(self, results: Iterable[Any] | None) -> None:
        """Emits results in several batches, so that the results of a generator are not all in memory at once."""
        rows = iter(() if results is None else results)
        while part := list(islice(rows, OUTPUT_ROWS)):
            self._emitter.emit(part, None)

    def emit_batch(self, batch: Batch) -> None:
        self.output.emit(batch)

    def list_state(self, name: str) -> Any:
        return self.operator_state.get_list_state(ListStateDescriptor(name, Types.PICKLED_BYTE_ARRAY()))
