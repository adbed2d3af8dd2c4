"""SourceCoordinator: assignment, resets, checkpoints and recovery of splits."""

from __future__ import annotations

import pickle

import pytest
from connector_fakes import TestingCoordinatorContext

from flinkpy.common.errors import (
    CorruptStateError,
    InputNotFoundError,
    InternalError,
    StateRestoreError,
    UnsupportedOperationError,
)
from flinkpy.connector_api.serializer import SimpleVersionedSerializer
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
    """A source of the splits "a", "b", ..., which it lists at once or on an I/O thread."""

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

    def restore_enumerator(self, context, state):
        enumerator = StaticSplitEnumerator(context, lambda: list(self.splits), blocking=self.blocking, state=state)
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


def test_requests_get_the_next_split_and_at_last_no_more_splits(context):
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


def test_splits_assigned_before_the_attempt_is_ready_are_sent_once_it_is(context):
    coordinator = started(context)
    coordinator.handle_event(0, 0, ReaderRegistered())
    coordinator.handle_event(0, 0, RequestSplit())
    assert context.sent == []
    coordinator.subtask_ready(0)
    assert context.sent == [(0, AddSplits(("a",)))]


def test_repeated_registration_changes_nothing(context):
    coordinator = started(context)
    bring_up(coordinator, 0)
    coordinator.handle_event(0, 0, RequestSplit())
    coordinator.handle_event(0, 0, ReaderRegistered())
    assert context.take_sent() == [(0, AddSplits(("a",)))]
    assert coordinator.assigned_splits(0) == ("a",)


def test_repeated_request_loses_no_split(context):
    coordinator = started(context)
    bring_up(coordinator, 0)
    for _ in range(4):
        coordinator.handle_event(0, 0, RequestSplit())
    assert coordinator.assigned_splits(0) == ("a", "b", "c")


def test_reset_returns_all_splits_in_order_and_the_next_attempt_gets_them(context):
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


def test_another_subtask_takes_the_splits_of_a_failed_one(context):
    coordinator = started(context)
    bring_up(coordinator, 0)
    bring_up(coordinator, 1)
    for _ in range(3):
        coordinator.handle_event(0, 0, RequestSplit())
    coordinator.subtask_reset(0, None)
    coordinator.handle_event(1, 0, RequestSplit())
    assert context.sent[-1] == (1, AddSplits(("a",)))


def test_late_events_of_a_former_attempt_are_dropped(context):
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


def test_event_of_a_newer_attempt_replaces_a_lost_reset(context):
    coordinator = started(context)
    bring_up(coordinator, 0)
    coordinator.handle_event(0, 0, RequestSplit())
    coordinator.handle_event(0, 1, ReaderRegistered())
    assert coordinator.assigned_splits(0) == ()
    coordinator.handle_event(0, 1, RequestSplit())
    assert coordinator.assigned_splits(0) == ("a",)


def test_reset_drops_an_assignment_that_waits_for_the_attempt(context):
    coordinator = started(context)
    coordinator.handle_event(0, 0, ReaderRegistered())
    coordinator.handle_event(0, 0, RequestSplit())
    coordinator.subtask_reset(0, None)
    coordinator.subtask_ready(0)
    assert context.sent == []
    coordinator.handle_event(0, 1, RequestSplit())
    assert context.sent == [(0, AddSplits(("a",)))]


def test_requests_before_the_listing_are_answered_after_it(context):
    coordinator = started(context, ListedSource(blocking=True))
    bring_up(coordinator, 0)
    coordinator.handle_event(0, 0, RequestSplit())
    coordinator.handle_event(0, 0, RequestSplit())
    assert context.sent == []
    context.finish_blocking()
    assert context.sent == [(0, AddSplits(("a",)))]


def test_reader_that_was_reset_during_the_listing_gets_no_split(context):
    coordinator = started(context, ListedSource(blocking=True))
    bring_up(coordinator, 0)
    coordinator.handle_event(0, 0, RequestSplit())
    coordinator.subtask_reset(0, None)
    context.finish_blocking()
    assert context.sent == []
    assert coordinator.assigned_splits(0) == ()


def test_full_reset_starts_a_new_enumerator_and_drops_the_former_listing(context):
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


def test_full_reset_assigns_all_splits_again(context):
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


def test_second_start_does_nothing(context):
    source = ListedSource()
    coordinator = started(context, source)
    coordinator.start()
    assert len(source.enumerators) == 1


def test_typed_error_of_the_listing_fails_the_job_unchanged(context):
    started(context, ListedSource(blocking=True, listing_error=InputNotFoundError("input x: gone")))
    context.finish_blocking()
    assert [str(error) for error in context.failures] == ["input x: gone"]
    assert isinstance(context.failures[0], InputNotFoundError)


def test_unexpected_error_of_an_enumerator_fails_the_job_and_names_the_source(context):
    started(context, ListedSource(listing_error=ZeroDivisionError("oops")))
    assert isinstance(context.failures[0], InternalError)
    assert "ListedSource" in str(context.failures[0])
    assert "ZeroDivisionError: oops" in str(context.failures[0])


def test_closed_coordinator_does_nothing(context):
    coordinator = started(context, ListedSource(blocking=True))
    coordinator.close()
    coordinator.reset_to_checkpoint(None, None)
    coordinator.handle_event(0, 0, ReaderRegistered())
    context.finish_blocking()
    assert context.sent == []
    assert context.failures == []


def test_unknown_events_and_subtasks_are_internal_errors(context):
    coordinator = started(context)
    coordinator.handle_event(0, 0, "what?")
    assert isinstance(context.failures[0], InternalError)
    with pytest.raises(InternalError, match="no subtask 7"):
        coordinator.subtask_ready(7)


def test_coordinator_refuses_requests_of_clients(context):
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


def test_connector_events_travel_both_ways_and_timers_run(context):
    coordinator = started(context, ChattySource())
    bring_up(coordinator, 0)
    coordinator.handle_event(0, 0, SourceEvent("hello"))
    assert context.take_sent() == [(0, SourceEvent("HELLO"))]
    [(delay_ms, action)] = context.timers
    action()
    assert delay_ms == 50
    assert context.sent == [(0, AddSplits(("timed",)))]


def test_timer_of_a_replaced_enumerator_is_dropped(context):
    coordinator = started(context, ChattySource())
    bring_up(coordinator, 0)
    coordinator.reset_to_checkpoint(None, None)
    context.timers[0][1]()
    assert coordinator.assigned_splits(0) == ()


def test_pickled_provider_leaves_out_the_data_of_the_source():
    source = CollectionSource(["x" * 100_000])
    pickled = pickle.dumps(SourceCoordinatorProvider(source))
    assert len(pickled) < 2_000
    context = TestingCoordinatorContext(parallelism=1)
    coordinator = pickle.loads(pickled).create(context)
    coordinator.start()
    bring_up(coordinator, 0)
    coordinator.handle_event(0, 0, RequestSplit())
    assert isinstance(context.sent[0][1], AddSplits)


# -- checkpoints ---------------------------------------------------------------------------------------------------


def request(coordinator, context, subtask_index=0, attempt_number=0):
    """Sends a split request and returns the answer: splits, or "end"."""
    coordinator.handle_event(subtask_index, attempt_number, RequestSplit())
    answers = []
    for index, event in context.take_sent():
        assert index == subtask_index
        answers += event.splits if isinstance(event, AddSplits) else ["end"]
    return answers


def test_reset_subtask_gives_back_the_splits_sent_after_the_checkpoint(context):
    coordinator = started(context, ListedSource("abcd"))
    bring_up(coordinator, 0)
    bring_up(coordinator, 1)
    assert request(coordinator, context) == ["a"]
    coordinator.checkpoint(1)
    assert request(coordinator, context) == ["b"]
    coordinator.checkpoint(2)
    assert request(coordinator, context) == ["c"]
    coordinator.notify_checkpoint_complete(1)
    coordinator.subtask_reset(0, 1)
    bring_up(coordinator, 0, attempt_number=1)
    assert [request(coordinator, context, 0, 1) for _ in range(4)] == [["b"], ["c"], ["d"], ["end"]]


def test_splits_finished_before_a_checkpoint_do_not_come_back(context):
    coordinator = started(context, ListedSource("ab"))
    bring_up(coordinator, 0)
    assert request(coordinator, context) == ["a"]
    assert request(coordinator, context) == ["b"]
    coordinator.checkpoint(1)
    coordinator.notify_checkpoint_complete(1)
    coordinator.subtask_reset(0, 1)
    bring_up(coordinator, 0, attempt_number=1)
    assert request(coordinator, context, 0, 1) == ["end"]


def test_all_splits_come_back_without_a_completed_checkpoint(context):
    coordinator = started(context, ListedSource("ab"))
    bring_up(coordinator, 0)
    assert request(coordinator, context) == ["a"]
    coordinator.checkpoint(1)
    coordinator.notify_checkpoint_aborted(1)
    assert request(coordinator, context) == ["b"]
    coordinator.subtask_reset(0, None)
    bring_up(coordinator, 0, attempt_number=1)
    assert [request(coordinator, context, 0, 1) for _ in range(3)] == [["a"], ["b"], ["end"]]


def test_later_notification_covers_a_missing_one(context):
    coordinator = started(context, ListedSource("ab"))
    bring_up(coordinator, 0)
    assert request(coordinator, context) == ["a"]
    coordinator.checkpoint(1)
    coordinator.checkpoint(2)
    coordinator.notify_checkpoint_complete(2)
    coordinator.notify_checkpoint_complete(1)
    coordinator.subtask_reset(0, 2)
    assert coordinator.assigned_splits(0) == ()
    assert context.failures == []


def test_reset_to_before_a_completed_checkpoint_fails_the_job_instead_of_losing_splits(context):
    coordinator = started(context, ListedSource("ab"))
    bring_up(coordinator, 0)
    coordinator.checkpoint(1)
    assert request(coordinator, context) == ["a"]
    coordinator.checkpoint(2)
    coordinator.notify_checkpoint_complete(2)
    coordinator.subtask_reset(0, 1)
    assert "restored from checkpoint 1" in str(context.failures[0])


def test_state_holds_the_splits_that_were_not_sent(context):
    coordinator = started(context, ListedSource("abc"))
    bring_up(coordinator, 0)
    assert request(coordinator, context) == ["a"]
    state = coordinator.checkpoint(1)
    assert request(coordinator, context) == ["b"]
    coordinator.reset_to_checkpoint(1, state)
    bring_up(coordinator, 0, attempt_number=1)
    assert [request(coordinator, context, 0, 1) for _ in range(3)] == [["b"], ["c"], ["end"]]


def test_state_holds_a_split_that_waits_for_its_reader(context):
    coordinator = started(context, ListedSource("abc"))
    coordinator.handle_event(0, 0, ReaderRegistered())
    assert request(coordinator, context) == []
    state = coordinator.checkpoint(1)
    coordinator.subtask_ready(0)
    assert context.take_sent() == [(0, AddSplits(("a",)))]
    fresh = TestingCoordinatorContext()
    restored = SourceCoordinator(ListedSource("abc"), fresh)
    restored.reset_to_checkpoint(1, state)
    restored.start()
    bring_up(restored, 1)
    assert [request(restored, fresh, 1) for _ in range(4)] == [["a"], ["b"], ["c"], ["end"]]
    coordinator.subtask_reset(0, 1)
    bring_up(coordinator, 0, attempt_number=1)
    assert request(coordinator, context, 0, 1) == ["a"]


def test_restore_repeats_an_unfinished_listing(context):
    source = ListedSource("ab", blocking=True)
    coordinator = started(context, source)
    state = coordinator.checkpoint(1)
    coordinator.reset_to_checkpoint(1, state)
    bring_up(coordinator, 0)
    assert request(coordinator, context) == []
    context.finish_blocking()
    assert context.take_sent() == [(0, AddSplits(("a",)))]


def test_restore_does_not_repeat_a_finished_listing(context):
    source = ListedSource("ab", blocking=True)
    coordinator = started(context, source)
    context.finish_blocking()
    state = coordinator.checkpoint(1)
    source.splits = "xyz"
    coordinator.reset_to_checkpoint(1, state)
    assert context.blocking == []
    bring_up(coordinator, 0)
    assert [request(coordinator, context) for _ in range(3)] == [["a"], ["b"], ["end"]]


def test_registration_replaces_a_lost_reset_and_names_the_checkpoint(context):
    coordinator = started(context, ListedSource("abc"))
    bring_up(coordinator, 0)
    assert request(coordinator, context) == ["a"]
    coordinator.checkpoint(1)
    assert request(coordinator, context) == ["b"]
    coordinator.handle_event(0, 1, ReaderRegistered(restored_checkpoint_id=1))
    assert [request(coordinator, context, 0, 1) for _ in range(3)] == [["b"], ["c"], ["end"]]


def test_operator_without_state_in_the_checkpoint_starts_from_the_beginning(context):
    coordinator = SourceCoordinator(ListedSource("a"), context)
    coordinator.reset_to_checkpoint(7, None)
    coordinator.start()
    bring_up(coordinator, 0)
    assert request(coordinator, context) == ["a"]
    coordinator.subtask_reset(0, 7)
    bring_up(coordinator, 0, attempt_number=1)
    assert request(coordinator, context, 0, 1) == ["a"]


def test_damaged_state_fails_the_job_and_names_the_operator(context):
    coordinator = SourceCoordinator(ListedSource("a"), context)
    coordinator.reset_to_checkpoint(1, b"nonsense")
    coordinator.start()
    assert isinstance(context.failures[0], CorruptStateError)
    assert "operator-1" in str(context.failures[0])


def test_enumerator_without_snapshots_declines_the_checkpoint_and_continues(context):
    coordinator = started(context, ChattySource())
    with pytest.raises(UnsupportedOperationError, match="Chatty cannot be checkpointed"):
        coordinator.checkpoint(1)
    assert context.failures == []


class TextSerializer(SimpleVersionedSerializer):
    """Writes upper case since version 2, and reads version 1 too."""

    def __init__(self, version):
        self._version = version

    @property
    def version(self):
        return self._version

    def serialize(self, value):
        return (value if self._version == 1 else value.upper()).encode()

    def deserialize(self, version, data):
        if version > self._version:
            raise ValueError("written by a later release")
        return data.decode() if version == 1 else data.decode().lower()


class VersionedSource(ListedSource):
    def __init__(self, version):
        super().__init__("ab")
        self.version = version

    @property
    def split_serializer(self):
        return TextSerializer(self.version)


def test_own_serializers_read_the_state_of_an_older_version(context):
    coordinator = started(context, VersionedSource(1))
    coordinator.handle_event(0, 0, RequestSplit())
    old = coordinator.checkpoint(1)
    coordinator = SourceCoordinator(VersionedSource(2), context)
    coordinator.reset_to_checkpoint(1, old)
    coordinator.start()
    bring_up(coordinator, 0)
    assert request(coordinator, context) == ["a"]
    coordinator = started(context, VersionedSource(2))
    coordinator.handle_event(0, 0, RequestSplit())
    new = coordinator.checkpoint(1)
    coordinator = SourceCoordinator(VersionedSource(1), context)
    coordinator.reset_to_checkpoint(1, new)
    coordinator.start()
    assert isinstance(context.failures[0], StateRestoreError)
    assert "written by a later release" in str(context.failures[0])


def test_batch_job_continues_in_the_next_job_master_with_unfinished_splits(context):
    first = started(context)
    for subtask in (0, 1):
        bring_up(first, subtask)
        first.handle_event(subtask, 0, RequestSplit())
    state = first.snapshot_for_recovery()

    context.take_sent()
    second = SourceCoordinator(ListedSource(), context)
    second.restore_for_recovery(state)
    second.start()
    second.subtask_reset(1, None)
    assert second.assigned_splits(0) == ("a",), "subtask 0 had finished"
    bring_up(second, 1)
    for _ in range(3):
        second.handle_event(1, 0, RequestSplit())
    given = [split for _, event in context.take_sent() if isinstance(event, AddSplits) for split in event.splits]
    assert sorted(given) == ["b", "c"]


def test_finished_subtask_with_a_lost_result_reads_its_splits_again(context):
    first = started(context)
    bring_up(first, 0)
    for _ in range(4):
        first.handle_event(0, 0, RequestSplit())
    second = SourceCoordinator(ListedSource(), context)
    second.restore_for_recovery(first.snapshot_for_recovery())
    second.start()
    context.take_sent()
    second.subtask_reset(0, None)
    bring_up(second, 0, attempt_number=1)
    for _ in range(4):
        second.handle_event(0, 1, RequestSplit())
    given = [split for _, event in context.take_sent() if isinstance(event, AddSplits) for split in event.splits]
    assert sorted(given) == ["a", "b", "c"]


def test_recovery_keeps_splits_that_wait_for_their_reader(context):
    first = started(context)
    first.handle_event(0, 0, ReaderRegistered())
    first.handle_event(0, 0, RequestSplit())
    second = SourceCoordinator(ListedSource(), context)
    second.restore_for_recovery(first.snapshot_for_recovery())
    second.start()
    second.subtask_reset(0, None)
    bring_up(second, 0)
    for _ in range(4):
        second.handle_event(0, 0, RequestSplit())
    given = [split for _, event in context.take_sent() if isinstance(event, AddSplits) for split in event.splits]
    assert sorted(given) == ["a", "b", "c"]


def test_recovery_refuses_bytes_that_are_no_state_of_a_source(context):
    with pytest.raises(CorruptStateError, match="has a wrong header"):
        SourceCoordinator(ListedSource(), context).restore_for_recovery(b"something else")


def test_the_coordinator_knows_how_many_splits_are_read(context):
    coordinator = started(context)
    assert coordinator.split_progress == (3, 3)
    bring_up(coordinator, 0)
    bring_up(coordinator, 1)
    coordinator.handle_event(0, 0, RequestSplit())
    coordinator.handle_event(1, 0, RequestSplit())
    assert coordinator.split_progress == (3, 3), "two splits are being read"
    coordinator.handle_event(0, 0, RequestSplit())
    assert coordinator.split_progress == (3, 2)
    coordinator.subtask_reset(1, None)
    assert coordinator.split_progress == (3, 2), "the split of the failed reader is to be read again"
    coordinator.handle_event(0, 0, RequestSplit())
    coordinator.handle_event(0, 0, RequestSplit())
    assert coordinator.split_progress == (3, 0)


def test_splits_that_are_not_listed_yet_are_not_counted(context):
    assert started(context, ListedSource(blocking=True)).split_progress is None
