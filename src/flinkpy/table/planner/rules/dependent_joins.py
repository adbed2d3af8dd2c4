"""Evaluates a correlated query for each distinct combination of the outer columns that it refers to.

The combinations are joined into the query from below, at the operators that need them, and every operator above keeps
them as further columns: filters compare them, aggregations group by them, limits count per combination. So any query
can be joined with the rows around it, by equality of these columns.

Source: org.apache.calcite.sql2rel.RelDecorrelator ("value generators"); T. Neumann and A. Kemper, "Unnesting Arbitrary
Queries".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.table_specs import JoinType, SortField
from flinkpy.sql.rex import InputRef, Literal, RexCall, RexNode, rewrite
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.logical.rex_nodes import OuterRef
from flinkpy.table.planner.rules.expressions import outer_columns


def join_with_values(
    plan: rel.RelNode,
    correlation: int,
    values: rel.RelNode,
    columns: tuple[int, ...],
    *,
    leaves_out_empty: bool = False,
) -> rel.RelNode:
    """Returns the rows of a correlated query for each row of `values`: columns of the query, then those of `values`.

    Args:
        values: distinct combinations of outer columns.
        columns: the outer columns that it has.
        leaves_out_empty: True if a query that is a global aggregation needs no row for values that it finds nothing
            for.

    Raises:
        UnsupportedOperationError: an operator that refers to outer columns cannot keep their values apart.
    """
    dependent = _DependentJoin(correlation, values, columns)
    if leaves_out_empty and isinstance(plan, rel.Aggregate):
        return dependent.aggregate(plan)
    return dependent.join(plan)


def same_values(left: Sequence[RexNode], right: Sequence[RexNode]) -> RexNode:
    """Returns the condition that columns are equal in pairs, NULL to NULL."""
    pairs = zip(left, right, strict=True)
    return operators.and_([RexCall(lt.BooleanType(nullable=False), "IS NOT DISTINCT FROM", pair) for pair in pairs])


def count_or_zero(value: RexNode) -> RexNode:
    """Returns a COUNT that an outer join has made NULL where its group has no rows."""
    zero = operators.cast(Literal(lt.IntType(nullable=False), 0), value.type.not_null())
    return RexCall(value.type.not_null(), "COALESCE", (value, zero))


class _DependentJoin:
    def __init__(self, correlation: int, values: rel.RelNode, columns: tuple[int, ...]) -> None:
        self._correlation = correlation
        self._values = values
        self._columns = columns

    def join(self, plan: rel.RelNode) -> rel.RelNode:
        if not self._is_outer(plan):
            return rel.Join(plan, self._values, JoinType.INNER, operators.TRUE)
        match plan:
            case rel.Filter():
                below = self.join(plan.input)
                return rel.Filter(below, self._resolved(plan.condition, plan.width))
            case rel.Project():
                below = self.join(plan.input)
                own = tuple(self._resolved(each, plan.input.width) for each in plan.expressions)
                names = rel.unique_names((*plan.names, *self._values.names))
                return rel.Project(below, (*own, *below.references()[plan.input.width :]), names)
            case rel.Aggregate():
                return self._aggregate(plan)
            case rel.Join() if not isinstance(plan.right, rel.Snapshot):
                return self._join(plan)
            case rel.Sort():
                return self._sort(plan)
            case rel.SetOperation():
                return replace(plan, parts=tuple(self.join(each) for each in plan.parts))
            case rel.OverAggregate():
                return self._over(plan)
            case rel.Correlate():
                return self._correlate(plan)
        raise UnsupportedOperationError(
            f"a correlated subquery refers to a column of the query around it in or below {type(plan).__name__}, where "
            "no join can replace it; write the query with a join"
        )

    def _is_outer(self, plan: rel.RelNode) -> bool:
        return bool(outer_columns(plan, self._correlation))

    @property
    def _count(self) -> int:
        return len(self._columns)

    def _resolved(self, node: RexNode, first: int) -> RexNode:
        """Returns the expression with outer columns replaced by the values, which begin at the column `first`."""

        def change(each: RexNode) -> RexNode | None:
            if isinstance(each, OuterRef) and each.correlation == self._correlation:
                return InputRef(each.type, first + self._columns.index(each.index))
            return None

        return rewrite(node, change)

    @staticmethod
    def _ordered(node: rel.RelNode, columns: Sequence[int]) -> rel.RelNode:
        references = node.references()
        names = tuple(node.names[each] for each in columns)
        return rel.Project(node, tuple(references[each] for each in columns), names)

    def aggregate(self, plan: rel.Aggregate) -> rel.RelNode:
        """Returns the aggregation with groups per combination."""
        below = self.join(plan.input)
        keys = tuple(range(plan.input.width, below.width))
        sets = None if plan.grouping_sets is None else tuple((*each, *keys) for each in plan.grouping_sets)
        aggregate = rel.Aggregate(below, (*plan.grouping, *keys), plan.aggregates, sets)
        count = len(plan.grouping)
        first = count + len(keys)
        return self._ordered(aggregate, (*range(count), *range(first, aggregate.width), *range(count, first)))

    def _aggregate(self, plan: rel.Aggregate) -> rel.RelNode:
        aggregate = self.aggregate(plan)
        if plan.grouping:
            return aggregate
        # A global aggregation has a row for each combination, also if it aggregates none.
        wanted = self._values.references()
        first = self._count + plan.width
        found = [InputRef(each.type, first + place) for place, each in enumerate(wanted)]
        joined = rel.Join(self._values, aggregate, JoinType.LEFT, same_values(wanted, found))
        references = joined.references()
        results = [
            count_or_zero(each) if call.function == "COUNT" else each
            for call, each in zip(plan.aggregates, references[self._count : first], strict=True)
        ]
        names = rel.unique_names((*plan.names, *self._values.names))
        return rel.Project(joined, (*results, *references[: self._count]), names)

    def _join(self, plan: rel.Join) -> rel.RelNode:
        """Joins the values to the sides that need them; to both, if rows of either may be missing in the result."""
        kind = plan.join_type
        with_right = self._is_outer(plan.right) or kind in (JoinType.RIGHT, JoinType.FULL)
        with_left = self._is_outer(plan.left) or kind not in (JoinType.INNER, JoinType.RIGHT) or not with_right
        left = self.join(plan.left) if with_left else plan.left
        right = self.join(plan.right) if with_right else plan.right
        old = plan.left.width
        first_left, first_right = old, left.width + plan.right.width

        def moved(each: RexNode) -> RexNode | None:
            if isinstance(each, InputRef) and each.index >= old:
                return InputRef(each.type, each.index + left.width - old)
            return None

        condition = rewrite(plan.condition, moved)
        parts = operators.conjuncts(self._resolved(condition, first_left if with_left else first_right))
        if with_left and with_right:
            fields = self._values.references()
            pairs = [
                [InputRef(each.type, first + at) for at, each in enumerate(fields)] for first in (old, first_right)
            ]
            parts.append(same_values(*pairs))
        joined = rel.Join(left, right, kind, operators.and_(parts), plan.hints)
        if kind in (JoinType.SEMI, JoinType.ANTI):
            return joined
        references = joined.references()
        own = (*references[:old], *references[left.width : left.width + plan.right.width])
        values = references[first_left : left.width] if with_left else references[first_right:]
        if kind is JoinType.RIGHT:
            values = references[first_right:]
        if kind is JoinType.FULL:
            both = zip(values, references[first_right:], strict=True)
            values = tuple(RexCall(a.type, "COALESCE", (a, b)) for a, b in both)
        names = rel.unique_names((*plan.names, *self._values.names))
        return rel.Project(joined, (*own, *values), names)

    def _sort(self, plan: rel.Sort) -> rel.RelNode:
        below = self.join(plan.input)
        if plan.limit is None and not plan.offset:
            return below
        if plan.limit is None:
            raise UnsupportedOperationError("OFFSET without a limit in a correlated subquery is not supported")
        keys = tuple(range(plan.width, below.width))
        order = plan.order or (SortField(keys[0]),)
        first, last = plan.offset + 1, plan.offset + plan.limit
        return rel.Rank(below, "ROW_NUMBER", keys, order, first, last, None, lt.BigIntType(nullable=False))

    def _over(self, plan: rel.OverAggregate) -> rel.RelNode:
        width = plan.input.width
        below = self.join(plan.input)
        keys = tuple(range(width, below.width))
        groups = tuple(replace(each, partition=(*each.partition, *keys)) for each in plan.groups)
        over = rel.OverAggregate(below, groups)
        return self._ordered(over, (*range(width), *range(below.width, over.width), *keys))

    def _correlate(self, plan: rel.Correlate) -> rel.RelNode:
        width = plan.input.width
        below = self.join(plan.input)
        shift = below.width - width

        def moved(each: RexNode) -> RexNode | None:
            return (
                InputRef(each.type, each.index + shift) if isinstance(each, InputRef) and each.index >= width else None
            )

        condition = None if plan.condition is None else self._resolved(rewrite(plan.condition, moved), width)
        changed = replace(plan, input=below, call=self._resolved(plan.call, width), condition=condition)
        return self._ordered(changed, (*range(width), *range(below.width, changed.width), *range(width, below.width)))
