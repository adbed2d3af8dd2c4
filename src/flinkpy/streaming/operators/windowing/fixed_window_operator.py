"""FixedWindowOperator: tumbling and sliding time windows with their default trigger, a batch at a time.

After every batch it has emitted the same results as WindowOperator, but faster. No window can fire within a batch,
because the watermark and the clock only advance between batches. So records are only added to their panes: a pane is
looked up once per record and registers its timers once. Records for a window that has fired and is kept for late
records can fire immediately. WindowOperator processes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, compress, islice, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.functions.function import Function
from flinkpy.functions.window_assigners import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    check_timestamp,
)
from flinkpy.functions.window_triggers import EventTimeTrigger, ProcessingTimeTrigger
from flinkpy.functions.windows import MIN_TIMESTAMP, TimeWindow
from flinkpy.records.elements import Watermark
from flinkpy.records.namespaced_key import NamespacedKey
from flinkpy.state.timer_queue import TimerQueue
from flinkpy.streaming.operators.windowing.pane_writers import PaneWriter, ValueWriter, pane_writer
from flinkpy.streaming.operators.windowing.window_contents import WINDOW_CONTENTS
from flinkpy.streaming.operators.windowing.window_operator import WindowOperator

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.graph.operator_specs import WindowSpec

_TRIGGERS: dict[type, type] = {
    TumblingEventTimeWindows: EventTimeTrigger,
    SlidingEventTimeWindows: EventTimeTrigger,
    TumblingProcessingTimeWindows: ProcessingTimeTrigger,
    SlidingProcessingTimeWindows: ProcessingTimeTrigger,
}
#: The maximum number of (record, window) pairs that are added at once.
_MAX_PANES = 65_536
#: The maximum number of panes that fire at once.
FIRED_AT_ONCE = 8_192
#: Times beyond this could overflow int64, so they are computed with Python ints.
_MAX_TIME = 1 << 62
#: The minimum number of records per distinct (key, latest window) for which sharing panes pays off.
_MIN_SHARING = 4
#: The minimum mean number of records between two that fire for which adding the others in runs pays off.
_MIN_RUN = 16
_NOTHING: np.ndarray = np.empty(0, dtype=np.int64)


def is_fixed(spec: WindowSpec) -> bool:
    """True if FixedWindowOperator can run the spec."""
    trigger = _TRIGGERS.get(type(spec.assigner))
    if trigger is None or type(spec.trigger) is not trigger or spec.evictor is not None:
        return False
    return not is_opened(spec.aggregation)


def is_opened(function: Any) -> bool:
    """True if the function has an `open` method. It may use state then, so the current key must be set per record."""
    return isinstance(function, Function) and type(function).open is not Function.open


class FixedWindowOperator(WindowOperator):
    """Runs tumbling and sliding time windows. Thread: task thread."""

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        assigner = self.assigner
        self._size: int = assigner._size
        self._slide: int = assigner._slide
        self._offset: int = assigner._offset
        #: The maximum number of windows that contain one time.
        self._overlap = -(-self._size // self._slide)
        self._writer: PaneWriter = pane_writer(self.contents, self.register_time_timers)
        #: True if the latest window of a record determines its other windows.
        self._may_share = self._overlap > 1 and self._size % self._slide == 0 and isinstance(self._writer, ValueWriter)
        #: Restored panes that have fired. They get another timer with their next record.
        self._fired: set[NamespacedKey] = set()
        if restored is not None and self.is_event_time and self.allowed_lateness_ms:
            timers = set(self.timers.event_time.items())
            panes = self.backend.keys(WINDOW_CONTENTS)
            self._fired = {pane for pane in panes if (pane[2] - 1, pane) not in timers}

    # -- records ---------------------------------------------------------------------------------------------------

    def process_rows(self, rows: list[Any], timestamps: np.ndarray | None, first: int = 0) -> None:
        if self.is_event_time:
            if timestamps is None or int(timestamps.min()) == MIN_TIMESTAMP:
                check_timestamp(MIN_TIMESTAMP)
            assert timestamps is not None
            if self._fired or int(timestamps.min()) < -_MAX_TIME or int(timestamps.max()) > _MAX_TIME:
                super().process_rows(rows, timestamps, first)
                return
        else:
            timestamps = np.full(len(rows), self.timers.current_processing_time(), dtype=np.int64)
        step = max(1, _MAX_PANES // self._overlap)
        for start in range(0, len(rows), step):
            self._process_piece(rows[start : start + step], timestamps[start : start + step], first + start)

    def _process_piece(self, rows: list[Any], times: np.ndarray, first: int) -> None:
        """Passes records that make a window fire to WindowOperator, one by one, and adds all others in runs."""
        starts = self._starts_of(times)
        firing = self._firing(starts)
        if not len(firing):
            self._add(rows, first, times, starts)
            return
        if len(firing) * _MIN_RUN > len(rows):
            super().process_rows(rows, times, first)
            return
        begin = 0
        for end in [*firing.tolist(), len(rows)]:
            if begin < end:
                self._add(rows[begin:end], first + begin, times[begin:end], starts[begin:end])
            super().process_rows(rows[end : end + 1], times[end : end + 1], first + end)
            begin = end + 1

    def _starts_of(self, times: np.ndarray) -> np.ndarray:
        """Returns the starts of each record's windows: int64[records], or int64[records, windows], the latest first.

        If the size is no multiple of the slide, the last window may not contain the record.
        """
        starts: np.ndarray = times - (times - self._offset) % self._slide
        if self._overlap > 1:
            starts = starts[:, np.newaxis] - np.arange(self._overlap, dtype=np.int64) * self._slide
        return starts

    def _firing(self, starts: np.ndarray) -> np.ndarray:
        """Returns the positions of records with a window that has fired and is kept for late records."""
        if not self.allowed_lateness_ms or not self.is_event_time:
            return _NOTHING
        fired = self.timers.watermark - self._size + 1
        if int(starts.min()) > fired:
            return _NOTHING
        firing = (starts <= fired) & (starts > fired - self.allowed_lateness_ms)
        return np.flatnonzero(firing if firing.ndim == 1 else firing.any(axis=1))

    def _add(self, rows: list[Any], first: int, times: np.ndarray, starts: np.ndarray) -> None:
        size, slide, overlap = self._size, self._slide, self._overlap
        keys_of_rows = self.read_keys(rows)
        if self._may_share and self._add_shared(keys_of_rows, rows, first, starts[:, 0]):
            return
        keys: Iterable[Any] = keys_of_rows
        values: Iterable[Any] = rows
        counts: np.ndarray | None = None
        if size % slide:
            counts, starts = _within(starts > _as_column(times - size, starts), starts)
        counts, starts = self._without_late(first, times, counts, starts)
        if counts is not None:
            listed = counts.tolist()
            keys = chain.from_iterable(map(repeat, keys, listed))
            values = chain.from_iterable(map(repeat, rows, listed))
        elif overlap > 1:
            keys = chain.from_iterable(map(repeat, keys, repeat(overlap)))
            values = chain.from_iterable(map(repeat, rows, repeat(overlap)))
        starts = starts.ravel()
        self._writer.write(zip(keys, starts.tolist(), (starts + size).tolist()), values)

    def _add_shared(self, keys: list[Any], rows: list[Any], first: int, latest: np.ndarray) -> bool:
        """Adds records that share their windows. Returns False, and adds nothing, if too few records share windows.

        Args:
            latest: int64[records]: the start of the latest window of each record. If this window is over, all are.
        """
        assert isinstance(self._writer, ValueWriter)
        pairs = list(zip(keys, latest.tolist()))
        distinct = dict.fromkeys(pairs)
        if len(distinct) * _MIN_SHARING > len(pairs):
            return False
        over = self._over if self.is_event_time else MIN_TIMESTAMP
        if int(latest.min()) <= over:
            alive = (latest > over).tolist()
            self._late.extend([first + index for index, is_alive in enumerate(alive) if not is_alive])
            pairs, rows = list(compress(pairs, alive)), list(compress(rows, alive))
            distinct = dict.fromkeys(pairs)
        if rows:
            self._writer.write_sliding(pairs, distinct, rows, self._size, self._slide, over)
        return True

    @property
    def _over(self) -> int:
        """Event-time windows that start at or before this time are over."""
        return self.timers.watermark - self._size + 1 - self.allowed_lateness_ms

    def _without_late(
        self, first: int, times: np.ndarray, counts: np.ndarray | None, starts: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """Removes windows that are over. Notes the records that have no windows left and are late.

        Args:
            counts: int64[records]: the number of entries of `starts` per record; None if each record has one row.

        Returns: the new `counts` and `starts`.
        """
        if self.is_event_time:
            over = self._over
            if int(starts.min(initial=_MAX_TIME)) <= over:
                alive = starts > over
                if counts is None:
                    counts, starts = _within(alive, starts)
                else:
                    owners = np.repeat(np.arange(len(times)), counts)
                    counts = np.bincount(owners[alive], minlength=len(times))
                    starts = starts[alive]
        if counts is not None and self.is_event_time:
            late = (counts == 0) & (times <= self.timers.watermark - self.allowed_lateness_ms)
            if late.any():
                self._late.extend((np.flatnonzero(late) + first).tolist())
        return counts, starts

    # -- time ------------------------------------------------------------------------------------------------------

    def process_watermark(self, watermark: Watermark) -> None:
        super().process_watermark(watermark)
        if self._fired:
            over = watermark.timestamp - self.allowed_lateness_ms
            self._fired = {pane for pane in self._fired if pane[2] - 1 > over}

    def fire(self, queue: TimerQueue, up_to: int, in_event_time: bool) -> None:
        if in_event_time is not self.is_event_time or self._clear_function is not None:
            # Timers of another trigger from before a restore; or the function's `clear` must be called in order.
            super().fire(queue, up_to, in_event_time)
            return
        due = queue.pop_due(up_to)
        while timers := list(islice(due, FIRED_AT_ONCE)):
            try:
                self._fire_timers(timers)
            except USER_ERRORS as error:
                raise self.context.function_error(error) from error
            self.flush()

    def _fire_timers(self, timers: list[tuple[int, NamespacedKey]]) -> None:
        firing = [pane for timestamp, pane in timers if timestamp == pane[2] - 1]
        lateness = self.allowed_lateness_ms if self.is_event_time else 0
        read = self._writer.read(firing, lateness > 0)
        if self.function is None:
            out, times = self._out, self._times
            for pane, contents in zip(firing, read):
                if contents is not None:
                    out.append(contents[0])
                    times.append(pane[2] - 1)
        else:
            key_context, pane_context = self.key_context, self.pane_context
            for pane, contents in zip(firing, read):
                if contents is not None:
                    key, start, end = pane
                    key_context.key, pane_context.key = key, pane
                    self.emit_window(key, TimeWindow(start, end), contents)
        over = firing if not lateness else [pane for time, pane in timers if time == pane[2] - 1 + lateness]
        self._writer.clear(over)


def _as_column(times: np.ndarray, starts: np.ndarray) -> np.ndarray:
    return times[:, np.newaxis] if starts.ndim == 2 else times


def _within(mask: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the number of windows that each record keeps (int64[records]), and their starts (int64[m])."""
    counts = mask.sum(axis=1) if mask.ndim == 2 else mask.astype(np.int64)
    return counts, starts[mask]
