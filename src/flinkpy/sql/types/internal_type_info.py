"""InternalTypeInfo: the TypeInformation of streams between table operators.

Source: org.apache.flink.table.runtime.typeutils.InternalTypeInfo.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.typeinfo import TypeInformation
from flinkpy.sql.types.logical_types import RowType


class InternalTypeInfo(TypeInformation):
    """A stream of rows of a logical type, which is always in columns: one Arrow column per field."""

    def __init__(self, row_type: RowType) -> None:
        super().__init__()
        self.row_type = row_type

    def _key(self) -> tuple[Any, ...]:
        return (self.row_type,)

    def __repr__(self) -> str:
        return f"InternalTypeInfo({self.row_type})"
