"""Replaces GROUPING SETS, CUBE and ROLLUP: each row is emitted once per set, with a number that tells the sets apart.

Source: org.apache.flink.table.planner.plan.rules.logical.DecomposeGroupingSetsRule.
"""

from __future__ import annotations

from flinkpy.sql.rex import InputRef, Literal, RexNode
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.rules.pruning import call_columns, call_over

_BIGINT = lt.BigIntType(nullable=False)


def expand_grouping_sets(plan: rel.RelNode) -> rel.RelNode:
    """Returns the plan whose aggregations have one set of grouping columns each."""

    def change(node: rel.RelNode) -> rel.RelNode:
        if isinstance(node, rel.Aggregate) and node.grouping_sets is not None:
            return _expanded(node, node.grouping_sets)
        return node

    return rel.transform(plan, change)


def _expanded(node: rel.Aggregate, sets: tuple[tuple[int, ...], ...]) -> rel.RelNode:
    below, grouping = node.input, node.grouping
    calls = tuple(call for call in node.aggregates if call.function not in _GROUPING)
    # A grouping column that is aggregated, too, keeps its values in a second column.
    copied = sorted(call_columns(calls) & set(grouping))
    references = below.references()
    projections = tuple(
        (
            *(
                Literal(each.type.as_nullable(), None) if place in grouping and place not in keys else each
                for place, each in enumerate(references)
            ),
            *(references[place] for place in copied),
            Literal(_BIGINT, set_number(grouping, keys)),
        )
        for keys in sets
    )
    always = set(grouping).intersection(*sets) if sets else set()
    types = [
        each.type.as_nullable() if place in grouping and place not in always else each.type
        for place, each in enumerate(references)
    ]
    types += [references[place].type for place in copied]
    names = (*below.names, *(f"{below.names[place]}_0" for place in copied), "$e")
    expand = rel.Expand(below, projections, rel.row_of(names, (*types, _BIGINT)))
    places = {place: place for place in range(below.width)}
    places.update({place: below.width + number for number, place in enumerate(copied)})
    moved_calls = tuple(call_over(each, places) for each in calls)
    aggregate = rel.Aggregate(expand, (*grouping, expand.width - 1), moved_calls, None, node.state_ttl_ms)
    return _with_grouping_calls(node, aggregate, sets)


_GROUPING = ("GROUPING", "GROUPING_ID", "GROUP_ID")


def set_number(columns: tuple[int, ...], keys: tuple[int, ...]) -> int:
    """Returns a number with one bit per column, the first column's the highest, set for columns outside of the set."""
    number = 0
    for column in columns:
        number = number * 2 + (column not in keys)
    return number


def _with_grouping_calls(
    node: rel.Aggregate, aggregate: rel.Aggregate, sets: tuple[tuple[int, ...], ...]
) -> rel.RelNode:
    """Returns the columns of the original aggregation, with GROUPING computed from the number of the set."""
    references = aggregate.references()
    count = len(node.grouping)
    number = references[count]
    columns: list[RexNode] = list(references[:count])
    place = count + 1
    for call in node.aggregates:
        if call.function not in _GROUPING:
            columns.append(references[place])
            place += 1
            continue
        arguments = tuple(node.grouping[each] for each in call.arguments)
        values = [(set_number(node.grouping, keys), set_number(arguments, keys)) for keys in sets]
        branches: list[tuple[RexNode, RexNode]] = [
            (operators.comparison("=", number, Literal(_BIGINT, bits)), Literal(_BIGINT, value))
            for bits, value in values[:-1]
        ]
        last = Literal(_BIGINT, values[-1][1])
        columns.append(operators.case(branches, last) if branches else last)
    return rel.Project(aggregate, tuple(columns), node.names)


def column_of(node: rel.Expand, place: int) -> int | None:
    """Returns the input column that an Expand passes on in each projection; None for others."""
    found = {each[place] for each in node.projections}
    only = next(iter(found))
    return only.index if len(found) == 1 and isinstance(only, InputRef) else None
