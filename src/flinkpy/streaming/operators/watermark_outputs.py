"""The outputs of watermark generators: directly into the stream, or as the minimum over several splits.

```
   generator of a split --> SplitOutput (at once | at the interval) --> minimum over splits --\
                                                                                              +--> StreamOutput
   generator of records without a split -----------------------------------------------------/
```

The stream is idle if both paths are idle. A reader uses one of them, and the generator of the other one is silent.

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
    """Observes watermarks before they are emitted. Source alignment and metrics implement it."""

    def on_watermark(self, timestamp: int) -> None: ...

    def on_idle(self, is_idle: bool) -> None: ...

    def on_split_watermark(self, split_id: str, timestamp: int) -> None: ...

    def on_split_idle(self, split_id: str, is_idle: bool) -> None: ...


class NoListener:
    """Ignores all events."""

    def on_watermark(self, timestamp: int) -> None:
        return

    def on_idle(self, is_idle: bool) -> None:
        return

    def on_split_watermark(self, split_id: str, timestamp: int) -> None:
        return

    def on_split_idle(self, split_id: str, is_idle: bool) -> None:
        return


def timestamp_of(watermark: Watermark) -> int:
    """Returns the timestamp of a watermark. Raises: TypeError if a generator emitted something else."""
    if not isinstance(watermark, Watermark):
        raise TypeError(f"a WatermarkGenerator must emit a Watermark, not {watermark!r}")
    return watermark.timestamp


class StreamOutput(WatermarkOutput):
    """Emits into the stream: only watermarks that advance, and each change of idleness once.

    Args:
        before_emit: called before each element, to emit the records before it.
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
    """One of the two paths into the stream. Idle until the first watermark comes through it."""

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
    """Returns the path for records without a split, and the path for all splits."""
    main, splits = OneWay(stream), OneWay(stream)
    main.other, splits.other = splits, main
    return main, splits


class WatermarkMultiplexer:
    """Combines the watermarks of several splits to their minimum."""

    def __init__(self, output: WatermarkOutput, listener: WatermarkListener) -> None:
        self._output = output
        self._listener = listener
        self._splits: dict[str, PartialWatermark] = {}
        self._combined = CombinedWatermark()

    def register(self, split_id: str) -> tuple[WatermarkOutput, WatermarkOutput]:
        """Adds a split. Returns its outputs: one that counts immediately, and one that counts at `on_periodic_emit`."""
        assert split_id not in self._splits, split_id
        part = self._splits[split_id] = PartialWatermark()
        return (
            _SplitOutput(split_id, part, self._listener, self.on_periodic_emit),
            _SplitOutput(split_id, part, self._listener, None),
        )

    def unregister(self, split_id: str) -> None:
        """Removes a split. The others are combined at the next watermark of any split, or at the next interval."""
        self._splits.pop(split_id, None)

    def on_periodic_emit(self) -> None:
        """Combines the watermarks and idleness of the splits, and emits the result."""
        if self._combined.update(self._splits.values()):
            self._output.emit_watermark(Watermark(self._combined.watermark))
        if self._combined.is_idle:
            self._output.mark_idle()


class _SplitOutput(WatermarkOutput):
    """The output of one split. `on_change` combines the splits immediately; if it is None, they are combined later."""

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
