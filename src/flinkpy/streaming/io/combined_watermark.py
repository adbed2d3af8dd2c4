"""Combines watermarks: of several parts (CombinedWatermark), of the inputs of an operator (CombinedInputs), or of the
channels of one input (StatusWatermarkValve).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from flinkpy.records.elements import MIN_WATERMARK, Watermark, WatermarkStatus


class PartialWatermark:
    """One part of a CombinedWatermark."""

    __slots__ = ("is_idle", "watermark")

    def __init__(self) -> None:
        self.watermark = MIN_WATERMARK
        self.is_idle = False

    def advance_to(self, timestamp: int) -> bool:
        """Advances the watermark and makes the part active. Returns True if the watermark is higher than before."""
        self.is_idle = False
        if timestamp <= self.watermark:
            return False
        self.watermark = timestamp
        return True


class CombinedWatermark:
    """Combines the watermarks and idleness of several parts, whose number may change.

    The combined watermark is the minimum over the active parts and never decreases. If all parts are idle, it advances
    to the highest of their watermarks, so that nothing waits for them. A part that becomes active again and is behind
    holds the combined watermark until it has caught up.

    Thread: task thread.

    Source: org.apache.flink.api.common.eventtime.{CombinedWatermarkStatus,IndexedCombinedWatermarkStatus}.

    Attributes:
        watermark: the highest combined watermark so far.
        is_idle: True if all parts were idle at the last update.
    """

    __slots__ = ("is_idle", "watermark")

    def __init__(self) -> None:
        self.watermark = MIN_WATERMARK
        self.is_idle = False

    def update(self, parts: Iterable[PartialWatermark]) -> bool:
        """Combines the parts again. Returns True if the watermark has advanced. Without parts nothing changes."""
        lowest: int | None = None
        highest: int | None = None
        for part in parts:
            timestamp = part.watermark
            if highest is None or timestamp > highest:
                highest = timestamp
            if not part.is_idle and (lowest is None or timestamp < lowest):
                lowest = timestamp
        if highest is None:
            return False
        self.is_idle = lowest is None
        combined = highest if lowest is None else lowest
        if combined <= self.watermark:
            return False
        self.watermark = combined
        return True


class CombinedInputs:
    """Combines the watermarks of an operator's inputs. Each call returns the elements to forward, in order.

    Args:
        ignored: the inputs whose watermarks and idleness do not count.
    """

    def __init__(self, num_inputs: int, ignored: Collection[int] = ()) -> None:
        self._parts = [PartialWatermark() for _ in range(num_inputs)]
        self._counted = [part for index, part in enumerate(self._parts) if index not in ignored]
        self._combined = CombinedWatermark()

    def watermark_of(self, index: int) -> int:
        """Returns the last watermark of an input. Any thread."""
        return self._parts[index].watermark

    def input_watermark(self, index: int, watermark: Watermark) -> list[Watermark | WatermarkStatus]:
        self._parts[index].advance_to(watermark.timestamp)
        return self._update()

    def input_status(self, index: int, status: WatermarkStatus) -> list[Watermark | WatermarkStatus]:
        self._parts[index].is_idle = status.is_idle
        return self._update()

    def _update(self) -> list[Watermark | WatermarkStatus]:
        combined = self._combined
        was_idle = combined.is_idle
        has_advanced = combined.update(self._counted)
        out: list[Watermark | WatermarkStatus] = []
        if was_idle and not combined.is_idle:
            out.append(WatermarkStatus(is_idle=False))
        if has_advanced:
            out.append(Watermark(combined.watermark))
        if combined.is_idle and not was_idle:
            out.append(WatermarkStatus(is_idle=True))
        return out


@dataclass(slots=True)
class _Channel:
    watermark: int = MIN_WATERMARK
    is_idle: bool = False
    is_aligned: bool = True


class StatusWatermarkValve:
    """Combines the watermarks and idleness of the channels of one input.

    The output watermark is the minimum over the active, aligned channels. A channel that becomes active again and is
    behind the output watermark is excluded from the minimum until it has caught up. Each call returns the elements to
    forward, in order; often none.

    Source: org.apache.flink.streaming.runtime.watermarkstatus.StatusWatermarkValve.
    """

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
