"""Converts Avro schemas to row types, and Avro records to Rows and back.

Source: org.apache.flink.formats.avro.{AvroRowDeserializationSchema, AvroRowSerializationSchema} and
typeutils.AvroSchemaConverter. Differs: a union of several types is any Python object; in Flink it is GENERIC(Object).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from flinkpy.common import typeinfo as ti
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import RowTypeInfo, TypeInformation, Types
from flinkpy.common.types import Row, row_of
from flinkpy.formats.avro_schema import AvroSchema

Convert = Callable[[Any], Any]

_PRIMITIVES: dict[str, Callable[[], TypeInformation]] = {
    "string": Types.STRING,
    "enum": Types.STRING,
    "boolean": Types.BOOLEAN,
    "int": Types.INT,
    "long": Types.LONG,
    "float": Types.FLOAT,
    "double": Types.DOUBLE,
    "null": Types.PICKLED_BYTE_ARRAY,
}
_LOGICAL: dict[tuple[str, str], Callable[[], TypeInformation]] = {
    ("int", "date"): Types.SQL_DATE,
    ("int", "time-millis"): Types.SQL_TIME,
    ("long", "time-micros"): Types.SQL_TIME,
    ("long", "timestamp-millis"): Types.SQL_TIMESTAMP,
    ("long", "timestamp-micros"): Types.SQL_TIMESTAMP,
    ("long", "local-timestamp-millis"): Types.SQL_TIMESTAMP,
    ("long", "local-timestamp-micros"): Types.SQL_TIMESTAMP,
    ("bytes", "decimal"): Types.BIG_DEC,
    ("fixed", "decimal"): Types.BIG_DEC,
}


def row_type_of_avro(schema: AvroSchema) -> RowTypeInfo:
    """Returns the row type of a schema.

    Raises:
        ValueError: the schema does not describe a record.
        UnsupportedOperationError: the schema contains itself.
    """
    result = _Types().of(schema.definition, "")
    if not isinstance(result, RowTypeInfo):
        raise ValueError(f"the Avro schema must describe a record: {schema}")
    return result


class _Types:
    def __init__(self) -> None:
        #: Named types; None while their fields are being converted.
        self._named: dict[str, TypeInformation | None] = {}

    def of(self, node: Any, namespace: str) -> TypeInformation:
        if isinstance(node, list):
            return self._union(node, namespace)
        if isinstance(node, str):
            return self._by_name(node, namespace)
        kind = node["type"]
        if isinstance(kind, (dict, list)):
            return self.of(kind, namespace)
        logical = _LOGICAL.get((kind, node.get("logicalType", "")))
        if kind in ("record", "error"):
            return self._record(node, namespace)
        if kind in ("enum", "fixed"):
            found = logical() if logical else Types.STRING() if kind == "enum" else _bytes()
            self._named[_full_name(node, namespace)] = found
            return found
        if logical is not None:
            return logical()
        if kind == "array":
            return Types.OBJECT_ARRAY(self.of(node["items"], namespace))
        if kind == "map":
            return Types.MAP(Types.STRING(), self.of(node["values"], namespace))
        return self._by_name(kind, namespace)

    def _record(self, node: Any, namespace: str) -> TypeInformation:
        name = _full_name(node, namespace)
        inner = name.rpartition(".")[0]
        self._named[name] = None
        types = [self.of(field["type"], inner) for field in node["fields"]]
        row_type = Types.ROW_NAMED([field["name"] for field in node["fields"]], types)
        self._named[name] = row_type
        return row_type

    def _union(self, branches: list[Any], namespace: str) -> TypeInformation:
        found = [self.of(branch, namespace) for branch in branches if branch != "null"]
        return found[0] if len(found) == 1 else Types.PICKLED_BYTE_ARRAY()

    def _by_name(self, name: str, namespace: str) -> TypeInformation:
        if name == "bytes":
            return _bytes()
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]()
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._named.get(full, self._named.get(name))
        if found is None:
            raise UnsupportedOperationError(f"the Avro type {name!r} contains itself and has no ROW type")
        return found


def _full_name(node: Any, namespace: str) -> str:
    name: str = node["name"]
    if "." in name:
        return name
    own = node.get("namespace", namespace)
    return f"{own}.{name}" if own else name


def _bytes() -> TypeInformation:
    return Types.PRIMITIVE_ARRAY(Types.BYTE())


def to_row_converter(type_info: TypeInformation) -> Convert:
    """Returns a function from a value that fastavro reads to a value of the type."""
    if isinstance(type_info, RowTypeInfo):
        names = type_info.get_field_names()
        fields = [(name, to_row_converter(kind)) for name, kind in zip(names, type_info.get_field_types())]
        return lambda value: None if value is None else row_of([field(value[name]) for name, field in fields], names)
    if isinstance(type_info, ti.ObjectArrayTypeInfo):
        element = to_row_converter(type_info.element_type)
        return lambda value: None if value is None else list(map(element, value))
    if isinstance(type_info, ti.MapTypeInfo):
        item = to_row_converter(type_info.value_type)
        return lambda value: None if value is None else {key: item(content) for key, content in value.items()}
    if type_info == Types.SQL_TIMESTAMP():
        # As in Flink, a local time in UTC.
        return lambda value: value.astimezone(datetime.UTC).replace(tzinfo=None) if _has_zone(value) else value
    return lambda value: value


def to_avro_converter(type_info: TypeInformation) -> Convert:
    """Returns a function from a value of the type to a value that fastavro writes."""
    if isinstance(type_info, RowTypeInfo):
        names = type_info.get_field_names()
        #: Names of a row type without names. Its fields are matched by position.
        unnamed = [f"f{position}" for position in range(len(names))]
        fields = [to_avro_converter(kind) for kind in type_info.get_field_types()]

        def convert(value: Any) -> Any:
            if value is None:
                return None
            values = value
            if isinstance(value, Row) and value._fields and value._fields != unnamed:
                values = value.get_fields_by_names(names)
            if isinstance(values, dict):
                values = [values[name] for name in names]
            if len(values) != len(names):
                raise ValueError(f"{value!r} has {len(values)} fields, but the Avro record has {len(names)}")
            return {name: field(content) for name, field, content in zip(names, fields, values)}

        return convert
    if isinstance(type_info, ti.ObjectArrayTypeInfo):
        element = to_avro_converter(type_info.element_type)
        return lambda value: None if value is None else list(map(element, value))
    if isinstance(type_info, ti.MapTypeInfo):
        item = to_avro_converter(type_info.value_type)
        return lambda value: None if value is None else {key: item(content) for key, content in value.items()}
    if type_info == Types.SQL_TIMESTAMP():
        return lambda value: value.replace(tzinfo=datetime.UTC) if _is_local(value) else value
    return plain_value


def plain_value(value: Any) -> Any:
    """Returns a Row as a dict, and other values of a union of several types as they are."""
    return value.as_dict(True) if isinstance(value, Row) else value


def _has_zone(value: Any) -> bool:
    return isinstance(value, datetime.datetime) and value.tzinfo is not None


def _is_local(value: Any) -> bool:
    return isinstance(value, datetime.datetime) and value.tzinfo is None
