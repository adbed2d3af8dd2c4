"""TemporalTableFunction: the versions of a table that is only appended to, looked up by key and time.

Source: org.apache.flink.table.functions.TemporalTableFunction.
"""

from __future__ import annotations

from typing import Any

from flinkpy.sql.types.logical_types import LogicalType, is_rowtime
from flinkpy.table.planner.logical import nodes as rel


class TemporalTableFunction:
    """The rows of a history. Joined as `LATERAL TABLE(f(o.rowtime)) AS r` with `o.key = r.key`.

    With a processing time instead of an event time, a row is valid from its arrival until the next one of its key.

    Attributes:
        operation: the logical plan of the table.
        time: the time attribute from which a row is valid.
        key: the column of the key, of which a row is a version.
    """

    def __init__(self, operation: rel.RelNode, time: int, key: int) -> None:
        self.operation = operation
        self.time = time
        self.key = key
        self.kind = "TEMPORAL_TABLE"
        self.mode = "general"
        self.is_deterministic = True
        self.function: Any = self

    def result_type(self, arguments: tuple[LogicalType, ...]) -> LogicalType:
        return self.operation.row_type

    @property
    def has_event_time(self) -> bool:
        return is_rowtime(self.operation.row_type.fields[self.time].type)
