"""Checks Python records against their declared type without making columns of them.

At the border to another task records become columns, and one that does not fit is refused there. Inside a chain they
stay Python objects. A `TypeCheck` finds a misfit there too, at the operator that declared the type: the usual classes
are recognised at the cost of one comparison, and only a record of another class is given to the codec of the border.
So a record that the border accepts is accepted here too. What lies in a value of the right class, such as the size of
an integer, is left to the border.
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
from flinkpy.records.column_codecs import codec_of
from flinkpy.records.lanes import has_columns
from flinkpy.records.nested_codecs import StructCodec
from flinkpy.records.scalar_codecs import ValueMismatch

_NONE = type(None)

#: The class whose every value fits the type, and that nearly all values of it have.
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
#: Largest nesting for which generated code looks into a record; deeper records are checked by a call.
_MAX_DEPTH = 2
#: Most fields that generated code looks at.
_MAX_FIELDS = 32


class TypeCheck:
    """The check of one declared type. Immutable."""

    def __init__(self, type_info: TypeInformation) -> None:
        self.type_info = type_info

    def misfit(self, values: list[Any]) -> ValueMismatch | None:
        """The first value that does not fit; None where all do. Costs some 10 ns a value where the classes are the
        usual ones."""
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
        """Python code that is true only where the value of `variable` fits; where it is not, `misfit` decides.

        Args:
            bind: gives the name by which the code may use an object.

        Returns None where there is no such code for the type.
        """
        return _expression(self.type_info, variable, bind, 0)


@lru_cache(maxsize=1024)
def type_check(type_info: TypeInformation | None) -> TypeCheck | None:
    """The check of a declared type; None where every value fits."""
    while isinstance(type_info, ti.ExternalTypeInfo):
        type_info = type_info.wrapped_type
    return TypeCheck(type_info) if type_info is not None and has_columns(type_info) else None


def _scalar_class(type_info: TypeInformation) -> type | None:
    if isinstance(type_info, ti.DecimalTypeInfo):
        return None  # how many digits it has is not a matter of its class
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
    """The classes whose values fit where those of `known` do."""
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
    """True if all values fit for sure, judged by their classes."""
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
