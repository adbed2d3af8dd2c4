"""Canonical forms of nested values: equal for equal values, and convertible back."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from flinkpy.records.key_hash import hash_columns
from flinkpy.records.nested_values import nested_array, nested_texts, nested_values

_MAP = pa.map_(pa.string(), pa.list_(pa.int64()))
_STRUCT = pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))])
_TIMES = pa.list_(pa.timestamp("ns"))
_COLUMNS = [
    pa.array([[("x", [1, 2]), ("y", None)], None, [], [("y", None), ("x", [1, 2])]], _MAP),
    pa.array([{"a": 1, "b": {"c": "x"}}, None, {"a": None, "b": None}], _STRUCT),
    pa.array([[1, 2], None, [3, None]], pa.list_(pa.int64(), 2)),
    pa.array([[1], [], None], pa.large_list(pa.int64())),
    pa.array([[1, 2], [1], None], pa.list_(pa.int64())).cast(_TIMES),
    pa.array([[dt.date(2024, 1, 1)], []], pa.list_(pa.date32())),
]


@pytest.mark.parametrize("column", _COLUMNS, ids=lambda column: str(column.type))
def test_a_form_is_that_of_the_value_wherever_it_is_in_a_column(column: pa.Array) -> None:
    forms = nested_values(column)
    assert nested_values(column.slice(1)) == forms[1:]
    assert nested_values(nested_array(forms, column.type)) == forms
    assert nested_array(forms, column.type).type == column.type
    assert hash_columns([column.slice(1)]).tolist() == hash_columns([column]).tolist()[1:]


def test_the_order_of_the_entries_of_a_map_does_not_count() -> None:
    texts = nested_texts(_COLUMNS[0]).to_pylist()
    assert texts[0] == texts[3]
    assert len(set(texts)) == 3
    hashes = hash_columns([_COLUMNS[0]]).tolist()
    assert hashes[0] == hashes[3]


def test_a_row_of_nulls_is_not_null() -> None:
    assert nested_values(_COLUMNS[1]) == [(1, ("x",)), None, (None, None)]


def test_nanoseconds_count() -> None:
    assert nested_values(_COLUMNS[4]) == [(1, 2), (1,), None]
