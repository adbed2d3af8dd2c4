"""Derives Avro schemas from row types.

| logical type | Avro type |
|---|---|
| BOOLEAN, FLOAT, DOUBLE | boolean, float, double |
| TINYINT, SMALLINT, INT | int |
| BIGINT | long |
| CHAR, VARCHAR | string |
| BINARY, VARBINARY | bytes |
| DECIMAL | bytes with decimal |
| DATE | int with date |
| TIME(p), p <= 3 | int with time-millis |
| TIMESTAMP(p), p <= 3 | long with timestamp-millis |
| TIMESTAMP(p), not legacy | long with local-timestamp-millis, -micros or -nanos |
| TIMESTAMP_LTZ(p), not legacy | long with timestamp-millis, -micros or -nanos |
| ROW, ARRAY | record, array |
| MAP, MULTISET with keys of text | map |

A nullable type is a union of null and the type, and a field of it has the default null.

Source: org.apache.flink.formats.avro.typeutils.AvroSchemaConverter.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import UnsupportedOperationError, ValidationError
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import time_unit
from flinkpy.sql.types.logical_types import LogicalType, RowType

RECORD_NAME = "org.apache.flink.avro.generated.record"

_PLAIN: dict[type[LogicalType], str] = {
    types.BooleanType: "boolean",
    types.TinyIntType: "int",
    types.SmallIntType: "int",
    types.IntType: "int",
    types.BigIntType: "long",
    types.FloatType: "float",
    types.DoubleType: "double",
    types.CharType: "string",
    types.VarCharType: "string",
    types.BinaryType: "bytes",
    types.VarBinaryType: "bytes",
}
_UNITS = {"ms": "millis", "us": "micros", "ns": "nanos"}


def avro_schema_of(kind: LogicalType, has_legacy_times: bool = True, name: str = RECORD_NAME) -> Any:
    """Returns the Avro schema of values of a type, as parsed JSON.

    Args:
        has_legacy_times: True for Flink's former mapping of TIMESTAMP, which is its default.
        name: the name of the record.

    Raises: ValidationError, UnsupportedOperationError for a type that Avro does not have.
    """
    if isinstance(kind, types.NullType):
        return "null"
    found = _not_null_schema(kind, has_legacy_times, name)
    return ["null", found] if kind.nullable else found


def _not_null_schema(kind: LogicalType, legacy: bool, name: str) -> Any:
    if type(kind) in _PLAIN:
        return _PLAIN[type(kind)]
    match kind:
        case types.TimestampType() | types.LocalZonedTimestampType():
            return {"type": "long", "logicalType": _timestamp(kind, legacy)}
        case types.DateType():
            return {"type": "int", "logicalType": "date"}
        case types.TimeType():
            if kind.precision > 3:
                raise ValidationError(
                    f"Avro does not support TIME type with precision: {kind.precision}, it only supports precision "
                    "less than 3."
                )
            return {"type": "int", "logicalType": "time-millis"}
        case types.DecimalType():
            return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        case RowType():
            return {"type": "record", "name": name, "fields": [_field(each, legacy, name) for each in kind.fields]}
        case types.ArrayType():
            return {"type": "array", "items": avro_schema_of(kind.element, legacy, name)}
        case types.MapType() | types.MultisetType():
            return {"type": "map", "values": avro_schema_of(value_type_of(kind), legacy, name)}
    raise UnsupportedOperationError(f"Unsupported to derive Schema for type: {kind}")


def _field(field: Any, legacy: bool, name: str) -> dict[str, Any]:
    made = {"name": field.name, "type": avro_schema_of(field.type, legacy, f"{name}_{field.name}")}
    return {**made, "default": None} if field.type.nullable else made


def _timestamp(kind: Any, legacy: bool) -> str:
    is_local = isinstance(kind, types.TimestampType)
    if not legacy:
        return f"{'local-' if is_local else ''}timestamp-{_UNITS[time_unit(kind.precision)]}"
    if not is_local:
        raise UnsupportedOperationError(
            f"Unsupported to derive Schema for type: {kind}. Set 'timestamp_mapping.legacy' of the format to 'false'."
        )
    if kind.precision > 3:
        raise ValidationError(
            f"Avro does not support TIMESTAMP type with precision: {kind.precision}, it only supports precision less "
            "than 3. Declare TIMESTAMP(3), or set 'timestamp_mapping.legacy' of the format to 'false'."
        )
    return "timestamp-millis"


def value_type_of(kind: types.MapType | types.MultisetType) -> LogicalType:
    """Returns the type of the values of a map. Raises: UnsupportedOperationError if its keys are not texts."""
    key = kind.key if isinstance(kind, types.MapType) else kind.element
    if not isinstance(key, types.CharType | types.VarCharType):
        raise UnsupportedOperationError(
            f"Avro format doesn't support non-string as key type of map. The key type is: {key}"
        )
    return kind.value if isinstance(kind, types.MapType) else types.IntType()


def without_logical_types(schema: Any) -> Any:
    """Returns a schema whose values are the plain numbers and bytes of the encoding."""
    if isinstance(schema, list):
        return [without_logical_types(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {key: value for key, value in schema.items() if key not in ("logicalType", "precision", "scale")}
    for key in ("type", "items", "values"):
        if key in changed:
            changed[key] = without_logical_types(changed[key])
    if "fields" in changed:
        changed["fields"] = [{**field, "type": without_logical_types(field["type"])} for field in changed["fields"]]
    return changed
