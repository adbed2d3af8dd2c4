"""Element queues: decide the order in which the results of asynchronous calls leave the operator. Pure.

Records come in chunks and are started in order. Control elements (mostly watermarks) stand between chunks. A completed
record is *released* if everything that it must wait for has been released, and *held* until then. In the ordered queue
it waits for every record before it, in the unordered queue only for the records before the last control element. A
control element is released when everything before it is, so no result ever overtakes or falls behind one.

Source: org.apache.flink.streaming.api.operators.async.queue.{OrderedStreamElementQueue,UnorderedStreamElementQueue}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import Any

from flinkpy.records.elements import Element, Watermark


class Chunk:
    """Consecutive records of the input.

    Attributes:
        timestamps: the timestamps of the records in ms; None if they have none.
        waiting: one byte per record: 1 until its results have been emitted. Only for the task thread.
        completed: the held results by position. Only in the ordered queue.
        next: the position of the first record that is not released. Only in the ordered queue.
        segment: the segment of the chunk. Only in the unordered queue.
    """

    __slots__ = ("completed", "next", "rows", "segment", "timestamps", "waiting")

    segment: _Segment

    def __init__(self, rows: list[Any], timestamps: list[int] | None = None) -> None:
        self.rows = rows
        self.timestamps = timestamps
        self.waiting = bytearray(b"\1") * len(rows)
        self.completed: dict[int, list[Any]] = {}
        self.next = 0


#: A record: (chunk, position in the chunk, value).
Item = tuple[Chunk, int, Any]


class Part:
    """Records of one chunk that were released together, and their results.

    Attributes:
        begin, end: the positions of the last run of records: from `begin` up to, but not including, `end`.
        runs: the earlier runs, in the order of the results. Always empty in the ordered queue.
        counts: the number of results of each record; None if the records have no timestamps.
    """

    __slots__ = ("begin", "chunk", "counts", "end", "results", "runs")

    def __init__(self, chunk: Chunk, begin: int, end: int, results: list[Any], counts: list[int] | None) -> None:
        self.chunk = chunk
        self.begin = begin
        self.end = end
        self.runs: list[tuple[int, int]] = []
        self.results = results
        self.counts = counts

    def add(self, begin: int, end: int, results: list[Any], counts: list[int] | None) -> None:
        if self.end != begin:
            self.runs.append((self.begin, self.end))
            self.begin = begin
        self.end = end
        self.results.extend(results)
        if self.counts is not None and counts is not None:
            self.counts.extend(counts)

    def finish(self) -> int:
        """Marks the records as emitted, and returns their number."""
        waiting = self.chunk.waiting
        size = 0
        for begin, end in (*self.runs, (self.begin, self.end)):
            waiting[begin:end] = bytes(end - begin)
            size += end - begin
        return size

    @property
    def timestamps(self) -> list[int]:
        """The timestamps of the records, in the order of the results. The chunk must have timestamps."""
        chunk_timestamps = self.chunk.timestamps
        assert chunk_timestamps is not None
        if not self.runs:
            return chunk_timestamps[self.begin : self.end]
        runs = (*self.runs, (self.begin, self.end))
        return [timestamp for begin, end in runs for timestamp in chunk_timestamps[begin:end]]


Released = Part | Element


class ElementQueue(ABC):
    """The base class of both queues.

    Attributes:
        held: the number of records that are completed but not released.
    """

    def __init__(self) -> None:
        self.held = 0
        self._released: list[Released] = []
        #: The last released entry, if it is a part.
        self._last: Part | None = None

    @abstractmethod
    def add_chunk(self, chunk: Chunk) -> None:
        """Adds a chunk whose records are about to be started, in their order."""

    @abstractmethod
    def add_element(self, element: Element) -> None: ...

    @abstractmethod
    def is_next(self, chunk: Chunk, position: int) -> bool:
        """True if records from this position on would be released immediately when they are completed in order."""

    @abstractmethod
    def complete_run(self, chunk: Chunk, begin: int, end: int, results: list[Any], counts: list[int] | None) -> None:
        """Completes the records from `begin` up to `end`. `is_next(chunk, begin)` must be true.

        Args:
            results: the results of all these records, in order. The queue takes the list over.
            counts: the number of results of each record; None if the chunk has no timestamps. The queue takes it over.
        """

    @abstractmethod
    def complete(self, item: Item, results: list[Any]) -> None:
        """Completes one record. Called exactly once per record."""

    def take(self) -> list[Released]:
        """Returns everything released since the last call, in order."""
        released, self._released = self._released, []
        self._last = None
        return released

    @property
    def has_released(self) -> bool:
        return bool(self._released)

    def _release_element(self, element: Element) -> None:
        self._released.append(element)
        self._last = None

    def _release(self, chunk: Chunk, begin: int, end: int, results: list[Any], counts: list[int] | None) -> None:
        """Releases records. Extends the last part if it belongs to the same chunk."""
        last = self._last
        if last is not None and last.chunk is chunk:
            last.add(begin, end, results, counts)
        else:
            self._last = part = Part(chunk, begin, end, results, counts)
            self._released.append(part)

    def _release_one(self, chunk: Chunk, position: int, results: list[Any]) -> None:
        last = self._last
        if last is not None and last.chunk is chunk and last.end == position:
            # A shortcut of `_release` for the most frequent case.
            last.end = position + 1
            last.results += results
            if last.counts is not None:
                last.counts.append(len(results))
        else:
            counts = None if chunk.timestamps is None else [len(results)]
            # Copy the list, because the part extends it later.
            self._release(chunk, position, position + 1, results.copy(), counts)


class OrderedElementQueue(ElementQueue):
    """Releases results in the order of the records."""

    def __init__(self) -> None:
        super().__init__()
        self._order: deque[Chunk | Element] = deque()

    def add_chunk(self, chunk: Chunk) -> None:
        self._order.append(chunk)

    def add_element(self, element: Element) -> None:
        order = self._order
        if not order:
            self._release_element(element)
        elif isinstance(element, Watermark) and isinstance(order[-1], Watermark):
            order[-1] = element
        else:
            order.append(element)

    def is_next(self, chunk: Chunk, position: int) -> bool:
        return chunk.next == position and self._order[0] is chunk

    def complete_run(self, chunk: Chunk, begin: int, end: int, results: list[Any], counts: list[int] | None) -> None:
        self._release(chunk, begin, end, results, counts)
        chunk.next = end
        if self.held or end == len(chunk.rows):
            self._release_held()

    def complete(self, item: Item, results: list[Any]) -> None:
        chunk, position, _ = item
        if chunk.next != position or self._order[0] is not chunk:
            chunk.completed[position] = results
            self.held += 1
            return
        chunk.next = following = position + 1
        self._release_one(chunk, position, results)
        if self.held or following == len(chunk.rows):
            self._release_held()

    def _release_held(self) -> None:
        order = self._order
        while order:
            chunk = order[0]
            if not isinstance(chunk, Chunk):
                self._release_element(chunk)
            else:
                while (results := chunk.completed.pop(chunk.next, None)) is not None:
                    self._release_one(chunk, chunk.next, results)
                    chunk.next += 1
                    self.held -= 1
                if chunk.next < len(chunk.rows):
                    break
            order.popleft()


class _Segment:
    """The records between two control elements.

    Attributes:
        element: the control element at the end; None while more records may come.
        left: the number of records that are not completed.
        held: the completed records with their results. Empty in the first segment, whose results are released
            immediately.
    """

    __slots__ = ("element", "held", "left")

    def __init__(self) -> None:
        self.element: Element | None = None
        self.left = 0
        self.held: list[tuple[Item, list[Any]]] = []


class UnorderedElementQueue(ElementQueue):
    """Releases results as soon as they are completed, but never across a control element."""

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
        if len(segments) > 1 and not last.left and not last.held and isinstance(element, Watermark):
            before = segments[-2]
            if isinstance(before.element, Watermark):
                before.element = element
                return
        last.element = element
        segments.append(_Segment())

    def is_next(self, chunk: Chunk, position: int) -> bool:
        return chunk.segment is self._segments[0]

    def complete_run(self, chunk: Chunk, begin: int, end: int, results: list[Any], counts: list[int] | None) -> None:
        self._release(chunk, begin, end, results, counts)
        chunk.segment.left -= end - begin
        self._advance()

    def complete(self, item: Item, results: list[Any]) -> None:
        chunk, position, _ = item
        segment = chunk.segment
        segment.left -= 1
        if segment is self._segments[0]:
            self._release_one(chunk, position, results)
            if not segment.left:
                self._advance()
        else:
            segment.held.append((item, results))
            self.held += 1

    def _advance(self) -> None:
        segments = self._segments
        while (first := segments[0]).element is not None and not first.left:
            self._release_element(first.element)
            segments.popleft()
            following = segments[0]
            self.held -= len(following.held)
            for (chunk, position, _), results in following.held:
                self._release_one(chunk, position, results)
            following.held = []
