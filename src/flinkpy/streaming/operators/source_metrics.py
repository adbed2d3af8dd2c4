"""SourceMetrics: the event-time lag of a source, in total and per split.

Source: org.apache.flink.runtime.metrics.groups.{InternalSourceReaderMetricGroup,InternalSourceSplitMetricGroup}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy.records.elements import MIN_WATERMARK
from flinkpy.streaming.operators.watermark_outputs import WatermarkListener

if TYPE_CHECKING:
    from flinkpy.common.clock import Clock
    from flinkpy.metrics.metric_registry import NamedMetricGroup
    from flinkpy.records.batch import Batch

#: Names of the subgroups: `split.<id>.watermark`.
_SPLIT, _WATERMARK = "split", "watermark"


class SourceMetrics:
    """Registers the metrics of a source. Passes all events on to another WatermarkListener.

    The event-time metrics appear with the first timestamp or watermark. A source without watermarks has none.
    Thread: task thread. Any thread may read the gauges.
    """

    def __init__(self, group: NamedMetricGroup, clock: Clock, inner: WatermarkListener) -> None:
        self._group = group
        self._clock = clock
        self._inner = inner
        self._watermark = MIN_WATERMARK
        self._max_allowed: int | None = None
        self._last_batch: Batch | None = None
        self._fetch_lag_ms: int | None = None
        self._splits: dict[str, _SplitMetrics] = {}

    def on_batch(self, batch: Batch, fetch_time_ms: int | None) -> None:
        """Records that the source has emitted the batch, whose records arrived at the given time if it is known."""
        if batch.timestamps is not None:
            if self._last_batch is None:
                self._group.gauge("currentEmitEventTimeLag", self._emit_lag_ms)
            self._last_batch = batch
            if fetch_time_ms is not None:
                if self._fetch_lag_ms is None:
                    self._group.gauge("currentFetchEventTimeLag", lambda: self._fetch_lag_ms)
                self._fetch_lag_ms = fetch_time_ms - int(batch.timestamps[-1])

    def on_allowed(self, max_watermark: int) -> None:
        """Sets the maximum watermark that alignment allows. The drift is positive if the source is ahead of it."""
        if self._max_allowed is None:
            self._group.gauge("watermarkAlignmentDrift", lambda: self._watermark - (self._max_allowed or 0))
        self._max_allowed = max_watermark

    def on_watermark(self, timestamp: int) -> None:
        if self._watermark == MIN_WATERMARK:
            self._group.gauge("watermarkLag", lambda: self._clock.now_ms() - self._watermark)
        self._watermark = timestamp
        self._inner.on_watermark(timestamp)

    def on_idle(self, is_idle: bool) -> None:
        self._inner.on_idle(is_idle)

    def on_split_watermark(self, split_id: str, timestamp: int) -> None:
        self._split(split_id).watermark = timestamp
        self._inner.on_split_watermark(split_id, timestamp)

    def on_split_idle(self, split_id: str, is_idle: bool) -> None:
        self._split(split_id).set_idle(is_idle)
        self._inner.on_split_idle(split_id, is_idle)

    def on_splits_paused(self, paused: list[str], resumed: list[str]) -> None:
        for split_id in paused:
            self._split(split_id).set_paused(True)
        for split_id in resumed:
            self._split(split_id).set_paused(False)

    def on_split_added(self, split_id: str) -> None:
        """Registers the metrics of a split before its first record, so that a silent split can be seen."""
        self._split(split_id)

    def on_split_finished(self, split_id: str) -> None:
        if self._splits.pop(split_id, None) is not None:
            self._group.remove_group(_SPLIT, split_id)

    def _split(self, split_id: str) -> _SplitMetrics:
        split = self._splits.get(split_id)
        if split is None:
            group = self._group.add_group(_SPLIT, split_id).add_group(_WATERMARK)
            split = self._splits[split_id] = _SplitMetrics(group, self._clock)
        return split

    def _emit_lag_ms(self) -> int:
        batch = self._last_batch
        assert batch is not None
        assert batch.timestamps is not None
        return self._clock.now_ms() - int(batch.timestamps[-1])


class _SplitMetrics:
    """The metrics of one split."""

    def __init__(self, group: NamedMetricGroup, clock: Clock) -> None:
        self.watermark = MIN_WATERMARK
        self._idle, self._paused = _Stopwatch(clock), _Stopwatch(clock)
        self._life = _Stopwatch(clock)
        self._life.run()
        group.gauge("currentWatermark", lambda: self.watermark)
        for name, read in (
            ("Active", lambda: max(0, self._life.total_ms - self._idle.total_ms - self._paused.total_ms)),
            ("Idle", lambda: self._idle.total_ms),
            ("Paused", lambda: self._paused.total_ms),
        ):
            group.gauge(f"accumulated{name}TimeMs", read)
            group.time_of(f"{name.lower()}TimeMsPerSecond", read)

    def set_idle(self, is_idle: bool) -> None:
        self._idle.run() if is_idle else self._idle.stop()

    def set_paused(self, is_paused: bool) -> None:
        self._paused.run() if is_paused else self._paused.stop()


class _Stopwatch:
    """Measures the total time between calls of `run` and `stop`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._before_ms = 0
        self._since_ms: int | None = None

    @property
    def total_ms(self) -> int:
        since_ms = self._since_ms
        return self._before_ms if since_ms is None else self._before_ms + self._clock.monotonic_ms() - since_ms

    def run(self) -> None:
        if self._since_ms is None:
            self._since_ms = self._clock.monotonic_ms()

    def stop(self) -> None:
        self._before_ms, self._since_ms = self.total_ms, None
