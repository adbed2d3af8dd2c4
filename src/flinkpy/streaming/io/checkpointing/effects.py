"""What a barrier handler wants done. Channels are numbered over all gates of the task."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason
from flinkpy.records.elements import CheckpointBarrier


@dataclass(frozen=True, slots=True)
class StartAlignment:
    """The first barrier is there: measure from now."""

    checkpoint_id: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class BlockChannel:
    """What follows on this channel belongs behind the checkpoint: do not read it."""

    channel: int


@dataclass(frozen=True, slots=True)
class UnblockChannels:
    """Read all channels again."""


@dataclass(frozen=True, slots=True)
class SetAlignmentTimer:
    """Call `on_alignment_timeout` in `delay_ms`."""

    checkpoint_id: int
    delay_ms: int


@dataclass(frozen=True, slots=True)
class ConvertQueuedBarriers:
    """Barriers of this checkpoint that wait in the channels overtake what is before them."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class StartCapture:
    """The snapshot is taken: keep, per channel, what comes before its barrier and was not processed by now."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class FinishCapture:
    """All barriers have come: what was kept is complete."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class AbortCapture:
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint:
    """Take the snapshot now. `has_capture`: FinishCapture or AbortCapture will follow."""

    barrier: CheckpointBarrier
    has_capture: bool = False


@dataclass(frozen=True, slots=True)
class AbortCheckpoint:
    """Tell those downstream not to wait; with a `reason`, tell the coordinator too."""

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
