"""Expressions of SQL: any cut into batches gives the same values, and so does evaluation without sharing."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkpy.sql.functions import compile_expressions
from flinkpy.sql.functions.casts import cast
from flinkpy.sql.functions.registry import call
from flinkpy.sql.rex import InputRef, Literal, RexNode
from flinkpy.sql.types import logical_types as lt

INT, STRING, BOOLEAN = lt.IntType(), lt.VarCharType(), lt.BooleanType()
A, B, S, T = InputRef(INT, 0), InputRef(INT, 1), InputRef(STRING, 2), InputRef(STRING, 3)
SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.int32()), ("s", pa.string()), ("t", pa.string())])


def _literal(value: int) -> RexNode:
    return Literal(INT.not_null(), value)


def _text(value: str) -> RexNode:
    return Literal(STRING.not_null(), value)


numbers: st.SearchStrategy[RexNode] = st.deferred(
    lambda: st.one_of(
        st.sampled_from([A, B]),
        st.integers(-5, 5).map(_literal),
        st.builds(call, st.sampled_from(["+", "-", "*"]), numbers, numbers),
        st.builds(lambda x: call("CHAR_LENGTH", x), texts),
        st.builds(lambda c, x, y: call("CASE", c, x, y), conditions, numbers, numbers),
        st.builds(lambda x, y: call("COALESCE", x, y), numbers, numbers),
        # A division that must not be computed where the divisor is 0.
        st.builds(
            lambda x, y: call("CASE", call("<>", y, _literal(0)), call("/", x, y), _literal(7)), numbers, numbers
        ),
        st.builds(lambda x: cast(x, INT, is_try=True), texts),
    )
)
texts: st.SearchStrategy[RexNode] = st.deferred(
    lambda: st.one_of(
        st.sampled_from([S, T]),
        st.sampled_from(["", "a", "/", "1"]).map(_text),
        st.builds(lambda x: call("UPPER", x), texts),
        st.builds(lambda x, y: call("CONCAT", x, y), texts, texts),
        st.builds(lambda x, n: call("SPLIT_INDEX", x, _text("/"), _literal(n)), texts, st.integers(0, 2)),
        st.builds(lambda x: call("REGEXP_EXTRACT", x, _text("(a|1)(/)?"), _literal(2)), texts),
        st.builds(lambda x: cast(x, STRING), numbers),
    )
)
conditions: st.SearchStrategy[RexNode] = st.deferred(
    lambda: st.one_of(
        st.builds(call, st.sampled_from(["=", "<", ">="]), numbers, numbers),
        st.builds(call, st.sampled_from(["AND", "OR"]), conditions, conditions),
        st.builds(lambda x: call("NOT", x), conditions),
        st.builds(lambda x: call("IS NULL", x), st.one_of(numbers, texts)),
        st.builds(lambda x: call("LIKE", x, _text("%a%")), texts),
    )
)
rows = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(-3, 3)),
        st.one_of(st.none(), st.integers(-3, 3)),
        st.one_of(st.none(), st.text("a/1", max_size=5)),
        st.one_of(st.none(), st.text("a/1", max_size=5)),
    ),
    max_size=12,
)


def _batch(values: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [[row[place] for row in values] for place in range(4)]
    return pa.RecordBatch.from_arrays([pa.array(c, f.type) for c, f in zip(columns, SCHEMA)], schema=SCHEMA)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.one_of(numbers, texts, conditions), min_size=1, max_size=3), rows)
def test_rows_together_give_what_each_gives_alone(nodes: list[RexNode], values: list[tuple[Any, ...]]) -> None:
    together = [array.to_pylist() for array in compile_expressions(nodes).evaluate(_batch(values))]
    for place, node in enumerate(nodes):
        alone = compile_expressions([node])
        assert together[place] == [alone.evaluate(_batch([row]))[0][0].as_py() for row in values]


@settings(max_examples=25, deadline=None)
@given(st.lists(conditions, min_size=1, max_size=3), rows)
def test_condition_is_true_where_all_of_its_parts_are(parts: list[RexNode], values: list[tuple[Any, ...]]) -> None:
    condition = parts[0] if len(parts) == 1 else call("AND", *parts)
    mask = compile_expressions([condition]).evaluate_condition(_batch(values)).to_pylist()
    each = [array.to_pylist() for array in compile_expressions(parts).evaluate(_batch(values))]
    assert mask == [all(value is True for value in row) for row in zip(*each)]
