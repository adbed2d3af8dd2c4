"""StatusWatermarkValve: combines the watermarks and idleness of many channels into those of one input.

The output watermark is the minimum over the active, aligned channels. A channel that becomes active again and is behind
the output watermark is excluded from the minimum until it has caught up.

Source: org.apache.flink.streaming.runtime.watermarkstatus.StatusWatermarkValve.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.records.elements import MIN_WATERMARK, Watermark, WatermarkStatus


@dataclass(slots=True)
class _Channel:
    watermark: int = MIN_WATERMARK
    is_idle: bool = False
    is_aligned: bool = True


class StatusWatermarkValve:
    """Combines the channels of one input. Each call returns the elements to forward, in order; often none."""

    def __init__(self, num_channels: int) -> None:
        self._channels = [_Channel() for _ in range(num_channels)]
        self._last_watermark = MIN_WATERMARK
        self._is_idle = False

    def input_watermark(self, channel: int, watermark: Watermark) -> list[Watermark | WatermarkStatus]:
        state = self._channels[channel]
        if state.is_idle or watermark.timestamp <= state.watermark:
            return []
        state.watermark = watermark.timestamp
        if not state.is_aligned and watermark.timestamp >= self._last_watermark:
            state.is_aligned = True
        return self._advance()

    def input_status(self, channel: int, status: WatermarkStatus) -> list[Watermark | WatermarkStatus]:
        state = self._channels[channel]
        if state.is_idle == status.is_idle:
            return []
        state.is_idle = status.is_idle
        if status.is_idle:
            return self._channel_became_idle(state)
        state.is_aligned = state.watermark >= self._last_watermark
        if self._is_idle:
            self._is_idle = False
            return [WatermarkStatus(is_idle=False)]
        return []

    def _channel_became_idle(self, state: _Channel) -> list[Watermark | WatermarkStatus]:
        state.is_aligned = False
        if any(not other.is_idle for other in self._channels):
            # This channel may have held back the minimum.
            return self._advance()
        # All channels are idle. If this one held back the minimum, the output advances to the highest watermark. If it
        # did not, the output stays. So the order in which channels become idle matters, as in Flink 2.3.
        out: list[Watermark | WatermarkStatus] = []
        highest = max(other.watermark for other in self._channels)
        if state.watermark == self._last_watermark and highest > self._last_watermark:
            self._last_watermark = highest
            out.append(Watermark(highest))
        self._is_idle = True
        out.append(WatermarkStatus(is_idle=True))
        return out

    def _advance(self) -> list[Watermark | WatermarkStatus]:
        lowest = min((state.watermark for state in self._channels if state.is_aligned), default=None)
        if lowest is None or lowest <= self._last_watermark:
            return []
        self._last_watermark = lowest
        return [Watermark(lowest)]
