"""Sets the event time of the records of a batch: from a column, or with the program's TimestampAssigner.

Source: org.apache.flink.api.common.eventtime.TimestampAssigner. Differs: a column is read as a whole.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.errors import TypeMismatchError
from flinkpy.common.time import Instant
from flinkpy.common.typeinfo import ExternalTypeInfo, RowTypeInfo, TupleTypeInfo
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MIN_WATERMARK
from flinkpy.records.lanes import SCALAR_COLUMN, has_columns
from flinkpy.streaming.operators.lane_border import as_rows
from flinkpy.streaming.operators.stream_operator import OperatorContext

if TYPE_CHECKING:
    from flinkpy.common.watermark_strategy import WatermarkStrategy

#: Returns the batch with timestamps.
Stamp = Callable[[Batch], Batch]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)
_UNITS_PER_MS = {"us": 1_000, "ns": 1_000_000}


def create_stamp(strategy: WatermarkStrategy, value_type: Any, context: OperatorContext) -> Stamp | None:
    """Returns the function that sets the timestamps of batches, or None if batches keep the timestamps they have."""
    if strategy.timestamp_column is not None:
        return _ColumnStamp(strategy.timestamp_column, value_type, context)
    if strategy.timestamp_assigner is not None:
        return _AssignerStamp(strategy.timestamp_assigner.extract_timestamp, value_type, context)
    return None


class _AssignerStamp:
    """Calls the program's TimestampAssigner for every record."""

    def __init__(self, extract: Callable[[Any, int], int], value_type: Any, context: OperatorContext) -> None:
        self._extract = extract
        self._value_type = value_type
        self._context = context

    def __call__(self, batch: Batch) -> Batch:
        rows = as_rows(batch, self._value_type)
        before = [MIN_WATERMARK] * len(rows) if batch.timestamps is None else batch.timestamps.tolist()
        try:
            extracted = list(map(self._extract, rows, before))
        except USER_ERRORS as error:
            raise self._context.function_error(error) from error
        try:
            timestamps = np.array(extracted, dtype=np.int64)
        except (TypeError, ValueError, OverflowError) as error:
            wrong = next((value for value in extracted if not isinstance(value, int)), extracted)
            raise TypeMismatchError(
                f"operator {self._context.name}: extract_timestamp must return milliseconds as an int, not {wrong!r}"
            ) from error
        return Batch(batch.values, timestamps, batch.kinds)


class _ColumnStamp:
    """Reads the timestamps from one column, or in the row lane from one field of every record."""

    def __init__(self, column: str | int, value_type: Any, context: OperatorContext) -> None:
        self._column = column
        self._context = context
        if isinstance(value_type, ExternalTypeInfo):
            value_type = value_type.wrapped_type
        has_fields = isinstance(value_type, (RowTypeInfo, TupleTypeInfo))
        #: True if a record is a single value without fields.
        self._is_scalar = not has_fields and has_columns(value_type)
        #: The index into a record or its columns: a position if the type has fields.
        self._key = self._position(column, value_type) if has_fields else column

    def __call__(self, batch: Batch) -> Batch:
        values = batch.values
        timestamps = self._of_rows(values) if isinstance(values, list) else self._of_columns(values)
        return Batch(values, timestamps, batch.kinds)

    def _of_columns(self, values: pa.RecordBatch) -> np.ndarray:
        key = self._key
        index = key if isinstance(key, int) else values.schema.get_field_index(key)
        if not 0 <= index < values.num_columns:
            raise self._error(f"the records have only the columns {values.schema.names}")
        array = values.column(index)
        if array.null_count:
            raise self._error(f"it is null in record {array.is_null().index(True).as_py()} of the batch")
        kind = array.type
        if pa.types.is_timestamp(kind):
            numbers = array.view(pa.int64()).to_numpy(zero_copy_only=False)
            if kind.unit == "ms":
                return numbers
            return numbers * 1_000 if kind.unit == "s" else numbers // _UNITS_PER_MS[kind.unit]
        if not pa.types.is_integer(kind):
            raise self._error(f"its type is {kind}, but event time must be an int64 in milliseconds, or a timestamp")
        try:
            return (array if kind == pa.int64() else array.cast(pa.int64())).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid as error:
            raise self._error(str(error)) from error

    def _of_rows(self, rows: list[Any]) -> np.ndarray:
        if self._is_scalar:
            if self._column not in (0, SCALAR_COLUMN):
                raise self._error("the records have no fields")
            fields = rows
        else:
            key = self._key
            try:
                fields = [row[key] for row in rows]
            except USER_ERRORS as error:
                raise self._error(
                    f"a record of type {type(rows[0]).__name__} has no such field: {type(error).__name__}: {error}"
                ) from error
        return np.array([self._as_ms(value, index) for index, value in enumerate(fields)], dtype=np.int64)

    def _as_ms(self, value: Any, index: int) -> int:
        if (type(value) is int or isinstance(value, np.integer)) and -(1 << 63) <= value < 1 << 63:
            return int(value)
        if isinstance(value, datetime.datetime):
            return ((value if value.tzinfo else value.replace(tzinfo=datetime.UTC)) - _EPOCH) // _MILLISECOND
        if isinstance(value, Instant):
            return value.to_epoch_milli()
        if value is None:
            raise self._error(f"it is null in record {index} of the batch")
        raise self._error(
            f"it is {value!r} ({type(value).__name__}) in record {index} of the batch, but event time must be an int "
            "of 64 bits in milliseconds, or a timestamp"
        )

    def _position(self, column: str | int, value_type: RowTypeInfo | TupleTypeInfo) -> int:
        if isinstance(value_type, RowTypeInfo):
            names = list(value_type.get_field_names())
        else:
            names = [f"f{index}" for index in range(len(value_type.get_field_types()))]
        if column not in names and column not in range(len(names)):
            raise self._error(f"the records have only the fields {names}")
        return names.index(column) if isinstance(column, str) else column

    def _error(self, reason: str) -> TypeMismatchError:
        return TypeMismatchError(
            f"operator {self._context.name}: cannot read the event time from column {self._column!r}: {reason}",
            details={"operator": self._context.name, "field": str(self._column)},
        )
