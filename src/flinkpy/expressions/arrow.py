"""Expressions computed with Arrow: whole columns at a time, no Python object per row.

Nulls are SQL's: a function of a null is null, `and` and `or` have three values, a condition that is null does not hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.typeinfo import DecimalTypeInfo, TypeInformation, Types
from flinkpy.expressions import arrow_numbers as numbers
from flinkpy.expressions.arrow_casts import cast
from flinkpy.expressions.arrow_decimals import Value, fitted
from flinkpy.expressions.nodes import Alias, Call, ColumnReference, Expression, Literal, walk
from flinkpy.expressions.types import common_type, is_decimal, is_number, literal_digits, result_type

#: The value of an expression for a batch; the other argument has what several expressions need, by their keys.
_Compute = Callable[[pa.RecordBatch, dict[Any, Any]], Value]


class Evaluator:
    """Expressions over columns of known types.

    Args:
        columns: types of the columns of the batches, which have them under these names in Arrow's form of these types.

    Raises: UserError: see `result_type`.
    """

    def __init__(self, expressions: Iterable[Expression], columns: Mapping[str, TypeInformation]) -> None:
        wanted = list(expressions)
        self._columns = columns
        keys = Counter(node.key() for each in wanted for node in walk(each) if isinstance(node, Call))
        self._shared = {key for key, times in keys.items() if times > 1}
        self._types = [arrow_type(result_type(each, columns)) for each in wanted]
        self._computes = [self._compile(each) for each in wanted]

    def evaluate(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """A column per expression, as long as the batch."""
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
        """Both sides as one type."""
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
        """A number that is a literal as one of another type, where it has exactly that value."""
        if not isinstance(argument, Literal) or not is_number(wanted) or argument.value is None:
            return None
        if not is_decimal(wanted) and isinstance(argument.value, float):
            return None
        try:
            return pa.scalar(argument.value, arrow_type(argument.type)).cast(arrow_type(wanted))
        except pa.ArrowException:
            return None


def evaluate(expression: Expression, batch: pa.RecordBatch) -> pa.Array:
    """The expression's value for each row. Types are those of the batch's own schema.

    Raises: UserError: see `result_type`.
    """
    return Evaluator([expression], _types_of(batch)).evaluate(batch)[0]


def as_filter(expression: Expression, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Whether the condition holds for each row; where it is null it does not."""
    return pc.fill_null(evaluate(expression, batch), False)


def arrow_type(type_info: TypeInformation) -> pa.DataType:
    from flinkpy.records.column_codecs import codec_of

    return codec_of(type_info).arrow_type


def literal_scalar(literal: Literal) -> pa.Scalar:
    """The value in Arrow's form of its type. Raises: UserError, TypeMismatchError: it is none of that type."""
    if literal.value is None:
        return pa.scalar(None, arrow_type(literal.type))
    from flinkpy.records.lanes import columns_of

    return columns_of([(literal.value,)], Types.TUPLE([literal.type])).column(0)[0]


def _types_of(batch: pa.RecordBatch) -> dict[str, TypeInformation]:
    from flinkpy.records.lanes import type_info_of_arrow

    return {field.name: type_info_of_arrow(field.type, field.name) for field in batch.schema}


def _comparing_type(types: list[TypeInformation], common: TypeInformation) -> pa.DataType:
    """A type in which both have exactly the values that they have."""
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
