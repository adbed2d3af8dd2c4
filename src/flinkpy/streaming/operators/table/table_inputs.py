"""The columns and kinds of a batch of rows, and output in bounded batches, for the operators of tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.records.batch import Batch
from flinkpy.sql.types.arrow import schema_of
from flinkpy.streaming.operators.lane_border import as_columnar
from flinkpy.streaming.operators.output import Output

#: The values of RowKind.
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = np.int8(0), np.int8(1), np.int8(2), np.int8(3)
#: The maximum number of rows of an emitted batch, and of pairs that a join looks at together.
MAX_ROWS = 65_536


def input_schema(input_type: Any) -> pa.Schema:
    """Returns the columns of an input, which is an InternalTypeInfo."""
    return schema_of(input_type.row_type)


def columns_of(batch: Batch, input_type: Any) -> list[pa.Array]:
    return as_columnar(batch, None if batch.is_columnar else input_type).values.columns  # type: ignore[union-attr]


def is_addition(kinds: np.ndarray | None, length: int) -> np.ndarray:
    """Returns bool[length]: true for INSERT and UPDATE_AFTER."""
    if kinds is None:
        return np.ones(length, dtype=bool)
    return (kinds == INSERT) | (kinds == UPDATE_AFTER)


def null_rows(columns: Sequence[pa.Array]) -> np.ndarray | None:
    """Returns bool[n]: true for rows in which one of these columns is NULL; None if there is no NULL."""
    mask: np.ndarray | None = None
    for column in columns:
        if column.null_count:
            is_null = column.is_null().to_numpy(zero_copy_only=False)
            mask = is_null if mask is None else mask | is_null
    return mask


def take_or_null(column: pa.Array, indices: np.ndarray) -> pa.Array:
    """Returns the values at these indices, with NULL for negative ones."""
    missing = indices < 0
    return column.take(pa.array(indices, mask=missing) if missing.any() else pa.array(indices))


def emit_columns(output: Output, schema: pa.Schema, columns: list[pa.Array], kinds: np.ndarray | None) -> None:
    """Emits rows if there are any. Without `kinds` all are INSERT."""
    length = len(columns[0])
    if kinds is not None and not kinds.any():
        kinds = None
    batch = Batch(pa.RecordBatch.from_arrays(columns, schema=schema), None, kinds)
    if length <= MAX_ROWS:
        if length:
            output.emit(batch)
        return
    for start in range(0, length, MAX_ROWS):
        output.emit(batch.slice(start, min(MAX_ROWS, length - start)))
