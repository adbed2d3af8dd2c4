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
        completed: records whose results are held, with these; in the ordered queue.
        next: the first record that has not been released; in the ordered queue.
        segment: where it is in the unordered queue.
    """

    __slots__ = ("completed", "next", "rows", "segment", "timestamps", "waiting")

    segment: _Segment

    def __init__(self, rows: list[Any], timestamps: list[int] | None = None) -> None:
        self.rows = rows
        self.timestamps = timestamps
        self.waiting = bytearray(b"\1") * len(rows)
        self.completed: dict[int, list[Any]] = {}
        self.next = 0


#: A record: (its chunk, its position there, its value).
Item = tuple[Chunk, int, Any]


class Part:
    """Records of one chunk that were released together, and their results.

    Attributes:
        begin, next: in the ordered queue, the first of them and the one after the last, by position; None: `positions`
            says which they are, in no order.
        counts: how many results each of them has; only where they have timestamps.
    """

    __slots__ = ("begin", "chunk", "counts", "next", "positions", "results")

    def __init__(self, chunk: Chunk, begin: int | None) -> None:
        self.chunk = chunk
        self.begin = begin
        self.next = begin
        self.positions: list[int] = []
        self.results: list[Any] = []
        self.counts: list[int] | None = None if chunk.timestamps is None else []

    def add(self, position: int, results: list[Any]) -> None:
        """Workers do the same, without the call."""
        if self.next is None:
            self.positions.append(position)
        else:
            self.next += 1
        self.results.extend(results)
        if self.counts is not None:
            self.counts.append(len(results))

    def finish(self) -> int:
        """Its results are emitted; returns how many records it has."""
        waiting = self.chunk.waiting
        if self.begin is not None and self.next is not None:
            size = self.next - self.begin
            waiting[self.begin : self.next] = bytes(size)
            return size
        for position in self.positions:
            waiting[position] = 0
        return len(self.positions)

    @property
    def timestamps(self) -> list[int]:
        """Of the records, which have some."""
        of_chunk = self.chunk.timestamps
        assert of_chunk is not None
        if self.begin is not None:
            return of_chunk[self.begin : self.next]
        return [of_chunk[position] for position in self.positions]


Released = Part | Element


class ElementQueue(ABC):
    """Attributes:
    held: records that are completed and not released.
    part: where to `add` the results of a record of `part.chunk` in place of calling `complete`, if `part.next` is that
        record or None; None: nowhere. This is what makes a call that waits for nothing cheap.
    """

    def __init__(self) -> None:
        self.held = 0
        self.part: Part | None = None
        self._released: list[Released] = []

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
        self._close_part()
        released, self._released = self._released, []
        return released

    @abstractmethod
    def _close_part(self) -> None:
        """Take note of what was added to `part`, which is None then."""

    @property
    def has_released(self) -> bool:
        return bool(self._released)

    def _release(self, chunk: Chunk, position: int, results: list[Any], *, in_order: bool) -> Part:
        """To the last part, where it is of that chunk."""
        released = self._released
        part = released[-1] if released else None
        if not isinstance(part, Part) or part.chunk is not chunk:
            part = Part(chunk, position if in_order else None)
            released.append(part)
        part.add(position, results)
        return part


class OrderedElementQueue(ElementQueue):
    """Results leave in the order of the records."""

    def __init__(self) -> None:
        super().__init__()
        self._order: deque[Chunk | Element] = deque()

    def add_chunk(self, chunk: Chunk) -> None:
        self._order.append(chunk)

    def add_element(self, element: Element) -> None:
        self._close_part()
        order = self._order
        if not order:
            self._released.append(element)
        elif isinstance(element, Watermark) and isinstance(order[-1], Watermark):
            order[-1] = element
        else:
            order.append(element)

    def complete(self, item: Item, results: list[Any]) -> None:
        self._close_part()
        chunk, position, _ = item
        if chunk.next != position or self._order[0] is not chunk:
            chunk.completed[position] = results
            self.held += 1
            return
        part = self._release(chunk, position, results, in_order=True)
        chunk.next = position + 1
        if self.held or chunk.next == len(chunk.rows):
            self._release_held()
        else:
            self.part = part

    def _close_part(self) -> None:
        part = self.part
        if part is not None:
            self.part = None
            chunk = part.chunk
            assert part.next is not None
            chunk.next = part.next
            if chunk.next == len(chunk.rows):
                self._release_held()

    def _release_held(self) -> None:
        order = self._order
        while order:
            chunk = order[0]
            if not isinstance(chunk, Chunk):
                self._released.append(chunk)
            else:
                while (results := chunk.completed.pop(chunk.next, None)) is not None:
                    self._release(chunk, chunk.next, results, in_order=True)
                    chunk.next += 1
                    self.held -= 1
                if chunk.next < len(chunk.rows):
                    break
            order.popleft()


class _Segment:
    """The records between two control elements.

    Attributes:
        element: the one at its end; None while more records may come.
        left: records that are not completed.
        held: those that are, with their results; not of the first segment, whose results are released at once.
    """

    __slots__ = ("element", "held", "left")

    def __init__(self) -> None:
        self.element: Element | None = None
        self.left = 0
        self.held: list[tuple[Item, list[Any]]] = []


class UnorderedElementQueue(ElementQueue):
    """Results leave as they come, but never cross a control element.

    While there is one segment, its records are not counted one by one: see `part`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._segments: deque[_Segment] = deque([_Segment()])
        #: Of the records of `part`, those that the segment has been told of.
        self._counted = 0

    def add_chunk(self, chunk: Chunk) -> None:
        chunk.segment = segment = self._segments[-1]
        segment.left += len(chunk.rows)

    def add_element(self, element: Element) -> None:
        self._close_part()
        segments = self._segments
        last = segments[-1]
        if len(segments) == 1 and not last.left:
            self._released.append(element)
            return
        if len(segments) > 1 and not last.left and not last.held and isinstance(element, Watermark):
            before = segments[-2]
            if isinstance(before.element, Watermark):
                before.element = element
                return
        last.element = element
        segments.append(_Segment())

    def complete(self, item: Item, results: list[Any]) -> None:
        chunk, position, _ = item
        segment = chunk.segment
        if segment is not self._segments[0]:
            segment.left -= 1
            segment.held.append((item, results))
            self.held += 1
            return
        self._close_part()
        segment.left -= 1
        part = self._release(chunk, position, results, in_order=False)
        if segment.element is None:
            self.part = part
            self._counted = len(part.positions)
        elif not segment.left:
            self._advance()

    def _close_part(self) -> None:
        part = self.part
        if part is not None:
            self._segments[0].left -= len(part.positions) - self._counted
            self.part = None

    def _advance(self) -> None:
        segments = self._segments
        while (first := segments[0]).element is not None and not first.left:
            self._released.append(first.element)
            segments.popleft()
            following = segments[0]
            self.held -= len(following.held)
            for (chunk, position, _), results in following.held:
                self._release(chunk, position, results, in_order=False)
            following.held = []
