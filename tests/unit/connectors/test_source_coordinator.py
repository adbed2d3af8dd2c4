from __future__ import annotations

import pickle

import pytest
from connector_fakes import TestingCoordinatorContext

from flinkpy.common.errors import InputNotFoundError, InternalError, UnsupportedOperationError
from flinkpy.connector_api.source import (
    AddSplits,
    Boundedness,
    NoMoreSplits,
    ReaderRegistered,
    RequestSplit,
    SourceBase,
    SourceEvent,
    SplitEnumerator,
)
from flinkpy.connector_api.source_coordinator import SourceCoordinator, SourceCoordinatorProvider
from flinkpy.connectors.collection import CollectionSource
from flinkpy.connectors.split_enumerator import StaticSplitEnumerator


class ListedSource(SourceBase):
    """Splits "a", "b", ...; listed at once or on an I/O thread."""

    def __init__(self, splits="abc", blocking=False, listing_error=None):
        self.splits = splits
        self.blocking = blocking
        self.listing_error = listing_error
        self.enumerators = []

    @property
    def boundedness(self):
        return Boundedness.BOUNDED

    def create_enumerator(self, context):
        def list_splits():
            if self.listing_error is not None:
                raise self.listing_error
            return list(self.splits)

        enumerator = StaticSplitEnumerator(context, list_splits, blocking=self.blocking)
        self.enumerators.append(enumerator)
        return enumerator

    def create_reader(self, context):
        raise AssertionError("readers live in tasks")


@pytest.fixture
def context():
    return TestingCoordinatorContext()


def started(context, source=None):
    coordinator = SourceCoordinator(source or ListedSource(), context)
    coordinator.start()
    return coordinator


def bring_up(coordinator, subtask_index, attempt_number=0):
    coordinator.subtask_ready(subtask_index)
    coordinator.handle_event(subtask_index, attempt_number, ReaderRegistered())


def test_each_request_gets_the_next_split_and_then_no_more(context):
    coordinator = started(context)
    bring_up(coordinator, 0)
    bring_up(coordinator, 1)
    for subtask in (0, 1, 1, 0):
        coordinator.handle_event(subtask, 0, RequestSplit())
    assert context.sent == [
        (0, AddSplits(("a",))),
        (1, AddSplits(("b",))),
        (1, AddSplits(("c",))),
        (0, NoMoreSplits()),
    ]


def test_what_is_assigned_before_the_attempt_is_ready_is_sent_when_it_is(context):
    coordinator = started(context)
    coordinator.handle_event(0, 0, ReaderRegistered())
    coordinator.handle_event(0, 0, RequestSplit())
    assert context.sent == []
    coordinator.subtask_ready(0)
    assert context.sent == [(0, AddSplits(("a",)))]


def test_a_duplicated_registration_changes_nothing(context):
    coordinator = started(context)
    bring_up(coordinator, 0)
    coordinator.handle_event(0, 0, RequestSplit())
    coordinator.handle_event(0, 0, ReaderRegistered())
    assert context.take_sent() == [(0, AddSplits(("a",)))]
    assert coordinator.assigned_splits(0) == ("a",)


def test_a_duplicated_request_loses_no_split(context):
    coordinator = started(context)
    bring_up(coordinator, 0)
    for _ in range(4):
        coordinator.handle_event(0, 0, RequestSplit())
    assert coordinator.assigned_splits(0) == ("a", "b", "c")


def test_a_reset_gives_all_splits_back_in_order_and_the_next_attempt_gets_them(context):
    coordinator = started(context)
    bring_up(coordinator, 0)
    coordinator.handle_event(0, 0, RequestSplit())
    coordinator.handle_event(0, 0, RequestSplit())
    coordinator.subtask_reset(0, None)
    assert coordinator.assigned_splits(0) == ()
    assert coordinator.registered_readers == set()
    context.take_sent()
    bring_up(coordinator, 0, attempt_number=1)
    for _ in range(4):
        coordinator.handle_event(0, 1, RequestSplit())
    assert [event for _, event in context.sent] == [
        AddSplits(("a",)),
        AddSplits(("b",)),
        AddSplits(("c",)),
        NoMoreSplits(),
    ]


def test_another_subtask_can_take_the_splits_of_a_lost_one(context):
    coordinator = started(context)
    bring_up(coordinator, 0)
    bring_up(coordinator, 1)
    for _ in range(3):
        coordinator.handle_event(0, 0, RequestSplit())
    coordinator.subtask_reset(0, None)
    coordinator.handle_event(1, 0, RequestSplit())
    assert context.sent[-1] == (1, AddSplits(("a",)))


def test_late_events_of_an_older_attempt_are_dropped(context):
    coordinator = started(context)
    bring_up(coordinator, 0)
    coordinator.subtask_reset(0, None)
    context.take_sent()
    coordinator.handle_event(0, 0, RequestSplit())
    assert coordinator.registered_readers == set()
    bring_up(coordinator, 0, attempt_number=1)
    coordinator.handle_event(0, 0, RequestSplit())
    coordinator.handle_event(0, 0, ReaderRegistered())
    assert context.sent == []
    assert coordinator.assigned_splits(0) == ()


def test_an_event_of_a_newer_attempt_stands_in_for_a_lost_reset(context):
    coordinator = started(context)
    bring_up(coordinator, 0)
    coordinator.handle_event(0, 0, RequestSplit())
    coordinator.handle_event(0, 1, ReaderRegistered())
    assert coordinator.assigned_splits(0) == ()
    coordinator.handle_event(0, 1, RequestSplit())
    assert coordinator.assigned_splits(0) == ("a",)


def test_a_reset_while_the_assignment_waits_for_readiness_sends_nothing_old(context):
    coordinator = started(context)
    coordinator.handle_event(0, 0, ReaderRegistered())
    coordinator.handle_event(0, 0, RequestSplit())
    coordinator.subtask_reset(0, None)
    coordinator.subtask_ready(0)
    assert context.sent == []
    coordinator.handle_event(0, 1, RequestSplit())
    assert context.sent == [(0, AddSplits(("a",)))]


def test_requests_that_come_before_the_listing_are_answered_after_it(context):
    coordinator = started(context, ListedSource(blocking=True))
    bring_up(coordinator, 0)
    coordinator.handle_event(0, 0, RequestSplit())
    coordinator.handle_event(0, 0, RequestSplit())
    assert context.sent == []
    context.finish_blocking()
    assert context.sent == [(0, AddSplits(("a",)))]


def test_a_reader_that_was_reset_during_the_listing_is_not_assigned_anything(context):
    coordinator = started(context, ListedSource(blocking=True))
    bring_up(coordinator, 0)
    coordinator.handle_event(0, 0, RequestSplit())
    coordinator.subtask_reset(0, None)
    context.finish_blocking()
    assert context.sent == []
    assert coordinator.assigned_splits(0) == ()


def test_a_full_reset_starts_a_new_enumerator_and_drops_the_listing_of_the_old(context):
    source = ListedSource(blocking=True)
    coordinator = started(context, source)
    bring_up(coordinator, 0)
    coordinator.handle_event(0, 0, RequestSplit())
    coordinator.reset_to_checkpoint(None, None)
    assert len(source.enumerators) == 2
    bring_up(coordinator, 0, attempt_number=1)
    coordinator.handle_event(0, 1, RequestSplit())
    context.finish_blocking()
    assert context.sent == [(0, AddSplits(("a",)))]
    assert source.enumerators[0].remaining == ()


def test_after_a_full_reset_all_splits_are_handed_out_again(context):
    coordinator = started(context)
    bring_up(coordinator, 0)
    for _ in range(4):
        coordinator.handle_event(0, 0, RequestSplit())
    coordinator.reset_to_checkpoint(None, None)
    context.take_sent()
    bring_up(coordinator, 0, attempt_number=1)
    for _ in range(4):
        coordinator.handle_event(0, 1, RequestSplit())
    assert len(context.sent) == 4


def test_starting_twice_starts_once(context):
    source = ListedSource()
    coordinator = started(context, source)
    coordinator.start()
    assert len(source.enumerators) == 1


def test_an_error_of_the_listing_fails_the_job_as_it_is(context):
    started(context, ListedSource(blocking=True, listing_error=InputNotFoundError("input x: gone")))
    context.finish_blocking()
    assert [str(error) for error in context.failures] == ["input x: gone"]
    assert isinstance(context.failures[0], InputNotFoundError)


def test_an_unexpected_error_of_an_enumerator_fails_the_job_with_its_name(context):
    started(context, ListedSource(listing_error=ZeroDivisionError("oops")))
    assert isinstance(context.failures[0], InternalError)
    assert "ListedSource" in str(context.failures[0])
    assert "ZeroDivisionError: oops" in str(context.failures[0])


def test_nothing_happens_after_close(context):
    coordinator = started(context, ListedSource(blocking=True))
    coordinator.close()
    coordinator.reset_to_checkpoint(None, None)
    coordinator.handle_event(0, 0, ReaderRegistered())
    context.finish_blocking()
    assert context.sent == []
    assert context.failures == []


def test_an_unknown_event_and_an_unknown_subtask_are_internal_errors(context):
    coordinator = started(context)
    coordinator.handle_event(0, 0, "what?")
    assert isinstance(context.failures[0], InternalError)
    with pytest.raises(InternalError, match="no subtask 7"):
        coordinator.subtask_ready(7)


def test_a_client_request_is_refused(context):
    with pytest.raises(UnsupportedOperationError):
        started(context).handle_request(b"")


class ChattySource(ListedSource):
    def create_enumerator(self, context):
        class Chatty(SplitEnumerator):
            def start(self):
                context.schedule(50, lambda: context.assign_splits({0: ["timed"]}))

            def handle_split_request(self, subtask_index):
                context.signal_no_more_splits(subtask_index)

            def add_splits_back(self, splits, subtask_index):
                raise AssertionError

            def handle_source_event(self, subtask_index, event):
                context.send_event_to_reader(subtask_index, event.upper())

        return Chatty()


def test_events_of_the_connector_go_both_ways_and_timers_run(context):
    coordinator = started(context, ChattySource())
    bring_up(coordinator, 0)
    coordinator.handle_event(0, 0, SourceEvent("hello"))
    assert context.take_sent() == [(0, SourceEvent("HELLO"))]
    [(delay_ms, action)] = context.timers
    action()
    assert delay_ms == 50
    assert context.sent == [(0, AddSplits(("timed",)))]


def test_a_timer_of_a_replaced_enumerator_is_dropped(context):
    coordinator = started(context, ChattySource())
    bring_up(coordinator, 0)
    coordinator.reset_to_checkpoint(None, None)
    context.timers[0][1]()
    assert coordinator.assigned_splits(0) == ()


def test_the_pickled_provider_carries_no_data_of_the_source():
    source = CollectionSource(["x" * 100_000])
    pickled = pickle.dumps(SourceCoordinatorProvider(source))
    assert len(pickled) < 2_000
    context = TestingCoordinatorContext(parallelism=1)
    coordinator = pickle.loads(pickled).create(context)
    coordinator.start()
    bring_up(coordinator, 0)
    coordinator.handle_event(0, 0, RequestSplit())
    assert isinstance(context.sent[0][1], AddSplits)
