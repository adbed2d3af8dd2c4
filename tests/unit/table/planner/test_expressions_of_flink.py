"""Expressions of SQL give the types and values that Flink gave, see `tools/record_flink_expressions.py`."""

from __future__ import annotations

import datetime as dt
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.common.errors import FlinkError
from flinkpy.sql.functions import compile_expressions, registry
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.parser import parse_expression
from flinkpy.sql.rex import RexNode
from flinkpy.sql.session_settings import SessionSettings
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.logical_types import TypeRoot as R
from flinkpy.table.planner.binder.expressions import ExpressionBinder
from flinkpy.table.planner.binder.functions import FunctionResolver
from flinkpy.table.planner.binder.scope import Scope

RECORDED = Path(__file__).parents[3] / "recorded"
ANSWERS = [json.loads(line) for line in (RECORDED / "flink_expressions.jsonl").read_text().splitlines()]
ONE_ROW = pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))
#: The expressions whose answers differ, each with the reason.
DIFFERENT = json.loads((RECORDED / "flink_expressions_that_differ.json").read_text())


class Functions(FunctionResolver):
    """Finds built-in functions only."""

    def __init__(self) -> None:
        super().__init__(None)

    def call(self, name: str, operands: tuple[RexNode, ...]) -> RexNode:
        return registry.function(name).call(*operands)

    def resolve(self, node: ast.FunctionCall, operands: tuple[RexNode, ...]) -> RexNode:
        return self.call(node.function, operands)

    def is_aggregate(self, name: ast.Identifier) -> bool:
        return False


class Queries:
    functions = Functions()


def bound(sql: str) -> RexNode:
    queries: Any = Queries()
    return ExpressionBinder(queries, Scope(())).bind(parse_expression(sql))


def shown(value: Any, kind: lt.LogicalType) -> Any:
    """Returns a value as the recorder writes it."""
    if value is None:
        return None
    if isinstance(kind, lt.ArrayType):
        return [shown(each, kind.element) for each in value]
    if isinstance(kind, lt.MapType):
        return sorted(([shown(key, kind.key), shown(each, kind.value)] for key, each in value), key=json.dumps)
    if isinstance(kind, lt.RowType):
        return [shown(each, child) for each, child in zip(value.values(), kind.children)]
    show = _SHOWN.get(kind.root)
    return value if show is None else show(value)


def _floating(value: float, is_double: bool = True) -> Any:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if is_double else float(str(np.float32(value)))


def _stamp(value: Any) -> str:
    return f"{value.strftime('%Y-%m-%d %H:%M:%S.%f')}{getattr(value, 'nanosecond', 0):03d}"


_SHOWN: dict[R, Any] = {
    R.DECIMAL: lambda value: format(value, "f"),
    R.DOUBLE: _floating,
    R.FLOAT: lambda value: _floating(value, False),
    R.BINARY: lambda value: f"0x{value.hex()}",
    R.VARBINARY: lambda value: f"0x{value.hex()}",
    R.VARIANT: bytes.decode,
    R.DATE: str,
    R.TIME_WITHOUT_TIME_ZONE: lambda value: f"{value.strftime('%H:%M:%S.%f')}000",
    R.TIMESTAMP_WITHOUT_TIME_ZONE: _stamp,
    R.TIMESTAMP_WITH_LOCAL_TIME_ZONE: lambda value: f"{_stamp(value)}Z",
    R.INTERVAL_DAY_TIME: lambda value: value // dt.timedelta(milliseconds=1),
}


def evaluated(node: RexNode, zone: str) -> Any:
    return compile_expressions([node], SessionSettings(time_zone=zone)).evaluate(ONE_ROW)[0][0].as_py()


@pytest.mark.parametrize(
    "answer", [each for each in ANSWERS if each["sql"] not in DIFFERENT], ids=lambda answer: answer["sql"][:60]
)
def test_expression_gives_the_answer_of_flink(answer: dict[str, Any]) -> None:
    zone = answer.get("zone", "UTC")
    if "invalid" in answer or ("error" in answer and "Enforcer" not in answer["error"]):
        with pytest.raises(FlinkError):
            evaluated(bound(answer["sql"]), zone)
        return
    node = bound(answer["sql"])
    value = shown(evaluated(node, zone), node.type)
    wanted = answer.get("value")  # the enforcer complained of null
    if isinstance(value, float) and isinstance(wanted, float):
        assert value == pytest.approx(wanted, rel=1e-15)
    else:
        assert value == wanted
    assert str(node.type) == answer["type"]
