"""Generators of the program: their watermarks come directly after the records that caused them, for any batch size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streaming_fakes import OperatorHarness, batch_rows

from flinkpy.common.errors import FunctionError
from flinkpy.common.time import Duration
from flinkpy.common.watermark_strategy import (
    TimestampAssigner,
    Watermark,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)
from flinkpy.graph import operator_specs as specs
from flinkpy.records import elements
from flinkpy.records.batch import Batch

IDLE, ACTIVE = elements.WatermarkStatus(is_idle=True), elements.WatermarkStatus(is_idle=False)


class Punctuated(WatermarkGenerator):
    """Carries out the actions in its records (event time, action)."""

    def on_event(self, event, timestamp, output):
        if event[1] == "watermark":
            output.emit_watermark(Watermark(timestamp))
        elif event[1] == "idle":
            output.mark_idle()
        elif event[1] == "active":
            output.mark_active()
        elif event[1] == "fail":
            raise ValueError(event)

    def on_periodic_emit(self, output):
        return


class CountedPerInterval(WatermarkGenerator):
    def __init__(self):
        self.count = 0

    def on_event(self, event, timestamp, output):
        self.count += 1

    def on_periodic_emit(self, output):
        output.emit_watermark(Watermark(self.count))


class First(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[0]


def generated(supplier, *, interval: str = "200 ms", **settings) -> OperatorHarness:
    strategy = WatermarkStrategy.for_generator(supplier).with_timestamp_assigner(First())
    if "idle_ms" in settings:
        strategy = strategy.with_idleness(Duration.of_millis(settings["idle_ms"]))
    return OperatorHarness(
        specs.TimestampsAndWatermarksSpec(strategy), configuration={"pipeline.auto-watermark-interval": interval}
    )


def stream_of(harness: OperatorHarness) -> list:
    """Records and elements one by one, as a record-at-a-time engine emits them."""
    out = []
    for item in harness.output.items:
        out.extend(batch_rows(item) if isinstance(item, Batch) else [item])
    return out


def test_a_watermark_comes_directly_after_its_record():
    harness = generated(Punctuated)
    harness.process([(1, ""), (5, "watermark"), (6, ""), (7, "idle"), (8, "watermark"), (9, "")])

    assert stream_of(harness) == [
        (1, ""),
        (5, "watermark"),
        elements.Watermark(5),
        (6, ""),
        (7, "idle"),
        IDLE,
        (8, "watermark"),
        ACTIVE,
        elements.Watermark(8),
        (9, ""),
    ]
    assert harness.output.timestamps == [1, 5, 6, 7, 8, 9]


def test_watermarks_that_do_not_advance_do_not_cut_the_batch():
    harness = generated(Punctuated)
    harness.process([(9, "watermark"), (3, "watermark"), (9, "watermark"), (4, ""), (-5, "watermark")])

    assert harness.output.elements == [elements.Watermark(9)]
    assert [len(item) for item in harness.output.items if isinstance(item, Batch)] == [1, 4]


events = st.lists(
    st.tuples(st.integers(-5, 20), st.sampled_from(["", "", "watermark", "idle", "active"])), min_size=1, max_size=30
)


@given(events, st.lists(st.integers(1, 6), max_size=30))
def test_the_output_does_not_depend_on_the_batch_size(records, sizes):
    one_by_one = generated(Punctuated)
    for record in records:
        one_by_one.process([record])
    cut = generated(Punctuated)
    start = 0
    for size in [*sizes, len(records)]:
        if start < len(records):
            cut.process(records[start : start + size])
        start += size

    assert stream_of(cut) == stream_of(one_by_one)
    assert cut.output.timestamps == one_by_one.output.timestamps


def test_periodic_generators_run_at_the_interval_and_never_if_it_is_zero():
    harness = generated(CountedPerInterval)
    harness.process([(0, ""), (0, "")])
    harness.advance(201)
    harness.process([(0, "")])
    harness.advance(201)
    assert harness.output.elements == [elements.Watermark(2), elements.Watermark(3)]

    disabled = generated(CountedPerInterval, interval="0 ms")
    disabled.process([(0, "")])
    disabled.advance(10_000)
    assert disabled.output.elements == []


def test_a_periodic_generator_runs_once_more_at_the_end_of_its_input():
    harness = generated(CountedPerInterval)
    harness.process([(0, "")])
    harness.operator.finish()

    assert harness.output.elements == [elements.Watermark(1)]


def test_a_user_generator_can_have_an_idle_timeout():
    harness = generated(Punctuated, idle_ms=300)
    harness.process([(5, "watermark")])
    for _ in range(4):
        harness.advance(201)
    harness.process([(6, "watermark")])

    assert harness.output.elements == [elements.Watermark(5), IDLE, ACTIVE, elements.Watermark(6)]


def test_a_record_without_a_timestamp_has_the_smallest_one():
    seen = []

    class Sees(Punctuated):
        def on_event(self, event, timestamp, output):
            seen.append((event, timestamp))

    harness = OperatorHarness(specs.TimestampsAndWatermarksSpec(WatermarkStrategy.for_generator(Sees)))
    harness.process(["a"])
    harness.process(["b"], [4])

    assert seen == [("a", elements.MIN_WATERMARK), ("b", 4)]


def test_an_error_of_a_generator_names_the_operator_and_the_expected_result():
    with pytest.raises(FunctionError, match="operator TimestampsAndWatermarksSpec: ValueError"):
        generated(Punctuated).process([(1, ""), (2, "fail")])

    class NoWatermark(Punctuated):
        def on_event(self, event, timestamp, output):
            output.emit_watermark(timestamp)

    with pytest.raises(FunctionError, match="must emit a Watermark, not 1"):
        generated(NoWatermark).process([(1, "")])

    class FailsPeriodically(Punctuated):
        def on_periodic_emit(self, output):
            raise KeyError("x")

    with pytest.raises(FunctionError, match="operator TimestampsAndWatermarksSpec: KeyError"):
        generated(FailsPeriodically).advance(201)
    with pytest.raises(FunctionError, match="must return a WatermarkGenerator, not 7"):
        generated(lambda: 7)


def test_a_wrong_supplier_is_refused_by_for_generator():
    with pytest.raises(TypeError, match="creates a WatermarkGenerator, not"):
        WatermarkStrategy.for_generator(Punctuated())
    with pytest.raises(TypeError, match="creates a WatermarkGenerator, not 5"):
        WatermarkStrategy.for_generator(5)
    with pytest.raises(TypeError, match="abstract"):
        WatermarkOutput()


def test_a_watermark_is_a_64_bit_time():
    assert Watermark(5) == Watermark(5)
    assert len({Watermark(5), Watermark(5), Watermark(6)}) == 2
    assert (Watermark(-1).timestamp, Watermark(-1).get_timestamp()) == (-1, -1)
    assert Watermark.MAX_WATERMARK.timestamp == elements.MAX_WATERMARK
    with pytest.raises(ValueError, match="64 bits"):
        Watermark(1 << 63)
    with pytest.raises(TypeError, match="must be an int"):
        Watermark(1.5)
