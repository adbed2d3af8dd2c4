"""ValuesSource: emits the rows of VALUES, in columns."""

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
from flinkpy.sql.rex import Literal
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.sql.types.logical_types import RowType

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch


@dataclass(frozen=True, slots=True)
class ValuesSplit:
    """The rows from `position` on."""

    split_id: str = "values"
    position: int = 0


class ValuesSource(SourceBase):
    """Emits literal rows once, in one subtask.

    Args:
        rows: the rows, whose values are in the Python form of `Literal`.
    """

    def __init__(self, rows: tuple[tuple[Literal, ...], ...], row_type: RowType) -> None:
        self._values = [tuple(each.value for each in row) for row in rows]
        self._row_type = row_type

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def produced_type(self) -> Any:
        return InternalTypeInfo(self._row_type)

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return StaticSplitEnumerator(context, lambda: [ValuesSplit()])

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        return StaticSplitEnumerator(context, lambda: [ValuesSplit()], state=state)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _ValuesReader(context, self._values, self._row_type)


class _ValuesReader(SequentialSplitReader):
    def __init__(self, context: SourceReaderContext, values: list[tuple[Any, ...]], row_type: RowType) -> None:
        super().__init__(context)
        self._values = values
        self._row_type = row_type

    def open_split(self, split: ValuesSplit) -> OpenSplit:
        return _OpenValues(split, self._values, self._row_type, self._context.max_batch_rows)


class _OpenValues:
    def __init__(self, split: ValuesSplit, values: list[tuple[Any, ...]], row_type: RowType, max_rows: int) -> None:
        self._split = split
        self._values = values
        self._row_type = row_type
        self._max_rows = max_rows
        self._position = split.position

    def read_batch(self) -> Batch | None:
        import pyarrow as pa

        from flinkpy.records.batch import Batch
        from flinkpy.sql.types.arrow import schema_of

        rows = self._values[self._position : self._position + self._max_rows]
        if not rows:
            return None
        self._position += len(rows)
        schema = schema_of(self._row_type)
        columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
        return Batch(pa.RecordBatch.from_arrays(columns, schema=schema))

    def rest(self, rows_back: int) -> ValuesSplit:
        return replace(self._split, position=self._position - rows_back)

    def close(self) -> None:
        self._values = []


def values_source(rows: tuple[tuple[Literal, ...], ...], row_type: RowType) -> SourceBase:
    """Returns the source of literal rows."""
    return ValuesSource(rows, row_type)
