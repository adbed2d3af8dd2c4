"""Unique keys and upsert keys of physical nodes.

A unique key identifies a row of the result. An upsert key also identifies it at each moment of the changelog: all
changes of one key value come in order, because no exchange spreads them.

Source: org.apache.flink.table.planner.plan.metadata.{FlinkRelMdUniqueKeys, FlinkRelMdUpsertKeys}.
"""

from __future__ import annotations

from itertools import product

from flinkpy.graph.table_specs import JoinType
from flinkpy.sql.rex import InputRef, RexCall, RexNode
from flinkpy.table.planner.binder.operators import same_type
from flinkpy.table.planner.physical import nodes as ph

Keys = frozenset[frozenset[int]]
_NONE: Keys = frozenset()


def unique_keys(node: ph.PhysicalNode) -> Keys:
    """Returns the sets of columns that are unique in the result."""
    return _keys(node, upsert=False)


def upsert_keys(node: ph.PhysicalNode) -> Keys:
    """Returns the sets of columns that identify the row that a change belongs to."""
    return _keys(node, upsert=True)


def smallest(keys: Keys) -> tuple[int, ...] | None:
    """Returns the key with the fewest columns, and of those the one with the first columns; None if there is none."""
    ordered = sorted((len(each), tuple(sorted(each))) for each in keys)
    return ordered[0][1] if ordered else None


def _keys(node: ph.PhysicalNode, *, upsert: bool) -> Keys:
    match node:
        case ph.TableSourceScan():
            return _table_keys(node)
        case ph.ChangelogNormalize():
            return frozenset({frozenset(node.unique_key)})
        case ph.Calc():
            return _mapped(_keys(node.input, upsert=upsert), node.projection)
        case ph.Exchange():
            keys = _keys(node.input, upsert=upsert)
            if upsert and node.keys:
                return frozenset(each for each in keys if each >= set(node.keys))
            return keys
        case ph.GroupAggregate() | ph.GlobalGroupAggregate():
            return frozenset({frozenset(range(len(node.grouping)))})
        case ph.WindowAggregate() | ph.GlobalWindowAggregate() | ph.GroupWindowAggregate():
            first = len(node.grouping) + len(node.aggregates)
            return frozenset({frozenset((*range(len(node.grouping)), first, first + 1))})
        case ph.Rank():
            return _rank_keys(node, upsert=upsert)
        case ph.WindowDeduplicate():
            return frozenset({frozenset((*node.key, *node.bounds))})
        case ph.Join():
            return _join_keys(node, upsert=upsert)
        case ph.TemporalJoin() | ph.OverAggregate():
            return _keys(node.inputs[0], upsert=upsert)
        case ph.AsyncCalc() | ph.WatermarkAssigner() | ph.MiniBatchAssigner() | ph.DropUpdateBefore():
            return _keys(node.input, upsert=upsert)
        case ph.Sort() | ph.Limit():
            return _keys(node.input, upsert=upsert)
        case ph.SortLimit() | ph.WindowRank():
            return _keys(node.input, upsert=upsert)
    return _NONE


def _table_keys(node: ph.TableSourceScan) -> Keys:
    key = node.table.resolved_schema.primary_key
    if key is None or any(name not in node.names for name in key.columns):
        return _NONE
    return frozenset({frozenset(node.names.index(name) for name in key.columns)})


def _mapped(keys: Keys, projection: tuple[RexNode, ...]) -> Keys:
    places: dict[int, list[int]] = {}
    for place, expression in enumerate(projection):
        column = _column(expression)
        if column is not None:
            places.setdefault(column, []).append(place)
    found: set[frozenset[int]] = set()
    for key in keys:
        if all(column in places for column in key):
            found.update(frozenset(each) for each in product(*(places[column] for column in sorted(key))))
    return frozenset(found)


def _column(node: RexNode) -> int | None:
    """Returns the column whose values the expression keeps apart; None for other expressions."""
    if isinstance(node, InputRef):
        return node.index
    if isinstance(node, RexCall) and node.function == "CAST" and same_type(node.type, node.arguments[0].type):
        return _column(node.arguments[0])
    return None


def _rank_keys(node: ph.Rank, *, upsert: bool) -> Keys:
    keys = set(_keys(node.input, upsert=upsert))
    if node.function == "ROW_NUMBER":
        if node.end is not None and node.start == node.end:
            keys.add(frozenset(node.partition))
        if node.outputs_rank:
            keys.add(frozenset((*node.partition, len(node.row_type.fields) - 1)))
    return frozenset(keys)


def _join_keys(node: ph.Join, *, upsert: bool) -> Keys:
    left = _keys(node.inputs[0], upsert=upsert)
    if node.join_type in (JoinType.SEMI, JoinType.ANTI):
        return left
    width = len(node.inputs[0].row_type.fields)
    right = frozenset(frozenset(each + width for each in key) for key in _keys(node.inputs[1], upsert=upsert))
    found = {a | b for a in left for b in right}
    if node.right_key_is_unique and node.join_type in (JoinType.INNER, JoinType.LEFT):
        found |= left
    if node.left_key_is_unique and node.join_type in (JoinType.INNER, JoinType.RIGHT):
        found |= right
    return frozenset(found)
