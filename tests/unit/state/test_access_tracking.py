"""Accesses to keyed state are timed, and their keys and values measured, if that is switched on."""

from __future__ import annotations

from typing import Any

import pytest

from flinkpy.common.clock import ManualClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.key_groups import KeyGroupRange
from flinkpy.common.time import Time
from flinkpy.common.typeinfo import Types
from flinkpy.functions.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flinkpy.metrics.metric_registry import NamedMetricGroup
from flinkpy.metrics.metricbase import Histogram
from flinkpy.state.backend import KeyContext, KeyedStateBackend, KeyedStateBackendParameters
from flinkpy.state.factory import create_keyed_state_backend

SIZES = {"state.size-track.keyed-state-enabled": "true", "state.size-track.sample-interval": "1"}
ON = {"state.latency-track.keyed-state-enabled": "true", "state.latency-track.sample-interval": "2"}


def backend_of(tmp_path: Any, group: NamedMetricGroup | None, **options: str) -> KeyedStateBackend:
    backend = create_keyed_state_backend(
        KeyedStateBackendParameters(
            configuration=Configuration.from_dict(options),
            key_context=KeyContext(),
            key_group_range=KeyGroupRange(0, 127),
            max_parallelism=128,
            key_type=Types.LONG(),
            directory=tmp_path,
            clock=ManualClock(),
            metrics=group,
        )
    )
    backend.key_context.key = 1
    return backend


def counts(group: NamedMetricGroup) -> dict[str, int]:
    return {name: metric.get_count() for name, metric in group.metrics() if isinstance(metric, Histogram)}


@pytest.mark.parametrize("kind", ["hashmap", "rocksdb"])
def test_one_access_of_the_sample_interval_is_timed(tmp_path: Any, kind: str) -> None:
    if kind == "rocksdb":
        pytest.importorskip("rocksdict")
    group = NamedMetricGroup()
    backend = backend_of(tmp_path, group, **{**ON, "state.backend.type": kind})
    try:
        value = backend.value_state(ValueStateDescriptor("v", Types.LONG()))
        for number in range(5):
            value.update(number)
            assert value.value() == number
        entries = backend.map_state(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
        entries.put("a", 1)
        assert entries.get("a") == 1 and entries.contains("a")
        elements = backend.list_state(ListStateDescriptor("l", Types.LONG()))
        elements.add(3)
        assert list(elements.get()) == [3]
        value.clear()
        assert value.value() is None
        assert backend.value_state(ValueStateDescriptor("v", Types.LONG())) is value
        found = counts(group)
        assert found["state_name.v.valueStateUpdateLatency"] == 3
        assert found["state_name.v.valueStateGetLatency"] == 3
        assert found["state_name.v.stateClearLatency"] == found["state_name.m.mapStatePutLatency"] == 1
        assert found["state_name.l.listStateAddLatency"] == 1
    finally:
        backend.close()


def test_states_are_not_tracked_unless_it_is_switched_on(tmp_path: Any) -> None:
    group = NamedMetricGroup()
    state = backend_of(tmp_path, group).value_state(ValueStateDescriptor("v", Types.LONG()))
    state.update(1)
    assert counts(group) == {} and "Tracked" not in type(state).__name__


def test_the_name_of_a_state_may_be_a_plain_part_of_the_scope(tmp_path: Any) -> None:
    group = NamedMetricGroup()
    options = {**ON, "state.latency-track.state-name-as-variable": "false"}
    backend_of(tmp_path, group, **options).value_state(ValueStateDescriptor("v", Types.LONG())).value()
    assert counts(group)["v.valueStateGetLatency"] == 1


def sizes_of(group: NamedMetricGroup) -> dict[str, tuple[float, float]]:
    """Returns the smallest and the largest size of each histogram that has measured something."""
    return {
        name.removeprefix("state_name."): (metric.statistics()["min"], metric.statistics()["max"])
        for name, metric in group.metrics()
        if isinstance(metric, Histogram) and metric.get_count()
    }


@pytest.mark.parametrize("kind", ["hashmap", "rocksdb"])
def test_keys_and_values_are_measured_in_the_form_in_which_they_are_stored(tmp_path: Any, kind: str) -> None:
    if kind == "rocksdb":
        pytest.importorskip("rocksdict")
    group = NamedMetricGroup()
    # The latency is tracked too: both measure the same states.
    backend = backend_of(tmp_path, group, **{**SIZES, **ON, "state.backend.type": kind})
    try:
        value = backend.value_state(ValueStateDescriptor("v", Types.STRING()))
        assert value.value() is None
        value.update("x" * 100)
        assert value.value() == "x" * 100
        entries = backend.map_state(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
        entries.put("abc", 1)
        entries.put_all({"a": 2})
        assert entries.get("abc") == 1 and entries.contains("a") and not entries.is_empty()
        assert sorted(entries.items()) == [("a", 2), ("abc", 1)]
        entries.remove("a")
        elements = backend.list_state(ListStateDescriptor("l", Types.LONG()))
        elements.add_all(iter([3, 4, 5]))
        assert list(elements.get()) == [3, 4, 5]
        elements.clear()
        assert sorted(entries.values()) == [1]
        total = backend.reducing_state(ReducingStateDescriptor("r", lambda a, b: a + b, Types.LONG()))
        total.add(1)
        assert total.get() == 1
        # A number takes 9 bytes; a text one byte more than its length as a value, and five more in a key.
        long, text = 9, 101
        found = sizes_of(group)
        assert {name: size for name, size in found.items() if "Latency" not in name} == {
            "v.valueStateGetKeySize": (long, long),
            "v.valueStateGetValueSize": (0, text),
            "v.valueStateUpdateKeySize": (long, long),
            "v.valueStateUpdateValueSize": (text, text),
            "m.mapStatePutKeySize": (long + 6, long + 8),
            "m.mapStatePutValueSize": (long, long),
            "m.mapStateGetKeySize": (long + 8, long + 8),
            "m.mapStateGetValueSize": (long, long),
            "m.mapStateContainsKeySize": (long + 6, long + 6),
            "m.mapStateIsEmptyKeySize": (long, long),
            "m.mapStateIteratorKeySize": (long + 6, long + 8),
            "m.mapStateIteratorValueSize": (long, long),
            "m.mapStateRemoveKeySize": (long + 6, long + 6),
            "l.listStateAddAllKeySize": (long, long),
            "l.listStateAddAllValueSize": (3 * long, 3 * long),
            "l.listStateGetKeySize": (long, long),
            "l.listStateGetValueSize": (3 * long, 3 * long),
            "r.reducingStateAddKeySize": (long, long),
            "r.reducingStateAddValueSize": (long, long),
            "r.reducingStateGetKeySize": (long, long),
            "r.reducingStateGetValueSize": (long, long),
        }
        assert counts(group)["state_name.v.valueStateUpdateLatency"] == 1
    finally:
        backend.close()


def test_a_value_with_a_time_to_live_is_measured_with_its_time_stamp(tmp_path: Any) -> None:
    group = NamedMetricGroup()
    backend = backend_of(tmp_path, group, **SIZES)
    plain, stamped = ValueStateDescriptor("p", Types.LONG()), ValueStateDescriptor("s", Types.LONG())
    stamped.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    for descriptor in (plain, stamped):
        backend.value_state(descriptor).update(1)
    found = sizes_of(group)
    assert found["s.valueStateUpdateValueSize"][0] > found["p.valueStateUpdateValueSize"][0] == 9


def test_a_value_that_cannot_be_serialized_is_not_measured(tmp_path: Any) -> None:
    group = NamedMetricGroup()
    state = backend_of(tmp_path, group, **SIZES).value_state(ValueStateDescriptor("v", Types.PICKLED_BYTE_ARRAY()))
    unpicklable = (number for number in range(3))
    state.update(unpicklable)
    assert state.value() is unpicklable
    assert "v.valueStateUpdateValueSize" not in sizes_of(group) and "v.valueStateUpdateKeySize" in sizes_of(group)


def test_entries_of_a_map_are_sampled_across_iterations(tmp_path: Any) -> None:
    group = NamedMetricGroup()
    options = {**SIZES, "state.size-track.sample-interval": "4"}
    state = backend_of(tmp_path, group, **options).map_state(MapStateDescriptor("m", Types.LONG(), Types.LONG()))
    state.put_all({number: number for number in range(6)})
    for _ in range(2):
        assert len(list(state.keys())) == 6
    assert counts(group)["state_name.m.mapStateIteratorKeySize"] == 3  # the entries 0, 4 and 8
