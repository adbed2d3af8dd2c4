"""Table sinks: what a factory returns for a table that a query writes to.

Source: org.apache.flink.table.connector.sink.DynamicTableSink and its abilities.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from flinkpy.sql.types.logical_types import LogicalType
from flinkpy.table.connectors.changelog_mode import ChangelogMode

if TYPE_CHECKING:
    from flinkpy.connector_api.sink import SinkBase


class DynamicTableSink(ABC):
    """The base class. Sinks are immutable and picklable."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """A short description for plans."""

    @abstractmethod
    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        """Returns the changes that the sink takes, given those that the query would send."""

    @abstractmethod
    def sink(self) -> SinkBase:
        """Returns the sink. It gets RecordBatches of the table's sink row type, with row kinds if there are changes."""

    @property
    def parallelism(self) -> int | None:
        """`sink.parallelism`; None for that of the input."""
        return None

    @property
    def metadata(self) -> dict[str, LogicalType]:
        """The metadata that the sink can write, by key."""
        return {}

    def with_metadata(self, keys: tuple[str, ...]) -> DynamicTableSink | None:
        """Returns a sink whose rows end with these metadata columns."""
        return None

    def with_static_partition(self, partition: dict[str, str]) -> DynamicTableSink | None:
        """Returns a sink for `INSERT ... PARTITION (...)`."""
        return None

    def with_overwrite(self) -> DynamicTableSink | None:
        """Returns a sink for INSERT OVERWRITE."""
        return None

    def with_row_level_delete(self) -> DynamicTableSink | None:
        """Returns a sink that gets the rows of DELETE with this RowKind and all columns; None if it cannot delete."""
        return None

    def with_row_level_update(self) -> DynamicTableSink | None:
        """Returns a sink that gets the new rows of UPDATE as UPDATE_AFTER, with all columns; None if it cannot."""
        return None

    def truncation(self) -> Callable[[], None] | None:
        """Returns an action that deletes all rows of the table at once, for TRUNCATE TABLE; None if it cannot."""
        return None

    def with_sort_by_partition(self) -> DynamicTableSink | None:
        """Returns a sink that needs its input in order of partitions, in batch mode."""
        return None
