"""The types of PyFlink's Table API, by which formats describe rows. The Table API itself does not exist yet.

Source: pyflink.table.
"""

from __future__ import annotations

from typing import NoReturn

from flinkpy.common.types import Row, RowKind
from flinkpy.table.types import DataTypes

__all__ = ["DataTypes", "Row", "RowKind"]


def __getattr__(name: str) -> NoReturn:
    # Raised to the importing program, instead of Python's "cannot import name", for every name of PyFlink's.
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise ImportError(
        f"flinkpy.table has no {name}: of the Table API there are the types alone (DataTypes), which formats use",
        name=__name__,
    )
