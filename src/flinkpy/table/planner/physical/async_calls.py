"""Splits a Calc that calls asynchronous functions: they are called by an operator of their own.

Source: org.apache.flink.table.planner.plan.rules.logical.AsyncCalcSplitRule.
"""

from __future__ import annotations

from dataclasses import replace

from flinkpy.sql.rex import ASYNC, InputRef, RexNode, UserFunctionCall, input_columns, moved, rewrite, walk
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.physical import nodes as ph

Split = tuple[ph.AsyncCalc, tuple[RexNode, ...], RexNode | None]


def split_async_calls(
    below: ph.PhysicalNode, expressions: tuple[RexNode, ...], condition: RexNode | None
) -> Split | None:
    """Returns the operator of the asynchronous calls, and the expressions and the condition over its columns.

    The parts of the condition without asynchronous calls are computed before it. A call whose argument is another
    asynchronous call stays, and is split the next time. None if there are no asynchronous calls.
    """
    parts = operators.conjuncts(condition)
    calls: list[UserFunctionCall] = []
    for each in (*expressions, *parts):
        calls += [call for call in _innermost(each) if call not in calls or not call.is_deterministic]
    if not calls:
        return None
    before = [each for each in parts if not _is_async(each)]
    after = [each for each in parts if _is_async(each)]
    width = len(below.names)

    def change(each: RexNode) -> RexNode | None:
        if isinstance(each, UserFunctionCall) and each in calls:
            return InputRef(each.type, width + calls.index(each))
        return None

    expressions = tuple(rewrite(each, change) for each in expressions)
    after = [rewrite(each, change) for each in after]
    kept = [column for column in input_columns([*expressions, *after]) if column < width]
    first, arguments = _with_arguments(below, kept, calls, before)
    results = tuple(each.type for each in arguments)
    names = (*first.names, *(f"async${place}" for place in range(len(calls))))
    row_type = rel.row_of(names, (*(each.type for each in first.row_type.fields), *results))
    places = {column: place for place, column in enumerate(kept)}
    places.update({width + place: len(first.names) + place for place in range(len(calls))})
    node = ph.AsyncCalc([first], row_type, arguments)
    rest = operators.and_([moved(each, places) for each in after]) if after else None
    return node, tuple(moved(each, places) for each in expressions), rest


def _with_arguments(
    below: ph.PhysicalNode, kept: list[int], calls: list[UserFunctionCall], conditions: list[RexNode]
) -> tuple[ph.PhysicalNode, tuple[UserFunctionCall, ...]]:
    """Returns a Calc with the kept columns and the arguments of the calls, and the calls over its columns."""
    columns: list[RexNode] = [InputRef(below.row_type.fields[place].type, place) for place in kept]
    names = [below.names[place] for place in kept]
    over: list[UserFunctionCall] = []
    for call in calls:
        places = []
        for argument in call.arguments:
            if argument not in columns:
                columns.append(argument)
                names.append(f"arg${len(columns)}")
            places.append(InputRef(argument.type, columns.index(argument)))
        over.append(replace(call, arguments=tuple(places)))
    row_type = rel.row_of(tuple(names), tuple(each.type for each in columns))
    condition = operators.and_(conditions) if conditions else None
    return ph.Calc([below], row_type, tuple(columns), condition), tuple(over)


def _is_async(node: RexNode) -> bool:
    return any(isinstance(each, UserFunctionCall) and each.kind == ASYNC for each in walk(node))


def _innermost(node: RexNode) -> list[UserFunctionCall]:
    """Returns the asynchronous calls without asynchronous calls in their arguments."""
    return [
        each
        for each in walk(node)
        if isinstance(each, UserFunctionCall)
        and each.kind == ASYNC
        and not any(_is_async(argument) for argument in each.arguments)
    ]
