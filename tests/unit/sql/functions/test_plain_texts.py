"""Texts that are parsed at once have the values, and the errors, of texts that are parsed one by one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.common.errors import TableRuntimeError
from flinkpy.sql.functions import compile_expressions
from flinkpy.sql.functions.casts import cast
from flinkpy.sql.functions.registry import call
from flinkpy.sql.rex import InputRef, Literal, RexNode
from flinkpy.sql.session_settings import SessionSettings
from flinkpy.sql.types import logical_types as lt

TEXT = lt.VarCharType()
COLUMN = InputRef(TEXT, 0)
TYPES: list[lt.LogicalType] = [
    lt.IntType(),
    lt.TinyIntType(),
    lt.DoubleType(),
    lt.DecimalType(5, 2),
    lt.DecimalType(4, 0),
    lt.DecimalType(2, 2),
    lt.DateType(),
    lt.TimestampType(0),
    lt.TimestampType(3),
    lt.TimestampType(9),
    lt.LocalZonedTimestampType(3),
]
ZONED: list[RexNode] = [
    call("TO_TIMESTAMP", COLUMN),
    call("TO_DATE", COLUMN),
    call("UNIX_TIMESTAMP", COLUMN),
    call("CONVERT_TZ", COLUMN, Literal(TEXT.not_null(), "UTC"), Literal(TEXT.not_null(), "Asia/Kolkata")),
]
EXPRESSIONS = [*(cast(COLUMN, kind, is_try=True) for kind in TYPES), *ZONED]
numbers = st.from_regex(r"\A-?\d{1,6}(\.\d{1,4})?(e-?\d{1,2})?\Z", fullmatch=True)
fractions = st.sampled_from(["", ".5", ".123", ".123456", ".123456789"])
times = st.builds(
    "{:04d}-{:02d}-{:02d}{}".format,
    st.integers(1, 2300),
    st.integers(1, 13),
    st.integers(1, 32),
    st.one_of(
        st.just(""),
        st.builds(
            " {:02d}:{:02d}:{:02d}{}".format, st.integers(0, 24), st.integers(0, 60), st.integers(0, 60), fractions
        ),
    ),
)


def evaluated(node: RexNode, texts: list[str | None]) -> list[Any]:
    batch = pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], names=["a"])
    try:
        (array,) = compile_expressions([node], SessionSettings(time_zone="Europe/Berlin")).evaluate(batch)
    except TableRuntimeError:  # a year that nanoseconds cannot hold
        return ["error"] * len(texts)
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    values: list[Any] = array.to_pylist()
    return values


@given(
    texts=st.lists(st.none() | numbers, min_size=1, max_size=3) | st.lists(st.none() | times, min_size=1, max_size=3)
)
def test_texts_have_the_same_values_alone_and_beside_an_unusual_text(texts: list[str | None]) -> None:
    for node in EXPRESSIONS:
        assert evaluated(node, texts) == evaluated(node, [*texts, "?"])[:-1], node
