"""Evaluates expressions with Arrow: whole columns at a time, without a Python object per row.

Nulls have the meaning of SQL: a function of null is null, `and` and `or` have three values, and a condition that is
null is not fulfilled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import UserError
from flinkpy.common.typeinfo import DecimalTypeInfo, TypeInformation, Types
from flinkpy.expressions import arrow_numbers as numbers
from flinkpy.expressions.arrow_decimals import Value, fitted
from flinkpy.expressions.nodes import Alias, Call, ColumnReference, Expression, Literal, walk
from flinkpy.expressions.types import common_type, is_decimal, is_number, literal_digits, result_type

#: Computes the value of an expression for a batch. The second argument caches shared parts by their keys.
_Compute = Callable[[pa.RecordBatch, dict[Any, Any]], Value]


class Evaluator:
    """Evaluates expressions over columns of known types.

    Args:
        expressions: the expressions.
        columns: names and types of the columns of the batches.

    Raises:
        UserError: see `result_type`.
    """

    def __init__(self, expressions: Iterable[Expression], columns: Mapping[str, TypeInformation]) -> None:
        wanted = list(expressions)
        self._columns = columns
        keys = Counter(node.key() for each in wanted for node in walk(each) if isinstance(node, Call))
        self._shared = {key for key, times in keys.items() if times > 1}
        self._types = [arrow_type(result_type(each, columns)) for each in wanted]
        self._computes = [self._compile(each) for each in wanted]

    def evaluate(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Returns one column per expression, with the rows of the batch."""
        memo: dict[Any, Any] = {}
        return [
            _column(compute(batch, memo), wanted, batch.num_rows)
            for compute, wanted in zip(self._computes, self._types)
        ]

    def _compile(self, expression: Expression) -> _Compute:
        if isinstance(expression, Alias):
            return self._compile(expression.expression)
        if isinstance(expression, ColumnReference):
            name = expression.name
            return lambda batch, memo: batch.column(name)
        if isinstance(expression, Literal):
            scalar = literal_scalar(expression)
            return lambda batch, memo: scalar
        assert isinstance(expression, Call)
        compute = self._call(expression)
        key = expression.key()
        if key not in self._shared:
            return compute

        def once(batch: pa.RecordBatch, memo: dict[Any, Any]) -> Value:
            if key not in memo:
                memo[key] = compute(batch, memo)
            return memo[key]

        return once

    def _call(self, call: Call) -> _Compute:
        gives = result_type(call, self._columns)
        types = [result_type(argument, self._columns) for argument in call.arguments]
        arguments = [self._compile(argument) for argument in call.arguments]
        function = call.function
        if function in numbers.ARITHMETIC:
            return self._arithmetic(call, types, gives)
        if function in _COMPARE:
            compare = _COMPARE[function]
            one, other = self._comparable(call, types)
            return lambda batch, memo: compare(one(batch, memo), other(batch, memo))
        if function in ("ifThenElse", "coalesce"):
            wanted = arrow_type(gives)
            first = 1 if function == "ifThenElse" else 0
            arguments = [*arguments[:first], *(_to(argument, wanted) for argument in arguments[first:])]
        make = _FUNCTIONS[function]
        compute = make(call, gives)
        return lambda batch, memo: compute(*[argument(batch, memo) for argument in arguments])

    def _arithmetic(self, call: Call, types: list[TypeInformation], gives: TypeInformation) -> _Compute:
        function = numbers.ARITHMETIC[call.function]
        operands = []
        for argument, kind in zip(call.arguments, types):
            compute = self._compile(argument)
            if not is_decimal(gives):
                operands.append(_to(compute, arrow_type(gives)))
                continue
            digits = literal_digits(argument, kind)
            assert digits is not None
            operands.append(_to(compute, pa.decimal128(*digits)))
        one, other = operands
        return lambda batch, memo: function(one(batch, memo), other(batch, memo), gives)

    def _comparable(self, call: Call, types: list[TypeInformation]) -> list[_Compute]:
        """Returns both sides of a comparison, converted to one type."""
        common = common_type(types)
        assert common is not None
        exact = [self._literal_as(argument, types[1 - i]) for i, argument in enumerate(call.arguments)]
        sides = []
        for i, argument in enumerate(call.arguments):
            if exact[i] is not None:
                sides.append(_constant(exact[i]))
            elif exact[1 - i] is not None:
                sides.append(self._compile(argument))
            else:
                sides.append(_to(self._compile(argument), _comparing_type(types, common)))
        return sides

    def _literal_as(self, argument: Expression, wanted: TypeInformation) -> pa.Scalar | None:
        """Returns a literal number as another type, or None if its value is not exact in that type."""
        if not isinstance(argument, Literal) or not is_number(wanted) or argument.value is None:
            return None
        if not is_decimal(wanted) and isinstance(argument.value, float):
            return None
        try:
            return pa.scalar(argument.value, arrow_type(argument.type)).cast(arrow_type(wanted))
        except pa.ArrowException:
            return None


def evaluate(expression: Expression, batch: pa.RecordBatch) -> pa.Array:
    """Returns the value of an expression for each row. The types are those of the schema of the batch.

    Raises:
        UserError: see `result_type`.
    """
    return Evaluator([expression], _types_of(batch)).evaluate(batch)[0]


def as_filter(expression: Expression, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Returns for each row whether the condition is true. Null counts as false."""
    return pc.fill_null(evaluate(expression, batch), False)


def arrow_type(type_info: TypeInformation) -> pa.DataType:
    from flinkpy.records.column_codecs import codec_of

    return codec_of(type_info).arrow_type


def literal_scalar(literal: Literal) -> pa.Scalar:
    """Returns a literal as an Arrow scalar. Raises: UserError, TypeMismatchError if it does not have its type."""
    if literal.value is None:
        return pa.scalar(None, arrow_type(literal.type))
    from flinkpy.records.lanes import columns_of

    return columns_of([(literal.value,)], Types.TUPLE([literal.type])).column(0)[0]


def _types_of(batch: pa.RecordBatch) -> dict[str, TypeInformation]:
    from flinkpy.records.lanes import type_info_of_arrow

    return {field.name: type_info_of_arrow(field.type, field.name) for field in batch.schema}


def _comparing_type(types: list[TypeInformation], common: TypeInformation) -> pa.DataType:
    """Returns a type that holds the values of both types exactly."""
    if not is_decimal(common):
        return arrow_type(common)
    digits = [numbers.digits(kind) for kind in types]
    scale = max(each[1] for each in digits)
    precision = max(each[0] - each[1] for each in digits) + scale
    return pa.decimal128(precision, scale) if precision <= DecimalTypeInfo.MAX_PRECISION else pa.decimal256(76, scale)


def _to(compute: _Compute, wanted: pa.DataType) -> _Compute:
    def converted(batch: pa.RecordBatch, memo: dict[Any, Any]) -> Value:
        return numbers.widened(compute(batch, memo), wanted)

    return converted


def _constant(scalar: pa.Scalar) -> _Compute:
    return lambda batch, memo: scalar


def _column(value: Value, wanted: pa.DataType, rows: int) -> pa.Array:
    if isinstance(value, pa.Scalar):
        value = pa.repeat(value, rows) if value.is_valid else pa.nulls(rows, value.type)
    if value.type == wanted:
        return value
    if pa.types.is_decimal(wanted) and pa.types.is_decimal(value.type):
        return fitted(value, DecimalTypeInfo(wanted.precision, wanted.scale))
    return value.cast(wanted)


def _in(call: Call, gives: TypeInformation) -> Callable[..., Value]:
    listed = [literal_scalar(argument) for argument in call.arguments[1:]]  # type: ignore[arg-type]
    values = [scalar for scalar in listed if scalar.is_valid]
    has_null = len(values) < len(listed)

    def is_in(value: Value, *_: Value) -> Value:
        found: Any = pa.scalar(False)
        for candidates in _by_type(values):
            one, other = numbers.same_type(value, candidates)
            found = pc.or_(found, pc.is_in(one, value_set=other))
        if has_null:
            found = pc.if_else(found, found, pa.scalar(None, pa.bool_()))
        return pc.if_else(pc.is_valid(value), found, pa.scalar(None, pa.bool_()))

    return is_in


def _by_type(scalars: list[pa.Scalar]) -> list[pa.Array]:
    types = dict.fromkeys(scalar.type for scalar in scalars)
    return [pa.array([each.as_py() for each in scalars if each.type == kind], kind) for kind in types]


def _if_then_else(call: Call, gives: TypeInformation) -> Callable[..., Value]:
    return lambda condition, yes, no: pc.if_else(pc.fill_null(condition, False), yes, no)


def _like(call: Call, gives: TypeInformation) -> Callable[..., Value]:
    return lambda text: pc.match_like(text, call.options[0])


def _substring(call: Call, gives: TypeInformation) -> Callable[..., Value]:
    begin, length = call.options
    stop = None if length is None else begin - 1 + length
    if length == 0:
        return lambda text: pc.if_else(pc.is_valid(text), pa.scalar(""), pa.scalar(None, pa.string()))
    return lambda text: pc.utf8_slice_codeunits(text, begin - 1, stop)


def _extract(call: Call, gives: TypeInformation) -> Callable[..., Value]:
    part = _PARTS[call.options[0]]
    return lambda value: part(value).cast(pa.int64())


def _cast(call: Call, gives: TypeInformation) -> Callable[..., Value]:
    wanted = arrow_type(gives)
    return lambda value: cast(value, wanted)


def _plain(function: Callable[..., Value]) -> Callable[[Call, TypeInformation], Callable[..., Value]]:
    return lambda call, gives: function


_COMPARE: dict[str, Callable[[Value, Value], Value]] = {
    "equals": pc.equal,
    "notEquals": pc.not_equal,
    "lessThan": pc.less,
    "lessThanOrEqual": pc.less_equal,
    "greaterThan": pc.greater,
    "greaterThanOrEqual": pc.greater_equal,
}
_PARTS: dict[str, Callable[[Value], Value]] = {
    "YEAR": pc.year,
    "QUARTER": pc.quarter,
    "MONTH": pc.month,
    "WEEK": pc.iso_week,
    "DAY": pc.day,
    "HOUR": pc.hour,
    "MINUTE": pc.minute,
    "SECOND": pc.second,
}
_FUNCTIONS: dict[str, Callable[[Call, TypeInformation], Callable[..., Value]]] = {
    "and": _plain(pc.and_kleene),
    "or": _plain(pc.or_kleene),
    "not": _plain(pc.invert),
    "isTrue": _plain(lambda value: pc.fill_null(value, False)),
    "isFalse": _plain(lambda value: pc.fill_null(pc.invert(value), False)),
    "isNull": _plain(pc.is_null),
    "isNotNull": _plain(pc.is_valid),
    "in": _in,
    "ifThenElse": _if_then_else,
    "coalesce": _plain(pc.coalesce),
    "like": _like,
    "startsWith": lambda call, gives: lambda text: pc.starts_with(text, call.options[0]),
    "endsWith": lambda call, gives: lambda text: pc.ends_with(text, call.options[0]),
    "substring": _substring,
    "upper": _plain(pc.utf8_upper),
    "lower": _plain(pc.utf8_lower),
    "trim": _plain(lambda text: pc.utf8_trim(text, " ")),
    "charLength": _plain(lambda text: pc.utf8_length(text).cast(pa.int32())),
    "concat": _plain(lambda *texts: pc.binary_join_element_wise(*texts, "", null_handling="emit_null")),
    "extract": _extract,
    "cast": _cast,
    **numbers.ONE_NUMBER,
}


_INTEGER = r"^[+-]?\d{1,18}$"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?$"
_DECIMAL = r"^[+-]?(\d{1,38}\.?\d{0,30}|\.\d{1,30})$"
_DAY = r"^\d+-\d+-(?P<day>\d{1,2})"
_TRUE_TEXTS = ["true", "t", "1", "yes", "y"]
_FALSE_TEXTS = ["false", "f", "0", "no", "n"]


def cast(value: Value, wanted: pa.DataType) -> Value:
    """Casts values to `wanted`. Malformed values become null, and too large integers wrap around.

    Raises:
        UserError: the types cannot be cast.
    """
    kind = value.type
    if kind == wanted:
        return value
    types = pa.types
    try:
        if types.is_string(kind):
            return _read(value, wanted)
        if types.is_decimal(wanted):
            return to_decimal(value, wanted)
        if types.is_integer(wanted):
            return _to_integer(value, wanted)
        if types.is_boolean(wanted) and types.is_decimal(kind):
            return pc.not_equal(value, pa.scalar(0, kind))
        return value.cast(wanted, safe=False)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise UserError(f"a {kind} cannot be cast to a {wanted}: {error}") from error


def to_decimal(value: Value, wanted: pa.DataType) -> Value:
    """Casts numbers to decimals, rounded half up."""
    kind = value.type
    types = pa.types
    result = DecimalTypeInfo(wanted.precision, wanted.scale)
    if types.is_boolean(kind):
        value = value.cast(pa.int8())
    if types.is_integer(value.type):
        return fitted(value.cast(pa.decimal128(19, 0)), result)
    if types.is_floating(kind):
        limit = 10.0 ** (wanted.precision - wanted.scale)
        fits = pc.and_(pc.is_finite(value), pc.less(pc.abs(value), limit))
        value = pc.if_else(fits, value, pa.scalar(None, kind)).cast(pa.float64())
        rounded = pc.round(value, min(wanted.scale, 300), "half_towards_infinity")
        return fitted(rounded.cast(pa.decimal256(76, wanted.scale)), result)
    return fitted(value, result)


def _to_integer(value: Value, wanted: pa.DataType) -> Value:
    kind = value.type
    if pa.types.is_floating(kind):
        # Like Java: a too large number becomes the largest integer, and NaN becomes 0.
        largest = 2 ** (wanted.bit_width - 1) - 1
        value = pc.if_else(pc.is_nan(value), pa.scalar(0.0, kind), pc.trunc(value))
        too_large = pc.greater_equal(value, pa.scalar(float(largest) + 1, kind) if wanted.bit_width > 53 else largest)
        too_small = pc.less_equal(value, float(-largest - 1))
        inside = pc.if_else(pc.or_(too_large, too_small), pa.scalar(0.0, kind), value).cast(wanted, safe=False)
        inside = pc.if_else(too_large, pa.scalar(largest, wanted), inside)
        return pc.if_else(too_small, pa.scalar(-largest - 1, wanted), inside)
    if pa.types.is_decimal(kind):
        whole = pc.trunc(value)
        limit = pa.scalar(2**63, pa.decimal128(38, 0))
        fits = pc.less(pc.abs(whole).cast(pa.decimal256(76, kind.scale)), limit.cast(pa.decimal256(76, kind.scale)))
        whole = pc.if_else(fits, whole, pa.scalar(None, kind))
        return whole.cast(pa.int64()).cast(wanted, safe=False)
    return value.cast(wanted, safe=False)


def _read(value: Value, wanted: pa.DataType) -> Value:
    types = pa.types
    text = pc.utf8_trim_whitespace(value)
    if types.is_boolean(wanted):
        lower = pc.utf8_lower(text)
        yes = pc.is_in(lower, value_set=pa.array(_TRUE_TEXTS))
        no = pc.is_in(lower, value_set=pa.array(_FALSE_TEXTS))
        return pc.if_else(pc.or_(yes, no), yes, pa.scalar(None, pa.bool_()))
    if types.is_integer(wanted):
        number = _matching(text, _INTEGER).cast(pa.int64())
        small = number.cast(wanted, safe=False)
        return pc.if_else(pc.equal(small.cast(pa.int64()), number), small, pa.scalar(None, wanted))
    if types.is_floating(wanted):
        return _matching(text, _NUMBER).cast(wanted)
    if types.is_decimal(wanted):
        exact = _matching(text, _DECIMAL).cast(pa.decimal256(76, 30))
        return fitted(exact, DecimalTypeInfo(wanted.precision, wanted.scale))
    if types.is_date(wanted):
        return _time(text, "%Y-%m-%d").cast(wanted)
    if types.is_timestamp(wanted):
        with_space = pc.replace_substring(text, "T", " ")
        whole = pc.utf8_slice_codeunits(with_space, 0, 19)
        return pc.coalesce(_time(whole, "%Y-%m-%d %H:%M:%S"), _time(whole, "%Y-%m-%d")).cast(wanted)
    return value.cast(wanted, safe=False)


def _time(text: Value, form: str) -> Any:
    """Parses times; null if malformed. Arrow accepts a 30th of February as a day in March; it is null here."""
    time = pc.strptime(text, format=form, unit="us", error_is_null=True)
    written = pc.struct_field(pc.extract_regex(text, _DAY), "day").cast(pa.int64())
    return pc.if_else(pc.equal(pc.day(time), written), time, pa.scalar(None, time.type))


def _matching(text: Value, pattern: str) -> Value:
    """Returns the texts that match, and null for others."""
    return pc.if_else(pc.match_substring_regex(text, pattern), text, pa.scalar(None, pa.string()))
