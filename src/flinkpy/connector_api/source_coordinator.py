"""SourceCoordinator: runs a source's SplitEnumerator in the JobMaster and remembers who has which split.

Per subtask it keeps one record: the attempt it listens to, whether that attempt's reader has registered, whether it can
receive events, and what still has to be sent to it; a SplitAssignmentTracker knows what has been sent. The rules:

* An event of an attempt that is not the newest known one is dropped. An event of a newer attempt than the one listened
  to, with no reset in between (the reset was lost), counts as the reset too: the older attempt's splits go back first.
* Splits and "no more splits" leave only when the reader has registered AND the attempt is ready; until then they wait
  in the record, in order. What was sent to an attempt that died on the way is tracked all the same, so the reset
  gives it back: no split is lost, and none is given to two living attempts.
* A checkpoint holds the enumerator's state and the splits that are assigned but still wait here: these are in no
  reader's part of it. All that has left is in a reader's part, because the runtime takes the checkpoint of this
  coordinator at a moment when everything sent before arrives at its task before the barrier, and nothing after does.
* A subtask that is reset to a checkpoint gives back what it was sent after that, and what waits for it. Splits sent
  before are in the reader's part of the checkpoint, or were finished, and do not come back.
* With watermark alignment, the watermarks that readers report are combined, and what is allowed is announced at every
  interval to those that can receive it; neither is part of a checkpoint, and an announcement is never kept for later.
* A reset of the whole job makes a new enumerator, from the checkpoint's state where there is any; whatever the old one
  still has in flight (asynchronous listings, timers) is dropped when it comes back, by its epoch.

Source: org.apache.flink.runtime.source.coordinator.SourceCoordinator, with its context and SplitAssignmentTracker.
Differs: an assignment to a reader that is just being reset is kept for its next attempt's reset, not an error.
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
    RequestSplit,
    SourceBase,
    SourceEvent,
    SplitEnumerator,
)
from flinkpy.connector_api.split_assignment_tracker import SplitAssignmentTracker
from flinkpy.connector_api.watermark_alignment import (
    AlignmentCoordinator,
    ReportedWatermark,
    WatermarkAlignment,
    WatermarkAlignmentParams,
)

if TYPE_CHECKING:
    from flinkpy.connector_api.coordinator import CoordinatorContext


#: First bytes of a checkpointed state, with the number of its form.
_STATE_MAGIC = b"FLKPSRC1"
#: The same of a state for the recovery of a batch job.
_RECOVERY_MAGIC = b"FLKPREC1"


@dataclass(slots=True)
class _Subtask:
    """What the coordinator knows of one subtask."""

    #: Newest attempt heard of; -1 before the first event. Events of lower attempts are late and dropped.
    attempt: int = -1
    #: Attempts up to this one have been reset: their events are late, even where nothing was heard of them before.
    reset_up_to: int = -1
    is_registered: bool = False
    is_ready: bool = False
    #: Events that wait for the attempt to be registered and ready, in order.
    pending: list[Any] = field(default_factory=list)

    @property
    def can_receive(self) -> bool:
        return self.is_registered and self.is_ready

    @property
    def waiting_splits(self) -> list[Any]:
        """Those assigned that have not been sent."""
        return [split for event in self.pending if isinstance(event, AddSplits) for split in event.splits]


class SourceCoordinator:
    """The JobMaster's half of a source operator. Thread: JobMaster main thread; never blocks."""

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
        #: What the next enumerator is made from; None: it begins at the beginning.
        self._restored_state: bytes | None = None
        self._enumerator: SplitEnumerator | None = None
        #: Counts enumerators: a callback made for an older one is dropped.
        self._epoch = 0
        self._is_started = False
        self._is_closed = False
        self._num_snapshots = 0
        self._has_backlog = False

    # -- OperatorCoordinator ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Create and start the enumerator; a second call does nothing."""
        if self._is_started or self._is_closed:
            return
        self._is_started = True
        self._start_enumerator()

    def close(self) -> None:
        self._is_closed = True
        self._close_enumerator()
        self._subtasks.clear()

    def handle_event(self, subtask_index: int, attempt_number: int, event: Any) -> None:
        """An event of a reader. The caller has dropped those of executions that are no longer current."""
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
                self._call_enumerator("handle_split_request", subtask_index)
            case SourceEvent(payload):
                self._call_enumerator("handle_source_event", subtask_index, payload)
            case ReportedWatermark(timestamp) if self._alignment is not None:
                self._alignment.on_report(subtask_index, timestamp)
            case _:
                self._fail(InternalError(f"a source reader sent an unknown event: {event!r}"))

    def handle_request(self, payload: bytes) -> bytes:
        raise UnsupportedOperationError("a source has no answers to client requests")

    def subtask_reset(self, subtask_index: int, checkpoint_id: int | None) -> None:
        subtask = self._subtask(subtask_index)
        subtask.reset_up_to = max(subtask.reset_up_to, subtask.attempt)
        subtask.is_ready = False
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
        what = f"what operator {self._context.operator_id} had read"
        if not state.startswith(_RECOVERY_MAGIC):
            raise CorruptStateError(f"{what} does not begin as such")
        self._restored_state, assigned = pickle.loads(state[len(_RECOVERY_MAGIC) :])
        for index, splits in assigned.items():
            serializer = self._source.split_serializer
            self._tracker.record(index, [read_versioned(serializer, split, f"{what}, a split") for split in splits])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._tracker.complete(checkpoint_id)
        self._call_enumerator("notify_checkpoint_complete", checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._call_enumerator("notify_checkpoint_aborted", checkpoint_id)

    def subtask_ready(self, subtask_index: int) -> None:
        subtask = self._subtask(subtask_index)
        subtask.is_ready = True
        self._send_pending(subtask_index, subtask)

    def reset_to_checkpoint(self, checkpoint_id: int | None, state: bytes | None) -> None:
        if self._is_closed:
            return
        self._close_enumerator()
        for subtask in self._subtasks.values():
            subtask.reset_up_to = max(subtask.reset_up_to, subtask.attempt)
            subtask.is_registered = subtask.is_ready = False
            subtask.pending.clear()
        self._tracker = SplitAssignmentTracker(checkpoint_id or 0)
        self._restored_state = state
        if self._alignment is not None:
            self._alignment.reset()
        if self._is_started:
            self._start_enumerator()

    # -- what the enumerator's context needs --------------------------------------------------------------------------

    @property
    def parallelism(self) -> int:
        return self._context.parallelism

    @property
    def registered_readers(self) -> set[int]:
        return {index for index, subtask in self._subtasks.items() if subtask.is_registered}

    def assigned_splits(self, subtask_index: int) -> tuple[Any, ...]:
        """The splits that the subtask has been given, sent or not, since the last completed checkpoint."""
        return (*self._tracker.assigned(subtask_index), *self._subtask(subtask_index).waiting_splits)

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
            self._context.send_event(subtask_index, event)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _subtask(self, subtask_index: int) -> _Subtask:
        if not 0 <= subtask_index < self._context.parallelism:
            raise InternalError(
                f"operator {self._context.operator_id} has no subtask {subtask_index}, only {self._context.parallelism}"
            )
        return self._subtasks.setdefault(subtask_index, _Subtask())

    def _register(self, subtask_index: int, subtask: _Subtask) -> None:
        if subtask.is_registered:
            return
        subtask.is_registered = True
        self._call_enumerator("add_reader", subtask_index)
        self._send_pending(subtask_index, subtask)

    def _restored_id_of(self, event: Any) -> int:
        """What an attempt whose reset was lost is restored from."""
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
            # Records would be lost. A global failover restores the enumerator as well.
            self._fail(error)
            return
        splits.extend(waiting)
        if splits:
            self._call_enumerator("add_splits_back", splits, subtask_index)

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
            raise CorruptStateError(f"{what} does not begin as one")
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
        waiting: dict[int, list[Any]] = {}
        try:
            if self._restored_state is None:
                self._enumerator = self._source.create_enumerator(context)
            else:
                state, waiting = self._decode_state(self._restored_state)
                self._enumerator = self._source.restore_enumerator(context, state)
        except USER_ERRORS as error:  # the connector's code is not ours; its failure is the job's
            self._fail(error)
            return
        self._call_enumerator("start")
        for subtask_index, splits in waiting.items():
            self._call_enumerator("add_splits_back", splits, subtask_index)

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
        except USER_ERRORS as error:  # the connector's code is not ours; its failure is the job's
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


class _EnumeratorContext:
    """SplitEnumeratorContext of one enumerator; goes silent when that enumerator has been replaced."""

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
    """Pickled into the JobGraph: makes the coordinator of `source`.

    `alignment`: that of its WatermarkStrategy, where it has one: (group, maximum drift in ms, update interval in ms).
    """

    source: SourceBase
    alignment: tuple[str, int, int] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # A source may carry its data (a collection); the JobMaster needs only what enumerates the splits.
        return (SourceCoordinatorProvider, (self.source.for_coordinator(), self.alignment))

    def create(self, context: CoordinatorContext) -> SourceCoordinator:
        alignment = None if self.alignment is None else WatermarkAlignmentParams(*self.alignment)
        return SourceCoordinator(self.source, context, alignment)
