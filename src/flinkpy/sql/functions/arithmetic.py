"""Arithmetic: operators and mathematical functions of numbers. Integers wrap around, as in Java.

Source: org.apache.flink.table.planner.codegen.calls.ScalarOperatorGens, org.apache.flink.table.runtime.functions.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import TableRuntimeError
from flinkpy.sql.functions import decimals, instants
from flinkpy.sql.functions.definition import Inference
from flinkpy.sql.functions.kernel_call import KernelCall, as_array
from flinkpy.sql.functions.registry import scalar, scalar_per_value
from flinkpy.sql.functions.results import DOUBLE, INT, STRING, argument, common_type, exactly
from flinkpy.sql.types import families as of
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types import merging
from flinkpy.sql.types.logical_types import TypeRoot as R

_CONTEXT = Context(prec=100)
_ADDITION = ("NUMERIC, NUMERIC", "INTERVAL_DAY_TIME, INTERVAL_DAY_TIME", "INTERVAL_YEAR_MONTH, INTERVAL_YEAR_MONTH")


def _is_decimal(types: tuple[lt.LogicalType, ...]) -> bool:
    return any(kind.root is R.DECIMAL for kind in types) and all(kind.root in of.EXACT_NUMERIC for kind in types)


def _arithmetic(find_decimal: Callable[[lt.LogicalType, lt.LogicalType], lt.DecimalType]) -> Any:
    def returns(call: Inference) -> lt.LogicalType:
        if _is_decimal(call.types):
            return find_decimal(*call.types).as_nullable(call.any_nullable)
        points = [kind for kind in call.types if kind.root in of.DATETIME]
        if points:
            return instants.moved_type(points[0], call)
        intervals = [kind for kind in call.types if kind.root in of.INTERVAL]
        if intervals:  # arithmetic gives intervals of the smallest unit
            is_months = intervals[0].root is R.INTERVAL_YEAR_MONTH
            smallest = lt.YearMonthIntervalType("MONTH") if is_months else lt.DayTimeIntervalType("SECOND", 2, 3)
            return smallest.as_nullable(call.any_nullable)
        return common_type(call.types)

    return returns


def _in_result_type(call: KernelCall, *operands: Any) -> list[Any]:
    wanted = call.arrow_type
    return [each if each.type == wanted else each.cast(wanted, safe=False) for each in operands]


def _durations(operand: Any) -> Any:
    """Returns intervals as numbers, because Arrow has no arithmetic with numbers and durations."""
    return operand.cast(pa.int64()) if pa.types.is_duration(operand.type) else operand


@scalar(
    "+",
    *_ADDITION,
    "DATETIME, INTERVAL",
    "INTERVAL, DATETIME",
    returns=_arithmetic(merging.find_addition_decimal_type),
    aliases=("PLUS",),
)
def plus(call: KernelCall, left: Any, right: Any) -> Any:
    if call.type.root is R.DECIMAL:
        return decimals.add(left, right, call.type)  # type: ignore[arg-type]
    for point, interval in ((0, 1), (1, 0)):
        if call.argument_types[point].root in of.DATETIME:
            return instants.moved(call, (left, right)[point], (left, right)[interval], call.argument_types[interval], 1)
    if call.type.root in of.INTERVAL:
        return pc.add(_durations(left), _durations(right)).cast(call.arrow_type)
    return pc.add(*_in_result_type(call, left, right))


@scalar(
    "-",
    *_ADDITION,
    "DATETIME, INTERVAL",
    "NUMERIC",
    "INTERVAL",
    returns=lambda call: (
        argument(0)(call)  # type: ignore[operator]
        if len(call.types) == 1
        else _arithmetic(merging.find_addition_decimal_type)(call)
    ),
    aliases=("MINUS", "NEGATE"),
)
def minus(call: KernelCall, left: Any, right: Any = None) -> Any:
    if right is None:
        return pc.negate(_durations(left)).cast(call.arrow_type)
    if call.type.root is R.DECIMAL:
        return decimals.subtract(left, right, call.type)  # type: ignore[arg-type]
    if call.argument_types[0].root in of.DATETIME:
        return instants.moved(call, left, right, call.argument_types[1], -1)
    if call.type.root in of.INTERVAL:
        return pc.subtract(_durations(left), _durations(right)).cast(call.arrow_type)
    return pc.subtract(*_in_result_type(call, left, right))


@scalar(
    "*",
    "NUMERIC, NUMERIC",
    "INTERVAL, NUMERIC",
    "NUMERIC, INTERVAL",
    returns=_arithmetic(merging.find_multiplication_decimal_type),
    aliases=("TIMES",),
)
def times(call: KernelCall, left: Any, right: Any) -> Any:
    if call.type.root is R.DECIMAL:
        return decimals.multiply(left, right, call.type)  # type: ignore[arg-type]
    if call.type.root in of.INTERVAL:
        left, right = _durations(left), _durations(right)
        product = pc.multiply(_exact(left), _exact(right))
        return product.cast(pa.int64(), safe=False).cast(call.arrow_type)
    return pc.multiply(*_in_result_type(call, left, right))


def _exact(operand: Any) -> Any:
    return operand.cast(pa.float64()) if pa.types.is_decimal(operand.type) else operand


@scalar(
    "/",
    "NUMERIC, NUMERIC",
    "INTERVAL, NUMERIC",
    returns=_arithmetic(merging.find_division_decimal_type),
    aliases=("DIVIDE",),
    may_fail=True,
)
def divide(call: KernelCall, left: Any, right: Any) -> Any:
    if call.type.root in of.APPROXIMATE_NUMERIC:
        return pc.divide(*_in_result_type(call, left, right))
    _refuse_zeros(left, right)
    if call.type.root is R.DECIMAL:
        return decimals.divide(left, right, call.type)  # type: ignore[arg-type]
    if call.type.root in of.INTERVAL:
        return pc.divide(_durations(left), _exact(right)).cast(pa.int64(), safe=False).cast(call.arrow_type)
    left, right = _in_result_type(call, left, right)
    quotient = pc.divide(left, right)
    # Arrow gives 0 for the smallest integer divided by -1, Java wraps around.
    if not _has(right, -1):
        return quotient
    return pc.if_else(pc.equal(right, pa.scalar(-1, right.type)), pc.negate(left), quotient)


def _has(operand: Any, number: int) -> bool:
    if isinstance(operand, pa.Scalar):
        return bool(operand.as_py() == number)
    smallest = pc.min(operand).as_py()
    return smallest is not None and smallest <= number and bool(pc.any(pc.equal(operand, number)).as_py())


def _refuse_zeros(left: Any, right: Any) -> None:
    """Raises if a divisor is 0 where the dividend is not null."""
    if isinstance(right, pa.Scalar):
        has_zero = right.is_valid and right.as_py() == 0
        if has_zero and isinstance(left, pa.Array):
            has_zero = left.null_count < len(left)
    else:
        zeros = pc.equal(right, pa.scalar(0, pa.int8()).cast(right.type))
        has_zero = bool(pc.any(zeros).as_py())
        if has_zero:
            divided = pc.and_(zeros, as_array(pc.is_valid(left), len(right)))
            has_zero = bool(pc.any(divided).as_py())
    if has_zero:
        raise TableRuntimeError("Division by zero")


def _modulo_type(call: Inference) -> lt.LogicalType:
    if _is_decimal(call.types):
        return merging.find_modulo_decimal_type(*call.types).as_nullable(call.any_nullable)
    return call.types[1].as_nullable(call.any_nullable)


@scalar("MOD", "EXACT_NUMERIC, EXACT_NUMERIC", returns=_modulo_type, aliases=("%",), may_fail=True)
def modulo(call: KernelCall, left: Any, right: Any) -> Any:
    _refuse_zeros(left, right)
    if call.type.root is R.DECIMAL:
        return decimals.remainder(left, right, call.type)  # type: ignore[arg-type]
    wide = max(left.type, right.type, key=lambda kind: kind.bit_width)
    left, right = left.cast(wide), right.cast(wide)
    # x - x / y * y has the sign of x, as in Java.
    rest = pc.subtract(left, pc.multiply(pc.divide(left, right), right))
    return rest.cast(call.arrow_type, safe=False)


# -- rounding -------------------------------------------------------------------------------------------------------


def _sign_type(call: Inference) -> lt.LogicalType:
    return call.types[0]


@scalar("ABS", "NUMERIC", "INTERVAL", returns=_sign_type)
def absolute(call: KernelCall, value: Any) -> Any:
    return pc.abs(_durations(value)).cast(call.arrow_type)


@scalar("SIGN", "NUMERIC", returns=_sign_type)
def sign(call: KernelCall, value: Any) -> Any:
    if call.type.root is R.DECIMAL:
        return call.per_value(lambda number: Decimal((number > 0) - (number < 0)), value)
    return pc.sign(value).cast(call.arrow_type)


def _whole_type(call: Inference) -> lt.LogicalType:
    kind = call.types[0]
    if isinstance(kind, lt.DecimalType):
        return lt.DecimalType(kind.precision, 0, nullable=kind.nullable)
    return kind.as_nullable(call.any_nullable)


def _whole(call: KernelCall, value: Any, unit: Any, is_ceil: bool) -> Any:
    if unit is not None:
        return instants.rounded(call, value, unit.as_py(), is_ceil)
    if call.type.root is R.DECIMAL:
        mode = ROUND_CEILING if is_ceil else ROUND_FLOOR
        return call.per_value(lambda number: number.to_integral_value(mode, _CONTEXT), value)
    if call.argument_types[0].root in of.APPROXIMATE_NUMERIC:
        return (pc.ceil if is_ceil else pc.floor)(value)
    return value


@scalar("FLOOR", "NUMERIC", "INTERVAL", "DATETIME, SYMBOL", returns=_whole_type)
def floor(call: KernelCall, value: Any, unit: Any = None) -> Any:
    return _whole(call, value, unit, False)


@scalar("CEIL", "NUMERIC", "INTERVAL", "DATETIME, SYMBOL", returns=_whole_type, aliases=("CEILING",))
def ceil(call: KernelCall, value: Any, unit: Any = None) -> Any:
    return _whole(call, value, unit, True)


def _round_type(call: Inference) -> lt.LogicalType:
    kind = call.types[0]
    if isinstance(kind, lt.DecimalType):
        digits = call.literal(1, 0 if len(call.types) == 1 else None)
        if digits is not None:
            found = merging.find_round_decimal_type(kind.precision, kind.scale, digits)
            return found.as_nullable(call.any_nullable)
    return kind.as_nullable(call.any_nullable)


def _to_digits(call: KernelCall, value: Any, digits: Any, mode: str) -> Any:
    """Rounds to a number of digits after the decimal point; a negative number counts those before it."""
    root = call.argument_types[0].root
    if root in of.INTEGER_NUMERIC and (digits is None or _is_not_negative(digits)):
        return value
    digits = pa.scalar(0, pa.int32()) if digits is None else digits

    def compute(number: Any, places: int) -> Any:
        if root in of.APPROXIMATE_NUMERIC:
            if not math.isfinite(number):
                return number
            # BigDecimal.valueOf takes the shortest text of a double, and so does repr.
            text = repr(number) if root is R.DOUBLE else repr(float(str(np.float32(number))))
            return float(_quantized(Decimal(text), places, mode))
        if root in of.INTEGER_NUMERIC:
            return _wrapped(int(_quantized(Decimal(number), places, mode)), call.arrow_type.bit_width)
        rounded = _quantized(number, places, mode)
        kind = call.type
        assert isinstance(kind, lt.DecimalType)
        rounded = rounded.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, _CONTEXT)
        return rounded if abs(rounded) < Decimal(10) ** (kind.precision - kind.scale) else None

    return call.per_value(compute, value, digits)


def _is_not_negative(digits: Any) -> bool:
    return isinstance(digits, pa.Scalar) and digits.as_py() >= 0


def _quantized(number: Decimal, places: int, mode: str) -> Decimal:
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and -exponent <= places:
        return number
    return number.quantize(Decimal(1).scaleb(-places), mode, _CONTEXT)


def _wrapped(number: int, bits: int) -> int:
    return (number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


@scalar("ROUND", "NUMERIC, INTEGER?", returns=_round_type)
def round_(call: KernelCall, value: Any, digits: Any = None) -> Any:
    return _to_digits(call, value, digits, ROUND_HALF_UP)


@scalar("TRUNCATE", "NUMERIC, INTEGER?", returns=_round_type)
def truncate(call: KernelCall, value: Any, digits: Any = None) -> Any:
    return _to_digits(call, value, digits, ROUND_DOWN)


# -- functions of DOUBLE --------------------------------------------------------------------------------------------


def _double(name: str, compute: Callable[[Any], Any]) -> None:
    @scalar(name, "NUMERIC", returns=DOUBLE)
    def kernel(call: KernelCall, value: Any) -> Any:
        return compute(value.cast(pa.float64()))


def _numpy(compute: Callable[[np.ndarray], np.ndarray]) -> Callable[[Any], Any]:
    def kernel(value: Any) -> Any:
        with np.errstate(all="ignore"):
            numbers = compute(value.to_numpy(zero_copy_only=False))
        mask = value.is_null().to_numpy(zero_copy_only=False) if value.null_count else None
        return pa.array(numbers, pa.float64(), mask=mask)

    return kernel


_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "EXP": np.exp,
    "LN": np.log,
    "LOG2": lambda x: np.log(x) / np.log(2.0),
    "SINH": np.sinh,
    "TANH": np.tanh,
    "COSH": np.cosh,
    "COT": lambda x: 1.0 / np.tan(x),
    "DEGREES": lambda x: x * (180.0 / math.pi),
    "RADIANS": lambda x: x / 180.0 * math.pi,
    "LOG10": np.log10,
    "SIN": np.sin,
    "COS": np.cos,
    "TAN": np.tan,
    "ASIN": np.arcsin,
    "ACOS": np.arccos,
    "ATAN": np.arctan,
    "SQRT": np.sqrt,
}
for _name, _compute in _FUNCTIONS.items():
    _double(_name, _numpy(_compute))


def _floats(*operands: Any) -> list[Any]:
    return [each.cast(pa.float64()) for each in operands]


@scalar("POWER", "NUMERIC, NUMERIC", returns=DOUBLE)
def power(call: KernelCall, base: Any, exponent: Any) -> Any:
    return pc.power(*_floats(base, exponent))


@scalar("ATAN2", "NUMERIC, NUMERIC", returns=DOUBLE)
def atan2(call: KernelCall, y: Any, x: Any) -> Any:
    return pc.atan2(*_floats(y, x))


@scalar("LOG", "NUMERIC", "NUMERIC, NUMERIC", returns=DOUBLE)
def log(call: KernelCall, first: Any, second: Any = None) -> Any:
    if second is None:
        return pc.ln(first.cast(pa.float64()))
    base, number = _floats(first, second)
    return pc.divide(pc.ln(number), pc.ln(base))


@scalar("PI", "", returns=exactly(DOUBLE.not_null()))
def pi(call: KernelCall) -> Any:
    return pa.scalar(math.pi)


@scalar("E", "", returns=exactly(DOUBLE.not_null()))
def e(call: KernelCall) -> Any:
    return pa.scalar(math.e)


@scalar("RAND", "INTEGER?", returns=DOUBLE, is_deterministic=False)
def rand(call: KernelCall, seed: Any = None) -> Any:
    return pa.array(_generator(seed).random(call.num_rows))


@scalar("RAND_INTEGER", "INTEGER", "INTEGER, INTEGER", returns=INT, is_deterministic=False)
def rand_integer(call: KernelCall, first: Any, second: Any = None) -> Any:
    seed, bound = (None, first) if second is None else (first, second)
    bounds = as_array(bound, call.num_rows).to_numpy(zero_copy_only=False)
    if len(bounds) and bounds.min() <= 0:
        raise TableRuntimeError("bound must be positive")
    return pa.array(_generator(seed).integers(0, bounds, call.num_rows, dtype=np.int32))


def _generator(seed: Any) -> np.random.Generator:
    # Numbers of a seed differ from Flink's: they are those of NumPy, not of java.util.Random.
    start = None if seed is None else as_array(seed, 1)[0].as_py()
    return np.random.default_rng(start if start is None else abs(start)) if start is not None else _SHARED


_SHARED = np.random.default_rng(random.SystemRandom().getrandbits(64))


@scalar_per_value("BIN", "INTEGER_NUMERIC", returns=STRING)
def binary_text(number: int) -> str:
    return format(number & 0xFFFFFFFFFFFFFFFF, "b")


@scalar_per_value("HEX", "INTEGER_NUMERIC", "CHARACTER_STRING", returns=STRING)
def hex_text(value: int | str) -> str:
    if isinstance(value, str):
        return value.encode().hex().upper()
    return format(value & 0xFFFFFFFFFFFFFFFF, "X")
