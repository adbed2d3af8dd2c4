"""StreamTableSource: a DataStream as the source of a table.

Source: org.apache.flink.table.api.internal.ExternalDynamicSource.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flinkpy.common.errors import InternalError
from flinkpy.connector_api.source import SourceBase
from flinkpy.sql.types.logical_types import LocalZonedTimestampType, LogicalType, RowField, RowType
from flinkpy.table.connectors.changelog_mode import INSERT_ONLY, ChangelogMode
from flinkpy.table.connectors.table_source import ScanTableSource

_ROWTIME = "rowtime"


@dataclass(frozen=True)
class StreamTableSource(ScanTableSource):
    """Reads all columns of a DataStream.

    Attributes:
        transformation: the DataStream.
        row_type: its records as rows, then the timestamp if `has_rowtime`.
    """

    transformation: Any
    row_type: RowType
    mode: ChangelogMode = INSERT_ONLY
    has_rowtime: bool = False

    @property
    def summary(self) -> str:
        return "DataStream"

    @property
    def changelog_mode(self) -> ChangelogMode:
        return self.mode

    @property
    def produced_type(self) -> RowType:
        return self.row_type

    @property
    def metadata(self) -> dict[str, LogicalType]:
        return {_ROWTIME: LocalZonedTimestampType(3)}

    def with_metadata(self, keys: tuple[str, ...]) -> ScanTableSource | None:
        if keys != (_ROWTIME,):
            return None
        fields = (*self.row_type.fields, RowField(_ROWTIME, LocalZonedTimestampType(3)))
        return replace(self, row_type=RowType(fields, nullable=False), has_rowtime=True)

    @property
    def has_watermarks(self) -> bool:
        return True

    @property
    def is_bounded(self) -> bool:
        # The job that has the stream is checked as a whole.
        return True

    def source(self) -> SourceBase:
        raise InternalError("a DataStream has an operator and no source; the translator of plans reads it")
