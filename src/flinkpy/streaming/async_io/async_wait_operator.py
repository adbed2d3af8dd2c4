"""AsyncWaitOperator: calls an AsyncFunction for many records at a time.

The task thread never waits for a call. It passes batches to the AsyncRunner, and results come back by mail. A batch
goes in as a whole, even if it exceeds the capacity. While the capacity is exceeded, the operator takes no more batches,
and the task handles barriers and mail. A checkpoint contains every record whose results have not been emitted, whether
its call has started or not. A restore calls the function for these records again, in their order.

Source: org.apache.flink.streaming.api.operators.async.AsyncWaitOperator. Differs: records beyond the capacity wait in
the operator, so that the threads synchronise per batch and not per record. About MIN_WAITING_ROWS records wait there,
and more if the calls are so fast that they finish before the task has the next batch. A call that times out is
canceled.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.common.typeinfo import Types
from flinkpy.functions.state import ListStateDescriptor
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier, Element, EndOfData, EndOfPartition
from flinkpy.streaming.async_io.async_runner import AsyncRunner, Retries
from flinkpy.streaming.async_io.element_queue import (
    Chunk,
    Item,
    OrderedElementQueue,
    Part,
    UnorderedElementQueue,
)
from flinkpy.streaming.mailbox.task_mailbox import Mail, MailPriority
from flinkpy.streaming.operators.lane_border import as_rows
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, UserFunctionOperator

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2
    from flinkpy.graph.operator_specs import AsyncWaitSpec

#: Elements: (values, their timestamps or None) of the records to call the function for again.
_STATE = "_async_wait_operator_state_"
#: The number of records per element of the state. A restore redistributes whole elements.
_STATE_CHUNK_ROWS = 64
#: The number of records that may wait beyond the capacity: at first and at most. Also the maximum size of a chunk.
MIN_WAITING_ROWS = 1024
MAX_WAITING_ROWS = 8 * MIN_WAITING_ROWS


class AsyncWaitOperator(UserFunctionOperator):
    """Thread: task thread. The user's function runs on the loop thread."""

    def __init__(
        self, spec: AsyncWaitSpec, input_type: Any, context: OperatorContext, output: Output, side: dict[str, Output]
    ) -> None:
        super().__init__(context, output, side, spec.function)
        self._input_type = input_type
        self._spec = spec
        self._runner: AsyncRunner | None = None
        self._chunks: deque[Chunk] = deque()
        #: The number of records whose results have not been emitted.
        self._unfinished = 0
        #: The number of records that may wait beyond the capacity.
        self._max_waiting = MIN_WAITING_ROWS
        #: The last control element that waits behind records.
        self._last_element: Element | None = None
        self._restored_chunks: list[tuple[list[Any], list[int] | None]] = []
        self._is_suspended = False

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self._spec.key_selector, self._spec.key_type, self._input_type

    # -- life cycle ----------------------------------------------------------------------------------------------

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        if restored is not None:
            self._restored_chunks = self._state().get()

    def open(self) -> None:
        spec = self._spec
        function = self.function
        self._runner = runner = AsyncRunner(
            self.context.environment.task_name,
            Retries(function.async_invoke_batch if spec.max_batch_size else function.async_invoke, spec.retry_strategy),
            function.timeout,
            OrderedElementQueue() if spec.is_ordered else UnorderedElementQueue(),
            capacity=spec.capacity,
            timeout_s=spec.timeout_ms / 1000,
            max_batch_size=spec.max_batch_size,
            check_results=lambda results: checked_results(results, function),
            on_released=self._announce_results,
            on_error=self._announce_error,
        )
        if inspect.iscoroutinefunction(function.open):
            runner.start()
            self._guarded(lambda: runner.call(lambda: function.open(self.create_runtime_context())))
        else:
            super().open()
            runner.start()
        for rows, timestamps in self._restored_chunks:
            self._put(Chunk(rows, timestamps))
        self._restored_chunks = []

    def close(self) -> None:
        runner, self._runner = self._runner, None
        closes_on_loop = inspect.iscoroutinefunction(self.function.close)
        try:
            if runner is not None:
                self._guarded(lambda: runner.stop(self.function.close if closes_on_loop else None))
        finally:
            if not closes_on_loop:
                super().close()

    def _guarded(self, call: Callable[[], None]) -> None:
        try:
            call()
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error

    @property
    def runner(self) -> AsyncRunner:
        assert self._runner is not None, "open comes first"
        return self._runner

    # -- data ----------------------------------------------------------------------------------------------------

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        rows = as_rows(batch, self._input_type)
        timestamps = None if batch.timestamps is None else batch.timestamps.tolist()
        for begin in range(0, len(rows), MIN_WAITING_ROWS):
            end = begin + MIN_WAITING_ROWS
            self._put(Chunk(rows[begin:end], None if timestamps is None else timestamps[begin:end]))

    def _put(self, chunk: Chunk) -> None:
        self._chunks.append(chunk)
        self._unfinished += len(chunk.rows)
        self.runner.put(chunk)

    def process_element(self, element: Element) -> None:
        is_foreign = isinstance(element, CheckpointBarrier | EndOfData | EndOfPartition)
        if is_foreign or self.is_drained:
            super().process_element(element)
        else:
            self._last_element = element
            self.runner.put(element)

    @property
    def is_writable(self) -> bool:
        return self._unfinished < self._spec.capacity + self._max_waiting

    @property
    def max_batch_rows(self) -> int:
        return max(self._spec.capacity, MIN_WAITING_ROWS)

    @property
    def is_drained(self) -> bool:
        return not self._unfinished and self._last_element is None

    def finish(self) -> None:
        # The task has waited for all records of its input. These records come from the `finish` of an operator before
        # this one. No checkpoint may be taken between the ends of two operators, so only urgent mail is handled.
        mailbox = self.context.mailbox
        while not self.is_drained:
            while (mail := mailbox.take_urgent()) is not None:
                mail.action()
            self.runner.wait(0.1)
            self._emit_released()

    def _announce_results(self) -> None:
        self.context.mailbox.put(Mail("results of asynchronous calls", self._emit_released))

    def _announce_error(self, error: BaseException, item: Item | None) -> None:
        def fail() -> None:
            if item is not None and (note := self.note_about(item[2])):
                error.add_note(note)
            raise self.context.function_error(error) from error

        self.context.mailbox.put(Mail("an asynchronous call failed", fail, MailPriority.URGENT))

    def note_about(self, value: Any) -> str | None:
        """Returns what an error says about the record whose call failed; None for nothing."""
        return f"Error happens inside the class '{type(self.function)}' during handling input '{str(value)[:200]}'"

    def _emit_released(self) -> None:
        runner = self._runner
        if self._is_suspended or runner is None:
            return
        was_full = not self.is_writable
        parts: list[Part] = []
        for released in runner.take():
            if isinstance(released, Part):
                parts.append(released)
                continue
            self._emit(parts)
            parts = []
            if released is self._last_element:
                self._last_element = None
            super().process_element(released)
        self._emit(parts)
        chunks = self._chunks
        while chunks and 1 not in chunks[0].waiting:
            chunks.popleft()
        if was_full and not self._unfinished:
            # The loop ran out of records while the task held records back.
            self._max_waiting = min(2 * self._max_waiting, MAX_WAITING_ROWS)

    def _emit(self, parts: list[Part]) -> None:
        """Emits parts with timestamps and parts without in separate batches. A union of streams may contain both."""
        for has_times, group in groupby(parts, key=_has_timestamps):
            same = list(group)
            self._unfinished -= sum(part.finish() for part in same)
            rows = same[0].results if len(same) == 1 else list(chain.from_iterable(part.results for part in same))
            if rows:
                self.output.emit(Batch(rows, _timestamps(same) if has_times else None))

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        self._emit_released()

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> Any:
        from flinkpy._proto.checkpoint_pb2 import SYNC_SAVEPOINT_SUSPEND

        self._is_suspended = self._is_suspended or options.kind == SYNC_SAVEPOINT_SUSPEND
        self._state().update(self._unfinished_records())
        return super().snapshot_state(checkpoint_id, options)

    def _unfinished_records(self) -> list[tuple[list[Any], list[int] | None]]:
        left: list[tuple[list[Any], list[int] | None]] = []
        for chunk in self._chunks:
            positions = [position for position, waits in enumerate(chunk.waiting) if waits]
            for begin in range(0, len(positions), _STATE_CHUNK_ROWS):
                part = positions[begin : begin + _STATE_CHUNK_ROWS]
                timestamps = chunk.timestamps
                left.append(
                    (
                        [chunk.rows[position] for position in part],
                        None if timestamps is None else [timestamps[position] for position in part],
                    )
                )
        return left

    def _state(self) -> Any:
        return self.operator_state.get_list_state(ListStateDescriptor(_STATE, Types.PICKLED_BYTE_ARRAY()))


def _has_timestamps(part: Part) -> bool:
    return part.counts is not None


def _timestamps(parts: list[Part]) -> np.ndarray:
    """Returns one timestamp per result: that of its record."""
    times: list[int] = []
    counts: list[int] = []
    for part in parts:
        times.extend(part.timestamps)
        counts.extend(part.counts or ())
    return np.repeat(np.array(times, dtype=np.int64), counts)


def checked_results(results: Any, function: Any) -> list[Any]:
    """Returns the results as a list. Raises: RuntimeError if they are not iterable."""
    if isinstance(results, Iterable):
        return list(results)
    fault = "cannot be none" if results is None else "should be of list type"
    raise RuntimeError(
        f"The result of AsyncFunction {fault}, please check the methods 'async_invoke' and 'timeout' of class "
        f"'{type(function)}'."
    )
