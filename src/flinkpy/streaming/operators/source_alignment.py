"""SourceAlignment: keeps a source from running ahead of the other sources of its group.

```
   watermark of the source --(every update interval)--> SourceCoordinator --> lowest of the group + drift
   waiting <-- the source's watermark is beyond <------------------------------- maximum allowed watermark
   paused  <-- a split's watermark is beyond  <---------------------------------
```

The allowed watermark is compared with the source's watermark of some intervals ago
(`pipeline.watermark-alignment.buffer-size`). An announcement is about that old when it arrives, and a source should not
stop because of progress that the others have made since then.

Source: org.apache.flink.streaming.api.operators.SourceOperator (its part of FLIP-182 and FLIP-217),
org.apache.flink.streaming.api.operators.source.WatermarkSampler.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from flinkpy.records.elements import MAX_WATERMARK, MIN_WATERMARK

#: (splits to pause, splits to resume).
PauseOrResume = Callable[[list[str], list[str]], None]


class _SampledWatermark:
    """The newest watermark, and the watermark of `size` samples ago. If `size` is 0, both are the newest."""

    __slots__ = ("_samples", "newest")

    def __init__(self, size: int) -> None:
        self.newest = MIN_WATERMARK
        self._samples = deque([MIN_WATERMARK] * size, maxlen=size)

    @property
    def compared(self) -> int:
        return self._samples[0] if self._samples else self.newest

    def sample(self) -> None:
        self._samples.append(self.newest)


class SourceAlignment:
    """Decides when a source waits and which of its splits pause. Implements WatermarkListener.

    Thread: task thread. It has no clock.

    Args:
        buffer_size: the age in intervals of the watermarks that are compared.
        pause_or_resume: pauses and resumes splits.
        on_waiting: called with True when the source must wait, and with False when it may continue.
    """

    def __init__(self, buffer_size: int, pause_or_resume: PauseOrResume, on_waiting: Callable[[bool], None]) -> None:
        self._buffer_size = buffer_size
        self._pause_or_resume = pause_or_resume
        self._on_waiting = on_waiting
        self._max_allowed = MAX_WATERMARK
        self._source = _SampledWatermark(buffer_size)
        self._is_idle = False
        self._splits: dict[str, _SampledWatermark] = {}
        self._idle_splits: set[str] = set()
        self._paused_splits: set[str] = set()
        #: True while the source must not read.
        self.is_waiting = False

    @property
    def watermark_to_report(self) -> int | None:
        """The watermark to report; None before the first one. An idle source reports MAX_WATERMARK."""
        if self._source.newest == MIN_WATERMARK:
            return None
        return MAX_WATERMARK if self._is_idle else self._source.newest

    def on_interval(self) -> None:
        """Takes a sample of all watermarks, then checks which of them are allowed."""
        self._source.sample()
        for split in self._splits.values():
            split.sample()
        self._check_source()
        self._check_splits()

    def on_announcement(self, max_allowed: int) -> None:
        """Sets the maximum allowed watermark."""
        self._max_allowed = max_allowed
        self._check_source()
        self._check_splits()

    # -- WatermarkListener ---------------------------------------------------------------------------------------

    def on_watermark(self, timestamp: int) -> None:
        self._source.newest = timestamp
        self._check_source()

    def on_idle(self, is_idle: bool) -> None:
        self._is_idle = is_idle

    def on_split_watermark(self, split_id: str, timestamp: int) -> None:
        split = self._splits.get(split_id)
        if split is None:
            split = self._splits[split_id] = _SampledWatermark(self._buffer_size)
        split.newest = timestamp
        self._check_split(split_id)

    def on_split_idle(self, split_id: str, is_idle: bool) -> None:
        if is_idle:
            self._idle_splits.add(split_id)
        else:
            self._idle_splits.discard(split_id)
            self._check_split(split_id)

    def on_split_finished(self, split_id: str) -> None:
        self._splits.pop(split_id, None)
        self._idle_splits.discard(split_id)
        self._paused_splits.discard(split_id)

    # -- internals -----------------------------------------------------------------------------------------------

    def _check_source(self) -> None:
        waits = self._source.compared > self._max_allowed
        if waits != self.is_waiting:
            self.is_waiting = waits
            self._on_waiting(waits)

    def _check_split(self, split_id: str) -> None:
        split = self._splits.get(split_id)
        if split is None or split_id in self._idle_splits or split_id in self._paused_splits:
            return
        if split.compared > self._max_allowed:
            self._change_splits([split_id], [])

    def _check_splits(self) -> None:
        to_pause, to_resume = [], []
        for split_id, split in self._splits.items():
            if split_id in self._idle_splits:
                continue
            is_paused = split_id in self._paused_splits
            if split.compared > self._max_allowed:
                if not is_paused:
                    to_pause.append(split_id)
            elif is_paused:
                to_resume.append(split_id)
        if to_pause or to_resume:
            self._change_splits(to_pause, to_resume)

    def _change_splits(self, to_pause: list[str], to_resume: list[str]) -> None:
        self._pause_or_resume(to_pause, to_resume)
        self._paused_splits.update(to_pause)
        self._paused_splits.difference_update(to_resume)
