"""Key selection: extracts the keys of many records. Runs a selector that only picks a field without Python calls."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from inspect import CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS
from operator import attrgetter, itemgetter
from types import CodeType, FunctionType, MethodType
from typing import Any


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
    if isinstance(get_key, FunctionType):
        return _picker(get_key.__code__, _ITEM_FUNCTION, _ATTRIBUTE_FUNCTION)
    if isinstance(get_key, MethodType) and isinstance(get_key.__func__, FunctionType):
        return _picker(get_key.__func__.__code__, _ITEM_METHOD, _ATTRIBUTE_METHOD)
    return None


#: The placeholder for the index in the functions below. Any number would do.
_INDEX = 7_654_321
# Their bytecode is compared with that of user functions. The same compiler produced both.
_ITEM_FUNCTION: CodeType = (lambda value: value[7_654_321]).__code__
_ITEM_METHOD: CodeType = (lambda self, value: value[7_654_321]).__code__
_ATTRIBUTE_FUNCTION: CodeType = (lambda value: value.name).__code__
_ATTRIBUTE_METHOD: CodeType = (lambda self, value: value.name).__code__


def _picker(code: CodeType, item: CodeType, attribute: CodeType) -> Callable[[Any], Any] | None:
    if code.co_code == item.co_code and _has_same_arguments(code, item) and _INDEX in item.co_consts:
        return itemgetter(code.co_consts[item.co_consts.index(_INDEX)])
    if code.co_code == attribute.co_code and _has_same_arguments(code, attribute):
        return attrgetter(code.co_names[0])
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
