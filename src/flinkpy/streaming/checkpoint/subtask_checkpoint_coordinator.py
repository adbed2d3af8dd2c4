"""SubtaskCheckpointCoordinator: takes the snapshots of one task.

The synchronous phase runs on the task thread and is therefore short: the operators emit what must precede the barrier,
the barrier is forwarded, and the state of every operator is frozen. The asynchronous phase runs on I/O threads, while
the task processes records: it writes the frozen state and sends the report.

A failure of the synchronous phase fails the task, because operators may have completed only a part of it. A failure of
the asynchronous phase declines the checkpoint, and the task continues.

Source: org.apache.flink.streaming.runtime.tasks.SubtaskCheckpointCoordinatorImpl.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason, checkpoint_error
from flinkpy.common.clock import Clock
from flinkpy.records.elements import CancelCheckpointMarker, CheckpointBarrier
from flinkpy.state.checkpoint_streams import CheckpointStreams
from flinkpy.streaming.checkpoint.async_snapshot import AsyncSnapshot, States
from flinkpy.streaming.io.checkpointing.barrier_handler import aligned_timeout_ms, alignment_of
from flinkpy.streaming.operators.stream_operator import OperatorSnapshot

if TYPE_CHECKING:
    from flinkpy.streaming.tasks.environment import TaskEnvironment
    from flinkpy.streaming.tasks.operator_chain import CapturedOutput, FinishedOperatorChain, OperatorChain

_LOG = logging.getLogger(__name__)

#: How many snapshots may be written at once, including those of aborted checkpoints. More means that storage hangs.
MAX_CONCURRENT_SNAPSHOTS = 16
#: How many aborted checkpoints are remembered whose trigger or barrier has not arrived yet.
MAX_REMEMBERED_ABORTS = 128
#: How long a task that ends waits for I/O threads that use its state, before it closes the state anyway.
CLOSE_TIMEOUT_S = 10.0
#: How often to check if an aligned barrier with a timeout has left this task, which then acknowledges the checkpoint.
OUTPUT_CHECK_MS = 5

#: (position in `vertex.inputs`, channel, its batches in flight).
CapturedInput = tuple[int, int, list[Any]]


class SubtaskCheckpointCoordinator:
    """Takes the snapshots of one task. Thread: task thread.

    Attributes:
        last_checkpoint_id: the newest checkpoint of this task. Checkpoints up to this one can no longer begin.
    """

    def __init__(
        self,
        environment: TaskEnvironment,
        chain: OperatorChain | FinishedOperatorChain,
        schedule_after: Callable[[int, Callable[[int], None]], object],
        on_end: Callable[[], None],
    ) -> None:
        """Args:
        schedule_after: given a delay in ms and an action, runs the action on the task thread.
        on_end: called on any thread when an asynchronous part has ended.
        """
        self.last_checkpoint_id = 0
        self._environment = environment
        self._state = environment.state
        self._chain = chain
        self._clock: Clock = environment.clock
        self._schedule_after = schedule_after
        self._on_end = on_end
        self._aborted: dict[int, None] = {}
        self._snapshots: dict[int, AsyncSnapshot] = {}

    @property
    def num_running(self) -> int:
        """The number of snapshots that are being written."""
        for checkpoint_id in [key for key, snapshot in self._snapshots.items() if not snapshot.is_running]:
            del self._snapshots[checkpoint_id]
        return len(self._snapshots)

    # -- a checkpoint --------------------------------------------------------------------------------------------

    def checkpoint_state(
        self,
        barrier: CheckpointBarrier,
        metrics: checkpoint_pb2.CheckpointMetrics,
        *,
        has_capture: bool = False,
        is_finished: bool = False,
    ) -> bool:
        """Takes the snapshot and forwards the barrier. Returns False if the checkpoint was aborted or comes too late.

        Args:
            barrier: the barrier, with the options of the checkpoint at this task.
            has_capture: True if the in-flight data of the inputs is part of the snapshot. It arrives by
                `on_capture_finished`.
            is_finished: True if the operators have been finished.

        Raises: FunctionError and others. The task must fail then.
        """
        checkpoint_id = barrier.checkpoint_id
        if checkpoint_id <= self.last_checkpoint_id:
            _LOG.debug("%s: late barrier of checkpoint %d", self._environment.task_name, checkpoint_id)
            return False
        if checkpoint_id in self._aborted:
            self._forget_aborts(checkpoint_id)
            self.last_checkpoint_id = checkpoint_id
            return False
        self.last_checkpoint_id = checkpoint_id
        self._forget_aborts(checkpoint_id)
        started_ns = self._clock.monotonic_ns()
        chain = self._chain
        chain.prepare_snapshot_pre_barrier(checkpoint_id)
        overtaken = chain.emit_barrier(barrier)
        if self.num_running >= MAX_CONCURRENT_SNAPSHOTS:
            self._state.decline(
                checkpoint_id,
                checkpoint_error(
                    CheckpointFailureReason.CHECKPOINT_DECLINED,
                    f"{self._environment.task_name} still writes {self.num_running} earlier checkpoints.",
                ),
            )
            return True
        snapshots = chain.snapshot_state(barrier)
        metrics.sync_duration_ns = self._clock.monotonic_ns() - started_ns
        metrics.is_unaligned = alignment_of(barrier) == checkpoint_pb2.UNALIGNED
        self._write(barrier, metrics, snapshots, overtaken, has_capture=has_capture, is_finished=is_finished)
        return True

    def _write(
        self,
        barrier: CheckpointBarrier,
        metrics: checkpoint_pb2.CheckpointMetrics,
        snapshots: dict[str, OperatorSnapshot],
        overtaken: list[CapturedOutput],
        *,
        has_capture: bool,
        is_finished: bool,
    ) -> None:
        checkpoint_id = barrier.checkpoint_id
        watched = self._results_to_watch(barrier)
        state = self._state

        def acknowledge(complete: checkpoint_pb2.CheckpointMetrics, states: States) -> None:
            state.acknowledge(checkpoint_id, complete, task_state(states, is_finished=is_finished))

        def release() -> None:
            for frozen in snapshots.values():
                frozen.release()

        try:
            snapshot = AsyncSnapshot(
                checkpoint_id,
                1 + bool(overtaken) + bool(watched) + has_capture,
                state.checkpoint_streams(checkpoint_id, barrier.options),
                metrics,
                self._clock,
                acknowledge=acknowledge,
                decline=lambda error: state.decline(checkpoint_id, error),
                on_end=self._on_end,
            )
        except BaseException:
            release()
            raise
        self._snapshots[checkpoint_id] = snapshot
        snapshot.run_part(state.io_executor, lambda streams: write_states(snapshots, streams), release)
        if overtaken:
            self._write_channels(snapshot, overtaken, is_output=True)
        if watched:
            self._watch_outputs(snapshot, barrier, watched, self._alignment_deadline_ms(barrier))

    # -- data in flight ------------------------------------------------------------------------------------------

    def on_capture_finished(
        self, checkpoint_id: int, captured: list[CapturedInput], alignment_duration_ns: int, bytes_processed: int
    ) -> None:
        """Writes the in-flight data of the inputs, after all barriers have arrived."""
        snapshot = self._snapshots.get(checkpoint_id)
        if snapshot is None:
            return
        snapshot.metrics.alignment_duration_ns = alignment_duration_ns
        snapshot.metrics.bytes_processed_during_alignment = bytes_processed
        self._write_channels(snapshot, captured, is_output=False)

    def _write_channels(
        self, snapshot: AsyncSnapshot, captured: list[tuple[int, int, list[Any]]], *, is_output: bool
    ) -> None:
        captured = [entry for entry in captured if entry[2]]
        if not captured:
            snapshot.skip_part()
            return
        subtask_index = self._environment.subtask_index
        operator_id = self._chain.head_operator_id

        def write(streams: CheckpointStreams) -> States:
            from flinkpy.network.channel_state import write_channel_state

            state = checkpoint_pb2.OperatorSubtaskState()
            for edge in sorted({entry[0] for entry in captured}):
                channels = [(channel, batches) for position, channel, batches in captured if position == edge]
                state.channels.extend(write_channel_state(streams, is_output, edge, subtask_index, channels))
            return {operator_id: state}

        snapshot.run_part(self._state.io_executor, write, lambda: None, is_in_flight=True)

    def _results_to_watch(self, barrier: CheckpointBarrier) -> list[int]:
        """Returns the results in which the barrier is queued in order and overtakes records after the timeout."""
        if alignment_of(barrier) != checkpoint_pb2.ALIGNED or aligned_timeout_ms(barrier) <= 0:
            return []
        return [position for position, writer in enumerate(self._chain.writers) if writer.supports_unaligned]

    def _alignment_deadline_ms(self, barrier: CheckpointBarrier) -> int:
        """Returns the deadline in time of the monotonic clock.

        The barrier has the time of another host, whose clock may be ahead or may have been changed.
        """
        timeout_ms = aligned_timeout_ms(barrier)
        left_ms = min(timeout_ms, barrier.timestamp_ms + timeout_ms - self._clock.now_ms())
        return self._clock.monotonic_ms() + left_ms

    def _watch_outputs(
        self, snapshot: AsyncSnapshot, barrier: CheckpointBarrier, watched: list[int], deadline_ms: int
    ) -> None:
        """Checks again until the barrier has left or, at the deadline, makes it overtake the queued records."""
        checkpoint_id = barrier.checkpoint_id
        if snapshot.has_ended:
            return
        writers = self._chain.writers
        watched = [position for position in watched if writers[position].partition.has_queued_barrier(checkpoint_id)]
        left_ms = deadline_ms - self._clock.monotonic_ms()
        if watched and left_ms > 0:
            self._schedule_after(
                min(left_ms, OUTPUT_CHECK_MS), lambda _: self._watch_outputs(snapshot, barrier, watched, deadline_ms)
            )
            return
        captured: list[CapturedOutput] = []
        for position in watched:
            overtaken = writers[position].partition.convert_to_unaligned(checkpoint_id)
            if overtaken is not None:
                snapshot.metrics.is_unaligned = True
                captured += [(position, subpartition, batches) for subpartition, batches in overtaken]
        self._write_channels(snapshot, captured, is_output=True)

    # -- the end -------------------------------------------------------------------------------------------------

    def abort_on_barrier(self, checkpoint_id: int, reason: CheckpointFailureReason | None) -> None:
        """Ends a checkpoint that the inputs gave up. Given a `reason`, also declines it at the coordinator."""
        self._end(checkpoint_id)
        if reason is not None:
            self._state.decline(
                checkpoint_id, checkpoint_error(reason, f"{self._environment.task_name}, checkpoint {checkpoint_id}.")
            )

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Ends a checkpoint that the coordinator aborted. In this task it may be over, in progress, or not started."""
        self._end(checkpoint_id)
        self._state.notify_aborted(checkpoint_id)
        self._chain.notify_checkpoint_aborted(checkpoint_id)

    def _end(self, checkpoint_id: int) -> None:
        snapshot = self._snapshots.get(checkpoint_id)
        if snapshot is not None:
            snapshot.cancel()
        if checkpoint_id > self.last_checkpoint_id and checkpoint_id not in self._aborted:
            self._aborted[checkpoint_id] = None
            while len(self._aborted) > MAX_REMEMBERED_ABORTS:
                del self._aborted[min(self._aborted)]
            # Downstream tasks must not wait for a barrier that this task will not send.
            self._chain.emit_to_results(CancelCheckpointMarker(checkpoint_id))

    def _forget_aborts(self, up_to: int) -> None:
        for checkpoint_id in [known for known in self._aborted if known <= up_to]:
            del self._aborted[checkpoint_id]

    def cancel(self) -> None:
        """Cancels all snapshots, because the task fails or is cancelled."""
        for snapshot in self._snapshots.values():
            snapshot.cancel()

    def wait_for_writers(self) -> None:
        """Waits until no I/O thread uses the state, which is closed next. Gives up after a while: storage may hang."""
        for snapshot in self._snapshots.values():
            if not snapshot.wait(CLOSE_TIMEOUT_S):
                _LOG.warning(
                    "%s: checkpoint %d is still being written %s s after it was cancelled",
                    self._environment.task_name,
                    snapshot.checkpoint_id,
                    CLOSE_TIMEOUT_S,
                )


def write_states(snapshots: dict[str, OperatorSnapshot], streams: CheckpointStreams) -> States:
    """Writes the snapshots. Omits operators without state. Thread: I/O."""
    states: States = {}
    for operator_id, snapshot in snapshots.items():
        state = checkpoint_pb2.OperatorSubtaskState()
        keyed = None if snapshot.keyed is None else snapshot.keyed.write(streams)
        if keyed is not None:
            state.keyed.append(keyed)
        operator = None if snapshot.operator is None else snapshot.operator.write(streams)
        if operator is not None:
            state.operator.append(operator)
        if state.keyed or state.operator:
            states[operator_id] = state
    return states


def task_state(states: States, *, is_finished: bool) -> checkpoint_pb2.TaskStateSnapshot:
    """Returns the message with the state of the task.

    The message has `is_finished` only if a task restored from it has nothing left to do: a sink may have committables.
    """
    snapshot = checkpoint_pb2.TaskStateSnapshot()
    for operator_id, state in states.items():
        snapshot.operators[operator_id].CopyFrom(state)
    snapshot.has_reached_end = is_finished
    snapshot.is_finished = is_finished and not any(state.operator or state.channels for state in states.values())
    return snapshot
