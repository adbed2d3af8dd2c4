"""The way back from the trees of expressions and types to SQL text; see `unparse`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkpy.sql.parser.lexer import WORD
from flinkpy.sql.parser.nodes import (
    Between,
    BinaryLiteral,
    BinaryOperation,
    BooleanLiteral,
    Case,
    Cast,
    CollectionConstructor,
    CollectionSubquery,
    CollectionType,
    DataType,
    DateLiteral,
    DecimalLiteral,
    DefaultValue,
    Descriptor,
    DescriptorColumn,
    DoubleLiteral,
    DynamicParameter,
    ElementAccess,
    Exists,
    ExplicitTable,
    Expression,
    FieldAccess,
    FrameBound,
    FunctionCall,
    Identifier,
    InList,
    InSubquery,
    IntegerLiteral,
    IntervalDifference,
    IntervalExpression,
    IntervalLiteral,
    IntervalQualifier,
    IntervalType,
    IsPredicate,
    JsonArray,
    JsonBehavior,
    JsonEntry,
    JsonExists,
    JsonObject,
    JsonQuery,
    JsonValue,
    Like,
    LogicalOperation,
    MapType,
    ModelReference,
    NamedArgument,
    NamedType,
    Node,
    NullLiteral,
    OrderItem,
    QuantifiedComparison,
    RawType,
    RowConstructor,
    RowField,
    RowType,
    ScalarSubquery,
    SimpleType,
    Star,
    StringLiteral,
    StructuredType,
    TableArgument,
    TimeLiteral,
    TimestampLiteral,
    TimeUnit,
    Trim,
    UnaryOperation,
    UniquePredicate,
    WhenBranch,
    WindowFrame,
    WindowSpecification,
)
from flinkpy.sql.parser.operators import (
    ATOM,
    COMPARISON,
    IS,
    NOT,
    POWERS,
    RANGE,
    SIGN,
    SUM,
)
from flinkpy.sql.parser.tokens import RESERVED_KEYWORDS

_ARGUMENT_SYNTAX = {
    "EXTRACT": (" FROM ",),
    "POSITION": (" IN ", " FROM "),
    "OVERLAY": (" PLACING ", " FROM ", " FOR "),
    "FLOOR": (" TO ",),
    "CEIL": (" TO ",),
}
_RANGES = (Between, Like, InList, InSubquery)
_COLLECTION_CALLS = (FunctionCall, ElementAccess, FieldAccess)


def spaced(*parts: str) -> str:
    """Returns the parts that are not empty with blanks between them."""
    return " ".join(part for part in parts if part)


def quoted_string(value: str) -> str:
    """Returns a string in single quotes."""
    return "'" + value.replace("'", "''") + "'"


def name(part: str, quoted: bool) -> str:
    """Returns one part of a name, in backticks if it was or has to be."""
    if not quoted and is_plain_name(part):
        return part
    return "`" + part.replace("`", "``") + "`"


def is_plain_name(part: str) -> bool:
    """True if a name needs no backticks."""
    return WORD.fullmatch(part) is not None and part != "$" and part.upper() not in RESERVED_KEYWORDS


def unparse(node: Node) -> str:
    """Returns the text of a statement, query, expression or any other node."""
    return WRITERS[type(node)](node)


def _all(nodes: tuple[Node, ...]) -> str:
    return ", ".join(unparse(node) for node in nodes)


def _power(node: Expression) -> int:
    """Returns how tightly the outermost operator of an expression binds."""
    if isinstance(node, BinaryOperation):
        operator = node.operator
        if operator.startswith("IS "):
            return COMPARISON
        return POWERS[operator.removeprefix("NOT ").split(" ")[0]]
    if isinstance(node, LogicalOperation):
        return POWERS[node.operator]
    if isinstance(node, UnaryOperation):
        return NOT if node.operator == "NOT" else SIGN
    if isinstance(node, IsPredicate):
        return IS
    if isinstance(node, _RANGES):
        return RANGE
    if isinstance(node, QuantifiedComparison):
        return COMPARISON
    return ATOM


def _operand(node: Expression, power: int) -> str:
    """Returns the text of an operand, in parentheses if its operator binds looser than `power`."""
    text = unparse(node)
    return f"({text})" if _power(node) < power else text


# Names and literals --------------------------------------------------------------------------------------------------


def _identifier(node: Identifier) -> str:
    return ".".join(name(part, quoted) for part, quoted in zip(node.parts, node.quoted, strict=True))


def _call_name(node: Identifier, has_parentheses: bool) -> str:
    """Returns the name of a function. Names of built-in functions are keywords, but need no backticks."""
    if len(node.parts) == 1 and not node.quoted[0] and node.parts[0].upper() in RESERVED_KEYWORDS:
        return node.parts[0]
    return _identifier(node)


def _string(node: StringLiteral) -> str:
    prefix = "" if node.charset is None else "N" if node.charset == "N" else f"_{node.charset}"
    return prefix + quoted_string(node.value)


def _boolean(node: BooleanLiteral) -> str:
    return "UNKNOWN" if node.value is None else "TRUE" if node.value else "FALSE"


def _timestamp(node: TimestampLiteral) -> str:
    zone = "WITH LOCAL TIME ZONE" if node.zone else ""
    return spaced("TIMESTAMP", zone, quoted_string(node.text))


def _interval(node: IntervalLiteral) -> str:
    sign = "-" if node.negative else ""
    return f"INTERVAL {sign}{quoted_string(node.text)} {unparse(node.qualifier)}"


def _interval_expression(node: IntervalExpression) -> str:
    operand = unparse(node.operand)
    if not isinstance(node.operand, (Identifier, IntegerLiteral, DecimalLiteral, DoubleLiteral)):
        operand = f"({operand})"
    return f"INTERVAL {operand} {unparse(node.qualifier)}"


def _qualifier(node: IntervalQualifier) -> str:
    precisions = []
    if node.start_precision is not None:
        precisions.append(str(node.start_precision))
        if node.start == "SECOND" and node.fraction_precision is not None:
            precisions.append(str(node.fraction_precision))
    text = node.start + (f"({', '.join(precisions)})" if precisions else "")
    if node.end is None:
        return text
    fraction = f"({node.fraction_precision})" if node.fraction_precision is not None else ""
    return f"{text} TO {node.end}{fraction}"


# Operators -----------------------------------------------------------------------------------------------------------


def _binary(node: BinaryOperation) -> str:
    # Long chains are deep on the left, so that side is a loop.
    parts: list[str] = []
    left: Expression = node
    required = 0
    while isinstance(left, BinaryOperation) and _power(left) >= required:
        required = _power(left)
        parts.append(_operand(left.right, required + 1))
        parts.append(left.operator)
        left = left.left
    parts.append(_operand(left, required))
    return " ".join(reversed(parts))


def _logical(node: LogicalOperation) -> str:
    power = _power(node) + 1
    return f" {node.operator} ".join(_operand(each, power) for each in node.operands)


def _unary(node: UnaryOperation) -> str:
    if node.operator == "NOT":
        return f"NOT {_operand(node.operand, NOT)}"
    # Two signs side by side would begin a comment.
    return node.operator + _operand(node.operand, SIGN + 1)


def _is(node: IsPredicate) -> str:
    operand = _operand(node.operand, IS)
    if node.test == "FORMAT JSON":
        return f"{operand} FORMAT JSON"
    return spaced(operand, "IS", "NOT" if node.negated else "", node.test)


def _negation(negated: bool) -> str:
    return "NOT" if negated else ""


def _between(node: Between) -> str:
    return spaced(
        _operand(node.operand, RANGE),
        _negation(node.negated),
        "BETWEEN",
        "SYMMETRIC" if node.symmetric else "",
        f"{_operand(node.low, SUM)} AND {_operand(node.high, SUM)}",
    )


def _like(node: Like) -> str:
    return spaced(
        _operand(node.operand, RANGE),
        _negation(node.negated),
        node.operator,
        _operand(node.pattern, SUM),
        f"ESCAPE {_operand(node.escape, SUM)}" if node.escape is not None else "",
    )


def _in_list(node: InList) -> str:
    return spaced(_operand(node.operand, RANGE), _negation(node.negated), f"IN ({_all(node.values)})")


def _in_subquery(node: InSubquery) -> str:
    return spaced(_operand(node.operand, RANGE), _negation(node.negated), f"IN ({unparse(node.query)})")


def _quantified(node: QuantifiedComparison) -> str:
    inner = _all(node.values) if node.query is None else unparse(node.query)
    return f"{_operand(node.operand, COMPARISON)} {node.operator} {node.quantifier} ({inner})"


def _accessed(node: Expression, *, by_name: bool) -> str:
    """Returns the text of what stands before `[` or `.`."""
    text = unparse(node)
    plain = isinstance(node, _COLLECTION_CALLS) or (isinstance(node, Identifier) and not by_name)
    if isinstance(node, FunctionCall) and (node.over is not None or not node.has_parentheses):
        plain = False
    return text if plain else f"({text})"


# Types ---------------------------------------------------------------------------------------------------------------


def _nullability(node: DataType) -> str:
    nullable: bool | None = getattr(node, "nullable", None)
    return "" if nullable is None else "NULL" if nullable else "NOT NULL"


def _simple_type(node: SimpleType) -> str:
    parameters = f"({', '.join(map(str, node.parameters))})" if node.parameters else ""
    short = "TIMESTAMP_LTZ" if node.name == "TIMESTAMP WITH LOCAL TIME ZONE" else node.name
    word, _, zone = short.partition(" ")
    return spaced(word + parameters, zone, _nullability(node))


def _fields(fields: tuple[RowField, ...]) -> str:
    return ", ".join(
        spaced(unparse(each.name), unparse(each.type), quoted_string(each.comment) if each.comment is not None else "")
        for each in fields
    )


def _structured(node: StructuredType) -> str:
    fields = f", {_fields(node.fields)}" if node.fields else ""
    return spaced(f"STRUCTURED<{quoted_string(node.class_name)}{fields}>", _nullability(node))


def _raw(node: RawType) -> str:
    return spaced(f"RAW({quoted_string(node.class_name)}, {quoted_string(node.serializer)})", _nullability(node))


# Calls ---------------------------------------------------------------------------------------------------------------


def _function_call(node: FunctionCall) -> str:
    called = _call_name(node.name, node.has_parentheses)
    if not node.has_parentheses:
        return called
    unquoted = len(node.name.parts) == 1 and not node.name.quoted[0]
    function = node.function if unquoted else ""
    if function in ("RUNNING", "FINAL") and len(node.arguments) == 1 and isinstance(node.arguments[0], FunctionCall):
        return f"{called} {unparse(node.arguments[0])}"
    if function in _ARGUMENT_SYNTAX:
        arguments = _with_words(node.arguments, _ARGUMENT_SYNTAX[function])
    else:
        arguments = _all(node.arguments)
    nulls = "" if node.ignore_nulls is None else "IGNORE NULLS" if node.ignore_nulls else "RESPECT NULLS"
    # IGNORE NULLS inside of the parentheses is the same as behind them, unless ORDER BY follows.
    inside = spaced(
        node.quantifier or "",
        arguments,
        nulls if node.order_by else "",
        f"ORDER BY {_all(node.order_by)}" if node.order_by else "",
    )
    return spaced(
        f"{called}({inside})",
        "" if node.order_by else nulls,
        f"WITHIN GROUP (ORDER BY {_all(node.within_group)})" if node.within_group else "",
        _filter_and_over(node),
    )


def _with_words(arguments: tuple[Expression, ...], words: tuple[str, ...]) -> str:
    """Returns arguments with words between them instead of commas."""
    first = _operand(arguments[0], SIGN) if words[0] == " IN " else unparse(arguments[0])
    return first + "".join(word + unparse(argument) for word, argument in zip(words, arguments[1:], strict=False))


def _filter_and_over(node: FunctionCall | JsonObject | JsonArray) -> str:
    return spaced(
        f"FILTER (WHERE {unparse(node.filter)})" if node.filter is not None else "",
        f"OVER {unparse(node.over)}" if node.over is not None else "",
    )


def _table_argument(node: TableArgument) -> str:
    query = unparse(node.query)
    return spaced(
        query if isinstance(node.query, ExplicitTable) else f"({query})",
        f"PARTITION BY ({_all(node.partition_by)})" if node.partition_by else "",
        f"ORDER BY ({_all(node.order_by)})" if node.order_by else "",
    )


def _trim(node: Trim) -> str:
    if node.characters is None and node.mode == "BOTH":
        return f"TRIM({unparse(node.operand)})"
    characters = unparse(node.characters) if node.characters is not None else ""
    return f"TRIM({spaced(node.mode, characters, 'FROM', unparse(node.operand))})"


def _window(node: WindowSpecification) -> str:
    partial = "" if node.allow_partial is None else "ALLOW PARTIAL" if node.allow_partial else "DISALLOW PARTIAL"
    inside = spaced(
        unparse(node.reference) if node.reference else "",
        f"PARTITION BY {_all(node.partition_by)}" if node.partition_by else "",
        f"ORDER BY {_all(node.order_by)}" if node.order_by else "",
        unparse(node.frame) if node.frame else "",
        partial,
    )
    return f"({inside})"


def _frame(node: WindowFrame) -> str:
    if node.end is None:
        return f"{node.unit} {unparse(node.start)}"
    return f"{node.unit} BETWEEN {unparse(node.start)} AND {unparse(node.end)}"


def _bound(node: FrameBound) -> str:
    return node.kind if node.offset is None else f"{_operand(node.offset, SUM)} {node.kind}"


def _order_item(node: OrderItem) -> str:
    direction = "" if node.descending is None else "DESC" if node.descending else "ASC"
    nulls = "" if node.nulls_first is None else "NULLS FIRST" if node.nulls_first else "NULLS LAST"
    return spaced(unparse(node.expression), direction, nulls)


def _case(node: Case) -> str:
    return spaced(
        "CASE",
        unparse(node.operand) if node.operand is not None else "",
        " ".join(unparse(branch) for branch in node.branches),
        f"ELSE {unparse(node.otherwise)}" if node.otherwise is not None else "",
        "END",
    )


def _cast(node: Cast) -> str:
    function = "TRY_CAST" if node.is_try else "CAST"
    return f"{function}({unparse(node.operand)} AS {unparse(node.type)})"


def _json_behaviors(node: JsonValue | JsonQuery) -> str:
    return spaced(
        f"{unparse(node.on_empty)} ON EMPTY" if node.on_empty else "",
        f"{unparse(node.on_error)} ON ERROR" if node.on_error else "",
    )


def _json_value(node: JsonValue) -> str:
    returning = f"RETURNING {unparse(node.returning)}" if node.returning else ""
    arguments = f"{unparse(node.document)}, {unparse(node.path)}"
    return f"JSON_VALUE({spaced(arguments, returning, _json_behaviors(node))})"


def _json_query(node: JsonQuery) -> str:
    returning = f"RETURNING {unparse(node.returning)}" if node.returning else ""
    wrapper = ""
    if node.wrapper is not None:
        wrapper = "WITHOUT WRAPPER" if node.wrapper == "WITHOUT" else f"WITH {node.wrapper} WRAPPER"
    arguments = f"{unparse(node.document)}, {unparse(node.path)}"
    return f"JSON_QUERY({spaced(arguments, returning, wrapper, _json_behaviors(node))})"


def _json_exists(node: JsonExists) -> str:
    on_error = f"{unparse(node.on_error)} ON ERROR" if node.on_error else ""
    return f"JSON_EXISTS({spaced(f'{unparse(node.document)}, {unparse(node.path)}', on_error)})"


def _null_clause(absent: bool | None) -> str:
    return "" if absent is None else "ABSENT ON NULL" if absent else "NULL ON NULL"


def _json_object(node: JsonObject) -> str:
    function = "JSON_OBJECTAGG" if node.is_aggregate else "JSON_OBJECT"
    inside = spaced(_all(node.entries), _null_clause(node.absent_on_null))
    return spaced(f"{function}({inside})", _filter_and_over(node))


def _json_array(node: JsonArray) -> str:
    function = "JSON_ARRAYAGG" if node.is_aggregate else "JSON_ARRAY"
    order_by = f"ORDER BY {_all(node.order_by)}" if node.order_by else ""
    inside = spaced(_all(node.values), order_by, _null_clause(node.absent_on_null))
    return spaced(f"{function}({inside})", _filter_and_over(node))


#: Functions that write nodes, by their type. Those of queries and statements are added by `unparse`.
WRITERS: dict[type, Callable[[Any], str]] = {
    Identifier: _identifier,
    # Literals
    IntegerLiteral: lambda node: str(node.value),
    DecimalLiteral: lambda node: node.text,
    DoubleLiteral: lambda node: node.text,
    StringLiteral: _string,
    BinaryLiteral: lambda node: f"X'{node.value.hex().upper()}'",
    BooleanLiteral: _boolean,
    NullLiteral: lambda node: "NULL",
    DefaultValue: lambda node: "DEFAULT",
    DateLiteral: lambda node: f"DATE {quoted_string(node.text)}",
    TimeLiteral: lambda node: f"TIME {quoted_string(node.text)}",
    TimestampLiteral: _timestamp,
    IntervalLiteral: _interval,
    IntervalExpression: _interval_expression,
    IntervalDifference: lambda node: (
        f"({_operand(node.left, SUM)} - {_operand(node.right, SUM + 1)}) {unparse(node.qualifier)}"
    ),
    IntervalQualifier: _qualifier,
    TimeUnit: lambda node: node.name if WORD.fullmatch(node.name) else name(node.name, True),
    DynamicParameter: lambda node: "?",
    # Operators
    UnaryOperation: _unary,
    BinaryOperation: _binary,
    LogicalOperation: _logical,
    IsPredicate: _is,
    Between: _between,
    Like: _like,
    InList: _in_list,
    InSubquery: _in_subquery,
    Exists: lambda node: f"EXISTS ({unparse(node.query)})",
    UniquePredicate: lambda node: f"UNIQUE ({unparse(node.query)})",
    QuantifiedComparison: _quantified,
    ScalarSubquery: lambda node: f"({unparse(node.query)})",
    ElementAccess: lambda node: f"{_accessed(node.collection, by_name=False)}[{unparse(node.index)}]",
    FieldAccess: lambda node: f"{_accessed(node.operand, by_name=True)}.{unparse(node.field)}",
    Star: lambda node: f"{unparse(node.qualifier)}.*" if node.qualifier else "*",
    RowConstructor: lambda node: f"{'ROW' if node.explicit else ''}({_all(node.values)})",
    CollectionConstructor: lambda node: f"{node.kind}[{_all(node.values)}]",
    CollectionSubquery: lambda node: f"{node.kind}({unparse(node.query)})",
    WhenBranch: lambda node: f"WHEN {_all(node.conditions)} THEN {unparse(node.result)}",
    Case: _case,
    Cast: _cast,
    # Calls
    OrderItem: _order_item,
    FrameBound: _bound,
    WindowFrame: _frame,
    WindowSpecification: _window,
    NamedArgument: lambda node: f"{unparse(node.name)} => {unparse(node.value)}",
    TableArgument: _table_argument,
    DescriptorColumn: lambda node: unparse(node.name),
    Descriptor: lambda node: f"DESCRIPTOR({_all(node.columns)})",
    ModelReference: lambda node: f"MODEL {unparse(node.name)}",
    FunctionCall: _function_call,
    Trim: _trim,
    JsonBehavior: lambda node: spaced(node.kind, unparse(node.value) if node.value is not None else ""),
    JsonExists: _json_exists,
    JsonValue: _json_value,
    JsonQuery: _json_query,
    JsonEntry: lambda node: f"KEY {unparse(node.key)} VALUE {unparse(node.value)}",
    JsonObject: _json_object,
    JsonArray: _json_array,
    # Types
    SimpleType: _simple_type,
    CollectionType: lambda node: spaced(f"{node.name}<{unparse(node.element)}>", _nullability(node)),
    MapType: lambda node: spaced(f"MAP<{unparse(node.key)}, {unparse(node.value)}>", _nullability(node)),
    RowField: lambda node: _fields((node,)),
    RowType: lambda node: spaced(f"ROW<{_fields(node.fields)}>", _nullability(node)),
    StructuredType: _structured,
    RawType: _raw,
    IntervalType: lambda node: f"INTERVAL {unparse(node.qualifier)}",
    NamedType: lambda node: spaced(unparse(node.name), _nullability(node)),
}
