"""InternalTypeInfo: the TypeInformation of streams between table operators.

Source: org.apache.flink.table.runtime.typeutils.InternalTypeInfo.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.typeinfo import TypeInformation
from flinkpy.sql.types.logical_types import LogicalType, RowType


class InternalTypeInfo(TypeInformation):
    """A stream of rows of a logical type, which is always in columns: one Arrow column per field."""

    def __init__(self, row_type: RowType) -> None:
        super().__init__()
        self.row_type = row_type
        self._hash = hash((InternalTypeInfo, row_type))

    def get_field_names(self) -> list[str]:
        return list(self.row_type.names)

    def column_codec(self) -> Any:
        """Returns the codec of the rows, for `flinkpy.records.column_codecs.codec_of`."""
        from flinkpy.sql.types.logical_codecs import row_codec

        return row_codec(self.row_type)

    def _key(self) -> tuple[Any, ...]:
        return (self.row_type,)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, InternalTypeInfo) and self._hash == other._hash and self.row_type == other.row_type

    def __hash__(self) -> int:
        # Codecs are looked up by it once per batch, and the hash of nested types is not cached.
        return self._hash

    def __getstate__(self) -> Any:
        return self.row_type

    def __setstate__(self, state: Any) -> None:
        self.__init__(state)  # type: ignore[misc]  # hashes of enums and strings differ between processes

    def __repr__(self) -> str:
        return f"InternalTypeInfo({self.row_type})"


class LogicalTypeInfo(TypeInformation):
    """A value of a logical type, such as a field of a row. Streams of such values do not exist."""

    def __init__(self, logical_type: LogicalType) -> None:
        super().__init__()
        self.logical_type = logical_type

    def column_codec(self) -> Any:
        from flinkpy.sql.types.logical_codecs import logical_codec

        return logical_codec(self.logical_type)

    def _key(self) -> tuple[Any, ...]:
        return (self.logical_type,)

    def __repr__(self) -> str:
        return str(self.logical_type)
