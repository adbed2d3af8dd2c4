"""JSON functions. Paths have names, positions and wildcards; filters of the path language are not there.

Source: org.apache.flink.table.runtime.functions.SqlJsonUtils.
"""

from __future__ import annotations

import base64
import datetime as _dt
import json
import re
from functools import lru_cache
from typing import Any

import pyarrow as pa

from flinkpy.common.errors import TableRuntimeError
from flinkpy.sql.functions.casts import convert
from flinkpy.sql.functions.kernel_call import KernelCall, as_array
from flinkpy.sql.functions.registry import scalar, scalar_per_value
from flinkpy.sql.functions.results import BOOLEAN, STRING, exactly, nullable
from flinkpy.sql.functions.text_values import float_text
from flinkpy.sql.types import logical_types as lt

_TEXT = "CHARACTER_STRING"


def _kind(text: str) -> str | None:
    """Returns OBJECT, ARRAY or SCALAR; None if the text is no JSON."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return "OBJECT" if isinstance(value, dict) else "ARRAY" if isinstance(value, list) else "SCALAR"


def _register(kind: str, is_negated: bool) -> None:
    name = f"IS {'NOT ' if is_negated else ''}JSON {kind}"

    @scalar(
        name,
        _TEXT,
        returns=exactly(BOOLEAN.not_null()),
        null_if_null=False,
        is_costly=True,
        aliases=(name.removesuffix(" VALUE"),) if kind == "VALUE" else (),
    )
    def kernel(call: KernelCall, text: Any) -> Any:
        def compute(values: pa.Array) -> pa.Array:
            found = [None if value is None else _kind(value) for value in values.to_pylist()]
            return pa.array([(each is not None and kind in ("VALUE", each)) != is_negated for each in found])

        return call.once_per_distinct(as_array(text, call.num_rows), compute)


for _kind_name in ("VALUE", "OBJECT", "ARRAY", "SCALAR"):
    _register(_kind_name, False)
    _register(_kind_name, True)


@scalar_per_value("JSON_QUOTE", _TEXT, returns=STRING)
def json_quote(text: str) -> str:
    return json.dumps(text)


@scalar_per_value("JSON_UNQUOTE", _TEXT, returns=STRING)
def json_unquote(text: str) -> str:
    if len(text) < 2 or not (text[0] == text[-1] == '"'):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str) else text


# -- paths ----------------------------------------------------------------------------------------------------------

_STEP = re.compile(r"""\.?\[\s*(?:'([^']*)'|"([^"]*)"|(\d+)|(\*))\s*\]|\.([^.\[\]\s]+)""")
_MISSING = object()


class _PathError(Exception):
    """A strict path does not fit the document, or the document is no JSON."""


@lru_cache(maxsize=256)
def _path(text: str) -> tuple[bool, tuple[str | int | None, ...]]:
    """Returns if a path is strict, and its steps: names, positions, None for a wildcard.

    Raises: TableRuntimeError if the path is not valid.
    """
    found = re.match(r"\s*(?:(lax|strict)\s+)?\$", text, re.IGNORECASE)
    if found is None:
        raise TableRuntimeError(f"Illegal JSON path {text!r}: it has to begin with $, lax $ or strict $")
    steps: list[str | int | None] = []
    position = found.end()
    rest = text.rstrip()
    while position < len(rest):
        step = _STEP.match(rest, position)
        if step is None:
            raise TableRuntimeError(f"Illegal JSON path {text!r} at position {position + 1}")
        name = step[1] if step[1] is not None else step[2] if step[2] is not None else step[5]
        steps.append(int(step[3]) if step[3] is not None else None if step[4] or name == "*" else name)
        position = step.end()
    return (found[1] or "").lower() == "strict", tuple(steps)


def _found(document: str, path: str) -> Any:
    """Returns what a path leads to, _MISSING for nothing. A wildcard gives a list.

    Raises: _PathError.
    """
    is_strict, steps = _path(path)
    try:
        current = [json.loads(document, parse_float=_Number)]
    except ValueError as error:
        raise _PathError(str(error)) from None
    many = False
    for step in steps:
        following: list[Any] = []
        for value in current:
            if step is None:
                many = True
                following += value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
            elif isinstance(step, str):
                if isinstance(value, dict) and step in value:
                    following.append(value[step])
                elif isinstance(value, list) and not is_strict:
                    following += [each[step] for each in value if isinstance(each, dict) and step in each]
            elif isinstance(value, list) and step < len(value):
                following.append(value[step])
            elif not is_strict and step == 0 and not isinstance(value, list):
                following.append(value)
        if not following and not many:
            if is_strict:
                raise _PathError(f"No results for path: {path}")
            return _MISSING
        current = following
    return current if many else current[0]


class _Number(float):
    """A number with a decimal point, which is shown as it was written."""

    def __new__(cls, text: str) -> _Number:
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str


@scalar("JSON_EXISTS", f"{_TEXT}, {_TEXT}, SYMBOL?", returns=nullable(BOOLEAN), is_costly=True, may_fail=True)
def json_exists(call: KernelCall, document: Any, path: Any, on_error: Any = None) -> Any:
    behavior = "FALSE" if on_error is None else on_error.as_py()

    def one(text: str, given: str) -> bool | None:
        try:
            return _found(text, given) is not _MISSING
        except _PathError as error:
            if behavior == "ERROR":
                raise TableRuntimeError(f"JSON_EXISTS: {error}") from None
            return {"TRUE": True, "FALSE": False}.get(behavior)

    return call.per_value(one, document, path)


def _scalar_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else _document(value)


@scalar(
    "JSON_VALUE",
    f"{_TEXT}, {_TEXT}",
    f"{_TEXT}, {_TEXT}, SYMBOL, ANY, SYMBOL, ANY",
    returns=nullable(STRING),
    is_costly=True,
    null_if_null=False,
    may_fail=True,
)
def json_value(call: KernelCall, document: Any, path: Any, *behaviors: Any) -> Any:
    """JSON_VALUE(document, path, on empty, its default, on error, its default).

    The behaviours are NULL, ERROR or DEFAULT. The type of the node is that of RETURNING.
    """
    if any(isinstance(each, pa.Scalar) and not each.is_valid for each in (document, path)):
        return call.null()
    on_empty, empty_default, on_error, error_default = behaviors or (None, None, None, None)
    modes = ["NULL" if each is None else each.as_py() for each in (on_empty, on_error)]
    defaults = [None if each is None else as_array(each, 1)[0].as_py() for each in (empty_default, error_default)]

    def otherwise(place: int, reason: str) -> Any:
        if modes[place] == "ERROR":
            raise TableRuntimeError(f"JSON_VALUE: {reason}")
        value = defaults[place] if modes[place] == "DEFAULT" else None
        return None if value is None else _scalar_text(value)

    def one(text: str, given: str) -> Any:
        try:
            value = _found(text, given)
        except _PathError as error:
            return otherwise(1, str(error))
        if value is _MISSING or value is None:
            return otherwise(0, "Empty result of JSON_VALUE function is not allowed")
        if isinstance(value, dict | list):
            return otherwise(1, "Strict jsonpath mode requires scalar value")
        return _scalar_text(value)

    texts = KernelCall(
        call.name, STRING, call.argument_types[:2], call.num_rows, call.settings, call.encodings
    ).per_value(one, document, path)
    if call.type.root in (lt.TypeRoot.VARCHAR, lt.TypeRoot.CHAR):
        return texts
    return convert(as_array(texts, call.num_rows), STRING, call.type, call)


def _document(value: Any) -> str:
    """Returns the JSON text of a value without blanks, with keys in order. Numbers keep the digits of their text."""
    if isinstance(value, dict):
        members = sorted(value.items(), key=lambda member: str(member[0]))
        pairs = (f"{json.dumps(str(key), ensure_ascii=False)}:{_document(each)}" for key, each in members)
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_document, value))}]"
    if isinstance(value, float) and not isinstance(value, _Number):
        return float_text(value, True)
    return value.text if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)


@scalar(
    "JSON_QUERY",
    f"{_TEXT}, {_TEXT}",
    f"{_TEXT}, {_TEXT}, SYMBOL, SYMBOL, SYMBOL",
    returns=nullable(STRING),
    is_costly=True,
    may_fail=True,
)
def json_query(call: KernelCall, document: Any, path: Any, *behaviors: Any) -> Any:
    """JSON_QUERY(document, path, wrapper, on empty, on error).

    The wrapper is WITHOUT, CONDITIONAL or UNCONDITIONAL, a behaviour NULL, ERROR, EMPTY ARRAY or EMPTY OBJECT.
    """
    wrapper, on_empty, on_error = [each.as_py() for each in behaviors] or ["WITHOUT", "NULL", "NULL"]

    def otherwise(behavior: str, reason: str) -> str | None:
        if behavior == "ERROR":
            raise TableRuntimeError(f"JSON_QUERY: {reason}")
        return {"EMPTY ARRAY": "[]", "EMPTY OBJECT": "{}"}.get(behavior)

    def one(text: str, given: str) -> str | None:
        try:
            value = _found(text, given)
        except _PathError as error:
            return otherwise(on_error, str(error))
        if value is _MISSING or value is None:
            return otherwise(on_empty, "Empty result of JSON_QUERY function is not allowed")
        is_scalar = not isinstance(value, dict | list)
        if wrapper == "UNCONDITIONAL" or (wrapper == "CONDITIONAL" and is_scalar):
            return _document([value])
        if is_scalar:
            return otherwise(on_error, "Strict jsonpath mode requires array or object value")
        return _document(value)

    return call.per_value(one, document, path)


# -- construction ---------------------------------------------------------------------------------------------------


def _plain(value: Any, kind: lt.LogicalType) -> Any:
    """Returns a value as the object that a JSON writer shows as Flink does."""
    if value is None:
        return None
    if isinstance(kind, lt.ArrayType):
        return [_plain(each, kind.element) for each in value]
    if isinstance(kind, lt.MapType):
        return {str(key): _plain(each, kind.value) for key, each in value}
    if isinstance(kind, lt.RowType):
        return {name: _plain(value[name], child) for name, child in zip(kind.names, kind.children)}
    if isinstance(kind, lt.DecimalType):
        return _Number(format(value, "f"))
    if isinstance(value, bytes):
        return (
            json.loads(value, parse_float=_Number)
            if kind.root is lt.TypeRoot.VARIANT
            else base64.b64encode(value).decode()
        )
    if isinstance(value, _dt.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="auto")
        return f"{text}Z" if isinstance(kind, lt.LocalZonedTimestampType) else text
    return value if isinstance(value, bool | int | float | str) else str(value)


def _columns(call: KernelCall, operands: tuple[Any, ...], first: int) -> list[list[Any]]:
    columns = []
    for operand, kind in zip(operands, call.argument_types[first:]):
        columns.append([_plain(value, kind) for value in as_array(operand, call.num_rows).to_pylist()])
    return columns


@scalar("JSON_STRING", "ANY", returns=STRING, is_costly=True)
def json_string(call: KernelCall, value: Any) -> Any:
    column = _columns(call, (value,), 0)[0]
    return pa.array([None if each is None else _document(each) for each in column], pa.string())


_NOT_NULL_STRING = exactly(STRING.not_null())


@scalar("JSON_OBJECT", "SYMBOL, ANY*...", returns=_NOT_NULL_STRING, null_if_null=False, is_costly=True)
def json_object(call: KernelCall, on_null: Any, *operands: Any) -> Any:
    """JSON_OBJECT(NULL or ABSENT, key, value, ...)."""
    columns = _columns(call, operands, 1)
    absent = on_null.as_py() == "ABSENT"
    documents = []
    for row in zip(*columns) if columns else [()] * call.num_rows:
        pairs = zip(row[0::2], row[1::2])
        documents.append(_document({key: value for key, value in pairs if value is not None or not absent}))
    return pa.array(documents, pa.string())


@scalar("JSON_ARRAY", "SYMBOL, ANY*...", returns=_NOT_NULL_STRING, null_if_null=False, is_costly=True)
def json_array(call: KernelCall, on_null: Any, *operands: Any) -> Any:
    """JSON_ARRAY(NULL or ABSENT, value, ...)."""
    columns = _columns(call, operands, 1)
    absent = on_null.as_py() == "ABSENT"
    rows = zip(*columns) if columns else [()] * call.num_rows
    documents = [_document([value for value in row if value is not None or not absent]) for row in rows]
    return pa.array(documents, pa.string())


@scalar_per_value("JSON", _TEXT, returns=nullable(lt.VariantType()), may_fail=True)
def json_value_of_constructor(text: str) -> bytes:
    """A document as a value of JSON_OBJECT or JSON_ARRAY. Its numbers keep their digits."""
    try:
        return _document(json.loads(text, parse_float=_Number)).encode()
    except ValueError as error:
        raise TableRuntimeError(f"JSON: the text {text[:120]} is not valid: {error}") from None


@scalar_per_value("JSON_TEXTS", _TEXT, returns=nullable(lt.ArrayType(STRING)))
def json_texts(text: str) -> list[str | None] | None:
    """The elements of a JSON array as texts, for JSON_QUERY(... RETURNING ARRAY<STRING>); null for other JSON."""
    found = json.loads(text, parse_float=_Number)
    if not isinstance(found, list):
        return None
    return [each if each is None or isinstance(each, str) else _document(each) for each in found]


# -- VARIANT --------------------------------------------------------------------------------------------------------


def _variant(text: str, allow_duplicate_keys: bool) -> bytes:
    """Returns a VARIANT of a document. Raises: ValueError if it is none, or has a key twice."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs) and not allow_duplicate_keys:
            raise ValueError("VARIANT_DUPLICATE_KEY: an object has a key twice")
        return found

    return _document(json.loads(text, parse_float=_exact, object_pairs_hook=members)).encode()


def _exact(text: str) -> float:
    """Returns a number with a point as a decimal without zeros at its end; one with an exponent as a DOUBLE."""
    return float(text) if "e" in text or "E" in text else _Number(text.rstrip("0").rstrip("."))


@scalar_per_value("PARSE_JSON", _TEXT, f"{_TEXT}, BOOLEAN", returns=lt.VariantType(), may_fail=True)
def parse_json(text: str, allow_duplicate_keys: bool = False) -> bytes:
    try:
        return _variant(text, allow_duplicate_keys)
    except ValueError as error:
        raise TableRuntimeError(f"Failed to parse json string: {text[:120]}: {error}") from None


@scalar_per_value("TRY_PARSE_JSON", _TEXT, f"{_TEXT}, BOOLEAN", returns=nullable(lt.VariantType()))
def try_parse_json(text: str, allow_duplicate_keys: bool = False) -> bytes | None:
    try:
        return _variant(text, allow_duplicate_keys)
    except ValueError:
        return None


def variant_item(data: bytes, key: str | int) -> bytes | None:
    """Returns the value of a key, or the element at a position from 1; None if there is none.

    Raises: TableRuntimeError if a key is looked up in something else than an object, or a position in no array.
    """
    value = json.loads(data, parse_float=_Number)
    if isinstance(key, str):
        if not isinstance(value, dict):
            raise TableRuntimeError(
                "String key access on variant requires an object variant, but a non-object variant was provided."
            )
        return _document(value[key]).encode() if key in value else None
    if not isinstance(value, list):
        raise TableRuntimeError(
            "Integer index access on variant requires an array variant, but a non-array variant was provided."
        )
    return _document(value[key - 1]).encode() if 0 < key <= len(value) else None
