"""The JobMaster's part of watermark alignment: the limit for the sources of a group."""

from __future__ import annotations

import pickle

import pytest
from connector_fakes import TestingCoordinatorContext

from flinkpy.connector_api.source import ReaderRegistered
from flinkpy.connector_api.source_coordinator import SourceCoordinator, SourceCoordinatorProvider
from flinkpy.connector_api.watermark_alignment import (
    ReportedWatermark,
    WatermarkAlignment,
    WatermarkAlignmentParams,
)
from flinkpy.connectors.collection import CollectionSource
from flinkpy.connectors.number_sequence import NumberSequenceSource

MAX = (1 << 63) - 1


class AlignedSource:
    """A coordinator with running readers. The test decides when its timer fires."""

    def __init__(self, name: str, store: dict, *, group: str = "g", drift_ms: int = 10, parallelism: int = 2) -> None:
        self.context = TestingCoordinatorContext(parallelism)
        self.context.operator_id = name
        self.context.coordinator_store = store
        params = WatermarkAlignmentParams(group, drift_ms, 1_000)
        self.coordinator = SourceCoordinator(NumberSequenceSource(1, 10), self.context, params)
        self.coordinator.start()
        for subtask in range(parallelism):
            self.bring_up(subtask)

    def bring_up(self, subtask: int, attempt: int = 0) -> None:
        self.coordinator.subtask_ready(subtask)
        self.coordinator.handle_event(subtask, attempt, ReaderRegistered())

    def report(self, subtask: int, timestamp: int, attempt: int = 0) -> None:
        self.coordinator.handle_event(subtask, attempt, ReportedWatermark(timestamp))

    def announced(self) -> dict[int, int]:
        """Ends the interval and returns the announced limit by subtask."""
        self.context.take_sent()
        timers, self.context.timers = self.context.timers, []
        for delay_ms, action in timers:
            assert delay_ms == 1_000
            action()
        sent = self.context.take_sent()
        assert all(isinstance(event, WatermarkAlignment) for _, event in sent)
        return {subtask: event.max_watermark for subtask, event in sent}


@pytest.fixture
def store() -> dict:
    return {}


def test_every_interval_announces_the_lowest_watermark_plus_the_drift(store):
    source = AlignedSource("a", store)
    assert source.announced() == {}, "no subtask has reported"
    source.report(0, 100)
    source.report(1, 40)
    assert source.announced() == {0: 50, 1: 50}
    source.report(1, 70)
    assert source.announced() == {0: 80, 1: 80}
    assert source.announced() == {0: 80, 1: 80}


def test_subtask_without_a_report_does_not_count_and_gets_no_announcement(store):
    source = AlignedSource("a", store)
    source.report(0, 100)

    assert source.announced() == {0: 110}


def test_sources_wait_for_each_other_only_within_a_group(store):
    fast, slow = AlignedSource("fast", store, parallelism=1), AlignedSource("slow", store, parallelism=1)
    other = AlignedSource("other", store, group="h", parallelism=1)
    fast.report(0, 1_000)
    slow.report(0, 100)
    other.report(0, 5)

    assert fast.announced() == {0: 110}
    assert slow.announced() == {0: 110}
    assert other.announced() == {0: 15}


def test_each_source_has_its_own_drift(store):
    wide = AlignedSource("wide", store, drift_ms=500, parallelism=1)
    narrow = AlignedSource("narrow", store, drift_ms=1, parallelism=1)
    wide.report(0, 100)
    narrow.report(0, 200)

    assert (wide.announced(), narrow.announced()) == ({0: 600}, {0: 101})


def test_idle_and_finished_readers_hold_nobody_back_and_the_limit_does_not_overflow(store):
    source = AlignedSource("a", store)
    source.report(0, MAX)
    source.report(1, 7)
    assert source.announced() == {0: 17, 1: 17}
    source.report(1, MAX)
    assert source.announced() == {0: MAX, 1: MAX}


def test_failed_subtask_keeps_its_watermark_and_its_next_attempt_gets_the_next_announcement(store):
    source = AlignedSource("a", store)
    source.report(0, 100)
    source.report(1, 40)
    source.coordinator.subtask_reset(1, None)
    assert source.announced() == {0: 50}, "the failed subtask has no running attempt"
    source.bring_up(1, attempt=1)
    assert source.announced() == {0: 50, 1: 50}
    source.report(1, 20, attempt=1)
    source.report(1, 90, attempt=0)
    assert source.announced() == {0: 30, 1: 30}, "the report of the failed attempt is late"


def test_reset_source_leaves_the_group_until_it_reports_again(store):
    reset, other = AlignedSource("reset", store, parallelism=1), AlignedSource("other", store, parallelism=1)
    reset.report(0, 40)
    other.report(0, 100)
    reset.coordinator.reset_to_checkpoint(None, None)
    assert other.announced() == {0: 110}
    assert reset.announced() == {}
    reset.bring_up(0, attempt=1)
    reset.report(0, 10, attempt=1)

    assert (other.announced(), reset.announced()) == ({0: 20}, {0: 20})


def test_reset_source_has_one_timer(store):
    source = AlignedSource("a", store, parallelism=1)
    source.coordinator.reset_to_checkpoint(None, None)
    source.bring_up(0, attempt=1)
    source.report(0, 10, attempt=1)
    source.announced()

    assert len(source.context.timers) == 1


def test_source_without_alignment_sets_no_timers_and_refuses_reports():
    context = TestingCoordinatorContext()
    coordinator = SourceCoordinator(NumberSequenceSource(1, 10), context)
    coordinator.start()
    coordinator.handle_event(0, 0, ReportedWatermark(3))

    assert context.timers == []
    assert "unknown event" in str(context.failures[0])


def test_pickled_provider_keeps_the_alignment(store):
    provider = SourceCoordinatorProvider(CollectionSource([1]), ("g", 10, 200))
    context = TestingCoordinatorContext()
    context.coordinator_store = store
    pickle.loads(pickle.dumps(provider)).create(context).start()

    assert [delay_ms for delay_ms, _ in context.timers] == [200]
