"""The task's part of watermark alignment, and the metrics that show which split is behind."""

from __future__ import annotations

from typing import Any

import pytest
from scripted_source import Life, UnpausableReader, monotonous

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.time import Duration
from flinkpy.common.watermark_strategy import WatermarkStrategy
from flinkpy.connector_api.watermark_alignment import ReportedWatermark, WatermarkAlignment
from flinkpy.records.elements import MAX_WATERMARK, WatermarkStatus
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus

IDLE = WatermarkStatus(is_idle=True)
MORE, NOTHING = ActionStatus.MORE, ActionStatus.NOTHING_AVAILABLE


def aligned(drift_ms: int = 10) -> WatermarkStrategy:
    return monotonous().with_watermark_alignment("group", Duration.of_millis(drift_ms), Duration.of_millis(200))


#: Watermarks are compared as they are.
AT_ONCE = {"pipeline.watermark-alignment.buffer-size": "0"}


def test_source_reports_its_watermark_once_it_has_one():
    life = Life(aligned(), configuration=AT_ONCE)
    life.sent.clear()
    life.advance()
    assert life.sent == []
    life.read((None, [100]))
    life.advance(times=2)

    assert life.sent == [ReportedWatermark(99), ReportedWatermark(99)]


def test_source_beyond_the_limit_reads_nothing_until_the_limit_rises():
    life = Life(aligned(), configuration=AT_ONCE)
    life.operator.handle_operator_event(WatermarkAlignment(50))
    life.read((None, [40]))
    life.advance()
    life.read((None, [100]))
    assert life.output.rows == [40, 100], "the watermark is not known yet"
    life.advance()
    life.reader.script.append((None, [101]))
    assert life.operator.emit_next() is NOTHING

    life.operator.handle_operator_event(WatermarkAlignment(98))
    assert life.operator.emit_next() is NOTHING
    life.operator.handle_operator_event(WatermarkAlignment(99))
    assert life.operator.emit_next() is MORE
    assert life.output.rows == [40, 100, 101]


def test_rest_of_a_batch_waits_too():
    life = Life(aligned(), configuration=AT_ONCE, batch_rows=1)
    life.operator.handle_operator_event(WatermarkAlignment(50))
    life.reader.script.append((None, [100, 101]))
    life.operator.emit_next()
    life.advance()

    assert life.operator.emit_next() is NOTHING
    life.operator.handle_operator_event(WatermarkAlignment(MAX_WATERMARK))
    assert life.operator.emit_next() is MORE
    assert life.output.rows == [100, 101]


def test_source_compares_the_limit_with_its_watermark_of_some_intervals_ago():
    life = Life(aligned())
    life.operator.handle_operator_event(WatermarkAlignment(50))
    life.read((None, [100]))
    for _ in range(2):
        life.advance()
        life.read((None, [101]))
    assert life.output.rows == [100, 101, 101]
    life.advance()
    life.reader.script.append((None, [102]))

    assert life.operator.emit_next() is NOTHING


def test_idle_source_reports_the_highest_watermark():
    life = Life(aligned().with_idleness(Duration.of_millis(300)), configuration=AT_ONCE)
    life.read((None, [100]))
    life.advance(times=6)

    assert life.sent[-1] == ReportedWatermark(MAX_WATERMARK)


def test_waiting_source_is_not_idle():
    life = Life(aligned().with_idleness(Duration.of_millis(300)), configuration=AT_ONCE)
    life.operator.handle_operator_event(WatermarkAlignment(50))
    life.read((None, [100]))
    life.advance(times=20)

    assert life.elements == [99]
    assert life.sent[-1] == ReportedWatermark(99)


def test_finished_source_holds_nobody_back():
    life = Life(aligned(), configuration=AT_ONCE)
    life.read((None, [100]))
    life.operator.emit_max_watermark()

    assert life.sent[-1] == ReportedWatermark(MAX_WATERMARK)


def test_split_beyond_the_limit_is_paused_and_the_others_are_read():
    life = Life(aligned(), configuration=AT_ONCE)
    life.add("a", "b")
    life.operator.handle_operator_event(WatermarkAlignment(50))
    life.read(("a", [100]), ("b", [20]))
    life.advance()
    assert life.reader.paused == {"a"}
    life.read(("b", [40]))
    assert life.output.rows == [100, 20, 40]
    life.operator.handle_operator_event(WatermarkAlignment(99))

    assert life.reader.paused == set()


def test_paused_split_is_not_idle_and_a_finished_one_is_forgotten():
    life = Life(aligned().with_idleness(Duration.of_millis(300)), configuration=AT_ONCE)
    life.add("a", "b")
    life.operator.handle_operator_event(WatermarkAlignment(50))
    for timestamp in range(1, 20):
        life.read(("b", [timestamp]), *([("a", [100])] if timestamp == 1 else []))
        life.advance()
    # If the paused split were idle, the next announcement would not resume it; only its next record would.
    assert life.reader.paused == {"a"}
    assert IDLE not in life.elements

    life.read("a")
    life.operator.handle_operator_event(WatermarkAlignment(MAX_WATERMARK))
    assert life.elements[-1] == 18


def test_metrics_show_which_split_is_behind():
    life = Life(aligned().with_idleness(Duration.of_millis(300)), configuration=AT_ONCE)

    def metrics() -> dict[str, Any]:
        return {
            name: metric.get_value()
            for name, metric in life.context.metrics.metrics()
            if hasattr(metric, "get_value") and name != "sourceIdleTime"
        }

    assert metrics() == {}
    life.add("a", "b")
    life.operator.handle_operator_event(WatermarkAlignment(50))
    life.read(("b", [30]), ("a", [100]))
    life.advance()
    now = life.clock.now_ms()
    split_times = {"activeTimeMsPerSecond": 201, "idleTimeMsPerSecond": 0, "pausedTimeMsPerSecond": 0}
    assert metrics() == {
        "currentEmitEventTimeLag": now - 100,
        "watermarkLag": now - 29,
        "watermarkAlignmentDrift": 29 - 50,
        "split.a.watermark.currentWatermark": 99,
        "split.a.watermark.accumulatedActiveTimeMs": 201,
        "split.a.watermark.accumulatedIdleTimeMs": 0,
        "split.a.watermark.accumulatedPausedTimeMs": 0,
        "split.b.watermark.currentWatermark": 29,
        "split.b.watermark.accumulatedActiveTimeMs": 201,
        "split.b.watermark.accumulatedIdleTimeMs": 0,
        "split.b.watermark.accumulatedPausedTimeMs": 0,
        **{f"split.{split}.watermark.{name}": ms for split in ("a", "b") for name, ms in split_times.items()},
    }
    life.advance(times=4)
    assert metrics()["split.a.watermark.accumulatedPausedTimeMs"] == 804
    assert metrics()["split.b.watermark.accumulatedIdleTimeMs"] == 201
    assert metrics()["split.b.watermark.accumulatedActiveTimeMs"] == 804
    life.operator.handle_operator_event(WatermarkAlignment(MAX_WATERMARK))
    life.read("a", "b")
    assert [name for name in metrics() if name.startswith("split.")] == []


def test_reader_that_cannot_pause_splits_fails_unless_unaligned_splits_are_allowed():
    life = Life(aligned(), reader_class=UnpausableReader, configuration=AT_ONCE)
    life.add("a")
    life.operator.handle_operator_event(WatermarkAlignment(50))
    life.read(("a", [100]))
    with pytest.raises(UnsupportedOperationError, match="UnpausableReader cannot pause splits"):
        life.advance()

    allowed = {**AT_ONCE, "pipeline.watermark-alignment.allow-unaligned-source-splits": "true"}
    life = Life(aligned(), reader_class=UnpausableReader, configuration=allowed)
    life.add("a")
    life.operator.handle_operator_event(WatermarkAlignment(50))
    life.read(("a", [100]))
    life.advance()
    assert life.operator.emit_next() is NOTHING
