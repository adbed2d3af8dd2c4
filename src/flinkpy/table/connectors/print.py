"""The connector `print`: a sink that prints rows, with their kind, on the TaskExecutor's standard output.

Source: org.apache.flink.connector.print.table.PrintTableSinkFactory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.connectors.print_sink import PrintSink
from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.connectors.changelog_mode import ChangelogMode
from flinkpy.table.connectors.table_factory import FactoryContext, TableFactory
from flinkpy.table.connectors.table_options import SINK_PARALLELISM
from flinkpy.table.connectors.table_sink import DynamicTableSink
from flinkpy.table.row_texts import RowTexts

if TYPE_CHECKING:
    from flinkpy.connector_api.sink import SinkBase

PRINT_IDENTIFIER: ConfigOption[str | None] = ConfigOption(
    "print-identifier", OptionType.STRING, None, "A text before each row."
)
STANDARD_ERROR: ConfigOption[bool] = ConfigOption(
    "standard-error", OptionType.BOOL, False, "True to print to standard error."
)


class PrintTableFactory(TableFactory):
    """`'connector' = 'print'`."""

    identifier = "print"
    optional_options = (PRINT_IDENTIFIER, STANDARD_ERROR)

    def create_sink(self, context: FactoryContext) -> DynamicTableSink:
        options = context.options
        return PrintTableSink(
            context.table.resolved_schema.to_physical_row_type(),
            options.get(PRINT_IDENTIFIER),
            options.get(STANDARD_ERROR),
            options.get(SINK_PARALLELISM),
        )


@dataclass(frozen=True, slots=True)
class PrintTableSink(DynamicTableSink):
    """Takes all changes."""

    row_type: RowType
    identifier: str | None
    is_standard_error: bool
    sink_parallelism: int | None = None

    @property
    def summary(self) -> str:
        return "Print to System.err" if self.is_standard_error else "Print to System.out"

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        return requested

    def sink(self) -> SinkBase:
        return PrintSink(self.identifier, self.is_standard_error, RowTexts(self.row_type))

    @property
    def parallelism(self) -> int | None:
        return self.sink_parallelism

    def with_static_partition(self, partition: dict[str, str]) -> DynamicTableSink:
        return self
