"""The accumulators of a task: functions register them, and they are pickled only between batches."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import pytest

from flinkpy.common.accumulators import Accumulator, AccumulatorFailure, Histogram, IntCounter
from flinkpy.common.clock import ManualClock
from flinkpy.common.errors import StateRestoreError, UnsupportedOperationError
from flinkpy.streaming.operators import accumulator_registry
from flinkpy.streaming.operators.accumulator_registry import AccumulatorRegistry


class Locked(Accumulator[int, int]):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def add(self, value: int) -> None:
        return

    def get_local_value(self) -> int:
        return 0

    def reset_local(self) -> None:
        return

    def merge(self, other: Any) -> None:
        return


@pytest.fixture
def registry() -> AccumulatorRegistry:
    return AccumulatorRegistry(ManualClock(1_000))


def test_a_name_can_be_added_once_per_task(registry: AccumulatorRegistry) -> None:
    registry.add("n", IntCounter())
    with pytest.raises(UnsupportedOperationError, match="'n' already exists"):
        registry.add("n", IntCounter())


def test_only_accumulators_can_be_added(registry: AccumulatorRegistry) -> None:
    with pytest.raises(TypeError, match="'n' must be an Accumulator, not a int"):
        registry.add("n", 3)  # type: ignore[arg-type]


def test_get_or_add_returns_the_existing_counter_and_refuses_another_kind(registry: AccumulatorRegistry) -> None:
    counter = registry.get_or_add("n", IntCounter)
    assert registry.get_or_add("n", IntCounter) is counter
    assert registry.get("n") is counter
    assert registry.get("m") is None
    with pytest.raises(UnsupportedOperationError, match="'n' is a IntCounter, not a Histogram"):
        registry.get_or_add("n", Histogram)


def test_a_snapshot_contains_the_values_at_its_time(registry: AccumulatorRegistry) -> None:
    counter = registry.get_or_add("n", IntCounter)
    counter.add(3)
    assert registry.snapshot == {}
    registry.take_snapshot()
    counter.add(1)
    assert pickle.loads(registry.snapshot["n"]).get_local_value() == 3


def test_a_snapshot_is_requested_once_and_not_too_often() -> None:
    clock = ManualClock(1_000)
    registry = AccumulatorRegistry(clock)
    assert not registry.wants_snapshot()  # there are no accumulators
    registry.get_or_add("n", IntCounter)
    assert registry.wants_snapshot()
    assert not registry.wants_snapshot()
    registry.take_snapshot()
    assert not registry.wants_snapshot()
    clock.advance(1_000)
    assert registry.wants_snapshot()


def test_an_accumulator_that_cannot_be_pickled_is_reported_as_a_failure(registry: AccumulatorRegistry) -> None:
    registry.add("bad", Locked())
    registry.get_or_add("good", IntCounter).add(2)
    registry.take_snapshot()
    failure = pickle.loads(registry.snapshot["bad"])
    assert isinstance(failure, AccumulatorFailure) and "cannot be pickled" in failure.reason
    assert pickle.loads(registry.snapshot["good"]).get_local_value() == 2


def test_restored_accumulators_are_merged_into_registered_ones(registry: AccumulatorRegistry) -> None:
    before = AccumulatorRegistry(ManualClock(0))
    for number in (1, 2):
        before.get_or_add("counted", IntCounter).add(number)
        before.get_or_add("not registered again", IntCounter).add(10)
    before.take_snapshot()
    other = AccumulatorRegistry(ManualClock(0))
    other.get_or_add("counted", IntCounter).add(100)
    other.take_snapshot()
    registry.restore([before.snapshot, other.snapshot])
    registry.get_or_add("counted", IntCounter).add(1_000)
    registry.take_snapshot()
    values = {name: pickle.loads(data).get_local_value() for name, data in registry.snapshot.items()}
    assert values == {"counted": 1_103, "not registered again": 20}


def test_a_failure_survives_a_restore(registry: AccumulatorRegistry) -> None:
    before = AccumulatorRegistry(ManualClock(0))
    before.add("bad", Locked())
    before.take_snapshot()
    registry.restore([before.snapshot])
    registry.get_or_add("bad", IntCounter).add(1)
    registry.take_snapshot()
    assert isinstance(pickle.loads(registry.snapshot["bad"]), AccumulatorFailure)


def test_an_accumulator_that_cannot_be_restored_is_named(registry: AccumulatorRegistry) -> None:
    with pytest.raises(StateRestoreError, match="accumulator 'n' of the checkpoint cannot be restored"):
        registry.restore([{"n": b"no pickle"}])


def test_an_accumulator_that_is_too_large_is_reported_as_a_failure(
    registry: AccumulatorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accumulator_registry, "MAX_BYTES", 10)
    registry.get_or_add("n", IntCounter)
    registry.take_snapshot()
    assert "all accumulators of a task may only have 10" in pickle.loads(registry.snapshot["n"]).reason
