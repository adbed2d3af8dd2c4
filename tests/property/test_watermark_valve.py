"""The watermark valve agrees with a second, simple implementation of Flink's rules."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from flinkpy.records.elements import MAX_WATERMARK, MIN_WATERMARK, Watermark, WatermarkStatus
from flinkpy.streaming.io.combined_watermark import StatusWatermarkValve

IDLE, ACTIVE = WatermarkStatus(is_idle=True), WatermarkStatus(is_idle=False)
CHANNELS = 3


@dataclass
class Channel:
    watermark: int = MIN_WATERMARK
    is_idle: bool = False
    is_aligned: bool = True


class PlainValve:
    """A plain version of org.apache.flink.streaming.runtime.watermarkstatus.StatusWatermarkValve of Flink 2.3."""

    def __init__(self) -> None:
        self.channels = [Channel() for _ in range(CHANNELS)]
        self.last = MIN_WATERMARK
        self.is_idle = False

    def watermark(self, index: int, timestamp: int) -> list:
        channel = self.channels[index]
        if self.is_idle or channel.is_idle or timestamp <= channel.watermark:
            return []
        channel.watermark = timestamp
        if not channel.is_aligned and timestamp >= self.last:
            channel.is_aligned = True
        return self.lowest_of_aligned()

    def status(self, index: int, is_idle: bool) -> list:
        channel = self.channels[index]
        if is_idle == channel.is_idle:
            return []
        channel.is_idle = is_idle
        if not is_idle:
            channel.is_aligned = channel.is_aligned or channel.watermark >= self.last
            if not self.is_idle:
                return []
            self.is_idle = False
            return [ACTIVE]
        channel.is_aligned = False
        if not all(other.is_idle for other in self.channels):
            return self.lowest_of_aligned() if channel.watermark == self.last else []
        out = []
        if channel.watermark == self.last:
            highest = max(other.watermark for other in self.channels)
            if highest > self.last:
                self.last = highest
                out.append(Watermark(highest))
        self.is_idle = True
        return [*out, IDLE]

    def lowest_of_aligned(self) -> list:
        aligned = [channel.watermark for channel in self.channels if channel.is_aligned]
        if not aligned or min(aligned) <= self.last:
            return []
        self.last = min(aligned)
        return [Watermark(self.last)]


events = st.lists(
    st.tuples(
        st.integers(0, CHANNELS - 1),
        st.one_of(st.integers(-3, 10), st.just(MAX_WATERMARK), st.sampled_from(["idle", "active"])),
    ),
    max_size=50,
)


@given(events)
def test_the_valve_emits_the_same_watermarks_as_flink(steps):
    valve, plain = StatusWatermarkValve(CHANNELS), PlainValve()
    for index, event in steps:
        if isinstance(event, int):
            assert valve.input_watermark(index, Watermark(event)) == plain.watermark(index, event)
        else:
            status = IDLE if event == "idle" else ACTIVE
            assert valve.input_status(index, status) == plain.status(index, status.is_idle)
