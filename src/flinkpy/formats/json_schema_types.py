"""The ROW type that a JSON schema describes.

Source: org.apache.flink.formats.json.JsonRowSchemaConverter.
"""

from __future__ import annotations

import json
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import RowTypeInfo, TypeInformation, Types

_FORMATS = {"date": Types.SQL_DATE, "time": Types.SQL_TIME, "date-time": Types.SQL_TIMESTAMP}


def row_type_of_json_schema(json_schema: str) -> RowTypeInfo:
    """Numbers of both kinds are BIG_DEC, because the schema does not bound them.

    Raises:
        ValueError: it is not JSON, or its root describes no object.
        UnsupportedOperationError: a part of it that no type holds; names it.
    """
    try:
        root = json.loads(json_schema)
    except ValueError as error:
        raise ValueError(f"the JSON schema is not JSON: {error}") from error
    result = _type_of("<root>", root, root)
    if not isinstance(result, RowTypeInfo):
        raise ValueError("the root of the JSON schema must describe an object")
    return result


def _type_of(place: str, node: Any, root: Any, depth: int = 0) -> TypeInformation:
    if depth > 64:
        raise UnsupportedOperationError(f"JSON schema, {place}: it refers to itself, or is nested too deeply")
    if not isinstance(node, dict):
        raise ValueError(f"JSON schema, {place}: {node!r} is no schema")
    if "$ref" in node:
        return _type_of(place, _resolve(place, node["$ref"], root), root, depth + 1)
    if "oneOf" in node:
        return _type_of(place, _only_one(place, node["oneOf"]), root, depth + 1)
    for keyword in ("allOf", "anyOf", "not"):
        if keyword in node:
            raise UnsupportedOperationError(f"JSON schema, {place}: {keyword!r} is not supported")
    kind = node.get("type")
    if isinstance(kind, list):
        kinds = [name for name in kind if name != "null"]
        if len(kinds) != 1:
            raise UnsupportedOperationError(f"JSON schema, {place}: a field of several types {kind} is not supported")
        kind = kinds[0]
    if kind == "object" or (kind is None and "properties" in node):
        properties = node.get("properties", {})
        types = [_type_of(f"{place}/{name}", item, root, depth + 1) for name, item in properties.items()]
        return RowTypeInfo(types, list(properties))
    if kind == "array":
        return _array_type(place, node, root, depth)
    if kind == "string":
        return _string_type(node)
    if kind in ("number", "integer"):
        return Types.BIG_DEC()
    if kind == "boolean":
        return Types.BOOLEAN()
    raise UnsupportedOperationError(f"JSON schema, {place}: type {kind!r} is not supported")


def _array_type(place: str, node: dict[str, Any], root: Any, depth: int) -> TypeInformation:
    items = node.get("items")
    if isinstance(items, list):
        return Types.TUPLE([_type_of(f"{place}[{i}]", item, root, depth + 1) for i, item in enumerate(items)])
    if items is None:
        raise UnsupportedOperationError(f"JSON schema, {place}: an array must say what its `items` are")
    return Types.OBJECT_ARRAY(_type_of(f"{place}[]", items, root, depth + 1))


def _string_type(node: dict[str, Any]) -> TypeInformation:
    if node.get("contentEncoding") == "base64":
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    return _FORMATS.get(node.get("format", ""), Types.STRING)()


def _only_one(place: str, choices: list[Any]) -> Any:
    real = [choice for choice in choices if choice.get("type") != "null"]
    if len(real) != 1:
        raise UnsupportedOperationError(f"JSON schema, {place}: `oneOf` is supported for one type and null")
    return real[0]


def _resolve(place: str, reference: str, root: Any) -> Any:
    if not reference.startswith("#"):
        raise UnsupportedOperationError(f"JSON schema, {place}: only references within the schema, not {reference!r}")
    node = root
    for part in reference[1:].strip("/").split("/"):
        if part and (not isinstance(node, dict) or part not in node):
            raise ValueError(f"JSON schema, {place}: there is no {reference!r}")
        node = node[part] if part else node
    return node
