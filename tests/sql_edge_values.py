"""Values at the edges of SQL types, for tests that compare what several engines compute of them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from flinkpy.sql.types import logical_types as lt

NAN, INFINITE = float("nan"), float("inf")
#: Edge values of each type.
VALUES: dict[lt.LogicalType, list[Any]] = {
    lt.BooleanType(): [True, False, None],
    lt.TinyIntType(): [0, 1, -128, 127, None],
    lt.SmallIntType(): [0, -3, -(1 << 15), (1 << 15) - 1, None],
    lt.IntType(): [0, 7, -1, -(1 << 31), (1 << 31) - 1, None],
    lt.BigIntType(): [0, 5, -1, -(1 << 63), (1 << 63) - 1, None],
    lt.FloatType(): [0.0, -0.0, 1.5, NAN, INFINITE, -INFINITE, None],
    lt.DoubleType(): [0.0, -0.0, 0.1, NAN, INFINITE, -INFINITE, 1e308, None],
    lt.DecimalType(5, 2): [Decimal("0.00"), Decimal("999.99"), Decimal("-999.99"), None],
    lt.DecimalType(18, 2): [Decimal("0.01"), Decimal("9999999999999999.99"), Decimal("-9999999999999999.99"), None],
    lt.DecimalType(38, 6): [Decimal("1.000001"), Decimal("9" * 32 + ".999999"), Decimal("-" + "9" * 32 + ".5"), None],
    lt.VarCharType(): ["", "a", "A", "ab\ncd", "äöü", "ß", "e\u0301", "😀b", " a ", "a%b_c", "Zürich", None],
    lt.DateType(): [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31), None],
    lt.TimestampType(3): [dt.datetime(1969, 12, 31, 23, 59, 59, 999000), dt.datetime(2024, 2, 29, 1, 2, 3, 4000), None],
    lt.TimestampType(6): [dt.datetime(1, 1, 1), dt.datetime(2024, 2, 29, 1, 2, 3, 4), None],
}
TIMES = [lt.DateType(), lt.TimestampType(3), lt.TimestampType(6)]
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
NUMBERS = [kind for kind in VALUES if isinstance(kind, lt.DecimalType) or kind.root.value.endswith(("INT", "INTEGER"))]
