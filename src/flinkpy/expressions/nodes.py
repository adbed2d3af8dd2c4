"""Expressions: trees of four kinds of nodes, with the operators, methods and functions of PyFlink's Table API.

The nodes are `ColumnReference`, `Literal`, `Call` and `Alias`. They are plain data, which Arrow and Spark evaluate.
`flinkpy.expressions.types` lists the functions of calls.

Source: pyflink.table.{Expression, expressions},
org.apache.flink.table.expressions.{FieldReferenceExpression, ValueLiteralExpression, CallExpression}.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, NoReturn

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.time import Instant
from flinkpy.common.typeinfo import DecimalTypeInfo, TypeInformation, Types

_INT_BITS, _LONG_BITS = 31, 63
_MAX_DIGITS = 38


class TimeIntervalUnit(Enum):
    """The parts of dates and times for `extract`. Source: pyflink.table.expression.TimeIntervalUnit."""

    YEAR = "YEAR"
    QUARTER = "QUARTER"
    MONTH = "MONTH"
    WEEK = "WEEK"
    DAY = "DAY"
    HOUR = "HOUR"
    MINUTE = "MINUTE"
    SECOND = "SECOND"


class Expression:
    """A value per row. Expressions are immutable.

    Methods that take expressions also take plain Python values. `==` creates an expression; use `is_same` to compare
    trees.

    Example:
        >>> stream.filter((col("price") * col("quantity") > 100) & col("name").like("A%"))
    """

    __slots__ = ()

    def is_same(self, other: object) -> bool:
        """True if the other tree is the same."""
        return isinstance(other, Expression) and self.key() == other.key()

    def key(self) -> tuple[Any, ...]:
        """Returns a key that equal trees share. It is hashable if the literals are."""
        raise NotImplementedError

    # -- arithmetic ------------------------------------------------------------

    def __add__(self, other: Any) -> Expression:
        return call("plus", self, other)

    def __radd__(self, other: Any) -> Expression:
        return call("plus", other, self)

    def __sub__(self, other: Any) -> Expression:
        return call("minus", self, other)

    def __rsub__(self, other: Any) -> Expression:
        return call("minus", other, self)

    def __mul__(self, other: Any) -> Expression:
        return call("times", self, other)

    def __rmul__(self, other: Any) -> Expression:
        return call("times", other, self)

    def __truediv__(self, other: Any) -> Expression:
        return call("divide", self, other)

    def __rtruediv__(self, other: Any) -> Expression:
        return call("divide", other, self)

    def __mod__(self, other: Any) -> Expression:
        return call("mod", self, other)

    def __rmod__(self, other: Any) -> Expression:
        return call("mod", other, self)

    def __neg__(self) -> Expression:
        return call("minusPrefix", self)

    def __pos__(self) -> Expression:
        return self

    @property
    def abs(self) -> Expression:
        """The absolute value."""
        return call("abs", self)

    @property
    def floor(self) -> Expression:
        """The largest whole number that is not greater."""
        return call("floor", self)

    @property
    def ceil(self) -> Expression:
        """The smallest whole number that is not less."""
        return call("ceil", self)

    def round(self, places: int = 0) -> Expression:
        """Returns the number rounded to `places` digits after the point. A half is rounded away from zero."""
        return call("round", self, options=(places,))

    # -- comparison ------------------------------------------------------------

    def __eq__(self, other: Any) -> Expression:  # type: ignore[override]
        return call("equals", self, other)

    def __ne__(self, other: Any) -> Expression:  # type: ignore[override]
        return call("notEquals", self, other)

    def __lt__(self, other: Any) -> Expression:
        return call("lessThan", self, other)

    def __le__(self, other: Any) -> Expression:
        return call("lessThanOrEqual", self, other)

    def __gt__(self, other: Any) -> Expression:
        return call("greaterThan", self, other)

    def __ge__(self, other: Any) -> Expression:
        return call("greaterThanOrEqual", self, other)

    def between(self, lower_bound: Any, upper_bound: Any) -> Expression:
        """Returns true for values from `lower_bound` to `upper_bound`, both included."""
        return call("and", call("greaterThanOrEqual", self, lower_bound), call("lessThanOrEqual", self, upper_bound))

    def not_between(self, lower_bound: Any, upper_bound: Any) -> Expression:
        """Returns the negation of `between`."""
        return call("not", self.between(lower_bound, upper_bound))

    def in_(self, first_element_or_table: Any, *remaining_elements: Any) -> Expression:
        """Returns true for values that equal one of the literals. Differs: PyFlink also accepts a Table."""
        return call("in", self, first_element_or_table, *remaining_elements)

    # -- logic ------------------------------------------------------------

    def __and__(self, other: Any) -> Expression:
        return call("and", self, other)

    def __rand__(self, other: Any) -> Expression:
        return call("and", other, self)

    def __or__(self, other: Any) -> Expression:
        return call("or", self, other)

    def __ror__(self, other: Any) -> Expression:
        return call("or", other, self)

    def __invert__(self) -> Expression:
        return call("not", self)

    def then(self, if_true: Any, if_false: Any) -> Expression:
        """Returns `if_true` for rows where this is true, and `if_false` where it is false or null."""
        return call("ifThenElse", self, if_true, if_false)

    def if_null(self, null_replacement: Any) -> Expression:
        """Returns the value, or the replacement where it is null."""
        return call("coalesce", self, null_replacement)

    @property
    def is_null(self) -> Expression:
        return call("isNull", self)

    @property
    def is_not_null(self) -> Expression:
        return call("isNotNull", self)

    @property
    def is_true(self) -> Expression:
        """True where the value is true; false for null."""
        return call("isTrue", self)

    @property
    def is_false(self) -> Expression:
        """True where the value is false; false for null."""
        return call("isFalse", self)

    @property
    def is_not_true(self) -> Expression:
        return call("not", self.is_true)

    @property
    def is_not_false(self) -> Expression:
        return call("not", self.is_false)

    # -- strings ------------------------------------------------------------

    def like(self, pattern: str) -> Expression:
        """Returns true for strings that match. `%` stands for any characters, `_` for one, a backslash escapes both."""
        return call("like", self, options=(pattern,))

    def substring(self, begin_index: int, length: int | None = None) -> Expression:
        """Returns a part of a string.

        Args:
            begin_index: position of the first character, counted from 1.
            length: number of characters; None means up to the end.
        """
        if begin_index < 1 or (length is not None and length < 0):
            raise ValueError(
                f"substring: begin_index counts from 1 and length from 0, but they are {begin_index} and {length}"
            )
        return call("substring", self, options=(begin_index, length))

    substr = substring

    def starts_with(self, start_expr: str) -> Expression:
        return call("startsWith", self, options=(start_expr,))

    def ends_with(self, end_expr: str) -> Expression:
        return call("endsWith", self, options=(end_expr,))

    @property
    def upper_case(self) -> Expression:
        return call("upper", self)

    @property
    def lower_case(self) -> Expression:
        return call("lower", self)

    @property
    def char_length(self) -> Expression:
        """The number of characters, an INT."""
        return call("charLength", self)

    @property
    def trim(self) -> Expression:
        """The string without spaces at both ends. Differs: in PyFlink it is a method that takes a character."""
        return call("trim", self)

    # -- times ------------------------------------------------------------

    def extract(self, time_interval_unit: TimeIntervalUnit | str) -> Expression:
        """Returns a part of a date or time, a LONG."""
        unit = getattr(time_interval_unit, "value", time_interval_unit)
        if unit not in TimeIntervalUnit.__members__:
            raise ValueError(f"extract: {unit!r} is not one of {', '.join(TimeIntervalUnit.__members__)}")
        return call("extract", self, options=(unit,))

    # -- order ------------------------------------------------------------

    @property
    def asc(self) -> Expression:
        """Ascending sort order."""
        return call("orderAsc", self)

    @property
    def desc(self) -> Expression:
        """Descending sort order."""
        return call("orderDesc", self)

    # -- types and names ------------------------------------------------------------

    def cast(self, data_type: TypeInformation) -> Expression:
        """Returns the value converted to a type such as `Types.LONG()`. A value that cannot be converted is null."""
        return call("cast", self, options=(data_type,))

    def alias(self, name: str) -> Expression:
        """Names the column that the expression becomes."""
        if not isinstance(name, str) or not name:
            raise TypeError(f"alias: a name must be a non-empty string, not {name!r}")
        return Alias(self.expression if isinstance(self, Alias) else self, name)

    # -- Python ------------------------------------------------------------

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise ValueError(
            f"the expression {self} has no truth value: use & for and, | for or, ~ for not, with parentheses around "
            "comparisons, and between() for a <= x <= b"
        )

    def __repr__(self) -> str:
        return f"<{self}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ColumnReference(Expression):
    """A column of the stream."""

    name: str

    def key(self) -> tuple[Any, ...]:
        return "column", self.name

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Literal(Expression):
    """A value that is the same in each row. None means null."""

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
    """A function of expressions. `options` are its plain values, e.g. the type of a cast or the unit of `extract`."""

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
    """An expression with the name of the column that it becomes."""

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
    """Returns the expression without its outermost aliases."""
    while isinstance(expression, Alias):
        expression = expression.expression
    return expression


def walk(expression: Expression) -> Iterator[Expression]:
    """Yields the node and all nodes below it, parents first."""
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
    """Returns the names of the columns in the expression, each once, in the order of their appearance."""
    return list(dict.fromkeys(node.name for node in walk(expression) if isinstance(node, ColumnReference)))


def rewrite(expression: Expression, change: Callable[[Expression], Expression | None]) -> Expression:
    """Returns the tree with each node replaced for which `change` returns another one, from the top down."""
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
    """Returns the tree with columns replaced by the given expressions."""

    def change(node: Expression) -> Expression | None:
        return columns.get(node.name) if isinstance(node, ColumnReference) else None

    return rewrite(expression, change)


def conjuncts(predicate: Expression) -> list[Expression]:
    """Returns the conditions that a predicate joins with `and`."""
    if isinstance(predicate, Call) and predicate.function == "and":
        return [part for argument in predicate.arguments for part in conjuncts(argument)]
    return [predicate]


def conjunction(parts: list[Expression]) -> Expression | None:
    """Returns the conditions joined with `and`, or None if there are none."""
    joined: Expression | None = None
    for part in parts:
        joined = part if joined is None else Call("and", (joined, part))
    return joined


def col(name: str) -> Expression:
    """Returns the column with a name."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"col: a column's name must be a non-empty string, not {name!r}")
    return ColumnReference(name)


def lit(v: Any, data_type: TypeInformation | None = None) -> Expression:
    """Returns a value that is the same in each row, e.g. `lit(Decimal("0.05"))`.

    Args:
        v: the value, or an expression, which is returned as it is.
        data_type: the type. By default it follows from the value: an int is INT if it fits, else LONG; a float is
            DOUBLE; a Decimal is a DECIMAL with its own digits.

    Raises:
        TypeError: no column type holds the value, or it is None without a `data_type`.
    """
    if isinstance(v, Expression):
        return v
    literal_type = type_of_value(v) if data_type is None else data_type
    return Literal(v, literal_type)


def type_of_value(value: Any) -> TypeInformation:
    """Returns the type of a Python value as a literal. Raises: TypeError."""
    if isinstance(value, bool):
        return Types.BOOLEAN()
    if isinstance(value, int):
        bits = value.bit_length() if value >= 0 else (value + 1).bit_length()
        if bits > _LONG_BITS:
            return _decimal_type(decimal.Decimal(value))
        return Types.INT() if bits <= _INT_BITS else Types.LONG()
    if isinstance(value, decimal.Decimal):
        return _decimal_type(value)
    for python_type, type_info in _LITERAL_TYPES:
        if isinstance(value, python_type):
            return type_info
    raise TypeError(f"{value!r} cannot be a literal; pass lit(value, type) or a value of a simple type")


def _decimal_type(value: decimal.Decimal) -> TypeInformation:
    if not value.is_finite():
        raise TypeError(f"a decimal column cannot hold {value!r}")
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > _MAX_DIGITS:
        raise TypeError(f"{value!r} has more than {_MAX_DIGITS} digits")
    return DecimalTypeInfo(precision, scale)


_LITERAL_TYPES: tuple[tuple[type, TypeInformation], ...] = (
    (float, Types.DOUBLE()),
    (str, Types.STRING()),
    (bytes, Types.PRIMITIVE_ARRAY(Types.BYTE())),
    (datetime.datetime, Types.SQL_TIMESTAMP()),
    (datetime.date, Types.SQL_DATE()),
    (datetime.time, Types.SQL_TIME()),
    (Instant, Types.INSTANT()),
)


def call(function: str, *arguments: Any, options: tuple[Any, ...] = ()) -> Expression:
    """Returns the call of a function with expressions or plain values."""
    return Call(function, tuple(without_alias(lit(argument)) for argument in arguments), options)


def null_of(data_type: TypeInformation) -> Expression:
    """Returns null of a type."""
    return Literal(None, data_type)


def and_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression:
    """Returns true where all predicates are true."""
    joined = call("and", predicate0, predicate1)
    for predicate in predicates:
        joined = call("and", joined, predicate)
    return joined


def or_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression:
    """Returns true where at least one predicate is true."""
    joined = call("or", predicate0, predicate1)
    for predicate in predicates:
        joined = call("or", joined, predicate)
    return joined


def not_(expression: Any) -> Expression:
    return call("not", expression)


def if_then_else(condition: Any, if_true: Any, if_false: Any) -> Expression:
    """Returns `if_true` where the condition is true, and `if_false` where it is false or null."""
    return call("ifThenElse", condition, if_true, if_false)


def coalesce(*args: Any) -> Expression:
    """Returns the first value that is not null."""
    if not args:
        raise UnsupportedOperationError("coalesce needs at least one expression")
    return call("coalesce", *args)


def concat(first: Any, *others: Any) -> Expression:
    """Returns the concatenation of strings; null if one of them is null."""
    return call("concat", first, *others)


def negative(v: Any) -> Expression:
    return call("minusPrefix", v)
