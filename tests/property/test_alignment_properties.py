"""Watermark alignment of several sources: no source waits forever, and none is further ahead than the allowed drift."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from flinkpy.connector_api.watermark_alignment import AlignmentCoordinator, WatermarkAlignmentParams
from flinkpy.streaming.operators.source_alignment import SourceAlignment

MAX = (1 << 63) - 1
DRIFT = 10


@dataclass
class Reader:
    """A source with one subtask that advances by up to `speed` per tick to `end`, and is idle in some ticks.

    Messages take `delay` ticks in either direction.
    """

    name: str
    speed: int
    end: int
    delay: int
    idle_ticks: frozenset[int]
    buffer_size: int
    store: dict
    position: int = 0
    to_coordinator: deque[tuple[int, int]] = field(default_factory=deque)
    to_reader: deque[tuple[int, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.now = 0
        self.alignment = SourceAlignment(self.buffer_size, lambda paused, resumed: None, lambda is_waiting: None)
        params = WatermarkAlignmentParams("g", DRIFT, 1)
        self.coordinator = AlignmentCoordinator(
            params, self.name, self.store, lambda _, event: self.to_reader.append((self.now, event.max_watermark))
        )

    def tick(self, now: int) -> None:
        self.now = now
        while self.to_reader and self.to_reader[0][0] + self.delay <= now:
            self.alignment.on_announcement(self.to_reader.popleft()[1])
        is_idle = now in self.idle_ticks
        self.alignment.on_idle(is_idle)
        if not is_idle and not self.alignment.is_waiting and self.position < self.end:
            self.position = min(self.end, self.position + self.speed)
            self.alignment.on_watermark(self.position if self.position < self.end else MAX)
        self.alignment.on_interval()
        if (timestamp := self.alignment.watermark_to_report) is not None:
            self.to_coordinator.append((now, timestamp))
        while self.to_coordinator and self.to_coordinator[0][0] + self.delay <= now:
            self.coordinator.on_report(0, self.to_coordinator.popleft()[1])
        self.coordinator.announce()


readers = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 400), st.integers(0, 4), st.frozensets(st.integers(0, 60))),
    min_size=1,
    max_size=4,
)


def group(described, buffer_size: int) -> list[Reader]:
    store: dict = {}
    return [
        Reader(str(index), speed, end, delay, idle, buffer_size, store)
        for index, (speed, end, delay, idle) in enumerate(described)
    ]


@given(readers, st.integers(0, 4))
def test_every_reader_reaches_its_end(described, buffer_size):
    members = group(described, buffer_size)
    for now in range(20_000):
        for reader in members:
            reader.tick(now)
        if all(reader.position == reader.end for reader in members):
            return
    raise AssertionError([(reader.position, reader.end, reader.alignment.is_waiting) for reader in members])


@given(readers, st.integers(0, 4))
def test_no_reader_is_further_ahead_than_the_drift_plus_records_read_during_the_message_delay(described, buffer_size):
    described = [(speed, end, delay, frozenset()) for speed, end, delay, _ in described]
    members = group(described, buffer_size)
    longest = 2 * max(reader.delay for reader in members) + buffer_size + 3
    for now in range(600):
        for reader in members:
            reader.tick(now)
        running = [reader.position for reader in members if reader.position < reader.end]
        for reader in members:
            if running and now > longest and reader.position < reader.end:
                assert reader.position <= min(running) + DRIFT + (longest + 1) * reader.speed
