"""SourceCoordinator: runs the SplitEnumerator of a source in the JobMaster and tracks which reader has which split.

For each subtask the coordinator knows the current attempt, if its reader has registered, if the attempt is ready to
receive events, and the events that wait for it. A SplitAssignmentTracker knows the splits that were sent. The rules:

* Events of former attempts are dropped. An event of a newer attempt without a reset in between means that the reset was
  lost. It counts as the reset too: the splits of the former attempt go back to the enumerator first.
* Splits and "no more splits" are sent only when the reader has registered AND the attempt is ready. Until then they
  wait, in order. Splits sent to an attempt that has died are tracked all the same, so the reset gives them back. No
  split is lost, and none goes to two living attempts.
* A checkpoint holds the state of the enumerator and the assigned splits that still wait here. Splits that were sent are
  in a reader's part of the checkpoint: the runtime takes the checkpoint of this coordinator at a moment when every
  event sent before reaches its task before the barrier, and every event sent later reaches it after the barrier.
* A subtask that is reset to a checkpoint gives back the splits that wait for it and those that it was sent after the
  checkpoint. Earlier splits are in the reader's part of the checkpoint, or were finished.
* With watermark alignment, the coordinator combines the watermarks of the readers and announces the limit at a fixed
  interval to the subtasks that can receive it. Neither is part of a checkpoint, and announcements never wait.
* A reset of the whole job creates a new enumerator, from the state of the checkpoint if there is one. Results of
  asynchronous calls and timers of the former enumerator are dropped, because their epoch is old.

Source: org.apache.flink.runtime.source.coordinator.SourceCoordinator, with its context and SplitAssignmentTracker.
Differs: an assignment to a reader that is being reset waits for the reset of its next attempt. In Flink it is an error.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flinkpy.common.error_text import USER_ERRORS, describe, format_user_traceback
from flinkpy.common.errors import (
    CorruptStateError,
    FlinkError,
    InternalError,
    UnsupportedOperationError,
)
from flinkpy.connector_api.serializer import read_versioned, write_versioned
from flinkpy.connector_api.source import (
    AddSplits,
    NoMoreSplits,
    ReaderRegistered,
    RegisterAgain,
    RequestSplit,
    SourceBase,
    SourceEvent,
    SplitEnumerator,
)
from flinkpy.connector_api.watermark_alignment import (
    AlignmentCoordinator,
    ReportedWatermark,
    WatermarkAlignment,
    WatermarkAlignmentParams,
)

if TYPE_CHECKING:
    from flinkpy.connector_api.coordinator import CoordinatorContext


#: The first bytes of a checkpointed state, with the version of its format.
_STATE_MAGIC = b"FLKPSRC1"
#: The first bytes of a state for the recovery of a batch job.
_RECOVERY_MAGIC = b"FLKPREC1"
#: The epoch of an enumerator that is never started.
_NO_EPOCH = -1


@dataclass(slots=True)
class _Subtask:
    """The state of one subtask."""

    #: The newest known attempt; -1 before the first event. Events of lower attempts are late and dropped.
    attempt: int = -1
    #: Attempts up to this one have been reset. Their events are late, even their first ones.
    reset_up_to: int = -1
    is_registered: bool = False
    is_ready: bool = False
    #: True if a former JobMaster has started the attempt, whose reader must register here.
    is_adopted: bool = False
    #: The events that wait until the reader has registered and the attempt is ready, in order.
    pending: list[Any] = field(default_factory=list)
    #: Splits that were sent since the reader last requested one. It requests one when it has read all it had.
    num_reading: int = 0

    @property
    def can_receive(self) -> bool:
        return self.is_registered and self.is_ready

    @property
    def waiting_splits(self) -> list[Any]:
        """The assigned splits that have not been sent."""
        return [split for event in self.pending if isinstance(event, AddSplits) for split in event.splits]


class SourceCoordinator:
    """The JobMaster's part of a source operator. Thread: JobMaster main thread. It never blocks."""

    def __init__(
        self, source: SourceBase, context: CoordinatorContext, alignment: WatermarkAlignmentParams | None = None
    ) -> None:
        self._source = source
        self._context = context
        self._alignment: AlignmentCoordinator | None = None
        if alignment is not None:
            self._alignment = AlignmentCoordinator(
                alignment, context.operator_id, context.coordinator_store, self._send_if_ready
            )
        self._subtasks: dict[int, _Subtask] = {}
        self._tracker = SplitAssignmentTracker()
        #: The state of the next enumerator; None: it starts from the beginning.
        self._restored_state: bytes | None = None
        self._enumerator: SplitEnumerator | None = None
        #: Changes with each enumerator. Callbacks with a former epoch are dropped.
        self._epoch = 0
        self._is_started = False
        self._is_closed = False
        self._num_snapshots = 0
        self._has_backlog = False
        #: Splits that readers were sent and that were not given back, since the last reset.
        self._num_sent = 0
        #: Splits that continued readers have, and that the state of the next enumerator does not know as assigned.
        self._adopted_splits: list[Any] = []

    # -- OperatorCoordinator ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Creates and starts the enumerator. A second call does nothing."""
        if self._is_started or self._is_closed:
            return
        self._is_started = True
        self._start_enumerator()

    def close(self) -> None:
        self._is_closed = True
        self._close_enumerator()
        self._subtasks.clear()

    def handle_event(self, subtask_index: int, attempt_number: int, event: Any) -> None:
        """Handles an event of a reader. The caller has dropped events of former executions."""
        if self._enumerator is None:
            return
        subtask = self._subtask(subtask_index)
        if attempt_number < subtask.attempt or attempt_number <= subtask.reset_up_to:
            return
        if attempt_number > subtask.attempt:
            if subtask.is_registered:
                self._give_back(subtask_index, subtask, self._restored_id_of(event))
            subtask.attempt = attempt_number
        match event:
            case ReaderRegistered():
                self._register(subtask_index, subtask)
            case RequestSplit():
                self._register(subtask_index, subtask)
                subtask.num_reading = 0
                self._call_enumerator("handle_split_request", subtask_index)
            case SourceEvent(payload):
                self._call_enumerator("handle_source_event", subtask_index, payload)
            case ReportedWatermark(timestamp) if self._alignment is not None:
                self._alignment.on_report(subtask_index, timestamp)
            case _:
                self._fail(InternalError(f"a source reader sent an unknown event: {event!r}"))

    def handle_request(self, payload: bytes) -> bytes:
        raise UnsupportedOperationError("a source does not answer requests of clients")

    def subtask_reset(self, subtask_index: int, checkpoint_id: int | None) -> None:
        subtask = self._subtask(subtask_index)
        subtask.reset_up_to = max(subtask.reset_up_to, subtask.attempt)
        subtask.is_ready = subtask.is_adopted = False
        self._give_back(subtask_index, subtask, checkpoint_id or 0)

    def checkpoint(self, checkpoint_id: int) -> bytes | None:
        if self._enumerator is None:
            raise InternalError(f"operator {self._context.operator_id} has no split enumerator to checkpoint")
        try:
            state = self._encode_state(self._enumerator.snapshot_state(checkpoint_id))
        except USER_ERRORS as error:
            raise self._typed(error) from error
        self._tracker.checkpoint(checkpoint_id)
        return state

    def snapshot_for_recovery(self) -> bytes:
        if self._enumerator is None:
            raise UnsupportedOperationError(f"operator {self._context.operator_id} has no split enumerator yet")
        try:
            self._num_snapshots += 1
            state = self._encode_state(self._enumerator.snapshot_state(self._num_snapshots))
        except USER_ERRORS as error:
            raise self._typed(error) from error
        serializer = self._source.split_serializer
        assigned = {
            index: [write_versioned(serializer, split) for split in self._tracker.assigned(index)]
            for index in range(self.parallelism)
        }
        return _RECOVERY_MAGIC + pickle.dumps((state, assigned), protocol=pickle.HIGHEST_PROTOCOL)

    def restore_for_recovery(self, state: bytes) -> None:
        what = f"the recovery state of source operator {self._context.operator_id}"
        if not state.startswith(_RECOVERY_MAGIC):
            raise CorruptStateError(f"{what} has a wrong header")
        self._restored_state, assigned = pickle.loads(state[len(_RECOVERY_MAGIC) :])
        for index, splits in assigned.items():
            serializer = self._source.split_serializer
            self._tracker.record(index, [read_versioned(serializer, split, f"{what}, a split") for split in splits])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._tracker.complete(checkpoint_id)
        self._call_enumerator("notify_checkpoint_complete", checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._call_enumerator("notify_checkpoint_aborted", checkpoint_id)

    def why_not_adopt(self, state: bytes | None, events: dict[int, list[Any]]) -> str:
        unknown = [event for received in events.values() for event in received if not isinstance(event, AddSplits)]
        if unknown:
            return f"a reader got an event that is not repeated: {unknown[0]!r}"
        splits = _splits_in(events)
        if not splits:
            return ""
        enumerator, _ = self._create_enumerator(_EnumeratorContext(self, _NO_EPOCH), state)
        try:
            if enumerator.adopt_splits(splits):
                return ""
            return f"{type(enumerator).__name__} may assign the splits again that were assigned after the checkpoint"
        finally:
            enumerator.close()

    def adopt(self, events: dict[int, list[Any]]) -> None:
        for index, received in events.items():
            self._subtask(index).is_adopted = True
            splits = _splits_in({index: received})
            self._tracker.record(index, splits)
            self._num_sent += len(splits)
            self._adopted_splits += splits

    def subtask_ready(self, subtask_index: int) -> None:
        subtask = self._subtask(subtask_index)
        subtask.is_ready = True
        if subtask.is_adopted:
            # Its events to the former JobMaster may be lost.
            subtask.is_adopted = False
            self._context.send_event(subtask_index, RegisterAgain())
        self._send_pending(subtask_index, subtask)

    def reset_to_checkpoint(self, checkpoint_id: int | None, state: bytes | None) -> None:
        if self._is_closed:
            return
        self._close_enumerator()
        for subtask in self._subtasks.values():
            subtask.reset_up_to = max(subtask.reset_up_to, subtask.attempt)
            subtask.is_registered = subtask.is_ready = subtask.is_adopted = False
            subtask.num_reading = 0
            subtask.pending.clear()
        self._num_sent = 0
        self._adopted_splits = []
        self._tracker = SplitAssignmentTracker(checkpoint_id or 0)
        self._restored_state = state
        if self._alignment is not None:
            self._alignment.reset()
        if self._is_started:
            self._start_enumerator()

    # -- calls of the enumerator's context ---------------------------------------------------------------------------

    @property
    def parallelism(self) -> int:
        return self._context.parallelism

    @property
    def registered_readers(self) -> set[int]:
        return {index for index, subtask in self._subtasks.items() if subtask.is_registered}

    def assigned_splits(self, subtask_index: int) -> tuple[Any, ...]:
        """Returns the splits assigned to the subtask since the last completed checkpoint, sent or not."""
        return (*self._tracker.assigned(subtask_index), *self._subtask(subtask_index).waiting_splits)

    @property
    def num_unassigned_splits(self) -> int | None:
        """The number of splits that no reader has; None if the enumerator does not tell. Any thread."""
        enumerator = self._enumerator
        return None if enumerator is None else enumerator.num_unassigned_splits

    @property
    def split_progress(self) -> tuple[int, int] | None:
        """The number of splits and of those not read to their end, or None if the enumerator does not know it.

        After a restart of the whole job, splits that were read before the checkpoint are not counted.
        """
        unassigned = None if self._enumerator is None else self._enumerator.num_unassigned_splits
        if unassigned is None:
            return None
        waiting = sum(len(subtask.waiting_splits) for subtask in self._subtasks.values())
        left = unassigned + waiting + sum(subtask.num_reading for subtask in self._subtasks.values())
        return unassigned + waiting + self._num_sent, left

    def _assign(self, assignment: dict[int, list[Any]]) -> None:
        for subtask_index, splits in assignment.items():
            if splits:
                self._send(subtask_index, AddSplits(tuple(splits)))

    def _send(self, subtask_index: int, event: Any) -> None:
        subtask = self._subtask(subtask_index)
        subtask.pending.append(event)
        self._send_pending(subtask_index, subtask)

    def _send_if_ready(self, subtask_index: int, event: WatermarkAlignment) -> None:
        if self._subtask(subtask_index).can_receive:
            self._context.send_event(subtask_index, event)

    def _send_pending(self, subtask_index: int, subtask: _Subtask) -> None:
        if not subtask.can_receive:
            return
        events, subtask.pending = subtask.pending, []
        for event in events:
            if isinstance(event, AddSplits):
                self._tracker.record(subtask_index, event.splits)
                subtask.num_reading += len(event.splits)
                self._num_sent += len(event.splits)
            self._context.send_event(subtask_index, event)

    # -- subtasks -----------------------------------------------------------------------------------------------------

    def _subtask(self, subtask_index: int) -> _Subtask:
        if not 0 <= subtask_index < self._context.parallelism:
            raise InternalError(
                f"operator {self._context.operator_id} has no subtask {subtask_index}: its parallelism is "
                f"{self._context.parallelism}"
            )
        return self._subtasks.setdefault(subtask_index, _Subtask())

    def _register(self, subtask_index: int, subtask: _Subtask) -> None:
        if subtask.is_registered:
            return
        subtask.is_registered = True
        self._call_enumerator("add_reader", subtask_index)
        self._send_pending(subtask_index, subtask)

    def _restored_id_of(self, event: Any) -> int:
        """Returns the checkpoint that an attempt restores whose reset was lost; 0: the beginning of the job."""
        if isinstance(event, ReaderRegistered):
            return event.restored_checkpoint_id or 0
        return self._tracker.completed_checkpoint_id

    def _give_back(self, subtask_index: int, subtask: _Subtask, checkpoint_id: int) -> None:
        subtask.is_registered = False
        waiting = subtask.waiting_splits
        subtask.pending = []
        try:
            splits = self._tracker.take_back(subtask_index, checkpoint_id)
        except InternalError as error:
            # To continue would lose records. A global failover also restores the enumerator.
            self._fail(error)
            return
        self._num_sent -= len(splits)
        subtask.num_reading = 0
        splits.extend(waiting)
        if splits:
            self._call_enumerator("add_splits_back", splits, subtask_index)

    # -- the enumerator -----------------------------------------------------------------------------------------------

    def _encode_state(self, enumerator_state: Any) -> bytes:
        enumerator = write_versioned(self._source.enumerator_state_serializer, enumerator_state)
        serializer = self._source.split_serializer
        waiting = {
            index: [write_versioned(serializer, split) for split in subtask.waiting_splits]
            for index, subtask in self._subtasks.items()
            if subtask.waiting_splits
        }
        return _STATE_MAGIC + pickle.dumps((enumerator, waiting), protocol=pickle.HIGHEST_PROTOCOL)

    def _decode_state(self, data: bytes) -> tuple[Any, dict[int, list[Any]]]:
        what = f"the state of the split enumerator of operator {self._context.operator_id}"
        if not data.startswith(_STATE_MAGIC):
            raise CorruptStateError(f"{what} has a wrong header")
        try:
            enumerator, waiting = pickle.loads(data[len(_STATE_MAGIC) :])
        except USER_ERRORS as error:
            raise CorruptStateError(f"{what} cannot be read: {describe(error)}") from error
        serializer = self._source.split_serializer
        return (
            read_versioned(self._source.enumerator_state_serializer, enumerator, what),
            {
                index: [read_versioned(serializer, split, f"{what}, a split") for split in splits]
                for index, splits in waiting.items()
            },
        )

    def _start_enumerator(self) -> None:
        self._epoch += 1
        self._schedule_announcement(self._epoch)
        context = _EnumeratorContext(self, self._epoch)
        adopted, self._adopted_splits = self._adopted_splits, []
        try:
            self._enumerator, waiting = self._create_enumerator(context, self._restored_state)
            if adopted and not self._enumerator.adopt_splits(adopted):
                raise InternalError(f"{type(self._enumerator).__name__} refuses splits that it has adopted before")
        except USER_ERRORS as error:  # a failure in a connector's code fails the job
            self._fail(error)
            return
        self._call_enumerator("start")
        for subtask_index, splits in waiting.items():
            self._call_enumerator("add_splits_back", splits, subtask_index)

    def _create_enumerator(
        self, context: _EnumeratorContext, state: bytes | None
    ) -> tuple[SplitEnumerator, dict[int, list[Any]]]:
        """Returns an enumerator that is not started, and the assigned splits that have not been sent."""
        if state is None:
            return self._source.create_enumerator(context), {}
        enumerator_state, waiting = self._decode_state(state)
        return self._source.restore_enumerator(context, enumerator_state), waiting

    def _schedule_announcement(self, epoch: int) -> None:
        alignment = self._alignment
        if alignment is None:
            return

        def announce() -> None:
            if self._epoch == epoch:
                alignment.announce()
                self._schedule_announcement(epoch)

        self._context.schedule(alignment.update_interval_ms, announce)

    def _set_backlog(self, has_backlog: bool) -> None:
        if has_backlog != self._has_backlog:
            self._has_backlog = has_backlog
            self._context.set_is_processing_backlog(has_backlog)

    def _close_enumerator(self) -> None:
        enumerator, self._enumerator = self._enumerator, None
        self._epoch += 1
        if not self._is_closed:
            self._set_backlog(False)
        if enumerator is not None:
            enumerator.close()

    def _call_enumerator(self, method: str, *arguments: Any) -> None:
        if self._enumerator is not None:
            self._guard(getattr(self._enumerator, method), *arguments)

    def _guard(self, call: Callable[..., None], *arguments: Any) -> None:
        try:
            call(*arguments)
        except USER_ERRORS as error:  # a failure in a connector's code fails the job
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._context.fail_job(self._typed(error))

    def _typed(self, error: BaseException) -> FlinkError:
        if isinstance(error, FlinkError):
            return error
        wrapped = InternalError(
            f"the split enumerator of {type(self._source).__name__} failed: {describe(error)}",
            remote_traceback=format_user_traceback(error),
        )
        wrapped.__cause__ = error
        return wrapped


def _splits_in(events: dict[int, list[Any]]) -> list[Any]:
    added = (event for received in events.values() for event in received if isinstance(event, AddSplits))
    return [split for event in added for split in event.splits]


class SplitAssignmentTracker:
    """Remembers which splits each subtask was sent since which checkpoint. Pure.

    Splits sent before checkpoint N are in the reader's part of N, or were finished before it. So a reader that is
    restored from N gives back exactly the splits that it was sent later. Splits sent before a completed checkpoint are
    forgotten, because no restore goes further back.

    Source: org.apache.flink.runtime.source.coordinator.SplitAssignmentTracker.

    Args:
        restored_checkpoint_id: the checkpoint that the job starts from; 0: the beginning of the job.
    """

    def __init__(self, restored_checkpoint_id: int = 0) -> None:
        #: No restore goes back further than this checkpoint.
        self.completed_checkpoint_id = restored_checkpoint_id
        self._since_last: dict[int, list[Any]] = {}
        #: By checkpoint id, ascending: the splits sent between the checkpoint before and this one.
        self._before: dict[int, dict[int, list[Any]]] = {}

    def record(self, subtask_index: int, splits: list[Any] | tuple[Any, ...]) -> None:
        self._since_last.setdefault(subtask_index, []).extend(splits)

    def checkpoint(self, checkpoint_id: int) -> None:
        """Marks that a checkpoint is taken now."""
        if self._before and checkpoint_id <= max(self._before):
            raise InternalError(f"checkpoint {checkpoint_id} was taken after checkpoint {max(self._before)}")
        self._before[checkpoint_id] = self._since_last
        self._since_last = {}

    def complete(self, checkpoint_id: int) -> None:
        """Marks that a checkpoint is complete. Late and repeated calls have no effect."""
        self.completed_checkpoint_id = max(self.completed_checkpoint_id, checkpoint_id)
        for known in [known for known in self._before if known <= checkpoint_id]:
            del self._before[known]

    def take_back(self, subtask_index: int, checkpoint_id: int) -> list[Any]:
        """Returns and forgets the splits that the subtask was sent after a checkpoint (0: the beginning of the job).

        Raises:
            InternalError: a later checkpoint is complete, so some of the splits are forgotten.
        """
        if checkpoint_id < self.completed_checkpoint_id:
            raise InternalError(
                f"subtask {subtask_index} is restored from checkpoint {checkpoint_id}, but its splits are only known "
                f"since the completed checkpoint {self.completed_checkpoint_id}"
            )
        later = [splits for known, splits in self._before.items() if known > checkpoint_id]
        return [split for splits in (*later, self._since_last) for split in splits.pop(subtask_index, ())]

    def assigned(self, subtask_index: int) -> list[Any]:
        """Returns all remembered splits of the subtask."""
        return [
            split for splits in (*self._before.values(), self._since_last) for split in splits.get(subtask_index, ())
        ]


class _EnumeratorContext:
    """The SplitEnumeratorContext of one enumerator. It ignores all calls once the enumerator has been replaced."""

    def __init__(self, coordinator: SourceCoordinator, epoch: int) -> None:
        self._coordinator = coordinator
        self._epoch = epoch

    @property
    def _is_current(self) -> bool:
        return self._coordinator._epoch == self._epoch

    @property
    def parallelism(self) -> int:
        return self._coordinator.parallelism

    @property
    def registered_readers(self) -> set[int]:
        return self._coordinator.registered_readers

    def assign_splits(self, assignment: dict[int, list[Any]]) -> None:
        if self._is_current:
            self._coordinator._assign(assignment)

    def signal_no_more_splits(self, subtask_index: int) -> None:
        if self._is_current:
            self._coordinator._send(subtask_index, NoMoreSplits())

    def send_event_to_reader(self, subtask_index: int, event: Any) -> None:
        if self._is_current:
            self._coordinator._send(subtask_index, SourceEvent(event))

    def call_async(self, call: Callable[[], Any], on_done: Callable[[Any, Any], None]) -> None:
        def done(result: Any, error: Any) -> None:
            if self._is_current:
                self._coordinator._guard(on_done, result, error)

        self._coordinator._context.run_blocking(call, done)

    def schedule(self, delay_ms: int, action: Callable[[], None]) -> None:
        def run() -> None:
            if self._is_current:
                self._coordinator._guard(action)

        self._coordinator._context.schedule(delay_ms, run)

    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        if self._is_current:
            self._coordinator._set_backlog(is_processing_backlog)


@dataclass(frozen=True)
class SourceCoordinatorProvider:
    """Creates the coordinator of a source. Pickled into the JobGraph.

    Attributes:
        alignment: the watermark alignment of the source, if any: (group, maximum drift in ms, update interval in ms).
    """

    source: SourceBase
    alignment: tuple[str, int, int] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # A source may carry its data, such as a collection. The JobMaster only needs the part that enumerates splits.
        return (SourceCoordinatorProvider, (self.source.for_coordinator(), self.alignment))

    def create(self, context: CoordinatorContext) -> SourceCoordinator:
        alignment = None if self.alignment is None else WatermarkAlignmentParams(*self.alignment)
        return SourceCoordinator(self.source, context, alignment)
