"""Type families: groups of type roots that rules of typing have in common.

Source: org.apache.flink.table.types.logical.LogicalTypeFamily.
"""

from __future__ import annotations

from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.logical_types import TypeRoot

CHARACTER_STRING = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
BINARY_STRING = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
INTEGER_NUMERIC = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT})
EXACT_NUMERIC = INTEGER_NUMERIC | {TypeRoot.DECIMAL}
APPROXIMATE_NUMERIC = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
NUMERIC = EXACT_NUMERIC | APPROXIMATE_NUMERIC
TIMESTAMP = frozenset({TypeRoot.TIMESTAMP_WITHOUT_TIME_ZONE, TypeRoot.TIMESTAMP_WITH_LOCAL_TIME_ZONE})
TIME = frozenset({TypeRoot.TIME_WITHOUT_TIME_ZONE})
DATETIME = TIMESTAMP | TIME | {TypeRoot.DATE}
INTERVAL = frozenset({TypeRoot.INTERVAL_YEAR_MONTH, TypeRoot.INTERVAL_DAY_TIME})
CONSTRUCTED = frozenset({TypeRoot.ARRAY, TypeRoot.MULTISET, TypeRoot.MAP, TypeRoot.ROW})
COLLECTION = frozenset({TypeRoot.ARRAY, TypeRoot.MULTISET, TypeRoot.MAP})
PREDEFINED = CHARACTER_STRING | BINARY_STRING | NUMERIC | DATETIME | INTERVAL | {TypeRoot.BOOLEAN}

#: The digits before the decimal point of integers, as decimals.
_INTEGER_DIGITS = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INTEGER: 10, TypeRoot.BIGINT: 19}


def precision_of(kind: lt.LogicalType) -> int:
    """Returns the number of digits of an exact number, or of fractional digits of a time or timestamp."""
    digits = _INTEGER_DIGITS.get(kind.root)
    return digits if digits is not None else kind.precision  # type: ignore[attr-defined,no-any-return]


def scale_of(kind: lt.LogicalType) -> int:
    """Returns the digits after the decimal point of an exact number."""
    return kind.scale if isinstance(kind, lt.DecimalType) else 0


def is_single_field_interval(kind: lt.LogicalType) -> bool:
    """True for an interval of one unit, such as HOUR, but not DAY TO SECOND."""
    return kind.root in INTERVAL and "_TO_" not in kind.resolution  # type: ignore[attr-defined]
