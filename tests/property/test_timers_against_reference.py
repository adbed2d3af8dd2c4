"""Timers and state of a KeyedProcessFunction agree with an interpreter that processes one record at a time, for any
batches, at every parallelism, and after a restart with another parallelism.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyed_subtasks import Event, KeyedSubtasks, spec_of

from flinkpy.common import Types
from flinkpy.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flinkpy.datastream.state import ListStateDescriptor, ValueStateDescriptor

MIN_WATERMARK = -(1 << 63)
MAX_WATERMARK = (1 << 63) - 1

#: The request of a record: (key, action, argument).
ACTIONS = ("register", "delete", "remember", "chain")


class Scripted(KeyedProcessFunction):
    """Carries out the timer request of each record, and emits all that it observes."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.chained = runtime_context.get_state(ValueStateDescriptor("chained", Types.LONG()))

    def process_element(self, value, ctx):
        key, action, argument = value
        timers = ctx.timer_service()
        if action == "register":
            timers.register_event_time_timer(argument)
        elif action == "delete":
            timers.delete_event_time_timer(argument)
        elif action == "remember":
            self.seen.add(argument)
        else:
            self.chained.update(argument)
        yield key, "record", ctx.timestamp(), timers.current_watermark()

    def on_timer(self, timestamp, ctx):
        seen, chained = list(self.seen.get()), self.chained.value()
        if chained:
            # A timer before the watermark fires too, in the same round.
            self.chained.update(chained - 1)
            ctx.timer_service().register_event_time_timer(timestamp + 3)
        if len(seen) > 2:
            self.seen.clear()
        yield ctx.get_current_key(), "timer", timestamp, tuple(seen)


def interpret(events: list[Event]) -> dict[str, list[Any]]:
    """Interprets the events. Returns the output of each key in order."""
    watermark = MIN_WATERMARK
    timers: set[tuple[int, str]] = set()
    seen: dict[str, list[int]] = {}
    chained: dict[str, int] = {}
    results: dict[str, list[Any]] = {}
    for event in events:
        if event[0] == "record":
            _, (key, action, argument), timestamp = event
            if action == "register":
                timers.add((argument, key))
            elif action == "delete":
                timers.discard((argument, key))
            elif action == "remember":
                seen.setdefault(key, []).append(argument)
            else:
                chained[key] = argument
            results.setdefault(key, []).append(((key, "record", timestamp, watermark), timestamp))
            continue
        watermark = max(watermark, event[1])
        while due := [timer for timer in timers if timer[0] <= watermark]:
            time, key = min(due)
            timers.remove((time, key))
            told = tuple(seen.get(key, ()))
            if chained.get(key):
                chained[key] -= 1
                timers.add((time + 3, key))
            if len(told) > 2:
                seen[key] = []
            results.setdefault(key, []).append(((key, "timer", time, told), time))
    return results


def records() -> st.SearchStrategy[Event]:
    times = st.integers(-20, 40)
    action = st.one_of(
        st.tuples(st.sampled_from(["register", "delete"]), times),
        st.tuples(st.just("remember"), st.integers(0, 9)),
        st.tuples(st.just("chain"), st.integers(0, 4)),
    )
    return st.builds(
        lambda key, done, timestamp: ("record", (key, *done), timestamp), st.sampled_from("abcde"), action, times
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Draws records and increasing watermarks. The last watermark fires all timers."""
    watermark = -20
    events: list[Event] = []
    for _ in range(draw(st.integers(0, 6))):
        events += draw(st.lists(records(), max_size=6))
        watermark += draw(st.integers(1, 15))
        events.append(("watermark", watermark))
    return [*events, ("watermark", MAX_WATERMARK)]


def by_key(outputs: list[tuple[Any, int | None]]) -> dict[str, list[Any]]:
    results: dict[str, list[Any]] = {}
    for row, timestamp in outputs:
        results.setdefault(row[0], []).append((row, timestamp))
    return results


SPEC = spec_of(
    StreamExecutionEnvironment.get_execution_environment()
    .from_collection([("a", "chain", 1)])
    .key_by(lambda record: record[0], key_type=Types.STRING())
    .process(Scripted())
)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_timers_fire_as_in_the_reference_for_any_batches_and_subtasks(backend: str) -> None:
    @settings(max_examples=60 if backend == "hashmap" else 12)
    @given(histories(), st.data())
    def check(events: list[Event], data: st.DataObject) -> None:
        everywhere = set(range(len(events)))
        cuts = data.draw(st.just(everywhere) | st.sets(st.sampled_from(sorted(everywhere))))
        restart_at = data.draw(st.integers(0, len(events)))
        before, after = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
        with KeyedSubtasks(SPEC, before, configuration={"state.backend.type": backend}) as subtasks:
            subtasks.run(events[:restart_at], cuts)
            subtasks.restart(after)
            # Event time is not part of the state, because the sources send watermarks again.
            reached = [("watermark", event[1]) for event in events[:restart_at] if event[0] == "watermark"][-1:]
            subtasks.run([*reached, *events[restart_at:]], cuts)

            assert by_key(subtasks.outputs[""]) == interpret(events)

    check()
