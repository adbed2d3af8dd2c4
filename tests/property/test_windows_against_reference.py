"""Windows agree with an interpreter that processes one record at a time.

This holds for any batches, at every parallelism, and after a restart with another parallelism; for every assigner,
trigger, function and lateness, and on both state backends.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyed_subtasks import Event, KeyedSubtasks, spec_of
from window_reference import Trigger, WindowInterpreter, session, sliding

from flinkpy.common import Time, Types
from flinkpy.datastream import AggregateFunction, OutputTag, ProcessWindowFunction, StreamExecutionEnvironment
from flinkpy.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

MAX_WATERMARK = (1 << 63) - 1
LATE = OutputTag("late")


class Tell(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield key, (window.start, window.end), [element[1] for element in elements]


class Accumulated(ProcessWindowFunction):
    """Emits the single element of a window, which is its accumulator."""

    def process(self, key, context, elements):
        window = context.window()
        (values,) = elements
        yield key, (window.start, window.end), values


class Collected(AggregateFunction):
    """Collects all values in order, so that any change of an accumulator is visible."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        return [*accumulator, value[1]]

    def get_result(self, accumulator):
        return list(accumulator)

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return 1 + element[1] % 5


def milliseconds(value: int) -> Time:
    return Time.milliseconds(value)


@st.composite
def windows(draw: st.DrawFn) -> tuple[Any, Any, bool]:
    """Draws (assigner of the engine, assigner of the interpreter, True if windows merge)."""
    kind = draw(st.sampled_from(["tumbling", "sliding", "session", "dynamic"]))
    size = draw(st.integers(1, 12))
    if kind == "tumbling":
        offset = draw(st.integers(0, size - 1))
        return TumblingEventTimeWindows.of(milliseconds(size), milliseconds(offset)), sliding(size, size, offset), False
    if kind == "sliding":
        slide = draw(st.integers(1, size))
        return SlidingEventTimeWindows.of(milliseconds(size), milliseconds(slide)), sliding(size, slide), False
    if kind == "session":
        return EventTimeSessionWindows.with_gap(milliseconds(size)), session(lambda _: size), True
    return EventTimeSessionWindows.with_dynamic_gap(Gap()), session(lambda value: 1 + value % 5), True


@st.composite
def triggers(draw: st.DrawFn, merges: bool) -> tuple[Any, Trigger]:
    """Draws (trigger of the engine, trigger of the interpreter). None stands for the assigner's default trigger."""
    kind = draw(st.sampled_from(["default", "default", "purging", "count", "purging_count", "continuous"]))
    every = draw(st.integers(1, 4))
    if kind == "purging":
        return PurgingTrigger.of(EventTimeTrigger.create()), Trigger(purges=True)
    if kind == "count":
        return CountTrigger.of(every), Trigger("count", every)
    if kind == "purging_count":
        return PurgingTrigger.of(CountTrigger.of(every)), Trigger("count", every, purges=True)
    if kind == "continuous" and not merges:
        return ContinuousEventTimeTrigger.of(milliseconds(every)), Trigger("continuous", every)
    return None, Trigger()


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Draws out-of-order and late records with increasing watermarks. The last watermark ends event time."""
    value = st.tuples(st.sampled_from("abcd"), st.integers(0, 99))
    watermark = now = 0
    events: list[Event] = []
    for _ in range(draw(st.integers(0, 5))):
        for _ in range(draw(st.integers(0, 6))):
            now += draw(st.integers(0, 4))
            events.append(("record", draw(value), now - draw(st.integers(0, 12))))
        if draw(st.booleans()) and now - 1 > watermark:
            watermark = draw(st.integers(watermark + 1, now))
            events.append(("watermark", watermark))
    return [*events, ("watermark", MAX_WATERMARK)]


def per_key(results: list[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    told: dict[Any, list[Any]] = {}
    for key, payload in results:
        told.setdefault(key, []).append(payload)
    return told


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_windows_fire_as_in_the_reference_for_any_batches_and_subtasks(backend: str) -> None:
    @settings(max_examples=150 if backend == "hashmap" else 20)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        assigner, assign, merges = data.draw(windows())
        trigger, interpreted_trigger = data.draw(triggers(merges))
        lateness = data.draw(st.sampled_from([0, 0, 3, 10]))
        is_aggregated = data.draw(st.booleans())
        events = data.draw(histories())
        over = (
            StreamExecutionEnvironment.get_execution_environment()
            .from_collection([("a", 1)])
            .key_by(lambda record: record[0], key_type=Types.STRING())
            .window(assigner)
            .allowed_lateness(lateness)
            .side_output_late_data(LATE)
        )
        if trigger is not None:
            over = over.trigger(trigger)
        result = over.aggregate(Collected(), Accumulated()) if is_aggregated else over.process(Tell())
        everywhere = set(range(len(events)))
        cuts = data.draw(st.just(everywhere) | st.sets(st.sampled_from(sorted(everywhere))))
        restart_at = data.draw(st.integers(0, len(events)))
        before, after = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))

        configuration = {"state.backend.type": backend}
        with KeyedSubtasks(spec_of(result), before, side_tags=("late",), configuration=configuration) as subtasks:
            subtasks.run(events[:restart_at], cuts)
            subtasks.restart(after)
            # Event time is not part of the state, because the sources send watermarks again.
            reached = [event for event in events[:restart_at] if event[0] == "watermark"][-1:]
            subtasks.run([*reached, *events[restart_at:]], cuts)
            outputs = subtasks.outputs

        reference = WindowInterpreter(assign, merges, interpreted_trigger, lateness)
        for event in events:
            if event[0] == "record":
                _, (key, value), timestamp = event
                reference.record(key, value, timestamp)
            else:
                reference.advance(event[1])
        told = reference.results
        # The elements of merged sessions come in any order. The order of two windows whose timers have the same time is
        # not defined.
        order = sorted if merges else list
        fired = [((key, window), order(values)) for kind, key, (window, values) in told if kind == "fire"]
        assert per_key([((k, w), order(v)) for (k, w, v), _ in outputs[""]]) == per_key(fired)
        assert all(timestamp == window[1] - 1 for (_, window, _), timestamp in outputs[""])
        late = [(key, payload) for kind, key, payload in told if kind == "late"]
        assert per_key([(k, (v, time)) for (k, v), time in outputs["late"]]) == per_key(late)

    check()
