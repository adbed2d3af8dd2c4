from __future__ import annotations

import pytest

from flinkpy.common import Time, Types
from flinkpy.common.errors import UnsupportedOperationError, UserError
from flinkpy.datastream import OutputTag, StreamExecutionEnvironment
from flinkpy.datastream.aggregates import avg, count, count_distinct, max_, mean, stddev_pop, sum_, var_samp
from flinkpy.datastream.compiled import compiled_aggregate
from flinkpy.datastream.expressions import col
from flinkpy.datastream.window import (
    CountEvictor,
    CountTrigger,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
)

BIDS = Types.ROW_NAMED(["auction", "price"], [Types.LONG(), Types.DOUBLE()])
TEN_SECONDS = TumblingEventTimeWindows.of(Time.seconds(10))


@pytest.fixture
def bids():
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection([(1, 2.0)], Types.TUPLE([Types.LONG(), Types.DOUBLE()])).map(tuple, BIDS)


def spec_of(stream):
    return stream.transformation.spec


def test_the_result_has_the_keys_the_window_and_the_aggregates(bids):
    result = bids.key_by("auction").window(TEN_SECONDS).aggregate(n=count(), top=max_("price"), avg=mean("price"))

    assert result.get_type() == Types.ROW_NAMED(
        ["auction", "window_start", "window_end", "n", "top", "avg"],
        [Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG(), Types.DOUBLE(), Types.DOUBLE()],
    )


def test_windows_are_described_to_the_operator(bids):
    keyed = bids.key_by("auction")
    sliding = SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(2), Time.seconds(1))
    tag = OutputTag("late", BIDS)
    windows = keyed.window(sliding).allowed_lateness(500).side_output_late_data(tag).trigger(EventTimeTrigger.create())
    spec = spec_of(windows.aggregate(n=count()))
    assert (spec.size_ms, spec.slide_ms, spec.offset_ms, spec.gap_ms) == (10_000, 2_000, 1_000, None)
    assert (spec.is_event_time, spec.allowed_lateness_ms) == (True, 500)
    assert (spec.late_output_tag, spec.late_output_is_typed) == ("late", True)

    by_clock = SlidingProcessingTimeWindows.of(Time.seconds(10), Time.seconds(2))
    assert not spec_of(keyed.window(by_clock).aggregate(n=count())).is_event_time
    sessions = EventTimeSessionWindows.with_gap(Time.seconds(3))
    assert spec_of(keyed.window(sessions).aggregate(n=count())).gap_ms == 3_000


def test_windows_of_the_whole_stream_run_in_one_subtask(bids):
    result = bids.window_all(TEN_SECONDS).aggregate(n=count())

    assert result.get_type() == Types.ROW_NAMED(["window_start", "window_end", "n"], [Types.LONG()] * 3)
    assert spec_of(result).key_selector.fields == ()
    assert result.transformation.parallelism == 1


class _Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return 5


def test_settings_that_column_aggregates_lack_are_refused(bids):
    keyed = bids.key_by("auction")
    with pytest.raises(UnsupportedOperationError, match="cannot use the trigger"):
        keyed.window(TEN_SECONDS).trigger(CountTrigger.of(3)).aggregate(n=count())
    with pytest.raises(UnsupportedOperationError, match="could evict"):
        keyed.window(TEN_SECONDS).evictor(CountEvictor.of(3)).aggregate(n=count())
    with pytest.raises(UnsupportedOperationError, match="tumbling or sliding windows, or sessions with a fixed gap"):
        keyed.window(GlobalWindows.create()).aggregate(n=count())
    with pytest.raises(UnsupportedOperationError, match="sessions with a fixed gap"):
        keyed.window(DynamicEventTimeSessionWindows(_Gap())).aggregate(n=count())
    with pytest.raises(UserError, match="the key must be columns"):
        bids.key_by(lambda row: row[0]).window(TEN_SECONDS).aggregate(n=count())
    with pytest.raises(UserError, match="two columns 'window_end'"):
        keyed.window(TEN_SECONDS).aggregate(window_end=count())
    with pytest.raises(UserError, match="no column 'size'"):
        keyed.window(TEN_SECONDS).aggregate(n=max_("size"))
    with pytest.raises(TypeError, match="is not an aggregate"):
        keyed.window(TEN_SECONDS).aggregate(n="count")


def test_a_compiled_aggregate_needs_a_merge_if_accumulators_are_merged(bids):
    total = compiled_aggregate("price", initial=0.0, add=lambda acc, price: acc + price, output_type=Types.DOUBLE())
    keyed = bids.key_by("auction")
    result = keyed.window(TEN_SECONDS).aggregate(total=total)
    assert result.get_type().get_field_types()[-1] == Types.DOUBLE()
    for windows in (
        keyed.window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(2))),
        keyed.window(EventTimeSessionWindows.with_gap(Time.seconds(1))),
        keyed.window(TEN_SECONDS).allowed_lateness(1),
    ):
        with pytest.raises(UserError, match=r"aggregate 'total': .* give compiled_aggregate a `merge`"):
            windows.aggregate(total=total)


def test_expressions_and_averages_of_windows_become_selections_around_the_aggregation(bids):
    windows = bids.key_by("auction").window(TEN_SECONDS)
    result = windows.aggregate(total=sum_(col("price") * 2), average=avg("price"), n=count())

    assert result.get_type() == Types.ROW_NAMED(
        ["auction", "window_start", "window_end", "total", "average", "n"],
        [Types.LONG(), Types.LONG(), Types.LONG(), Types.DOUBLE(), Types.DOUBLE(), Types.LONG()],
    )
    whole = bids.window_all(TEN_SECONDS).aggregate(average=avg(col("price") + 1))
    assert whole.get_type().get_field_names() == ["window_start", "window_end", "average"]
    assert whole.get_parallelism() == 1


def test_distinct_counts_and_spreads_have_types_and_refuse_unsupported_columns(bids):
    windows = bids.key_by("auction").window(TEN_SECONDS)
    result = windows.aggregate(d=count_distinct("price"), v=var_samp("auction"), s=stddev_pop("price"))
    assert result.get_type().get_field_types()[3:] == [Types.LONG(), Types.DOUBLE(), Types.DOUBLE()]

    named = bids.map(lambda bid: bid, Types.ROW_NAMED(["k", "tags"], [Types.STRING(), Types.LIST(Types.STRING())]))
    with pytest.raises(UserError, match=r"aggregate 'd': column 'tags' is a .*, and count_distinct takes plain values"):
        named.key_by("k").window(TEN_SECONDS).aggregate(d=count_distinct("tags"))
    with pytest.raises(UserError, match="aggregate 's': column 'k' is a String, not a number"):
        named.key_by("k").window(TEN_SECONDS).aggregate(s=stddev_pop("k"))
    with pytest.raises(UserError, match="with side_output_late_data all aggregates must be of columns"):
        windows.side_output_late_data(OutputTag("late", BIDS)).aggregate(a=avg("price"))
