"""The text forms of option values: how `10 s`, `PT10S`, `64mb` or `true` become Python values.

Durations become whole milliseconds and memory sizes whole bytes, so that no unit is left to guess once a value is read.

Source: org.apache.flink.util.TimeUtils, org.apache.flink.configuration.{MemorySize,StructuredOptionsSplitter}.
"""

from __future__ import annotations

import re
from fractions import Fraction


def _by_name(*units: tuple[int, str]) -> dict[str, int]:
    return {name: factor for factor, names in units for name in names.split()}


_DURATION_UNITS_NS = _by_name(
    (86_400_000_000_000, "d day days"),
    (3_600_000_000_000, "h hour hours"),
    (60_000_000_000, "min m minute minutes"),
    (1_000_000_000, "s sec secs second seconds"),
    (1_000_000, "ms milli millis millisecond milliseconds"),
    (1_000, "µs us micro micros microsecond microseconds"),
    (1, "ns nano nanos nanosecond nanoseconds"),
)
_MEMORY_UNITS = _by_name(
    (1, "b bytes"),
    (1 << 10, "k kb kibibytes"),
    (1 << 20, "m mb mebibytes"),
    (1 << 30, "g gb gibibytes"),
    (1 << 40, "t tb tebibytes"),
)
_NUMBER_AND_UNIT = re.compile(r"\s*(\d+)\s*([a-zµ]*)\s*", re.IGNORECASE)
_ISO_DURATION = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d{1,9})?)S)?)?", re.IGNORECASE
)
_ISO_UNITS_S = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


def parse_boolean(text: str) -> bool:
    """True for `true`, False for `false`, in any case; ValueError for anything else."""
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError("expected true or false")
    return lowered == "true"


def parse_duration_ms(text: str) -> int:
    """Milliseconds of `10 s`, `500ms`, `1min`, `PT10S` or a bare number (milliseconds, as in Flink).

    A duration shorter than a millisecond but not zero is rounded up, so that a timeout never becomes `now` by rounding.
    """
    stripped = text.strip()
    if stripped[:1] in ("P", "p"):
        nanoseconds = _iso_duration_ns(stripped)
    else:
        match = _NUMBER_AND_UNIT.fullmatch(stripped)
        unit = match.group(2).lower() if match else ""
        if match is None or (unit and unit not in _DURATION_UNITS_NS):
            raise ValueError("expected a duration such as `10 s`, `500 ms` or `PT10S`")
        nanoseconds = int(match.group(1)) * _DURATION_UNITS_NS[unit or "ms"]
    return -(-nanoseconds // 1_000_000)


def _iso_duration_ns(text: str) -> int:
    match = _ISO_DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise ValueError("expected an ISO-8601 duration such as `PT10S`")
    seconds = sum(
        (Fraction(value) * _ISO_UNITS_S[name] for name, value in match.groupdict().items() if value), Fraction()
    )
    return int(seconds * 1_000_000_000)


def format_duration(milliseconds: int) -> str:
    """The shortest text that `parse_duration_ms` reads back as the same value, e.g. `10 s`."""
    for unit, factor in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if milliseconds and milliseconds % factor == 0:
            return f"{milliseconds // factor} {unit}"
    return f"{milliseconds} ms"


def parse_memory_bytes(text: str) -> int:
    """Bytes of `64mb`, `1 gb`, `32 kb` or a bare number (bytes)."""
    match = _NUMBER_AND_UNIT.fullmatch(text)
    unit = match.group(2).lower() if match else ""
    if match is None or (unit and unit not in _MEMORY_UNITS):
        raise ValueError("expected a memory size such as `64mb` or `1 gb`")
    return int(match.group(1)) * _MEMORY_UNITS[unit or "b"]


def format_memory(size_bytes: int) -> str:
    """The shortest text that `parse_memory_bytes` reads back as the same value, e.g. `64 mb`."""
    for unit, shift in (("tb", 40), ("gb", 30), ("mb", 20), ("kb", 10)):
        if size_bytes and size_bytes % (1 << shift) == 0:
            return f"{size_bytes >> shift} {unit}"
    return f"{size_bytes} bytes"


def parse_list(text: str) -> tuple[str, ...]:
    """The elements of `a;b;c`, or of the YAML form `[a, b, c]`; empty text has none."""
    stripped = text.strip()
    if stripped.startswith("[") and stripped.endswith("]"):
        parts = stripped[1:-1].split(",")
    else:
        parts = stripped.split(";")
    return tuple(part.strip().strip("'\"") for part in parts if part.strip())


def parse_map(text: str) -> dict[str, str]:
    """The pairs of `a:1,b:2`, or of the YAML form `{a: 1, b: 2}`."""
    stripped = text.strip()
    if stripped.startswith("{") and stripped.endswith("}"):
        stripped = stripped[1:-1]
    pairs: dict[str, str] = {}
    for part in stripped.split(","):
        if not part.strip():
            continue
        name, separator, value = part.partition(":")
        if not separator:
            raise ValueError("expected pairs such as `key1:value1,key2:value2`")
        pairs[name.strip().strip("'\"")] = value.strip().strip("'\"")
    return pairs
