"""Checks inside a chain accept the same records as the conversion to columns between tasks."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.common.errors import TypeMismatchError
from flinkpy.common.typeinfo import TypeInformation, Types
from flinkpy.common.types import Row
from flinkpy.records.lanes import columns_of
from flinkpy.records.type_check import TypeCheck, type_check

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
NAMED = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.DOUBLE()])
TYPES = [
    Types.INT(),
    Types.DOUBLE(),
    Types.STRING(),
    Types.BOOLEAN(),
    Types.BIG_DEC(),
    Types.SQL_DATE(),
    Types.SQL_TIMESTAMP(),
    Types.LIST(Types.LONG()),
    Types.MAP(Types.STRING(), Types.LIST(Types.INT())),
    PAIR,
    NAMED,
    Types.TUPLE([PAIR, Types.LIST(PAIR)]),
    Types.ROW([Types.PICKLED_BYTE_ARRAY(), Types.INT()]),
]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**31), 2**31 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=3),
    st.binary(max_size=2),
    st.dates(),
    st.datetimes(dt.datetime(1990, 1, 1), dt.datetime(2030, 1, 1)),
    st.decimals(-100, 100, places=2),
    st.integers(0, 9).map(np.int32),
)
RECORDS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.text(max_size=2), inner, max_size=2),
        st.builds(Row, inner, inner),
        st.builds(lambda a, b: Row(a=a, b=b), inner, inner),
    ),
    max_leaves=6,
)


def accepts_in_generated_code(check: TypeCheck, value: Any) -> bool:
    bound: dict[str, Any] = {}

    def bind(one: Any) -> str:
        name = f"b{len(bound)}"
        bound[name] = one
        return name

    code = check.expression("value", bind)
    return code is not None and bool(eval(code, {**bound, "value": value}))


@given(st.sampled_from(TYPES), st.lists(RECORDS, min_size=1, max_size=4))
def test_check_accepts_every_record_that_columns_accept(type_info: TypeInformation, values: list[Any]) -> None:
    check = type_check(type_info)
    assert check is not None
    try:
        columns_of(values, type_info)
        is_accepted = True
    except TypeMismatchError:
        is_accepted = False

    assert (check.misfit(values) is None) >= is_accepted
    if not is_accepted and check.misfit(values) is None:
        # Only the conversion to columns checks properties of a value of the right class.
        assert all(isinstance(value, str | decimal.Decimal | int | list | tuple | dict | Row) for value in values)
    for value in values:
        if accepts_in_generated_code(check, value):
            assert check.misfit([value]) is None


@pytest.mark.parametrize(
    ("type_info", "value", "path"),
    [
        (Types.INT(), "1", ""),
        (Types.STRING(), 1, ""),
        (Types.BOOLEAN(), 1, ""),
        (PAIR, ("a", "b"), "f1"),
        (PAIR, ("a", 1, 2), ""),
        (NAMED, Row(a="x", b="y"), "b"),
        (NAMED, Row(a="x", c=1.0), ""),
        (Types.LIST(Types.LONG()), [1, "2"], "[1]"),
        (Types.MAP(Types.STRING(), Types.LONG()), {"a": "b"}, "[0]"),
    ],
)
def test_check_finds_the_place_of_a_misfit(type_info: TypeInformation, value: Any, path: str) -> None:
    check = type_check(type_info)
    assert check is not None

    mismatch = check.misfit([value])

    assert mismatch is not None and mismatch.path == path
    assert not accepts_in_generated_code(check, value)


@pytest.mark.parametrize("type_info", [None, Types.PICKLED_BYTE_ARRAY()])
def test_untyped_stream_has_no_check(type_info: TypeInformation | None) -> None:
    assert type_check(type_info) is None
