"""CheckpointedInputs: applies the effects of the barrier handler to the gates and the task.

Source: org.apache.flink.streaming.runtime.io.checkpointing.CheckpointedInputGate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason
from flinkpy.common.clock import Clock
from flinkpy.common.errors import InternalError
from flinkpy.records.elements import CheckpointBarrier
from flinkpy.streaming.io.checkpointing.barrier_handler import (
    AbortCapture,
    AbortCheckpoint,
    BlockChannel,
    CheckpointBarrierHandler,
    ConvertQueuedBarriers,
    Effect,
    FinishCapture,
    SetAlignmentTimer,
    StartAlignment,
    StartCapture,
    TriggerCheckpoint,
    UnblockChannels,
)

#: (position in `vertex.inputs`, channel, the in-flight batches that the gate has kept).
InFlight = tuple[int, int, list[Any]]


class BarrierListener(Protocol):
    """The part of a task that learns of checkpoints. Thread: task thread."""

    def on_inputs_aligned(
        self, barrier: CheckpointBarrier, metrics: checkpoint_pb2.CheckpointMetrics, *, has_capture: bool
    ) -> None:
        """Takes the snapshot."""
        ...

    def on_capture_finished(
        self,
        checkpoint_id: int,
        captured: list[InFlight],
        alignment_duration_ns: int,
        bytes_processed: int,
    ) -> None:
        """Receives the in-flight data of the inputs at the time of the snapshot."""
        ...

    def on_checkpoint_aborted(self, checkpoint_id: int, reason: CheckpointFailureReason | None) -> None: ...


class _Alignment:
    """The values at the start of one checkpoint's alignment."""

    __slots__ = ("bytes_in", "started_ns", "timestamp_ms")

    def __init__(self, started_ns: int, timestamp_ms: int, bytes_in: int) -> None:
        self.started_ns = started_ns
        self.timestamp_ms = timestamp_ms
        self.bytes_in = bytes_in


class CheckpointedInputs:
    """The barrier handler of a task, with the gates and the task. Thread: task thread.

    Args:
        gates: tuples of (position in `vertex.inputs`, gate), in the order of channel numbers.
        aligned_only: positions in `vertex.inputs` of the edges that do not support unaligned checkpoints.
        schedule_after: given a delay in ms and an action, runs the action on the task thread.
    """

    def __init__(
        self,
        gates: Sequence[tuple[int, Any]],
        aligned_only: frozenset[int],
        listener: BarrierListener,
        clock: Clock,
        schedule_after: Callable[[int, Callable[[int], None]], object],
    ) -> None:
        self._gates = list(gates)
        self._listener = listener
        self._clock = clock
        self._schedule_after = schedule_after
        self._offsets: list[int] = []
        self._num_channels = 0
        channels_aligned_only: set[int] = set()
        for position, gate in self._gates:
            self._offsets.append(self._num_channels)
            if position in aligned_only:
                channels_aligned_only.update(range(self._num_channels, self._num_channels + gate.num_channels))
            self._num_channels += gate.num_channels
        self._handler = CheckpointBarrierHandler(self._num_channels, channels_aligned_only)
        self._alignments: dict[int, _Alignment] = {}

    def offset_of(self, index: int) -> int:
        """Returns the number of the first channel of the gate at `index`."""
        return self._offsets[index]

    # -- events; channels are numbered over all gates ---------------------------------------------------------------

    def on_barrier(self, channel: int, barrier: CheckpointBarrier) -> None:
        self._run(self._handler.on_barrier(channel, barrier, self._clock.now_ms()))

    def on_cancel_marker(self, channel: int, checkpoint_id: int) -> None:
        self._run(self._handler.on_cancel_marker(channel, checkpoint_id))

    def on_end_of_partition(self, channel: int) -> None:
        self._run(self._handler.on_end_of_partition(channel))

    def on_trigger(self, barrier: CheckpointBarrier) -> None:
        """Begins a checkpoint that the coordinator triggered at this task, because all producers have finished."""
        self._run(self._handler.on_trigger(barrier))

    def on_aborted(self, checkpoint_id: int) -> None:
        """Aborts a checkpoint that the coordinator aborted."""
        self._run(self._handler.on_aborted(checkpoint_id))

    # -- effects -------------------------------------------------------------------------------------------------

    def _run(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._apply(effect)

    def _apply(self, effect: Effect) -> None:
        if isinstance(effect, BlockChannel):
            gate, index = self._locate(effect.channel)
            gate.block_channel(index)
        elif isinstance(effect, UnblockChannels):
            for _, gate in self._gates:
                gate.unblock_channels()
        elif isinstance(effect, StartAlignment):
            started_ns = self._clock.monotonic_ns()
            self._alignments[effect.checkpoint_id] = _Alignment(started_ns, effect.timestamp_ms, self._bytes_in())
        elif isinstance(effect, TriggerCheckpoint):
            self._trigger(effect)
        elif isinstance(effect, SetAlignmentTimer):
            checkpoint_id = effect.checkpoint_id
            self._schedule_after(
                effect.delay_ms, lambda _: self._run(self._handler.on_alignment_timeout(checkpoint_id))
            )
        elif isinstance(effect, ConvertQueuedBarriers):
            for _, gate in self._gates:
                gate.convert_to_unaligned(effect.checkpoint_id)
        elif isinstance(effect, StartCapture):
            for _, gate in self._gates:
                gate.start_capture(effect.checkpoint_id)
        elif isinstance(effect, FinishCapture):
            self._finish_capture(effect.checkpoint_id)
        elif isinstance(effect, AbortCapture):
            for _, gate in self._gates:
                gate.abort_capture(effect.checkpoint_id)
        elif isinstance(effect, AbortCheckpoint):
            self._alignments.pop(effect.checkpoint_id, None)
            self._listener.on_checkpoint_aborted(effect.checkpoint_id, effect.reason)
        else:
            raise InternalError(f"unknown effect {effect!r}")

    def _trigger(self, effect: TriggerCheckpoint) -> None:
        barrier = effect.barrier
        checkpoint_id = barrier.checkpoint_id
        alignment = self._alignments[checkpoint_id]
        start_delay_ms = self._clock.now_ms() - alignment.timestamp_ms
        elapsed_ns = self._clock.monotonic_ns() - alignment.started_ns
        metrics = checkpoint_pb2.CheckpointMetrics(
            alignment_duration_ns=elapsed_ns,
            bytes_processed_during_alignment=self._bytes_in() - alignment.bytes_in,
            # The delay ends at the first barrier. The time after it is alignment.
            checkpoint_start_delay_ns=max(0, start_delay_ms * 1_000_000 - elapsed_ns),
        )
        if not effect.has_capture:
            del self._alignments[checkpoint_id]
        self._listener.on_inputs_aligned(barrier, metrics, has_capture=effect.has_capture)

    def _finish_capture(self, checkpoint_id: int) -> None:
        alignment = self._alignments.pop(checkpoint_id)
        captured = [
            (position, channel, batches)
            for position, gate in self._gates
            for channel, batches in gate.finish_capture(checkpoint_id)
        ]
        self._listener.on_capture_finished(
            checkpoint_id,
            captured,
            self._clock.monotonic_ns() - alignment.started_ns,
            self._bytes_in() - alignment.bytes_in,
        )

    def _locate(self, channel: int) -> tuple[Any, int]:
        for index in range(len(self._gates) - 1, -1, -1):
            if self._offsets[index] <= channel:
                return self._gates[index][1], channel - self._offsets[index]
        raise InternalError(f"the task has no channel {channel}")

    def _bytes_in(self) -> int:
        return sum(gate.bytes_in for _, gate in self._gates)
