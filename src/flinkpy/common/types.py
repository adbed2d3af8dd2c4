"""Row and RowKind.

Source: org.apache.flink.types.{Row,RowKind}, pyflink.common.types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import repeat
from typing import Any

__all__ = ["Row", "RowKind"]


class RowKind(Enum):
    """The kind of change that a record makes to a table."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return _SHORT_NAMES[self.value]

    def to_j_row_kind(self) -> Any:
        from flinkpy.common.errors import UnsupportedOperationError

        raise UnsupportedOperationError("RowKind.to_j_row_kind: flinkpy has no JVM")


_SHORT_NAMES = ("+I", "-U", "+U", "-D")


class UnknownFieldError(KeyError, ValueError):
    """A Row has no field of this name. It has two base classes because PyFlink raises KeyError or ValueError."""

    def __str__(self) -> str:
        return str(self.args[0])


class Row:
    """A record with fields and a RowKind. Fields are accessible by position, by name, or as attributes.

    Example:
        Row(1, "a")              # a row without field names
        Row(id=1, name="a")      # a row with field names
        Item = Row("id", "name")
        Item(1, "a")             # a row with field names: a row also serves as a factory
    """

    __slots__ = ("_fields", "_row_kind", "_values")

    _fields: list[str] | None
    _row_kind: RowKind
    _values: list[Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError("Can not use both args and kwargs to create Row")
        self._row_kind = RowKind.INSERT
        if kwargs:
            self._fields = list(kwargs)
            self._values = list(kwargs.values())
        else:
            self._fields = None
            self._values = list(args)

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Returns a row of the given kind."""
        row = Row(*args, **kwargs)
        row.set_row_kind(row_kind)
        return row

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Returns the fields by name.

        Args:
            recursive: also convert rows inside fields, lists and dicts.

        Raises:
            TypeError: the row has no field names.
        """
        if self._fields is None:
            raise TypeError("Cannot convert a Row without field names into a dict")
        if not recursive:
            return dict(zip(self._fields, self._values))
        return {name: _as_plain(value) for name, value in zip(self._fields, self._values)}

    def get_row_kind(self) -> RowKind:
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        self._row_kind = row_kind

    def set_field_names(self, field_names: list[str]) -> None:
        self._fields = list(field_names)

    def get_fields_by_names(self, names: list[str]) -> list[Any]:
        """Returns the values of the named fields in that order, or all values of a row without names.

        Raises:
            UnknownFieldError: the row has no field of such a name.
        """
        fields = self._fields
        if fields is None or names == fields:
            return self._values
        unknown = [name for name in names if name not in fields]
        if unknown:
            raise UnknownFieldError(f"Field names {unknown} not exist in {fields}.")
        return [self._values[fields.index(name)] for name in names]

    def __call__(self, *args: Any) -> Row:
        """Returns a row of this kind whose field names are this row's values. Fewer values omit the last fields."""
        if len(args) > len(self._values):
            raise ValueError(
                f"Can not create Row with fields {self}, expected {len(self._values)} values but got {args}"
            )
        row = Row.of_kind(self._row_kind, *args)
        row.set_field_names(self._values)
        return row

    def __getitem__(self, item: Any) -> Any:
        # Functions read fields by name for every record, so this is one call where it can be.
        if item.__class__ is str and self._fields is not None:
            try:
                return self._values[self._fields.index(item)]
            except ValueError:
                raise self._unknown(item) from None
        if isinstance(item, (int, slice)):
            return self._values[item]
        return self._values[self._position(item)]

    def __setitem__(self, item: int | slice | str, value: Any) -> None:
        self._values[self._position(item) if isinstance(item, str) else item] = value

    def _position(self, name: Any) -> int:
        if self._fields is None or name not in self._fields:
            raise self._unknown(name)
        return self._fields.index(name)

    def _unknown(self, name: Any) -> UnknownFieldError:
        return UnknownFieldError(f"the row has no field {name!r}, only {self._fields or len(self._values)}")

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            fields = self._fields
            if fields is not None and name in fields:
                return self._values[fields.index(name)]
        raise AttributeError(name)

    def __contains__(self, item: object) -> bool:
        """True if `item` is the name of a field or, in a row without names, a value."""
        return item in (self._values if self._fields is None else self._fields)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        """True if kind and values are equal. If both rows have names, the fields may be in any order.

        Differs: in PyFlink a row without names never equals a row with names. Here it can, because rows get names in a
        stream with a ROW type.
        """
        if not isinstance(other, Row):
            return NotImplemented
        if self._row_kind is not other._row_kind:
            return False
        if self._fields is None or other._fields is None or self._fields == other._fields:
            return self._values == other._values
        if sorted(self._fields) != sorted(other._fields):
            return False
        return all(value == other[name] for name, value in zip(self._fields, self._values))

    def __hash__(self) -> int:
        return hash(frozenset(self._values))  # the order of fields must not matter

    def __reduce__(self) -> Any:
        return _restore_row, (self._values, self._fields, self._row_kind.value)

    def __repr__(self) -> str:
        if self._fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        return f"Row({', '.join(f'{name}={value!r}' for name, value in zip(self._fields, self._values))})"


def row_of(values: list[Any], field_names: list[str] | None = None, row_kind: RowKind = RowKind.INSERT) -> Row:
    """Returns a row that owns `values` and shares `field_names`, without checks; it is faster than `Row`."""
    row = Row.__new__(Row)
    row._values = values
    row._fields = field_names
    row._row_kind = row_kind
    return row


def rows_of_values(values: Iterable[Iterable[Any]], num_rows: int, field_names: list[str]) -> list[Row]:
    """Returns rows of these values, which share `field_names`. It takes two thirds of the time of `row_of` for each."""
    rows = list(map(Row.__new__, repeat(Row, num_rows)))
    insert = RowKind.INSERT
    for row, own in zip(rows, map(list, values)):
        row._values = own
        row._fields = field_names
        row._row_kind = insert
    return rows


def _restore_row(values: list[Any], field_names: list[str] | None, kind: int) -> Row:
    return row_of(values, field_names, RowKind(kind))


def _as_plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(True) if value._fields is not None else [_as_plain(item) for item in value]
    if isinstance(value, list):
        return [_as_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _as_plain(item) for key, item in value.items()}
    return value
