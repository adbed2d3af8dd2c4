"""CheckpointBarrierHandler: decides from the barriers of all channels when a task takes its snapshot.

The life of one checkpoint, depending on the alignment of its barriers:

```
   AT_LEAST_ONCE   COUNTING --- all barriers -------------------------------> triggered, done
   ALIGNED         ALIGNING --- all barriers -------------------------------> triggered, done
                       | timeout, or a barrier that has become unaligned
                       v
   UNALIGNED       HALF_ALIGNED - barriers of all channels that stay aligned -> triggered, CAPTURING
                                                                     CAPTURING - all barriers -> done
   any of them --- newer barrier on a channel that has not sent this one, cancel marker, abort -> aborted
```

- COUNTING blocks no channel. Records behind a barrier may be processed before the snapshot, and again after a recovery.
- ALIGNING blocks each channel behind its barrier, so the snapshot contains exactly the records before the barriers.
- An unaligned checkpoint is taken at the first barrier. The records before the barriers of the other channels are
  captured, and become part of the checkpoint.
- Some edges (forward, broadcast, ...) do not support unaligned checkpoints. Their channels (`aligned_only`) are not
  captured: the snapshot waits for their barriers, and channels whose barrier has arrived are blocked meanwhile.
- A channel that has ended counts as a channel whose barrier has arrived.
- Channels are first in, first out. A channel that sends a newer barrier or cancel marker sends no older barrier later.

Every call may come late, twice or out of order with notifications. A call without effect returns an empty list.

Source: org.apache.flink.streaming.runtime.io.checkpointing.{SingleCheckpointBarrierHandler,CheckpointBarrierTracker}.
Differs: one state machine handles all alignments, because the barrier carries the alignment; effects are data.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass, replace

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason
from flinkpy.records.elements import CheckpointBarrier

# The effects. Channels are numbered over all gates of the task.


@dataclass(frozen=True, slots=True)
class StartAlignment:
    """Start to measure the alignment: the first barrier has arrived."""

    checkpoint_id: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class BlockChannel:
    """Stop reading this channel: its next records belong after the checkpoint."""

    channel: int


@dataclass(frozen=True, slots=True)
class UnblockChannels:
    """Read all channels again."""


@dataclass(frozen=True, slots=True)
class SetAlignmentTimer:
    """Call `on_alignment_timeout` after `delay_ms`."""

    checkpoint_id: int
    delay_ms: int


@dataclass(frozen=True, slots=True)
class ConvertQueuedBarriers:
    """Make queued barriers of this checkpoint overtake the records before them."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class StartCapture:
    """Keep, per channel, the unprocessed records before its barrier, because the snapshot is taken now."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class FinishCapture:
    """Complete the capture: all barriers have arrived."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class AbortCapture:
    """Drop the captured records."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint:
    """Take the snapshot. If `has_capture`, FinishCapture or AbortCapture follows."""

    barrier: CheckpointBarrier
    has_capture: bool = False


@dataclass(frozen=True, slots=True)
class AbortCheckpoint:
    """Tell downstream tasks not to wait for the barrier. With a `reason`, tell the coordinator too."""

    checkpoint_id: int
    reason: CheckpointFailureReason | None


Effect = (
    StartAlignment
    | BlockChannel
    | UnblockChannels
    | SetAlignmentTimer
    | ConvertQueuedBarriers
    | StartCapture
    | FinishCapture
    | AbortCapture
    | TriggerCheckpoint
    | AbortCheckpoint
)


#: How many checkpoints may be pending at once: far more than execution.checkpointing.max-concurrent-checkpoints.
MAX_PENDING = 50
#: How many aborted checkpoints are remembered whose barriers have not arrived yet.
MAX_REMEMBERED_ABORTS = 128

_ALIGNED = checkpoint_pb2.ALIGNED
_UNALIGNED = checkpoint_pb2.UNALIGNED
_FORCED_ALIGNED = checkpoint_pb2.FORCED_ALIGNED


class _Phase(enum.Enum):
    COUNTING = "counts barriers and blocks no channel"
    ALIGNING = "blocks each channel behind its barrier"
    HALF_ALIGNED = "unaligned, but waits for the barriers of the channels that stay aligned"
    CAPTURING = "the snapshot is taken, and records before the missing barriers are captured"


@dataclass(slots=True)
class _Pending:
    barrier: CheckpointBarrier
    phase: _Phase
    #: The open channels whose barrier has not arrived.
    waiting: set[int]


def alignment_of(barrier: CheckpointBarrier) -> int:
    return barrier.options.alignment if barrier.options is not None else _ALIGNED


def with_alignment(barrier: CheckpointBarrier, alignment: checkpoint_pb2.AlignmentType) -> CheckpointBarrier:
    """Returns the barrier with another alignment."""
    options = checkpoint_pb2.CheckpointOptions()
    if barrier.options is not None:
        options.CopyFrom(barrier.options)
    options.alignment = alignment
    return replace(barrier, options=options)


def aligned_timeout_ms(barrier: CheckpointBarrier) -> int:
    return barrier.options.aligned_timeout_ms if barrier.options is not None else 0


def without_force(barrier: CheckpointBarrier) -> CheckpointBarrier:
    """Returns the barrier with the alignment that it had before an edge forced it to be aligned."""
    if alignment_of(barrier) != _FORCED_ALIGNED:
        return barrier
    return with_alignment(barrier, _ALIGNED if aligned_timeout_ms(barrier) > 0 else _UNALIGNED)


class CheckpointBarrierHandler:
    """Handles the barriers of one task. Each call returns the effects to run, in order, before more input is read.

    Pure.

    Args:
        num_channels: the number of channels of all gates.
        aligned_only: the channels that do not support unaligned checkpoints.

    Invariant: at most one pending checkpoint is not COUNTING. Channels are blocked only for that checkpoint.
    """

    def __init__(self, num_channels: int, aligned_only: Collection[int] = ()) -> None:
        self._open = set(range(num_channels))
        self._aligned_only = frozenset(aligned_only)
        self._pending: dict[int, _Pending] = {}
        #: The newest checkpoint seen on a channel or triggered. Checkpoints up to this one can no longer begin.
        self._newest = 0
        #: The checkpoints that were aborted before any barrier or trigger of them arrived.
        self._aborted: dict[int, None] = {}

    @property
    def pending(self) -> list[int]:
        """The checkpoints that wait for barriers, the oldest first."""
        return sorted(self._pending)

    # -- events --------------------------------------------------------------------------------------------------

    def on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> list[Effect]:
        """Handles a barrier. `now_ms` is wall-clock time, like `barrier.timestamp_ms`."""
        checkpoint_id = barrier.checkpoint_id
        effects = self._outdate(channel, checkpoint_id)
        pending = self._pending.get(checkpoint_id)
        is_first = pending is None
        if pending is None:
            if not self._may_begin(checkpoint_id):
                return effects
            pending = self._begin(barrier, effects)
        if channel not in pending.waiting:
            return effects
        if pending.phase is _Phase.ALIGNING and alignment_of(barrier) == _UNALIGNED:
            self._turn_unaligned(pending, effects)
        pending.waiting.discard(channel)
        if self._advance(pending, effects):
            return effects
        if pending.phase in (_Phase.ALIGNING, _Phase.HALF_ALIGNED):
            effects.append(BlockChannel(channel))
        if is_first:
            self._set_timer(pending, now_ms, effects)
        return effects

    def on_cancel_marker(self, channel: int, checkpoint_id: int) -> list[Effect]:
        """Aborts the checkpoint, because the producer of this channel will not send its barrier."""
        effects = self._outdate(channel, checkpoint_id)
        pending = self._pending.get(checkpoint_id)
        if pending is not None:
            self._abort(pending, CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER, effects)
        elif self._may_begin(checkpoint_id):
            self._newest = checkpoint_id
            effects.append(
                AbortCheckpoint(checkpoint_id, CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER)
            )
        return effects

    def on_end_of_partition(self, channel: int) -> list[Effect]:
        self._open.discard(channel)
        effects: list[Effect] = []
        for checkpoint_id in self.pending:
            pending = self._pending.get(checkpoint_id)
            if pending is not None and channel in pending.waiting:
                pending.waiting.discard(channel)
                self._advance(pending, effects)
        return effects

    def on_trigger(self, barrier: CheckpointBarrier) -> list[Effect]:
        """Begins a checkpoint without barriers, because all producers have finished.

        The snapshot is taken when all channels have ended.
        """
        checkpoint_id = barrier.checkpoint_id
        if checkpoint_id in self._pending or not self._may_begin(checkpoint_id):
            return []
        effects: list[Effect] = []
        for older in list(self._pending.values()):
            self._abort(older, CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED, effects)
        pending = self._begin(barrier, effects)
        if pending.phase is _Phase.HALF_ALIGNED:
            pending.phase = _Phase.ALIGNING
        self._advance(pending, effects)
        return effects

    def on_alignment_timeout(self, checkpoint_id: int) -> list[Effect]:
        pending = self._pending.get(checkpoint_id)
        effects: list[Effect] = []
        if pending is not None and pending.phase is _Phase.ALIGNING:
            self._turn_unaligned(pending, effects)
            self._advance(pending, effects)
        return effects

    def on_aborted(self, checkpoint_id: int) -> list[Effect]:
        """Aborts a checkpoint that the CheckpointCoordinator aborted."""
        effects: list[Effect] = []
        pending = self._pending.get(checkpoint_id)
        if pending is not None:
            self._abort(pending, None, effects)
        elif self._may_begin(checkpoint_id):
            self._aborted[checkpoint_id] = None
            while len(self._aborted) > MAX_REMEMBERED_ABORTS:
                del self._aborted[next(iter(self._aborted))]
            effects.append(AbortCheckpoint(checkpoint_id, None))
        return effects

    # -- internal ------------------------------------------------------------------------------------------------

    def _may_begin(self, checkpoint_id: int) -> bool:
        return checkpoint_id > self._newest and checkpoint_id not in self._aborted

    def _outdate(self, channel: int, checkpoint_id: int) -> list[Effect]:
        """Aborts older checkpoints whose barrier this channel can no longer send."""
        effects: list[Effect] = []
        for older in list(self._pending.values()):
            if older.barrier.checkpoint_id >= checkpoint_id:
                continue
            if older.phase is not _Phase.COUNTING or channel in older.waiting:
                self._abort(older, CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED, effects)
        return effects

    def _begin(self, barrier: CheckpointBarrier, effects: list[Effect]) -> _Pending:
        self._newest = barrier.checkpoint_id
        while len(self._pending) >= MAX_PENDING:
            oldest = self._pending[min(self._pending)]
            self._abort(oldest, CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED, effects)
        pending = _Pending(barrier, self._first_phase(barrier), set(self._open))
        self._pending[barrier.checkpoint_id] = pending
        effects.append(StartAlignment(barrier.checkpoint_id, barrier.timestamp_ms))
        return pending

    def _first_phase(self, barrier: CheckpointBarrier) -> _Phase:
        alignment = alignment_of(barrier)
        if alignment == checkpoint_pb2.AT_LEAST_ONCE:
            return _Phase.COUNTING
        if alignment == _UNALIGNED:
            return _Phase.HALF_ALIGNED
        is_unaligned_elsewhere = alignment == _FORCED_ALIGNED and aligned_timeout_ms(barrier) == 0
        if is_unaligned_elsewhere and not self._open <= self._aligned_only:
            return _Phase.HALF_ALIGNED
        return _Phase.ALIGNING

    def _set_timer(self, pending: _Pending, now_ms: int, effects: list[Effect]) -> None:
        timeout_ms = aligned_timeout_ms(pending.barrier)
        if pending.phase is not _Phase.ALIGNING or timeout_ms <= 0 or pending.waiting <= self._aligned_only:
            return
        # The timestamp comes from another host, whose clock may be ahead.
        delay_ms = min(timeout_ms, pending.barrier.timestamp_ms + timeout_ms - now_ms)
        if delay_ms > 0:
            effects.append(SetAlignmentTimer(pending.barrier.checkpoint_id, delay_ms))
        else:
            effects.extend(self.on_alignment_timeout(pending.barrier.checkpoint_id))

    def _turn_unaligned(self, pending: _Pending, effects: list[Effect]) -> None:
        pending.phase = _Phase.HALF_ALIGNED
        effects.append(ConvertQueuedBarriers(pending.barrier.checkpoint_id))

    def _advance(self, pending: _Pending, effects: list[Effect]) -> bool:
        """Moves to the next phase if no barrier is missing for it. Returns True if the checkpoint is done here."""
        checkpoint_id = pending.barrier.checkpoint_id
        if pending.phase is _Phase.HALF_ALIGNED and not pending.waiting & self._aligned_only:
            pending.phase = _Phase.CAPTURING
            effects.append(StartCapture(checkpoint_id))
            effects.append(TriggerCheckpoint(with_alignment(pending.barrier, _UNALIGNED), has_capture=True))
            effects.append(UnblockChannels())
        if pending.waiting:
            return False
        del self._pending[checkpoint_id]
        if pending.phase is _Phase.CAPTURING:
            effects.append(FinishCapture(checkpoint_id))
            return True
        if pending.phase is _Phase.COUNTING:
            for older in [p for key, p in self._pending.items() if key < checkpoint_id]:
                self._abort(older, CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED, effects)
        effects.append(TriggerCheckpoint(without_force(pending.barrier)))
        if pending.phase is _Phase.ALIGNING:
            effects.append(UnblockChannels())
        return True

    def _abort(self, pending: _Pending, reason: CheckpointFailureReason | None, effects: list[Effect]) -> None:
        checkpoint_id = pending.barrier.checkpoint_id
        del self._pending[checkpoint_id]
        if pending.phase in (_Phase.HALF_ALIGNED, _Phase.CAPTURING):
            # Needed in HALF_ALIGNED too: the gates keep the records that barriers have overtaken.
            effects.append(AbortCapture(checkpoint_id))
        if pending.phase in (_Phase.ALIGNING, _Phase.HALF_ALIGNED):
            effects.append(UnblockChannels())
        effects.append(AbortCheckpoint(checkpoint_id, reason))
