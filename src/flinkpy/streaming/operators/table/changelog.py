"""Builds the changelog of keyed results from their values before and after changes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.records.batch import Batch
from flinkpy.records.nested_values import nested_texts

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)


def has_changed(results: list[pa.Array], old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Returns bool[n]: true if `results` at `new[i]` differ from those at `old[i]` in at least one column.

    NULL equals NULL. NaN differs from everything, as in the code that Flink generates.
    """
    changed = np.zeros(len(new), dtype=bool)
    left = np.arange(len(new))
    # Numbers are cheaper to compare than text, and most rows differ in one of them.
    for column in sorted(results, key=lambda each: not pa.types.is_primitive(each.type)):
        if not len(left):
            break
        differs = _differs(column.take(pa.array(old.take(left))), column.take(pa.array(new.take(left))))
        changed[left[differs]] = True
        left = left[~differs]
    return changed


def _differs(left: pa.Array, right: pa.Array) -> np.ndarray:
    if pa.types.is_nested(left.type):
        left, right = nested_texts(left), nested_texts(right)
    differs = pc.not_equal(left, right)
    if differs.null_count:
        differs = pc.coalesce(differs, pc.xor(left.is_valid(), right.is_valid()))
    mask: np.ndarray = differs.to_numpy(zero_copy_only=False)
    return mask


def keyed_changelog(
    keys: list[pa.Array],
    results: list[pa.Array],
    old: np.ndarray,
    new: np.ndarray,
    is_first: np.ndarray,
    is_deleted: np.ndarray | None,
    keeps_unchanged: bool,
    generate_update_before: bool,
    schema: pa.Schema,
) -> Batch | None:
    """Returns the changelog of n changes of keyed results. Returns None if it is empty.

    Args:
        keys: the key columns of the changes, with n rows.
        results: the columns of results, from which `old` and `new` (int64[n]) take the rows before and after a change.
        is_first: bool[n]: true if there was no result before the change.
        is_deleted: bool[n]: true if there is no result after it; None if there always is.
        keeps_unchanged: True to emit updates that change nothing.
        generate_update_before: False to leave out UPDATE_BEFORE.
        schema: of the output: the keys, then the results.
    """
    num_changes = len(new)
    is_update = ~is_first if is_deleted is None else ~(is_first | is_deleted)
    if not keeps_unchanged:
        updates = np.flatnonzero(is_update)
        is_update[updates] = has_changed(results, old.take(updates), new.take(updates))
    counts = np.ones(num_changes, dtype=np.int64)
    if generate_update_before:
        counts[is_update] = 2
    is_silent = ~(is_update | is_first)
    if is_deleted is not None:
        is_silent = np.where(is_deleted, is_first, is_silent)
    counts[is_silent] = 0
    ends = np.cumsum(counts)
    total = int(ends[-1]) if num_changes else 0
    if not total:
        return None
    if total == num_changes and not (generate_update_before or is_silent.any() or is_deleted is not None):
        source, key_rows = new, None
        kinds = np.where(is_first, INSERT, UPDATE_AFTER).astype(np.int8)
    else:
        key_rows = np.repeat(np.arange(num_changes), counts)
        source = new.take(key_rows)
        kinds = np.where(is_first, INSERT, UPDATE_AFTER).astype(np.int8).take(key_rows)
        if generate_update_before:
            first_half = ends[is_update] - 2
            source[first_half] = old[is_update]
            kinds[first_half] = UPDATE_BEFORE
        if is_deleted is not None:
            gone = is_deleted & ~is_first
            source[ends[gone] - 1] = old[gone]
            kinds[ends[gone] - 1] = DELETE
    columns = keys if key_rows is None else _taken(keys, key_rows)
    is_slice = len(source) == int(source[-1]) - int(source[0]) + 1 and bool((np.diff(source) == 1).all())
    for column in results:
        if is_slice:
            columns = [*columns, column.slice(int(source[0]), len(source))]
        else:
            columns = [*columns, column.take(pa.array(source))]
    columns = [fitted(column, field.type) for column, field in zip(columns, schema, strict=True)]
    values = pa.RecordBatch.from_arrays(columns, schema=schema)
    return Batch(values, None, kinds if kinds.any() else None)


def _taken(columns: list[pa.Array], rows: np.ndarray) -> list[pa.Array]:
    indices = pa.array(rows)
    return [column.take(indices) for column in columns]


def fitted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns the column in the declared type. Fractions are cut off for an integer type."""
    if column.type == kind:
        return column
    return column.cast(kind, safe=not (pa.types.is_floating(column.type) and pa.types.is_integer(kind)))
