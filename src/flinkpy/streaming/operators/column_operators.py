"""Operators of the column lane: vectorised map, flat_map, filter and projection, without Python objects per record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.errors import TypeMismatchError
from flinkpy.common.types import Row
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.lane_border import as_columnar
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import (
    OperatorContext,
    StreamOperator,
    UserFunctionOperator,
)


class MapBatchesOperator(UserFunctionOperator):
    """Runs `function(RecordBatch) -> RecordBatch`. The result may have another length.

    If the length stays the same, record i of the result keeps the timestamp and row kind of record i. Otherwise the
    results have no timestamps, and an input with row kinds is an error.
    """

    def __init__(
        self, function: Any, input_type: Any, context: OperatorContext, output: Output, side: dict[str, Output]
    ) -> None:
        super().__init__(context, output, side, function)
        self._input_type = input_type
        self._call = _callable(function, "map")

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        batch = as_columnar(batch, self._input_type)
        try:
            columns = self._call(batch.values)
            if isinstance(columns, pa.Table):
                columns = _one_batch(columns)
            if not isinstance(columns, pa.RecordBatch):
                raise TypeMismatchError(
                    f"operator {self.context.name}: a map_batches function must return a pyarrow.RecordBatch, "
                    f"not {type(columns).__name__}"
                )
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        if columns.num_rows == batch.num_rows:
            self.output.emit(batch.with_values(columns))
        elif batch.kinds is not None:
            raise TypeMismatchError(
                f"operator {self.context.name}: a map_batches function on a changelog must return as many records as "
                f"it got: it got {batch.num_rows} and returned {columns.num_rows}, so their row kinds are unknown"
            )
        elif columns.num_rows:
            self.output.emit(Batch(columns))


class FlatMapBatchesOperator(UserFunctionOperator):
    """Runs a function that returns any number of RecordBatches or Tables. The results have no timestamps."""

    def __init__(
        self, function: Any, input_type: Any, context: OperatorContext, output: Output, side: dict[str, Output]
    ) -> None:
        super().__init__(context, output, side, function)
        self._input_type = input_type
        self._call = _callable(function, "flat_map")

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if batch.kinds is not None and batch.kinds.any():
            raise TypeMismatchError(
                f"operator {self.context.name}: flat_map_batches cannot be used on a changelog, because the row kinds "
                "of its results are unknown: use map_batches"
            )
        batch = as_columnar(batch, self._input_type)
        try:
            results = iter(self._call(batch.values) or ())
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        # Read the results one by one: all of them may be too large for the memory.
        while (columns := self._next(results)) is not None:
            if columns.num_rows:
                self.output.emit(Batch(columns))

    def _next(self, results: Iterator[Any]) -> pa.RecordBatch | None:
        try:
            columns = next(results, None)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        if isinstance(columns, pa.Table):
            return _one_batch(columns)
        if columns is not None and not isinstance(columns, pa.RecordBatch):
            raise TypeMismatchError(
                f"operator {self.context.name}: a flat_map_batches function must return pyarrow.RecordBatches, not "
                f"{type(columns).__name__}"
            )
        return columns


class FilterBatchesOperator(UserFunctionOperator):
    """Runs a filter function that returns one boolean per record (Arrow or NumPy) or an Arrow expression."""

    def __init__(
        self, function: Any, input_type: Any, context: OperatorContext, output: Output, side: dict[str, Output]
    ) -> None:
        super().__init__(context, output, side, function)
        self._input_type = input_type
        self._is_expression = isinstance(function, pc.Expression)
        self._call = None if self._is_expression else _callable(function, "filter")

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        batch = as_columnar(batch, self._input_type)
        columns = batch.values
        assert isinstance(columns, pa.RecordBatch)
        try:
            decision = self.function if self._call is None else self._call(columns)
            if isinstance(decision, pc.Expression) and batch.timestamps is None and batch.kinds is None:
                kept = columns.filter(decision)
                if kept.num_rows:
                    self.output.emit(Batch(kept))
                return
            mask = self._mask(decision, columns)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error
        kept = columns.filter(mask)
        if not kept.num_rows:
            return
        if kept.num_rows == columns.num_rows:
            self.output.emit(batch)
            return
        if batch.timestamps is None and batch.kinds is None:
            self.output.emit(Batch(kept))
            return
        keep = mask.fill_null(False).to_numpy(zero_copy_only=False)
        self.output.emit(
            Batch(
                kept,
                None if batch.timestamps is None else batch.timestamps[keep],
                None if batch.kinds is None else batch.kinds[keep],
            )
        )

    def _mask(self, decision: Any, columns: pa.RecordBatch) -> pa.BooleanArray:
        """Returns one boolean per record. A null drops the record, as in SQL."""
        if isinstance(decision, pc.Expression):
            numbered = columns.append_column("_row", pa.array(np.arange(columns.num_rows)))
            kept = numbered.filter(decision).column(columns.num_columns).to_numpy()
            keep = np.zeros(columns.num_rows, dtype=bool)
            keep[kept] = True
            return pa.array(keep)
        if isinstance(decision, pa.ChunkedArray):
            decision = decision.combine_chunks()
        if isinstance(decision, np.ndarray | list):
            decision = pa.array(decision)
        if isinstance(decision, pa.BooleanArray) and len(decision) == columns.num_rows:
            return decision
        shape = f"{decision.type}[{len(decision)}]" if isinstance(decision, pa.Array) else type(decision).__name__
        raise TypeMismatchError(
            f"operator {self.context.name}: a filter_batches function must return bool[{columns.num_rows}], not {shape}"
        )


class ProjectOperator(StreamOperator):
    """Keeps some fields of tuples or rows, in both lanes."""

    def __init__(
        self, fields: tuple[int, ...], context: OperatorContext, output: Output, side: dict[str, Output]
    ) -> None:
        super().__init__(context, output, side)
        self._fields = fields

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        values = batch.values
        try:
            if isinstance(values, list):
                self.output.emit(batch.with_values([self._project(row) for row in values]))
                return
            columns = [values.column(position) for position in self._fields]
        except (IndexError, TypeError, KeyError) as error:
            raise TypeMismatchError(f"operator {self.context.name}: fields {self._fields}: {error}") from error
        names = [f"f{i}" for i in range(len(columns))] if _is_tuple(values) else None
        names = names or [values.schema.names[position] for position in self._fields]
        self.output.emit(batch.with_values(pa.RecordBatch.from_arrays(columns, names=names)))

    def _project(self, row: Any) -> Any:
        if isinstance(row, Row):
            projected = Row(*(row[position] for position in self._fields))
            if row._fields is not None:
                projected.set_field_names([row._fields[position] for position in self._fields])
            projected.set_row_kind(row.get_row_kind())
            return projected
        return tuple([row[position] for position in self._fields])


def _is_tuple(columns: pa.RecordBatch) -> bool:
    """True if the columns are those of a TUPLE: f0, f1, ..., by position."""
    return columns.schema.names == [f"f{i}" for i in range(columns.num_columns)]


def _callable(function: Any, method: str) -> Any:
    """Returns the method of a function object, or the function itself if it is a plain callable."""
    bound = getattr(function, method, None)
    return function if bound is None else bound


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    combined = table.combine_chunks()
    batches = combined.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
