"""Dialect: what the language of an engine has for bound expressions, with exactly the results of flinkpy's kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flinkpy.graph.table_specs import JoinType
from flinkpy.sql.rex import Literal, RexCall
from flinkpy.sql.types import logical_types as lt

if TYPE_CHECKING:
    from flinkpy.table.planner.batch.engine_expressions import Operand
    from flinkpy.table.planner.logical import nodes as rel

#: The bits of the integers.
INTEGER_BITS = {
    lt.TypeRoot.TINYINT: 8,
    lt.TypeRoot.SMALLINT: 16,
    lt.TypeRoot.INTEGER: 32,
    lt.TypeRoot.BIGINT: 64,
}


#: Returns the text of a value that has the engine's type of this name; None if the engine has none.
LiteralWriter = Callable[[Any, str], "str | None"]
#: Returns the text of a call; None if a kernel has to compute it.
Own = Callable[["Dialect", RexCall, Sequence["Operand"]], "str | None"]


class NotInEngine(Exception):
    """An expression or a query cannot be computed by the engine. The planner catches it and cuts the plan there."""


class Dialect(ABC):
    """The language of one engine.

    Args:
        writers: how values of each type are written; literals of other types cannot be computed by the engine.
        calls: the functions that the engine computes itself.

    Attributes:
        name: the name of the engine in plans.
        joins: the words for joins other than INNER.
        computes_lazily: True if a kernel is called only for rows that need its value, as in a branch of CASE.
        has_kernels_everywhere: True if kernels may be called in ON, FILTER and OVER clauses.
        calls_user_functions: True if scalar functions of users are called like kernels.
        gains_from: the nodes for which the engine is worth it; others run as well without. None for all nodes.
    """

    name: str
    joins: Mapping[JoinType, str]
    computes_lazily: bool
    has_kernels_everywhere: bool
    calls_user_functions: bool
    gains_from: tuple[type[rel.RelNode], ...] | None

    def __init__(self, writers: Mapping[lt.TypeRoot, LiteralWriter], calls: Mapping[str, Own]) -> None:
        self._writers = writers
        self._calls = calls

    @abstractmethod
    def type_name(self, kind: lt.LogicalType) -> str | None:
        """Returns the engine's type for values of a logical type; None if it cannot hold them."""

    def literal(self, node: Literal) -> str | None:
        """Returns a literal with exactly the type of the node; None if the engine has none."""
        name = self.type_name(node.type)
        if name is None:
            return None
        if node.value is None:
            return f"CAST(NULL AS {name})"
        write = self._writers.get(node.type.root)
        return None if write is None else write(node.value, name)

    def call(self, node: RexCall, operands: Sequence[Operand]) -> str | None:
        """Returns the engine's own text of a call; None if a kernel has to compute it. Raises: NotInEngine."""
        own = self._calls.get(node.function)
        return None if own is None else own(self, node, operands)

    def placeholder(self, name: str) -> str:
        """Returns what stands for an input or a kernel in a query. Its name in the engine may follow later."""
        return name

    @abstractmethod
    def failure(self, message: str) -> str:
        """Returns an expression that fails with a message."""

    @abstractmethod
    def integer_sum(self, total: str, kind: lt.LogicalType) -> str:
        """Returns the engine's sum of integers as an integer of this type. It wraps around, as in Java."""

    @abstractmethod
    def summand(self, text: str, kind: lt.LogicalType) -> str:
        """Returns a decimal in a type whose sums have 38 digits."""

    def holds(self, row_type: lt.RowType) -> bool:
        """True if the engine can hold all columns of the rows."""
        return all(self.type_name(each.type) is not None for each in row_type.fields)
