"""StreamFrame: a DataFrame with the records of a stream, in one of two layouts.

| layout | a row is | columns |
|---|---|---|
| COLUMNS | one record | the columns of its type, and `__ts`: its event time in ms, or null |
| BLOCKS | some consecutive records | `__block`: binary, see `flinkpy.spark.blocks`; the translation adds others |

Spark's own operators work on COLUMNS. Streams without a column form are always in BLOCKS. `encode_rows` and
`decode_rows` convert between batches and rows of both layouts.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinkpy.records.batch import Batch
from flinkpy.records.lanes import arrow_schema, columns_of, conform, has_exact_columns
from flinkpy.spark.blocks import Accumulators, SinkReport, decode_block, encode_block

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flinkpy.common.typeinfo import TypeInformation

#: Takes the accumulators of one subtask.
TakeAccumulators = Callable[[Accumulators], None]
#: A function for `DataFrame.mapInArrow`.
RowsFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

TIMESTAMP_COLUMN = "__ts"
BLOCK_COLUMN = "__block"
#: The prefix of our own columns. A stream that has columns with this prefix travels in blocks.
RESERVED_PREFIX = "__"
_BLOCK_SCHEMA = pa.schema([pa.field(BLOCK_COLUMN, pa.binary())])


class Layout(enum.Enum):
    COLUMNS = "one record per row"
    BLOCKS = "a batch of records per row"


@dataclass(frozen=True, slots=True)
class PythonStep:
    """The last step of a frame, if it is a function for `mapInArrow`.

    Attributes:
        frame: the frame that the function reads.
        columns: the columns of its result that the resulting frame has; None for all.
    """

    frame: DataFrame
    function: RowsFunction
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class StreamFrame:
    """The records of a stream in Spark.

    Attributes:
        type_info: the type of the records; None for Python objects.
        made_by: the last step of the frame, if a reader may run it again in its own Python worker. So it is None for a
            frame with several readers.
    """

    frame: DataFrame
    type_info: TypeInformation | None
    layout: Layout
    made_by: PythonStep | None = None

    @property
    def is_columnar(self) -> bool:
        return self.layout is Layout.COLUMNS

    def decode(self, rows: pa.RecordBatch, take_accumulators: TakeAccumulators | None = None) -> Iterator[Batch]:
        """Yields the batches in rows of the frame. Passes accumulators between them to `take_accumulators`."""
        return decode_rows(rows, self.type_info, self.layout, take_accumulators)


def natural_layout(type_info: TypeInformation | None) -> Layout:
    """Returns COLUMNS if Spark has all the column types, else BLOCKS."""
    return Layout.BLOCKS if column_schema(type_info) is None else Layout.COLUMNS


def column_schema(type_info: TypeInformation | None) -> pa.Schema | None:
    """Returns the schema of the layout COLUMNS, without `__ts`; None if streams of this type have no column form.

    Timestamps in milliseconds have microseconds there.
    """
    schema = arrow_schema(type_info) if has_exact_columns(type_info) else None
    if schema is None or not len(schema) or len(set(schema.names)) < len(schema):
        return None
    if any(name.startswith(RESERVED_PREFIX) for name in schema.names):
        return None
    fields = [field.with_type(_in_microseconds(field.type)) for field in schema]
    return pa.schema(fields) if all(_is_spark_type(field.type) for field in fields) else None


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) and kind.unit == "ms" else kind


def frame_schema(type_info: TypeInformation | None, layout: Layout) -> pa.Schema:
    """Returns the schema of the Arrow data that a frame is made from."""
    if layout is Layout.BLOCKS:
        return _BLOCK_SCHEMA
    schema = column_schema(type_info)
    assert schema is not None, f"{type_info!r} has no columns in Spark"
    return schema.append(pa.field(TIMESTAMP_COLUMN, pa.int64()))


def encode_rows(batch: Batch, type_info: TypeInformation | None, layout: Layout) -> pa.RecordBatch:
    """Returns the rows of a batch, with the schema `frame_schema(type_info, layout)`.

    Raises: TypeMismatchError if a record does not have the type.
    """
    if layout is Layout.BLOCKS:
        return pa.RecordBatch.from_arrays([pa.array([encode_block(batch)], pa.binary())], schema=_BLOCK_SCHEMA)
    assert type_info is not None
    values = batch.values
    columns = columns_of(values, type_info) if isinstance(values, list) else conform(values, type_info)
    times = pa.nulls(batch.num_rows, pa.int64()) if batch.timestamps is None else pa.array(batch.timestamps)
    schema = frame_schema(type_info, layout)
    arrays = [
        each if each.type == field.type else each.cast(field.type) for each, field in zip(columns.columns, schema)
    ]
    return pa.RecordBatch.from_arrays([*arrays, times], schema=schema)


def decode_rows(
    rows: pa.RecordBatch,
    type_info: TypeInformation | None,
    layout: Layout,
    take_accumulators: TakeAccumulators | None = None,
) -> Iterator[Batch]:
    """Yields the batches in rows of a frame."""
    if layout is Layout.BLOCKS:
        for block in rows.column(BLOCK_COLUMN):
            content = decode_block(block.as_buffer())
            if isinstance(content, Batch):
                yield content
            elif take_accumulators is not None and not isinstance(content, SinkReport):
                take_accumulators(content)
    elif rows.num_rows:
        assert type_info is not None
        times = rows.column(TIMESTAMP_COLUMN)
        columns = conform(rows.drop_columns([TIMESTAMP_COLUMN]), type_info)
        if times.null_count == rows.num_rows:
            yield Batch(columns)
        elif not times.null_count:
            yield Batch(columns, times.to_numpy())
        else:
            has_time = times.is_valid().to_numpy(zero_copy_only=False)
            starts = [0, *(np.flatnonzero(np.diff(has_time)) + 1).tolist()]
            for start, end in zip(starts, [*starts[1:], rows.num_rows]):
                part = columns.slice(start, end - start)
                yield Batch(part, times.slice(start, end - start).to_numpy() if has_time[start] else None)


def frame_of(
    session: SparkSession, batches: Iterable[Batch], type_info: TypeInformation | None, layout: Layout | None = None
) -> StreamFrame:
    """Returns a frame of batches in this process."""
    layout = layout or natural_layout(type_info)
    schema = frame_schema(type_info, layout)
    rows = pa.Table.from_batches([encode_rows(batch, type_info, layout) for batch in batches], schema)
    return StreamFrame(session.createDataFrame(rows, spark_schema(schema)), type_info, layout)


def spark_schema(schema: pa.Schema) -> Any:
    """Returns the StructType of Arrow columns. All columns are nullable."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(pa.schema([field.with_nullable(True) for field in schema]), prefer_timestamp_ntz=True)


def _is_spark_type(kind: pa.DataType) -> bool:
    """Returns True if Spark has the type and returns its values unchanged."""
    t = pa.types
    if t.is_decimal(kind):
        return bool(t.is_decimal128(kind))
    if t.is_timestamp(kind):
        return bool(kind.unit == "us")
    if t.is_list(kind):
        return _is_spark_type(kind.value_type)
    if t.is_map(kind):
        return _is_spark_type(kind.key_type) and _is_spark_type(kind.item_type)
    if t.is_struct(kind):
        return kind.num_fields > 0 and all(_is_spark_type(field.type) for field in kind)
    return kind in _SPARK_TYPES


_SPARK_TYPES = frozenset(
    {
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.date32(),
    }
)
