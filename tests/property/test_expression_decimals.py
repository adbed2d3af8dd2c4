"""Decimal arithmetic over columns is exact: computed with unlimited precision and rounded once."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from flinkpy.common.typeinfo import DecimalTypeInfo, Types
from flinkpy.expressions.arrow import Evaluator
from flinkpy.expressions.nodes import Expression, col
from flinkpy.expressions.types import result_type
from flinkpy.records.lanes import columns_of

EXACT = decimal.Context(prec=400, rounding=decimal.ROUND_HALF_UP)
OPERATIONS: dict[str, tuple[Expression, Callable[[Decimal, Decimal], Decimal]]] = {
    "+": (col("a") + col("b"), EXACT.add),
    "-": (col("a") - col("b"), EXACT.subtract),
    "*": (col("a") * col("b"), EXACT.multiply),
    "/": (col("a") / col("b"), EXACT.divide),
    "%": (col("a") % col("b"), EXACT.remainder),
}


@st.composite
def types(draw: st.DrawFn) -> DecimalTypeInfo:
    precision = draw(st.one_of(st.integers(1, 38), st.sampled_from([15, 38])))
    return DecimalTypeInfo(precision, draw(st.integers(0, precision)))


def numbers(kind: DecimalTypeInfo) -> st.SearchStrategy[Decimal | None]:
    limit = 10**kind.precision - 1
    few = st.integers(-min(limit, 999), min(limit, 999))
    # Includes the extremes, where Arrow's own division of 256 bits is wrong.
    return st.one_of(st.none(), few, st.integers(-limit, limit), st.sampled_from([-limit, limit])).map(
        lambda number: None if number is None else Decimal(number).scaleb(-kind.scale, EXACT)
    )


def expected(one: Decimal | None, other: Decimal | None, operation: str, kind: DecimalTypeInfo) -> Decimal | None:
    if one is None or other is None or (operation in "/%" and other == 0):
        return None
    result = EXACT.quantize(OPERATIONS[operation][1](one, other), Decimal(1).scaleb(-kind.scale))
    return result if EXACT.abs(result) < Decimal(10) ** (kind.precision - kind.scale) else None


@given(types(), types(), st.sampled_from(sorted(OPERATIONS)), st.data())
def test_results_are_exact_and_rounded_once(
    one: DecimalTypeInfo, other: DecimalTypeInfo, operation: str, data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.tuples(numbers(one), numbers(other)), max_size=6))
    columns = {"a": one, "b": other}
    expression = OPERATIONS[operation][0]
    kind = result_type(expression, columns)
    assert isinstance(kind, DecimalTypeInfo)

    results = Evaluator([expression], columns).evaluate(columns_of(rows, Types.ROW_NAMED(["a", "b"], [one, other])))

    assert results[0].to_pylist() == [expected(*row, operation, kind) for row in rows]


@given(types(), types(), st.data())
def test_a_cast_rounds_half_up_and_gives_null_on_overflow(
    one: DecimalTypeInfo, other: DecimalTypeInfo, data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.tuples(numbers(one)), max_size=6))

    results = Evaluator([col("a").cast(other)], {"a": one}).evaluate(columns_of(rows, Types.ROW_NAMED(["a"], [one])))

    def fitted(number: Decimal | None) -> Decimal | None:
        if number is None:
            return None
        result = EXACT.quantize(number, Decimal(1).scaleb(-other.scale))
        return result if EXACT.abs(result) < Decimal(10) ** (other.precision - other.scale) else None

    assert results[0].to_pylist() == [fitted(number) for (number,) in rows]


@given(types(), types(), st.data())
def test_comparisons_use_exact_values(one: DecimalTypeInfo, other: DecimalTypeInfo, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(numbers(one), numbers(other)), max_size=6))
    columns = {"a": one, "b": other}
    comparisons = [col("a") < col("b"), col("a") == col("b"), col("a") >= col("b")]

    results = Evaluator(comparisons, columns).evaluate(columns_of(rows, Types.ROW_NAMED(["a", "b"], [one, other])))

    for result, compare in zip(results, (Decimal.__lt__, Decimal.__eq__, Decimal.__ge__)):
        wanted = [None if a is None or b is None else compare(a, b) for a, b in rows]
        assert result.to_pylist() == wanted
