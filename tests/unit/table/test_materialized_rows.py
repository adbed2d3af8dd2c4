"""The rows that remain of a changelog."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.common.errors import InternalError
from flinkpy.common.types import RowKind
from flinkpy.table.materialized_rows import materialized

SCHEMA = pa.schema([("name", pa.string()), ("n", pa.float64()), ("tags", pa.list_(pa.int32()))])
ADD, UB, UA, DEL = (
    kind.value for kind in (RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE)
)
NAN = float("nan")


def changelog(changes: list[tuple[Any, ...]]) -> pa.RecordBatch:
    """Returns a batch of (kind, name, n, tags)."""
    columns = list(zip(*changes)) if changes else [()] * 4
    kinds = pa.field("op", pa.int8())
    arrays = [pa.array(values, each.type) for values, each in zip(columns, [kinds, *SCHEMA])]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([kinds, *SCHEMA]))


def final_rows(*batches: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in materialized(batches, SCHEMA, has_kinds=True).to_pylist()]


def test_updates_and_deletions_are_applied_to_the_rows_before_them() -> None:
    first = changelog([(ADD, "a", 1, None), (ADD, "b", 1, None), (UB, "a", 1, None)])
    second = changelog([(UA, "a", 2, None), (DEL, "b", 1, None), (ADD, "a", 2, None)])
    assert final_rows(first, second) == [("a", 2, None), ("a", 2, None)]


def test_nulls_nans_and_nested_values_are_equal_to_themselves() -> None:
    same = (None, NAN, [1, None])
    assert final_rows(changelog([(ADD, *same), (ADD, None, NAN, []), (DEL, *same)]))[0][::2] == (None, [])


def test_the_removal_of_an_unknown_row_is_an_error() -> None:
    with pytest.raises(InternalError, match=r"not in the table: .*'b'"):
        final_rows(changelog([(ADD, "a", 1, None), (DEL, "b", 1, None)]))
    with pytest.raises(InternalError, match="not in the table"):
        final_rows(changelog([(DEL, "a", 1, None), (ADD, "a", 1, None)]))


def test_no_changes_are_an_empty_table() -> None:
    assert final_rows() == []
    assert materialized([], SCHEMA, has_kinds=False).schema == SCHEMA


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.integers(0, 1))), st.data())
def test_any_changelog_leaves_what_was_added_and_not_removed(steps: list[Any], data: st.DataObject) -> None:
    present: Counter[Any] = Counter()
    changes = []
    for is_added, name, n in steps:
        row = (name, float(n), [n])
        if is_added or not present[name, n]:
            present[name, n] += 1
            changes.append((ADD, *row))
        else:
            present[name, n] -= 1
            changes.append((DEL, *row))
    cut = data.draw(st.integers(0, len(changes)))
    found = Counter((name, int(n)) for name, n, _ in final_rows(changelog(changes[:cut]), changelog(changes[cut:])))
    assert found == +present


@pytest.mark.parametrize("has_kinds", [True, False])
def test_rows_have_the_names_of_the_query(has_kinds: bool) -> None:
    changes = changelog([(ADD, "a", 1, None)]).rename_columns(["op", "name", "name0", "tags0"])
    batch = changes if has_kinds else changes.select(["name", "name0", "tags0"])
    assert materialized([batch], SCHEMA, has_kinds=has_kinds).schema == SCHEMA
