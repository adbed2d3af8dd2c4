"""Recognises joins whose condition bounds the distance of the two time attributes.

Source: org.apache.flink.table.planner.plan.utils.IntervalJoinUtil.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.common.errors import TableProgramError
from flinkpy.graph.table_specs import JoinType
from flinkpy.sql.rex import InputRef, Literal, RexCall, RexNode
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.logical_types import is_proctime, is_rowtime, is_time_attribute
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.logical import nodes as rel

#: A time attribute and the milliseconds added to it.
_Term = tuple[int, int]


@dataclass(frozen=True, slots=True)
class IntervalBounds:
    """The bounds of an interval join.

    Attributes:
        lower_ms, upper_ms: the bounds of left time minus right time, both inclusive.
        left_time, right_time: the time column of each input.
        rest: the conditions that say something else.
    """

    lower_ms: int
    upper_ms: int
    left_time: int
    right_time: int
    rest: list[RexNode]


def interval_bounds(node: rel.Join) -> IntervalBounds | None:
    """Returns the bounds of an interval join, or None if the join is none.

    Raises:
        TableProgramError: the join is by processing time and has event times in its inputs.
    """
    if node.join_type in (JoinType.SEMI, JoinType.ANTI):
        return None
    types = [each.type for each in node.left.row_type.fields] + [each.type for each in node.right.row_type.fields]
    lower: int | None = None
    upper: int | None = None
    times: tuple[int, int] | None = None
    rest: list[RexNode] = []
    for condition in operators.conjuncts(node.condition):
        found = _bound(condition, types, node.left.width)
        if found is None or (times is not None and found[0] != times):
            rest.append(condition)
            continue
        times, operator, distance = found
        if operator in (">", ">=", "="):
            value = distance + 1 if operator == ">" else distance
            lower = value if lower is None else max(lower, value)
        if operator in ("<", "<=", "="):
            value = distance - 1 if operator == "<" else distance
            upper = value if upper is None else min(upper, value)
    if lower is None or upper is None or times is None:
        return None
    if is_proctime(types[times[0]]) and any(map(is_rowtime, types)):
        raise TableProgramError(
            "Interval join with proctime attribute requires no event-time attributes are in the join inputs."
        )
    return IntervalBounds(lower, upper, times[0], times[1], rest)


def _bound(condition: RexNode, types: list[lt.LogicalType], width: int) -> tuple[tuple[int, int], str, int] | None:
    """Returns (left and right time column, operator, ms) for `left time - right time operator ms`."""
    if not isinstance(condition, RexCall) or condition.function not in ("<", "<=", ">", ">=", "="):
        return None
    a, b = _term(condition.arguments[0], types), _term(condition.arguments[1], types)
    if a is None or b is None:
        return None
    operator = condition.function
    if a[0] >= width > b[0]:
        a, b, operator = b, a, operators.MIRRORED[operator]
    if not a[0] < width <= b[0]:
        return None
    left, right = types[a[0]], types[b[0]]
    if not (is_rowtime(left) and is_rowtime(right)) and not (is_proctime(left) and is_proctime(right)):
        return None
    return (a[0], b[0] - width), operator, b[1] - a[1]


def _term(node: RexNode, types: list[lt.LogicalType]) -> _Term | None:
    """Returns the time attribute and the distance of `time`, `time + interval` or `time - interval`."""
    if isinstance(node, InputRef):
        return (node.index, 0) if is_time_attribute(types[node.index]) else None
    if isinstance(node, RexCall) and node.function in ("+", "-"):
        operand, distance = node.arguments
        if node.function == "+" and isinstance(operand, Literal):
            operand, distance = distance, operand
        inner = _term(operand, types)
        if inner is None or not isinstance(distance, Literal):
            return None
        if not isinstance(distance.type, lt.DayTimeIntervalType):
            return None
        return inner[0], inner[1] + (distance.value if node.function == "+" else -distance.value)
    return None
