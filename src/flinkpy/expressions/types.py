"""Types of expressions. They are known when a program is built, so type errors are raised there.

| functions | arguments | result |
|---|---|---|
| plus minus times divide mod | numbers | the wider integer; DOUBLE or FLOAT; a decimal by the rules of `decimals` |
| minusPrefix abs | a number | its type |
| floor ceil round | a number | its type; a decimal has only the remaining digits |
| equals notEquals lessThan ... in | values that can be compared: numbers, or values of one type | BOOLEAN |
| and or not isTrue isFalse | BOOLEAN | BOOLEAN |
| isNull isNotNull | anything | BOOLEAN |
| ifThenElse coalesce | values of one type, or numbers | the type that holds all |
| like startsWith endsWith | a STRING | BOOLEAN |
| substring upper lower trim concat | STRINGs | STRING |
| charLength | a STRING | INT |
| extract | a date or time | LONG |
| cast | anything | the given type |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flinkpy.common.errors import UserError
from flinkpy.common.typeinfo import BasicType, BasicTypeInfo, TypeInformation, Types
from flinkpy.expressions import decimals
from flinkpy.expressions.nodes import Alias, Call, ColumnReference, Expression, Literal

_INTEGERS = (BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG)
_FLOATS = (BasicType.FLOAT, BasicType.DOUBLE)
_ARITHMETIC = {
    "plus": decimals.plus,
    "minus": decimals.plus,
    "times": decimals.times,
    "divide": decimals.divide,
    "mod": decimals.remainder,
}
_COMPARISONS = frozenset({"equals", "notEquals", "lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual"})


def result_type(expression: Expression, columns: Mapping[str, TypeInformation]) -> TypeInformation:
    """Returns the type of an expression over a stream with these columns.

    Raises:
        UserError: a column does not exist, or a function does not accept its arguments.
    """
    if isinstance(expression, ColumnReference):
        if expression.name not in columns:
            raise UserError(f"there is no column {expression.name!r}; the columns are {', '.join(map(repr, columns))}")
        return columns[expression.name]
    if isinstance(expression, Literal):
        return expression.type
    if isinstance(expression, Alias):
        return result_type(expression.expression, columns)
    assert isinstance(expression, Call)
    rule = _RULES.get(expression.function)
    if rule is None:
        raise UserError(f"{expression}: there is no function {expression.function!r}")
    return rule(expression, [result_type(argument, columns) for argument in expression.arguments])


def is_number(type_info: TypeInformation) -> bool:
    return isinstance(type_info, BasicTypeInfo) and type_info.basic_type in (*_INTEGERS, *_FLOATS, BasicType.BIG_DEC)


def is_integer(type_info: TypeInformation) -> bool:
    return isinstance(type_info, BasicTypeInfo) and type_info.basic_type in _INTEGERS


def is_decimal(type_info: TypeInformation) -> bool:
    return isinstance(type_info, BasicTypeInfo) and type_info.basic_type is BasicType.BIG_DEC


def literal_digits(argument: Expression, type_info: TypeInformation) -> tuple[int, int] | None:
    """Returns the result of `decimals.digits_of`. A literal integer counts only with its own digits."""
    if isinstance(argument, Literal) and is_integer(type_info) and argument.value is not None:
        return len(str(abs(argument.value))), 0
    return decimals.digits_of(type_info)


def common_type(types: list[TypeInformation]) -> TypeInformation | None:
    """Returns a type that holds the values of all types, or None if there is none."""
    common = types[0]
    for other in types[1:]:
        if other == common:
            continue
        if not (is_number(common) and is_number(other)):
            return None
        common = _wider(common, other)
    return common


def _wider(one: TypeInformation, other: TypeInformation) -> TypeInformation:
    assert isinstance(one, BasicTypeInfo) and isinstance(other, BasicTypeInfo)
    kinds = (one.basic_type, other.basic_type)
    if BasicType.BIG_DEC in kinds:
        digits = decimals.digits_of(one), decimals.digits_of(other)
        if digits[0] is None or digits[1] is None:
            return Types.DOUBLE()
        return decimals.common(digits[0], digits[1])
    order = (*_INTEGERS, *_FLOATS)
    return BasicTypeInfo(max(kinds, key=order.index))


def _arithmetic(call: Call, types: list[TypeInformation]) -> TypeInformation:
    for argument, type_info in zip(call.arguments, types):
        if not is_number(type_info):
            raise UserError(f"{call}: {argument} is a {type_info!r}, not a number")
    if call.options:
        # Decimals only: the type to which the result is rounded.
        return call.options[0]  # type: ignore[no-any-return]
    if not any(map(is_decimal, types)):
        return _wider(types[0], types[1])
    one, other = (literal_digits(argument, kind) for argument, kind in zip(call.arguments, types))
    if one is None or other is None:
        return Types.DOUBLE()
    return _ARITHMETIC[call.function](one, other)


def _one_number(call: Call, types: list[TypeInformation]) -> TypeInformation:
    if not is_number(types[0]):
        raise UserError(f"{call}: {call.arguments[0]} is a {types[0]!r}, not a number")
    digits = decimals.digits_of(types[0])
    if digits is None or not is_decimal(types[0]):
        return types[0]
    if call.function == "round":
        return decimals.rounded(digits, call.options[0])
    return decimals.whole(digits) if call.function in ("floor", "ceil") else types[0]


def _comparison(call: Call, types: list[TypeInformation]) -> TypeInformation:
    if common_type(types) is None:
        shown = ", ".join(f"{argument} is a {kind!r}" for argument, kind in zip(call.arguments, types))
        raise UserError(f"{call}: the values cannot be compared: {shown}; cast one of them")
    return Types.BOOLEAN()


def _in(call: Call, types: list[TypeInformation]) -> TypeInformation:
    for argument in call.arguments[1:]:
        if not isinstance(argument, Literal):
            raise UserError(f"{call}: in_ takes only literals, but {argument} is not a literal")
    return _comparison(call, types)


def _logic(call: Call, types: list[TypeInformation]) -> TypeInformation:
    return _checked(call, types, Types.BOOLEAN(), Types.BOOLEAN())


def _anything_to_boolean(call: Call, types: list[TypeInformation]) -> TypeInformation:
    return Types.BOOLEAN()


def _if_then_else(call: Call, types: list[TypeInformation]) -> TypeInformation:
    if types[0] != Types.BOOLEAN():
        raise UserError(f"{call}: the condition {call.arguments[0]} is a {types[0]!r}, not a BOOLEAN")
    return _one_type(call, types[1:])


def _one_type(call: Call, types: list[TypeInformation]) -> TypeInformation:
    common = common_type(types)
    if common is None:
        raise UserError(f"{call}: the values have no common type: {types!r}; cast some of them")
    return common


def _strings(gives: TypeInformation) -> Callable[[Call, list[TypeInformation]], TypeInformation]:
    return lambda call, types: _checked(call, types, Types.STRING(), gives)


def _checked(
    call: Call, types: list[TypeInformation], taken: TypeInformation, given: TypeInformation
) -> TypeInformation:
    for argument, type_info in zip(call.arguments, types):
        if type_info != taken:
            raise UserError(f"{call}: {argument} is a {type_info!r}, not a {taken!r}")
    return given


def _extract(call: Call, types: list[TypeInformation]) -> TypeInformation:
    unit = call.options[0]
    is_date, is_time = types[0] == Types.SQL_DATE(), types[0] == Types.SQL_TIME()
    if not (is_date or is_time or types[0] in (Types.SQL_TIMESTAMP(), Types.INSTANT())):
        raise UserError(f"{call}: {call.arguments[0]} is a {types[0]!r}, not a date or time")
    has_time_of_day = unit in ("HOUR", "MINUTE", "SECOND")
    if (is_date and has_time_of_day) or (is_time and not has_time_of_day):
        raise UserError(f"{call}: a {types[0]!r} has no {unit}")
    return Types.LONG()


def _cast(call: Call, types: list[TypeInformation]) -> TypeInformation:
    wanted = call.options[0]
    if not isinstance(wanted, TypeInformation):
        raise UserError(f"{call}: cast takes a type such as Types.LONG(), not {wanted!r}")
    return wanted


_RULES: dict[str, Callable[[Call, list[TypeInformation]], TypeInformation]] = {
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys(("minusPrefix", "abs", "floor", "ceil", "round"), _one_number),
    **dict.fromkeys(_COMPARISONS, _comparison),
    **dict.fromkeys(("and", "or", "not", "isTrue", "isFalse"), _logic),
    **dict.fromkeys(("isNull", "isNotNull"), _anything_to_boolean),
    **dict.fromkeys(("like", "startsWith", "endsWith"), _strings(Types.BOOLEAN())),
    **dict.fromkeys(("substring", "upper", "lower", "trim", "concat"), _strings(Types.STRING())),
    "charLength": _strings(Types.INT()),
    "in": _in,
    "ifThenElse": _if_then_else,
    "coalesce": _one_type,
    "extract": _extract,
    "cast": _cast,
}


def output_columns(expressions: Any, columns: Mapping[str, TypeInformation], where: str) -> dict[str, TypeInformation]:
    """Returns names and types of the columns that `Alias` nodes create.

    Raises:
        UserError: two columns have the same name, or see `result_type`. The message begins with `where`.
    """
    made: dict[str, TypeInformation] = {}
    for expression in expressions:
        try:
            made_type = result_type(expression, columns)
        except UserError as error:
            raise UserError(f"{where}: {error.message}") from None
        if expression.name in made:
            raise UserError(f"{where}: two columns have the name {expression.name!r}; give one of them an alias")
        made[expression.name] = made_type
    return made
