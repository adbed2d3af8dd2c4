"""CombinedWatermark: combines the watermarks and idleness of several parts, whose number may change.

The combined watermark is the minimum over the active parts and never decreases. If all parts are idle, it advances to
the highest of their watermarks, so that nothing waits for them. A part that becomes active again and is behind holds
the combined watermark until it has caught up.

Source: org.apache.flink.api.common.eventtime.{CombinedWatermarkStatus,IndexedCombinedWatermarkStatus}.
"""

from __future__ import annotations

from collections.abc import Iterable

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
    """The combination of several PartialWatermarks. Thread: task thread.

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
    """Combines the watermarks of an operator's inputs. Each call returns the elements to forward, in order."""

    def __init__(self, num_inputs: int) -> None:
        self._parts = [PartialWatermark() for _ in range(num_inputs)]
        self._combined = CombinedWatermark()

    def input_watermark(self, index: int, watermark: Watermark) -> list[Watermark | WatermarkStatus]:
        self._parts[index].advance_to(watermark.timestamp)
        return self._update()

    def input_status(self, index: int, status: WatermarkStatus) -> list[Watermark | WatermarkStatus]:
        self._parts[index].is_idle = status.is_idle
        return self._update()

    def _update(self) -> list[Watermark | WatermarkStatus]:
        combined = self._combined
        was_idle = combined.is_idle
        has_advanced = combined.update(self._parts)
        out: list[Watermark | WatermarkStatus] = []
        if was_idle and not combined.is_idle:
            out.append(WatermarkStatus(is_idle=False))
        if has_advanced:
            out.append(Watermark(combined.watermark))
        if combined.is_idle and not was_idle:
            out.append(WatermarkStatus(is_idle=True))
        return out
