"""VertexParallelismDecider: the parallelism of a vertex from how much its inputs hold, and who reads what of them.

As many subtasks as the inputs hold of `avg-data-volume-per-task`, within the bounds. Broadcast inputs do not count:
every subtask reads all of them, however many there are. Then the subpartitions are shared out:

  * of all ALL_TO_ALL inputs the same range to the same subtask, because a key of one input must meet the same key of
    the others, and their subpartitions are numbered alike;
  * of a POINTWISE input a neighbouring part of all its subpartitions, partition by partition;
  * of a broadcast input everything to everybody.

A vertex whose data lies in few subpartitions gets no more subtasks than those.

Source: org.apache.flink.runtime.scheduler.adaptivebatch.DefaultVertexParallelismAndInputInfosDecider. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flinkpy.jobmaster.executiongraph.input_slices import IndexRange, InputSlice, balanced_ranges, pointwise_slices


@dataclass(frozen=True, slots=True)
class BlockingInput:
    """One finished result that a vertex reads."""

    #: Per partition the bytes of each of its subpartitions; all partitions have as many.
    partition_bytes: tuple[tuple[int, ...], ...]
    is_broadcast: bool = False
    is_pointwise: bool = False

    @property
    def num_subpartitions(self) -> int:
        return len(self.partition_bytes[0])

    @property
    def num_bytes(self) -> int:
        return sum(sum(subpartitions) for subpartitions in self.partition_bytes)

    @property
    def bytes_per_subpartition(self) -> list[int]:
        return [sum(column) for column in zip(*self.partition_bytes, strict=True)]


@dataclass(frozen=True, slots=True)
class ParallelismDecision:
    """`slices[input][subtask]`: what that subtask reads of that input."""

    parallelism: int
    reason: str
    slices: tuple[tuple[tuple[InputSlice, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class ParallelismBounds:
    """`min_parallelism` gives way where it is above `max_parallelism`."""

    min_parallelism: int
    max_parallelism: int
    bytes_per_task: int


def decide_parallelism(inputs: Sequence[BlockingInput], bounds: ParallelismBounds) -> ParallelismDecision:
    """For a vertex that may have any parallelism within `bounds`."""
    least = min(bounds.min_parallelism, bounds.max_parallelism)
    counted = [one for one in inputs if not one.is_broadcast]
    num_bytes = sum(one.num_bytes for one in counted)
    wanted = max(least, min(bounds.max_parallelism, -(-num_bytes // bounds.bytes_per_task)))
    all_to_all = _all_to_all_ranges(counted, wanted, least)
    parallelism = wanted if all_to_all is None else len(all_to_all)
    pointwise = [one.num_subpartitions * len(one.partition_bytes) for one in counted if one.is_pointwise]
    if all_to_all is None and pointwise:
        parallelism = min(parallelism, max(pointwise))
    reason = f"{_size(num_bytes)} of input at {_size(bounds.bytes_per_task)} per task, at most {bounds.max_parallelism}"
    return ParallelismDecision(parallelism, reason, slices_of(inputs, parallelism, all_to_all))


def slices_of(
    inputs: Sequence[BlockingInput], parallelism: int, ranges: Sequence[IndexRange] | None = None
) -> tuple[tuple[tuple[InputSlice, ...], ...], ...]:
    """What each subtask reads of each input, for a parallelism that is settled.

    `ranges`: of the ALL_TO_ALL inputs, one per subtask; None: balanced by load. Where there are fewer subpartitions
    than subtasks, the last subtasks read nothing of such an input.
    """
    if ranges is None:
        counted = [one for one in inputs if not one.is_broadcast]
        ranges = _all_to_all_ranges(counted, parallelism, parallelism)
    return tuple(_slices(one, parallelism, ranges or ()) for one in inputs)


def _all_to_all_ranges(counted: Sequence[BlockingInput], wanted: int, least: int) -> tuple[IndexRange, ...] | None:
    loads: list[int] | None = None
    for one in counted:
        if not one.is_pointwise:
            own = one.bytes_per_subpartition
            loads = own if loads is None else [a + b for a, b in zip(loads, own, strict=True)]
    return None if loads is None else balanced_ranges(loads, wanted, least)


def _slices(one: BlockingInput, parallelism: int, ranges: Sequence[IndexRange]) -> tuple[tuple[InputSlice, ...], ...]:
    partitions = IndexRange(0, len(one.partition_bytes) - 1)
    if one.is_broadcast:
        everything = (InputSlice(partitions, IndexRange(0, one.num_subpartitions - 1)),)
        return (everything,) * parallelism
    if not one.is_pointwise:
        nothing: tuple[tuple[InputSlice, ...], ...] = ((),) * (parallelism - len(ranges))
        return tuple((InputSlice(partitions, own),) for own in ranges) + nothing
    loads = [load for subpartitions in one.partition_bytes for load in subpartitions]
    cut = balanced_ranges(loads, parallelism, parallelism)
    own_slices = tuple(tuple(pointwise_slices(own, one.num_subpartitions)) for own in cut)
    return own_slices + ((),) * (parallelism - len(cut))


def _size(num_bytes: int) -> str:
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if num_bytes >= factor:
            return f"{num_bytes / factor:.1f} {unit}"
    return f"{num_bytes} bytes"
