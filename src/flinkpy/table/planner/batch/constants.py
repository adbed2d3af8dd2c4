"""Computes expressions without columns when the plan is made, so that sources can use them to skip rows.

Source: org.apache.flink.table.planner.codegen.ExpressionReducer.
"""

from __future__ import annotations

from flinkpy.common.errors import FlinkError
from flinkpy.sql.functions.evaluation import compile_expressions
from flinkpy.sql.functions.registry import find_function
from flinkpy.sql.rex import Literal, RexCall, RexNode, rewrite, walk
from flinkpy.sql.session_settings import SessionSettings
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.batch.duckdb_dialect import DUCKDB
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.logical.traversal import with_expressions

#: Functions whose results may be as long as a number says. They are not computed when the plan is made.
_LENGTHENING = frozenset({"REPEAT", "LPAD", "RPAD"})
#: The longest text or bytes that a plan holds as a constant.
_LONGEST_CONSTANT = 4096


def fold_constants(plan: rel.RelNode, settings: SessionSettings) -> rel.RelNode:
    """Returns the plan with literals for expressions that need no row. Those that fail stay, and fail at run time."""

    def change(node: RexNode) -> RexNode | None:
        return _folded(node, settings) if isinstance(node, RexCall) else None

    return rel.transform(plan, lambda node: with_expressions(node, lambda each: rewrite(each, change)))


def _folded(node: RexCall, settings: SessionSettings) -> Literal | None:
    import pyarrow as pa

    if isinstance(node.type, (lt.TimestampType, lt.LocalZonedTimestampType)) and node.type.precision > 6:
        # Python's datetime cannot hold the value.
        return None
    for each in walk(node):
        if isinstance(each, Literal):
            continue
        if isinstance(each.type, (lt.CharType, lt.BinaryType)) and each.type.length > _LONGEST_CONSTANT:
            return None
        definition = find_function(each.function) if isinstance(each, RexCall) else None
        if definition is None or definition.kernel is None or definition.name in _LENGTHENING:
            return None
        if not definition.is_deterministic or definition.is_dynamic:
            return None
    one_row = pa.RecordBatch.from_pydict({"row": [0]})
    try:
        value = compile_expressions([node], settings).evaluate(one_row)[0][0].as_py()
    except (FlinkError, ArithmeticError, ValueError):
        # Such as a date after the year 9999, which Python cannot hold.
        return None
    if isinstance(value, (str, bytes)) and len(value) > _LONGEST_CONSTANT:
        return None
    literal = Literal(node.type if value is not None else node.type.as_nullable(), value)
    return literal if DUCKDB.literal(literal) is not None else None
