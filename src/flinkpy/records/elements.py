"""Control elements: they travel in band, between batches, and split the stream where a record-at-a-time engine would.

Source: org.apache.flink.streaming.runtime.streamrecord, org.apache.flink.runtime.io.network.api.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MAX_WATERMARK = (1 << 63) - 1
MIN_WATERMARK = -(1 << 63)


@dataclass(frozen=True, slots=True)
class Watermark:
    """No record with a timestamp at or below `timestamp` (ms) will follow on this channel."""

    timestamp: int


@dataclass(frozen=True, slots=True)
class WatermarkStatus:
    """Whether this channel takes part in the watermark: an idle one is left out of the minimum."""

    is_idle: bool


@dataclass(frozen=True, slots=True)
class CheckpointBarrier:
    """Everything before it belongs to the checkpoint. `options`: a CheckpointOptions of checkpoint.proto.

    UNALIGNED: it overtakes what is queued on its channel, which becomes part of the checkpoint instead.
    """

    checkpoint_id: int
    timestamp_ms: int
    options: Any = None


@dataclass(frozen=True, slots=True)
class CancelCheckpointMarker:
    """The checkpoint will not be completed by the producer: do not wait for its barrier."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class LatencyMarker:
    marked_time_ms: int
    operator_id: str
    subtask_index: int


@dataclass(frozen=True, slots=True)
class EndOfData:
    """The producer has emitted its last record. `drain`: fire what is left (False: stopped with a savepoint)."""

    drain: bool = True


@dataclass(frozen=True, slots=True)
class EndOfPartition:
    """Nothing follows on this channel, not even control elements."""


Element = (
    Watermark
    | WatermarkStatus
    | CheckpointBarrier
    | CancelCheckpointMarker
    | LatencyMarker
    | EndOfData
    | EndOfPartition
)
