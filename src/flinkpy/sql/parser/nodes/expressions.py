"""Nodes of expressions. Names of columns and functions are as written: the planner resolves them.

Special syntaxes of functions become a `FunctionCall` with plain arguments where nothing is lost by it, as in Flink:
`SUBSTRING(s FROM 2 FOR 3)` has three arguments, `EXTRACT(DAY FROM t)` has a `TimeUnit` and `t`.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from flinkpy.sql.parser.nodes.base import DataType, Expression, Identifier, Node, Query
from flinkpy.sql.parser.nodes.types import IntervalQualifier

# Literals ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IntegerLiteral(Expression):
    """An exact number without a decimal point. The sign is a `UnaryOperation`."""

    value: int


@dataclass(frozen=True, slots=True)
class DecimalLiteral(Expression):
    """An exact number with a decimal point. The text keeps trailing zeros, which decide its scale."""

    text: str

    @property
    def value(self) -> Decimal:
        return Decimal(self.text)


@dataclass(frozen=True, slots=True)
class DoubleLiteral(Expression):
    """A number with an exponent, which is a DOUBLE."""

    text: str

    @property
    def value(self) -> float:
        return float(self.text)


@dataclass(frozen=True, slots=True)
class StringLiteral(Expression):
    """A character string, without quotes and with escapes resolved."""

    value: str
    #: Character set of a prefix such as `_UTF8'...'` or `N'...'`, in capitals.
    charset: str | None = None


@dataclass(frozen=True, slots=True)
class BinaryLiteral(Expression):
    """A string of bytes, `X'...'`."""

    value: bytes


@dataclass(frozen=True, slots=True)
class BooleanLiteral(Expression):
    """TRUE, FALSE, or UNKNOWN, which is None."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class NullLiteral(Expression):
    """NULL."""


@dataclass(frozen=True, slots=True)
class DefaultValue(Expression):
    """DEFAULT as a value or as an argument."""


@dataclass(frozen=True, slots=True)
class DateLiteral(Expression):
    """DATE '...'; the planner checks the text."""

    text: str


@dataclass(frozen=True, slots=True)
class TimeLiteral(Expression):
    """TIME '...'."""

    text: str


@dataclass(frozen=True, slots=True)
class TimestampLiteral(Expression):
    """TIMESTAMP '...', or TIMESTAMP WITH [LOCAL] TIME ZONE '...'."""

    text: str
    #: "", "LOCAL" (WITH LOCAL TIME ZONE) or "TIME ZONE" (WITH TIME ZONE).
    zone: str = ""


@dataclass(frozen=True, slots=True)
class IntervalLiteral(Expression):
    """INTERVAL '...' with its units."""

    text: str
    qualifier: IntervalQualifier
    #: True for INTERVAL -'...'.
    negative: bool = False


@dataclass(frozen=True, slots=True)
class IntervalExpression(Expression):
    """INTERVAL with a number that is not a literal string, such as INTERVAL n DAY."""

    operand: Expression
    qualifier: IntervalQualifier


@dataclass(frozen=True, slots=True)
class IntervalDifference(Expression):
    """(left - right) with the units of the interval between two points in time."""

    left: Expression
    right: Expression
    qualifier: IntervalQualifier


@dataclass(frozen=True, slots=True)
class TimeUnit(Expression):
    """A unit of time as an argument, as in EXTRACT, TIMESTAMPADD or FLOOR(t TO HOUR), in capitals."""

    name: str


@dataclass(frozen=True, slots=True)
class DynamicParameter(Expression):
    """A question mark; `index` counts them from 0."""

    index: int


# Operators -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UnaryOperation(Expression):
    """`+`, `-` or NOT before an operand."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class BinaryOperation(Expression):
    """An operator between two operands, in capitals and with single blanks.

    Arithmetic, `||`, comparisons, IS [NOT] DISTINCT FROM, [NOT] MEMBER OF, [NOT] SUBMULTISET OF,
    MULTISET UNION and the like, and the predicates of periods: OVERLAPS, CONTAINS, EQUALS, [IMMEDIATELY] PRECEDES,
    [IMMEDIATELY] SUCCEEDS.
    """

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class LogicalOperation(Expression):
    """AND or OR of two or more operands. `a AND b AND c` is one node, so that long conditions are not deep trees."""

    operator: str
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class IsPredicate(Expression):
    """IS [NOT] with a keyword.

    `test` is NULL, TRUE, FALSE, UNKNOWN, A SET, EMPTY, JSON, JSON VALUE, JSON OBJECT, JSON ARRAY or JSON SCALAR.
    """

    operand: Expression
    test: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Between(Expression):
    """[NOT] BETWEEN [SYMMETRIC] low AND high."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False
    symmetric: bool = False


@dataclass(frozen=True, slots=True)
class Like(Expression):
    """[NOT] LIKE, ILIKE, RLIKE or SIMILAR TO a pattern."""

    operand: Expression
    pattern: Expression
    escape: Expression | None = None
    negated: bool = False
    operator: str = "LIKE"


@dataclass(frozen=True, slots=True)
class InList(Expression):
    """[NOT] IN (value, ...)."""

    operand: Expression
    values: tuple[Expression, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class InSubquery(Expression):
    """[NOT] IN (query)."""

    operand: Expression
    query: Query
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Exists(Expression):
    """EXISTS (query). NOT EXISTS is a `UnaryOperation` around it."""

    query: Query


@dataclass(frozen=True, slots=True)
class UniquePredicate(Expression):
    """UNIQUE (query)."""

    query: Query


@dataclass(frozen=True, slots=True)
class QuantifiedComparison(Expression):
    """A comparison with SOME, ANY (which is SOME) or ALL rows of a query or values of a list."""

    operand: Expression
    operator: str
    #: SOME or ALL.
    quantifier: str
    #: Exactly one of `query` and `values` is set.
    query: Query | None = None
    values: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class ScalarSubquery(Expression):
    """A query in parentheses where a value is expected."""

    query: Query


@dataclass(frozen=True, slots=True)
class ElementAccess(Expression):
    """collection[index], of an array, a map or a row."""

    collection: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class FieldAccess(Expression):
    """A field of an expression that is not a name itself, such as `f(x).a` or `m['k'].a`."""

    operand: Expression
    field: Identifier


@dataclass(frozen=True, slots=True)
class Star(Expression):
    """`*` or `t.*`."""

    qualifier: Identifier | None = None


@dataclass(frozen=True, slots=True)
class RowConstructor(Expression):
    """ROW(a, b), or (a, b) where `explicit` is False."""

    values: tuple[Expression, ...]
    explicit: bool = True


@dataclass(frozen=True, slots=True)
class CollectionConstructor(Expression):
    """ARRAY[...], MAP[key, value, ...] or MULTISET[...]."""

    #: ARRAY, MAP or MULTISET.
    kind: str
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class CollectionSubquery(Expression):
    """ARRAY(query), MAP(query) or MULTISET(query)."""

    kind: str
    query: Query


@dataclass(frozen=True, slots=True)
class WhenBranch(Node):
    """WHEN condition [, condition]* THEN result."""

    conditions: tuple[Expression, ...]
    result: Expression


@dataclass(frozen=True, slots=True)
class Case(Expression):
    """CASE. With an operand, conditions are values to compare it with."""

    operand: Expression | None
    branches: tuple[WhenBranch, ...]
    otherwise: Expression | None = None


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """CAST(operand AS type), or TRY_CAST."""

    operand: Expression
    type: DataType
    is_try: bool = False


# Calls of functions --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OrderItem(Node):
    """An expression of ORDER BY. What is not written is None."""

    expression: Expression
    descending: bool | None = None
    nulls_first: bool | None = None


@dataclass(frozen=True, slots=True)
class FrameBound(Node):
    """A bound of a window frame."""

    #: UNBOUNDED PRECEDING, PRECEDING, CURRENT ROW, FOLLOWING or UNBOUNDED FOLLOWING.
    kind: str
    #: For PRECEDING and FOLLOWING.
    offset: Expression | None = None


@dataclass(frozen=True, slots=True)
class WindowFrame(Node):
    """ROWS or RANGE with its bounds; `end` is None if only the start was written."""

    unit: str
    start: FrameBound
    end: FrameBound | None = None


@dataclass(frozen=True, slots=True)
class WindowSpecification(Node):
    """A window of OVER (...) or WINDOW w AS (...)."""

    #: Name of the window that this one extends.
    reference: Identifier | None = None
    partition_by: tuple[Expression, ...] = ()
    order_by: tuple[OrderItem, ...] = ()
    frame: WindowFrame | None = None
    #: ALLOW PARTIAL is True, DISALLOW PARTIAL is False.
    allow_partial: bool | None = None


@dataclass(frozen=True, slots=True)
class NamedArgument(Expression):
    """name => value, in a call."""

    name: Identifier
    value: Expression


@dataclass(frozen=True, slots=True)
class TableArgument(Expression):
    """A table as an argument of a table function: TABLE t, or a query in parentheses with PARTITION BY or ORDER BY.

    PARTITION BY makes it an argument with set semantics.
    """

    query: Query
    partition_by: tuple[Expression, ...] = ()
    order_by: tuple[OrderItem, ...] = ()


@dataclass(frozen=True, slots=True)
class DescriptorColumn(Node):
    """A column of DESCRIPTOR(...)."""

    name: Identifier


@dataclass(frozen=True, slots=True)
class Descriptor(Expression):
    """DESCRIPTOR(column, ...)."""

    columns: tuple[DescriptorColumn, ...]


@dataclass(frozen=True, slots=True)
class ModelReference(Expression):
    """MODEL m, as an argument."""

    name: Identifier


@dataclass(frozen=True, slots=True)
class FunctionCall(Expression):
    """A call of a function.

    `CURRENT_TIMESTAMP` and its like are calls without parentheses. In MATCH_RECOGNIZE, RUNNING and FINAL are calls
    with these names around their operand.
    """

    name: Identifier
    #: Positional arguments first in Flink's examples, but any order is kept.
    arguments: tuple[Expression, ...] = ()
    #: DISTINCT or ALL, or None where the text says neither.
    quantifier: str | None = None
    #: ORDER BY among the arguments, as in LISTAGG(a ORDER BY b).
    order_by: tuple[OrderItem, ...] = ()
    #: WITHIN GROUP (ORDER BY ...).
    within_group: tuple[OrderItem, ...] = ()
    filter: Expression | None = None
    #: True for IGNORE NULLS, False for RESPECT NULLS.
    ignore_nulls: bool | None = None
    #: A named window or a specification.
    over: Identifier | WindowSpecification | None = None
    has_parentheses: bool = True

    @property
    def function(self) -> str:
        """The last part of the name in capitals, which is how built-in functions are looked up."""
        return self.name.last.upper()


@dataclass(frozen=True, slots=True)
class Trim(Expression):
    """TRIM([BOTH | LEADING | TRAILING] [characters] FROM operand). TRIM(operand) trims blanks on both sides."""

    operand: Expression
    mode: str = "BOTH"
    characters: Expression | None = None


@dataclass(frozen=True, slots=True)
class JsonBehavior(Node):
    """The result of a JSON function ON EMPTY or ON ERROR."""

    #: NULL, ERROR, TRUE, FALSE, UNKNOWN, EMPTY ARRAY, EMPTY OBJECT or DEFAULT.
    kind: str
    #: For DEFAULT.
    value: Expression | None = None


@dataclass(frozen=True, slots=True)
class JsonExists(Expression):
    """JSON_EXISTS(document, path [behavior ON ERROR])."""

    document: Expression
    path: Expression
    on_error: JsonBehavior | None = None


@dataclass(frozen=True, slots=True)
class JsonValue(Expression):
    """JSON_VALUE(document, path [RETURNING type] [behavior ON EMPTY] [behavior ON ERROR])."""

    document: Expression
    path: Expression
    returning: DataType | None = None
    on_empty: JsonBehavior | None = None
    on_error: JsonBehavior | None = None


@dataclass(frozen=True, slots=True)
class JsonQuery(Expression):
    """JSON_QUERY(document, path [RETURNING type] [wrapper] [behavior ON EMPTY] [behavior ON ERROR])."""

    document: Expression
    path: Expression
    returning: DataType | None = None
    #: WITHOUT, CONDITIONAL or UNCONDITIONAL.
    wrapper: str | None = None
    on_empty: JsonBehavior | None = None
    on_error: JsonBehavior | None = None


@dataclass(frozen=True, slots=True)
class JsonEntry(Node):
    """KEY key VALUE value, in JSON_OBJECT."""

    key: Expression
    value: Expression


@dataclass(frozen=True, slots=True)
class JsonObject(Expression):
    """JSON_OBJECT(entry, ... [NULL ON NULL | ABSENT ON NULL]), or JSON_OBJECTAGG of one entry."""

    entries: tuple[JsonEntry, ...]
    absent_on_null: bool | None = None
    is_aggregate: bool = False
    filter: Expression | None = None
    over: Identifier | WindowSpecification | None = None


@dataclass(frozen=True, slots=True)
class JsonArray(Expression):
    """JSON_ARRAY(value, ... [NULL ON NULL | ABSENT ON NULL]), or JSON_ARRAYAGG of one value."""

    values: tuple[Expression, ...]
    absent_on_null: bool | None = None
    is_aggregate: bool = False
    order_by: tuple[OrderItem, ...] = ()
    filter: Expression | None = None
    over: Identifier | WindowSpecification | None = None
