"""OperatorChain: the operators of one task, wired together.

The chain is a tree. The head is at position 0. Each operator calls the operators it feeds directly; the leaves feed
record writers. Consecutive map, filter and flat_map operators are fused into one operator.

Source: org.apache.flink.streaming.runtime.tasks.OperatorChain.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

from flinkpy._proto import checkpoint_pb2, job_pb2
from flinkpy.common.errors import InternalError
from flinkpy.common.typeinfo import Types
from flinkpy.functions.state import ListStateDescriptor
from flinkpy.graph.operator_specs import declared_type
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, CheckpointBarrier, Element, Watermark
from flinkpy.records.type_check import type_check
from flinkpy.streaming.io.record_writer_output import RecordWriterOutput
from flinkpy.streaming.mailbox.task_mailbox import TaskMailbox
from flinkpy.streaming.operators.factory import ROW_STEPS, create_operator, input_type
from flinkpy.streaming.operators.fused_row_operator import FusedRowOperator, FusedStep
from flinkpy.streaming.operators.global_sink_operators import GlobalSinkCommitterOperator
from flinkpy.streaming.operators.metric_group import OperatorMetricGroup
from flinkpy.streaming.operators.output import ChainingOutput, CheckedOutput, Output, combine
from flinkpy.streaming.operators.sink_operator import SinkOperator
from flinkpy.streaming.operators.stream_operator import OperatorContext, OperatorSnapshot, StreamOperator
from flinkpy.streaming.tasks.environment import TaskEnvironment
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService

if TYPE_CHECKING:
    from flinkpy.state.operator_state import OperatorStateBackend

_LOG = logging.getLogger(__name__)

#: An upper bound of the Python frames from one operator of a chain to the next, for a batch or an element.
_FRAMES_PER_OPERATOR = 8
#: Python's default recursion limit, which stays available to all other code.
_OWN_FRAMES = 1_000

#: (position in `vertex.results`, subpartition, batches that a barrier has overtaken there).
CapturedOutput = tuple[int, int, list[Any]]


def raise_recursion_limit(num_operators: int) -> None:
    """Raises the recursion limit of this process so that a chain of `num_operators` can be built and run.

    Each operator calls the next one. User functions can nest their calls as deeply as without the chain.
    """
    needed = _OWN_FRAMES + num_operators * _FRAMES_PER_OPERATOR
    if sys.getrecursionlimit() < needed:
        sys.setrecursionlimit(needed)


#: Each element is (job id, accumulators of one subtask).
_DESCRIPTOR = ListStateDescriptor("flinkpy-accumulators", Types.PICKLED_BYTE_ARRAY())


def restore_accumulators(environment: TaskEnvironment, head: checkpoint_pb2.OperatorSubtaskState | None) -> None:
    """Restores the accumulators of the task, which are list state of the head operator.

    Called before the operators are opened and register their accumulators.

    Ignores the accumulators of another job, whose savepoint this job was started from.

    Raises: StateRestoreError.
    """
    if head is None or not head.operator:
        return
    from flinkpy.state.operator_state import OperatorStateBackend

    # The head operator has not created its own backend yet.
    backend = OperatorStateBackend(tuple(head.operator), environment.state.files, environment.task_name)
    kept = backend.get_list_state(_DESCRIPTOR).get()
    environment.accumulators.restore(snapshot for job_id, snapshot in kept if job_id == environment.job_id)


def keep_accumulators(environment: TaskEnvironment, state: OperatorStateBackend) -> None:
    """Writes the accumulators into the operator state that is about to be snapshotted."""
    registry = environment.accumulators
    registry.take_snapshot()
    state.get_list_state(_DESCRIPTOR).update([(environment.job_id, registry.snapshot)])


def _emit_barrier(writers: list[RecordWriterOutput], barrier: CheckpointBarrier) -> list[CapturedOutput]:
    captured: list[CapturedOutput] = []
    for position, writer in enumerate(writers):
        captured.extend((position, subpartition, batches) for subpartition, batches in writer.emit_barrier(barrier))
    return captured


class OperatorChain:
    """The operators of one task. Thread: task thread.

    Attributes:
        head: the operator that the task feeds.
        operators: the head first, and every operator before the operators that it feeds.
    """

    is_restored_as_finished = False

    def __init__(
        self,
        environment: TaskEnvironment,
        mailbox: TaskMailbox,
        processing_time_service: ProcessingTimeService,
        writers: list[RecordWriterOutput],
    ) -> None:
        self._environment = environment
        self._mailbox = mailbox
        self._processing_time_service = processing_time_service
        self._descriptors = list(environment.vertex.chain)
        if not self._descriptors:
            raise InternalError(f"vertex {environment.vertex.name} has no operators")
        raise_recursion_limit(len(self._descriptors))
        self._specs = [environment.load_pickle(descriptor.factory_pickle) for descriptor in self._descriptors]
        self.writers = writers
        #: These three are keyed by position in the chain. Of the operators that are fused into one loop, only the first
        #: has a feeder and only the last has outputs.
        self.metric_groups: dict[int, OperatorMetricGroup] = {}
        self.feeders: dict[int, ChainingOutput] = {}
        self.outputs: dict[int, list[Output]] = {}
        self._by_id: dict[str, StreamOperator] = {}
        self.operators: list[StreamOperator] = []
        self.head = self._build(0, set())
        self.operators.reverse()
        self.sinks = [operator for operator in self.operators if isinstance(operator, SinkOperator)]
        self._fillable = [o for o in self.operators if type(o).is_writable is not StreamOperator.is_writable]
        limits = [operator.max_batch_rows for operator in self.operators]
        #: The largest batch that every operator accepts, in records; None if no operator has a limit.
        self.max_batch_rows = min((limit for limit in limits if limit is not None), default=None)
        self._to_close: list[StreamOperator] = []

    # -- building ------------------------------------------------------------------------------------------------

    def _build(self, position: int, above: set[int]) -> StreamOperator:
        """Builds the operators that `position` feeds, then the operator at `position`. Appends them in this order."""
        if position in above or position >= len(self._descriptors):
            raise InternalError(f"chain of vertex {self._environment.vertex.name}: bad link to position {position}")
        run = self._fusable_run(position)
        last = self._descriptors[run[-1]]
        main: list[Output] = []
        side: dict[str, list[Output]] = {}
        for descriptor in last.outputs:
            output = self._link(descriptor, above | set(run))
            if descriptor.side_output_tag:
                side.setdefault(descriptor.side_output_tag, []).append(output)
            else:
                main.append(output)
        self.outputs[run[-1]] = [outputs[0] for outputs in (main, *side.values()) if outputs]
        side_outputs = {tag: combine(outputs) for tag, outputs in side.items()}
        operator = self._create(run, main, side_outputs)
        for covered in run:
            self._by_id[self._descriptors[covered].operator_id] = operator
        self.operators.append(operator)
        return operator

    def _link(self, descriptor: job_pb2.OutputDescriptor, above: set[int]) -> Output:
        if descriptor.WhichOneof("target") == "result":
            return self.writers[descriptor.result]
        output = ChainingOutput(self._build(descriptor.chained_operator, above))
        self.feeders[descriptor.chained_operator] = output
        return output

    def _fusable_run(self, position: int) -> list[int]:
        """Returns `position` and the following positions that can be fused with it."""
        run = [position]
        if type(self._specs[position]) not in ROW_STEPS:
            return run
        while True:
            outputs = self._descriptors[run[-1]].outputs
            if len(outputs) != 1 or outputs[0].WhichOneof("target") != "chained_operator":
                return run
            following = outputs[0].chained_operator
            if outputs[0].side_output_tag or following in run or following >= len(self._specs):
                return run
            if type(self._specs[following]) not in ROW_STEPS:
                return run
            run.append(following)

    def _create(self, run: list[int], main: list[Output], side_outputs: dict[str, Output]) -> StreamOperator:
        """Creates the operator for the positions in `run`.

        Checks of declared types are added only inside the chain. Records that leave it are checked when they are
        converted to columns.
        """
        first = self._specs[run[0]]
        output = combine(main)
        stays_in_chain = any(isinstance(one, ChainingOutput) for one in main)
        if type(first) not in ROW_STEPS:
            context = self._context(run[0])
            check = type_check(declared_type(first)) if stays_in_chain else None
            checked = output if check is None else CheckedOutput(output, check, context)
            return create_operator(first, context, checked, side_outputs)
        steps = [
            FusedStep(
                ROW_STEPS[type(self._specs[p])],
                self._specs[p].function,
                self._context(p),
                declared_type(self._specs[p]) if stays_in_chain or p != run[-1] else None,
            )
            for p in run
        ]
        return FusedRowOperator(steps, input_type(first), output, side_outputs)

    def _context(self, position: int) -> OperatorContext:
        descriptor = self._descriptors[position]
        group = self._environment.metric_group.add_operator(descriptor.operator_id, descriptor.name)
        self.metric_groups[position] = group
        return OperatorContext(
            operator_id=descriptor.operator_id,
            name=descriptor.name,
            environment=self._environment,
            mailbox=self._mailbox,
            processing_time_service=self._processing_time_service,
            metrics=group,
        )

    # -- running -------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Restores and opens every operator, the last first, so that an operator may emit records in its `open`.

        Raises: StateRestoreError, StateMigrationError, CorruptStateError, FunctionError.
        """
        states = self._environment.state.restored_state
        restore_accumulators(self._environment, states(self.head_operator_id))
        for operator in reversed(self.operators):
            # Registered first, because an operator that fails half-way must be closed too.
            self._to_close.append(operator)
            operator.restore(states)
            operator.open()

    def commit_restored(self) -> None:
        """Commits the committables that a finished task left in the restored checkpoint. Called instead of `open`.

        Closes the sinks in any case.

        Raises: the errors of restoring and committing.
        """
        states = self._environment.state.restored_state
        try:
            for operator in self.operators:
                if not isinstance(operator, SinkOperator | GlobalSinkCommitterOperator):
                    continue
                self._to_close.append(operator)
                operator.restore(states)
                operator.commit_restored()
        finally:
            failures = self.close()
        if failures:
            raise failures[0]

    @property
    def head_operator_id(self) -> str:
        """The id of the head operator. The state of the channels is stored under it."""
        return self._descriptors[0].operator_id

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Lets every operator emit what must precede the barrier, the head first."""
        for operator in self.operators:
            operator.prepare_snapshot_pre_barrier(checkpoint_id)

    def emit_barrier(self, barrier: CheckpointBarrier) -> list[CapturedOutput]:
        """Sends the barrier to all results. Returns the batches that it overtook, which become part of the state."""
        return _emit_barrier(self.writers, barrier)

    def snapshot_state(self, barrier: CheckpointBarrier) -> dict[str, OperatorSnapshot]:
        """Takes the snapshots of all operators, by operator id. If one raises, it releases the others."""
        taken: dict[str, OperatorSnapshot] = {}
        if not self._environment.accumulators.is_empty:
            keep_accumulators(self._environment, self.head.task_state)
        try:
            for operator in reversed(self.operators):
                operator.checkpoint_timestamp_ms = barrier.timestamp_ms
                taken.update(operator.snapshots(barrier.checkpoint_id, barrier.options))
        except BaseException:
            for snapshot in taken.values():
                snapshot.release()
            raise
        return taken

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        for operator in reversed(self.operators):
            operator.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        for operator in reversed(self.operators):
            operator.notify_checkpoint_aborted(checkpoint_id)

    # -- the end -------------------------------------------------------------------------------------------------

    @property
    def is_writable(self) -> bool:
        """True if every result partition has room and every operator accepts more records."""
        for writer in self.writers:
            if not writer.partition.is_available:
                return False
        fillable = self._fillable
        return not fillable or all(operator.is_writable for operator in fillable)

    @property
    def is_drained(self) -> bool:
        """True if no operator waits for the results of records that it has taken."""
        return all(operator.is_drained for operator in self.operators)

    def operator(self, operator_id: str) -> StreamOperator | None:
        return self._by_id.get(operator_id)

    def operator_at(self, position: int) -> StreamOperator:
        return self._by_id[self._descriptors[position].operator_id]

    def finish(self) -> None:
        """Tells every operator, the head first, that its input has ended."""
        for operator in self.operators:
            if operator is not self.head:
                operator.end_input(0)
            operator.finish()

    @property
    def has_finished(self) -> bool:
        return all(operator.has_finished for operator in self.operators)

    def suspend(self) -> None:
        """Tells every operator that the job has been stopped with a savepoint."""
        for operator in self.operators:
            operator.suspend()

    @property
    def is_suspended(self) -> bool:
        return all(operator.is_suspended for operator in self.operators)

    def emit_to_results(self, element: Element) -> None:
        for writer in self.writers:
            writer.emit_element(element)

    def flush(self) -> None:
        for writer in self.writers:
            writer.writer.flush()

    def close(self) -> list[BaseException]:
        """Closes every operator that was opened, each once, the last opened first. Returns the errors they raised.

        If a call was interrupted, the next call continues with the remaining operators.
        """
        failures: list[BaseException] = []
        while self._to_close:
            operator = self._to_close.pop()
            try:
                operator.close()
            except BaseException as error:  # noqa: BLE001 - the other operators must be closed too
                _LOG.warning("closing operator %s failed", operator.context.name, exc_info=error)
                failures.append(error)
        return failures


class _FinishedHead(StreamOperator):
    """Forwards the end of event time. Other input would be a bug, because the producers had finished too."""

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        raise InternalError(f"{self.context.environment.task_name} had finished, but received {batch!r}")

    def process_watermark(self, watermark: Watermark) -> None:
        if watermark.timestamp == MAX_WATERMARK:
            self.emit_to_all(watermark)

    def handle_operator_event(self, event: Any) -> None:
        """Ignores the event. A coordinator may not know that the task has finished."""
        return


class FinishedOperatorChain:
    """Replaces the OperatorChain of a task that had finished in the checkpoint it is restored from.

    It opens no user code. Its input consists of the end of event time and the end of data, which it forwards. Its
    checkpoints contain no state and report the task as finished. Only a commit may be left to do: the checkpoint may
    contain committables of a sink, and it is unknown whether they were committed after the checkpoint.

    Thread: task thread.

    Source: org.apache.flink.streaming.runtime.tasks.FinishedOperatorChain.
    """

    is_restored_as_finished = True
    is_writable = True
    is_drained = True
    max_batch_rows = None
    has_finished = True
    is_suspended = True

    def __init__(
        self,
        environment: TaskEnvironment,
        mailbox: TaskMailbox,
        processing_time_service: ProcessingTimeService,
        writers: list[RecordWriterOutput],
    ) -> None:
        self._environment = environment
        self._mailbox = mailbox
        self._processing_time_service = processing_time_service
        self.writers = writers
        self.sinks: list[SinkOperator] = []
        self.head_operator_id = environment.vertex.chain[0].operator_id
        context = OperatorContext(
            operator_id=self.head_operator_id,
            name=environment.vertex.chain[0].name,
            environment=environment,
            mailbox=mailbox,
            processing_time_service=processing_time_service,
            metrics=environment.metric_group.add_operator(self.head_operator_id, environment.vertex.chain[0].name),
        )
        self.head: StreamOperator = _FinishedHead(context, combine(list(writers)), {})

    def open(self) -> None:
        state = self._environment.state
        if all(state.restored_state(descriptor.operator_id) is None for descriptor in self._environment.vertex.chain):
            return
        chain = OperatorChain(self._environment, self._mailbox, self._processing_time_service, self.writers)
        chain.commit_restored()

    def emit_max_watermark(self) -> None:
        self.emit_to_results(Watermark(MAX_WATERMARK))

    def operator(self, operator_id: str) -> StreamOperator | None:
        return self.head

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        return

    def emit_barrier(self, barrier: CheckpointBarrier) -> list[CapturedOutput]:
        return _emit_barrier(self.writers, barrier)

    def snapshot_state(self, barrier: CheckpointBarrier) -> dict[str, OperatorSnapshot]:
        return {}

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        return

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        return

    def finish(self) -> None:
        return

    def suspend(self) -> None:
        return

    def emit_to_results(self, element: Element) -> None:
        for writer in self.writers:
            writer.emit_element(element)

    def flush(self) -> None:
        for writer in self.writers:
            writer.writer.flush()

    def close(self) -> list[BaseException]:
        return []
