"""Element queues keep the promises of their docstrings for any order of completion."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.records.elements import Watermark, WatermarkStatus
from flinkpy.streaming.async_io.element_queue import (
    Chunk,
    ElementQueue,
    Item,
    OrderedElementQueue,
    Part,
    UnorderedElementQueue,
)

#: Sizes of chunks; "watermark" and "status" for the elements between them.
SCRIPTS = st.lists(st.one_of(st.integers(1, 5), st.sampled_from(["watermark", "status"])), max_size=12)


class Run:
    """Uses a queue like a runner: chunks and elements in order, completions in any order, and takes in between."""

    def __init__(self, queue: ElementQueue, script: list[Any], random: Random) -> None:
        self.queue = queue
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.running: list[Item] = []
        self.random = random
        for number, step in enumerate(script):
            if isinstance(step, int):
                timestamps = [number * 10 + position for position in range(step)]
                chunk = Chunk([f"{number}.{position}" for position in range(step)], timestamps)
                queue.add_chunk(chunk)
                for position, value in enumerate(chunk.rows):
                    self.inputs.append(value)
                    self.running.append((chunk, position, value))
                    self.complete_some(3)
            else:
                element = Watermark(number) if step == "watermark" else WatermarkStatus(is_idle=True)
                self.inputs.append(element)
                queue.add_element(element)
            self.complete_some(2)
        while self.running:
            self.complete_some(2)
        self.take()

    def complete_some(self, at_most: int) -> None:
        for _ in range(self.random.randint(0, min(at_most, len(self.running)))):
            if not self.running:
                break
            index = self.random.randrange(len(self.running))
            chunk, begin, _ = self.running[index]
            if self.queue.is_next(chunk, begin) and self.random.random() < 0.5:
                self.complete_run(index)
            else:
                self.complete(self.running.pop(index))
        if self.random.random() < 0.5:
            self.take()

    def complete(self, item: Item) -> None:
        self.queue.complete(item, [item[2]])

    def complete_run(self, index: int) -> None:
        """Completes this record and some that follow it in its chunk, like a worker whose calls wait for nothing."""
        chunk, begin, _ = self.running[index]
        end = begin
        while index < len(self.running) and self.running[index][:2] == (chunk, end):
            del self.running[index]
            end += 1
            if self.random.random() < 0.3:
                break
        counts = None if chunk.timestamps is None else [1] * (end - begin)
        self.queue.complete_run(chunk, begin, end, chunk.rows[begin:end], counts)

    def take(self) -> None:
        for released in self.queue.take():
            if isinstance(released, Part):
                before = released.chunk.waiting.count(1)
                size = released.finish()
                assert released.counts == [1] * size
                assert size == before - released.chunk.waiting.count(1), "none of them was released before"
                runs = [*released.runs, (released.begin, released.end)]
                assert released.results == [value for begin, end in runs for value in released.chunk.rows[begin:end]]
                times = released.chunk.timestamps
                assert times is not None
                assert released.timestamps == [time for begin, end in runs for time in times[begin:end]]
                self.outputs += released.results
            else:
                self.outputs.append(released)


def without_superseded(elements: list[Any]) -> list[Any]:
    """Keeps only the last of consecutive watermarks."""
    return [
        element
        for element, after in zip(elements, [*elements[1:], None])
        if not (isinstance(element, Watermark) and isinstance(after, Watermark))
    ]


@pytest.mark.parametrize("queue_class", [OrderedElementQueue, UnorderedElementQueue])
@given(script=SCRIPTS, seed=st.integers(0, 1 << 32))
def test_every_result_is_released_once_and_none_crosses_an_element(
    queue_class: type[ElementQueue], script: list[Any], seed: int
) -> None:
    run = Run(queue_class(), script, Random(seed))
    assert without_superseded(segments(run.outputs)) == without_superseded(segments(run.inputs))
    assert run.queue.held == 0


@given(script=SCRIPTS, seed=st.integers(0, 1 << 32))
def test_ordered_results_keep_the_order_of_the_records(script: list[Any], seed: int) -> None:
    run = Run(OrderedElementQueue(), script, Random(seed))
    assert without_superseded(run.outputs) == without_superseded(run.inputs)


@given(first=st.integers(1, 6), seed=st.integers(0, 1 << 32))
def test_unordered_results_of_one_segment_are_released_at_once(first: int, seed: int) -> None:
    queue = UnorderedElementQueue()
    random = Random(seed)
    run = Run(queue, [], random)
    chunk = Chunk([str(position) for position in range(first)], [0] * first)
    queue.add_chunk(chunk)
    for position in random.sample(range(first), first):
        run.complete((chunk, position, str(position)))
        run.take()
        assert run.outputs[-1] == str(position)
        assert queue.held == 0


def segments(items: list[Any]) -> list[Any]:
    """Returns the items with the records between two elements as sets."""
    out: list[Any] = []
    for item in items:
        if isinstance(item, str):
            if not out or not isinstance(out[-1], set):
                out.append(set())
            out[-1].add(item)
        else:
            out.append(item)
    return out
