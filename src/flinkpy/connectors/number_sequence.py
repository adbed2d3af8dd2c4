"""NumberSequenceSource: emits the integers of a range, in columns."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkpy.common.typeinfo import Types
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

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class NumberSequenceSplit:
    """The numbers from `start` to `end`, both included. Empty if `start` is greater than `end`."""

    split_id: str
    start: int
    end: int


class NumberSequenceSource(SourceBase):
    """Emits the numbers from `start` to `end`, both included, as LONG. Each subtask emits them in ascending order.

    Example:
        >>> env.from_source(NumberSequenceSource(1, 1000), WatermarkStrategy.no_watermarks(), "numbers")

    Source: org.apache.flink.api.connector.source.lib.NumberSequenceSource.
    """

    def __init__(self, start: int, end: int) -> None:
        for name, value in (("start", start), ("end", end)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"NumberSequenceSource: {name} must be an int, not {value!r}")
            if not _INT64_MIN <= value <= _INT64_MAX:
                raise ValueError(f"NumberSequenceSource: {name}={value} does not fit into 64 bits")
        if start > end:
            raise ValueError(f"NumberSequenceSource: 'from' must be <= 'to', got {start} and {end}")
        self.start = start
        self.end = end

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def produced_type(self) -> Any:
        return Types.LONG()

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return StaticSplitEnumerator(context, lambda: self.split(context.parallelism))

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        return StaticSplitEnumerator(context, lambda: self.split(context.parallelism), state=state)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _NumberSequenceReader(context)

    def split(self, num_splits: int) -> list[NumberSequenceSplit]:
        """Returns at most `num_splits` ranges of nearly equal length. None of them is empty."""
        total = self.end - self.start + 1
        bounds = [self.start + total * i // num_splits for i in range(num_splits + 1)]
        return [
            NumberSequenceSplit(str(i + 1), low, high - 1)
            for i, (low, high) in enumerate(itertools.pairwise(bounds))
            if high > low
        ]

    def __repr__(self) -> str:
        return f"NumberSequenceSource({self.start}, {self.end})"


class _NumberSequenceReader(SequentialSplitReader):
    def open_split(self, split: NumberSequenceSplit) -> OpenSplit:
        return _OpenRange(split, self._context)


class _OpenRange:
    """The unread part of a range. `read_batch` returns `RecordBatch[n rows, f0: int64]`."""

    def __init__(self, split: NumberSequenceSplit, context: SourceReaderContext) -> None:
        from flinkpy.records.lanes import arrow_schema

        self._split = split
        self._next = split.start
        self._end = split.end
        self._context = context
        self._schema = arrow_schema(Types.LONG())

    def read_batch(self) -> Batch | None:
        import numpy as np
        import pyarrow as pa

        from flinkpy.records.batch import Batch

        first = self._next
        rows = min(self._context.max_batch_rows, self._end - first + 1)
        if rows <= 0:
            return None
        self._next = first + rows
        # Counting from `first` would need the number after the end, and 2**63 - 1 has no int64 after it.
        numbers = np.arange(rows, dtype=np.int64)
        numbers += first
        return Batch(pa.RecordBatch.from_arrays([pa.array(numbers)], schema=self._schema))

    def rest(self, rows_back: int) -> NumberSequenceSplit:
        return replace(self._split, start=self._next - rows_back)

    def close(self) -> None:
        return
