"""CollectionSource: emits records that are part of the program."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import FunctionSerializationError
from flinkpy.common.typeinfo import TypeInformation
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

#: The number of records that are checked and pickled together. A task needs no second copy of the whole collection.
_ROWS_PER_BLOCK = 16_384


@dataclass(frozen=True, slots=True)
class CollectionSplit:
    """The collection without its first `position` elements.

    There is one split, so the source keeps the order of the elements and runs in one subtask.
    """

    split_id: str = "0"
    position: int = 0


@dataclass(frozen=True, slots=True)
class CollectionRange:
    """The elements from `position` up to, but not including, `end` of a collection that several subtasks share."""

    split_id: str
    position: int
    end: int


class CollectionSource(SourceBase):
    """Emits elements in their order.

    With `type_info`, the constructor checks every element and converts it to the form of its type: a tuple becomes a
    `Row` if the type is a ROW, and an int that is too large for INT wraps around. A mismatch is thus raised in the
    user's program and not in a task. Without `type_info`, elements are any Python objects that can be pickled.

    Args:
        elements: the records.
        type_info: TypeInformation of the records; None for pickled Python objects.
        is_parallel: True to divide the elements among all subtasks, False to emit them in one subtask.

    Raises:
        TypeMismatchError: an element does not match `type_info`. Names its index and field.
        FunctionSerializationError: an element cannot be pickled. Names its index.

    Source: pyflink StreamExecutionEnvironment.from_collection.
    """

    def __init__(
        self, elements: Iterable[Any], type_info: TypeInformation | None = None, is_parallel: bool = False
    ) -> None:
        rows = list(elements)
        self._is_parallel = is_parallel
        self._type_info = type_info
        self._num_rows = len(rows)
        self._blocks = [
            _pickle_block(_checked(rows[start : start + _ROWS_PER_BLOCK], start, type_info), start)
            for start in range(0, len(rows), _ROWS_PER_BLOCK)
        ]

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def produced_type(self) -> Any:
        return self._type_info

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return StaticSplitEnumerator(context, lambda: self.split(context.parallelism))

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        return StaticSplitEnumerator(context, lambda: self.split(context.parallelism), state=state)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _CollectionReader(context, self._blocks)

    def for_coordinator(self) -> CollectionSource:
        """Returns a source without the elements, whose classes the JobMaster may not have."""
        source = CollectionSource((), is_parallel=self._is_parallel)
        source._num_rows = self._num_rows
        return source

    def split(self, num_splits: int) -> list[CollectionSplit | CollectionRange]:
        """Returns one split, or at most `num_splits` ranges of nearly equal length if the source is parallel."""
        if not self._is_parallel:
            return [CollectionSplit()]
        bounds = [self._num_rows * i // num_splits for i in range(num_splits + 1)]
        return [
            CollectionRange(str(i), low, high) for i, (low, high) in enumerate(itertools.pairwise(bounds)) if high > low
        ]

    def __len__(self) -> int:
        return self._num_rows


def _checked(rows: list[Any], first_index: int, type_info: TypeInformation | None) -> list[Any]:
    if type_info is None:
        return rows
    from flinkpy.common.errors import TypeMismatchError
    from flinkpy.records.lanes import declared_rows, has_columns

    if not has_columns(type_info):
        return rows
    try:
        return declared_rows(rows, type_info)
    except TypeMismatchError as error:
        if not first_index:
            raise
        raise TypeMismatchError(
            f"{error.message} (counted from element {first_index} of the collection)", details=error.details
        ) from error


def _pickle_block(rows: list[Any], first_index: int) -> bytes:
    import cloudpickle

    try:
        return cloudpickle.dumps(rows, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # the elements' own __reduce__ may raise anything
        for index, row in enumerate(rows, first_index):
            try:
                cloudpickle.dumps(row)
            except Exception as culprit:
                raise FunctionSerializationError(
                    f"element {index} of the collection ({type(row).__name__}) cannot be pickled: {culprit}"
                ) from culprit
        raise FunctionSerializationError(f"the collection cannot be pickled: {error}") from error


class _CollectionReader(SequentialSplitReader):
    def __init__(self, context: SourceReaderContext, blocks: list[bytes]) -> None:
        super().__init__(context)
        self._blocks = blocks

    def open_split(self, split: CollectionSplit | CollectionRange) -> OpenSplit:
        return _OpenCollection(split, self._blocks, self._context)


class _OpenCollection:
    """The unread part of a split, in batches of rows."""

    def __init__(
        self, split: CollectionSplit | CollectionRange, blocks: list[bytes], context: SourceReaderContext
    ) -> None:
        self._split = split
        self._blocks = blocks
        self._context = context
        self._position = split.position
        self._end = split.end if isinstance(split, CollectionRange) else None
        #: The number of the block in `_rows`; -1 for none.
        self._block = -1
        self._rows: list[Any] = []

    def read_batch(self) -> Batch | None:
        from flinkpy.records.batch import Batch

        block, start = divmod(self._position, _ROWS_PER_BLOCK)
        if block != self._block:
            if block >= len(self._blocks):
                return None
            self._rows = pickle.loads(self._blocks[block])
            self._block = block
        wanted = self._context.max_batch_rows
        if self._end is not None:
            wanted = min(wanted, self._end - self._position)
        rows = self._rows[start : start + wanted]
        self._position += len(rows)
        return Batch(rows) if rows else None

    def rest(self, rows_back: int) -> CollectionSplit | CollectionRange:
        return replace(self._split, position=self._position - rows_back)

    def close(self) -> None:
        self._rows = []
