"""Functions of patterns: LIKE, SIMILAR TO and Java regular expressions.

A regular expression runs with Arrow's RE2 if its syntax means the same there, otherwise with Python's `re`.

Source: org.apache.flink.table.runtime.functions.SqlLikeUtils, SqlFunctionUtils.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import TableRuntimeError
from flinkpy.sql.functions.kernel_call import KernelCall
from flinkpy.sql.functions.registry import scalar, scalar_per_value
from flinkpy.sql.functions.results import BOOLEAN, INT, STRING, nullable
from flinkpy.sql.types import logical_types as lt

_TEXT = "CHARACTER_STRING"
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
#: Syntax whose meaning differs between RE2 and Java, or which RE2 does not have.
_NOT_FOR_RE2 = re.compile(r"\$|\(\?|\\[^dDwWsS.\\/()\[\]{}*+?|^&=:,;%#@!~<>_-]|[*+?}]\+")


@lru_cache(maxsize=256)
def java_pattern(pattern: str) -> re.Pattern[str]:
    """Returns a Java regular expression as one of Python. Raises: re.error if it is not valid."""
    translated = _QUOTED.sub(lambda found: re.escape(found[1]), pattern)
    translated = translated.replace("(?<", "(?P<").replace("(?P<=", "(?<=").replace("(?P<!", "(?<!")
    translated = translated.replace(r"\z", r"\Z")
    return re.compile(translated, re.ASCII if "(?U" not in pattern else 0)


def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        return java_pattern(pattern)
    except re.error:
        return None


# -- LIKE -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _like_parts(pattern: str, escape: str | None) -> list[str | None]:
    """Returns the parts of a LIKE pattern: texts, "%" as None, and "_" as an empty text."""
    parts: list[str | None] = []
    characters = iter(pattern)
    for each in characters:
        if escape is not None and each == escape:
            following = next(characters, None)
            if following is None or following not in ("%", "_", escape):
                raise TableRuntimeError(f"Invalid escape sequence '{pattern}', in LIKE")
            parts.append(following)
        elif each == "%":
            parts.append(None)
        elif each == "_":
            parts.append("")
        else:
            parts.append(each)
    return parts


def _like(text: Any, pattern: str, escape: str | None) -> Any:
    parts = _like_parts(pattern, escape)
    literal = "".join(part for part in parts if part)
    wildcards = [index for index, part in enumerate(parts) if part is None]
    if "" not in parts:
        if not wildcards:
            return pc.equal(text, literal)
        last = len(parts) - 1
        if wildcards == [last]:
            return pc.starts_with(text, literal)
        if wildcards == [0]:
            return pc.ends_with(text, literal)
        if wildcards == [0, last] and last > 0:
            return pc.match_substring(text, literal)
    shape = "".join(".*" if part is None else "." if part == "" else re.escape(part) for part in parts)
    return pc.match_substring_regex(text, f"(?s)^{shape}\\z")


_LIKE = (f"{_TEXT}, {_TEXT}", f"{_TEXT}, {_TEXT}, {_TEXT}")


def _like_kernel(call: KernelCall, text: Any, pattern: Any, escape: Any = None) -> Any:
    if isinstance(pattern, pa.Scalar) and (escape is None or isinstance(escape, pa.Scalar)):
        given, sign = pattern.as_py(), None if escape is None else escape.as_py()
        if given.startswith(("%", "_")) and isinstance(text, pa.Array):
            return call.once_per_distinct(text, lambda values: _like(values, given, sign))
        return _like(text, given, sign)

    def one(value: str, given: str, sign: str | None = None) -> bool:
        return bool(_like(pa.array([value]), given, sign)[0].as_py())

    return call.per_value(one, *([text, pattern] if escape is None else [text, pattern, escape]))


@scalar("LIKE", *_LIKE, returns=BOOLEAN)
def like(call: KernelCall, text: Any, pattern: Any, escape: Any = None) -> Any:
    return _like_kernel(call, text, pattern, escape)


@scalar("NOT LIKE", *_LIKE, returns=BOOLEAN)
def not_like(call: KernelCall, text: Any, pattern: Any, escape: Any = None) -> Any:
    return pc.invert(_like_kernel(call, text, pattern, escape))


@lru_cache(maxsize=256)
def _similar_pattern(pattern: str, escape: str | None) -> re.Pattern[str]:
    shape = []
    in_class = False
    characters = iter(pattern)
    for each in characters:
        if escape is not None and each == escape:
            shape.append(re.escape(next(characters, "")))
        elif in_class:
            in_class = each != "]"
            shape.append(each)
        elif each == "[":
            in_class = True
            shape.append(each)
        elif each in "%_":
            shape.append(".*" if each == "%" else ".")
        elif each in "|*+?{}()":
            shape.append(each)
        else:
            shape.append(re.escape(each))
    try:
        return re.compile("".join(shape), re.DOTALL)
    except re.error as error:
        raise TableRuntimeError(f"Invalid regular expression {pattern!r} in SIMILAR TO: {error}") from None


def _similar(text: str, pattern: str, escape: str | None = None) -> bool:
    return _similar_pattern(pattern, escape).fullmatch(text) is not None


scalar_per_value("SIMILAR TO", *_LIKE, returns=BOOLEAN, may_fail=True)(_similar)
scalar_per_value("NOT SIMILAR TO", *_LIKE, returns=BOOLEAN, may_fail=True)(
    lambda text, pattern, escape=None: not _similar(text, pattern, escape)
)


# -- regular expressions --------------------------------------------------------------------------------------------


def _per_pattern(call: KernelCall, compute: Callable[..., Any], text: Any, pattern: Any, *rest: Any) -> Any:
    """Calls `compute(pattern, text, ...)` with the compiled pattern; null if the pattern is not valid."""

    def one(value: str, given: str, *others: Any) -> Any:
        compiled = _compiled(given)
        return None if compiled is None else compute(compiled, value, *others)

    return call.per_value(one, text, pattern, *rest)


@scalar("REGEXP", f"{_TEXT}, {_TEXT}", returns=BOOLEAN, aliases=("RLIKE",), is_costly=True, may_fail=True)
def regexp(call: KernelCall, text: Any, pattern: Any) -> Any:
    def one(value: str, given: str) -> bool:
        compiled = _compiled(given)
        if compiled is None:
            raise TableRuntimeError(f"Invalid regular expression {given!r}")
        return given != "" and compiled.search(value) is not None

    return call.per_value(one, text, pattern)


def _group(found: re.Match[str] | None, index: int) -> str | None:
    return found[index] if found is not None and 0 <= index <= found.re.groups else None


@scalar("REGEXP_EXTRACT", f"{_TEXT}, {_TEXT}", f"{_TEXT}, {_TEXT}, INTEGER", returns=nullable(STRING), is_costly=True)
def regexp_extract(call: KernelCall, text: Any, pattern: Any, index: Any = None) -> Any:
    index = pa.scalar(0, pa.int32()) if index is None else index
    if isinstance(pattern, pa.Scalar) and isinstance(index, pa.Scalar) and isinstance(text, pa.Array):
        compiled = _compiled(pattern.as_py())
        group = index.as_py()
        if compiled is None or not 0 <= group <= compiled.groups:
            return call.null()
        fast = re2_groups(pattern.as_py())

        def compute(values: pa.Array) -> pa.Array:
            if fast is not None and group > 0:
                found = pc.struct_field(pc.extract_regex(values, fast), group - 1)
                # RE2 gives an empty text for a group that took no part, Java a null.
                empty = pc.fill_null(pc.equal(found, ""), False)
                if not pc.any(empty).as_py():
                    return found
                rest = [_group(compiled.search(each), group) for each in values.filter(empty).to_pylist()]
                return pc.replace_with_mask(found, empty, pa.array(rest, pa.string()))
            search = compiled.search
            return pa.array(
                [None if each is None else _group(search(each), group) for each in values.to_pylist()], pa.string()
            )

        return call.once_per_distinct(text, compute)
    return _per_pattern(
        call, lambda compiled, value, place: _group(compiled.search(value), place), text, pattern, index
    )


@lru_cache(maxsize=256)
def re2_groups(pattern: str) -> str | None:
    """Returns the pattern with named groups g1, g2, ...; None if it may mean something else in RE2."""
    if _NOT_FOR_RE2.search(pattern):
        return None
    named = []
    count, in_class, is_escaped = 0, False, False
    for each in pattern:
        named.append(each)
        if is_escaped:
            is_escaped = False
        elif each == "\\":
            is_escaped = True
        elif in_class:
            in_class = each != "]"
        elif each == "[":
            in_class = True
        elif each == "(":
            count += 1
            named.append(f"?P<g{count}>")
    return "".join(named) if count else None


@scalar("REGEXP_REPLACE", f"{_TEXT}, {_TEXT}, {_TEXT}", returns=STRING.as_nullable(), is_costly=True)
def regexp_replace(call: KernelCall, text: Any, pattern: Any, replacement: Any) -> Any:
    return _per_pattern(
        call,
        lambda compiled, value, given: compiled.sub(lambda found: given, value),
        text,
        pattern,
        replacement,
    )


@scalar("REGEXP_COUNT", f"{_TEXT}, {_TEXT}", returns=nullable(INT), is_costly=True)
def regexp_count(call: KernelCall, text: Any, pattern: Any) -> Any:
    return _per_pattern(call, lambda compiled, value: sum(1 for _ in compiled.finditer(value)), text, pattern)


@scalar("REGEXP_INSTR", f"{_TEXT}, {_TEXT}", returns=nullable(INT), is_costly=True)
def regexp_instr(call: KernelCall, text: Any, pattern: Any) -> Any:
    def one(compiled: re.Pattern[str], value: str) -> int:
        found = compiled.search(value)
        return 0 if found is None else found.start() + 1

    return _per_pattern(call, one, text, pattern)


@scalar("REGEXP_SUBSTR", f"{_TEXT}, {_TEXT}", returns=nullable(STRING), is_costly=True)
def regexp_substr(call: KernelCall, text: Any, pattern: Any) -> Any:
    return _per_pattern(call, lambda compiled, value: _group(compiled.search(value), 0), text, pattern)


@scalar(
    "REGEXP_EXTRACT_ALL",
    f"{_TEXT}, {_TEXT}",
    f"{_TEXT}, {_TEXT}, INTEGER_NUMERIC",
    returns=nullable(lt.ArrayType(STRING)),
    is_costly=True,
)
def regexp_extract_all(call: KernelCall, text: Any, pattern: Any, index: Any = None) -> Any:
    def one(compiled: re.Pattern[str], value: str, place: int = 1) -> list[str | None] | None:
        if not 0 <= place <= compiled.groups:
            return None
        return [found[place] for found in compiled.finditer(value)]

    return _per_pattern(call, one, text, pattern, *([] if index is None else [index]))
