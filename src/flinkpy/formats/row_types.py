"""The ROW type that a format reads or writes, from the ways in which a program may write it down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import RowTypeInfo, TypeInformation


@runtime_checkable
class ConvertibleType(Protocol):
    """A type in another vocabulary, such as a DataType of `flinkpy.table`."""

    def to_type_info(self) -> TypeInformation: ...


def row_type_of(description: Any) -> RowTypeInfo:
    """A RowTypeInfo of `Types.ROW_NAMED(...)`, `DataTypes.ROW(...)`, a `pyarrow.Schema`, or a dict from name to type of
    either kind.

    Raises:
        UnsupportedOperationError: it is something else, or an Arrow type that no TypeInformation holds.
    """
    if isinstance(description, ConvertibleType):
        description = description.to_type_info()
    if isinstance(description, RowTypeInfo):
        return description
    if isinstance(description, dict):
        names = [str(name) for name in description]
        return RowTypeInfo([_field_type(name, kind) for name, kind in description.items()], names)
    if type(description).__module__.startswith("pyarrow"):
        return RowTypeInfo([_field_type(field.name, field.type) for field in description], list(description.names))
    raise UnsupportedOperationError(
        f"{description!r} does not describe rows: give Types.ROW_NAMED(names, types), DataTypes.ROW(fields), "
        "a pyarrow.Schema, or a dict from column name to type"
    )


def _field_type(name: str, kind: Any) -> TypeInformation:
    if isinstance(kind, TypeInformation):
        return kind
    if isinstance(kind, ConvertibleType):
        return kind.to_type_info()
    if type(kind).__module__.startswith("pyarrow"):
        from flinkpy.records.lanes import type_info_of_arrow

        return type_info_of_arrow(kind, name)
    raise UnsupportedOperationError(
        f"column {name!r}: {kind!r} is no type; give Types.LONG(), DataTypes.BIGINT(), pyarrow.int64(), ..."
    )


def project_row_type(row_type: RowTypeInfo, columns: Sequence[str]) -> RowTypeInfo:
    """`row_type` with only `columns`, in that order. Raises: ValueError naming the columns it has not."""
    names, types = row_type.get_field_names(), row_type.get_field_types()
    missing = [column for column in columns if column not in names]
    if missing:
        raise ValueError(f"there is no column {', '.join(map(repr, missing))}; there are {', '.join(map(repr, names))}")
    return RowTypeInfo([types[names.index(column)] for column in columns], list(columns))
