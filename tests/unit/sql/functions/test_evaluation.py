"""Evaluation of bound expressions: sharing, lazy branches, conditions, constants and user-defined functions."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from flinkpy.common.errors import FunctionError, TableRuntimeError, UnsupportedOperationError, ValidationError
from flinkpy.sql.functions import compile_expressions
from flinkpy.sql.functions.casts import cast
from flinkpy.sql.functions.registry import call, function
from flinkpy.sql.rex import FieldAccess, InputRef, Literal, RexCall, RexNode, UserFunctionCall
from flinkpy.sql.types import logical_types as lt

INT, STRING = lt.IntType(), lt.VarCharType()
A, B, S = InputRef(INT, 0), InputRef(INT, 1), InputRef(STRING, 2)


def batch(a: list[Any], b: list[Any] | None = None, s: list[Any] | None = None) -> pa.RecordBatch:
    size = len(a)
    columns = {"a": pa.array(a, pa.int32()), "b": pa.array(b or [None] * size, pa.int32())}
    return pa.record_batch({**columns, "s": pa.array(s or [None] * size, pa.string())})


def number(value: int) -> Literal:
    return Literal(INT.not_null(), value)


def text(value: str) -> Literal:
    return Literal(lt.CharType(len(value), nullable=False), value)


def values(node: RexNode, rows: pa.RecordBatch) -> list[Any]:
    return compile_expressions([node]).evaluate(rows)[0].to_pylist()  # type: ignore[no-any-return]


class Counting:
    """A user-defined function that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def eval(self, value: Any) -> Any:
        self.calls += 1
        return None if value is None else value + 1


def counted(function_: Counting, *arguments: RexNode, deterministic: bool = True) -> UserFunctionCall:
    return UserFunctionCall(INT, "counted", function_, arguments, is_deterministic=deterministic)


def test_equal_expressions_are_computed_once() -> None:
    counting = Counting()
    node = counted(counting, A)
    first, second = compile_expressions([call("+", node, number(1)), call("*", node, node)]).evaluate(batch([1, 2]))
    assert (first.to_pylist(), second.to_pylist()) == ([3, 4], [4, 9])
    assert counting.calls == 2


def test_calls_that_are_not_deterministic_are_computed_each() -> None:
    counting = Counting()
    node = counted(counting, A, deterministic=False)
    compile_expressions([node, node]).evaluate(batch([1, 2]))
    assert counting.calls == 4


def test_case_evaluates_a_branch_that_may_fail_only_for_its_rows() -> None:
    node = call("CASE", call("=", A, number(0)), number(-1), call("/", B, A))
    assert values(node, batch([0, 2, None], [8, 8, 8])) == [-1, 4, None]


def test_and_skips_what_fails_where_it_is_decided() -> None:
    node = call("AND", call("<>", A, number(0)), call(">", call("/", B, A), number(3)))
    assert values(node, batch([0, 2, 4], [8, 8, 8])) == [False, True, False]


def test_or_skips_what_fails_where_it_is_decided() -> None:
    node = call("OR", call("=", A, number(0)), call(">", call("/", B, A), number(3)))
    assert values(node, batch([0, 2, 4], [8, 8, 8])) == [True, True, False]


def test_coalesce_evaluates_later_values_only_where_needed() -> None:
    node = call("COALESCE", A, cast(S, INT))
    assert values(node, batch([1, None], s=["x", "7"])) == [1, 7]


def test_condition_evaluates_later_parts_on_the_rows_that_are_left() -> None:
    counting = Counting()
    condition = call("AND", call("=", A, number(1)), call("=", counted(counting, B), number(6)))
    mask = compile_expressions([condition]).evaluate_condition(batch([1, 0, 1, None], [5, 5, 9, 5]))
    assert mask.to_pylist() == [True, False, False, False]
    assert counting.calls == 2


def test_condition_ends_where_no_rows_are_left() -> None:
    tests = [call("=", A, number(value)) for value in (1, 2, 3)]
    first, second, third = (call("AND", each, call("<", B, number(9))) for each in tests)
    condition = call("AND", first, second, third)
    mask = compile_expressions([condition]).evaluate_condition(batch([1, 0, 0, 1, 0, 0, 0, 0], [5] * 8))
    assert mask.to_pylist() == [False] * 8


def test_null_condition_is_not_true() -> None:
    mask = compile_expressions([call(">", A, number(1))]).evaluate_condition(batch([2, None, 0]))
    assert mask.to_pylist() == [True, False, False]
    assert mask.null_count == 0


def test_constant_that_fails_does_so_for_the_first_row_only() -> None:
    compiled = compile_expressions([call("/", number(1), number(0))])
    assert compiled.evaluate(batch([]))[0].to_pylist() == []
    with pytest.raises(TableRuntimeError, match="Division by zero"):
        compiled.evaluate(batch([1]))


def test_field_of_a_null_row_is_null() -> None:
    row_type = lt.RowType.of(("x", INT), ("y", STRING))
    rows = pa.record_batch(
        {"r": pa.array([{"x": 1, "y": "a"}, None], pa.struct([("x", pa.int32()), ("y", pa.string())]))}
    )
    assert values(FieldAccess(INT, InputRef(row_type, 0), 0, "x"), rows) == [1, None]
    assert values(FieldAccess(INT, InputRef(row_type, 0), 0, "x"), rows.slice(1)) == [None]


@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_vectorised_function_gets_columns(kind: str) -> None:
    if kind == "pandas":
        pytest.importorskip("pandas")

    def double(column: Any) -> Any:
        return pa.array([value * 2 for value in column.to_pylist()]) if kind == "arrow" else column * 2

    node = UserFunctionCall(lt.BigIntType(), "double", double, (A,), kind)
    assert values(node, batch([1, 2])) == [2, 4]


def test_vectorised_function_must_return_a_value_per_row() -> None:
    node = UserFunctionCall(INT, "short", lambda column: column.slice(1), (A,), "arrow")
    with pytest.raises(FunctionError, match="returned 1 values for 2 rows"):
        values(node, batch([1, 2]))


def test_function_that_raises_is_named() -> None:
    def broken(value: int) -> int:
        raise KeyError("missing")

    with pytest.raises(FunctionError, match=r"function broken raised KeyError"):
        values(UserFunctionCall(INT, "broken", broken, (A,)), batch([1]))


def test_function_without_an_evaluation_is_named() -> None:
    with pytest.raises(UnsupportedOperationError, match="does not have the function NO_SUCH_FUNCTION"):
        compile_expressions([RexCall(INT, "NO_SUCH_FUNCTION", (A,))])


def test_wrong_arguments_list_the_signatures() -> None:
    with pytest.raises(ValidationError, match=r"Invalid function call: SUBSTRING\(INT\).*\n.*<INTEGER>"):
        call("SUBSTRING", A)


def test_arguments_are_cast_to_what_a_function_takes() -> None:
    node = call("SUBSTRING", S, Literal(lt.TinyIntType(nullable=False), 2))
    assert values(node, batch([1], s=["abc"])) == ["bc"]
    assert node.type == STRING
    assert function("SUM").infer_type([lt.DecimalType(10, 2)]) == lt.DecimalType(38, 2)


def test_decimals_beyond_64_bits_are_exact() -> None:
    wide = lt.DecimalType(30, 10)
    rows = pa.record_batch({"d": pa.array([Decimal("12345678901234567890.0123456789")], pa.decimal128(30, 10))})
    assert values(call("+", InputRef(wide, 0), number(1)), rows) == [Decimal("12345678901234567891.0123456789")]


def test_integers_wrap_around() -> None:
    assert values(call("+", A, number(1)), batch([2**31 - 1])) == [-(2**31)]
    assert values(call("/", A, B), batch([-(2**31)], [-1])) == [-(2**31)]


def test_text_that_is_no_number_fails_in_cast_and_is_null_in_try_cast() -> None:
    rows = batch([1, 2], s=["5", "x"])
    assert values(cast(S, INT, is_try=True), rows) == [5, None]
    with pytest.raises(TableRuntimeError, match=r"For input string: 'x'\. Invalid character found"):
        values(cast(S, INT), rows)


def test_batch_of_repeated_texts_gives_what_single_rows_give() -> None:
    texts = [f"https://host/{index % 7}/x?channel_id={index % 5}" for index in range(3000)]
    texts[17] = None  # type: ignore[call-overload]
    nodes = [
        call("SPLIT_INDEX", S, text("/"), number(3)),
        call("REGEXP_EXTRACT", S, text("(&|\\?)channel_id=([^&]*)"), number(2)),
        call("SPLIT_INDEX", S, text("?"), number(1)),
    ]
    rows = batch(list(range(3000)), s=texts)
    compiled = compile_expressions(nodes)
    whole = [array.to_pylist() for array in compiled.evaluate(rows)]
    parts = [compiled.evaluate(rows.slice(start, 7)) for start in range(0, 3000, 7)]
    assert whole == [[value for part in parts for value in part[place].to_pylist()] for place in range(3)]
    assert whole[0][:2] == ["0", "1"]
    assert whole[1][17] is None
