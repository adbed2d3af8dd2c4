"""Where generators put their watermarks: straight into the stream, or as one of several splits whose minimum counts.

```
   generator of a split --> SplitOutput (at once | at the interval) --> minimum over splits --\
                                                                                              +--> StreamOutput
   generator of everything that has no split ------------------------------------------------/
```

The stream is idle when both ways are: a reader uses one of the two, and the generator of the other is silent.

Source: org.apache.flink.api.common.eventtime.WatermarkOutputMultiplexer,
org.apache.flink.streaming.api.operators.source.{WatermarkToDataOutput,ProgressiveTimestampsAndWatermarks}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from flinkpy.common.watermark_strategy import Watermark, WatermarkOutput
from flinkpy.records import elements
from flinkpy.records.elements import MIN_WATERMARK, Element, WatermarkStatus
from flinkpy.streaming.io.combined_watermark import CombinedWatermark, PartialWatermark


class WatermarkListener(Protocol):
    """Is told what becomes of watermarks before they are emitted; a source aligns itself by that."""

    def on_watermark(self, timestamp: int) -> None: ...

    def on_idle(self, is_idle: bool) -> None: ...

    def on_split_watermark(self, split_id: str, timestamp: int) -> None: ...

    def on_split_idle(self, split_id: str, is_idle: bool) -> None: ...


class NoListener:
    """Wants to know nothing."""

    def on_watermark(self, timestamp: int) -> None:
        return

    def on_idle(self, is_idle: bool) -> None:
        return

    def on_split_watermark(self, split_id: str, timestamp: int) -> None:
        return

    def on_split_idle(self, split_id: str, is_idle: bool) -> None:
        return


def timestamp_of(watermark: Watermark) -> int:
    """Raises: TypeError: a generator emitted something else."""
    if not isinstance(watermark, Watermark):
        raise TypeError(f"a WatermarkGenerator emits a Watermark, not {watermark!r}")
    return watermark.timestamp


class StreamOutput(WatermarkOutput):
    """Into the stream: only what is ahead, and a change of idleness once.

    Args:
        before_emit: called before anything is emitted, so that the records before it are.
    """

    def __init__(
        self,
        emit_element: Callable[[Element], None],
        before_emit: Callable[[], None],
        listener: WatermarkListener,
    ) -> None:
        self._emit_element = emit_element
        self._before_emit = before_emit
        self._listener = listener
        self._last_timestamp = MIN_WATERMARK
        self._is_idle = False

    def emit_watermark(self, watermark: Watermark) -> None:
        self.emit_timestamp(timestamp_of(watermark))

    def emit_timestamp(self, timestamp: int) -> None:
        if timestamp <= self._last_timestamp:
            return
        self._last_timestamp = timestamp
        self._listener.on_watermark(timestamp)
        self.mark_active()
        self._before_emit()
        self._emit_element(elements.Watermark(timestamp))

    def mark_idle(self) -> None:
        if not self._is_idle:
            self._set_idle(True)

    def mark_active(self) -> None:
        if self._is_idle:
            self._set_idle(False)

    def _set_idle(self, is_idle: bool) -> None:
        self._is_idle = is_idle
        self._before_emit()
        self._emit_element(WatermarkStatus(is_idle=is_idle))
        self._listener.on_idle(is_idle)


class OneWay(WatermarkOutput):
    """One of the two ways to the stream; idle until something comes along it."""

    def __init__(self, stream: StreamOutput) -> None:
        self._stream = stream
        self.other: OneWay | None = None
        self.is_idle = True

    def emit_watermark(self, watermark: Watermark) -> None:
        self._stream.emit_watermark(watermark)
        self.is_idle = False

    def mark_idle(self) -> None:
        self.is_idle = True
        if self.other is None or self.other.is_idle:
            self._stream.mark_idle()

    def mark_active(self) -> None:
        self.is_idle = False
        self._stream.mark_active()


def two_ways(stream: StreamOutput) -> tuple[OneWay, OneWay]:
    """(for what has no split, for all splits)."""
    main, splits = OneWay(stream), OneWay(stream)
    main.other, splits.other = splits, main
    return main, splits


class WatermarkMultiplexer:
    """Several splits, of which the one that is furthest behind counts."""

    def __init__(self, output: WatermarkOutput, listener: WatermarkListener) -> None:
        self._output = output
        self._listener = listener
        self._splits: dict[str, PartialWatermark] = {}
        self._combined = CombinedWatermark()

    def register(self, split_id: str) -> tuple[WatermarkOutput, WatermarkOutput]:
        """(what counts at once, what counts at the next `on_periodic_emit`) of a split that is new."""
        assert split_id not in self._splits, split_id
        part = self._splits[split_id] = PartialWatermark()
        return (
            _SplitOutput(split_id, part, self._listener, self.on_periodic_emit),
            _SplitOutput(split_id, part, self._listener, None),
        )

    def unregister(self, split_id: str) -> None:
        """It counts no more; those left are looked at with the next watermark of any, or at the next interval."""
        self._splits.pop(split_id, None)

    def on_periodic_emit(self) -> None:
        """Combine what the splits have said."""
        if self._combined.update(self._splits.values()):
            self._output.emit_watermark(Watermark(self._combined.watermark))
        if self._combined.is_idle:
            self._output.mark_idle()


class _SplitOutput(WatermarkOutput):
    """Of one split. `on_change`: combines at once; None: later."""

    def __init__(
        self,
        split_id: str,
        part: PartialWatermark,
        listener: WatermarkListener,
        on_change: Callable[[], None] | None,
    ) -> None:
        self._split_id = split_id
        self._part = part
        self._listener = listener
        self._on_change = on_change

    def emit_watermark(self, watermark: Watermark) -> None:
        timestamp = timestamp_of(watermark)
        self._set_idle(False)
        if self._part.advance_to(timestamp):
            self._listener.on_split_watermark(self._split_id, timestamp)
            if self._on_change is not None:
                self._on_change()

    def mark_idle(self) -> None:
        self._set_idle(True)
        if self._on_change is not None:
            self._on_change()

    def mark_active(self) -> None:
        self._set_idle(False)
        if self._on_change is not None:
            self._on_change()

    def _set_idle(self, is_idle: bool) -> None:
        if self._part.is_idle != is_idle:
            self._part.is_idle = is_idle
            self._listener.on_split_idle(self._split_id, is_idle)
