"""Checks Python records against their declared type without a conversion to columns.

Records to another task are converted to columns, which rejects a record that does not fit. Inside a chain they stay
Python objects. A `TypeCheck` finds a record that does not fit there too, at the operator that declared the type. It
recognises the usual classes with one comparison, and passes only records of other classes to the codec of the columns.
So it accepts every record that the conversion accepts. It does not check properties of a value of the right class, such
as the size of an integer.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any

from flinkpy.common import typeinfo as ti
from flinkpy.common.time import Instant
from flinkpy.common.typeinfo import BasicType, TypeInformation
from flinkpy.common.types import Row
from flinkpy.records.column_codecs import StructCodec, codec_of
from flinkpy.records.lanes import has_columns
from flinkpy.records.scalar_codecs import ValueMismatch

_NONE = type(None)

#: The usual class of a type's values. Every value of this class fits.
_BASIC_CLASSES: dict[BasicType, type] = {
    BasicType.STRING: str,
    BasicType.BOOLEAN: bool,
    BasicType.BYTE: int,
    BasicType.SHORT: int,
    BasicType.INT: int,
    BasicType.LONG: int,
    BasicType.FLOAT: float,
    BasicType.DOUBLE: float,
    BasicType.BIG_INT: int,
    BasicType.BIG_DEC: decimal.Decimal,
    BasicType.INSTANT: Instant,
}
_FITTING_FLOAT: frozenset[type] = frozenset((float, int, _NONE))
_LISTS = (ti.ListTypeInfo, ti.BasicArrayTypeInfo, ti.ObjectArrayTypeInfo)
#: The deepest nesting that generated code checks. A call checks deeper records.
_MAX_DEPTH = 2
#: The maximum number of fields that generated code checks.
_MAX_FIELDS = 32


class TypeCheck:
    """The check of one declared type. Immutable."""

    def __init__(self, type_info: TypeInformation) -> None:
        self.type_info = type_info

    def misfit(self, values: list[Any]) -> ValueMismatch | None:
        """Returns the first value that does not fit; None if all fit. Costs about 10 ns per usual value."""
        if _all_fit(values, self.type_info):
            return None
        codec = codec_of(self.type_info)
        try:
            if isinstance(codec, StructCodec):
                codec.encode_columns(values)
            else:
                codec.encode(values)
        except ValueMismatch as mismatch:
            return mismatch
        return None

    def expression(self, variable: str, bind: Callable[[Any], str]) -> str | None:
        """Returns a Python expression that is true only if the value of `variable` fits.

        If it is false, `misfit` decides.

        Args:
            bind: given an object, returns the name by which the expression refers to it.

        Returns:
            The expression; None if the type has none.
        """
        return _expression(self.type_info, variable, bind, 0)


@lru_cache(maxsize=1024)
def type_check(type_info: TypeInformation | None) -> TypeCheck | None:
    """Returns the check of a declared type; None if every value fits."""
    while isinstance(type_info, ti.ExternalTypeInfo):
        type_info = type_info.wrapped_type
    return TypeCheck(type_info) if type_info is not None and has_columns(type_info) else None


def _scalar_class(type_info: TypeInformation) -> type | None:
    if isinstance(type_info, ti.DecimalTypeInfo):
        return None  # the class does not tell the number of digits
    if isinstance(type_info, ti.BasicTypeInfo):
        return _BASIC_CLASSES.get(type_info.basic_type)
    if isinstance(type_info, ti.DateTypeInfo):
        return datetime.date
    if isinstance(type_info, ti.TimeTypeInfo):
        return datetime.time
    if isinstance(type_info, ti.TimestampTypeInfo):
        return datetime.datetime
    return None


def _also_fitting(known: type) -> frozenset[type]:
    """Returns the classes whose values fit a type whose usual class is `known`."""
    return _FITTING_FLOAT if known is float else frozenset[type]((known, _NONE))


def _fields(type_info: TypeInformation) -> tuple[TypeInformation, ...] | None:
    if isinstance(type_info, (ti.RowTypeInfo, ti.TupleTypeInfo)):
        return tuple(type_info.get_field_types())
    return None


def _expression(type_info: TypeInformation, variable: str, bind: Callable[[Any], str], depth: int) -> str | None:
    known = _scalar_class(type_info)
    if known is not None:
        return f"{variable}.__class__ is {bind(known)}"
    if isinstance(type_info, _LISTS):
        element = _scalar_class(type_info.element_type)
        if element is None:
            return None
        return f"{variable}.__class__ is {bind(list)} and {{*map(type, {variable})}} <= {bind(_also_fitting(element))}"
    if isinstance(type_info, ti.MapTypeInfo):
        key, item = _scalar_class(type_info.key_type), _scalar_class(type_info.value_type)
        if key is None or item is None:
            return None
        return (
            f"{variable}.__class__ is {bind(dict)} and {{*map(type, {variable})}} <= {bind(frozenset((key,)))} "
            f"and {{*map(type, {variable}.values())}} <= {bind(_also_fitting(item))}"
        )
    fields = _fields(type_info)
    if fields is None or depth >= _MAX_DEPTH or len(fields) > _MAX_FIELDS:
        return None
    if isinstance(type_info, ti.RowTypeInfo):
        names = bind(type_info.get_field_names())
        parts = [
            f"{variable}.__class__ is {bind(Row)}",
            f"({variable}._fields is None or {variable}._fields == {names})",
        ]
        inside = f"{variable}._values"
    else:
        parts = [f"{variable}.__class__ is {bind(tuple)}"]
        inside = variable
    parts.append(f"len({inside}) == {len(fields)}")
    for position, field in enumerate(fields):
        part = _expression(field, f"{inside}[{position}]", bind, depth + 1)
        if part is None:
            return None
        parts.append(part)
    return " and ".join(parts)


def _all_fit(values: list[Any], type_info: TypeInformation) -> bool:
    """True if the classes of the values show that all of them fit."""
    known = _scalar_class(type_info)
    kinds = set(map(type, values))
    if known is not None:
        return kinds <= _also_fitting(known)
    fields = _fields(type_info)
    if fields is not None:
        if kinds == {Row}:
            names = type_info.get_field_names() if isinstance(type_info, ti.RowTypeInfo) else None
            if any(row._fields is not None and row._fields != names for row in values):
                return False
            plain = [row._values for row in values]
        elif kinds <= {tuple}:
            plain = values
        else:
            return False
        if set(map(len, plain)) - {len(fields)}:
            return False
        return all(_all_fit(list(map(itemgetter(i), plain)), field) for i, field in enumerate(fields))
    if isinstance(type_info, _LISTS):
        if not kinds <= {list, tuple, _NONE}:
            return False
        present = [value for value in values if value is not None]
        return _all_fit(list(chain.from_iterable(present)), type_info.element_type)
    if isinstance(type_info, ti.MapTypeInfo):
        if not kinds <= {dict, _NONE}:
            return False
        present = [value for value in values if value is not None]
        keys = list(chain.from_iterable(present))
        items = list(chain.from_iterable(value.values() for value in present))
        return None not in keys and _all_fit(keys, type_info.key_type) and _all_fit(items, type_info.value_type)
    return isinstance(type_info, ti.PickledBytesTypeInfo)
