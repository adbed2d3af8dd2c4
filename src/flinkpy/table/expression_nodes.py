"""The nodes of the expressions that a program builds, before names and types are known.

Their texts are those of Flink: `plus(a, 2)`.

Source: org.apache.flink.table.expressions.{UnresolvedCallExpression, UnresolvedReferenceExpression,
ValueLiteralExpression, TypeLiteralExpression, TableReferenceExpression, SqlCallExpression, TableSymbol}.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

from flinkpy.sql.types.logical_types import LogicalType


@dataclass(frozen=True, slots=True)
class ExpressionNode:
    """The base class."""


@dataclass(frozen=True, slots=True)
class UnresolvedReference(ExpressionNode):
    """A column, or the alias of a window. `*` is all columns."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class UnresolvedCall(ExpressionNode):
    """A call of a built-in or a user-defined function.

    Attributes:
        function: Flink's name of a built-in function, such as `plus`; the path of a function of a catalog; or the
            wrapper that `udf` and its like return.
        is_lookup: True for a name that the program gave to `call`.
    """

    function: Any
    arguments: tuple[ExpressionNode, ...] = ()
    is_lookup: bool = False

    def __str__(self) -> str:
        name = self.function if isinstance(self.function, str) else self.function.name
        return f"{name}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class ValueLiteral(ExpressionNode):
    """A value. Intervals are numbers of milliseconds or months.

    Attributes:
        type: None for the type that follows from the value.
    """

    value: Any
    type: LogicalType | None = None

    def __str__(self) -> str:
        value = self.value
        if value is None:
            return "null"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str):
            escaped = value.replace("'", "''")
            return f"'{escaped}'"
        return value.isoformat() if isinstance(value, (date, datetime, time)) else str(value)


@dataclass(frozen=True, slots=True)
class TypeLiteral(ExpressionNode):
    """A type as an argument, as in a cast."""

    type: LogicalType

    def __str__(self) -> str:
        return str(self.type)


@dataclass(frozen=True, slots=True)
class TableSymbol(ExpressionNode):
    """A keyword as an argument, such as a unit of time."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class TableReference(ExpressionNode):
    """A table as an argument, as in `in_`.

    Attributes:
        operation: its logical plan.
    """

    operation: Any

    def __str__(self) -> str:
        return "table"


@dataclass(frozen=True, slots=True)
class SqlCall(ExpressionNode):
    """An expression as a text of SQL."""

    text: str

    def __str__(self) -> str:
        return f"[{self.text}]"
