"""Combined watermarks and idleness of several inputs. The reference implements Flink's rule directly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flinkpy.records.elements import MAX_WATERMARK, MIN_WATERMARK, Watermark, WatermarkStatus
from flinkpy.streaming.io.combined_watermark import CombinedInputs, CombinedWatermark, PartialWatermark

IDLE, ACTIVE = WatermarkStatus(is_idle=True), WatermarkStatus(is_idle=False)


def test_combined_watermark_is_the_minimum_of_the_inputs():
    inputs = CombinedInputs(2)

    assert inputs.input_watermark(0, Watermark(10)) == []
    assert inputs.input_watermark(1, Watermark(5)) == [Watermark(5)]
    assert inputs.input_watermark(1, Watermark(7)) == [Watermark(7)]
    assert inputs.input_watermark(1, Watermark(MAX_WATERMARK)) == [Watermark(10)]
    assert inputs.input_watermark(0, Watermark(MAX_WATERMARK)) == [Watermark(MAX_WATERMARK)]


def test_idle_input_does_not_hold_back_the_watermark():
    inputs = CombinedInputs(2)
    inputs.input_watermark(0, Watermark(10))

    assert inputs.input_status(1, IDLE) == [Watermark(10)]
    assert inputs.input_watermark(0, Watermark(12)) == [Watermark(12)]


def test_reactivated_input_holds_back_the_watermark_until_it_has_caught_up():
    inputs = CombinedInputs(2)
    inputs.input_status(1, IDLE)
    inputs.input_watermark(0, Watermark(100))

    assert inputs.input_status(1, ACTIVE) == []
    assert inputs.input_watermark(1, Watermark(50)) == []
    assert inputs.input_watermark(0, Watermark(200)) == []
    assert inputs.input_watermark(1, Watermark(150)) == [Watermark(150)]


def test_highest_watermark_counts_and_idleness_is_emitted_once_if_all_inputs_are_idle():
    inputs = CombinedInputs(3)
    inputs.input_watermark(0, Watermark(10))
    inputs.input_watermark(1, Watermark(30))

    assert inputs.input_status(0, IDLE) == []
    assert inputs.input_status(1, IDLE) == []
    assert inputs.input_status(2, IDLE) == [Watermark(30), IDLE]
    assert inputs.input_status(2, IDLE) == []
    assert inputs.input_status(0, ACTIVE) == [ACTIVE]
    assert inputs.input_watermark(0, Watermark(20)) == []
    assert inputs.input_watermark(0, Watermark(31)) == [Watermark(31)]


def test_ended_input_does_not_hold_back_the_watermark():
    inputs = CombinedInputs(2)
    inputs.input_watermark(1, Watermark(MAX_WATERMARK))

    assert inputs.input_watermark(0, Watermark(3)) == [Watermark(3)]
    assert inputs.input_status(0, IDLE) == [Watermark(MAX_WATERMARK)]


def test_no_parts_means_no_change():
    combined = CombinedWatermark()
    part = PartialWatermark()
    part.advance_to(7)
    assert combined.update([part])

    assert not combined.update([])
    assert (combined.watermark, combined.is_idle) == (7, False)


steps = st.lists(
    st.tuples(st.integers(0, 2), st.one_of(st.integers(-5, 12).map(Watermark), st.sampled_from([IDLE, ACTIVE]))),
    max_size=40,
)


@given(steps)
def test_watermarks_only_advance_and_idleness_only_changes(events):
    inputs = CombinedInputs(3)
    watermarks = [MIN_WATERMARK] * 3
    idle = [False] * 3
    last, was_idle = MIN_WATERMARK, False
    for index, event in events:
        if isinstance(event, Watermark):
            watermarks[index] = max(watermarks[index], event.timestamp)
            idle[index] = False
            out = inputs.input_watermark(index, event)
        else:
            idle[index] = event.is_idle
            out = inputs.input_status(index, event)
        expected = []
        if was_idle and not all(idle):
            expected.append(ACTIVE)
        active = [watermark for watermark, is_idle in zip(watermarks, idle) if not is_idle]
        combined = min(active) if active else max(watermarks)
        if combined > last:
            last = combined
            expected.append(Watermark(combined))
        if all(idle) and not was_idle:
            expected.append(IDLE)
        was_idle = all(idle)
        assert out == expected


def test_an_ignored_input_neither_holds_back_the_watermark_nor_makes_the_operator_idle():
    inputs = CombinedInputs(2, ignored=[1])

    assert inputs.input_watermark(0, Watermark(10)) == [Watermark(10)]
    assert inputs.input_watermark(1, Watermark(50)) == []
    assert inputs.input_status(1, IDLE) == []
    assert inputs.input_status(0, IDLE) == [IDLE]
    assert inputs.watermark_of(1) == 50
