"""The messages with which a result travels from the sink through the JobMaster to the client.

    CollectWriter  -- CollectStart, CollectBatch, -->   CollectCoordinator   <-- CollectRequest --  CollectIterator
       (task)         CollectConfirmed, CollectEnd         (JobMaster)        -- CollectResponse ->    (client)
                   <-- CollectAck, CollectCancel --

Every subtask numbers its batches from 0, and a restored attempt goes on with the number that its checkpoint says. Each
attempt has a version of its own, drawn at random. Payloads are opaque to the JobMaster: `collect_payload` makes and
reads them.

Source: org.apache.flink.streaming.api.operators.collect.{CollectCoordinationRequest, CollectCoordinationResponse}.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Guarantee(enum.Enum):
    """What the client may give to the user, and what it may not."""

    NONE = "everything at once; a restart cannot be hidden once something was given"
    AT_LEAST_ONCE = "everything at once; after a restart some of it comes again"
    EXACTLY_ONCE = "what a completed checkpoint has; a restart is not noticed"


@dataclass(frozen=True, slots=True)
class CollectStart:
    """The first event of an attempt.

    Attributes:
        first_sequence: what comes first: the batches that the client did not hold at the checkpoint are sent again.
        restored_sequence: batches below this one are in the checkpoint; those after it are made anew.
    """

    version: str
    first_sequence: int
    restored_sequence: int
    guarantee: Guarantee


@dataclass(frozen=True, slots=True)
class CollectBatch:
    sequence: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class CollectConfirmed:
    """Batches below `sequence` are in a completed checkpoint."""

    sequence: int


@dataclass(frozen=True, slots=True)
class CollectEnd:
    """There are no batches from this number on."""

    sequence: int


@dataclass(frozen=True, slots=True)
class CollectAck:
    """The client holds all batches below `sequence` of the receiving attempt. `is_final` lets it finish."""

    attempt_number: int
    sequence: int
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class CollectCancel:
    """The client wants no more."""


@dataclass(frozen=True, slots=True)
class CollectRequest:
    """Give me what follows.

    Attributes:
        positions: by subtask, the version that I know, and the number below which I hold everything of it.
        max_bytes: at most this much, but at least one batch where there is one.
        close: I am done: I have everything, or want no more.
    """

    positions: dict[int, tuple[str, int]]
    max_bytes: int
    close: bool = False


@dataclass(frozen=True, slots=True)
class SubtaskResult:
    """Of one subtask's current attempt. `batches` only where the client knows the version; in order, without gaps."""

    start: CollectStart
    confirmed_sequence: int
    batches: tuple[tuple[int, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class CollectResponse:
    """Attributes:
    subtasks: those that have begun.
    finished: the client holds all there will ever be, and may give all of it.
    """

    subtasks: dict[int, SubtaskResult]
    finished: bool = False
