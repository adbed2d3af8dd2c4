"""The types of PyFlink's Table API, which describe rows for formats. flinkpy does not have the Table API itself yet.

Source: pyflink.table.
"""

from __future__ import annotations

from typing import NoReturn

from flinkpy.common.types import Row, RowKind
from flinkpy.table.types import DataTypes

__all__ = ["DataTypes", "Row", "RowKind"]


def __getattr__(name: str) -> NoReturn:
    # A clearer error than Python's "cannot import name" for PyFlink's other names.
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise ImportError(
        f"flinkpy.table has no {name}: of the Table API, flinkpy has only the types for formats (DataTypes)",
        name=__name__,
    )
