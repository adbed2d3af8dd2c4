"""Decimal arithmetic of SQL: exact, rounded half up to the scale of the result, null if it has too many digits.

Most decimals have few digits. If the numbers of both operands and the result fit 64 bits, they are computed as 64-bit
integers, which takes a tenth of the time. Otherwise `flinkpy.expressions.arrow_decimals` computes with 128 or 256 bits.

Source: org.apache.flink.table.data.DecimalDataUtils.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.expressions import arrow_decimals
from flinkpy.records.numpy_dtypes import numpy_dtype
from flinkpy.sql.types import logical_types as lt

_LIMIT = 1 << 62
#: Powers of ten that fit 64 bits.
_MAX_SHIFT = 18


def as_decimal(operand: Any, kind: lt.LogicalType) -> Any:
    """Returns an exact number as an Arrow decimal."""
    if isinstance(kind, lt.DecimalType):
        return operand
    digits = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10}.get(operand.type, 19)
    return operand.cast(pa.decimal128(digits, 0))


def add(one: Any, other: Any, result: lt.DecimalType) -> Any:
    return _linear(one, other, result, np.add, arrow_decimals.add)


def subtract(one: Any, other: Any, result: lt.DecimalType) -> Any:
    return _linear(one, other, result, np.subtract, arrow_decimals.subtract)


def multiply(one: Any, other: Any, result: lt.DecimalType) -> Any:
    left, right = unscaled(one), unscaled(other)
    scale = _scale(one) + _scale(other)
    if left is None or right is None or scale != result.scale:
        return arrow_decimals.multiply(*_as_decimals(one, other), result)  # type: ignore[arg-type]
    if _largest(left) * _largest(right) < min(_LIMIT, 10**result.precision):
        return _decimals(left * right, (one, other), result)
    return arrow_decimals.multiply(*_as_decimals(one, other), result)  # type: ignore[arg-type]


def divide(one: Any, other: Any, result: lt.DecimalType) -> Any:
    """Divides. The divisor has no zeros."""
    return arrow_decimals.divide(*_as_decimals(one, other), result)  # type: ignore[arg-type]


def remainder(one: Any, other: Any, result: lt.DecimalType) -> Any:
    """Returns the remainder with the sign of the dividend. The divisor has no zeros."""
    return arrow_decimals.remainder(*_as_decimals(one, other), result)  # type: ignore[arg-type]


def fitted(value: Any, result: lt.DecimalType) -> Any:
    """Rounds half up to the scale of `result`. A value with too many digits becomes null."""
    return arrow_decimals.fitted(value, result)  # type: ignore[arg-type]


def unscaled(operand: Any) -> np.ndarray | None:
    """Returns exact numbers without their decimal point as int64; None if one does not fit. Those at nulls are any."""
    if isinstance(operand, pa.Scalar):
        number = operand.as_py()
        if number is None:
            return np.zeros(1, np.int64)
        shifted = int(number.scaleb(operand.type.scale)) if pa.types.is_decimal(operand.type) else int(number)
        return np.array([shifted], np.int64) if abs(shifted) < _LIMIT else None
    buffer = operand.buffers()[1]
    start, size = operand.offset, len(operand)
    if not pa.types.is_decimal(operand.type):
        dtype = numpy_dtype(operand.type)
        return np.frombuffer(buffer, dtype, start + size)[start:].astype(np.int64)
    if not pa.types.is_decimal128(operand.type):
        return None
    words = np.frombuffer(buffer, np.int64, 2 * (start + size))[2 * start :]
    low, high = words[0::2], words[1::2]
    if operand.null_count:
        valid = operand.is_valid().to_numpy(zero_copy_only=False)
        low, high = np.where(valid, low, 0), np.where(valid, high, 0)
    return low if np.array_equal(high, low >> 63) else None


def decimal_array(numbers: np.ndarray, kind: pa.DataType, validity: pa.Buffer | None = None) -> pa.Array:
    """Returns int64 numbers without their decimal point as decimals."""
    words = np.empty((len(numbers), 2), np.int64)
    words[:, 0] = numbers
    words[:, 1] = numbers >> 63
    return pa.Array.from_buffers(kind, len(numbers), [validity, pa.py_buffer(words)])


def _linear(
    one: Any, other: Any, result: lt.DecimalType, compute: Callable[..., np.ndarray], exact: Callable[..., Any]
) -> Any:
    scale = max(_scale(one), _scale(other))
    shifts = (scale - _scale(one), scale - _scale(other))
    left, right = unscaled(one), unscaled(other)
    if left is not None and right is not None and scale == result.scale and max(shifts) <= _MAX_SHIFT:
        factors = tuple(10**shift for shift in shifts)
        bound = _largest(left) * factors[0] + _largest(right) * factors[1]
        if bound < min(_LIMIT, 10**result.precision):
            left = left * factors[0] if shifts[0] else left
            right = right * factors[1] if shifts[1] else right
            return _decimals(compute(left, right), (one, other), result)
    return exact(*_as_decimals(one, other), result)


def _decimals(numbers: np.ndarray, operands: tuple[Any, Any], result: lt.DecimalType) -> Any:
    kind = pa.decimal128(result.precision, result.scale)
    arrays = [each for each in operands if isinstance(each, pa.Array)]
    array = decimal_array(numbers, kind)
    for each in arrays:
        if each.null_count:
            array = pc.if_else(each.is_valid(), array, pa.scalar(None, kind))
    return array


def _largest(numbers: np.ndarray) -> int:
    return max(abs(int(numbers.max())), abs(int(numbers.min()))) if len(numbers) else 0


def _scale(operand: Any) -> int:
    return operand.type.scale if pa.types.is_decimal(operand.type) else 0


def _as_decimals(one: Any, other: Any) -> tuple[Any, Any]:
    digits = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10}
    return tuple(  # type: ignore[return-value]
        each if pa.types.is_decimal(each.type) else each.cast(pa.decimal128(digits.get(each.type, 19), 0))
        for each in (one, other)
    )
