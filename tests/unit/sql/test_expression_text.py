"""Errors of expressions name the expression with its columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from flinkpy.common.errors import TableRuntimeError
from flinkpy.sql.expression_text import expression_text
from flinkpy.sql.functions import compile_expressions
from flinkpy.sql.functions.registry import call
from flinkpy.sql.rex import InputRef, Literal, RexCall, RexNode
from flinkpy.sql.types import logical_types as lt

PRICE, TEXT = InputRef(lt.IntType(), 0), InputRef(lt.VarCharType(), 1)
BATCH = pa.RecordBatch.from_pydict({"price": pa.array([1, 2], pa.int32()), "text": ["1", "x"]})


def test_operators_functions_and_casts_are_written_as_in_sql() -> None:
    number = RexCall(lt.IntType(), "CAST", (TEXT,))
    assert expression_text(call("+", PRICE, number), ["price", "text"]) == "(price + CAST(text AS INT))"
    assert expression_text(call("UPPER", TEXT), ["price"]) == "UPPER($1)"
    long = call("CONCAT", *([TEXT] * 100))
    assert len(expression_text(long, ["price", "text"])) == 203


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (call("/", PRICE, Literal(lt.IntType(nullable=False), 0)), r"Division by zero in the expression \(price / 0\)"),
        (RexCall(lt.IntType(), "CAST", (TEXT,)), r"in the expression CAST\(text AS INT\)"),
    ],
)
def test_a_value_without_result_names_its_expression(node: RexNode, message: str) -> None:
    with pytest.raises(TableRuntimeError, match=message) as caught:
        compile_expressions([call("ABS", node)]).evaluate(BATCH)
    assert "ABS" not in caught.value.details["expression"]
