"""SessionWindowOperator: session windows with their default trigger, a batch at a time.

After every batch it has emitted the same results as WindowOperator, but faster. The windows of a key are read once per
batch and kept in the order of time, so a record only checks the windows near it. No window can fire within a batch, so
timers are only set for windows that exist at its end. If a record is for a window that has fired and is kept for late
records, WindowOperator processes this record and the rest of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.functions.window_assigners import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    check_timestamp,
)
from flinkpy.functions.window_triggers import EventTimeTrigger, ProcessingTimeTrigger
from flinkpy.functions.windows import MIN_TIMESTAMP, TimeWindow
from flinkpy.records.namespaced_key import NamespacedKey
from flinkpy.state.timer_queue import TimerQueue
from flinkpy.streaming.operators.windowing.fixed_window_operator import FIRED_AT_ONCE, is_opened
from flinkpy.streaming.operators.windowing.pane_buffers import PaneBuffer, pane_buffer
from flinkpy.streaming.operators.windowing.pane_writers import pane_writer
from flinkpy.streaming.operators.windowing.window_operator import WindowOperator

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.graph.operator_specs import WindowSpec

_TRIGGERS: dict[type, type] = {
    EventTimeSessionWindows: EventTimeTrigger,
    DynamicEventTimeSessionWindows: EventTimeTrigger,
    ProcessingTimeSessionWindows: ProcessingTimeTrigger,
    DynamicProcessingTimeSessionWindows: ProcessingTimeTrigger,
}

#: (start, end, the pane that has its contents).
_Session = tuple[int, int, NamespacedKey]


def is_session(spec: WindowSpec) -> bool:
    """True if SessionWindowOperator can run the spec."""
    trigger = _TRIGGERS.get(type(spec.assigner))
    is_own = trigger is not None and type(spec.trigger) is trigger
    return is_own and spec.evictor is None and not is_opened(spec.aggregation)


class _Sessions:
    """The sessions of all keys of one batch."""

    def __init__(self, state: Any, keys: Iterable[Any]) -> None:
        self._state = state
        distinct = list(dict.fromkeys(keys))
        #: The stored sessions of each key: pairs of (start, end) and the (start, end) of the pane.
        self._stored: dict[Any, Any] = dict(zip(distinct, state.get_many(distinct)))
        #: The sessions of each key in the order of time. They neither overlap nor touch.
        self.of_key: dict[Any, list[_Session]] = {
            key: sorted((start, end, NamespacedKey((key, *pane))) for (start, end), pane in stored) if stored else []
            for key, stored in self._stored.items()
        }

    def persist(self) -> tuple[list[NamespacedKey], list[NamespacedKey]]:
        """Writes the changes back. Returns the panes of windows that no longer exist, and the panes of new windows."""
        gone: list[NamespacedKey] = []
        new: list[NamespacedKey] = []
        changed: list[Any] = []
        values: list[Any] = []
        for key, sessions in self.of_key.items():
            stored = self._stored[key] or ()
            value = tuple([((start, end), pane[1:]) for start, end, pane in sessions])
            if value == stored:
                continue
            before = dict.fromkeys(window for window, _ in stored)
            for start, end, _ in sessions:
                if (start, end) in before:
                    del before[start, end]
                else:
                    new.append(NamespacedKey((key, start, end)))
            gone += [NamespacedKey((key, *window)) for window in before]
            changed.append(key)
            values.append(value or None)
        self._state.put_many(changed, values)
        return gone, new


class SessionWindowOperator(WindowOperator):
    """Runs session windows in the row lane. Thread: task thread."""

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        self._reader = pane_writer(self.contents, lambda pane: None)

    # -- records ---------------------------------------------------------------------------------------------------

    def process_rows(self, rows: list[Any], timestamps: np.ndarray | None, first: int = 0) -> None:
        times: Iterable[int]
        if self.is_event_time:
            if timestamps is None or int(timestamps.min()) == MIN_TIMESTAMP:
                check_timestamp(MIN_TIMESTAMP)
            assert timestamps is not None
            times = timestamps.tolist()
        else:
            times = repeat(self.timers.current_processing_time(), len(rows))
        keys = self.read_keys(rows)
        sessions = _Sessions(self._merging_state, keys)
        buffer = pane_buffer(self.contents)
        again: set[NamespacedKey] = set()
        added = self._add(keys, rows, times, first, sessions.of_key, buffer, again)
        buffer.finish()
        gone, new = sessions.persist()
        for pane in gone:
            self.delete_time_timers(pane)
        for pane in (*new, *again.difference(gone)):
            self.register_time_timers(pane)
        if added < len(rows):
            rest = None if timestamps is None else timestamps[added:]
            super().process_rows(rows[added:], rest, first + added)

    def _add(
        self,
        keys: list[Any],
        rows: list[Any],
        times: Iterable[int],
        first: int,
        sessions_of: dict[Any, list[_Session]],
        buffer: PaneBuffer,
        again: set[NamespacedKey],
    ) -> int:
        """Adds records up to the first one that makes a window fire. Returns the number of added records.

        Args:
            again: collects unchanged windows that may have fired before a restore. Their timers are set again.
        """
        lateness = self.allowed_lateness_ms if self.is_event_time else 0
        #: Windows that end at or before `fired` have fired. Windows that end at or before `over` are over.
        fired = self.timers.watermark + 1 if self.is_event_time else MIN_TIMESTAMP
        over = fired - lateness
        gap_of = self.assigner._gap_of
        add = buffer.add
        for index, (key, value, time) in enumerate(zip(keys, rows, times)):
            end = time + gap_of(value)
            sessions = sessions_of[key]
            # The record's own window touches the sessions from `low` to `high`.
            high = len(sessions)
            while high and sessions[high - 1][0] > end:
                high -= 1
            low = high
            while low and sessions[low - 1][1] >= time:
                low -= 1
            if low == high:
                if end <= over:
                    self._late.append(first + index)
                    continue
                if end <= fired:
                    return index
                pane = NamespacedKey((key, time, end))
                sessions.insert(low, (time, end, pane))
            else:
                known_start, known_end, pane = sessions[low]
                start = time if time < known_start else known_start
                last_end = sessions[high - 1][1]
                if last_end > end:
                    end = last_end
                if end <= fired:
                    return index
                if high - low > 1:
                    buffer.merge(pane, [session[2] for session in sessions[low + 1 : high]])
                    sessions[low:high] = [(start, end, pane)]
                elif start != known_start or end != known_end:
                    sessions[low] = (start, end, pane)
                elif lateness:
                    again.add(NamespacedKey((key, start, end)))
            add(pane, value)
        return len(rows)

    # -- time ------------------------------------------------------------------------------------------------------

    def fire(self, queue: TimerQueue, up_to: int, in_event_time: bool) -> None:
        if in_event_time is not self.is_event_time or self._clear_function is not None:
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
        lateness = self.allowed_lateness_ms if self.is_event_time else 0
        sessions = _Sessions(self._merging_state, [pane[0] for _, pane in timers])
        firing: list[tuple[Any, _Session]] = []
        over: list[tuple[Any, _Session]] = []
        for timestamp, pane in timers:
            key, start, end = pane
            session = next((s for s in sessions.of_key[key] if s[0] == start and s[1] == end), None)
            if session is not None:
                if timestamp == end - 1:
                    firing.append((key, session))
                if timestamp == end - 1 + lateness:
                    over.append((key, session))
        read = self._reader.read([session[2] for _, session in firing], lateness > 0)
        for (key, (start, end, _)), contents in zip(firing, read):
            if contents is None:
                continue
            if self.function is None:
                self._out.append(contents[0])
                self._times.append(end - 1)
            else:
                self.key_context.key = key
                self.pane_context.key = NamespacedKey((key, start, end))
                self.emit_window(key, TimeWindow(start, end), contents)
        for key, session in over:
            sessions.of_key[key].remove(session)
        self._reader.clear([session[2] for _, session in over])
        sessions.persist()
