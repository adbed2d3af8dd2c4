"""PriorityMarker: a barrier that is delivered before the items that are queued ahead of it.

The marker is in the queue at the position where the barrier belongs. So the thread that takes items from the queue, one
at a time, knows what the barrier overtakes: all items that are still ahead of the marker. This needs no lock, because
producers append at the end and only the taker removes at the front.

```
   producer: queue ... b1 b2 [marker]      and notifies the taker
   taker:    finds the marker at position 2 and delivers the barrier. b1 and b2 become part of the checkpoint.
             They are delivered later, as are the items after the marker. The marker is skipped at the front.
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
    """A barrier that overtakes queued items.

    Attributes:
        barrier: has UNALIGNED options.
        is_delivered: the barrier was delivered to the task. Changed by the taker only.
        is_captured: the producer has already captured the batches ahead of the marker.
    """

    __slots__ = ("barrier", "is_captured", "is_delivered")

    def __init__(self, barrier: CheckpointBarrier) -> None:
        self.barrier = barrier
        self.is_delivered = False
        self.is_captured = False

    def take_in_order(self) -> CheckpointBarrier | None:
        """Returns the barrier of a marker that reached the front, or None if it was delivered before."""
        if self.is_delivered:
            return None
        self.is_delivered = True
        return self.barrier


def position_of(queue: deque[Any], marker: PriorityMarker) -> int | None:
    """Returns the position of the marker, or of an ordinary barrier of its checkpoint; None if neither is queued.

    It searches by index, because an iterator fails when items are appended meanwhile. Thread: the taker.
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
    """Returns the position of the ordinary barrier of that checkpoint, or None. Thread: the taker."""
    return position_of(queue, PriorityMarker(CheckpointBarrier(checkpoint_id, 0)))


def items_before(queue: deque[Any], position: int) -> list[Any]:
    """Returns the items ahead of `position`. Thread: the taker."""
    try:
        return [queue[index] for index in range(position)]
    except IndexError:
        return []


def may_overtake(barrier: CheckpointBarrier) -> bool:
    """False for a barrier on an edge without unaligned checkpoints, where it always keeps its place."""
    return barrier.options is None or barrier.options.alignment != checkpoint_pb2.FORCED_ALIGNED


def as_unaligned(barrier: CheckpointBarrier) -> CheckpointBarrier:
    """Returns the barrier with UNALIGNED options."""
    options = checkpoint_pb2.CheckpointOptions()
    if barrier.options is not None:
        if barrier.options.alignment == checkpoint_pb2.UNALIGNED:
            return barrier
        options.CopyFrom(barrier.options)
    options.alignment = checkpoint_pb2.UNALIGNED
    return replace(barrier, options=options)
