"""The messages with which a result travels from the sink through the JobMaster to the client.

    CollectWriter (task)  -- CollectBatch, CollectEnd -->   CollectCoordinator   <-- CollectRequest --  CollectIterator
                          <-- CollectAck, CollectCancel --     (JobMaster)        -- CollectResponse -> (client)

Payloads are opaque to the JobMaster: `collect_payload` makes and reads them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CollectBatch:
    """Results number `sequence` of the sending attempt, counted from 0."""

    sequence: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class CollectEnd:
    """The sending attempt has no more: it sent `num_batches`."""

    num_batches: int


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
    """Give me what follows; I hold everything below `from_sequence`.

    Attributes:
        max_bytes: at most this much, but at least one batch where there is one.
        close: I am done: I have everything, or want no more.
    """

    from_sequence: int
    max_bytes: int
    close: bool = False


@dataclass(frozen=True, slots=True)
class CollectResponse:
    """Attributes:
    batches: payloads, in order.
    next_sequence: what to ask for next.
    finished: nothing will ever follow these batches.
    failure: the result cannot be continued; nothing else is set.
    """

    batches: tuple[bytes, ...]
    next_sequence: int
    finished: bool = False
    failure: str = ""
