"""Nodes of syntax trees that no text has: parts of queries that a program builds by the Table API.

With them such a query becomes a syntax tree, which the binder of SQL binds. So both have the same functions, types and
plans.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkpy.sql.parser.nodes import DataType, Expression, Identifier, Query, TableReference
from flinkpy.sql.rex import Literal
from flinkpy.sql.types.logical_types import LogicalType


@dataclass(frozen=True, slots=True)
class ColumnReference(Identifier):
    """The name of a column. It may have dots in it, and stands for no table or field."""

    @classmethod
    def named(cls, name: str) -> ColumnReference:
        return cls((name,), (True,))


@dataclass(frozen=True, slots=True)
class FunctionReference(Identifier):
    """A user-defined function that is called without being registered.

    Attributes:
        function: a UserFunction, see `binder.functions`.
    """

    function: Any

    @classmethod
    def to(cls, function: Any) -> FunctionReference:
        return cls((function.name,), (True,), function)


@dataclass(frozen=True, slots=True)
class Constant(Expression):
    """A typed constant.

    Attributes:
        type: the type to which it is cast; None for its own.
    """

    literal: Literal
    type: LogicalType | None = None


@dataclass(frozen=True, slots=True)
class Interval(Expression):
    """A number of milliseconds or months, or a text, as an interval."""

    operand: Expression
    type: LogicalType


@dataclass(frozen=True, slots=True)
class ResolvedType(DataType):
    """A type that is known already."""

    type: LogicalType

    @property
    def nullable(self) -> bool:
        return self.type.nullable


@dataclass(frozen=True, slots=True)
class BoundTable(TableReference):
    """A logical plan in FROM."""

    plan: Any


@dataclass(frozen=True, slots=True)
class BoundQuery(Query):
    """A logical plan as a query."""

    plan: Any
