"""PriorityMarker: a barrier that is delivered before what is queued in front of it.

The marker stands in the queue where the barrier belongs, so whoever takes items out of the queue - one thread at a
time - can tell what the barrier overtakes: everything that is still in front. No lock is needed for that: items are
appended behind, and only the taker removes from the front.

```
   producer: queue ... b1 b2 [marker]      and tells the taker "priority"
   taker:    finds the marker at position 2: delivers the barrier, b1 and b2 become part of the checkpoint,
             and are delivered later, as is what follows. The marker is skipped when it comes to the front.
```

Source: org.apache.flink.runtime.io.network.partition.PrioritizedDeque. Differs: there the element moves to the front.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

from flinkpy._proto import checkpoint_pb2
from flinkpy.records.elements import CheckpointBarrier


class PriorityMarker:
    """Attributes:
    barrier: with UNALIGNED options.
    is_delivered: the barrier was handed to the task. Changed by the taker only.
    is_captured: what stands in front is part of the checkpoint already, by the producer's doing.
    """

    __slots__ = ("barrier", "is_captured", "is_delivered")

    def __init__(self, barrier: CheckpointBarrier) -> None:
        self.barrier = barrier
        self.is_delivered = False
        self.is_captured = False

    def take_in_order(self) -> CheckpointBarrier | None:
        """The marker has come to the front; None where its barrier has been delivered before."""
        if self.is_delivered:
            return None
        self.is_delivered = True
        return self.barrier


def position_of(queue: deque[Any], marker: PriorityMarker) -> int | None:
    """Where the marker, or an ordinary barrier of its checkpoint, stands; None where neither does.

    Thread: the taker's. By position, because an iterator does not bear items that are appended meanwhile.
    """
    checkpoint_id = marker.barrier.checkpoint_id
    for position in range(len(queue)):
        try:
            item = queue[position]
        except IndexError:  # the queue was emptied: its channel is being closed
            return None
        if item is marker or (isinstance(item, CheckpointBarrier) and item.checkpoint_id == checkpoint_id):
            return position
    return None


def position_of_barrier(queue: deque[Any], checkpoint_id: int) -> int | None:
    """Where the ordinary barrier of that checkpoint stands. Thread: the taker's."""
    return position_of(queue, PriorityMarker(CheckpointBarrier(checkpoint_id, 0)))


def items_before(queue: deque[Any], position: int) -> list[Any]:
    """Thread: the taker's."""
    try:
        return [queue[index] for index in range(position)]
    except IndexError:
        return []


def may_overtake(barrier: CheckpointBarrier) -> bool:
    """False on edges that take no part in unaligned checkpoints: there it stays in order whatever happens."""
    return barrier.options is None or barrier.options.alignment != checkpoint_pb2.FORCED_ALIGNED


def as_unaligned(barrier: CheckpointBarrier) -> CheckpointBarrier:
    """The same barrier, with options that say so."""
    options = checkpoint_pb2.CheckpointOptions()
    if barrier.options is not None:
        if barrier.options.alignment == checkpoint_pb2.UNALIGNED:
            return barrier
        options.CopyFrom(barrier.options)
    options.alignment = checkpoint_pb2.UNALIGNED
    return replace(barrier, options=options)
