"""Element queues: in which order the results of asynchronous calls leave the operator. Pure.

Records come in chunks and are started in order; control elements (watermarks above all) stand between chunks. What is
completed is *released*, or *held* until something before it is completed: in the ordered queue every record before it,
in the unordered queue the records before the last control element. A control element is released when all before it is,
so no result ever crosses one.

Source: org.apache.flink.streaming.api.operators.async.queue.{OrderedStreamElementQueue,UnorderedStreamElementQueue}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import Any

from flinkpy.records.elements import Element, Watermark


class Chunk:
    """Some consecutive records of the input.

    Attributes:
        timestamps: of the records, in ms; None where they have none.
        waiting: a byte per record: 1 until its results have been emitted. Belongs to the task thread.
        results: of the completed ones, in the ordered queue; None for the others.
        next: the first record whose results have not been released, in the ordered queue.
        segment: where it is in the unordered queue.
    """

    __slots__ = ("next", "results", "rows", "segment", "timestamps", "waiting")

    segment: _Segment
    results: list[list[Any] | None]

    def __init__(self, rows: list[Any], timestamps: list[int] | None = None) -> None:
        self.rows = rows
        self.timestamps = timestamps
        self.waiting = bytearray(b"\1") * len(rows)
        self.next = 0


#: A record: (its chunk, its position there, its value).
Item = tuple[Chunk, int, Any]
#: Some records with their results, or a control element.
Released = tuple[list[Item], list[list[Any]]] | Element


class ElementQueue(ABC):
    """Attributes:
    held: records that are completed and not released.
    """

    def __init__(self) -> None:
        self.held = 0
        self.items: list[Item] = []
        self.results: list[list[Any]] = []
        self._parts: list[Released] = []

    @abstractmethod
    def add_chunk(self, chunk: Chunk) -> None:
        """Its records are about to be started, in their order."""

    @abstractmethod
    def add_element(self, element: Element) -> None: ...

    @abstractmethod
    def complete(self, item: Item, results: list[Any]) -> None:
        """Exactly once per record."""

    def take(self) -> list[Released]:
        """What has been released since the last call, in order."""
        self._end_part()
        parts, self._parts = self._parts, []
        return parts

    @property
    def has_released(self) -> bool:
        return bool(self.items or self._parts)

    def _release_element(self, element: Element) -> None:
        self._end_part()
        self._parts.append(element)

    def _end_part(self) -> None:
        if self.items:
            self._parts.append((self.items, self.results))
            self.items, self.results = [], []


class OrderedElementQueue(ElementQueue):
    """Results leave in the order of the records."""

    def __init__(self) -> None:
        super().__init__()
        self._order: deque[Chunk | Element] = deque()

    def add_chunk(self, chunk: Chunk) -> None:
        chunk.results = [None] * len(chunk.rows)
        self._order.append(chunk)

    def add_element(self, element: Element) -> None:
        order = self._order
        if not order:
            self._release_element(element)
        elif isinstance(element, Watermark) and isinstance(order[-1], Watermark):
            order[-1] = element
        else:
            order.append(element)

    def complete(self, item: Item, results: list[Any]) -> None:
        chunk, position, _ = item
        chunk.results[position] = results
        if chunk.next == position and self._order[0] is chunk:
            self._release()
        else:
            self.held += 1

    def _release(self) -> None:
        order = self._order
        released = 0
        while order:
            chunk = order[0]
            if not isinstance(chunk, Chunk):
                self._release_element(chunk)
            else:
                released += self._release_completed(chunk)
                if chunk.next < len(chunk.rows):
                    break
            order.popleft()
        # The record whose completion led here was not held.
        self.held -= released - 1

    def _release_completed(self, chunk: Chunk) -> int:
        begin = position = chunk.next
        completed, rows = chunk.results, chunk.rows
        end = len(rows)
        while position < end and (results := completed[position]) is not None:
            self.items.append((chunk, position, rows[position]))
            self.results.append(results)
            position += 1
        chunk.next = position
        return position - begin


class _Segment:
    """The records between two control elements.

    Attributes:
        element: the one at its end; None while more records may come.
        left: records of it that are not completed.
    """

    __slots__ = ("element", "items", "left", "results")

    def __init__(self) -> None:
        self.element: Element | None = None
        self.left = 0
        self.items: list[Item] = []
        self.results: list[list[Any]] = []


class UnorderedElementQueue(ElementQueue):
    """Results leave as they come, but never cross a control element."""

    def __init__(self) -> None:
        super().__init__()
        self._segments: deque[_Segment] = deque([_Segment()])

    def add_chunk(self, chunk: Chunk) -> None:
        chunk.segment = segment = self._segments[-1]
        segment.left += len(chunk.rows)

    def add_element(self, element: Element) -> None:
        segments = self._segments
        last = segments[-1]
        if len(segments) == 1 and not last.left:
            self._release_element(element)
            return
        if not last.left and not last.items and isinstance(element, Watermark):
            before = segments[-2]
            if isinstance(before.element, Watermark):
                before.element = element
                return
        last.element = element
        segments.append(_Segment())

    def complete(self, item: Item, results: list[Any]) -> None:
        segment = item[0].segment
        segment.left -= 1
        if segment is not self._segments[0]:
            segment.items.append(item)
            segment.results.append(results)
            self.held += 1
            return
        self.items.append(item)
        self.results.append(results)
        if not segment.left and segment.element is not None:
            self._advance()

    def _advance(self) -> None:
        segments = self._segments
        while (first := segments[0]).element is not None and not first.left:
            self._release_element(first.element)
            segments.popleft()
            following = segments[0]
            self.held -= len(following.items)
            self.items.extend(following.items)
            self.results.extend(following.results)
            following.items, following.results = [], []
