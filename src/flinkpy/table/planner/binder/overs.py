"""Turns OVER in SELECT into OverAggregate nodes below it."""

from __future__ import annotations

from dataclasses import replace

from flinkpy.graph.table_specs import SortField
from flinkpy.sql.rex import AggregateCall, InputRef, RexNode, rewrite, walk
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.logical.rex_nodes import OverCall

#: Partition, order, ROWS or RANGE, and the bounds of a window.
_Key = tuple[tuple[int, ...], tuple[SortField, ...], bool, int | None, int | None]


def expand_over_calls(project: rel.Project) -> rel.RelNode:
    """Returns the projection with its OVER calls computed by an OverAggregate; the projection itself if it has none.

    The OverAggregate reads the input's columns, then one column per argument or key that is no column.
    """
    calls = list(
        dict.fromkeys(
            each for expression in project.expressions for each in walk(expression) if isinstance(each, OverCall)
        )
    )
    if not calls:
        return project
    source = project.input
    columns: list[RexNode] = list(source.references())
    names = list(source.names)

    def column(expression: RexNode) -> int:
        if expression not in columns:
            names.append(f"$w{len(columns)}")
            columns.append(expression)
        return columns.index(expression)

    aliases = {each: name for name, each in zip(project.field_names, project.expressions, strict=True)}
    groups: dict[_Key, list[tuple[OverCall, AggregateCall]]] = {}
    for call in calls:
        partition = tuple(column(each) for each in call.partition)
        order = tuple(replace(each, column=column(key)) for each, key in zip(call.order, call.order_keys, strict=True))
        arguments = tuple(column(each) for each in call.arguments)
        aggregate = AggregateCall(
            call.function,
            arguments,
            call.type,
            f"w{len(groups)}$o0",
            call.is_distinct,
            user_function=call.user_function,
        )
        key = (partition, order, call.is_rows, call.lower, call.upper)
        groups.setdefault(key, []).append((call, aggregate))
    below = source if len(columns) == source.width else rel.Project(source, tuple(columns), tuple(names))
    over_groups: list[rel.OverGroup] = []
    places: dict[OverCall, int] = {}
    for number, (key, members) in enumerate(groups.items()):
        aggregates = []
        for offset, (call, aggregate) in enumerate(members):
            places[call] = len(columns) + sum(len(each.aggregates) for each in over_groups) + offset
            aggregates.append(replace(aggregate, name=aliases.get(call, f"w{number}$o{offset}")))
        over_groups.append(rel.OverGroup(*key, tuple(aggregates)))
    over = rel.OverAggregate(below, tuple(over_groups))

    def change(node: RexNode) -> RexNode | None:
        return InputRef(node.type, places[node]) if isinstance(node, OverCall) else None

    return rel.Project(over, tuple(rewrite(each, change) for each in project.expressions), project.field_names)
