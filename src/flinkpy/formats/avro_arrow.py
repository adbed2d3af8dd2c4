"""AvroColumns: converts Avro records to Arrow columns and back, for Avro records in Parquet files.

The layout is that of Avro's Parquet writer. An enum is a text. A union of null and one type is a nullable column. A
union of several types is a struct with one field (`member0`, `member1`, ...) per type. A field of type null has no
column.

Source: org.apache.parquet.avro.AvroSchemaConverter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flinkpy.common.errors import InputFormatError, UnsupportedOperationError
from flinkpy.formats.avro_schema import AvroSchema

Convert = Callable[[Any], Any]

_MISSING = object()
_PRIMITIVES = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}


@dataclass(frozen=True)
class _Column:
    """The column of an Avro type.

    Attributes:
        type: Arrow type; None for the type null, which has no column.
        to_arrow: converts a value of a record to a value for pyarrow.
        from_arrow: converts a value of `to_pylist` to a value of a record.
    """

    type: pa.DataType | None
    to_arrow: Convert
    from_arrow: Convert
    is_nullable: bool = False


@dataclass(frozen=True)
class _Field:
    name: str
    column: _Column
    default: Any


class AvroColumns:
    """The columns of a schema. Raises: UnsupportedOperationError if it is not a record or contains itself."""

    def __init__(self, schema: AvroSchema) -> None:
        if not isinstance(schema.parsed, dict) or schema.parsed.get("type") != "record":
            raise UnsupportedOperationError(f"Parquet files can hold only records, not {schema}")
        self._named: dict[str, _Column | None] = {}
        self._fields = self._fields_of(schema.parsed)
        self.schema = pa.schema(
            [_arrow_field(field) for field in self._fields if field.column.type is not None],
            metadata={"parquet.avro.schema": str(schema)},
        )

    def columns_of(self, records: list[Any]) -> pa.RecordBatch:
        """Returns records as columns. Raises: errors of pyarrow for a wrong value, KeyError for a missing field."""
        arrays = []
        for field in self._fields:
            if field.column.type is not None:
                values = [_value(record, field) for record in records]
                arrays.append(pa.array(list(map(field.column.to_arrow, values)), field.column.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def column_names(self, path: str, names: list[str]) -> list[str]:
        """Returns the columns of a file to read. Raises: InputFormatError that names a missing column."""
        for field in self._fields:
            if field.name not in names and field.column.type is not None and not _may_be_missing(field):
                raise InputFormatError(
                    f"{path} has no column {field.name!r}, and the Avro schema has no default for it; it has {names}",
                    details={"path": path, "column": field.name},
                )
        return [field.name for field in self._fields if field.name in names]

    def records_of(self, columns: pa.RecordBatch) -> list[dict[str, Any]]:
        lists = []
        for field in self._fields:
            if field.name in columns.schema.names:
                lists.append(list(map(field.column.from_arrow, columns.column(field.name).to_pylist())))
            else:
                default = None if field.default is _MISSING else field.default
                lists.append([default] * columns.num_rows)
        names = [field.name for field in self._fields]
        return [dict(zip(names, values)) for values in zip(*lists)]

    def _fields_of(self, node: Any) -> list[_Field]:
        return [_Field(f["name"], self._column(f["type"]), f.get("default", _MISSING)) for f in node["fields"]]

    def _column(self, node: Any) -> _Column:
        if isinstance(node, list):
            return self._union(node)
        if isinstance(node, str):
            return self._by_name(node)
        kind = node["type"]
        if isinstance(kind, (dict, list)):
            return self._column(kind)
        logical = node.get("logicalType", "")
        if kind in ("record", "error"):
            return self._record(node)
        if kind == "array":
            element = self._column(node["items"])
            return _Column(
                pa.list_(pa.field("element", element.type or pa.null(), element.is_nullable)),
                _nullable(lambda value: list(map(element.to_arrow, value))),
                _nullable(lambda value: list(map(element.from_arrow, value))),
            )
        if kind == "map":
            item = self._column(node["values"])
            return _Column(
                pa.map_(pa.string(), pa.field("value", item.type or pa.null(), item.is_nullable)),
                _nullable(lambda value: [(key, item.to_arrow(content)) for key, content in value.items()]),
                _nullable(lambda value: {key: item.from_arrow(content) for key, content in value}),
            )
        found = self._simple(node, kind, logical)
        if kind in ("enum", "fixed"):
            self._named[node["name"]] = found
        return found

    def _simple(self, node: Any, kind: str, logical: str) -> _Column:
        if logical == "decimal" and kind in ("bytes", "fixed"):
            return _plain(pa.decimal128(node["precision"], node.get("scale", 0)))
        if (kind, logical) in _LOGICAL:
            return _plain(_LOGICAL[kind, logical])
        if kind == "enum":
            symbols = frozenset(node["symbols"])
            return _Column(pa.string(), lambda value: _checked_symbol(value, symbols), lambda value: value)
        if kind == "fixed":
            return _plain(pa.binary(node["size"]))
        return self._by_name(kind)

    def _record(self, node: Any) -> _Column:
        self._named[node["name"]] = None
        fields = self._fields_of(node)
        real = [field for field in fields if field.column.type is not None]
        nulls = dict.fromkeys(field.name for field in fields if field.column.type is None)
        column = _Column(
            pa.struct([_arrow_field(field) for field in real]),
            _nullable(lambda value: {field.name: field.column.to_arrow(_value(value, field)) for field in real}),
            _nullable(
                lambda value: {**nulls, **{field.name: field.column.from_arrow(value[field.name]) for field in real}}
            ),
        )
        self._named[node["name"]] = column
        return column

    def _union(self, branches: list[Any]) -> _Column:
        real = [branch for branch in branches if branch != "null"]
        columns = [self._column(branch) for branch in real]
        if not columns:
            return self._by_name("null")
        is_nullable = len(real) < len(branches)
        if len(columns) == 1:
            [column] = columns
            return _Column(column.type, column.to_arrow, column.from_arrow, is_nullable)

        def to_arrow(value: Any) -> Any:
            from fastavro.validation import validate

            for index, (branch, column) in enumerate(zip(real, columns)):
                if validate(value, branch, raise_errors=False):
                    return {f"member{index}": column.to_arrow(value)}
            raise ValueError(f"{value!r} is of none of the union's types")

        def from_arrow(value: Any) -> Any:
            for index, column in enumerate(columns):
                member = value.get(f"member{index}")
                if member is not None:
                    return column.from_arrow(member)
            return None

        members = [pa.field(f"member{index}", column.type) for index, column in enumerate(columns)]
        return _Column(pa.struct(members), _nullable(to_arrow), _nullable(from_arrow), is_nullable)

    def _by_name(self, name: str) -> _Column:
        if name == "null":
            return _Column(None, lambda value: None, lambda value: None, True)
        if name in _PRIMITIVES:
            return _plain(_PRIMITIVES[name])
        found = self._named.get(name)
        if found is None:
            raise UnsupportedOperationError(f"the Avro type {name!r} contains itself and has no columns")
        return found


def _plain(kind: pa.DataType) -> _Column:
    return _Column(kind, lambda value: value, lambda value: value)


def _nullable(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _arrow_field(field: _Field) -> pa.Field:
    return pa.field(field.name, field.column.type, field.column.is_nullable)


def _may_be_missing(field: _Field) -> bool:
    return field.column.is_nullable or field.default is not _MISSING


def _value(record: Any, field: _Field) -> Any:
    """Returns the field of a record, or its default. Raises: KeyError or ValueError that names the field."""
    value = record.get(field.name, field.default)
    if value is _MISSING:
        raise KeyError(f"field {field.name!r} is missing and has no default")
    if value is None and not field.column.is_nullable:
        raise ValueError(f"field {field.name!r} must not be None")
    return value


def _checked_symbol(value: Any, symbols: frozenset[str]) -> Any:
    if value is not None and value not in symbols:
        raise ValueError(f"{value!r} is not one of the symbols {sorted(symbols)}")
    return value
