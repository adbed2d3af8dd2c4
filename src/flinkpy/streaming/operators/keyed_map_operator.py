"""KeyedMapOperator: runs map, flat_map and filter on a keyed stream. The functions may use keyed state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.keyed_operator import KeyedOperator
from flinkpy.streaming.operators.lane_border import as_rows
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.process_operator import repeat_timestamps
from flinkpy.streaming.operators.stream_operator import OperatorContext

if TYPE_CHECKING:
    from flinkpy.graph.operator_specs import KeyedMapSpec

_METHODS = {"MAP": "map", "FLAT_MAP": "flat_map", "FILTER": "filter"}


class KeyedMapOperator(KeyedOperator):
    def __init__(
        self, spec: KeyedMapSpec, input_type: Any, context: OperatorContext, output: Output, side: dict[str, Output]
    ) -> None:
        super().__init__(spec, input_type, context, output, side)
        if spec.kind not in _METHODS:
            raise UnsupportedOperationError(f"operator {context.name}: unknown kind {spec.kind!r}")
        self._call = getattr(spec.function, _METHODS[spec.kind])
        self._run = {"MAP": self._map, "FLAT_MAP": self._flat_map, "FILTER": self._filter}[spec.kind]

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        rows = as_rows(batch, self.input_type)
        try:
            result = self._run(batch, rows)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        if result.values:
            self.output.emit(result)

    def _map(self, batch: Batch, rows: list[Any]) -> Batch:
        context, call = self.key_context, self._call
        out = []
        for context.key, value in zip(self.read_keys(rows), rows):
            out.append(call(value))
        return batch.with_values(out)

    def _flat_map(self, batch: Batch, rows: list[Any]) -> Batch:
        context, call = self.key_context, self._call
        out: list[Any] = []
        ends = []
        for context.key, value in zip(self.read_keys(rows), rows):
            results = call(value)
            if results is not None:
                out.extend(results)
            ends.append(len(out))
        timestamps, kinds = batch.timestamps, batch.kinds
        return Batch(
            out,
            None if timestamps is None else repeat_timestamps(timestamps, ends),
            None if kinds is None else repeat_timestamps(kinds, ends),
        )

    def _filter(self, batch: Batch, rows: list[Any]) -> Batch:
        context, call = self.key_context, self._call
        kept = []
        for i, (context.key, value) in enumerate(zip(self.read_keys(rows), rows)):
            if call(value):
                kept.append(i)
        if len(kept) == len(rows):
            return batch.with_values(rows)
        return batch.with_values(rows).take(np.array(kept, dtype=np.int64))
