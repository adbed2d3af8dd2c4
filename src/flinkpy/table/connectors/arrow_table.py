"""Tables whose rows the program gives: RecordBatches of Arrow, from which pandas' and Python's rows are made, too.

Source: org.apache.flink.table.runtime.arrow.sources.ArrowTableSource.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkpy.connector_api.source import (
    Boundedness,
    SourceBase,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkpy.connectors.split_enumerator import StaticSplitEnumerator
from flinkpy.connectors.split_reader import OpenSplit, SequentialSplitReader
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.connectors.table_source import ScanTableSource, VectorSearchFunction, VectorSearchTableSource
from flinkpy.table.connectors.vector_search import InMemoryVectorSearch, VectorMetric

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkpy.records.batch import Batch


@dataclass(frozen=True, slots=True)
class RowRange:
    """The rows from `start` up to, but without, `end`."""

    split_id: str
    start: int
    end: int


class ArrowSource(SourceBase):
    """Emits the rows of an Arrow table once.

    Args:
        rows: the rows, with the Arrow types of `row_type`; None in the JobMaster.
        num_rows: their number.
        num_splits: how many readers may share them.
    """

    def __init__(self, rows: pa.Table | None, row_type: RowType, num_rows: int, num_splits: int) -> None:
        self._rows = rows
        self._row_type = row_type
        self._num_rows = num_rows
        self._num_splits = num_splits

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def produced_type(self) -> Any:
        return InternalTypeInfo(self._row_type)

    def for_coordinator(self) -> SourceBase:
        """Returns a source without the rows, which the JobMaster does not need."""
        return ArrowSource(None, self._row_type, self._num_rows, self._num_splits)

    def splits(self) -> list[RowRange]:
        """Returns ranges of about equal lengths in the order of the rows."""
        count = max(1, min(self._num_splits, self._num_rows))
        bounds = [self._num_rows * place // count for place in range(count + 1)]
        return [RowRange(str(place), *bounds[place : place + 2]) for place in range(count)]

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return StaticSplitEnumerator(context, self.splits)

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        return StaticSplitEnumerator(context, self.splits, state=state)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        assert self._rows is not None
        return _ArrowReader(context, self._rows)


class _ArrowReader(SequentialSplitReader):
    def __init__(self, context: SourceReaderContext, rows: pa.Table) -> None:
        super().__init__(context)
        self._rows = rows

    def open_split(self, split: RowRange) -> OpenSplit:
        return _OpenRange(split, self._rows, self._context)


class _OpenRange:
    """The unread part of a range."""

    def __init__(self, split: RowRange, rows: pa.Table, context: SourceReaderContext) -> None:
        self._split = split
        self._rows = rows
        self._context = context
        self._next = split.start

    def read_batch(self) -> Batch | None:
        from flinkpy.records.batch import Batch

        count = min(self._context.max_batch_rows, self._split.end - self._next)
        if count <= 0:
            return None
        rows = self._rows.slice(self._next, count).combine_chunks()
        self._next += count
        return Batch(rows.to_batches()[0])

    def rest(self, rows_back: int) -> RowRange:
        return replace(self._split, start=self._next - rows_back)

    def close(self) -> None:
        return


@dataclass(frozen=True)
class ArrowRows:
    """All rows of an Arrow table."""

    rows: pa.Table

    def read_all(self) -> pa.RecordBatch:
        import pyarrow as pa

        found = self.rows.combine_chunks().to_batches()
        return found[0] if found else pa.RecordBatch.from_pylist([], schema=self.rows.schema)


@dataclass(frozen=True)
class ArrowTableSource(ScanTableSource, VectorSearchTableSource):
    """Reads the columns that are asked for."""

    rows: pa.Table
    row_type: RowType
    num_splits: int = 1

    @property
    def summary(self) -> str:
        return "ArrowTableSource"

    @property
    def produced_type(self) -> RowType:
        return self.row_type

    def source(self) -> SourceBase:
        return ArrowSource(self.rows, self.row_type, self.rows.num_rows, self.num_splits)

    def with_projection(self, paths: tuple[tuple[int, ...], ...], produced_type: RowType) -> ScanTableSource | None:
        if not paths:
            return None
        rows = self.rows.select([path[0] for path in paths]).rename_columns(list(produced_type.names))
        return replace(self, rows=rows, row_type=produced_type)

    def with_limit(self, limit: int) -> ScanTableSource:
        return replace(self, rows=self.rows.slice(0, limit))

    def vector_search_function(self, column: int) -> VectorSearchFunction:
        return InMemoryVectorSearch(ArrowRows(self.rows), column, VectorMetric.COSINE)
