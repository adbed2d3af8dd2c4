"""Row types of formats: converts the descriptions that a program may give, including JSON schemas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import RowTypeInfo, TypeInformation, Types


@runtime_checkable
class ConvertibleType(Protocol):
    """A type of another type system, such as a DataType of `flinkpy.table`."""

    def to_type_info(self) -> TypeInformation: ...


def row_type_of(description: Any) -> RowTypeInfo:
    """Returns the RowTypeInfo of a description.

    Args:
        description: `Types.ROW_NAMED(...)`, `DataTypes.ROW(...)`, a `pyarrow.Schema`, or a dict from column name to a
            type of any of these kinds.

    Raises:
        UnsupportedOperationError: it is something else, or it has an Arrow type without a TypeInformation.
    """
    if isinstance(description, ConvertibleType):
        description = description.to_type_info()
    if isinstance(description, RowTypeInfo):
        return description
    if isinstance(description, dict):
        names = [str(name) for name in description]
        return RowTypeInfo([_field_type(name, kind) for name, kind in description.items()], names)
    if type(description).__module__.startswith("pyarrow"):
        return RowTypeInfo([_field_type(field.name, field.type) for field in description], list(description.names))
    raise UnsupportedOperationError(
        f"{description!r} does not describe rows: give Types.ROW_NAMED(names, types), DataTypes.ROW(fields), "
        "a pyarrow.Schema, or a dict from column name to type"
    )


def _field_type(name: str, kind: Any) -> TypeInformation:
    if isinstance(kind, TypeInformation):
        return kind
    if isinstance(kind, ConvertibleType):
        return kind.to_type_info()
    if type(kind).__module__.startswith("pyarrow"):
        from flinkpy.records.lanes import type_info_of_arrow

        return type_info_of_arrow(kind, name)
    raise UnsupportedOperationError(
        f"column {name!r}: {kind!r} is not a type; give Types.LONG(), DataTypes.BIGINT(), pyarrow.int64() or the like"
    )


def project_row_type(row_type: RowTypeInfo, columns: Sequence[str]) -> RowTypeInfo:
    """Returns `row_type` with only `columns`, in that order. Raises: ValueError that names missing columns."""
    names, types = row_type.get_field_names(), row_type.get_field_types()
    missing = [column for column in columns if column not in names]
    if missing:
        raise ValueError(
            f"there is no column {', '.join(map(repr, missing))}; the columns are {', '.join(map(repr, names))}"
        )
    return RowTypeInfo([types[names.index(column)] for column in columns], list(columns))


_FORMATS = {"date": Types.SQL_DATE, "time": Types.SQL_TIME, "date-time": Types.SQL_TIMESTAMP}


def row_type_of_json_schema(json_schema: str) -> RowTypeInfo:
    """Returns the row type of a JSON schema. Numbers are BIG_DEC, because the schema does not bound them.

    Source: org.apache.flink.formats.json.JsonRowSchemaConverter.

    Raises:
        ValueError: the text is not JSON, or its root does not describe an object.
        UnsupportedOperationError: no type holds a part of it. The error names the part.
    """
    try:
        root = json.loads(json_schema)
    except ValueError as error:
        raise ValueError(f"the JSON schema is not JSON: {error}") from error
    result = _type_of_node("<root>", root, root)
    if not isinstance(result, RowTypeInfo):
        raise ValueError("the root of the JSON schema must describe an object")
    return result


def _type_of_node(place: str, node: Any, root: Any, depth: int = 0) -> TypeInformation:
    if depth > 64:
        raise UnsupportedOperationError(f"JSON schema, {place}: the schema refers to itself, or is nested too deeply")
    if not isinstance(node, dict):
        raise ValueError(f"JSON schema, {place}: {node!r} is not a schema")
    if "$ref" in node:
        return _type_of_node(place, _resolve(place, node["$ref"], root), root, depth + 1)
    if "oneOf" in node:
        return _type_of_node(place, _only_one(place, node["oneOf"]), root, depth + 1)
    for keyword in ("allOf", "anyOf", "not"):
        if keyword in node:
            raise UnsupportedOperationError(f"JSON schema, {place}: {keyword!r} is not supported")
    kind = node.get("type")
    if isinstance(kind, list):
        kinds = [name for name in kind if name != "null"]
        if len(kinds) != 1:
            raise UnsupportedOperationError(f"JSON schema, {place}: a field with several types {kind} is not supported")
        kind = kinds[0]
    if kind == "object" or (kind is None and "properties" in node):
        properties = node.get("properties", {})
        types = [_type_of_node(f"{place}/{name}", item, root, depth + 1) for name, item in properties.items()]
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
        return Types.TUPLE([_type_of_node(f"{place}[{i}]", item, root, depth + 1) for i, item in enumerate(items)])
    if items is None:
        raise UnsupportedOperationError(f"JSON schema, {place}: an array must have `items`")
    return Types.OBJECT_ARRAY(_type_of_node(f"{place}[]", items, root, depth + 1))


def _string_type(node: dict[str, Any]) -> TypeInformation:
    if node.get("contentEncoding") == "base64":
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    return _FORMATS.get(node.get("format", ""), Types.STRING)()


def _only_one(place: str, choices: list[Any]) -> Any:
    real = [choice for choice in choices if choice.get("type") != "null"]
    if len(real) != 1:
        raise UnsupportedOperationError(f"JSON schema, {place}: `oneOf` is supported only for one type and null")
    return real[0]


def _resolve(place: str, reference: str, root: Any) -> Any:
    if not reference.startswith("#"):
        raise UnsupportedOperationError(f"JSON schema, {place}: {reference!r} is outside of the schema")
    node = root
    for part in reference[1:].strip("/").split("/"):
        if part and (not isinstance(node, dict) or part not in node):
            raise ValueError(f"JSON schema, {place}: {reference!r} does not exist")
        node = node[part] if part else node
    return node
