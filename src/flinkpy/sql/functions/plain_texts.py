"""Parses columns of texts in the usual form at once, such as `2024-05-01 10:00:00.123` or `-12.5`.

Each function returns None if one of the texts has another form. Then the texts are parsed one by one, with Flink's
rules and errors.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import arrow_type_of

#: Years whose nanoseconds fit in 64 bits. Older versions of Arrow wrap others around without an error.
_YEAR = r"(1[7-9]|2[01])\d{2}"
_TIMESTAMP = rf"^{_YEAR}-\d{{2}}-\d{{2}} \d{{2}}:\d{{2}}:\d{{2}}(\.\d{{1,9}})?$"
_DATE = r"^\d{4}-\d{2}-\d{2}$"
#: With up to 15 digits and small exponents, Arrow and Java round to the same DOUBLE without an overflow.
_DOUBLE = r"^-?\d{1,15}(\.\d{1,15})?([eE]-?\d{1,2})?$"


def plain_timestamps(array: pa.Array) -> pa.Array | None:
    """Returns nanoseconds since the epoch, without a time zone."""
    found = _cast(array, _TIMESTAMP, pa.timestamp("ns"))
    return None if found is None else found.cast(pa.int64())


def plain_dates(array: pa.Array) -> pa.Array | None:
    """Returns days since the epoch."""
    found = _cast(array, _DATE, pa.date32())
    return None if found is None else found.cast(pa.int32())


def plain_integers(array: pa.Array, target: lt.LogicalType) -> pa.Array | None:
    """Returns texts of digits alone as integers."""
    is_plain = pc.all(pc.utf8_is_digit(array), min_count=0).as_py()  # an empty text is not all digits
    return _cast(array, None, arrow_type_of(target)) if is_plain else None


def plain_numbers(array: pa.Array, target: lt.LogicalType) -> pa.Array | None:
    """Returns numbers of the type."""
    if isinstance(target, lt.DoubleType):
        return _cast(array, _DOUBLE, pa.float64())
    if isinstance(target, lt.DecimalType) and target.precision > target.scale:
        fraction = rf"(\.\d{{1,{target.scale}}})?" if target.scale else ""
        pattern = rf"^-?(0|[1-9]\d{{0,{target.precision - target.scale - 1}}}){fraction}$"
        return _cast(array, pattern, arrow_type_of(target))
    return None


def _cast(array: pa.Array, pattern: str | None, kind: pa.DataType) -> pa.Array | None:
    if pattern is not None and not pc.all(pc.match_substring_regex(array, pattern), min_count=0).as_py():
        return None
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:  # for example the 30th of February
        return None
