"""Table sources: what a factory returns for a table that a query reads, and what the planner may push into it.

The methods named `with_...` return a new source that has taken over a part of the query, or None if it cannot. The
planner calls them in this order: filters, partitions, projection (with metadata), limit, watermark.

Source: org.apache.flink.table.connector.source.{ScanTableSource, LookupTableSource} and its abilities.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.connector_api.source import Boundedness
from flinkpy.graph.table_specs import LookupCacheOptions
from flinkpy.sql.rex import RexNode
from flinkpy.sql.types.logical_types import LogicalType, RowType
from flinkpy.table.connectors.changelog_mode import INSERT_ONLY, ChangelogMode

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkpy.connector_api.source import SourceBase


class DynamicTableSource(ABC):
    """The base class. Sources are immutable and picklable."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """A short description for plans."""


@dataclass(frozen=True, slots=True)
class FilterPushDown:
    """The answer to `with_filters`.

    Attributes:
        source: the source that applies `accepted`.
        accepted: the conjuncts that the source evaluates in full; the plan shows them.
        remaining: the conjuncts that the query must still evaluate. A conjunct may be in both.
    """

    source: ScanTableSource
    accepted: tuple[RexNode, ...]
    remaining: tuple[RexNode, ...]


class ScanTableSource(DynamicTableSource):
    """A source that is read as a whole, once or for ever."""

    @property
    def changelog_mode(self) -> ChangelogMode:
        return INSERT_ONLY

    @property
    @abstractmethod
    def produced_type(self) -> RowType:
        """The rows of `source()`: the physical columns, then the metadata columns asked for by `with_metadata`."""

    @abstractmethod
    def source(self) -> SourceBase:
        """Returns the source. It emits RecordBatches of `produced_type`, with row kinds if `changelog_mode` has any."""

    @property
    def parallelism(self) -> int | None:
        """The parallelism of the source (`scan.parallelism`); None for that of the job."""
        return None

    @property
    def is_bounded(self) -> bool:
        """True if the rows end. Batch mode refuses other sources."""
        return self.source().boundedness is Boundedness.BOUNDED

    @property
    def estimated_size_bytes(self) -> int:
        """The size of what the source reads; 0 if it is not known."""
        return 0

    @property
    def parquet_files(self) -> Any:
        """The FileSource of a table that is nothing but local Parquet files, whose columns have the names of the
        table's. An embedded engine may read such files itself. None for other tables.
        """
        return None

    @property
    def metadata(self) -> dict[str, LogicalType]:
        """The metadata that the source can add to rows, by key."""
        return {}

    def with_metadata(self, keys: tuple[str, ...]) -> ScanTableSource | None:
        """Returns a source whose rows end with these metadata columns."""
        return None

    def with_projection(self, paths: tuple[tuple[int, ...], ...], produced_type: RowType) -> ScanTableSource | None:
        """Returns a source of some columns.

        Args:
            paths: for each column of the new rows the position of a column, or a path into nested rows such as (2, 0).
            produced_type: the new rows.
        """
        return None

    @property
    def supports_nested_projection(self) -> bool:
        """True if `with_projection` takes paths of more than one position."""
        return False

    def with_filters(self, filters: tuple[RexNode, ...]) -> FilterPushDown | None:
        """Returns a source that skips rows for which a filter is not true. Filters refer to `produced_type`."""
        return None

    def with_limit(self, limit: int) -> ScanTableSource | None:
        """Returns a source that may stop after this number of rows per reader."""
        return None

    @property
    def has_watermarks(self) -> bool:
        """True if the source emits watermarks of its own, which SOURCE_WATERMARK() takes over."""
        return False

    @property
    def supports_watermarks(self) -> bool:
        """True if its splits should have watermarks of their own, since they progress independently of each other."""
        return False

    def partitions(self) -> list[dict[str, str | None]] | None:
        """Returns the partitions, each as column names and values as text; None if the source cannot list them."""
        return None

    def with_partitions(self, partitions: list[dict[str, str | None]]) -> ScanTableSource | None:
        """Returns a source of some of the partitions."""
        return None


class LookupFunction(ABC):
    """Looks up rows by key. Used by one subtask.

    Source: org.apache.flink.table.functions.{LookupFunction, AsyncLookupFunction}.
    """

    def open(self, context: Any) -> None:
        """Called once before the first lookup with the runtime context of the operator."""
        return

    @abstractmethod
    def lookup(self, keys: pa.RecordBatch) -> tuple[Any, pa.RecordBatch]:
        """Looks up a batch of distinct keys.

        Args:
            keys: one column per key column, in the order in which the source was asked for them.

        Returns:
            int64[m], ascending: for each found row the position of its key.
            RecordBatch[m rows]: the rows, of the source's `produced_type`.
        """

    def close(self) -> None:
        return


class AsyncLookupFunction(ABC):
    """Looks up rows by key while other lookups are on their way. Used by one subtask.

    Source: org.apache.flink.table.functions.AsyncLookupFunction.

    Attributes:
        max_keys_per_call: the largest number of keys that one call of `lookup` gets.
    """

    max_keys_per_call: int = 1

    def open(self, context: Any) -> None:
        """Called once before the first lookup, on the task's thread, with the runtime context of the operator."""
        return

    @abstractmethod
    async def lookup(self, keys: pa.RecordBatch) -> tuple[Any, pa.RecordBatch]:
        """Looks up distinct keys. Arguments and results are those of `LookupFunction.lookup`."""

    def close(self) -> None:
        """Called once at the end, on the task's thread, when no call is on its way."""
        return


class LookupTableSource(DynamicTableSource):
    """A source that is asked for the rows of a key."""

    @property
    @abstractmethod
    def produced_type(self) -> RowType:
        """The rows that lookups return."""

    @abstractmethod
    def lookup_function(self, keys: tuple[int, ...]) -> LookupFunction:
        """Returns the function that finds rows by these columns. It is pickled into the job."""

    def async_lookup_function(self, keys: tuple[int, ...]) -> AsyncLookupFunction | None:
        """Returns a function that looks up many keys at a time; None if there is none.

        It is preferred to `lookup_function` unless the query has a hint LOOKUP(..., 'async' = 'false').
        """
        return None

    @property
    def lookup_cache(self) -> LookupCacheOptions | None:
        """Returns the limits of the rows that a join keeps; None if it keeps none."""
        return None


class VectorSearchFunction(ABC):
    """Finds the rows of a table whose vectors are most similar to others. Used by one subtask.

    Source: org.apache.flink.table.functions.VectorSearchFunction.
    """

    def open(self, context: Any) -> None:
        """Called once before the first search with the runtime context of the operator."""
        return

    @abstractmethod
    def search(self, queries: pa.ListArray, top_k: int) -> tuple[Any, pa.RecordBatch, Any]:
        """Searches for a batch of vectors.

        Args:
            queries: n vectors, with the type of the searched column. NULL finds nothing.
            top_k: the largest number of rows per vector.

        Returns:
            int64[m], ascending: for each found row the position of its query.
            RecordBatch[m rows]: the rows, of the source's `produced_type`, the most similar ones first.
            float64[m]: their scores.
        """

    def close(self) -> None:
        return


class VectorSearchTableSource(DynamicTableSource):
    """A source that is asked for rows by the similarity of vectors.

    Source: org.apache.flink.table.connector.source.VectorSearchTableSource.
    """

    @abstractmethod
    def vector_search_function(self, column: int) -> VectorSearchFunction:
        """Returns the function that compares the vectors of this column. It is pickled into the job."""
