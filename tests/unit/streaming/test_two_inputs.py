"""Functions of two streams, with and without keys, and broadcast state, also across a checkpoint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from streaming_fakes import FakeTaskStateManager, OperatorHarness

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import FlinkError, FunctionError, UnsupportedOperationError
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeySelector,
)
from flinkpy.datastream.output_tag import OutputTag
from flinkpy.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flinkpy.graph import operator_specs as specs
from flinkpy.records.batch import Batch
from flinkpy.streaming.checkpoint.subtask_checkpoint_coordinator import write_states

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
LATE = OutputTag("late", Types.STRING())


class First(KeySelector):
    def get_key(self, value):
        return value[0]


class Last(KeySelector):
    def get_key(self, value):
        return value[-1]


def feed(harness: OperatorHarness, input_index: int, rows: list[Any], timestamps: list[int] | None = None) -> list[Any]:
    times = None if timestamps is None else np.array(timestamps, dtype=np.int64)
    harness.operator.process_batch(Batch(rows, times), input_index)
    return harness.output.rows


def restarted(harness: OperatorHarness, spec: specs.OperatorSpec) -> OperatorHarness:
    """Returns an operator restored from a checkpoint of that one."""
    files = harness.environment.state.files
    snapshots = harness.operator.snapshots(1, checkpoint_pb2.CheckpointOptions())
    snapshot = checkpoint_pb2.TaskStateSnapshot()
    for operator_id, state in write_states(snapshots, files).items():
        snapshot.operators[operator_id].CopyFrom(state)
    return OperatorHarness(spec, state=FakeTaskStateManager(snapshot, files=files))


class Scale(CoMapFunction):
    def map1(self, value):
        return None if value < 0 else value * 2

    def map2(self, value):
        return str(value)


class Words(CoFlatMapFunction):
    def flat_map1(self, value):
        yield from value.split()

    def flat_map2(self, value):
        return None if value == 0 else [value] * value


class Sides(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield ("first", value, ctx.timestamp(), ctx.timer_service().current_watermark())

    def process_element2(self, value, ctx):
        yield LATE, str(value)


def test_a_co_map_that_returns_none_drops_the_record():
    harness = OperatorHarness(specs.CoProcessSpec(Scale(), "MAP"))

    feed(harness, 0, [1, -1, 2])
    assert feed(harness, 1, [7]) == [2, 4, "7"]


def test_a_co_flat_map_emits_any_number_of_results():
    harness = OperatorHarness(specs.CoProcessSpec(Words(), "FLAT_MAP"))

    feed(harness, 0, ["a b", ""])
    assert feed(harness, 1, [0, 2]) == ["a", "b", 2, 2]


def test_a_co_process_function_has_time_and_side_outputs():
    harness = OperatorHarness(specs.CoProcessSpec(Sides()), side_tags=("late",))
    harness.watermark(3)

    feed(harness, 0, [1], [5])
    feed(harness, 1, [2], [6])

    assert harness.output.rows == [("first", 1, 5, 3)]
    assert harness.output.timestamps == [5]
    assert harness.side["late"].rows == ["2"]


def test_an_unknown_kind_is_refused():
    with pytest.raises(UnsupportedOperationError, match="unknown kind 'ZIP'"):
        OperatorHarness(specs.CoProcessSpec(Scale(), "ZIP"))


class Join(KeyedCoProcessFunction):
    """Keeps the last left value of a key; a right one without it sets a timer that gives up."""

    def open(self, runtime_context):
        self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.LONG()))
        self.right = runtime_context.get_state(ValueStateDescriptor("right", Types.LONG()))

    def process_element1(self, value, ctx):
        self.left.update(value[1])
        waiting = self.right.value()
        if waiting is not None:
            self.right.clear()
            yield (ctx.get_current_key(), value[1], waiting)

    def process_element2(self, value, ctx):
        left = self.left.value()
        if left is None:
            self.right.update(value[0])
            ctx.timer_service().register_event_time_timer(100)
        else:
            yield (ctx.get_current_key(), left, value[0])

    def on_timer(self, timestamp, ctx):
        if self.right.value() is not None:
            yield (ctx.get_current_key(), timestamp, "nobody")


def join_spec():
    return specs.KeyedCoProcessSpec(Join(), (First(), Last()))


def test_two_keyed_streams_share_state_and_timers_across_a_checkpoint():
    harness = OperatorHarness(join_spec())
    feed(harness, 0, [("a", 1)])
    feed(harness, 1, [(10, "a"), (20, "b"), (30, "c")])
    assert harness.output.rows == [("a", 1, 10)]

    again = restarted(harness, join_spec())
    feed(again, 0, [("b", 2)])
    feed(again, 1, [(11, "a")])
    again.watermark(100)

    assert again.output.rows == [("b", 2, 20), ("a", 1, 11), ("c", 100, "nobody")]
    assert again.output.timestamps == [None, None, 100]


class KeyedScale(CoMapFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("n", Types.LONG()))

    def map1(self, value):
        self.count.update((self.count.value() or 0) + 1)
        return (value, self.count.value())

    map2 = map1


def test_a_co_map_of_keyed_streams_has_keyed_state():
    harness = OperatorHarness(specs.KeyedCoProcessSpec(KeyedScale(), (First(), First()), "MAP"))

    feed(harness, 0, [("a",), ("b",)])
    assert feed(harness, 1, [("a",)]) == [(("a",), 1), (("b",), 1), (("a",), 2)]


class Rules(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        rules = ctx.get_broadcast_state(RULES)
        if value == "write":
            rules.put("x", 1)
        yield (value, rules.get(value), value in rules, sorted(rules), ctx.current_watermark())

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)
        yield ("rule", value[0], ctx.timestamp(), ctx.current_processing_time())


def test_broadcast_state_is_written_on_one_side_and_read_on_the_other_across_a_checkpoint():
    spec = specs.BroadcastProcessSpec(Rules(), (RULES,))
    harness = OperatorHarness(spec)
    harness.watermark(7)
    feed(harness, 1, [("a", 5)], [3])
    feed(harness, 0, ["a", "b"])

    assert harness.output.rows == [("rule", "a", 3, 1_000), ("a", 5, True, ["a"], 7), ("b", None, False, ["a"], 7)]
    assert feed(restarted(harness, spec), 0, ["a"])[0][:2] == ("a", 5)


def test_the_side_that_is_not_broadcast_cannot_change_broadcast_state():
    harness = OperatorHarness(specs.BroadcastProcessSpec(Rules(), (RULES,)))

    with pytest.raises(UnsupportedOperationError, match="broadcast state 'rules' is read-only here"):
        feed(harness, 0, ["write"])


def test_an_unknown_broadcast_state_is_named():
    other = MapStateDescriptor("other", Types.STRING(), Types.LONG())
    harness = OperatorHarness(specs.BroadcastProcessSpec(Rules(), (other,)))

    with pytest.raises(
        UnsupportedOperationError, match=r"there is no broadcast state 'rules': the stream was broadcast with other"
    ):
        feed(harness, 0, ["a"])


class KeyedRules(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(50)
        factor = ctx.get_broadcast_state(RULES).get("factor") or 1
        yield (ctx.get_current_key(), self.count.value() * factor)

    def process_broadcast_element(self, value, ctx):
        if value == "count":
            yield self.count.value()
        else:
            ctx.get_broadcast_state(RULES).put(*value)

    def on_timer(self, timestamp, ctx):
        factor = ctx.get_broadcast_state(RULES).get("factor")
        yield ("timer", ctx.get_current_key(), ctx.time_domain().name, factor, ctx.current_watermark())


def keyed_rules():
    return specs.KeyedBroadcastProcessSpec(First(), KeyedRules(), (RULES,))


def test_a_keyed_function_with_broadcast_state_resumes_from_a_checkpoint():
    harness = OperatorHarness(keyed_rules())
    feed(harness, 0, ["a", "b"])
    feed(harness, 1, [("factor", 10)])
    again = restarted(harness, keyed_rules())

    assert feed(again, 0, ["a"]) == [("a", 20)]
    again.watermark(50)
    assert sorted(again.output.rows[1:]) == [("timer", "a", "EVENT_TIME", 10, 50), ("timer", "b", "EVENT_TIME", 10, 50)]


def test_keyed_state_is_refused_on_the_broadcast_side():
    harness = OperatorHarness(keyed_rules())
    feed(harness, 0, ["a"])

    with pytest.raises(FlinkError, match="process_broadcast_element has no key"):
        feed(harness, 1, ["count"])

    assert feed(harness, 0, ["a"])[-1] == ("a", 2)


def test_a_failing_side_is_named():
    harness = OperatorHarness(specs.BroadcastProcessSpec(Rules(), (RULES,)))

    with pytest.raises(FunctionError, match="operator BroadcastProcessSpec: TypeError"):
        feed(harness, 1, [5])
