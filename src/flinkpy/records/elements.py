"""Control elements, which a stream carries between batches.

Source: org.apache.flink.streaming.runtime.streamrecord, org.apache.flink.runtime.io.network.api.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MAX_WATERMARK = (1 << 63) - 1
MIN_WATERMARK = -(1 << 63)


@dataclass(frozen=True, slots=True)
class Watermark:
    """Promises that no record with a timestamp of at most `timestamp` (ms) follows on this channel."""

    timestamp: int


@dataclass(frozen=True, slots=True)
class WatermarkStatus:
    """Says whether this channel is idle. The minimum over the watermarks excludes idle channels."""

    is_idle: bool


@dataclass(frozen=True, slots=True)
class CheckpointBarrier:
    """Separates the records of a checkpoint from later ones.

    An UNALIGNED barrier overtakes the records that are queued on its channel. They become part of the checkpoint.

    Attributes:
        options: a CheckpointOptions of checkpoint.proto.
    """

    checkpoint_id: int
    timestamp_ms: int
    options: Any = None


@dataclass(frozen=True, slots=True)
class CancelCheckpointMarker:
    """Says that the producer will not send the barrier of this checkpoint."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class LatencyMarker:
    marked_time_ms: int
    operator_id: str
    subtask_index: int


@dataclass(frozen=True, slots=True)
class EndOfData:
    """Follows the last record of the producer. `drain` is False if it was stopped with a savepoint, without drain."""

    drain: bool = True


@dataclass(frozen=True, slots=True)
class EndOfPartition:
    """Ends the channel: not even control elements follow."""


Element = (
    Watermark
    | WatermarkStatus
    | CheckpointBarrier
    | CancelCheckpointMarker
    | LatencyMarker
    | EndOfData
    | EndOfPartition
)
