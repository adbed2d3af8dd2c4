"""Watermarks per split of a source: the lowest one is the watermark of the source."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from operator_fakes import SourceLife, merged
from scripted_source import Life, ScriptedReader, monotonous

from flinkpy.common.time import Duration
from flinkpy.common.watermark_strategy import TimestampAssigner, Watermark, WatermarkGenerator, WatermarkStrategy
from flinkpy.connector_api.source import AddSplits, NoMoreSplits
from flinkpy.connectors.number_sequence import NumberSequenceSource
from flinkpy.records import elements
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, WatermarkStatus
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus

IDLE, ACTIVE = WatermarkStatus(is_idle=True), WatermarkStatus(is_idle=False)
MORE = ActionStatus.MORE


def test_slowest_split_determines_the_watermark():
    life = Life(monotonous())
    life.add("a", "b")
    life.read(("a", [100, 200]), ("b", [50]))
    life.advance()
    life.read(("b", [120]))
    life.advance()

    assert life.elements == [49, 119]


def test_split_without_records_holds_the_others_back_until_it_is_idle():
    life = Life(monotonous().with_idleness(Duration.of_millis(300)))
    life.add("a", "b")
    for timestamp in range(100, 110):
        life.read(("a", [timestamp]))
        life.advance()
        if life.elements:
            break

    assert (timestamp, life.elements) == (102, [101])
    life.read(("b", [50]), ("a", [200]))
    life.advance()
    # The split is active again and behind. The watermark does not go back, and the split holds it back again.
    assert life.elements == [101]
    life.read(("b", [150]))
    life.advance()
    assert life.elements == [101, 149]


def test_finished_split_stops_counting_when_all_its_records_are_emitted():
    life = Life(monotonous(), batch_rows=2)
    life.add("a", "b")
    life.read(("a", [100]))
    life.reader.script.extend([("b", [10, 20, 30])])
    assert life.operator.emit_next() is MORE
    life.reader.context.split_finished("b")
    life.advance()
    assert life.elements == [19], "the rest of the batch has not been emitted"
    life.read()
    life.advance()

    assert life.elements == [19, 99]


def test_split_that_finishes_in_its_last_poll_counts_to_its_end():
    life = Life(monotonous())
    life.add("a", "b")
    life.read(("a", [100]), "b", ("a", [110]))
    life.advance()

    assert life.elements == [109]


def test_records_without_a_split_count_as_one_split():
    class Unnamed(ScriptedReader):
        names_splits = False

    life = Life(monotonous(), reader_class=Unnamed)
    life.add("a", "b")
    life.read((None, [100]), (None, [40]))
    life.advance()

    assert life.elements == [99]


def test_source_with_only_idle_splits_is_idle_at_the_highest_watermark():
    life = Life(monotonous().with_idleness(Duration.of_millis(300)))
    life.add("a", "b")
    life.read(("a", [100]), ("b", [50]))
    life.advance(times=6)
    assert life.elements == [49, 99, IDLE]

    life.read(("b", [101]))
    life.advance()
    assert life.elements == [49, 99, IDLE, ACTIVE, 100]


def test_back_pressure_does_not_make_other_splits_idle():
    life = Life(monotonous().with_idleness(Duration.of_millis(300)))
    life.add("a", "b")
    emit = life.output.emit

    def slowly(batch: Batch) -> None:
        emit(batch)
        life.clock.advance(1_000)

    life.output.emit = slowly
    life.operator.output = life.output
    life.read(("b", [5]))
    for timestamp in range(100, 110):
        life.read(("a", [timestamp]))
        life.advance(10)

    assert life.elements == [4]


def test_source_without_splits_is_idle_after_the_timeout():
    life = Life(monotonous().with_idleness(Duration.of_millis(300)))
    life.advance(times=5)

    assert life.elements == [IDLE]


def test_source_becomes_idle_after_its_last_split_but_not_between_two_splits():
    life = Life(monotonous().with_idleness(Duration.of_millis(300)))
    life.add("a")
    life.read(("a", [100]), "a")
    life.advance()
    life.add("b")
    life.read(("b", [200]))
    life.advance(times=2)
    assert life.elements == [199]
    life.read("b")
    life.advance(times=5)
    assert life.elements == [199, IDLE]


def test_source_without_idleness_stays_active_after_its_last_split():
    life = Life(monotonous())
    life.add("a")
    life.read(("a", [100]))
    life.advance()
    life.read("a")
    life.advance(times=20)

    assert life.elements == [99]


class EveryRecord(WatermarkGenerator):
    def on_event(self, event, timestamp, output):
        output.emit_watermark(Watermark(timestamp))

    def on_periodic_emit(self, output):
        return


def test_generator_per_event_cuts_a_batch_only_where_the_slowest_split_advances():
    life = Life(WatermarkStrategy.for_generator(EveryRecord))
    life.add("a", "b")
    life.read(("a", [10, 20, 30]), ("b", [5, 7]), ("b", [40]))

    assert [len(batch) for batch in life.output.batches] == [3, 1, 1, 1]
    assert life.elements == [5, 7, 30]


def test_restored_splits_hold_back_the_watermark_from_the_start():
    life = Life(monotonous())
    life.add("a", "b")
    state = life.checkpoint()
    life = Life(monotonous(), state)
    life.read(("a", [100]))
    life.advance()
    assert life.elements == []
    life.read(("b", [50]))
    life.advance()

    assert life.elements == [49]


def test_restored_rest_of_a_batch_belongs_to_its_split():
    life = Life(monotonous(), batch_rows=1)
    life.add("a", "b")
    life.reader.script.extend([("b", [50, 60]), ("a", [100])])
    life.operator.emit_next()
    life = Life(monotonous(), merged(life.checkpoint()))
    life.read(("a", [100]))
    life.advance()

    assert (life.output.rows, life.elements) == ([60, 100], [59])


def test_restored_split_with_only_a_rest_of_a_batch_does_not_hold_others_back():
    life = Life(monotonous(), batch_rows=1)
    life.add("a", "b")
    life.reader.script.extend([("b", [50, 60])])
    life.operator.emit_next()
    life.reader.context.split_finished("b")
    life.reader.splits.remove("b")
    life = Life(monotonous(), life.checkpoint())
    life.read(("a", [100]))
    life.advance()

    assert (life.output.rows, life.elements) == ([60, 100], [99])


def test_number_sequence_has_watermarks_per_split_and_ends_event_time():
    class Itself(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value

    source = NumberSequenceSource(1, 10)
    life = SourceLife(source, strategy=monotonous().with_timestamp_assigner(Itself()))
    life.operator.handle_operator_event(AddSplits(tuple(source.split(2))))
    life.emit()
    life.operator.handle_operator_event(NoMoreSplits())
    assert life.operator.emit_next() is ActionStatus.END
    life.operator.emit_max_watermark()

    assert life.output.elements == [elements.Watermark(MAX_WATERMARK)]


class Marked(EveryRecord):
    """Reacts to timestamps: a multiple of 5 marks idle, one of 7 marks active, an even one emits a watermark."""

    def on_event(self, event, timestamp, output):
        if timestamp % 5 == 0:
            output.mark_idle()
        elif timestamp % 7 == 0:
            output.mark_active()
        elif timestamp % 2 == 0:
            output.emit_watermark(Watermark(timestamp))


readings = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("abc"), st.lists(st.integers(-3, 40), min_size=1, max_size=8)), st.just("interval")
    ),
    max_size=25,
)


@settings(deadline=None)
@given(readings, st.sampled_from([Marked, None]), st.booleans())
def test_output_of_several_splits_does_not_depend_on_the_batches(steps, generator, has_idleness):
    strategy = monotonous() if generator is None else WatermarkStrategy.for_generator(generator)
    if has_idleness:
        strategy = strategy.with_idleness(Duration.of_millis(300))
    whole, single = Life(strategy), Life(strategy)
    for life in (whole, single):
        life.add("a", "b")
        for step in steps:
            if step == "interval":
                life.advance()
            elif life is whole:
                life.read(step)
            else:
                for timestamp in step[1]:
                    life.read((step[0], [timestamp]))

    def stream(life: Life) -> list[Any]:
        return [row for item in life.output.items for row in (item.values if isinstance(item, Batch) else [item])]

    assert stream(whole) == stream(single)
