"""The nodes of expression trees, as plain data.

There are four: `ColumnReference`, `Literal`, `Call` and `Alias`. What a user writes are their operators and methods
(`flinkpy.expressions.operations`); whatever computes expressions (Arrow, Spark) looks at the nodes only. The functions
of calls are those of `flinkpy.expressions.types`.

Source: org.apache.flink.table.expressions.{FieldReferenceExpression, ValueLiteralExpression, CallExpression}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from flinkpy.common.typeinfo import TypeInformation
from flinkpy.expressions.operations import Operations


class Expression(Operations):
    """A value per row. Immutable; `==` makes an expression: `is_same` compares trees."""

    __slots__ = ()

    def is_same(self, other: object) -> bool:
        """Whether the other tree is the same."""
        return isinstance(other, Expression) and self.key() == other.key()

    def key(self) -> tuple[Any, ...]:
        """What two trees that are the same have in common; hashable where the literals are."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ColumnReference(Expression):
    """The column of that name."""

    name: str

    def key(self) -> tuple[Any, ...]:
        return "column", self.name

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Literal(Expression):
    """The same value in every row; None: null. `type` is a TypeInformation."""

    value: Any
    type: TypeInformation

    def key(self) -> tuple[Any, ...]:
        return "literal", type(self.value).__name__, self.value, self.type

    def __str__(self) -> str:
        if self.value is None:
            return "null"
        return f"'{self.value}'" if isinstance(self.value, str) else str(self.value)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Expression):
    """A function of expressions; `options` are plain values that are no columns (the type of a cast, the unit of an
    extract).
    """

    function: str
    arguments: tuple[Expression, ...]
    options: tuple[Any, ...] = ()

    def key(self) -> tuple[Any, ...]:
        return "call", self.function, tuple(argument.key() for argument in self.arguments), self.options

    def __str__(self) -> str:
        symbol = _SYMBOLS.get(self.function)
        if symbol is not None and len(self.arguments) == 2:
            return f"({self.arguments[0]} {symbol} {self.arguments[1]})"
        parts = [str(argument) for argument in self.arguments] + [str(option) for option in self.options]
        return f"{self.function}({', '.join(parts)})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Alias(Expression):
    """The expression as a column of this name."""

    expression: Expression
    name: str

    def key(self) -> tuple[Any, ...]:
        return "alias", self.expression.key(), self.name

    def __str__(self) -> str:
        return f"{self.expression} AS {self.name}"


_SYMBOLS = {
    "plus": "+",
    "minus": "-",
    "times": "*",
    "divide": "/",
    "mod": "%",
    "equals": "=",
    "notEquals": "<>",
    "lessThan": "<",
    "lessThanOrEqual": "<=",
    "greaterThan": ">",
    "greaterThanOrEqual": ">=",
    "and": "AND",
    "or": "OR",
}


def without_alias(expression: Expression) -> Expression:
    """What the outermost names stand for."""
    while isinstance(expression, Alias):
        expression = expression.expression
    return expression


def walk(expression: Expression) -> Iterator[Expression]:
    """The node and all below it, itself first."""
    pending = [expression]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(children_of(node)))


def children_of(expression: Expression) -> tuple[Expression, ...]:
    if isinstance(expression, Call):
        return expression.arguments
    return (expression.expression,) if isinstance(expression, Alias) else ()


def columns_in(expression: Expression) -> list[str]:
    """Names of the columns that it needs, each once, in the order in which they appear."""
    return list(dict.fromkeys(node.name for node in walk(expression) if isinstance(node, ColumnReference)))


def rewrite(expression: Expression, change: Callable[[Expression], Expression | None]) -> Expression:
    """The tree in which every node for which `change` gives another one is replaced by it, from the top."""
    changed = change(expression)
    if changed is not None:
        return changed
    if isinstance(expression, Call):
        arguments = tuple(rewrite(argument, change) for argument in expression.arguments)
        if all(new is old for new, old in zip(arguments, expression.arguments)):
            return expression
        return Call(expression.function, arguments, expression.options)
    if isinstance(expression, Alias):
        inner = rewrite(expression.expression, change)
        return expression if inner is expression.expression else Alias(inner, expression.name)
    return expression


def substitute(expression: Expression, columns: dict[str, Expression]) -> Expression:
    """The tree with these expressions in place of the columns."""

    def change(node: Expression) -> Expression | None:
        return columns.get(node.name) if isinstance(node, ColumnReference) else None

    return rewrite(expression, change)


def conjuncts(predicate: Expression) -> list[Expression]:
    """The conditions that must all hold for the predicate to hold."""
    if isinstance(predicate, Call) and predicate.function == "and":
        return [part for argument in predicate.arguments for part in conjuncts(argument)]
    return [predicate]


def conjunction(parts: list[Expression]) -> Expression | None:
    """All of them; None: there are none."""
    joined: Expression | None = None
    for part in parts:
        joined = part if joined is None else Call("and", (joined, part))
    return joined
