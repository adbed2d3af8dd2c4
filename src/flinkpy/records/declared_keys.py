"""Converts keys to their declared type, exactly as a column of that type would.

So a key is the same in every lane and at every parallelism. For example, an int under `Types.DOUBLE()` becomes a float,
and a float under `Types.INT()` is an error.
"""

from __future__ import annotations

import datetime as _dt
import decimal
from collections.abc import Sequence
from typing import Any

from flinkpy.common import typeinfo as ti
from flinkpy.common.errors import TypeMismatchError
from flinkpy.common.typeinfo import BasicType, EnumTypeInfo, TypeInformation
from flinkpy.common.types import Row
from flinkpy.records.column_codecs import codec_of
from flinkpy.records.key_identity import PLAIN_KEYS, one_type
from flinkpy.records.scalar_codecs import ValueMismatch

#: The class whose values need no conversion. Values of other classes are converted or rejected.
_CLASS_OF_BASIC: dict[BasicType, type] = {
    BasicType.STRING: str,
    BasicType.BOOLEAN: bool,
    BasicType.BYTE: int,
    BasicType.SHORT: int,
    BasicType.INT: int,
    BasicType.LONG: int,
    BasicType.DOUBLE: float,
    BasicType.BIG_INT: int,
    BasicType.BIG_DEC: decimal.Decimal,
}


def as_declared(keys: list[Any], key_type: TypeInformation | None) -> list[Any]:
    """Returns the keys converted to `key_type`. Returns the same list if no key changes or no type is declared.

    It does not check the range of integers: a key that is too wide for its type stays the same number.

    Raises:
        TypeMismatchError: if the declared type cannot hold a key. Names the key.
    """
    if key_type is None or (not isinstance(key_type, ti.RowTypeInfo) and are_declared(keys, key_type)):
        return keys
    codec = codec_of(key_type)
    try:
        return codec.decode(codec.encode(keys))
    except ValueMismatch as mismatch:
        key = keys[mismatch.index]
        where = f", field {mismatch.path}" if mismatch.path else ""
        reason = f": {mismatch.reason}" if mismatch.reason else ""
        raise TypeMismatchError(
            f"the key {key!r:.200} ({type(key).__qualname__}) is not a {key_type!r}, the declared type of the "
            f"key{where}{reason}",
            details={"key": f"{key!r:.200}", "field": mismatch.path},
        ) from None


def are_declared(values: Sequence[Any], type_info: TypeInformation) -> bool:
    """True if a conversion to a column of the type and back changes no value and no field of a value.

    False if that cannot be decided cheaply. Then a conversion does no harm. It does not detect integers that are too
    wide for their type.
    """
    if isinstance(type_info, ti.PickledBytesTypeInfo):
        return True
    if isinstance(type_info, ti.ExternalTypeInfo):
        return are_declared(values, type_info.wrapped_type)
    declared = _class_of(type_info)
    if declared is not None and one_type(values) is declared:
        return True
    kinds = set(map(type, values))
    if isinstance(type_info, (ti.RowTypeInfo, ti.TupleTypeInfo)):
        fields = type_info.get_field_types()
        if kinds == {Row} and isinstance(type_info, ti.RowTypeInfo):
            names = type_info.get_field_names()
            if any(row._fields is not names and row._fields is not None and row._fields != names for row in values):
                return False
            values = [row._values for row in values]
        elif kinds != {tuple}:
            return False
        if set(map(len, values)) != {len(fields)}:
            return False
        columns = ([value[position] for value in values] for position in range(len(fields)))
        return all(are_declared(column, field) for column, field in zip(columns, fields))
    return kinds <= {declared, type(None)}


def plain_class(key_type: TypeInformation | None) -> type | None:
    """Returns the class whose instances need no conversion to this type or to a state key; None if there is none."""
    declared = None if key_type is None else _class_of(key_type)
    return declared if declared in PLAIN_KEYS else None


def _class_of(key_type: TypeInformation) -> type | None:
    if isinstance(key_type, ti.BasicTypeInfo) and not isinstance(key_type, ti.DecimalTypeInfo):
        return _CLASS_OF_BASIC.get(key_type.basic_type)
    if isinstance(key_type, EnumTypeInfo):
        return key_type.enum_class
    if isinstance(key_type, ti.DateTypeInfo):
        return _dt.date
    return None
