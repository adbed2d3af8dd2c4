"""Runs a column operator as flinkpy's operator and as a Spark DataFrame. The results are comparable tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from streaming_fakes import OperatorHarness

from flinkpy.graph import operator_specs as specs
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, Watermark
from flinkpy.records.lanes import type_info_of_schema
from flinkpy.spark.columns.names import column_types

TIME = "__ts"


def natively(spec: specs.OperatorSpec, table: pa.Table) -> pa.Table:
    """Returns the results of flinkpy's operator, with their timestamps in `__ts`."""
    harness = OperatorHarness(spec)
    times = table[TIME].to_numpy().astype(np.int64) if TIME in table.column_names else None
    columns = table.drop_columns([TIME]) if times is not None else table
    start = 0
    for batch in columns.combine_chunks().to_batches(max_chunksize=7):
        stamps = None if times is None else times[start : start + batch.num_rows]
        start += batch.num_rows
        harness.operator.process_batch(Batch(batch, stamps))
    harness.operator.process_watermark(Watermark(MAX_WATERMARK))
    harness.operator.finish()
    batches = [item for item in harness.output.items if isinstance(item, Batch)]
    parts = []
    for batch in batches:
        stamps = [None] * batch.num_rows if batch.timestamps is None else batch.timestamps
        parts.append(pa.Table.from_batches([batch.values]).append_column(TIME, pa.array(stamps, pa.int64())))
    return pa.concat_tables(parts) if parts else None


def frame_of(session: Any, table: pa.Table) -> Any:
    fields = [field for field in table.schema if field.name != TIME]
    columns = column_types(type_info_of_schema(pa.schema(fields)))
    from pyspark.sql.types import LongType, StructField, StructType

    kinds = {**columns, TIME: LongType()}
    schema = StructType([StructField(name, kinds[name]) for name in table.column_names])
    return session.createDataFrame(table, schema), columns


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Returns the rows in a canonical order. NaN equals itself."""
    listed = [tuple("NaN" if value != value else value for value in row.values()) for row in table.to_pylist()]
    return sorted(listed, key=repr)


def assert_equal(native: pa.Table, spark: pa.Table) -> None:
    assert spark.column_names == native.column_names
    assert [plain(kind) for kind in spark.schema.types] == [plain(kind) for kind in native.schema.types]
    assert rows(spark) == rows(native)


def plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_large_string(kind) else kind
