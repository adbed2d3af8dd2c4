"""Turns the literals of a statement into typed constants."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.rex import Literal
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.binder.data_types import interval_type
from flinkpy.table.planner.errors import invalid

_MILLIS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1_000, "WEEK": 7 * 86_400_000}
_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_DAY_UNITS = ("DAY", "HOUR", "MINUTE", "SECOND")


def integer(value: int) -> Literal:
    """Returns an exact number as INT, BIGINT or DECIMAL, the first into which it fits."""
    if -(2**31) <= value < 2**31:
        return Literal(lt.IntType(nullable=False), value)
    if -(2**63) <= value < 2**63:
        return Literal(lt.BigIntType(nullable=False), value)
    return Literal(lt.DecimalType(len(str(abs(value))), 0, nullable=False), Decimal(value))


def literal(node: ast.Expression) -> Literal | None:
    """Returns the constant; None if the node is no literal."""
    match node:
        case ast.IntegerLiteral():
            return integer(node.value)
        case ast.DecimalLiteral():
            return _decimal(node)
        case ast.DoubleLiteral():
            return Literal(lt.DoubleType(nullable=False), node.value)
        case ast.StringLiteral():
            return Literal(lt.CharType(len(node.value), nullable=False), node.value)
        case ast.BinaryLiteral():
            return Literal(lt.BinaryType(len(node.value), nullable=False), node.value)
        case ast.BooleanLiteral():
            return Literal(lt.BooleanType(nullable=node.value is None), node.value)
        case ast.NullLiteral():
            return Literal(lt.NullType(), None)
        case ast.DateLiteral():
            return Literal(lt.DateType(nullable=False), _date(node))
        case ast.TimeLiteral():
            return _time(node)
        case ast.TimestampLiteral():
            return _timestamp(node)
        case ast.IntervalLiteral():
            return interval(node)
        case ast.TimeUnit():
            return Literal(lt.SymbolType(nullable=False), node.name)
    return None


def _decimal(node: ast.DecimalLiteral) -> Literal:
    text = node.text
    whole, _, fraction = text.partition(".")
    # As in Calcite, each written digit counts, a leading zero included.
    precision = max(len(whole) + len(fraction), 1)
    if precision > lt.MAX_DECIMAL_PRECISION:
        raise invalid(node, f"Numeric literal '{text}' out of range")
    return Literal(lt.DecimalType(precision, len(fraction), nullable=False), Decimal(text))


def _date(node: ast.DateLiteral) -> date:
    try:
        return date.fromisoformat(node.text)
    except ValueError:
        raise invalid(node, f"Illegal DATE literal '{node.text}': not in format 'yyyy-MM-dd'") from None


def _time(node: ast.TimeLiteral) -> Literal:
    try:
        hour, colon, rest = _six_digits(node.text).partition(":")
        value = time.fromisoformat(f"{hour:0>2}{colon}{rest}")
    except ValueError:
        raise invalid(node, f"Illegal TIME literal '{node.text}': not in format 'HH:mm:ss'") from None
    return Literal(lt.TimeType(min(_fraction_digits(node.text), 9), nullable=False), value)


def _timestamp(node: ast.TimestampLiteral) -> Literal:
    try:
        value = datetime.fromisoformat(_six_digits(node.text))
    except ValueError:
        raise invalid(node, f"Illegal TIMESTAMP literal '{node.text}': not in format 'yyyy-MM-dd HH:mm:ss'") from None
    precision = min(_fraction_digits(node.text), 9)
    if node.zone:
        return Literal(lt.LocalZonedTimestampType(precision, nullable=False), value.replace(tzinfo=UTC))
    return Literal(lt.TimestampType(precision, nullable=False), value)


def _fraction_digits(text: str) -> int:
    return len(text.partition(".")[2])


def _six_digits(text: str) -> str:
    """Returns the text with a fraction of six digits, which is the most that Python's types hold."""
    whole, dot, fraction = text.partition(".")
    return f"{whole}.{fraction[:6].ljust(6, '0')}" if dot else whole


def interval(node: ast.IntervalLiteral) -> Literal:
    """Returns an interval as its number of milliseconds or months."""
    kind = interval_type(node.qualifier, nullable=False)
    text = node.text.strip()
    sign = -1 if node.negative else 1
    if text[:1] in "+-" and text:
        sign, text = (-sign if text[0] == "-" else sign), text[1:].strip()
    amount = _interval_amount(text, node.qualifier.start, node.qualifier.end)
    if amount is None:
        units = (
            node.qualifier.start if node.qualifier.end is None else f"{node.qualifier.start} TO {node.qualifier.end}"
        )
        raise invalid(node, f"Illegal interval literal format '{node.text}' for INTERVAL {units}")
    return Literal(kind, sign * amount)


def _interval_amount(text: str, start: str, end: str | None) -> int | None:
    if start in _MONTHS:
        if end == "MONTH" and start == "YEAR":
            found = re.fullmatch(r"(\d+)-(\d+)", text)
            return int(found[1]) * 12 + int(found[2]) if found else None
        return int(text) * _MONTHS[start] if text.isdigit() else None
    if end is None or end == start:
        if start == "SECOND":
            found = re.fullmatch(r"(\d*)(?:\.(\d+))?", text)
            if not text or not found:
                return None
            return int(found[1] or 0) * 1000 + int((found[2] or "0")[:3].ljust(3, "0"))
        return int(text) * _MILLIS[start] if text.isdigit() else None
    units = _DAY_UNITS[_DAY_UNITS.index(start) : _DAY_UNITS.index(end) + 1]
    separators = {"DAY": r"\s+", "HOUR": ":", "MINUTE": ":"}
    pattern = "".join(
        (r"(\d+(?:\.\d+)?)" if unit == "SECOND" else r"(\d+)") + (separators[unit] if unit != end else "")
        for unit in units
    )
    found = re.fullmatch(pattern, text)
    if not found:
        return None
    return int(sum(Decimal(part) * _MILLIS[unit] for part, unit in zip(found.groups(), units, strict=True)))


def interval_text(milliseconds: int) -> str:
    """Returns a duration as plans show it: `10 s`, `1 min`, `250 ms`."""
    if milliseconds == 0:
        return "0 ms"
    for unit, name in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if milliseconds % unit == 0:
            return f"{milliseconds // unit} {name}"
    return f"{milliseconds} ms"


#: The instant from which windows and literals count.
EPOCH = datetime(1970, 1, 1)


def millis_between(start: datetime, end: datetime) -> int:
    return (end - start) // timedelta(milliseconds=1)
