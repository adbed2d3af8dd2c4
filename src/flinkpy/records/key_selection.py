"""Key selection: extracts the keys of many records. Runs a selector that only picks a field without Python calls."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from inspect import CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS
from operator import attrgetter, itemgetter
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from flinkpy.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, TupleTypeInfo
from flinkpy.common.types import Row

if TYPE_CHECKING:
    from flinkpy.common.typeinfo import TypeInformation


#: The types of columns whose values are the same keys as the Python objects that they become.
_KEYS_AS_THEY_ARE = frozenset({BasicType.STRING, BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG})


def select_keys(get_key: Callable[[Any], Any], pick: Callable[[Any], Any] | None, rows: list[Any]) -> list[Any]:
    """Returns `get_key` of each row.

    Args:
        pick: `picker_of(get_key)`.
    """
    if pick is not None:
        # If it raises, the selector below raises the same error with its own line in the traceback.
        with contextlib.suppress(Exception):
            return list(map(pick, rows))
    # A Python function is called faster from a Python loop than from `map`.
    return [get_key(row) for row in rows]


def picker_of(get_key: Any) -> Callable[[Any], Any] | None:
    """Returns a C function equivalent to `get_key` if that only picks one item or attribute, else None.

    Examples are `lambda value: value[0]`, `lambda value: value.name`, and methods `get_key(self, value)` that only
    return such a value. Most key selectors are of this kind.
    """
    picked = _picked(get_key)
    if picked is None:
        return None
    kind, name = picked
    return kind(name)


def picked_column(get_key: Any, key_type: TypeInformation | None, type_info: TypeInformation | None) -> int | None:
    """Returns the position of the column that contains the keys of the records; None if there is none.

    There is one if `get_key` only picks a field of a ROW or TUPLE, and the values of this field are keys as they are:
    they need no conversion to `key_type` or to a state key. A null is no such value.
    """
    picked = _picked(get_key)
    if picked is None or not isinstance(type_info, RowTypeInfo | TupleTypeInfo):
        return None
    kind, name = picked
    types = type_info.get_field_types()
    position = name
    if type(name) is str and isinstance(type_info, RowTypeInfo):
        names = type_info.get_field_names()
        if name not in names or (kind is attrgetter and hasattr(Row, name)):
            return None
        position = names.index(name)
    if type(position) is not int or not 0 <= position < len(types):
        return None
    from flinkpy.records.declared_keys import plain_class

    kind_of_column = types[position]
    if type(kind_of_column) is not BasicTypeInfo or kind_of_column.basic_type not in _KEYS_AS_THEY_ARE:
        return None
    return position if key_type is None or plain_class(key_type) is plain_class(kind_of_column) else None


#: The placeholder for the index in the functions below. Any number would do.
_INDEX = 7_654_321
# Their bytecode is compared with that of user functions. The same compiler produced both.
_ITEM_FUNCTION: CodeType = (lambda value: value[7_654_321]).__code__
_ITEM_METHOD: CodeType = (lambda self, value: value[7_654_321]).__code__
_ATTRIBUTE_FUNCTION: CodeType = (lambda value: value.name).__code__
_ATTRIBUTE_METHOD: CodeType = (lambda self, value: value.name).__code__


def _picked(get_key: Any) -> tuple[type[itemgetter[Any]] | type[attrgetter[Any]], Any] | None:
    """Returns `itemgetter` or `attrgetter` and its argument, if `get_key` only picks one item or attribute."""
    if isinstance(get_key, FunctionType):
        code, item, attribute = get_key.__code__, _ITEM_FUNCTION, _ATTRIBUTE_FUNCTION
    elif isinstance(get_key, MethodType) and isinstance(get_key.__func__, FunctionType):
        code, item, attribute = get_key.__func__.__code__, _ITEM_METHOD, _ATTRIBUTE_METHOD
    else:
        return None
    if code.co_code == item.co_code and _has_same_arguments(code, item) and _INDEX in item.co_consts:
        return itemgetter, code.co_consts[item.co_consts.index(_INDEX)]
    if code.co_code == attribute.co_code and _has_same_arguments(code, attribute):
        return attrgetter, code.co_names[0]
    return None


def _has_same_arguments(code: CodeType, other: CodeType) -> bool:
    special = CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR
    return (
        code.co_argcount == other.co_argcount
        and code.co_kwonlyargcount == 0
        and not code.co_flags & special
        and not code.co_cellvars
        and not code.co_freevars
    )
