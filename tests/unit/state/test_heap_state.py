from __future__ import annotations

import pytest
from memory_checkpoints import parameters

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.functions import AggregateFunction
from flinkpy.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinkpy.state.heap_backend import HeapKeyedStateBackend
from flinkpy.state.operator_state import OperatorStateBackend


class Longest(AggregateFunction):
    def create_accumulator(self):
        return ""

    def add(self, value, accumulator):
        return max(value, accumulator, key=len)

    def get_result(self, accumulator):
        return len(accumulator)

    def merge(self, acc_a, acc_b):
        return max(acc_a, acc_b, key=len)


@pytest.fixture
def backend():
    backend = HeapKeyedStateBackend(parameters())
    backend.key_context.key = "a"
    return backend


def test_value_state_is_none_until_set_and_after_none(backend):
    state = backend.value_state(ValueStateDescriptor("v", Types.INT()))
    assert state.value() is None

    state.update(0)
    assert state.value() == 0
    state.update(None)
    assert state.value() is None
    assert backend.num_entries() == 0
    state.clear()


def test_reducing_and_aggregating_state_start_empty(backend):
    reducing = backend.reducing_state(ReducingStateDescriptor("r", max, Types.INT()))
    aggregating = backend.aggregating_state(AggregatingStateDescriptor("g", Longest(), Types.STRING()))
    assert reducing.get() is None
    assert aggregating.get() is None
    for number, word in [(3, "ab"), (1, "abc"), (2, "x")]:
        reducing.add(number)
        aggregating.add(word)

    assert reducing.get() == 3
    assert aggregating.get() == 3
    reducing.clear()
    assert reducing.get() is None


def test_states_are_separated_by_key_and_name(backend):
    one = backend.value_state(ValueStateDescriptor("one", Types.INT()))
    two = backend.value_state(ValueStateDescriptor("two", Types.INT()))
    one.update(1)
    backend.key_context.key = "b"
    one.update(2)

    assert two.value() is None
    assert sorted(backend.keys("one")) == ["a", "b"]
    assert backend.value_state(ValueStateDescriptor("one", Types.INT())) is one


def test_a_name_belongs_to_one_kind_of_state(backend):
    backend.value_state(ValueStateDescriptor("s", Types.INT()))

    with pytest.raises(
        UnsupportedOperationError, match="'s' is already a value state; it cannot be requested as a list state"
    ):
        backend.list_state(ListStateDescriptor("s", Types.INT()))


def test_operator_state_belongs_to_the_subtask():
    backend = OperatorStateBackend()
    elements = backend.get_list_state(ListStateDescriptor("offsets", Types.LONG()))
    elements.add(1)
    elements.add_all([2])
    rules = backend.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.STRING()))
    rules["a"] = "b"

    assert backend.get_list_state(ListStateDescriptor("offsets", Types.LONG())).get() == [1, 2]
    assert ("a" in rules, rules.get("c"), rules.items()) == (True, None, [("a", "b")])
    with pytest.raises(
        UnsupportedOperationError,
        match="'offsets' is already a SPLIT_DISTRIBUTE state; it cannot be requested as UNION",
    ):
        backend.get_union_list_state(ListStateDescriptor("offsets", Types.LONG()))
