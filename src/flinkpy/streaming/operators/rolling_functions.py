"""The reduce functions behind KeyedStream.sum, min, max, min_by and max_by.

`sum`, `min` and `max` replace one field in the first record of the key. `min_by` and `max_by` keep the whole record
with the extreme value, and the earlier one of two equal records.

Source: pyflink.datastream.KeyedStream. Differs: rows are never changed in place, so earlier results keep their values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkpy.common.errors import TypeMismatchError
from flinkpy.common.types import Row
from flinkpy.graph.operator_specs import RollingKind

_Reduce = Callable[[Any, Any], Any]


class RollingReduce:
    """A reduce function for tuples, rows, lists and bare values. It picks the implementation by the class of each."""

    def __init__(self, kind: RollingKind, position: int | str) -> None:
        self._kind = kind
        self._position = position
        self._by_class: dict[type, _Reduce] = {}
        self._by_length: dict[int, _Reduce] = {}

    def for_batch(self, rows: list[Any]) -> _Reduce:
        """Returns the function for these records. Tuples of one length get a specialised one."""
        position, first = self._position, rows[0]
        if not isinstance(first, tuple) or not isinstance(position, int) or not 0 <= position < len(first):
            return self
        if set(map(type, rows)) != {tuple} or set(map(len, rows)) != {len(first)}:
            return self
        length = len(first)
        reduce = self._by_length.get(length)
        if reduce is None:
            reduce = self._by_length[length] = _generated_tuple_reduce(self._kind, position, length)
        return reduce

    def __call__(self, accumulated: Any, value: Any) -> Any:
        reduce = self._by_class.get(type(value))
        if reduce is None:
            reduce = self._by_class[type(value)] = self._for(value)
        return reduce(accumulated, value)

    def _for(self, value: Any) -> _Reduce:
        position = self._position
        if isinstance(value, tuple):
            if not isinstance(position, int):
                raise TypeMismatchError(f"field {position!r}: a tuple's fields have positions, not names")
            return _tuple_reduce(self._kind, position)
        if isinstance(value, Row):
            return _field_reduce(self._kind, position, _copy_row)
        if isinstance(value, list):
            return _field_reduce(self._kind, position, list.copy)
        if position != 0:
            raise TypeMismatchError(f"field {position!r} of a {type(value).__name__}: a single value has only field 0")
        return _value_reduce(self._kind)


def _value_reduce(kind: RollingKind) -> _Reduce:
    if kind is RollingKind.SUM:
        return lambda a, b: a + b
    if kind in (RollingKind.MIN, RollingKind.MIN_BY):
        return lambda a, b: b if b < a else a
    return lambda a, b: b if b > a else a


def _by_reduce(kind: RollingKind, at: Any) -> _Reduce:
    if kind is RollingKind.MIN_BY:
        return lambda a, b: b if b[at] < a[at] else a
    return lambda a, b: b if b[at] > a[at] else a


def _tuple_reduce(kind: RollingKind, at: int) -> _Reduce:
    if kind in (RollingKind.MIN_BY, RollingKind.MAX_BY):
        return _by_reduce(kind, at)
    before, after = slice(None, at), slice(at + 1, None) if at != -1 else slice(0, 0)
    if kind is RollingKind.SUM:
        return lambda a, b: (*a[before], a[at] + b[at], *a[after])
    if kind is RollingKind.MIN:
        return lambda a, b: (*a[before], b[at], *a[after]) if b[at] < a[at] else a
    return lambda a, b: (*a[before], b[at], *a[after]) if b[at] > a[at] else a


def _generated_tuple_reduce(kind: RollingKind, at: int, length: int) -> _Reduce:
    """Returns the same function for tuples of one length. The generated code lists all fields, without slices."""
    if kind in (RollingKind.MIN_BY, RollingKind.MAX_BY):
        return _by_reduce(kind, at)
    new = f"a[{at}] + b[{at}]" if kind is RollingKind.SUM else f"b[{at}]"
    fields = "".join(f"{new}, " if i == at else f"a[{i}], " for i in range(length))
    source = f"lambda a, b: ({fields})"
    if kind is RollingKind.MIN:
        source += f" if b[{at}] < a[{at}] else a"
    elif kind is RollingKind.MAX:
        source += f" if b[{at}] > a[{at}] else a"
    # The source contains only two integers and no user input.
    reduce: _Reduce = eval(compile(source, "<flinkpy rolling>", "eval"), {})
    return reduce


def _copying(replace: Callable[[Any, Any], bool], combine: _Reduce, at: Any, copy: Callable[[Any], Any]) -> _Reduce:
    def reduce(a: Any, b: Any) -> Any:
        if not replace(a[at], b[at]):
            return a
        result = copy(a)
        result[at] = combine(a[at], b[at])
        return result

    return reduce


def _field_reduce(kind: RollingKind, at: Any, copy: Callable[[Any], Any]) -> _Reduce:
    if kind in (RollingKind.MIN_BY, RollingKind.MAX_BY):
        return _by_reduce(kind, at)
    if kind is RollingKind.SUM:
        return _copying(lambda a, b: True, lambda a, b: a + b, at, copy)
    if kind is RollingKind.MIN:
        return _copying(lambda a, b: b < a, lambda a, b: b, at, copy)
    return _copying(lambda a, b: b > a, lambda a, b: b, at, copy)


def _copy_row(row: Row) -> Row:
    copy = Row(*row._values)
    copy._fields = row._fields
    copy._row_kind = row._row_kind
    return copy
