"""Parsers and formatters of option values such as `10 s`, `PT10S`, `64mb` or `true`.

Durations become whole milliseconds and memory sizes whole bytes.

Source: org.apache.flink.util.TimeUtils, org.apache.flink.configuration.{MemorySize,StructuredOptionsSplitter}.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Any


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
#: The largest signed 64-bit number, which is also the limit of Flink's durations and memory sizes.
_LONGEST = (1 << 63) - 1
_ISO_UNITS_S = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


def parse_boolean(text: str) -> bool:
    """Returns the boolean of `true` or `false`, in any case. Raises: ValueError for any other text."""
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError("expected true or false")
    return lowered == "true"


def parse_duration_ms(text: str) -> int:
    """Returns the milliseconds of `10 s`, `500ms`, `1min`, `PT10S` or a bare number (milliseconds, as in Flink).

    Parts of a millisecond are rounded up, so that rounding never turns a timeout into zero.
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
    milliseconds = -(-nanoseconds // 1_000_000)
    if milliseconds > _LONGEST:
        raise ValueError(f"expected at most {_LONGEST} ms")
    return milliseconds


def _iso_duration_ns(text: str) -> int:
    match = _ISO_DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise ValueError("expected an ISO-8601 duration such as `PT10S`")
    seconds = sum(
        (Fraction(value) * _ISO_UNITS_S[name] for name, value in match.groupdict().items() if value), Fraction()
    )
    return int(seconds * 1_000_000_000)


def format_duration(milliseconds: int) -> str:
    """Returns the shortest text that `parse_duration_ms` reads as this value, e.g. `10 s`."""
    for unit, factor in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if milliseconds and milliseconds % factor == 0:
            return f"{milliseconds // factor} {unit}"
    return f"{milliseconds} ms"


def parse_memory_bytes(text: str) -> int:
    """Returns the bytes of `64mb`, `1 gb`, `32 kb` or a bare number (bytes)."""
    match = _NUMBER_AND_UNIT.fullmatch(text)
    unit = match.group(2).lower() if match else ""
    if match is None or (unit and unit not in _MEMORY_UNITS):
        raise ValueError("expected a memory size such as `64mb` or `1 gb`")
    size_bytes = int(match.group(1)) * _MEMORY_UNITS[unit or "b"]
    if size_bytes > _LONGEST:
        raise ValueError(f"expected at most {_LONGEST} bytes")
    return size_bytes


def format_memory(size_bytes: int) -> str:
    """Returns the shortest text that `parse_memory_bytes` reads as this value, e.g. `64 mb`."""
    for unit, shift in (("tb", 40), ("gb", 30), ("mb", 20), ("kb", 10)):
        if size_bytes and size_bytes % (1 << shift) == 0:
            return f"{size_bytes >> shift} {unit}"
    return f"{size_bytes} bytes"


def parse_list(text: str) -> tuple[str, ...]:
    """Returns the elements of `a;b;c`, or of a YAML list (`[a, b, c]`, or `- a` lines); empty text has none.

    An element in single or double quotes may contain the separator.
    """
    stripped = text.strip()
    if stripped.startswith(("[", "- ")):
        document = _yaml(stripped)
        if not isinstance(document, list) or any(isinstance(element, list | dict) for element in document):
            raise ValueError("expected a list such as `a;b;c` or `[a, b, c]`")
        return tuple(document)
    return tuple(element for part in _split(stripped, ";") if (element := _unquoted(part)))


def format_list(elements: Iterable[str]) -> str:
    """Returns the text that `parse_list` reads as these elements."""
    return ";".join(_quoted(element) if ";" in element or element[:1] in _QUOTES else element for element in elements)


def parse_map(text: str) -> dict[str, str]:
    """Returns the pairs of `a:1,b:2`, or of a YAML map (`{a: 1, b: 2}`, or `a: 1` lines).

    Names and values in single or double quotes may contain the separators.
    """
    stripped = text.strip()
    if stripped.startswith("{") or "\n" in stripped:
        document = _yaml(stripped)
        if not isinstance(document, dict) or any(isinstance(value, list | dict) for value in document.values()):
            raise ValueError(_EXPECTED_PAIRS)
        return document
    pairs: dict[str, str] = {}
    for part in _split(stripped, ",", ":"):
        if not part.strip():
            continue
        name, *rest = _split(part, ":")
        if not rest:
            raise ValueError(_EXPECTED_PAIRS)
        pairs[_unquoted(name)] = _unquoted(":".join(rest))
    return pairs


_EXPECTED_PAIRS = "expected pairs such as `key1:value1,key2:value2`"
_QUOTES = ("'", '"')


def _yaml(text: str) -> Any:
    """Returns the YAML document in the text; scalars stay text."""
    import yaml

    try:
        return yaml.load(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise ValueError(f"expected valid YAML: {' '.join(str(error).split())}") from None


def _split(text: str, separator: str, pair_separator: str = "") -> list[str]:
    """Splits the text at separators outside quotes.

    A quote opens at the start of a part, or of the value after a `pair_separator`. Two quotes in a row mean one.
    """
    parts, start, quote, closed_at = [], 0, "", -1
    for position, character in enumerate(text):
        if quote:
            if character == quote:
                quote, closed_at = "", position
        elif character in _QUOTES and (
            closed_at == position - 1 or text[start:position].rstrip()[-1:] in ("", pair_separator)
        ):
            quote = character
        elif character == separator:
            parts.append(text[start:position])
            start = position + 1
    if quote:
        raise ValueError(f"expected a closing {quote}")
    return [*parts, text[start:]]


def _unquoted(part: str) -> str:
    stripped = part.strip()
    if len(stripped) > 1 and stripped[0] in _QUOTES and stripped[-1] == stripped[0]:
        return stripped[1:-1].replace(stripped[0] * 2, stripped[0])
    return stripped


def _quoted(text: str) -> str:
    return f'"{text.replace(chr(34), chr(34) * 2)}"'
