"""IntervalJoinOperator: joins records of one key whose times are near each other.

Each side keeps its records while a matching record of the other side may still come. A record whose time the watermark
has already passed is late and joins with nothing.

Source: org.apache.flink.streaming.api.operators.co.IntervalJoinOperator. Differs: records are kept per bucket of time
instead of per timestamp, so a record searches only the buckets near it, even if a slow watermark keeps many records.
The pairs of a record come in the order of the other side's times, so they are the same after a restore.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.errors import FunctionError
from flinkpy.common.typeinfo import Types
from flinkpy.functions.state import MapStateDescriptor
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MIN_WATERMARK, Watermark
from flinkpy.state.backend import KeyContext
from flinkpy.state.timer_queue import TimerQueue
from flinkpy.streaming.operators.key_reader import KeyReader
from flinkpy.streaming.operators.keyed_operator import KeyedStateOperator
from flinkpy.streaming.operators.lane_border import as_rows
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.row_emitter import RowEmitter
from flinkpy.streaming.operators.stream_operator import OperatorContext

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.graph.operator_specs import IntervalJoinSpec

#: The number of buckets of time per join interval. A record searches few buckets, and adding to one stays cheap.
BUCKETS = 4
_TIME = itemgetter(0)
#: The same name as for windows.
LATE_ELEMENTS_DROPPED_METRIC_NAME = "numLateRecordsDropped"


class JoinContext:
    """The context that `process_element` gets. One object serves all pairs."""

    __slots__ = ("left_ms", "right_ms")

    def __init__(self) -> None:
        self.left_ms = self.right_ms = MIN_WATERMARK

    def get_left_timestamp(self) -> int:
        return self.left_ms

    def get_right_timestamp(self) -> int:
        return self.right_ms

    def get_timestamp(self) -> int:
        return max(self.left_ms, self.right_ms)


class _Side:
    """One of the two inputs.

    Attributes:
        lower_ms, upper_ms: the bounds of the partners' times, relative to the time of a record.
        kept_ms: how long after its own time a record may still find a partner.
        buffer: map state from the number of a bucket to its records of the key, as (time, record).
        expiry: timers that remove the buckets of a key, `kept_ms` after their end.
    """

    def __init__(self, name: str, lower_ms: int, upper_ms: int, late_tag: str | None) -> None:
        self.name = name
        self.lower_ms = lower_ms
        self.upper_ms = upper_ms
        self.kept_ms = max(0, upper_ms)
        self.late_tag = late_tag
        self.buffer: Any = None
        self.expiry: TimerQueue
        self._bucket_ms = max(1, (upper_ms - lower_ms) // BUCKETS)

    def keep(self, time: int, value: Any, key: Any) -> None:
        """Keeps a record of `key`, which is the current key."""
        number = time // self._bucket_ms
        records = self.buffer.get(number)
        if records is None:
            records = []
            self.expiry.add((number + 1) * self._bucket_ms - 1 + self.kept_ms, key)
        records.append((time, value))
        self.buffer.put(number, records)

    def between(self, first_ms: int, last_ms: int, watermark: int) -> list[tuple[int, Any]]:
        """Returns the (time, record) pairs of the current key in the order of their times, without expired records."""
        # A bucket expires as a whole, so hide the records in it that have expired.
        first_ms = max(first_ms, watermark - self.kept_ms + 1)
        found: list[tuple[int, Any]] = []
        for number in range(first_ms // self._bucket_ms, last_ms // self._bucket_ms + 1):
            records = self.buffer.get(number)
            if records is not None:
                found.extend(record for record in records if first_ms <= record[0] <= last_ms)
        if len(found) > 1:
            found.sort(key=_TIME)
        return found

    def remove_expired(self, watermark: int, key_context: KeyContext) -> None:
        for expiry, key in self.expiry.pop_due(watermark):
            key_context.key = key
            self.buffer.remove((expiry - self.kept_ms) // self._bucket_ms)


class IntervalJoinOperator(KeyedStateOperator):
    """Runs a ProcessJoinFunction on pairs of records. Thread: task thread."""

    def __init__(
        self,
        spec: IntervalJoinSpec,
        input_types: tuple[Any, Any],
        context: OperatorContext,
        output: Output,
        side: dict[str, Output],
    ) -> None:
        super().__init__(spec.function, tuple(spec.key_selectors), spec.key_type, context, output, side)
        lower, upper = spec.lower_bound_ms, spec.upper_bound_ms
        self._sides = (
            _Side("left", lower, upper, spec.left_late_tag),
            _Side("right", -upper, -lower, spec.right_late_tag),
        )
        self._input_types = input_types
        self._key_readers = [KeyReader(selector, spec.key_type) for selector in spec.key_selectors]
        self._join_context = JoinContext()
        self._emitter = RowEmitter(output, side)
        self._late_dropped = context.metrics.counter(LATE_ELEMENTS_DROPPED_METRIC_NAME)

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self.key_selectors[input_index], self.key_type, self._input_types[input_index]

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        for side in self._sides:
            records = Types.PICKLED_BYTE_ARRAY()
            side.buffer = self.backend.map_state(MapStateDescriptor(f"{side.name}-buffer", Types.LONG(), records))
            side.expiry = self.backend.timer_queue(f"{side.name}-expiry")

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        rows = as_rows(batch, self._input_types[input_index])
        if batch.timestamps is None:
            raise FunctionError(
                f"{self.context.environment.task_name}, operator {self.context.name}: elements used in interval stream "
                "joins need timestamps: call assign_timestamps_and_watermarks before the join"
            )
        try:
            self._process(rows, batch.timestamps, input_index)
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error

    def _process(self, rows: list[Any], timestamps: np.ndarray, input_index: int) -> None:
        own, other = self._sides[input_index], self._sides[1 - input_index]
        key_context, join_context = self.key_context, self._join_context
        keys = self._key_readers[input_index](rows)
        process = self.function.process_element
        is_left = input_index == 0
        watermark = self.current_watermark
        out: list[Any] = []
        times: list[int] = []
        late: list[int] = []
        for index, (key, value, time) in enumerate(zip(keys, rows, timestamps.tolist())):
            if time < watermark:
                late.append(index)
                continue
            key_context.key = key
            own.keep(time, value, key)
            for other_time, other_value in other.between(time + own.lower_ms, time + own.upper_ms, watermark):
                if is_left:
                    join_context.left_ms, join_context.right_ms = time, other_time
                    results = process(value, other_value, join_context)
                else:
                    join_context.left_ms, join_context.right_ms = other_time, time
                    results = process(other_value, value, join_context)
                if results is not None:
                    out.extend(results)
                    times.extend([max(time, other_time)] * (len(out) - len(times)))
        self._emitter.emit(out, np.array(times, dtype=np.int64))
        if late:
            self._emit_late(own, [rows[index] for index in late], timestamps[late])

    def _emit_late(self, side: _Side, rows: list[Any], timestamps: np.ndarray) -> None:
        if side.late_tag is None:
            self._late_dropped.inc(len(rows))
        elif (output := self.side_outputs.get(side.late_tag)) is not None:
            output.emit(Batch(rows, timestamps))

    def process_watermark(self, watermark: Watermark) -> None:
        for side in self._sides:
            side.remove_expired(watermark.timestamp, self.key_context)
        super().process_watermark(watermark)
