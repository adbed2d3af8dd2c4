"""Accesses to keyed state are timed if that is switched on."""

from __future__ import annotations

from typing import Any

import pytest

from flinkpy.common.clock import ManualClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.key_groups import KeyGroupRange
from flinkpy.common.typeinfo import Types
from flinkpy.functions.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkpy.metrics.metric_registry import NamedMetricGroup
from flinkpy.metrics.metricbase import Histogram
from flinkpy.state.backend import KeyContext, KeyedStateBackend, KeyedStateBackendParameters
from flinkpy.state.factory import create_keyed_state_backend

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
