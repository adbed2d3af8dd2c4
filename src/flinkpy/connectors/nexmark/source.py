"""NexmarkSource: the events of the Nexmark benchmark, in columns.

A split is one generator: a range of event ids with a timeline of its own. There are as many as subtasks at the start.

Source: com.github.nexmark.flink.source.{NexmarkSource,NexmarkSourceReader}. Differs: a job may continue at another
parallelism, with the same generators. Columns and kinds of events that no operator needs are not generated.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from flinkpy.common.clock import SystemClock
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.connector_api.source import (
    Boundedness,
    ReaderStatus,
    SourceBase,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkpy.connectors.nexmark.options import NexmarkOptions
from flinkpy.connectors.nexmark.schema import (
    ALL_COLUMNS,
    ALL_TYPES,
    EVENT_TYPE,
    EventType,
    Path,
    logical_type,
    names_of,
    row_type,
)
from flinkpy.connectors.split_reader import OpenSplit, SequentialSplitReader
from flinkpy.expressions.nodes import Call, ColumnReference, Expression, Literal, conjuncts
from flinkpy.records.batch import Batch
from flinkpy.sql.types.internal_type_info import InternalTypeInfo

#: The first id of the first generator.
_FIRST_EVENT_ID = 1
#: How often a reader with a limited rate looks for due events, in milliseconds.
_POLL_MS = 10


@dataclass(frozen=True, slots=True)
class NexmarkSplit:
    """One generator and the number of events that it has emitted."""

    split_id: str
    first_event_id: int
    max_events: int
    #: The number of this generator, from 0 on, and the number of all generators.
    index: int
    generators: int
    base_time_ms: int
    emitted: int = 0


class NexmarkSource(SourceBase):
    """Generates persons, auctions and bids, see `flinkpy.connectors.nexmark.schema` for the columns.

    Args:
        options: how many events, how fast, in which proportions. The default has no end.

    Example:
        >>> NexmarkSource(NexmarkOptions(num_events=1_000_000, first_event_rate=100_000))
    """

    def __init__(self, options: NexmarkOptions | None = None) -> None:
        self.options = options or NexmarkOptions()
        #: The columns, and their names.
        self.paths: tuple[Path, ...] = ALL_COLUMNS
        self.names: tuple[str, ...] = names_of(ALL_COLUMNS)
        self.event_types: frozenset[EventType] = ALL_TYPES

    @property
    def boundedness(self) -> Boundedness:
        options = self.options
        ends = (options.num_events or options.stop_at is not None) and not options.keep_alive
        return Boundedness.BOUNDED if ends else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def produced_type(self) -> InternalTypeInfo:
        return InternalTypeInfo(row_type(self.paths, self.names))

    def projected_to(self, columns: list[str]) -> NexmarkSource:
        by_name = dict(zip(self.names, self.paths))
        return self.with_fields([by_name[name] for name in columns], columns)

    def with_fields(self, paths: Iterable[Path], names: Iterable[str] | None = None) -> NexmarkSource:
        """Returns a source with these columns or fields of columns, in this order.

        A field of a column, like ("bid", "price"), becomes a column. It is null at other events.

        Args:
            paths: the columns.
            names: their names; None for names like `bid_price`.

        Raises:
            UnsupportedOperationError: if there is no such field.
        """
        paths = tuple(tuple(path) for path in paths)
        for path in paths:
            try:
                logical_type(path)
            except (KeyError, ValueError):
                raise UnsupportedOperationError(f"Nexmark's events have no field {'.'.join(path)}") from None
        return self._copy(paths, names_of(paths) if names is None else tuple(names), self.event_types)

    def with_event_types(self, event_types: Iterable[EventType]) -> NexmarkSource:
        """Returns a source of only these kinds of events. Times and ids of events do not change."""
        return self._copy(self.paths, self.names, frozenset(EventType(kind) for kind in event_types))

    def filtered_by(self, predicate: Any) -> NexmarkSource | None:
        """Leaves out kinds of events whose `event_type` makes the predicate false. Other conditions are ignored."""
        kept = self.event_types
        for part in conjuncts(predicate):
            wanted = _event_types(part)
            if wanted is not None:
                kept &= wanted
        return None if kept == self.event_types else self.with_event_types(kept)

    def _copy(
        self, paths: tuple[Path, ...], names: tuple[str, ...], event_types: frozenset[EventType]
    ) -> NexmarkSource:
        copied = copy(self)
        copied.paths = paths
        copied.names = names
        copied.event_types = event_types
        return copied

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return _NexmarkEnumerator(context, self.split_list(context.parallelism, SystemClock().now_ms()))

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        return _NexmarkEnumerator(context, state)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _NexmarkReader(context, self)

    def split_list(self, count: int, now_ms: int = 0) -> list[NexmarkSplit]:
        """Returns `count` generators, whose ids follow each other. The last one has the remainder of the events."""
        base_time_ms = now_ms if self.options.base_time_ms is None else self.options.base_time_ms
        shares = _shares(self.options.max_events, count)
        return [
            NexmarkSplit(str(i + 1), _FIRST_EVENT_ID + sum(shares[:i]), share, i, count, base_time_ms)
            for i, share in enumerate(shares)
        ]

    def infer_parallelism(self, upper_bound: int) -> int | None:
        return upper_bound

    def __repr__(self) -> str:
        return f"NexmarkSource({self.options})"


def _shares(total: int, count: int) -> list[int]:
    share = total // count
    return [share] * (count - 1) + [total - share * (count - 1)]


def _event_types(part: Expression) -> frozenset[EventType] | None:
    """Returns the kinds of events for which a condition on `event_type` is true; None for other conditions."""
    if not isinstance(part, Call):
        return None
    if part.function == "or":
        each = [_event_types(argument) for argument in part.arguments]
        return None if None in each else frozenset().union(*[kinds for kinds in each if kinds is not None])
    if part.function not in ("equals", "in"):
        return None
    column, *values = part.arguments
    if part.function == "equals" and isinstance(column, Literal):
        column, values = values[0], [column]
    if not isinstance(column, ColumnReference) or column.name != EVENT_TYPE:
        return None
    if not all(isinstance(value, Literal) for value in values):
        return None
    wanted = {value.value for value in values if isinstance(value, Literal)}
    return frozenset(kind for kind in EventType if kind in wanted)


class _NexmarkEnumerator(SplitEnumerator):
    """Gives each reader the generator with its number.

    A reader that took a second generator, because another reader starts late, would read it after the first one. Its
    events would all be late then, since all generators have the same times.
    """

    def __init__(self, context: SplitEnumeratorContext, splits: Iterable[NexmarkSplit]) -> None:
        self._context = context
        self._unassigned = list(splits)

    @property
    def num_unassigned_splits(self) -> int:
        return len(self._unassigned)

    def start(self) -> None:
        return

    def handle_split_request(self, subtask_index: int) -> None:
        readers = self._context.parallelism
        given = [split for split in self._unassigned if split.index % readers == subtask_index]
        if given:
            self._unassigned = [split for split in self._unassigned if split not in given]
            self._context.assign_splits({subtask_index: given})
        self._context.signal_no_more_splits(subtask_index)

    def add_splits_back(self, splits: list[Any], subtask_index: int) -> None:
        self._unassigned.extend(splits)

    def adopt_splits(self, splits: list[Any]) -> bool:
        adopted = {split.index for split in splits}
        self._unassigned = [split for split in self._unassigned if split.index not in adopted]
        return True

    def snapshot_state(self, checkpoint_id: int) -> tuple[NexmarkSplit, ...]:
        return tuple(self._unassigned)


class _NexmarkReader(SequentialSplitReader):
    """Reads a generator to its end. With `keep_alive` it never ends."""

    def __init__(self, context: SourceReaderContext, source: NexmarkSource) -> None:
        super().__init__(context)
        self._source = source
        self._is_timer_set = False

    def open_split(self, split: NexmarkSplit) -> OpenSplit:
        return _OpenGenerator(split, self._context, self._source)

    def poll_batch(self) -> Batch | ReaderStatus:
        while self._batch is None:
            if self._open is None:
                if not self._splits:
                    break
                self._open = self.open_split(self._splits[0])
                self.current_split_id = self._splits.popleft().split_id
            generator = self._open
            assert isinstance(generator, _OpenGenerator)
            if generator.prepare():
                break
            if not generator.is_at_end:
                self._wait()
                return ReaderStatus.NOTHING_AVAILABLE
            if self._source.options.keep_alive:
                return ReaderStatus.NOTHING_AVAILABLE
            self._close_split()
            assert self.current_split_id is not None
            self._context.split_finished(self.current_split_id)
            if not self._splits and not self._no_more_splits:
                self._context.send_split_request()
        return super().poll_batch()

    def _wait(self) -> None:
        if not self._is_timer_set:
            self._is_timer_set = True
            self._context.schedule(_POLL_MS, self._on_timer)

    def _on_timer(self, _: int) -> None:
        """Allows the next timer. The task polls its reader after every timer."""
        self._is_timer_set = False


class _OpenGenerator:
    """A generator that is being read."""

    def __init__(self, split: NexmarkSplit, context: SourceReaderContext, source: NexmarkSource) -> None:
        from flinkpy.connectors.nexmark.generator import FIRST_NUMBER, EventGenerator, Timeline

        options = source.options
        self._split = split
        self._context = context
        timeline = Timeline(split.first_event_id, split.generators, split.base_time_ms)
        self._generator = EventGenerator(options, timeline, source.paths, source.event_types, source.names)
        self._first_number = FIRST_NUMBER
        #: The number of events up to the last batch that was returned.
        self._emitted = split.emitted
        #: For each row of that batch, the number of events before it.
        self._positions: Any = None
        #: The number of events that have been generated, or left out.
        self._generated = split.emitted
        #: The next batch, and the number of events before each of its rows; None if it has not been generated.
        self._prepared: tuple[Batch, Any] | None = None
        self._end = split.max_events
        if options.stop_at is not None:
            self._end = min(self._end, _shares(options.stop_at, split.generators)[split.index])
        #: The clock and the event time at which emission at a limited rate began; None: not begun, or not limited.
        self._began: tuple[int, int] | None = None
        self._is_limited = not options.max_emit_speed

    @property
    def is_at_end(self) -> bool:
        return self._generated >= self._end and self._prepared is None

    def prepare(self) -> bool:
        """Generates the next batch, unless it has been. Returns False if there is none now."""
        if self._prepared is not None:
            return True
        end = min(self._end, self._due()) if self._is_limited else self._end
        rows = self._context.max_batch_rows
        while self._generated < end:
            count = min(self._generator.events_for(rows), end - self._generated)
            columns, numbers = self._generator.batch(self._first_number + self._generated, count)
            self._generated += count
            if columns.num_rows > rows:
                columns, numbers = columns.slice(0, rows), numbers[:rows]
                self._generated = int(numbers[-1]) - self._first_number + 1
            if columns.num_rows:
                self._prepared = Batch(columns), numbers - self._first_number
                return True
        return False

    def _due(self) -> int:
        """Returns the number of events whose time has come, those before the start of this reader included."""
        import numpy as np

        now_ms = self._context.monotonic_ns() // 1_000_000
        if self._began is None:
            first = int(self._generator.time_of(np.array([self._first_number + self._emitted]))[0])
            self._began = now_ms, first
        start_ms, first_time_ms = self._began
        return self._generator.number_at(first_time_ms + now_ms - start_ms) - self._first_number

    def read_batch(self) -> Batch | None:
        if not self.prepare():
            return None
        assert self._prepared is not None
        (batch, self._positions), self._prepared = self._prepared, None
        self._emitted = self._generated
        return batch

    def rest(self, rows_back: int) -> NexmarkSplit:
        emitted = self._emitted if not rows_back else int(self._positions[-rows_back])
        return replace(self._split, emitted=emitted)

    def close(self) -> None:
        return
