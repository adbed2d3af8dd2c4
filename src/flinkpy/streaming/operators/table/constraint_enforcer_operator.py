"""ConstraintEnforcerOperator: checks NOT NULL columns and lengths of texts and bytes of the rows for a sink.

Source: org.apache.flink.table.runtime.operators.sink.constraint.{ConstraintEnforcer, NotNullConstraint,
CharLengthConstraint, BinaryLengthConstraint}.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import TableRuntimeError
from flinkpy.graph.table_specs import ConstraintEnforcerSpec
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.operators.table.table_inputs import DELETE, columns_of, input_schema, null_rows


class ConstraintEnforcerOperator(StreamOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: ConstraintEnforcerSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        self._spec = spec
        self._input_type = input_type
        self._schema = input_schema(input_type)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        """Emits the rows that keep the constraints. Raises: TableRuntimeError, which names the column."""
        columns = list(columns_of(batch, self._input_type))
        kinds = batch.kinds
        missing = self._missing(columns, kinds)
        if missing is not None and missing.any():
            if self._spec.on_null == "ERROR":
                raise self._null_error(columns, missing)
            kept = np.flatnonzero(~missing)
            if not len(kept):
                return
            indices = pa.array(kept)
            columns = [each.take(indices) for each in columns]
            kinds = None if kinds is None else kinds[kept]
        if self._spec.on_length != "IGNORE":
            for column, length, pads in self._spec.lengths:
                columns[column] = self._fitted(columns[column], column, length, pads)
        self.output.emit(Batch(pa.RecordBatch.from_arrays(columns, schema=self._schema), None, kinds))

    def _missing(self, columns: list[pa.Array], kinds: np.ndarray | None) -> np.ndarray | None:
        """Returns bool[n]: true for rows that lack a value; None if no row does."""
        missing = null_rows([columns[each] for each in self._spec.not_null])
        if missing is None or kinds is None:
            return missing
        without_key = null_rows([columns[each] for each in self._spec.key])
        others = missing & (kinds != DELETE)
        return others if without_key is None else others | without_key

    def _null_error(self, columns: list[pa.Array], missing: np.ndarray) -> TableRuntimeError:
        row = int(np.flatnonzero(missing)[0])
        name = next(self._schema.names[each] for each in self._spec.not_null if not columns[each][row].is_valid)
        return TableRuntimeError(
            f"Column '{name}' is NOT NULL, however, a null value is being written into it. You can set job "
            "configuration 'table.exec.sink.not-null-enforcer'='DROP' to suppress this exception and drop such records "
            "silently.",
            details={"column": name},
        )

    def _fitted(self, values: pa.Array, column: int, length: int, pads: bool) -> pa.Array:
        """Returns the values with at most, or exactly, this length. Raises: TableRuntimeError if that is asked for."""
        is_text = not _is_binary(values.type)
        lengths = pc.utf8_length(values) if is_text else pc.binary_length(values)
        wrong = pc.not_equal(lengths, length) if pads else pc.greater(lengths, length)
        if not pc.any(wrong).as_py():
            return values
        if self._spec.on_length == "ERROR":
            raise self._length_error(lengths.filter(wrong)[0].as_py(), column, length, pads, is_text)
        if is_text:
            cut = pc.utf8_slice_codeunits(values, 0, length)
            return pc.utf8_rpad(cut, length, " ") if pads else cut
        cut = pc.binary_slice(values, 0, length)
        if not pads:
            return cut
        return pa.array([None if each is None else each.ljust(length, b"\0") for each in cut.to_pylist()], values.type)

    def _length_error(self, found: int, column: int, length: int, pads: bool, is_text: bool) -> TableRuntimeError:
        name = self._schema.names[column]
        kind = ("CHAR" if pads else "VARCHAR") if is_text else ("BINARY" if pads else "VARBINARY")
        return TableRuntimeError(
            f"Column '{name}' is {kind}({length}), however, a string of length {found} is being written into it. You "
            "can set job configuration 'table.exec.sink.type-length-enforcer' to control this behaviour.",
            details={"column": name},
        )


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))
