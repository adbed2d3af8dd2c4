"""Recognises the first phase of a partial aggregation of distinct values whose rows need not be expanded.

Source: org.apache.flink.table.planner.plan.rules.logical.SplitAggregateRule makes the plans that it recognises.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from flinkpy.sql.rex import AggregateCall, InputRef, Literal, RexCall, RexNode
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.physical import nodes as ph


@dataclass(frozen=True, slots=True)
class SplitLocalAggregate:
    """A first phase over the rows before they are expanded.

    Attributes:
        below: the node with these rows.
        grouping: the keys of the output, in its columns.
        buckets: those of them that are buckets.
        bucket_of: for each argument of a distinct aggregate, the column of its bucket.
        aggregates: over its columns.
    """

    below: ph.PhysicalNode
    grouping: tuple[int, ...]
    buckets: tuple[int, ...]
    bucket_of: tuple[tuple[int, int], ...]
    aggregates: tuple[AggregateCall, ...]


def split_local_aggregate(node: ph.LocalGroupAggregate) -> SplitLocalAggregate | None:
    """Returns the phase without an Expand; None if its rows may be taken back, or if it is no such phase."""
    if node.partial_final != "PARTIAL" or node.needs_retraction:
        return None
    rows = _Rows.of(node.input)
    if not isinstance(rows.below, ph.Calc):
        return None
    keys = [rows.columns[each] for each in node.grouping]
    grouping = tuple(each.index for each in keys if isinstance(each, InputRef))
    calls = [call for call in map(rows.over, node.aggregates) if call is not None]
    if len(grouping) < len(keys) or len(calls) < len(node.aggregates):
        return None
    bucket_of: dict[int, int] = {}
    for call in calls:
        if not call.is_distinct or call.function in ("MIN", "MAX"):
            continue
        bucket = _bucket(rows.below, call, [each for each in grouping if rows.may_be_bucket(each)])
        if bucket is None:
            return None
        bucket_of[call.arguments[0]] = bucket
    buckets = tuple(each for each in grouping if each in rows.padded or each in bucket_of.values())
    return SplitLocalAggregate(rows.below, grouping, buckets, tuple(bucket_of.items()), tuple(calls))


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows before an Expand, or the input of a phase without one.

    Attributes:
        below: the node with these rows.
        columns: each column of the phase's input over them; None for one that differs between expanded rows.
        padded: the columns that are NULL in some of the expanded rows, which are the buckets; none without an Expand.
        is_expanded: True if there is an Expand.
    """

    below: ph.PhysicalNode
    columns: list[RexNode | None]
    padded: frozenset[int]
    is_expanded: bool

    @classmethod
    def of(cls, node: ph.PhysicalNode) -> _Rows:
        if isinstance(node, ph.Calc) and node.condition is None and isinstance(node.input, ph.Expand):
            expand = node.input
            number = len(expand.names) - 1
            padded = {
                at
                for projection in expand.projections
                for at, each in enumerate(projection)
                if isinstance(each, Literal) and each.value is None
            }
            columns = [_without_number(each, number) for each in node.projection]
            return cls(expand.input, columns, frozenset(padded), True)
        references: list[RexNode | None] = [InputRef(each.type, at) for at, each in enumerate(node.row_type.fields)]
        return cls(node, references, frozenset(), False)

    def may_be_bucket(self, column: int) -> bool:
        return column in self.padded or not self.is_expanded

    def over(self, call: AggregateCall) -> AggregateCall | None:
        """Returns an aggregate over these rows; None if it needs what differs between expanded rows."""
        arguments = [self.columns[each] for each in call.arguments]
        places = tuple(each.index for each in arguments if isinstance(each, InputRef))
        chosen = operators.TRUE if call.filter_index is None else self.columns[call.filter_index]
        if len(places) < len(arguments) or chosen is None:
            return None
        return replace(call, arguments=places, filter_index=chosen.index if isinstance(chosen, InputRef) else None)


def _without_number(node: RexNode, number: int) -> RexNode | None:
    """Returns a column or TRUE for a column, or for one of these and `$e = literal`; None for other expressions.

    Each aggregate takes the expanded rows of one number, so a filter by the number chooses each row once.
    """
    if isinstance(node, RexCall) and node.function == "IS TRUE":
        node = node.arguments[0]
    if isinstance(node, InputRef):
        return None if node.index == number else node
    parts = [each for each in operators.conjuncts(node) if not _is_number(each, number)]
    if not parts:
        return operators.TRUE
    return parts[0] if len(parts) == 1 and isinstance(parts[0], InputRef) else None


def _is_number(node: RexNode, number: int) -> bool:
    """True for `$e = literal`."""
    if not isinstance(node, RexCall) or node.function != "=":
        return False
    left, right = node.arguments
    return isinstance(left, InputRef) and left.index == number and isinstance(right, Literal)


def _bucket(below: ph.Calc, call: AggregateCall, keys: list[int]) -> int | None:
    """Returns the key that is the bucket of the only argument of a distinct aggregate; None if there is none.

    Buckets are behind the keys of the query, so the last such key is the bucket.
    """
    if len(call.arguments) != 1:
        return None
    value = below.projection[call.arguments[0]]
    for each in reversed(keys):
        made = below.projection[each]
        if isinstance(made, RexCall) and made.function == "MOD" and _is_hash(made.arguments[0], value):
            return each
    return None


def _is_hash(node: RexNode, value: RexNode) -> bool:
    return isinstance(node, RexCall) and node.function == "HASH_CODE" and node.arguments == (value,)
