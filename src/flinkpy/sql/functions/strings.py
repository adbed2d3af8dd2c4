"""String functions. Positions and lengths count Unicode characters.

Source: org.apache.flink.table.data.binary.BinaryStringDataUtil, SqlFunctionUtils of the table runtime.
"""

from __future__ import annotations

import base64
import binascii
import re
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import TableRuntimeError
from flinkpy.sql.functions.definition import Inference
from flinkpy.sql.functions.kernel_call import KernelCall, as_array
from flinkpy.sql.functions.registry import scalar, scalar_per_value
from flinkpy.sql.functions.results import (
    BOOLEAN,
    BYTES,
    INT,
    STRING,
    argument,
    common_type,
    exactly,
    nullable,
    part_of_argument,
    text_of_argument,
)
from flinkpy.sql.types import families as of
from flinkpy.sql.types import logical_types as lt

_TEXT = "CHARACTER_STRING"


@scalar("UPPER", _TEXT, returns=argument(0), aliases=("UPPERCASE",))
def upper(call: KernelCall, text: Any) -> Any:
    return pc.utf8_upper(text)


@scalar("LOWER", _TEXT, returns=argument(0), aliases=("LOWERCASE",))
def lower(call: KernelCall, text: Any) -> Any:
    return pc.utf8_lower(text)


@scalar("CHAR_LENGTH", _TEXT, returns=INT, aliases=("CHARACTER_LENGTH", "LENGTH"))
def char_length(call: KernelCall, text: Any) -> Any:
    return pc.utf8_length(text)


@scalar("REVERSE", _TEXT, returns=nullable(STRING))
def reverse(call: KernelCall, text: Any) -> Any:
    return pc.utf8_reverse(text)


def concatenated_type(call: Inference) -> lt.LogicalType:
    """The type of a concatenation: its length is the sum of lengths, and CHAR stays CHAR."""
    total = min(sum(kind.length for kind in call.types), lt.MAX_LENGTH)  # type: ignore[attr-defined]
    if call.types[0].root in of.BINARY_STRING:
        fixed = all(kind.root is lt.TypeRoot.BINARY for kind in call.types)
        return (lt.BinaryType if fixed else lt.VarBinaryType)(total, nullable=call.any_nullable)
    fixed = all(kind.root is lt.TypeRoot.CHAR for kind in call.types)
    return (lt.CharType if fixed else lt.VarCharType)(total, nullable=call.any_nullable)


@scalar("||", f"{_TEXT}, {_TEXT}", "BINARY_STRING, BINARY_STRING", returns=concatenated_type)
def join(call: KernelCall, left: Any, right: Any) -> Any:
    empty = "" if pa.types.is_string(left.type) else b""
    return pc.binary_join_element_wise(left, right, pa.scalar(empty, left.type))


@scalar(
    "CONCAT",
    f"{_TEXT}...",
    "BINARY_STRING...",
    returns=lambda call: (STRING if call.types[0].root in of.CHARACTER_STRING else BYTES).as_nullable(
        call.any_nullable
    ),
)
def concat(call: KernelCall, *texts: Any) -> Any:
    empty = "" if pa.types.is_string(texts[0].type) else b""
    return pc.binary_join_element_wise(*texts, pa.scalar(empty, texts[0].type))


@scalar("CONCAT_WS", f"{_TEXT}, {_TEXT}*...", returns=STRING, null_if_null=False)
def concat_ws(call: KernelCall, separator: Any, *texts: Any) -> Any:
    if not texts:
        return pc.if_else(pc.is_valid(separator), "", pa.scalar(None, pa.string()))
    return pc.binary_join_element_wise(*texts, separator, null_handling="skip")


@scalar("TRIM", f"SYMBOL, {_TEXT}, {_TEXT}", returns=STRING)
def trim(call: KernelCall, side: Any, characters: Any, text: Any) -> Any:
    """TRIM(side, characters, text). The side is BOTH, LEADING or TRAILING."""
    return _trimmed(call, text, characters, side.as_py())


def _trimmed(call: KernelCall, text: Any, characters: Any, side: str) -> Any:
    if isinstance(characters, pa.Scalar):
        function = {"BOTH": pc.utf8_trim, "LEADING": pc.utf8_ltrim, "TRAILING": pc.utf8_rtrim}[side]
        return function(text, characters.as_py()) if characters.as_py() else text
    strip = {"BOTH": str.strip, "LEADING": str.lstrip, "TRAILING": str.rstrip}[side]
    return call.per_value(lambda value, given: strip(value, given) if given else value, text, characters)


_BLANK = pa.scalar(" ")


@scalar("LTRIM", _TEXT, f"{_TEXT}, {_TEXT}", returns=text_of_argument)
def ltrim(call: KernelCall, text: Any, characters: Any = _BLANK) -> Any:
    return _trimmed(call, text, characters, "LEADING")


@scalar("RTRIM", _TEXT, f"{_TEXT}, {_TEXT}", returns=text_of_argument)
def rtrim(call: KernelCall, text: Any, characters: Any = _BLANK) -> Any:
    return _trimmed(call, text, characters, "TRAILING")


@scalar("BTRIM", _TEXT, f"{_TEXT}, {_TEXT}", returns=STRING)
def btrim(call: KernelCall, text: Any, characters: Any = _BLANK) -> Any:
    return _trimmed(call, text, characters, "BOTH")


@scalar_per_value("POSITION", f"{_TEXT}, {_TEXT}", returns=INT)
def position(part: str, text: str) -> int:
    return text.find(part) + 1


@scalar_per_value("INSTR", f"{_TEXT}, {_TEXT}", returns=INT)
def instr(text: str, part: str) -> int:
    return text.find(part) + 1


@scalar_per_value("LOCATE", f"{_TEXT}, {_TEXT}", f"{_TEXT}, {_TEXT}, INTEGER_NUMERIC", returns=INT)
def locate(part: str, text: str, start: int = 1) -> int:
    return text.find(part, max(start - 1, 0)) + 1


def _substring(call: KernelCall, text: Any, start: Any, length: Any = None) -> Any:
    if isinstance(start, pa.Scalar) and (length is None or isinstance(length, pa.Scalar)) and start.as_py() > 0:
        first = start.as_py() - 1
        if length is None:
            return pc.utf8_slice_codeunits(text, first)
        if length.as_py() < 0:
            return call.null()
        return pc.utf8_slice_codeunits(text, first, first + length.as_py())
    operands = [text, start] if length is None else [text, start, length]
    return call.per_value(substring_of, *operands)


def substring_of(text: str, start: int, length: int | None = None) -> str | None:
    """Returns the part from a position, which is 1 for the first character; negative ones count from the end."""
    if length is not None and length < 0:
        return None
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    if first < 0 or first > len(text):
        return ""
    return text[first:] if length is None else text[first : first + length]


_SUBSTRING = (f"{_TEXT}, INTEGER", f"{_TEXT}, INTEGER, INTEGER")


@scalar("SUBSTRING", *_SUBSTRING, returns=part_of_argument)
def substring(call: KernelCall, text: Any, start: Any, length: Any = None) -> Any:
    return _substring(call, text, start, length)


@scalar("SUBSTR", *_SUBSTRING, returns=part_of_argument)
def substr(call: KernelCall, text: Any, start: Any, length: Any = None) -> Any:
    return _substring(call, text, start, length)


@scalar_per_value("LEFT", f"{_TEXT}, INTEGER_NUMERIC", returns=part_of_argument)
def left(text: str, length: int) -> str:
    return text[: max(length, 0)]


@scalar_per_value("RIGHT", f"{_TEXT}, INTEGER_NUMERIC", returns=part_of_argument)
def right(text: str, length: int) -> str:
    return text[-length:] if length > 0 else ""


def overlay_type(call: Inference) -> lt.LogicalType:
    total = min(call.types[0].length + call.types[1].length, lt.MAX_LENGTH)  # type: ignore[attr-defined]
    return lt.VarCharType(total, nullable=call.any_nullable)


@scalar_per_value("OVERLAY", f"{_TEXT}, {_TEXT}, INTEGER", f"{_TEXT}, {_TEXT}, INTEGER, INTEGER", returns=overlay_type)
def overlay(text: str, part: str, start: int, length: int | None = None) -> str:
    if start <= 0 or start > len(text):
        return text
    end = start - 1 + (len(part) if length is None else length)
    return text[: start - 1] + part + (text[end:] if end >= 0 else "")


@scalar_per_value("REPLACE", f"{_TEXT}, {_TEXT}, {_TEXT}", returns=STRING)
def replace(text: str, old: str, new: str) -> str:
    return text.replace(old, new)


@scalar_per_value("TRANSLATE", f"{_TEXT}, {_TEXT}, {_TEXT}", returns=STRING)
def translate(text: str, given: str, wanted: str) -> str:
    table: dict[int, str | None] = {}
    for index, each in enumerate(given):
        table.setdefault(ord(each), wanted[index] if index < len(wanted) else None)
    return text.translate(table)


@scalar_per_value("REPEAT", f"{_TEXT}, INTEGER", returns=STRING)
def repeat(text: str, times: int) -> str:
    return text * max(times, 0)


@scalar_per_value("LPAD", f"{_TEXT}, INTEGER, {_TEXT}", returns=STRING.as_nullable())
def lpad(text: str, length: int, pad: str) -> str | None:
    filled = _padding(text, length, pad)
    return None if filled is None else filled + text[:length]


@scalar_per_value("RPAD", f"{_TEXT}, INTEGER, {_TEXT}", returns=STRING.as_nullable())
def rpad(text: str, length: int, pad: str) -> str | None:
    filled = _padding(text, length, pad)
    return None if filled is None else text[:length] + filled


def _padding(text: str, length: int, pad: str) -> str | None:
    if length < 0:
        return None
    missing = length - len(text)
    if missing <= 0:
        return ""
    return (pad * (missing // len(pad) + 1))[:missing] if pad else None


@scalar_per_value("INITCAP", _TEXT, returns=argument(0))
def initcap(text: str) -> str:
    return re.sub(r"[^\W_]+", lambda word: word[0][0].upper() + word[0][1:].lower(), text)


@scalar_per_value("ASCII", _TEXT, returns=INT)
def ascii_code(text: str) -> int:
    first = text.encode()[0] if text else 0
    return first - 256 if first > 127 else first


@scalar_per_value("CHR", "INTEGER_NUMERIC", returns=nullable(STRING))
def character(code: int) -> str:
    return "" if code < 0 else chr(code & 0xFF)


@scalar_per_value("TO_BASE64", _TEXT, returns=STRING)
def to_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@scalar_per_value("FROM_BASE64", _TEXT, returns=STRING, may_fail=True)
def from_base64(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode("utf-8", "replace")
    except binascii.Error as error:
        raise TableRuntimeError(f"FROM_BASE64: {text!r} is not in Base64: {error}") from None


_CHARSETS = {
    "US-ASCII": "ascii",
    "ISO-8859-1": "latin-1",
    "UTF-8": "utf-8",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
    "UTF-16": "utf-16",
}


def _charset(name: str) -> str:
    found = _CHARSETS.get(name.upper())
    if found is None:
        raise TableRuntimeError(f"Unsupported encoding: {name}, it is none of {', '.join(_CHARSETS)}")
    return found


@scalar_per_value("ENCODE", f"{_TEXT}, {_TEXT}", returns=BYTES.as_nullable(), may_fail=True)
def encode(text: str, charset: str) -> bytes:
    name = _charset(charset)
    if name == "utf-16":
        return b"\xfe\xff" + text.encode("utf-16-be")
    return text.encode(name, "replace")


@scalar_per_value("DECODE", f"BINARY_STRING, {_TEXT}", returns=STRING.as_nullable(), may_fail=True)
def decode(data: bytes, charset: str) -> str:
    name = _charset(charset)
    if name == "utf-16" and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        name = "utf-16-be"
    return data.decode(name, "replace")


@scalar_per_value("UNHEX", _TEXT, returns=nullable(BYTES))
def unhex(text: str) -> bytes | None:
    padded = text if len(text) % 2 == 0 else f"0{text}"
    try:
        return bytes.fromhex(padded) if not re.search(r"\s", padded) else None
    except ValueError:
        return None


def _parts(call: KernelCall, text: Any, separator: str, index: int) -> pa.Array:
    """Returns the part at a position of each text; null if there are fewer parts, or the text is empty."""

    def compute(values: pa.Array) -> pa.Array:
        lists = pc.split_pattern(values, separator, max_splits=index + 1)
        lengths = pc.list_value_length(lists)
        enough = pc.and_(pc.greater(lengths, index), pc.greater(pc.binary_length(values), 0))
        long_enough = pc.if_else(enough, lists, pa.scalar(None, lists.type))
        valid = pc.drop_null(long_enough)
        found = pc.list_element(valid, index) if len(valid) else pa.array([], pa.string())
        if len(found) == len(values):
            return found
        mask = pc.fill_null(enough, False)
        return pc.replace_with_mask(pa.nulls(len(values), pa.string()), mask, found)

    return call.once_per_distinct(text, compute)


@scalar(
    "SPLIT_INDEX",
    f"{_TEXT}, {_TEXT}, INTEGER",
    f"{_TEXT}, INTEGER, INTEGER",
    returns=nullable(STRING),
    is_costly=True,
)
def split_index(call: KernelCall, text: Any, separator: Any, index: Any) -> Any:
    if isinstance(separator, pa.Scalar) and isinstance(index, pa.Scalar):
        given, place = separator.as_py(), index.as_py()
        given = chr(given) if isinstance(given, int) else given
        if place < 0:
            return call.null()
        if given:
            return _parts(call, text, given, place)

    def one(value: str, given: str | int, place: int) -> str | None:
        if place < 0 or not value:
            return None
        if isinstance(given, int):
            given = chr(given)
        parts = value.split(given) if given else value.split()
        return parts[place] if place < len(parts) else None

    return call.per_value(one, text, separator, index)


@scalar_per_value(
    "SPLIT",
    f"{_TEXT}, {_TEXT}",
    returns=lambda call: lt.ArrayType(STRING, nullable=call.any_nullable),
)
def split(text: str, separator: str) -> list[str]:
    if not text:
        return []
    return text.split(separator) if separator else list(text)


@scalar_per_value(
    "STR_TO_MAP",
    _TEXT,
    f"{_TEXT}, {_TEXT}, {_TEXT}",
    returns=nullable(lt.MapType(STRING, STRING)),
)
def str_to_map(text: str, pairs: str = ",", equals: str = "=") -> list[tuple[str, str | None]]:
    found: dict[str, str | None] = {}
    for pair in re.split(pairs, text):
        parts = re.split(equals, pair, maxsplit=1)
        found[parts[0]] = parts[1] if len(parts) > 1 else None
    return list(found.items())


def _elt_type(call: Inference) -> lt.LogicalType:
    return common_type(call.types[1:]).as_nullable()


@scalar(
    "ELT",
    f"INTEGER_NUMERIC, {_TEXT}...",
    "INTEGER_NUMERIC, BINARY_STRING...",
    returns=_elt_type,
    null_if_null=False,
)
def elt(call: KernelCall, index: Any, *values: Any) -> Any:
    index = as_array(index, call.num_rows).cast(pa.int64())
    result: Any = pa.nulls(call.num_rows, call.arrow_type)
    for place, value in enumerate(values, 1):
        result = pc.if_else(pc.fill_null(pc.equal(index, place), False), value, result)
    return result


def _match(call: KernelCall, text: Any, part: Any, at_start: bool) -> Any:
    if isinstance(part, pa.Scalar) and pa.types.is_string(text.type):
        return (pc.starts_with if at_start else pc.ends_with)(text, part.as_py())
    return call.per_value(lambda one, other: one.startswith(other) if at_start else one.endswith(other), text, part)


@scalar("STARTSWITH", f"{_TEXT}, {_TEXT}", "BINARY_STRING, BINARY_STRING", returns=BOOLEAN)
def starts_with(call: KernelCall, text: Any, part: Any) -> Any:
    return _match(call, text, part, True)


@scalar("ENDSWITH", f"{_TEXT}, {_TEXT}", "BINARY_STRING, BINARY_STRING", returns=BOOLEAN)
def ends_with(call: KernelCall, text: Any, part: Any) -> Any:
    return _match(call, text, part, False)


@scalar("UUID", "", returns=exactly(lt.CharType(36, nullable=False)), is_deterministic=False)
def random_uuid(call: KernelCall) -> Any:
    return pa.array([str(uuid.uuid4()) for _ in range(call.num_rows)], pa.string())


_FORMAT = re.compile(r"%(\d+\$)?([-#+ 0,(]*)(\d+)?(\.\d+)?([a-zA-Z%])")


@scalar("PRINTF", f"{_TEXT}, ANY*...", returns=nullable(STRING), null_if_null=False, is_costly=True)
def printf(call: KernelCall, text: Any, *values: Any) -> Any:
    """Formats values as Java's String.format does, with %s %d %x %o %c %b %e %f %g %n."""
    columns = [as_array(each, call.num_rows).to_pylist() for each in (text, *values)]
    return pa.array([None if row[0] is None else _printed(row[0], row[1:]) for row in zip(*columns)], pa.string())


def _printed(pattern: str, values: tuple[Any, ...]) -> str | None:
    following = iter(range(len(values)))

    def one(found: re.Match[str]) -> str:
        place, flags, width, precision, letter = found.groups()
        if letter in "n%":
            return "\n" if letter == "n" else "%"
        value = values[int(place[:-1]) - 1 if place else next(following)]
        if letter in "sSbB" or value is None:
            shown = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
            value, letter, flags = (shown.upper() if letter == "S" else shown), "s", flags.replace("0", "")
        if "," in flags:
            return format(value, f"{width or ''},{precision or ''}{letter}")
        return f"%{flags}{width or ''}{precision or ''}{letter}" % (value,)

    try:
        return _FORMAT.sub(one, pattern)
    except (ValueError, TypeError, IndexError, StopIteration):
        return None
