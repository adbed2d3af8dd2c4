"""Records of any type survive a round trip through columns, whole or sliced."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from flinkpy.common import Instant, Row, Types
from flinkpy.common.typeinfo import TypeInformation
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import columns_of, rows_of

SCALARS: list[tuple[TypeInformation, st.SearchStrategy[Any]]] = [
    (Types.BYTE(), st.integers(-(2**7), 2**7 - 1)),
    (Types.SHORT(), st.integers(-(2**15), 2**15 - 1)),
    (Types.INT(), st.integers(-(2**31), 2**31 - 1)),
    (Types.LONG(), st.integers(-(2**63), 2**63 - 1)),
    (Types.BIG_INT(), st.integers(-(10**76) + 1, 10**76 - 1)),
    (Types.FLOAT(), st.floats(width=32, allow_nan=False)),
    (Types.DOUBLE(), st.floats(allow_nan=False)),
    (Types.BOOLEAN(), st.booleans()),
    (Types.STRING(), st.text()),
    (Types.BIG_DEC(), st.decimals(-(10**19), 10**19, places=18)),
    (Types.SQL_DATE(), st.dates()),
    (Types.SQL_TIME(), st.times()),
    (Types.SQL_TIMESTAMP(), st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31))),
    (
        Types.INSTANT(),
        st.builds(lambda s, m: Instant(s, m * 1000), st.integers(-(10**11), 10**11), st.integers(0, 999_999)),
    ),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary()),
    (Types.PICKLED_BYTE_ARRAY(), st.frozensets(st.integers())),
]


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


Typed = tuple[TypeInformation, st.SearchStrategy[Any]]


def nested(children: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    def of_list(child: Typed) -> Typed:
        return Types.LIST(child[0]), st.lists(optional(child[1]), max_size=3)

    def of_map(child: Typed) -> Typed:
        return Types.MAP(Types.STRING(), child[0]), st.dictionaries(st.text(max_size=3), optional(child[1]), max_size=3)

    def of_tuple(fields: list[Typed]) -> Typed:
        return Types.TUPLE([field[0] for field in fields]), st.tuples(*(optional(field[1]) for field in fields))

    def of_row(fields: list[Typed]) -> Typed:
        names = [f"n{position}" for position in range(len(fields))]
        rows = st.tuples(*(optional(field[1]) for field in fields)).map(lambda values: Row(*names)(*values))
        return Types.ROW_NAMED(names, [field[0] for field in fields]), rows

    several = st.lists(children, min_size=1, max_size=3)
    return children.map(of_list) | children.map(of_map) | several.map(of_tuple) | several.map(of_row)


TYPED = st.recursive(st.sampled_from(SCALARS), nested, max_leaves=4)


def is_record(type_info: TypeInformation) -> bool:
    """True if the columns are the fields of the record. Then a record cannot be None."""
    return str(type_info).startswith(("RowTypeInfo", "TupleTypeInfo"))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_records_survive_a_round_trip_through_columns(data: st.DataObject) -> None:
    type_info, values = data.draw(TYPED)
    if "PickledByteArray" in str(type_info) and not is_record(type_info):
        type_info, values = Types.TUPLE([type_info]), st.tuples(values)
    rows = data.draw(st.lists(values if is_record(type_info) else optional(values), max_size=6))

    columns = columns_of(rows, type_info)

    assert rows_of(Batch(columns), type_info) == rows
    start = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.integers(start, len(rows)))
    assert rows_of(Batch(columns.slice(start, end - start)), type_info) == rows[start:end]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.sampled_from([8, 16, 32]))
def test_narrow_integers_wrap_as_twos_complement(values: list[int], bits: int) -> None:
    type_info = {8: Types.BYTE(), 16: Types.SHORT(), 32: Types.INT()}[bits]

    wrapped = rows_of(Batch(columns_of(values, type_info)), type_info)

    assert all(
        (ours - value) % 2**bits == 0 and -(2 ** (bits - 1)) <= ours < 2 ** (bits - 1)
        for ours, value in zip(wrapped, values)
    )


@given(st.decimals(-(10**19), 10**19, allow_nan=False))
def test_decimals_are_rounded_half_up_to_18_places(value: decimal.Decimal) -> None:
    [back] = rows_of(Batch(columns_of([value], Types.BIG_DEC())), Types.BIG_DEC())

    assert abs(back - value) <= decimal.Decimal("0.5e-18")
