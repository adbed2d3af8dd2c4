"""Scalar codecs: numbers, text, dates and times.

To encode a list, Arrow first infers its type without Python code per value. The values are checked one by one only if
that is not the expected type: to wrap or convert them, or to find the value that does not fit.
"""

from __future__ import annotations

import datetime
import decimal
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.time import Instant
from flinkpy.common.typeinfo import BasicType, DecimalTypeInfo, EnumTypeInfo, TypeInformation

_ARROW_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_NUMPY_TEMPORAL = {pa.date32(): "M8[D]", pa.timestamp("us"): "M8[us]"}


class ValueMismatch(Exception):
    """A value that its type cannot hold. Has the position in the list, the path within the record, and the value."""

    def __init__(self, index: int, path: str, value: Any, type_info: TypeInformation, reason: str = "") -> None:
        super().__init__(reason)
        self.index = index
        self.path = path
        self.value = value
        self.type_info = type_info
        self.reason = reason


class ColumnCodec(ABC):
    """Converts whole columns of one type. `None` is always allowed and becomes an Arrow null."""

    def __init__(self, type_info: TypeInformation, arrow_type: pa.DataType) -> None:
        self.type_info = type_info
        self.arrow_type = arrow_type

    @abstractmethod
    def encode(self, values: Sequence[Any]) -> pa.Array:
        """Returns the values as an array. Raises: ValueMismatch."""

    @abstractmethod
    def decode(self, array: pa.Array) -> list[Any]: ...


class ScalarCodec(ColumnCodec):
    """The codec of values whose type Arrow can infer.

    Args:
        accepted: the inferred types that can be cast without a check of the values.
        check: converts one value for `pa.array(..., arrow_type)`, or raises one of _ARROW_ERRORS.
    """

    def __init__(
        self,
        type_info: TypeInformation,
        arrow_type: pa.DataType,
        accepted: frozenset[pa.DataType],
        check: Callable[[Any], Any],
    ) -> None:
        super().__init__(type_info, arrow_type)
        self._accepted = accepted
        self._check = check

    def encode(self, values: Sequence[Any]) -> pa.Array:
        try:
            array = pa.array(values)
        except _ARROW_ERRORS:
            return self._encode_each(values)
        if array.type == self.arrow_type:
            return array
        if array.type in self._accepted:
            return array.cast(self.arrow_type, safe=False)
        if pa.types.is_null(array.type):
            return pa.nulls(len(array), self.arrow_type)
        return self._encode_each(values)

    def _encode_each(self, values: Sequence[Any]) -> pa.Array:
        checked = []
        for index, value in enumerate(values):
            try:
                checked.append(None if value is None else self._check(value))
            except _ARROW_ERRORS as error:
                raise ValueMismatch(index, "", value, self.type_info, str(error)) from error
        return pa.array(checked, self.arrow_type)

    def decode(self, array: pa.Array) -> list[Any]:
        if array.null_count == 0 and _is_number(array.type):
            return array.to_numpy(zero_copy_only=False).tolist()
        if self.arrow_type in _NUMPY_TEMPORAL:  # NumPy creates dates twenty times faster, and None for nulls
            return array.to_numpy(zero_copy_only=False).astype(_NUMPY_TEMPORAL[self.arrow_type]).tolist()
        return array.to_pylist()


class CheckedCodec(ScalarCodec):
    """The codec of values for which Arrow's inference is too lenient. `check` encodes and `restore` decodes each."""

    def __init__(
        self,
        type_info: TypeInformation,
        arrow_type: pa.DataType,
        check: Callable[[Any], Any],
        restore: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(type_info, arrow_type, frozenset(), check)
        self._restore = restore

    def encode(self, values: Sequence[Any]) -> pa.Array:
        return self._encode_each(values)

    def decode(self, array: pa.Array) -> list[Any]:
        restore = self._restore
        if restore is None:
            return array.to_pylist()
        return [None if value is None else restore(value) for value in array.to_pylist()]


class InstantCodec(CheckedCodec):
    """Encodes `Instant` as UTC microseconds. It converts via int64, because Python's datetime has a smaller range."""

    def __init__(self, type_info: TypeInformation) -> None:
        super().__init__(type_info, pa.timestamp("us", tz="UTC"), _check_instant)

    def _encode_each(self, values: Sequence[Any]) -> pa.Array:
        micros = CheckedCodec(self.type_info, pa.int64(), _check_instant).encode(values)
        return micros.cast(self.arrow_type)

    def decode(self, array: pa.Array) -> list[Any]:
        restored: list[Instant | None] = []
        for micros in array.cast(pa.int64()).to_pylist():
            if micros is None:
                restored.append(None)
            else:
                seconds, rest = divmod(micros, 1_000_000)
                restored.append(Instant(seconds, rest * 1000))
        return restored


def _integer(bits: int) -> Callable[[TypeInformation], ColumnCodec]:
    """Returns the codec of integers. They wrap around as in Java. Values of more than 64 bits are rejected."""
    arrow_type = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits]
    accepted = {pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.bool_()}
    modulus, half = 1 << bits, 1 << (bits - 1)

    def check(value: Any) -> int:
        if not isinstance(value, (int, np.integer, np.bool_)):
            raise TypeError
        number = int(value)
        if not _INT64_MIN <= number <= _INT64_MAX:
            raise OverflowError("more than 64 bits")
        return (number + half) % modulus - half

    return lambda type_info: ScalarCodec(type_info, arrow_type, frozenset(accepted), check)


def _floating(arrow_type: pa.DataType) -> Callable[[TypeInformation], ColumnCodec]:
    accepted = frozenset({pa.float64(), pa.float32(), pa.float16(), pa.int64(), pa.int32(), pa.int16(), pa.int8()})

    def check(value: Any) -> float:
        if not isinstance(value, (int, float, np.number, np.bool_)):
            raise TypeError
        return float(value)

    return lambda type_info: ScalarCodec(type_info, arrow_type, accepted, check)


def _check_string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode("utf-8")  # rejects lone surrogates
    return str(value)


def _check_char(value: Any) -> str:
    if len(_check_string(value)) != 1:
        raise ValueError("it is not one character")
    return value


def _check_boolean(value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError
    return bool(value)


def check_bytes(value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview, list, tuple, np.ndarray)):
        raise TypeError
    return bytes(value)


def enum_codec(type_info: EnumTypeInfo) -> ColumnCodec:
    """Returns the codec of enum members. It encodes their names, because their values may be any objects."""
    enum_class = type_info.enum_class

    def check(value: Any) -> str:
        if not isinstance(value, enum_class):
            raise TypeError
        return value.name

    return CheckedCodec(type_info, pa.string(), check, lambda name: enum_class[name])


def _check_big_int(value: Any) -> int:
    if not isinstance(value, (int, np.integer)):
        raise TypeError
    if abs(int(value)) >= 10**76:
        raise OverflowError("more than 76 digits")
    return int(value)


_DECIMAL_CONTEXT = decimal.Context(prec=38, rounding=decimal.ROUND_HALF_UP)
_DECIMAL_STEP = decimal.Decimal(1).scaleb(-18)


def big_decimal_codec(type_info: TypeInformation) -> ColumnCodec:
    """Returns the codec of decimals of any size, as text with all digits, including trailing zeros."""
    return CheckedCodec(type_info, pa.string(), _decimal_text, decimal.Decimal)


def _decimal_text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (decimal.Decimal, int)):
        raise TypeError
    number = decimal.Decimal(value)
    if not number.is_finite():
        raise ValueError("it is not a finite number")
    return str(number)


def _check_decimal(value: Any) -> decimal.Decimal:
    if isinstance(value, bool) or not isinstance(value, (decimal.Decimal, int)):
        raise TypeError
    try:
        return decimal.Decimal(value).quantize(_DECIMAL_STEP, context=_DECIMAL_CONTEXT)
    except decimal.InvalidOperation as error:
        raise OverflowError("more than 20 digits before the decimal point") from error


def decimal_codec(type_info: DecimalTypeInfo) -> ColumnCodec:
    """Returns the codec of decimals with a precision and scale. Digits after the scale are rounded half up."""

    def check(value: Any) -> decimal.Decimal:
        if isinstance(value, bool) or not isinstance(value, (decimal.Decimal, int)):
            raise TypeError
        return type_info.rounded(value)

    return CheckedCodec(type_info, pa.decimal128(type_info.precision, type_info.scale), check)


def _check_instant(value: Any) -> int:
    if not isinstance(value, Instant):
        raise TypeError
    micros = value.seconds * 1_000_000 + value.nanos // 1000
    if not _INT64_MIN <= micros <= _INT64_MAX:
        raise OverflowError("too far from the epoch")
    return micros


def _check_date(value: Any) -> datetime.date:
    if isinstance(value, datetime.datetime):
        return value.date()
    if not isinstance(value, datetime.date):
        raise TypeError
    return value


def _check_time(value: Any) -> datetime.time:
    if not isinstance(value, datetime.time):
        raise TypeError
    return value.replace(tzinfo=None)


def _check_timestamp(value: Any) -> datetime.datetime:
    if not isinstance(value, datetime.datetime):
        raise TypeError
    return value if value.tzinfo is None else value.astimezone().replace(tzinfo=None)


def _scalar(arrow_type: pa.DataType, check: Callable[[Any], Any]) -> Callable[[TypeInformation], ColumnCodec]:
    return lambda type_info: ScalarCodec(type_info, arrow_type, frozenset(), check)


BASIC_CODECS: dict[BasicType, Callable[[TypeInformation], ColumnCodec]] = {
    BasicType.STRING: _scalar(pa.string(), _check_string),
    BasicType.CHAR: lambda type_info: CheckedCodec(type_info, pa.string(), _check_char),
    BasicType.BOOLEAN: _scalar(pa.bool_(), _check_boolean),
    BasicType.BYTE: _integer(8),
    BasicType.SHORT: _integer(16),
    BasicType.INT: _integer(32),
    BasicType.LONG: _integer(64),
    BasicType.FLOAT: _floating(pa.float32()),
    BasicType.DOUBLE: _floating(pa.float64()),
    BasicType.BIG_INT: lambda type_info: CheckedCodec(type_info, pa.decimal256(76, 0), _check_big_int, int),
    BasicType.BIG_DEC: lambda type_info: CheckedCodec(type_info, pa.decimal128(38, 18), _check_decimal),
    BasicType.INSTANT: InstantCodec,
}
TEMPORAL_CODECS: dict[str, Callable[[TypeInformation], ColumnCodec]] = {
    "LOCAL_DATE": _scalar(pa.date32(), _check_date),
    "LOCAL_TIME": _scalar(pa.time64("us"), _check_time),
    "LOCAL_DATE_TIME": _scalar(pa.timestamp("us"), _check_timestamp),
}


def _is_number(arrow_type: pa.DataType) -> bool:
    return pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_boolean(arrow_type)
