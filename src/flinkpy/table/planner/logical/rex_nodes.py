"""Expressions that exist in logical plans only. Rules replace them before operators evaluate expressions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkpy.graph.table_specs import SortField
from flinkpy.sql.rex import RexNode

if TYPE_CHECKING:
    from flinkpy.table.planner.logical.nodes import RelNode


@dataclass(frozen=True, slots=True)
class OuterRef(RexNode):
    """A column of the query around a correlated subquery, or of the other input of a lateral or temporal join.

    Attributes:
        correlation: which query it is; see LateralJoin and SubQuery.
    """

    correlation: int
    index: int

    def __str__(self) -> str:
        return f"$cor{self.correlation}.{self.index}"


@dataclass(frozen=True, slots=True)
class SubQuery(RexNode):
    """A query as a value.

    Attributes:
        kind: SCALAR, EXISTS, IN, or the comparison of a quantified one, such as `> SOME`.
        plan: the query.
        left: the values on the left of IN or a quantified comparison.
        correlation: the id of the OuterRefs in the plan that mean this query's columns.
        negated: True for NOT IN and NOT EXISTS.
    """

    kind: str
    plan: RelNode
    left: tuple[RexNode, ...]
    correlation: int
    negated: bool = False

    @property
    def operands(self) -> tuple[RexNode, ...]:
        return self.left

    def with_operands(self, operands: tuple[RexNode, ...]) -> RexNode:
        return replace(self, left=operands)


@dataclass(frozen=True, slots=True)
class OverCall(RexNode):
    """An aggregate or rank function with OVER.

    Attributes:
        order: (expression, sort direction) pairs; the column of the SortField is unused.
        lower, upper: as in `OverWindow`.
    """

    function: str
    arguments: tuple[RexNode, ...]
    partition: tuple[RexNode, ...]
    order_keys: tuple[RexNode, ...]
    order: tuple[SortField, ...]
    is_rows: bool
    lower: int | None
    upper: int | None
    is_distinct: bool = False
    user_function: Any = None

    @property
    def operands(self) -> tuple[RexNode, ...]:
        return (*self.arguments, *self.partition, *self.order_keys)

    def with_operands(self, operands: tuple[RexNode, ...]) -> RexNode:
        a, p = len(self.arguments), len(self.partition)
        return replace(self, arguments=operands[:a], partition=operands[a : a + p], order_keys=operands[a + p :])
