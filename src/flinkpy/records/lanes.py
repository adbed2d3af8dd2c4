"""Converts between the lanes: Python records to Arrow columns and back. No other module converts between them.

The column form of each type:

| type | columns | Python record |
|---|---|---|
| ROW | one per field, with the name of the field | `Row` |
| TUPLE | f0, f1, ... | `tuple` |
| any other type with an Arrow form | f0 | the bare value |
| PICKLED_BYTE_ARRAY, or no type | no column form | any object |

A nested ROW or TUPLE is a struct; a nested PICKLED_BYTE_ARRAY is a binary column of pickles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import TypeMismatchError, UnsupportedOperationError
from flinkpy.common.typeinfo import ExternalTypeInfo, PickledBytesTypeInfo, TypeInformation, Types
from flinkpy.common.types import Row, RowKind
from flinkpy.records.batch import Batch
from flinkpy.records.column_codecs import StructCodec, codec_of
from flinkpy.records.scalar_codecs import ColumnCodec, ValueMismatch

SCALAR_COLUMN = "f0"
_VALUE_CHARACTERS = 120  # longer values are cut in errors
_ROW_KINDS = tuple(RowKind)
#: The digits of Arrow's longest decimals. They leave room for a number that gets one more digit by rounding up.
_MAX_DECIMAL_DIGITS = 76
_HALF_UP = "half_towards_infinity"


def has_columns(type_info: TypeInformation | None) -> bool:
    """True if records of this type can be columns."""
    if isinstance(type_info, ExternalTypeInfo):
        return has_columns(type_info.wrapped_type)
    return type_info is not None and not isinstance(type_info, PickledBytesTypeInfo)


def has_exact_columns(type_info: TypeInformation | None) -> bool:
    """True if records of this type can be columns without a loss.

    Only BIG_DEC loses digits: its columns have 38 digits, 18 of them after the decimal point.
    """
    return has_columns(type_info) and codec_of(type_info).arrow_type == codec_of(type_info, True).arrow_type


def declared_rows(rows: list[Any], type_info: TypeInformation) -> list[Any]:
    """Returns the records converted to their declared type: integers of its width, decimals with all digits, etc.

    Raises:
        TypeMismatchError: if a value does not fit. Names the record's index, the field and the value.
    """
    codec = codec_of(type_info, True)
    try:
        if isinstance(codec, StructCodec):
            declared = codec.decode_columns(codec.encode_columns(rows), len(rows))
        else:
            declared = codec.decode(codec.encode(rows))
    except ValueMismatch as mismatch:
        raise _mismatch_error(mismatch) from None
    kinds = _kinds_of(rows)
    if kinds is not None:
        _set_kinds(declared, kinds)
    return declared


def arrow_schema(type_info: TypeInformation | None) -> pa.Schema | None:
    """Returns the columns of a stream of this type; None if it has no Arrow form and is pickled."""
    if not has_columns(type_info):
        return None
    codec = codec_of(type_info)
    if isinstance(codec, StructCodec):
        return codec.schema
    return pa.schema([pa.field(SCALAR_COLUMN, codec.arrow_type)])


def columns_of(rows: list[Any], type_info: TypeInformation) -> pa.RecordBatch:
    """Returns the records as columns. Integers that are too wide for their type wrap around, as in Java.

    Raises:
        TypeMismatchError: if a value does not fit its type. Names the record's index, the field and the value.
    """
    schema = arrow_schema(type_info)
    if schema is None:
        raise UnsupportedOperationError(f"{type_info!r} has no column form")
    codec = codec_of(type_info)
    try:
        arrays = codec.encode_columns(rows) if isinstance(codec, StructCodec) else [codec.encode(rows)]
    except ValueMismatch as mismatch:
        raise _mismatch_error(mismatch) from None
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def rows_of(batch: Batch, type_info: TypeInformation | None = None) -> list[Any]:
    """Returns the records as Python objects, without a copy if the batch is in the row lane.

    Args:
        batch: a batch of either lane.
        type_info: the type of the records; None to derive it from the schema of the columns.
    """
    values = batch.values
    if isinstance(values, list):
        return values
    if not has_columns(type_info):
        type_info = type_info_of_schema(values.schema)
    assert type_info is not None
    codec = codec_of(type_info)
    rows = _decode(codec, conform(values, type_info))
    if batch.kinds is not None:
        _set_kinds(rows, batch.kinds)
    return rows


def rows_with_field(batch: Batch, type_info: TypeInformation, position: int) -> tuple[list[Any], list[Any]]:
    """Returns the records of a batch of columns as Python objects, and the values of one field of each.

    Args:
        type_info: a ROW or TUPLE.
    """
    values = batch.values
    assert not isinstance(values, list)
    codec = codec_of(type_info)
    assert isinstance(codec, StructCodec)
    columns = conform(values, type_info)
    rows, field = codec.decode_with_field(columns.columns, columns.num_rows, position)
    if batch.kinds is not None:
        _set_kinds(rows, batch.kinds)
    return rows, field


def to_rows(batch: Batch, type_info: TypeInformation | None = None) -> Batch:
    """Returns the batch in the row lane."""
    return batch.with_values(rows_of(batch, type_info)) if batch.is_columnar else batch


def to_columns(batch: Batch, type_info: TypeInformation) -> Batch:
    """Returns the batch in the column lane with exactly the columns of the type. Sets `kinds` from `Row` objects."""
    values = batch.values
    if not isinstance(values, list):
        return batch.with_values(conform(values, type_info))
    kinds = batch.kinds if batch.kinds is not None else _kinds_of(values)
    return Batch(columns_of(values, type_info), batch.timestamps, kinds)


def conform(columns: pa.RecordBatch, type_info: TypeInformation) -> pa.RecordBatch:
    """Returns the columns in the order and with the Arrow types of `type_info`. Makes no copy if they match already.

    Columns are matched by name, or by position if the names differ and the number is the same.

    Raises:
        TypeMismatchError: if a column is missing or cannot be cast.
    """
    schema = arrow_schema(type_info)
    if schema is None or columns.schema.equals(schema):
        return columns
    names = columns.schema.names
    if all(name in names for name in schema.names):
        arrays = [columns.column(names.index(name)) for name in schema.names]
    elif len(names) == len(schema.names):
        arrays = columns.columns
    else:
        missing = [name for name in schema.names if name not in names]
        raise TypeMismatchError(f"the columns {names} do not have {missing}, which {type_info!r} requires")
    cast = []
    for name, array, wanted in zip(schema.names, arrays, schema.types):
        try:
            cast.append(array if array.type == wanted else _cast(array, wanted))
        except (pa.ArrowException, TypeError) as error:
            raise TypeMismatchError(
                f"column {name!r} is {array.type}, but {type_info!r} requires {wanted}: {error}",
                details={"field": name},
            ) from error
    return pa.RecordBatch.from_arrays(cast, schema=schema)


def rounded_decimals(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Returns decimals converted to another type. Digits after its scale are rounded half up, as in Flink.

    Raises:
        pa.ArrowInvalid: if a number has more digits before the decimal point than the type.
    """
    if array.type.scale > wanted.scale:
        array = pc.round(array.cast(pa.decimal256(_MAX_DECIMAL_DIGITS, array.type.scale)), wanted.scale, _HALF_UP)
    return array.cast(wanted)


def _cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(array.type) and pa.types.is_decimal(wanted):
        return rounded_decimals(array, wanted)
    return array.cast(wanted, safe=False)


def type_info_of_schema(schema: pa.Schema) -> TypeInformation:
    """Returns the ROW type with these columns."""
    return Types.ROW_NAMED(schema.names, [type_info_of_arrow(field.type, field.name) for field in schema])


def type_info_of_arrow(arrow_type: pa.DataType, field_name: str = "") -> TypeInformation:
    """Returns the type for the values of an Arrow type. For unsigned integers it is the next wider signed type.

    Raises:
        UnsupportedOperationError: if there is no such type. Names the field.
    """
    t = pa.types
    simple = _SIMPLE_ARROW.get(arrow_type)
    if simple is not None:
        return simple
    if t.is_timestamp(arrow_type):
        return Types.SQL_TIMESTAMP() if arrow_type.tz is None else Types.INSTANT()
    if t.is_time(arrow_type):
        return Types.SQL_TIME()
    if t.is_decimal(arrow_type):
        return _decimal_type(arrow_type)
    if t.is_dictionary(arrow_type):
        return type_info_of_arrow(arrow_type.value_type, field_name)
    if t.is_list(arrow_type) or t.is_large_list(arrow_type) or t.is_fixed_size_list(arrow_type):
        return Types.LIST(type_info_of_arrow(arrow_type.value_type, field_name))
    if t.is_fixed_size_binary(arrow_type):
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    if t.is_map(arrow_type):
        key = type_info_of_arrow(arrow_type.key_type, field_name)
        return Types.MAP(key, type_info_of_arrow(arrow_type.item_type, field_name))
    if t.is_struct(arrow_type):
        return type_info_of_schema(pa.schema(list(arrow_type)))
    raise UnsupportedOperationError(f"column {field_name!r}: no type holds Arrow's {arrow_type}")


_SIMPLE_ARROW: dict[pa.DataType, TypeInformation] = {
    pa.bool_(): Types.BOOLEAN(),
    pa.int8(): Types.BYTE(),
    pa.int16(): Types.SHORT(),
    pa.int32(): Types.INT(),
    pa.int64(): Types.LONG(),
    pa.uint8(): Types.SHORT(),
    pa.uint16(): Types.INT(),
    pa.uint32(): Types.LONG(),
    pa.uint64(): Types.BIG_INT(),
    pa.float16(): Types.FLOAT(),
    pa.float32(): Types.FLOAT(),
    pa.float64(): Types.DOUBLE(),
    pa.string(): Types.STRING(),
    pa.large_string(): Types.STRING(),
    pa.string_view(): Types.STRING(),
    pa.binary(): Types.PRIMITIVE_ARRAY(Types.BYTE()),
    pa.large_binary(): Types.PRIMITIVE_ARRAY(Types.BYTE()),
    pa.date32(): Types.SQL_DATE(),
    pa.date64(): Types.SQL_DATE(),
    pa.null(): Types.STRING(),
}


def _decimal_type(arrow_type: pa.DataType) -> TypeInformation:
    precision, scale = arrow_type.precision, arrow_type.scale
    if scale == 0 and precision > 38:
        return Types.BIG_INT()
    if precision > 38 or not 0 <= scale <= precision or (precision, scale) == (38, 18):
        return Types.BIG_DEC()
    return Types.DECIMAL(precision, scale)


def _decode(codec: ColumnCodec, columns: pa.RecordBatch) -> list[Any]:
    if isinstance(codec, StructCodec):
        return codec.decode_columns(columns.columns, columns.num_rows)
    return codec.decode(columns.column(0))


def _set_kinds(rows: list[Any], kinds: np.ndarray) -> None:
    if rows and isinstance(rows[0], Row):
        for row, kind in zip(rows, kinds.tolist()):
            row.set_row_kind(_ROW_KINDS[kind])


def _kinds_of(rows: list[Any]) -> np.ndarray | None:
    """Returns int8[n] if some `Row` is not an INSERT, else None."""
    if not rows or not isinstance(rows[0], Row):
        return None
    insert = RowKind.INSERT
    if all(row._row_kind is insert for row in rows if isinstance(row, Row)):
        return None
    return np.array([row._row_kind.value if isinstance(row, Row) else 0 for row in rows], np.int8)


def _mismatch_error(mismatch: ValueMismatch) -> TypeMismatchError:
    value = repr(mismatch.value)
    if len(value) > _VALUE_CHARACTERS:
        value = value[:_VALUE_CHARACTERS] + "..."
    place = f"record {mismatch.index}" + (f", field {mismatch.path}" if mismatch.path else "")
    reason = f": {mismatch.reason}" if mismatch.reason else ""
    return TypeMismatchError(
        f"{place}: {value} ({type(mismatch.value).__name__}) is not a {mismatch.type_info!r}{reason}",
        details={"record": str(mismatch.index), "field": mismatch.path, "value": value},
    )
