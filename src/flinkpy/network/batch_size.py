"""A cheap estimate of the size of a batch, made for every batch that is emitted."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

from flinkpy.records.batch import Batch

# The number of rows sampled to estimate a list. Eight rows spread over the list detect a skewed one, and cost about two
# microseconds.
_SAMPLES = 8
# The depth to which containers inside a row are followed. Deeper containers count without their contents.
_DEPTH = 3


def batch_bytes(batch: Batch) -> int:
    """Returns the bytes of `batch`.

    The size of columns is exact. It counts only the slice, not the rest of its parent's buffers. The size of Python
    objects is an estimate.
    """
    values = batch.values
    if isinstance(values, list):
        size = _rows_bytes(values)
    else:
        per_row = traits_of(values.schema).row_bytes
        size = values.nbytes if per_row is None else values.num_rows * per_row
    if batch.timestamps is not None:
        size += batch.timestamps.nbytes
    if batch.kinds is not None:
        size += batch.kinds.nbytes
    return size


class SchemaTraits:
    """Properties of a schema that are needed for every batch.

    Attributes:
        row_bytes: the bytes of a row of fixed-width columns, validity rounded up to a byte; None if a column has no
            fixed width.
        has_dictionaries: True if a column is dictionary-encoded.
    """

    __slots__ = ("has_dictionaries", "row_bytes", "schema")

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.row_bytes = _sum_of_widths(schema)
        self.has_dictionaries = any(pa.types.is_dictionary(field.type) for field in schema)


def traits_of(schema: pa.Schema) -> SchemaTraits:
    global _last
    traits = _last
    if not schema.equals(traits.schema):
        traits = _last = SchemaTraits(schema)
    return traits


def _sum_of_widths(schema: pa.Schema) -> int | None:
    total = 0
    for field in schema:
        try:
            total += (field.type.bit_width + 7) // 8
        except ValueError:
            return None
    return total


#: The traits of the last schema. Any thread may read and replace them. Comparing two schemas costs a tenth of hashing
#: one, and a task's batches rarely differ.
_last = SchemaTraits(pa.schema([]))


def _rows_bytes(rows: list[Any]) -> int:
    count = len(rows)
    if count <= _SAMPLES:
        return sum(_object_bytes(row, _DEPTH) for row in rows)
    step = count // _SAMPLES
    return sum(_object_bytes(rows[i], _DEPTH) for i in range(0, step * _SAMPLES, step)) * count // _SAMPLES


def _object_bytes(value: Any, depth: int) -> int:
    size = sys.getsizeof(value, 64)
    if depth:
        if isinstance(value, list | tuple):
            size += _items_bytes(value, depth)
        elif isinstance(value, dict):
            size += _items_bytes(list(value.keys()), depth) + _items_bytes(list(value.values()), depth)
        else:
            inner = getattr(value, "__dict__", None) or getattr(value, "_values", None)
            if inner and not isinstance(value, type):
                size += _items_bytes(list(inner.values()) if isinstance(inner, dict) else inner, depth)
    return size


def _items_bytes(items: Any, depth: int) -> int:
    if len(items) <= _SAMPLES:
        return sum(_object_bytes(item, depth - 1) for item in items)
    return sum(_object_bytes(item, depth - 1) for item in items[:_SAMPLES]) * len(items) // _SAMPLES
