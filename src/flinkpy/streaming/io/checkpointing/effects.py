"""The effects of a barrier handler. Channels are numbered over all gates of the task."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason
from flinkpy.records.elements import CheckpointBarrier


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
    """Start to keep, per channel, the unprocessed records before its barrier."""

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
