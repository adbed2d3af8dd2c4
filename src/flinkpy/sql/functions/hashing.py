"""Hash functions and URL functions of text."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from typing import Any
from urllib.parse import quote_plus, urlsplit

from flinkpy.common.errors import TableRuntimeError
from flinkpy.sql.functions.registry import scalar_per_value
from flinkpy.sql.functions.results import BIGINT, STRING, nullable
from flinkpy.sql.types import logical_types as lt

_TEXT = "CHARACTER_STRING"


def _digest(name: str, algorithm: str, length: int) -> None:
    @scalar_per_value(name, _TEXT, returns=lt.CharType(length))
    def compute(text: str) -> str:
        return hashlib.new(algorithm, text.encode(), usedforsecurity=False).hexdigest()


for _name, _algorithm, _length in (
    ("MD5", "md5", 32),
    ("SHA1", "sha1", 40),
    ("SHA224", "sha224", 56),
    ("SHA256", "sha256", 64),
    ("SHA384", "sha384", 96),
    ("SHA512", "sha512", 128),
):
    _digest(_name, _algorithm, _length)


@scalar_per_value("SHA2", f"{_TEXT}, INTEGER", returns=lt.VarCharType(128), may_fail=True)
def sha2(text: str, bits: int) -> str:
    if bits not in (224, 256, 384, 512):
        raise TableRuntimeError(f"Unsupported algorithm: SHA-{bits}; SHA2 knows 224, 256, 384 and 512 bits")
    return hashlib.new(f"sha{bits}", text.encode()).hexdigest()


@scalar_per_value("URL_ENCODE", _TEXT, returns=nullable(STRING))
def url_encode(text: str) -> str:
    return quote_plus(text, safe="*-._").replace("~", "%7E")


@scalar_per_value("URL_DECODE", _TEXT, returns=nullable(STRING))
def url_decode(text: str) -> str | None:
    if re.search(r"%(?![0-9a-fA-F]{2})", text):
        return None
    raw = re.sub(rb"%([0-9a-fA-F]{2})", lambda found: bytes([int(found[1], 16)]), text.replace("+", " ").encode())
    return raw.decode("utf-8", "replace")


_PARTS = {
    "HOST": lambda url: url.hostname,
    "PATH": lambda url: url.path,
    "QUERY": lambda url: url.query or None,
    "REF": lambda url: url.fragment or None,
    "PROTOCOL": lambda url: url.scheme or None,
    "AUTHORITY": lambda url: url.netloc or None,
    "FILE": lambda url: url.path + (f"?{url.query}" if url.query else ""),
    "USERINFO": lambda url: url.netloc.rpartition("@")[0] or None,
}


@scalar_per_value("PARSE_URL", f"{_TEXT}, {_TEXT}", f"{_TEXT}, {_TEXT}, {_TEXT}", returns=nullable(STRING))
def parse_url(text: str, part: str, key: str | None = None) -> str | None:
    try:
        url = urlsplit(text)
    except ValueError:
        return None
    show: Any = _PARTS.get(part)
    if show is None or not url.scheme:
        return None
    found = show(url)
    if key is None or found is None:
        return found  # type: ignore[no-any-return]
    if part != "QUERY":
        return None
    value = re.search(rf"(?:&|^){re.escape(key)}=([^&]*)", found)
    return None if value is None else value[1]


@scalar_per_value("INET_ATON", _TEXT, returns=nullable(BIGINT))
def inet_aton(text: str) -> int | None:
    parts = text.split(".")
    if not 1 <= len(parts) <= 4 or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    numbers = [int(part) for part in parts]
    last = numbers.pop()
    if any(number > 255 for number in numbers) or last >= 256 ** (4 - len(numbers)):
        return None
    return sum(number << (24 - 8 * place) for place, number in enumerate(numbers)) + last


@scalar_per_value("INET_NTOA", "INTEGER_NUMERIC", returns=nullable(STRING))
def inet_ntoa(number: int) -> str | None:
    return str(ipaddress.IPv4Address(number)) if 0 <= number < 1 << 32 else None
