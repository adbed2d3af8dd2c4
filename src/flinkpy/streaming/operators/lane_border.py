"""The border between the lanes, for operators that need one of them."""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.records.batch import Batch


def as_rows(batch: Batch, type_info: Any) -> list[Any]:
    """The records as Python objects of `type_info`; no work where they are already."""
    values = batch.values
    if isinstance(values, list):
        return values
    from flinkpy.records.lanes import rows_of

    return rows_of(batch, type_info)


def as_columnar(batch: Batch, type_info: Any) -> Batch:
    """The batch with the columns of `type_info`; no work where it has them, or where it is columnar and untyped.

    Raises:
        TypeMismatchError: a record is not of that type.
        UnsupportedOperationError: the records are Python objects and `type_info` has no Arrow form.
    """
    if type_info is None and batch.is_columnar:
        return batch
    if type_info is None:
        raise UnsupportedOperationError("untyped Python objects have no column form: declare the stream's type")
    from flinkpy.records.lanes import to_columns

    return to_columns(batch, type_info)


def has_exact_columns(type_info: Any) -> bool:
    """True if records of that type travel as columns; False: as pickled Python objects."""
    from flinkpy.records import lanes

    return lanes.has_exact_columns(type_info)
