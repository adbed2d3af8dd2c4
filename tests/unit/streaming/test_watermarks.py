from __future__ import annotations

import pytest
from streaming_fakes import FakeTaskEnvironment, OperatorHarness, make_vertex

from flinkpy.common.errors import FunctionError, TypeMismatchError
from flinkpy.common.time import Duration
from flinkpy.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from flinkpy.graph import operator_specs as specs
from flinkpy.records.elements import MAX_WATERMARK, MIN_WATERMARK, Watermark, WatermarkStatus
from flinkpy.streaming.io.combined_watermark import StatusWatermarkValve
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus
from flinkpy.streaming.tasks.source_stream_task import SourceStreamTask

IDLE, ACTIVE = WatermarkStatus(is_idle=True), WatermarkStatus(is_idle=False)


class ByValue(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


def bounded(ms: int) -> WatermarkStrategy:
    return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(ms)).with_timestamp_assigner(ByValue())


def assigning(strategy: WatermarkStrategy, interval: str = "200 ms") -> OperatorHarness:
    return OperatorHarness(
        specs.TimestampsAndWatermarksSpec(strategy), configuration={"pipeline.auto-watermark-interval": interval}
    )


def test_watermarks_are_periodic_and_emitted_only_if_time_advanced():
    harness = assigning(bounded(5))

    harness.process([100, 90])
    assert harness.output.timestamps == [100, 90]
    assert harness.output.elements == []
    harness.advance(201)
    harness.process([80])
    harness.advance(201)
    harness.process([120])
    harness.advance(201)

    assert harness.output.elements == [Watermark(94), Watermark(114)]


def test_interval_of_zero_emits_only_the_last_watermark():
    harness = assigning(bounded(0), "0 ms")
    harness.process([7])
    harness.advance(10_000)
    assert harness.output.elements == []

    harness.watermark(50)
    harness.watermark(MAX_WATERMARK)
    harness.operator.finish()

    assert harness.output.elements == [Watermark(MAX_WATERMARK)]


def test_stream_without_records_is_idle_until_its_next_watermark():
    harness = assigning(bounded(0).with_idleness(Duration.of_millis(300)))
    harness.process([7])
    # An interval with the record, one that starts the timeout, and then more time than the timeout.
    for _ in range(4):
        assert IDLE not in harness.output.elements
        harness.advance(201)
    assert harness.output.elements == [Watermark(6), IDLE]

    harness.process([8])
    assert harness.output.elements == [Watermark(6), IDLE]
    harness.advance(201)
    assert harness.output.elements == [Watermark(6), IDLE, ACTIVE, Watermark(7)]


def test_stream_stays_idle_if_a_record_does_not_advance_event_time():
    harness = assigning(bounded(0).with_idleness(Duration.of_millis(300)))
    harness.process([7])
    for _ in range(4):
        harness.advance(201)
    harness.process([3])
    for _ in range(6):
        harness.advance(201)

    assert harness.output.elements == [Watermark(6), IDLE]


def test_stream_without_watermarks_or_records_becomes_idle():
    harness = assigning(WatermarkStrategy.no_watermarks().with_idleness(Duration.of_millis(300)))
    for _ in range(4):
        harness.advance(201)

    assert harness.output.elements == [IDLE]


def test_back_pressured_time_does_not_count_as_idle():
    harness = assigning(bounded(0).with_idleness(Duration.of_millis(300)))
    harness.process([7])
    harness.advance(201)
    harness.advance(201)
    for _ in range(10):
        harness.back_pressured_ms += 201
        harness.advance(201)
    assert harness.output.elements == [Watermark(6)]

    harness.advance(201)
    harness.advance(201)
    assert harness.output.elements == [Watermark(6), IDLE]


def test_active_time_stops_during_back_pressure():
    task = SourceStreamTask(FakeTaskEnvironment(make_vertex([])))
    before = task.processing_time_service.active_time_ns()
    task.times.begin_wait(ActionStatus.BLOCKED, task.environment.clock.monotonic_ns())
    task.environment.clock.advance(500)
    task.times.end_wait()
    assert task.processing_time_service.active_time_ns() == before
    task.times.begin_wait(ActionStatus.NOTHING_AVAILABLE, task.environment.clock.monotonic_ns())
    task.environment.clock.advance(30)
    task.times.end_wait()

    assert task.processing_time_service.active_time_ns() == before + 30_000_000


def test_end_of_event_time_is_emitted_on_an_idle_stream():
    harness = assigning(bounded(0).with_idleness(Duration.of_millis(300)))
    for _ in range(4):
        harness.advance(201)
    harness.watermark(MAX_WATERMARK)

    assert harness.output.elements == [IDLE, ACTIVE, Watermark(MAX_WATERMARK)]


@pytest.mark.parametrize(
    ("bound_ms", "timestamps", "watermarks"),
    [
        (0, [-10, -20], [-11]),
        (5, [-10], [-16]),
        (0, [MIN_WATERMARK], []),
        (1_000, [MIN_WATERMARK + 1_000], []),
        (1_000, [MIN_WATERMARK + 1_002], [MIN_WATERMARK + 1]),
        (0, [MAX_WATERMARK], [MAX_WATERMARK - 1]),
    ],
)
def test_watermarks_of_extreme_timestamps_stay_in_64_bits(bound_ms, timestamps, watermarks):
    harness = assigning(bounded(bound_ms))
    harness.process(timestamps)
    harness.advance(201)

    assert harness.output.elements == [Watermark(timestamp) for timestamp in watermarks]


def test_watermarks_without_timestamps_cause_one_warning(caplog):
    harness = assigning(WatermarkStrategy.for_monotonous_timestamps())
    harness.process([1])
    harness.process([2])

    (record,) = caplog.records
    assert "its records have none, so event time does not advance" in record.getMessage()
    harness = assigning(WatermarkStrategy.for_monotonous_timestamps())
    harness.process([1], [100])
    harness.advance(201)
    assert len(caplog.records) == 1
    assert harness.output.elements == [Watermark(99)]


def test_alignment_behind_a_source_causes_a_warning(caplog):
    assigning(bounded(0).with_watermark_alignment("group", Duration.of_millis(1)))

    assert "watermark alignment has no effect here" in caplog.text


def test_no_watermarks_still_assigns_timestamps():
    harness = assigning(WatermarkStrategy.no_watermarks().with_timestamp_assigner(ByValue()))
    harness.process([7])
    harness.advance(1_000)

    assert (harness.output.timestamps, harness.output.elements) == ([7], [])


def test_errors_name_invalid_timestamps_and_failing_assigners():
    with pytest.raises(TypeMismatchError, match="milliseconds as an int, not 'soon'"):
        assigning(bounded(0)).process(["soon"])

    class Fails(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            raise KeyError(value)

    with pytest.raises(FunctionError, match="operator TimestampsAndWatermarksSpec: KeyError"):
        assigning(WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Fails())).process([1])


def test_valve_emits_the_minimum_and_never_decreases():
    valve = StatusWatermarkValve(2)

    assert valve.input_watermark(0, Watermark(10)) == []
    assert valve.input_watermark(1, Watermark(5)) == [Watermark(5)]
    assert valve.input_watermark(1, Watermark(4)) == []
    assert valve.input_watermark(1, Watermark(20)) == [Watermark(10)]


def test_idle_channel_does_not_hold_back_the_watermark():
    valve = StatusWatermarkValve(2)
    valve.input_watermark(0, Watermark(10))

    assert valve.input_status(1, IDLE) == [Watermark(10)]
    assert valve.input_watermark(0, Watermark(30)) == [Watermark(30)]
    # The channel is active again but behind, so it is excluded until it has caught up.
    assert valve.input_status(1, ACTIVE) == []
    assert valve.input_watermark(1, Watermark(20)) == []
    assert valve.input_watermark(0, Watermark(40)) == [Watermark(40)]
    assert valve.input_watermark(1, Watermark(40)) == []
    assert valve.input_watermark(0, Watermark(50)) == []
    assert valve.input_watermark(1, Watermark(45)) == [Watermark(45)]


def test_stream_is_idle_if_all_channels_are_idle():
    valve = StatusWatermarkValve(2)
    valve.input_watermark(0, Watermark(10))
    valve.input_watermark(1, Watermark(20))

    assert valve.input_status(1, IDLE) == []
    assert valve.input_status(0, IDLE) == [Watermark(20), IDLE]
    assert valve.input_status(0, ACTIVE) == [ACTIVE]
