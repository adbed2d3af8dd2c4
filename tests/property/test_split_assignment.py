"""Every split is at one reader, at the enumerator, or read, for any failures and late messages."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from flinkpy.connector_api.source import (
    AddSplits,
    Boundedness,
    ReaderRegistered,
    RequestSplit,
    SourceBase,
)
from flinkpy.connector_api.source_coordinator import SourceCoordinator
from flinkpy.connectors.split_enumerator import StaticSplitEnumerator

SPLITS = tuple(range(12))
SUBTASKS = (0, 1, 2)
subtasks = st.sampled_from(SUBTASKS)


class NumberedSource(SourceBase):
    boundedness = Boundedness.BOUNDED

    def create_enumerator(self, context):
        return StaticSplitEnumerator(context, lambda: list(SPLITS))

    def restore_enumerator(self, context, state):
        return StaticSplitEnumerator(context, lambda: list(SPLITS), state=state)

    def create_reader(self, context):
        raise AssertionError("readers live in tasks")


class Reader:
    """A subtask with its unread splits, and with the records that this and former attempts have read."""

    def __init__(self):
        self.splits = []
        self.read = []

    def copy(self):
        other = Reader()
        other.splits, other.read = list(self.splits), list(self.read)
        return other


class SplitAssignment(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.readers = [Reader() for _ in SUBTASKS]
        self.attempts = [0 for _ in SUBTASKS]
        #: Readers whose current attempt has registered. The JobMaster drops late events of former attempts.
        self.heard = set()
        self.coordinator = SourceCoordinator(NumberedSource(), self)
        self.coordinator.start()
        self.next_id = 1
        #: id -> (state of the coordinator, readers) of pending checkpoints and of the latest completed one.
        self.pending = {}
        self.completed = (0, None, [Reader() for _ in SUBTASKS])
        self.late_events = []

    # The JobMaster's side of the coordinator: an event arrives at the running attempt at once.
    operator_id = "source"
    parallelism = len(SUBTASKS)

    def send_event(self, subtask_index, event):
        if isinstance(event, AddSplits):
            self.readers[subtask_index].splits.extend(event.splits)

    def fail_job(self, error):
        raise error

    def schedule(self, delay_ms, action):
        raise AssertionError

    run_blocking = schedule

    @rule(subtask=subtasks)
    def becomes_ready(self, subtask):
        self.coordinator.subtask_ready(subtask)

    @rule(subtask=subtasks, restored=st.booleans())
    def registers(self, subtask, restored):
        self.heard.add(subtask)
        event = ReaderRegistered(self.completed[0] if restored else None)
        self.coordinator.handle_event(subtask, self.attempts[subtask], event)

    @rule(subtask=subtasks)
    def asks(self, subtask):
        self.heard.add(subtask)
        self.coordinator.handle_event(subtask, self.attempts[subtask], RequestSplit())

    @rule(subtask=subtasks)
    def reads(self, subtask):
        reader = self.readers[subtask]
        if reader.splits:
            reader.read.append(reader.splits.pop(0))

    @rule()
    def checkpoint(self):
        state = self.coordinator.checkpoint(self.next_id)
        self.pending[self.next_id] = (state, [reader.copy() for reader in self.readers])
        self.next_id += 1

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), is_told=st.booleans())
    def completes(self, data, is_told):
        """Completes a checkpoint. The notification may be lost, because a later one has the same information."""
        checkpoint_id = data.draw(st.sampled_from(sorted(self.pending)))
        state, readers = self.pending[checkpoint_id]
        self.completed = (checkpoint_id, state, readers)
        self.pending = {known: value for known, value in self.pending.items() if known > checkpoint_id}
        if is_told:
            self.coordinator.notify_checkpoint_complete(checkpoint_id)

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def is_aborted(self, data):
        checkpoint_id = data.draw(st.sampled_from(sorted(self.pending)))
        del self.pending[checkpoint_id]
        self.coordinator.notify_checkpoint_aborted(checkpoint_id)

    def _restart(self, subtask):
        self.readers[subtask] = self.completed[2][subtask].copy()
        if subtask in self.heard:
            self.late_events.append((subtask, self.attempts[subtask]))
            self.heard.discard(subtask)
        self.attempts[subtask] += 1

    @rule(subtask=subtasks)
    def a_subtask_fails(self, subtask):
        self.pending.clear()
        self._restart(subtask)
        self.coordinator.subtask_reset(subtask, self.completed[0] or None)

    @rule()
    def everything_fails(self):
        checkpoint_id, state, _ = self.completed
        self.pending.clear()
        for subtask in SUBTASKS:
            self._restart(subtask)
        self.coordinator.reset_to_checkpoint(checkpoint_id or None, state)

    @precondition(lambda self: self.late_events)
    @rule(data=st.data())
    def an_event_of_a_former_attempt_comes_late(self, data):
        subtask, attempt = data.draw(st.sampled_from(self.late_events))
        self.coordinator.handle_event(subtask, attempt, RequestSplit())

    @invariant()
    def every_split_is_in_one_place(self):
        places = list(self.coordinator._enumerator.remaining)
        for subtask in self.coordinator._subtasks.values():
            places += subtask.waiting_splits
        for reader in self.readers:
            places += reader.splits + reader.read
        assert sorted(places) == list(SPLITS)


SplitAssignment.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestSplitAssignment = SplitAssignment.TestCase
