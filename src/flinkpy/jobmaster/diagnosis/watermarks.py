"""Finds what holds a watermark back: from an operator that waits, up through its producers to a source or a split.

An operator's watermark is the minimum over its producers that are not idle. So the search goes to the producer with the
lowest watermark, again and again, until it reaches an operator that makes watermarks itself. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flinkpy.jobmaster.diagnosis.snapshot import (
    JobSnapshot,
    OperatorSnapshot,
    SplitSnapshot,
    SubtaskSnapshot,
    VertexSnapshot,
)

#: The name that the API gives to operators that assign watermarks in the middle of a job.
_ASSIGNER = "Timestamps/Watermarks"
#: A producer may be this far ahead of its consumer: the watermark is on its way.
_ON_ITS_WAY_MS = 10_000


@dataclass(frozen=True, slots=True)
class Place:
    """One operator in one subtask."""

    vertex: VertexSnapshot
    operator: OperatorSnapshot
    subtask: SubtaskSnapshot

    @property
    def watermark(self) -> int | None:
        """The last watermark that it emitted."""
        return self.subtask.reading(self.operator.operator_id).output_watermark

    @property
    def is_idle(self) -> bool:
        return self.subtask.reading(self.operator.operator_id).is_output_idle


@dataclass(frozen=True, slots=True)
class Holder:
    """The operator that holds a watermark back.

    Attributes:
        place: the operator that makes the lowest watermark; None if all producers are idle.
        split: its split with the lowest watermark, if it has splits that are not idle.
        watermark: the lowest watermark; None if there is none yet.
        ahead: the highest watermark that the search has passed by, i.e. of others that wait for this one.
        lacks_split: True if it has no split although other subtasks of the source have some.
        makes_none: True if no subtask of the operator has made a watermark, though records came.
    """

    place: Place | None
    split: SplitSnapshot | None = None
    watermark: int | None = None
    ahead: int | None = None
    lacks_split: bool = False
    makes_none: bool = False

    @property
    def gap_ms(self) -> int:
        """How far it is behind the others; 0 if it has no watermark or there are no others."""
        if self.ahead is None or self.watermark is None:
            return 0
        return max(0, self.ahead - self.watermark)


def find_holder(job: JobSnapshot, waiting: Place) -> Holder | None:
    """Returns what holds back the watermark of an operator; None if a higher watermark is on its way to it."""
    watermark = waiting.subtask.reading(waiting.operator.operator_id).input_watermark
    ahead: int | None = None
    place = waiting
    while True:
        producers = [one for one in _producers(job, place) if one.subtask.index >= 0]
        active = [one for one in producers if not one.is_idle]
        if not active:
            return Holder(None, watermark=watermark, ahead=ahead) if producers else None
        place = min(active, key=lambda one: _order(one.watermark))
        ahead = _highest(ahead, *(one.watermark for one in active if one is not place))
        if place.watermark is not None and (watermark is None or place.watermark - watermark > _ON_ITS_WAY_MS):
            return None
        if _makes_watermarks(place):
            return _holder(place, ahead)
        watermark = place.watermark


def _holder(place: Place, ahead: int | None) -> Holder:
    operator_id = place.operator.operator_id
    siblings = [subtask.reading(operator_id) for subtask in place.vertex.running]
    splits = place.subtask.reading(operator_id).splits
    active = [split for split in splits if not split.is_idle]
    lowest = min(active, key=lambda split: _order(split.watermark), default=None)
    ahead = _highest(ahead, *(split.watermark for split in splits if split is not lowest))
    if lowest is not None and lowest.watermark is not None and place.watermark is None:
        lowest = None  # its first watermark is about to be emitted
    records = sum(reading.records_out or 0 for reading in siblings)
    return Holder(
        place,
        lowest,
        place.watermark if lowest is None else lowest.watermark,
        ahead,
        lacks_split=not splits and any(reading.splits for reading in siblings),
        makes_none=records > 0
        and all(reading.output_watermark is None for reading in siblings)
        and not any(split.watermark is not None for reading in siblings for split in reading.splits),
    )


def _producers(job: JobSnapshot, place: Place) -> Iterator[Place]:
    """Yields the running producers of an operator in one subtask. Finished ones hold nothing back."""
    for one in place.operator.inputs:
        vertex = job.vertex(one.vertex_id) if one.vertex_id else place.vertex
        operator = next((found for found in vertex.operators if found.operator_id == one.operator_id), None)
        if operator is None:
            continue
        for subtask in vertex.running:
            if not one.vertex_id or one.ship_strategy == "FORWARD":
                is_connected = subtask.index == place.subtask.index
            elif one.ship_strategy == "RESCALE":
                is_connected = _are_pointwise(
                    subtask.index, len(vertex.subtasks), place.subtask.index, len(place.vertex.subtasks)
                )
            else:
                is_connected = True
            if is_connected:
                yield Place(vertex, operator, subtask)


def _are_pointwise(producer: int, num_producers: int, consumer: int, num_consumers: int) -> bool:
    """True if a pointwise edge connects the two subtasks."""
    if num_producers <= num_consumers:
        return consumer * num_producers // num_consumers == producer
    return producer * num_consumers // num_producers == consumer


def _makes_watermarks(place: Place) -> bool:
    if not place.operator.inputs or place.operator.name.startswith(_ASSIGNER):
        return True
    readings = (subtask.reading(place.operator.operator_id) for subtask in place.vertex.running)
    return any(one.output_watermark is not None and one.input_watermark is None for one in readings)


def _order(watermark: int | None) -> tuple[bool, int]:
    return watermark is not None, watermark or 0


def _highest(*watermarks: int | None) -> int | None:
    return max((one for one in watermarks if one is not None), default=None)
