"""The text form of records, in `print()` and in a row-format FileSink.

Records of a declared type, and all Rows, have the same form as in Flink (`+I[a, 1]`, `(a,1)`, `true`, `null`). Other
records are Python objects and have the form that `str()` returns.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from flinkpy.common.typeinfo import PickledBytesTypeInfo, TypeInformation
from flinkpy.common.types import Row

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch


def text_of(value: Any) -> str:
    """Returns `value` as Flink prints an object of the corresponding Java type."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Row):
        return f"{value.get_row_kind()}[{', '.join(map(text_of, value))}]"
    if isinstance(value, tuple):
        return f"({','.join(map(text_of, value))})"
    if isinstance(value, list):
        return f"[{', '.join(map(text_of, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{text_of(key)}={text_of(item)}' for key, item in value.items())}}}"
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, datetime.datetime):
        return _timestamp_text(value)
    return str(value)


def float_text(value: float, digits_of: str | None = None) -> str:
    """Returns a float as Java prints it: plain from 0.001 up to 10 million, otherwise with an exponent (`1.0E7`).

    Args:
        digits_of: the shortest text of the number, if it is not a 64-bit float.
    """
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if math.isnan(value):
        return "NaN"
    shortest = digits_of or repr(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return shortest
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    mantissa = "".join(map(str, digits))
    return f"{'-' if sign else ''}{mantissa[0]}.{mantissa[1:] or '0'}E{int(exponent) + len(digits) - 1}"


def _timestamp_text(value: datetime.datetime) -> str:
    """Returns a timestamp with a fraction, without the fraction's trailing zeros: `2013-01-01 10:00:00.0`."""
    fraction = f"{value.microsecond:06d}".rstrip("0") or "0"
    return f"{value.replace(microsecond=0, tzinfo=None).isoformat(sep=' ')}.{fraction}"


def _untyped_text(value: Any) -> str:
    return text_of(value) if isinstance(value, Row) else str(value)


def formatter_of(type_info: TypeInformation | None) -> Callable[[Any], str]:
    """Returns the function that converts records of a type to text."""
    return _untyped_text if type_info is None or isinstance(type_info, PickledBytesTypeInfo) else text_of


def lines_of(batch: Batch, type_info: TypeInformation | None) -> list[str]:
    """Returns each record of the batch as text."""
    from flinkpy.records.lanes import rows_of

    return list(map(formatter_of(type_info), rows_of(batch, type_info)))
