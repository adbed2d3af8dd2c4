"""Applies the changes of a changelog, which gives the rows of the table that it describes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import InternalError
from flinkpy.common.types import RowKind
from flinkpy.records.row_codes import row_codes

_ADDS = (RowKind.INSERT.value, RowKind.UPDATE_AFTER.value)


def materialized(batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, has_kinds: bool) -> pa.Table:
    """Returns the rows that remain, in the order in which they came. The first of equal rows is removed first.

    Args:
        batches: the changes. If `has_kinds`, the first column has their RowKinds (int8).
        schema: that of the rows.

    Raises: InternalError if a change removes a row that is not there.
    """
    tables = [pa.Table.from_batches([each]) for each in batches]
    if not tables:
        return schema.empty_table()
    changes = pa.concat_tables(tables)
    # The last operator may have other names for columns whose names the query repeats.
    if not has_kinds:
        return changes.rename_columns(schema.names).cast(schema)
    changes = changes.combine_chunks()
    rows = changes.remove_column(0).rename_columns(schema.names).cast(schema)
    is_added = np.isin(changes.column(0).to_numpy(), _ADDS)
    if is_added.all():
        return rows
    return rows.filter(pa.array(_remaining(rows, is_added)))


def _remaining(rows: pa.Table, is_added: np.ndarray) -> np.ndarray:
    """Returns bool[n]: True for the rows that were added and not removed."""
    codes = row_codes(rows)
    order = np.argsort(codes, kind="stable")
    codes, is_added = codes[order], is_added[order]
    begins = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    lengths = np.diff(np.append(begins, len(codes)))
    present = _running(np.where(is_added, 1, -1), begins, lengths)
    if (present < 0).any():
        place = order[np.flatnonzero(present < 0)[0]]
        raise InternalError(f"a change removes a row that is not in the table: {rows.slice(place, 1).to_pylist()[0]}")
    removed = np.repeat(np.add.reduceat(~is_added, begins, dtype=np.int64), lengths)
    remains = np.empty(len(codes), bool)
    remains[order] = is_added & (_running(is_added.astype(np.int64), begins, lengths) > removed)
    return remains


def _running(values: np.ndarray, begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns the running sums of groups of consecutive values."""
    sums = np.cumsum(values)
    return sums - np.repeat(sums[begins] - values[begins], lengths)
