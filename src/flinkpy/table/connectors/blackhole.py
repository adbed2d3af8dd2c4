"""The connector `blackhole`: a sink that drops every row.

Source: org.apache.flink.connector.blackhole.table.BlackHoleTableSinkFactory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkpy.common.types import RowKind
from flinkpy.connectors.discard_sink import DiscardingSink
from flinkpy.table.connectors.changelog_mode import ChangelogMode
from flinkpy.table.connectors.table_factory import FactoryContext, TableFactory
from flinkpy.table.connectors.table_options import SINK_PARALLELISM
from flinkpy.table.connectors.table_sink import DynamicTableSink

if TYPE_CHECKING:
    from flinkpy.connector_api.sink import SinkBase


class BlackholeTableFactory(TableFactory):
    """`'connector' = 'blackhole'`."""

    identifier = "blackhole"

    def create_sink(self, context: FactoryContext) -> DynamicTableSink:
        return BlackholeTableSink(context.options.get(SINK_PARALLELISM))


@dataclass(frozen=True, slots=True)
class BlackholeTableSink(DynamicTableSink):
    """Takes all changes but UPDATE_BEFORE, so that the query need not compute those."""

    sink_parallelism: int | None = None

    @property
    def summary(self) -> str:
        return "BlackHole"

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        return ChangelogMode(requested.kinds - {RowKind.UPDATE_BEFORE})

    def sink(self) -> SinkBase:
        return DiscardingSink()

    @property
    def parallelism(self) -> int | None:
        return self.sink_parallelism

    def with_static_partition(self, partition: dict[str, str]) -> DynamicTableSink:
        return self
