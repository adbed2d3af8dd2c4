"""Converts batches between the row lane and the column lane, for operators that work in one of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.records.batch import Batch


def as_rows(batch: Batch, type_info: Any) -> list[Any]:
    """Returns the records as Python objects of `type_info`. Does no work if they already are Python objects."""
    values = batch.values
    if isinstance(values, list):
        return values
    from flinkpy.records.lanes import rows_of

    return rows_of(batch, type_info)


def as_columnar(batch: Batch, type_info: Any) -> Batch:
    """Returns the batch with the columns of `type_info`.

    Does no work if the batch already has these columns, or if it is columnar and `type_info` is None.

    Raises:
        TypeMismatchError: a record does not have the type `type_info`.
        UnsupportedOperationError: the records are Python objects and `type_info` has no Arrow form.
    """
    if type_info is None and batch.is_columnar:
        return batch
    if type_info is None:
        raise UnsupportedOperationError("untyped Python objects have no column form: declare the stream's type")
    from flinkpy.records.lanes import to_columns

    return to_columns(batch, type_info)


def inserted_columns(batch: Batch, type_info: Any, operator_name: str) -> pa.RecordBatch:
    """Returns the columns of a batch of inserts. Raises: as `as_columnar`; UnsupportedOperationError: not an insert."""
    if batch.kinds is not None and batch.kinds.any():
        raise UnsupportedOperationError(f"operator {operator_name} accepts only inserts, no updates or deletes")
    columns = as_columnar(batch, type_info).values
    assert isinstance(columns, pa.RecordBatch)
    return columns


def has_exact_columns(type_info: Any) -> bool:
    """True if records of this type travel as columns, False if they travel as pickled Python objects."""
    from flinkpy.records import lanes

    return lanes.has_exact_columns(type_info)
