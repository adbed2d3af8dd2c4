"""Watermarks per split of a source, and sources that wait for one another."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_fakes import SourceLife, merged

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.time import Duration
from flinkpy.common.watermark_strategy import TimestampAssigner, Watermark, WatermarkGenerator, WatermarkStrategy
from flinkpy.connector_api.source import AddSplits, Boundedness, NoMoreSplits, ReaderStatus, SourceBase, SourceReader
from flinkpy.connector_api.watermark_alignment import ReportedWatermark, WatermarkAlignment
from flinkpy.connectors.number_sequence import NumberSequenceSource
from flinkpy.records import elements
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, WatermarkStatus
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus

IDLE, ACTIVE = WatermarkStatus(is_idle=True), WatermarkStatus(is_idle=False)
MORE, NOTHING = ActionStatus.MORE, ActionStatus.NOTHING_AVAILABLE


class Split:
    def __init__(self, split_id: str) -> None:
        self.split_id = split_id


class ScriptedReader(SourceReader):
    """Gives what the test puts into `script`: (split id, timestamps), the id of a split that is finished, or a status.

    Every record is its own timestamp.
    """

    names_splits = True

    def __init__(self, context: Any) -> None:
        self.context = context
        self.script: deque[Any] = deque()
        self.splits: list[str] = []
        self.paused: set[str] = set()

    def start(self) -> None:
        return

    def poll_batch(self) -> Batch | ReaderStatus:
        while self.script:
            item = self.script.popleft()
            if isinstance(item, ReaderStatus):
                return item
            if isinstance(item, str):
                self.context.split_finished(item)
                continue
            self.current_split_id, timestamps = item
            return Batch(list(timestamps), np.array(timestamps, dtype=np.int64))
        return ReaderStatus.NOTHING_AVAILABLE

    def add_splits(self, splits: list[Any]) -> None:
        self.splits.extend(split.split_id for split in splits)

    def notify_no_more_splits(self) -> None:
        self.script.append(ReaderStatus.END_OF_INPUT)

    def pause_or_resume_splits(self, splits_to_pause, splits_to_resume):
        self.paused.update(splits_to_pause)
        self.paused.difference_update(splits_to_resume)

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return [Split(split_id) for split_id in self.splits]


class UnpausableReader(ScriptedReader):
    pause_or_resume_splits = SourceReader.pause_or_resume_splits


class ScriptedSource(SourceBase):
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED

    def __init__(self, reader_class=ScriptedReader) -> None:
        self.reader_class = reader_class

    def create_enumerator(self, context):
        raise AssertionError("a task never makes the enumerator")

    def create_reader(self, context):
        return self.reader_class(context)


class Life(SourceLife):
    """A source operator with a strategy; time passes by `advance`."""

    def __init__(self, strategy: WatermarkStrategy, restored=None, reader_class=ScriptedReader, **settings) -> None:
        super().__init__(ScriptedSource(reader_class), restored, strategy=strategy, **settings)
        self.reader = self.operator.reader

    def add(self, *split_ids: str) -> None:
        self.operator.handle_operator_event(AddSplits(tuple(Split(split_id) for split_id in split_ids)))

    def read(self, *script: Any) -> None:
        self.reader.script.extend(script)
        while self.operator.emit_next() is MORE:
            pass

    def advance(self, by_ms: int = 201, times: int = 1) -> None:
        for _ in range(times):
            self.clock.advance(by_ms)
            self.context.processing_time_service.fire_due(self.clock.monotonic_ns())

    @property
    def elements(self) -> list[Any]:
        return [item.timestamp if isinstance(item, elements.Watermark) else item for item in self.output.elements]


def monotonous() -> WatermarkStrategy:
    return WatermarkStrategy.for_monotonous_timestamps()


def test_the_split_that_is_furthest_behind_counts():
    life = Life(monotonous())
    life.add("a", "b")
    life.read(("a", [100, 200]), ("b", [50]))
    life.advance()
    life.read(("b", [120]))
    life.advance()

    assert life.elements == [49, 119]


def test_a_split_without_records_holds_the_others_back_until_it_is_idle():
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
    # It is back and behind: nothing goes back, and it holds the other up again.
    assert life.elements == [101]
    life.read(("b", [150]))
    life.advance()
    assert life.elements == [101, 149]


def test_a_finished_split_leaves_the_minimum_when_all_of_it_has_been_emitted():
    life = Life(monotonous(), batch_rows=2)
    life.add("a", "b")
    life.read(("a", [100]))
    life.reader.script.extend([("b", [10, 20, 30])])
    assert life.operator.emit_next() is MORE
    life.reader.context.split_finished("b")
    life.advance()
    assert life.elements == [19], "a rest of the split is still to be emitted"
    life.read()
    life.advance()

    assert life.elements == [19, 99]


def test_a_split_that_finishes_within_the_poll_that_returns_its_last_batch_counts_to_its_end():
    life = Life(monotonous())
    life.add("a", "b")
    life.read(("a", [100]), "b", ("a", [110]))
    life.advance()

    assert life.elements == [109]


def test_records_without_a_split_and_a_reader_that_names_none_count_as_one_split():
    class Unnamed(ScriptedReader):
        names_splits = False

    life = Life(monotonous(), reader_class=Unnamed)
    life.add("a", "b")
    life.read((None, [100]), (None, [40]))
    life.advance()

    assert life.elements == [99]


def test_a_source_whose_splits_are_all_idle_is_idle_and_the_furthest_counts():
    life = Life(monotonous().with_idleness(Duration.of_millis(300)))
    life.add("a", "b")
    life.read(("a", [100]), ("b", [50]))
    life.advance(times=6)
    assert life.elements == [49, 99, IDLE]

    life.read(("b", [101]))
    life.advance()
    assert life.elements == [49, 99, IDLE, ACTIVE, 100]


def test_time_that_those_downstream_take_does_not_count_as_silence_of_the_other_splits():
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


def test_a_source_without_any_split_is_idle_after_the_timeout():
    life = Life(monotonous().with_idleness(Duration.of_millis(300)))
    life.advance(times=5)

    assert life.elements == [IDLE]


def test_a_source_whose_splits_have_all_finished_becomes_idle_but_not_between_two_splits():
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


def test_without_idleness_a_source_whose_splits_have_finished_stays_active():
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


def test_a_generator_per_event_cuts_a_batch_only_where_the_lowest_split_advances():
    life = Life(WatermarkStrategy.for_generator(EveryRecord))
    life.add("a", "b")
    life.read(("a", [10, 20, 30]), ("b", [5, 7]), ("b", [40]))

    assert [len(batch) for batch in life.output.batches] == [3, 1, 1, 1]
    assert life.elements == [5, 7, 30]


def test_restored_splits_hold_the_watermark_back_from_the_start():
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


def test_a_rest_belongs_to_its_split_after_a_restore_too():
    life = Life(monotonous(), batch_rows=1)
    life.add("a", "b")
    life.reader.script.extend([("b", [50, 60]), ("a", [100])])
    life.operator.emit_next()
    life = Life(monotonous(), merged(life.checkpoint()))
    life.read(("a", [100]))
    life.advance()

    assert (life.output.rows, life.elements) == ([60, 100], [59])


def test_a_split_of_which_only_a_rest_was_left_does_not_hold_others_back_after_a_restore():
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


def test_number_sequences_have_watermarks_per_split_and_end_event_time():
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
    """What a record says with its timestamp: a multiple of 5 is idle, of 7 active, an even one has a watermark."""

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
def test_what_comes_of_several_splits_does_not_depend_on_how_they_were_cut(steps, generator, has_idleness):
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


# -- alignment: the task's half ----------------------------------------------------------------------------------


def aligned(drift_ms: int = 10) -> WatermarkStrategy:
    return monotonous().with_watermark_alignment("group", Duration.of_millis(drift_ms), Duration.of_millis(200))


#: Watermarks are compared as they are.
AT_ONCE = {"pipeline.watermark-alignment.buffer-size": "0"}


def test_a_source_reports_how_far_it_is_but_not_before_it_has_a_watermark():
    life = Life(aligned(), configuration=AT_ONCE)
    life.sent.clear()
    life.advance()
    assert life.sent == []
    life.read((None, [100]))
    life.advance(times=2)

    assert life.sent == [ReportedWatermark(99), ReportedWatermark(99)]


def test_a_source_ahead_of_what_is_allowed_reads_nothing_until_more_is_allowed():
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


def test_rests_wait_too():
    life = Life(aligned(), configuration=AT_ONCE, batch_rows=1)
    life.operator.handle_operator_event(WatermarkAlignment(50))
    life.reader.script.append((None, [100, 101]))
    life.operator.emit_next()
    life.advance()

    assert life.operator.emit_next() is NOTHING
    life.operator.handle_operator_event(WatermarkAlignment(MAX_WATERMARK))
    assert life.operator.emit_next() is MORE
    assert life.output.rows == [100, 101]


def test_a_watermark_counts_some_intervals_later_because_announcements_are_as_old():
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


def test_an_idle_source_reports_that_nobody_needs_to_wait_for_it():
    life = Life(aligned().with_idleness(Duration.of_millis(300)), configuration=AT_ONCE)
    life.read((None, [100]))
    life.advance(times=6)

    assert life.sent[-1] == ReportedWatermark(MAX_WATERMARK)


def test_a_waiting_source_is_not_idle():
    life = Life(aligned().with_idleness(Duration.of_millis(300)), configuration=AT_ONCE)
    life.operator.handle_operator_event(WatermarkAlignment(50))
    life.read((None, [100]))
    life.advance(times=20)

    assert life.elements == [99]
    assert life.sent[-1] == ReportedWatermark(99)


def test_a_source_that_has_ended_holds_nobody_back():
    life = Life(aligned(), configuration=AT_ONCE)
    life.read((None, [100]))
    life.operator.emit_max_watermark()

    assert life.sent[-1] == ReportedWatermark(MAX_WATERMARK)


def test_a_split_ahead_is_paused_and_the_others_are_read():
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


def test_a_paused_split_is_not_idle_and_a_finished_one_is_forgotten():
    life = Life(aligned().with_idleness(Duration.of_millis(300)), configuration=AT_ONCE)
    life.add("a", "b")
    life.operator.handle_operator_event(WatermarkAlignment(50))
    for timestamp in range(1, 20):
        life.read(("b", [timestamp]), *([("a", [100])] if timestamp == 1 else []))
        life.advance()
    # Were the paused split idle, it would be resumed with the next announcement only by its next record.
    assert life.reader.paused == {"a"}
    assert IDLE not in life.elements

    life.read("a")
    life.operator.handle_operator_event(WatermarkAlignment(MAX_WATERMARK))
    assert life.elements[-1] == 18


def test_metrics_tell_which_split_is_behind_and_how_far_everything_is():
    life = Life(aligned().with_idleness(Duration.of_millis(300)), configuration=AT_ONCE)

    def metrics() -> dict[str, Any]:
        return {
            name: metric.get_value() for name, metric in life.context.metrics.metrics() if hasattr(metric, "get_value")
        }

    assert metrics() == {}
    life.add("a", "b")
    life.operator.handle_operator_event(WatermarkAlignment(50))
    life.read(("b", [30]), ("a", [100]))
    life.advance()
    now = life.clock.now_ms()
    assert metrics() == {
        "currentEmitEventTimeLag": now - 100,
        "watermarkLag": now - 29,
        "watermarkAlignmentDrift": 29 - 50,
        "split.a.watermark.currentWatermark": 99,
        "split.a.watermark.accumulatedActiveTimeMs": 0,
        "split.a.watermark.accumulatedIdleTimeMs": 0,
        "split.a.watermark.accumulatedPausedTimeMs": 0,
        "split.b.watermark.currentWatermark": 29,
        "split.b.watermark.accumulatedActiveTimeMs": 0,
        "split.b.watermark.accumulatedIdleTimeMs": 0,
        "split.b.watermark.accumulatedPausedTimeMs": 0,
    }
    life.advance(times=4)
    assert metrics()["split.a.watermark.accumulatedPausedTimeMs"] == 804
    assert metrics()["split.b.watermark.accumulatedIdleTimeMs"] == 201
    assert metrics()["split.b.watermark.accumulatedActiveTimeMs"] == 603
    life.operator.handle_operator_event(WatermarkAlignment(MAX_WATERMARK))
    life.read("a", "b")
    assert [name for name in metrics() if name.startswith("split.")] == []


def test_a_reader_that_cannot_pause_splits_fails_unless_that_is_allowed():
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
