"""TypeInformation, and the types of single values: numbers, text, dates and times."""

from __future__ import annotations

import calendar
import datetime
import decimal
import time
from enum import Enum
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.time import Instant

_MICROS_PER_SECOND = 1_000_000


class TypeInformation:
    """The type of a stream's records or of a part of them. Immutable; equal if it describes the same type."""

    def __init__(self) -> None:
        return

    def get_java_type_info(self) -> Any:
        raise UnsupportedOperationError(f"{type(self).__name__}.get_java_type_info: flinkpy has no JVM")

    def need_conversion(self) -> bool:
        """True if `to_internal_type` returns anything but the object itself."""
        return False

    def to_internal_type(self, obj: Any) -> Any:
        return obj

    def from_internal_type(self, obj: Any) -> Any:
        return obj

    def _key(self) -> tuple[Any, ...]:
        """Returns the values that equal types have in common."""
        return ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._key()))

    def __repr__(self) -> str:
        return type(self).__name__


class BasicType(Enum):
    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


class BasicTypeInfo(TypeInformation):
    """The type of a single value."""

    def __init__(self, basic_type: BasicType) -> None:
        super().__init__()
        self._basic_type = basic_type

    @property
    def basic_type(self) -> BasicType:
        return self._basic_type

    def _key(self) -> tuple[Any, ...]:
        return (self._basic_type,)

    def __repr__(self) -> str:
        return self._basic_type.value

    @staticmethod
    def STRING_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def BYTE_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def SHORT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT_TYPE_INFO() -> BasicTypeInfo:
        return InstantTypeInfo(BasicType.INSTANT)


class InstantTypeInfo(BasicTypeInfo):
    """The type of `Instant`; internally microseconds since the epoch."""

    def __init__(self, basic_type: BasicType) -> None:
        super().__init__(basic_type)

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Any) -> Any:
        return obj.seconds * _MICROS_PER_SECOND + obj.nanos // 1000

    def from_internal_type(self, obj: Any) -> Any:
        seconds, micros = divmod(obj, _MICROS_PER_SECOND)
        return Instant(seconds, micros * 1000)


class DecimalTypeInfo(BasicTypeInfo):
    """The type of `decimal.Decimal` with `precision` digits, `scale` of them after the decimal point.

    Source: org.apache.flink.table.runtime.typeutils.BigDecimalTypeInfo.
    """

    MAX_PRECISION = 38

    def __init__(self, precision: int, scale: int) -> None:
        if not (1 <= precision <= self.MAX_PRECISION and 0 <= scale <= precision):
            raise ValueError(
                f"a DECIMAL needs a precision from 1 to {self.MAX_PRECISION} and a scale from 0 to its precision, not "
                f"({precision}, {scale})"
            )
        super().__init__(BasicType.BIG_DEC)
        self.precision = precision
        self.scale = scale

    def rounded(self, value: decimal.Decimal | int) -> decimal.Decimal:
        """Returns `value` with `scale` digits after the decimal point, rounded half up.

        Raises:
            OverflowError: the value has more digits before the decimal point than the type allows.
        """
        context = decimal.Context(prec=self.precision, rounding=decimal.ROUND_HALF_UP)
        try:
            return decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-self.scale), context=context)
        except decimal.InvalidOperation as error:
            raise OverflowError(f"more than {self.precision - self.scale} digits before the decimal point") from error

    def _key(self) -> tuple[Any, ...]:
        return (self.precision, self.scale)

    def __repr__(self) -> str:
        return f"Decimal({self.precision}, {self.scale})"


class SqlTimeTypeInfo(TypeInformation):
    """Factory of the SQL date and time types."""

    @staticmethod
    def DATE() -> TypeInformation:
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TypeInformation:
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TypeInformation:
        return TimestampTypeInfo()


class DateTypeInfo(TypeInformation):
    """The type of `datetime.date`; internally days since the epoch."""

    EPOCH_ORDINAL = datetime.datetime(1970, 1, 1).toordinal()

    def __init__(self) -> None:
        super().__init__()

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, d: Any) -> Any:
        return None if d is None else d.toordinal() - self.EPOCH_ORDINAL

    def from_internal_type(self, v: Any) -> Any:
        return None if v is None else datetime.date.fromordinal(v + self.EPOCH_ORDINAL)


class TimeTypeInfo(TypeInformation):
    """The type of `datetime.time`; internally microseconds since midnight."""

    EPOCH_ORDINAL = calendar.timegm(time.localtime(0)) * 10**6

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, t: Any) -> Any:
        if t is None:
            return None
        seconds = t.hour * 3600 + t.minute * 60 + t.second
        offset = t.utcoffset() or datetime.timedelta()
        return (seconds - int(offset.total_seconds())) * _MICROS_PER_SECOND + t.microsecond

    def from_internal_type(self, t: Any) -> Any:
        if t is None:
            return None
        seconds, micros = divmod(t, _MICROS_PER_SECOND)
        minutes, second = divmod(seconds, 60)
        hour, minute = divmod(minutes, 60)
        return datetime.time(hour % 24, minute, second, micros)


class TimestampTypeInfo(TypeInformation):
    """The type of `datetime.datetime`; internally microseconds since the epoch. Naive values are in local time."""

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, dt: Any) -> Any:
        if dt is None:
            return None
        seconds = calendar.timegm(dt.utctimetuple()) if dt.tzinfo else time.mktime(dt.timetuple())
        return int(seconds) * _MICROS_PER_SECOND + dt.microsecond

    def from_internal_type(self, ts: Any) -> Any:
        if ts is None:
            return None
        seconds, micros = divmod(ts, _MICROS_PER_SECOND)
        return datetime.datetime.fromtimestamp(seconds).replace(microsecond=micros)


class LocalTimeTypeInfo(TypeInformation):
    """The Table API's type of a local date, a local time, or both."""

    class TimeType(Enum):
        LOCAL_DATE = 0
        LOCAL_TIME = 1
        LOCAL_DATE_TIME = 2

    def __init__(self, time_type: TimeType) -> None:
        super().__init__()
        self._time_type = time_type

    @property
    def time_type(self) -> LocalTimeTypeInfo.TimeType:
        return self._time_type

    def _key(self) -> tuple[Any, ...]:
        return (self._time_type,)
