"""RexNode: bound expressions, whose columns are positions and whose types are known.

The planner creates them from parsed expressions, and operators evaluate them over RecordBatches. They are plain
immutable data, which can be pickled and compared.

Source: org.apache.calcite.rex.RexNode, org.apache.flink.table.expressions.ResolvedExpression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from flinkpy.sql.types.logical_types import LogicalType

#: The table functions of FROM UNNEST(...), as functions of a RexCall.
UNNEST = "UNNEST"
UNNEST_WITH_ORDINALITY = "UNNEST WITH ORDINALITY"
#: The kind of a UserFunctionCall of an asynchronous scalar function.
ASYNC = "async"


@dataclass(frozen=True, slots=True)
class RexNode:
    """The base class.

    Attributes:
        type: the type of the value.
    """

    type: LogicalType

    @property
    def operands(self) -> tuple[RexNode, ...]:
        """The expressions directly below this one."""
        return ()

    def with_operands(self, operands: tuple[RexNode, ...]) -> RexNode:
        """Returns the expression over other operands, as many as it has."""
        return self


@dataclass(frozen=True, slots=True)
class InputRef(RexNode):
    """The value of an input column. For two inputs the columns of the second follow those of the first."""

    index: int

    def __str__(self) -> str:
        return f"${self.index}"


@dataclass(frozen=True, slots=True)
class Literal(RexNode):
    """A constant.

    Attributes:
        value: None for NULL. Otherwise bool, int (also for intervals: months or milliseconds), float, Decimal, str,
            bytes, date, time, datetime (naive for TIMESTAMP, in UTC for TIMESTAMP_LTZ), list or dict. A SYMBOL's is its
            name.
    """

    value: Any

    def __str__(self) -> str:
        return "null" if self.value is None else f"{self.value!r}"


@dataclass(frozen=True, slots=True)
class RexCall(RexNode):
    """A call of a built-in scalar function.

    Attributes:
        function: its name in `flinkpy.sql.functions`, in capitals. Operators are functions, too: `+`, `=`, `AND`,
            `CASE` (condition, value, ..., else), `CAST`, `TRY_CAST`, `IS NULL`, `ROW`, `ARRAY`, `MAP`, `ITEM` (element
            access).
    """

    function: str
    arguments: tuple[RexNode, ...]

    @property
    def operands(self) -> tuple[RexNode, ...]:
        return self.arguments

    def with_operands(self, operands: tuple[RexNode, ...]) -> RexNode:
        return replace(self, arguments=operands)

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class UserFunctionCall(RexNode):
    """A call of a user-defined scalar function.

    Attributes:
        name: the name under which the query calls it.
        function: the user's function object.
        kind: "general" (a Python value per argument), "pandas" or "arrow" (vectorised), or ASYNC (a coroutine).
        is_deterministic: False if the planner must not call it twice, or at planning time, for one value.
    """

    name: str
    function: Any = field(compare=False)
    arguments: tuple[RexNode, ...]
    kind: str = "general"
    is_deterministic: bool = True

    @property
    def operands(self) -> tuple[RexNode, ...]:
        return self.arguments

    def with_operands(self, operands: tuple[RexNode, ...]) -> RexNode:
        return replace(self, arguments=operands)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class FieldAccess(RexNode):
    """A field of a ROW value, by position. It is null if the row is null."""

    operand: RexNode
    index: int
    name: str

    @property
    def operands(self) -> tuple[RexNode, ...]:
        return (self.operand,)

    def with_operands(self, operands: tuple[RexNode, ...]) -> RexNode:
        return replace(self, operand=operands[0])

    def __str__(self) -> str:
        return f"{self.operand}.{self.name}"


@dataclass(frozen=True, slots=True)
class PatternNavigation(RexNode):
    """A column of a row of a partial match, in MATCH_RECOGNIZE. It is NULL if there is no such row.

    Source: org.apache.calcite.rex.RexPatternFieldRef, FIRST and LAST.

    Attributes:
        variable: the pattern variable whose rows are meant; ALL_ROWS for the rows of all variables.
        column: the InputRef of the column.
        is_first: True to count rows from the first one, False from the last one.
        offset: the number of rows to pass over.
    """

    variable: str
    column: RexNode
    is_first: bool = False
    offset: int = 0

    @property
    def operands(self) -> tuple[RexNode, ...]:
        return (self.column,)

    def with_operands(self, operands: tuple[RexNode, ...]) -> RexNode:
        return replace(self, column=operands[0])

    def __str__(self) -> str:
        return f"{'FIRST' if self.is_first else 'LAST'}({self.variable}.{self.column}, {self.offset})"


#: The variable of a PatternNavigation or PatternAggregate over the rows of all variables.
ALL_ROWS = "*"


@dataclass(frozen=True, slots=True)
class PatternAggregate(RexNode):
    """An aggregate over the rows of a pattern variable, in MATCH_RECOGNIZE.

    Attributes:
        function: its name; that of the user's function if `user_function` is set.
        variable: the pattern variable, or ALL_ROWS.
        arguments: expressions over the columns of a row.
    """

    function: str
    variable: str
    arguments: tuple[RexNode, ...]
    user_function: Any = field(default=None, compare=False)

    @property
    def operands(self) -> tuple[RexNode, ...]:
        return self.arguments

    def with_operands(self, operands: tuple[RexNode, ...]) -> RexNode:
        return replace(self, arguments=operands)

    def __str__(self) -> str:
        return f"{self.function}({', '.join(f'{self.variable}.{each}' for each in self.arguments)})"


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate of a query.

    Attributes:
        function: the name of a built-in aggregate function, such as COUNT, SUM, MAX, FIRST_VALUE, LISTAGG; or of the
            user's function.
        arguments: the input columns; empty for COUNT(*).
        type: the type of the result.
        name: the name of the result column.
        is_distinct: True for DISTINCT.
        filter_index: the BOOLEAN input column that says which rows count; None if all do.
        order: the columns by which rows are fed, for WITHIN GROUP: (column, is ascending, nulls are first).
        user_function: the UserAggregateFunction; None for built-in ones.
        ignores_nulls: True for IGNORE NULLS of ARRAY_AGG.
    """

    function: str
    arguments: tuple[int, ...]
    type: LogicalType
    name: str
    is_distinct: bool = False
    filter_index: int | None = None
    order: tuple[tuple[int, bool, bool], ...] = ()
    user_function: Any = field(default=None, compare=False)
    ignores_nulls: bool = False


def walk(node: RexNode) -> Iterator[RexNode]:
    """Yields the node and all nodes below it, parents first."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(current.operands))


def input_columns(nodes: Iterator[RexNode] | tuple[RexNode, ...] | list[RexNode]) -> list[int]:
    """Returns the input columns that the expressions use, each once, in ascending order."""
    return sorted({each.index for node in nodes for each in walk(node) if isinstance(each, InputRef)})


def rewrite(node: RexNode, change: Callable[[RexNode], RexNode | None]) -> RexNode:
    """Returns the tree with each node replaced for which `change` returns another one, from the top down."""
    changed = change(node)
    if changed is not None:
        return changed
    operands = tuple(rewrite(operand, change) for operand in node.operands)
    if all(new is old for new, old in zip(operands, node.operands, strict=True)):
        return node
    return node.with_operands(operands)


def moved(node: RexNode, positions: dict[int, int] | Callable[[int], int]) -> RexNode:
    """Returns the tree with input columns renumbered."""
    place = positions.__getitem__ if isinstance(positions, dict) else positions

    def change(each: RexNode) -> RexNode | None:
        return InputRef(each.type, place(each.index)) if isinstance(each, InputRef) else None

    return rewrite(node, change)
