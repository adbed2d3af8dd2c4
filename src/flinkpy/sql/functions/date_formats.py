"""DateFormat: the patterns of Java's DateTimeFormatter, such as `yyyy-MM-dd HH:mm:ss.SSS`, in English.

Source: java.time.format.DateTimeFormatter, java.text.SimpleDateFormat.
"""

from __future__ import annotations

import calendar
import datetime as _dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from flinkpy.common.errors import TableRuntimeError

NANOS_PER_DAY = 86_400_000_000_000
_EPOCH = _dt.date(1970, 1, 1).toordinal()
#: The length of the period after which the calendar repeats, with the same weekdays.
_DAYS_OF_400_YEARS = 146_097
#: Nanoseconds of the unit that a letter shows. Text of a pattern depends on no smaller unit.
_GRAIN = {"H": 3600, "h": 3600, "k": 3600, "K": 3600, "a": 3600, "m": 60, "s": 1}
_LETTERS = frozenset("yuMLdDQqEeHhkKmsSnNaAwWXxZzGV")


class _Fields:
    """The parts of a timestamp that patterns show."""

    __slots__ = ("date", "nanos", "year")

    def __init__(self, nanos: int) -> None:
        days, self.nanos = divmod(nanos, NANOS_PER_DAY)
        ordinal = days + _EPOCH
        # Python has no dates outside of the years 1 to 9999.
        is_known = 1 <= ordinal <= _dt.date.max.toordinal()
        cycles = 0 if is_known else (ordinal - 1) // _DAYS_OF_400_YEARS
        self.date = _dt.date.fromordinal(ordinal - cycles * _DAYS_OF_400_YEARS)
        self.year = self.date.year + cycles * 400

    @property
    def hour(self) -> int:
        return self.nanos // 3_600_000_000_000


def _padded(value: int, width: int) -> str:
    return str(value).zfill(width)


def _month(fields: _Fields, width: int) -> str:
    month = fields.date.month
    if width >= 4:
        return calendar.month_name[month]
    return calendar.month_abbr[month] if width == 3 else _padded(month, width)


def _year(fields: _Fields, width: int) -> str:
    return _padded(fields.year % 100, 2) if width == 2 else _padded(fields.year, width)


def _weekday(fields: _Fields, width: int) -> str:
    names = calendar.day_name if width == 4 else calendar.day_abbr
    return names[fields.date.weekday()]


_SHOW: dict[str, Callable[[_Fields, int], str]] = {
    "y": _year,
    "u": _year,
    "M": _month,
    "L": _month,
    "d": lambda f, w: _padded(f.date.day, w),
    "D": lambda f, w: _padded(f.date.timetuple().tm_yday, w),
    "Q": lambda f, w: _padded((f.date.month + 2) // 3, w),
    "q": lambda f, w: _padded((f.date.month + 2) // 3, w),
    "E": _weekday,
    "e": lambda f, w: _padded(f.date.isoweekday() % 7 + 1, w),
    "H": lambda f, w: _padded(f.hour, w),
    "k": lambda f, w: _padded(f.hour or 24, w),
    "K": lambda f, w: _padded(f.hour % 12, w),
    "h": lambda f, w: _padded(f.hour % 12 or 12, w),
    "a": lambda f, w: "AM" if f.hour < 12 else "PM",
    "m": lambda f, w: _padded(f.nanos // 60_000_000_000 % 60, w),
    "s": lambda f, w: _padded(f.nanos // 1_000_000_000 % 60, w),
    "S": lambda f, w: _padded(f.nanos % 1_000_000_000, 9)[:w].ljust(w, "0"),
    "n": lambda f, w: _padded(f.nanos % 1_000_000_000, w),
    "N": lambda f, w: _padded(f.nanos, w),
    "A": lambda f, w: _padded(f.nanos // 1_000_000, w),
    "G": lambda f, w: "AD",
    "w": lambda f, w: _padded(f.date.isocalendar().week, w),
}


@dataclass(frozen=True, slots=True)
class DateFormat:
    """A parsed pattern. `parts` are (letter, width), and ("", 0, text) for other text."""

    pattern: str
    parts: tuple[tuple[str, int, str], ...]
    #: Timestamps of one grain have the same text. In nanoseconds.
    grain: int

    def show(self, nanos: int) -> str:
        """Returns the text of a timestamp, given in nanoseconds since the epoch."""
        fields = _Fields(nanos)
        return "".join(text if not letter else _SHOW[letter](fields, width) for letter, width, text in self.parts)

    def parse(self, text: str) -> tuple[int, int | None] | None:
        """Returns nanoseconds since the epoch, and the offset in seconds if the text has one; None if it is invalid."""
        found = _parser(self).match(text)
        if found is None:
            return None
        values: dict[str, str] = {}
        for name, value in found.groupdict().items():
            values[name[0]] = value
        return _assembled(values)


@lru_cache(maxsize=256)
def date_format(pattern: str) -> DateFormat:
    """Returns the format of a pattern. Raises: TableRuntimeError if a letter is unknown."""
    parts: list[tuple[str, int, str]] = []
    for found in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z']+)", pattern):
        if found[1] is not None:
            parts.append(("", 0, found[1].replace("''", "'") or "'"))
        elif found[3] is not None:
            parts.append(("", 0, found[3]))
        else:
            letter = found[2]
            if letter not in _LETTERS:
                raise TableRuntimeError(f"Unknown pattern letter: {letter}, in the date format {pattern!r}")
            parts.append((letter, len(found[0]), ""))
    grain = NANOS_PER_DAY
    for letter, width, _ in parts:
        seconds = _GRAIN.get(letter)
        if letter == "S":
            grain = min(grain, 10 ** max(9 - width, 0))
        elif letter in "nNA" and letter:
            grain = 1 if letter != "A" else min(grain, 1_000_000)
        elif seconds is not None:
            grain = min(grain, seconds * 1_000_000_000)
    return DateFormat(pattern, tuple(parts), grain)


@lru_cache(maxsize=256)
def _parser(format_: DateFormat) -> re.Pattern[str]:
    shape = []
    for index, (letter, width, text) in enumerate(format_.parts):
        if not letter:
            shape.append(re.escape(text))
            continue
        following = format_.parts[index + 1][0] if index + 1 < len(format_.parts) else ""
        if letter in "XxZ":
            inner = r"Z|[+-]\d{2}(?::?\d{2})?"
        elif letter in "zV":
            inner = r"[A-Za-z/_+:0-9-]+"
        elif letter == "a":
            inner = r"[AaPp][Mm]"
        elif letter == "E" or (letter in "ML" and width >= 3):
            inner = r"[A-Za-z]+"
        elif letter == "S" or following:
            inner = rf"\d{{{width}}}"
        else:
            inner = rf"\d{{{1 if width < 3 else width},{max(width, 2) if letter not in 'yu' else 9}}}"
        shape.append(f"(?P<{letter}{index}>{inner})")
    return re.compile("".join(shape))


def _assembled(values: dict[str, str]) -> tuple[int, int | None] | None:
    year_text = values.get("y") or values.get("u") or "1970"
    year = int(year_text) + (2000 if len(year_text) == 2 else 0)
    month_text = values.get("M") or values.get("L") or "1"
    if month_text.isdigit():
        month = int(month_text)
    else:
        names = [name.lower() for name in calendar.month_abbr]
        if month_text[:3].lower() not in names:
            return None
        month = names.index(month_text[:3].lower())
    hour = int(values.get("H") or values.get("k") or 0) % (24 if "k" in values else 100)
    if "h" in values or "K" in values:
        hour = int(values.get("h") or values.get("K") or 0) % 12 + (12 if values.get("a", "AM").upper() == "PM" else 0)
    minute, second = int(values.get("m") or 0), int(values.get("s") or 0)
    nanos = int((values.get("S") or "0").ljust(9, "0")[:9])
    try:
        day = _dt.date(year, month, int(values.get("d") or 1)).toordinal() - _EPOCH
    except ValueError:
        return None
    if "D" in values:
        day = _dt.date(year, 1, 1).toordinal() - _EPOCH + int(values["D"]) - 1
    if hour > 23 or minute > 59 or second > 59:
        return None
    offset = None
    zone = values.get("X") or values.get("x") or values.get("Z")
    if zone is not None:
        digits = zone[1:].replace(":", "").ljust(4, "0")
        offset = 0 if zone == "Z" else (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (-1 if zone[0] == "-" else 1)
    return day * NANOS_PER_DAY + ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + nanos, offset
