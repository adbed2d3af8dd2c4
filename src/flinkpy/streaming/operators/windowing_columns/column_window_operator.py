"""ColumnWindowOperator: the base class of operators of windows over columns.

It emits the key columns, `window_start`, `window_end` (in ms, exclusive), and one column per aggregate. As in Flink,
the timestamp of a result is the last ms of its window.

The state contains, per key group, the time up to which windows have fired. So windows that fired before a failure do
not fire again, and records that were late stay late, although the watermark itself starts again at the minimum.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.operator_specs import FieldKeySelector, WindowAggregateSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, MIN_WATERMARK, Watermark
from flinkpy.records.key_hash import hash_columns, key_groups
from flinkpy.records.lanes import arrow_schema, to_rows
from flinkpy.state.aggregate_table import AggregateColumn
from flinkpy.state.backend import KeyContext
from flinkpy.streaming.operators.aggregate_inputs import AggregateInputs
from flinkpy.streaming.operators.keyed_operator import KeyedStateOperator
from flinkpy.streaming.operators.lane_border import inserted_columns
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, OperatorSnapshot, OperatorStateDescriptor
from flinkpy.streaming.operators.timer_service import register_event_time_gauge

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.streaming.tasks.processing_time_service import ScheduledTimer

TABLE_NAME = "window-contents"
#: Used instead of lower times, so that arithmetic does not overflow.
_LOWEST = -(1 << 62)
#: The maximum number of rows per batch of results.
_MAX_RESULT_ROWS = 65_536
#: The schema of the input. Restored windows may fire before the first batch shows it.
_SCHEMA = OperatorStateDescriptor("input-schema")
#: Elements: (first key group, last key group, time up to which their windows have fired), one or more per subtask.
_PROGRESS = OperatorStateDescriptor("progress")


class ColumnWindowOperator(KeyedStateOperator):
    """Runs windows over columns. Thread: task thread.

    Attributes:
        fired_until: windows whose last ms is at or before this time have fired.
        inputs: the AggregateInputs, or an object with the same methods; None until the first batch or a restore.
    """

    def __init__(
        self,
        spec: WindowAggregateSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        if not isinstance(spec.key_selector, FieldKeySelector):
            raise UnsupportedOperationError(
                f"operator {context.name}: windows over columns need a key that is a column: a position or a name"
            )
        super().__init__(None, (spec.key_selector,), spec.key_type, context, output, side_outputs, KeyContext())
        self.spec = spec
        self.fired_until = MIN_WATERMARK
        self._input_type = input_type
        self._clock = context.processing_time_service
        self.inputs: Any = None
        self._names: list[str] = []
        #: For each own key group, the time up to which it had fired in the restored snapshot. None when `fired_until`
        #: has passed all of them.
        self._restored_progress: np.ndarray | None = None
        #: The timer for the next processing-time window that has not fired.
        self._timer: ScheduledTimer | None = None
        self._late_records_dropped = context.metrics.counter("numLateRecordsDropped")

    # -- methods of subclasses ---------------------------------------------------------------------------------------

    @abstractmethod
    def create_table(self, key_types: list[pa.DataType], aggregates: list[AggregateColumn]) -> None:
        """Creates the state, with the restored state in it."""

    @abstractmethod
    def add(self, batch: Batch, key_columns: list[pa.Array], value_columns: list[pa.Array | None]) -> None:
        """Adds records. `batch.timestamps` determines their windows."""

    @abstractmethod
    def fire(self, time: int) -> None:
        """Emits the windows that are due at `time`, and drops windows that can get no more records."""

    @abstractmethod
    def next_end(self) -> int | None:
        """Returns a lower bound of the last ms of all windows that have not fired; None if there are none."""

    # -- state ---------------------------------------------------------------------------------------------------

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self.spec.key_selector, self.key_type, self._input_type

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        if restored is None:
            return
        own = self.backend.key_group_range
        progress = np.full(len(own), MIN_WATERMARK, dtype=np.int64)
        for first, last, time in self.operator_state.get_union_list_state(_PROGRESS).get():
            start, end = max(first, own.start), min(last, own.end)
            if start <= end:
                progress[start - own.start : end - own.start + 1] = time
        if len(progress):
            self.fired_until = int(progress.min())
            self._restored_progress = progress if int(progress.max()) > self.fired_until else None
        for stored in self.operator_state.get_union_list_state(_SCHEMA).get():
            # Prefer the declared schema: the program may have another column order now.
            self._set_up(arrow_schema(self._input_type) or pa.ipc.read_schema(pa.py_buffer(stored)))
            break

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> OperatorSnapshot:
        own = self.backend.key_group_range
        if self._restored_progress is not None:
            times = self._restored_progress.tolist()
            progress = [(own.start + i, own.start + i, max(time, self.fired_until)) for i, time in enumerate(times)]
        else:
            # Event time has ended, so no window is left that could fire twice. A restored job starts at the minimum.
            time = MIN_WATERMARK if self.fired_until >= MAX_WATERMARK else self.fired_until
            progress = [(own.start, own.end, time)]
        self.operator_state.get_union_list_state(_PROGRESS).update(progress)
        return super().snapshot_state(checkpoint_id, options)

    def _set_up(self, schema: pa.Schema) -> Any:
        """Creates the state when the schema is known: at the first batch or at a restore."""
        selector = self.spec.key_selector
        assert isinstance(selector, FieldKeySelector)
        inputs = AggregateInputs(schema, selector, self.spec.aggregates, self.context.name)
        self._names = [*inputs.key_names, "window_start", "window_end"]
        self._names += [aggregate.name for aggregate in self.spec.aggregates]
        self.create_table(inputs.key_types, inputs.aggregates)
        self.operator_state.get_union_list_state(_SCHEMA).update([schema.serialize().to_pybytes()])
        self.inputs = inputs
        return inputs

    # -- data ----------------------------------------------------------------------------------------------------

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = inserted_columns(batch, self._input_type, self.context.name)
        inputs = self.inputs
        if inputs is None:
            inputs = self._set_up(columns.schema)
        batch = Batch(columns, self._times(batch), None)
        self.add(batch, inputs.key_columns(columns), inputs.value_columns(columns))
        if not self.spec.is_event_time:
            self._set_timer()

    def _times(self, batch: Batch) -> np.ndarray:
        if not self.spec.is_event_time:
            # The clock may have been set back. Windows that have fired are over nevertheless.
            now = max(self._clock.current_time_ms(), self.fired_until + 1)
            return np.full(batch.num_rows, now, dtype=np.int64)
        times = batch.timestamps
        if times is None or int(times.min()) == MIN_WATERMARK:
            raise UnsupportedOperationError(
                f"operator {self.context.name}: a record has no timestamp: call assign_timestamps_and_watermarks "
                "before event-time windows, or use processing-time windows"
            )
        return times

    def late(self, batch: Batch, rows: np.ndarray) -> None:
        """Emits late records to the side output, or drops and counts them. `rows` (bool[n]) marks them."""
        tag = self.spec.late_output_tag
        if tag is None:
            self._late_records_dropped.inc(int(rows.sum()))
            return
        output = self.side_outputs.get(tag)
        if output is not None:
            late = batch.take(np.flatnonzero(rows))
            output.emit(late if self.spec.late_output_is_typed else to_rows(late, self._input_type))

    # -- time ----------------------------------------------------------------------------------------------------

    def process_watermark(self, watermark: Watermark) -> None:
        if self.spec.is_event_time:
            self._fire_until(watermark.timestamp)
        super().process_watermark(watermark)

    def open(self) -> None:
        super().open()
        if self.spec.is_event_time:
            register_event_time_gauge(self.context.metrics, lambda: None if self.inputs is None else self.next_end())
        elif self.inputs is not None:
            self._set_timer()

    def _set_timer(self) -> None:
        end = self.next_end()
        if end is None or (self._timer is not None and self._timer.timestamp_ms <= end):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.register_timer(end, self._on_timer)

    def _on_timer(self, time: int) -> None:
        self._timer = None
        self._fire_until(time)
        self._set_timer()

    def _fire_until(self, time: int) -> None:
        if time <= self.fired_until:
            return
        if self.inputs is not None:
            self.fire(time)
        self.fired_until = time
        restored = self._restored_progress
        if restored is not None and int(restored.max()) <= time:
            self._restored_progress = None

    @property
    def latest_progress(self) -> int:
        """The latest time up to which any key has fired."""
        if self._restored_progress is None:
            return self.fired_until
        return max(self.fired_until, int(self._restored_progress.max()))

    def progress_of(self, key_columns: list[pa.Array]) -> Any:
        """Returns the time up to which each record's key has fired: int64[n], or an int if all are equal."""
        if self._restored_progress is None:
            return max(self.fired_until, _LOWEST)
        own = self._restored_progress.take(self._groups_of(key_columns))
        return np.maximum(own, max(self.fired_until, _LOWEST))

    def _groups_of(self, key_columns: list[pa.Array]) -> np.ndarray:
        """Returns the key group of each record, relative to the first own key group."""
        groups = key_groups(hash_columns(key_columns), self.context.environment.max_parallelism)
        return np.asarray(groups).astype(np.int64) - self.backend.key_group_range.start

    # -- results -------------------------------------------------------------------------------------------------

    def result_batch(
        self, key_columns: list[pa.Array], starts: np.ndarray, ends: np.ndarray, results: list[pa.Array]
    ) -> Batch:
        """Returns one row per window and key."""
        assert self.inputs is not None
        own_keys = key_columns if self.inputs.key_names else []
        columns = [*own_keys, pa.array(starts), pa.array(ends), *results]
        return Batch(pa.RecordBatch.from_arrays(columns, names=self._names), ends - 1)

    def emit(
        self, key_columns: list[pa.Array], starts: np.ndarray, ends: np.ndarray, results: list[pa.Array], again: bool
    ) -> None:
        """Emits results of windows.

        Args:
            again: True if the windows may have fired before. If False, windows that had already fired in the restored
                snapshot are left out.
        """
        batch = self.result_batch(key_columns, starts, ends, results)
        restored = self._restored_progress
        if restored is not None and not again:
            is_new = restored.take(self._groups_of(key_columns)) < ends - 1
            if not is_new.all():
                batch = batch.take(np.flatnonzero(is_new))
        for start in range(0, batch.num_rows, _MAX_RESULT_ROWS):
            self.output.emit(batch.slice(start, min(_MAX_RESULT_ROWS, batch.num_rows - start)))


def turns_of(keys: np.ndarray, is_alone: np.ndarray) -> list[np.ndarray]:
    """Splits records into as few parts as possible. Returns the positions of the records of each part.

    The records of one key are in order over the parts.

    Args:
        keys: int64[n]: the key of each record.
        is_alone: bool[n]: True if the record must be the only one of its key in its part. Other records may share a
            part with their neighbours of the same key.
    """
    if not len(keys):
        return []
    order = np.argsort(keys, kind="stable")
    in_order, alone = keys.take(order), is_alone.take(order)
    is_first = np.append(True, in_order[1:] != in_order[:-1])
    begins = is_first | alone | np.append(False, alone[:-1])
    parts = np.cumsum(begins)
    turn = np.empty(len(keys), dtype=np.int64)
    turn[order] = parts - np.maximum.accumulate(np.where(is_first, parts, 0))
    by_turn = np.argsort(turn, kind="stable")
    ends = np.cumsum(np.bincount(turn)).tolist()
    return [by_turn[start:end] for start, end in zip([0, *ends[:-1]], ends)]
