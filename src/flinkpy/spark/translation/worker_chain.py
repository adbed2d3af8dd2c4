"""WorkerChain: runs a chain of operators in a Python worker of Spark.

The operators and the OperatorChain are those of the native runtime. There is no mailbox loop: a batch is processed when
Spark delivers one. There are no checkpoints, and no watermark before the end of the input.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from flinkpy._proto import job_pb2
from flinkpy.checkpoint.storage.file_systems import use_file_systems_in_this_thread
from flinkpy.common.clock import SystemClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import InternalError, UnsupportedOperationError
from flinkpy.common.external_resource import ExternalResourceInfos
from flinkpy.connector_api.source import AddSplits, NoMoreSplits, ReaderRegistered, RequestSplit, SourceEvent
from flinkpy.graph.operator_specs import SinkSpec
from flinkpy.metrics.metric_registry import MetricScope
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, Watermark
from flinkpy.spark.blocks import SinkReport
from flinkpy.spark.translation.program import PassProgram
from flinkpy.spark.translation.sinks import DeferredSink, job_id_of_attempt, job_ids_before
from flinkpy.spark.translation.split_assignment import ReaderEvents
from flinkpy.spark.worker_files import resolved
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus
from flinkpy.streaming.mailbox.task_mailbox import Mail, TaskMailbox
from flinkpy.streaming.operators.accumulator_registry import AccumulatorRegistry
from flinkpy.streaming.operators.batch_sink_operators import job_id_of_sink
from flinkpy.streaming.operators.metric_group import TaskMetricGroup
from flinkpy.streaming.operators.source_operator import SourceOperator
from flinkpy.streaming.tasks.operator_chain import OperatorChain
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService

#: The number of records that a source emits at once. There is no mailbox that waits for the end of a batch.
_SOURCE_BATCH_ROWS = 8192
#: The maximum time between two checks of timers and conditions while the chain waits.
_WAIT_S = 1.0


class ChainHost(Protocol):
    def load_spec(self, data: bytes) -> Any:
        """Returns the spec of the next operator from its pickle."""
        ...

    def on_operator_event(self, operator_id: str, event: Any) -> None:
        """Handles an event from an operator to its coordinator."""
        ...


class _NoFiles:
    def open(self, handle: Any) -> Any:
        raise UnsupportedOperationError("there are no checkpoints in Spark")


class _NoState:
    """Implements TaskStateManager without state. Every attempt starts from the beginning."""

    restored_checkpoint_id: int | None = None
    is_restored_as_finished = False

    def __init__(self) -> None:
        self.files: Any = _NoFiles()
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self.io_executor = ThreadPoolExecutor(max_workers=1)

    @property
    def directory(self) -> Path:
        if self._directory is None:
            # Spark removes its local directories when the application ends, even if a worker was killed.
            place = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0] or None
            self._directory = tempfile.TemporaryDirectory(prefix="flinkpy-", dir=place)
        return Path(self._directory.name)

    def restored_state(self, operator_id: str) -> None:
        return None

    def checkpoint_streams(self, checkpoint_id: int, options: Any) -> Any:
        raise UnsupportedOperationError("there are no checkpoints in Spark")

    def acknowledge(self, checkpoint_id: int, metrics: Any, state: Any) -> None:
        raise UnsupportedOperationError("there are no checkpoints in Spark")

    def decline(self, checkpoint_id: int, error: BaseException) -> None:
        return

    def notify_complete(self, checkpoint_id: int) -> None:
        return

    def notify_aborted(self, checkpoint_id: int) -> None:
        return

    def close(self) -> None:
        self.io_executor.shutdown()
        if self._directory is not None:
            self._directory.cleanup()


class WorkerEnvironment:
    """Implements TaskEnvironment. Thread: the chain's.

    Args:
        vertex: has the chain of operators.
        host: runs the chain.
    """

    def __init__(
        self,
        program: PassProgram,
        vertex: job_pb2.JobVertex,
        subtask_index: int,
        attempt_number: int,
        host: ChainHost,
    ) -> None:
        job = program.job
        self.job_id = job.job_id
        self.job_name = job.job_name
        self.configuration = Configuration.from_dict(dict(job.configuration))
        self.vertex = vertex
        self.subtask_index = subtask_index
        # If Spark chooses the partitions, there may be more than the parallelism of the operator.
        self.parallelism = max(program.parallelism, subtask_index + 1)
        self.max_parallelism = max(program.max_parallelism, self.parallelism)
        self.attempt_number = attempt_number
        self.execution_attempt_id = f"{job.job_id}-{vertex.id}-{subtask_index}-{attempt_number}"
        self.task_name = f"{vertex.name} ({subtask_index + 1}/{self.parallelism})"
        self.clock = SystemClock()
        self.result_partitions: list[Any] = []
        self.input_gates: list[Any] = []
        self.state = _NoState()
        self.accumulators = AccumulatorRegistry(self.clock)
        self.cached_files: Mapping[str, str] = resolved(job.cached_files)
        #: Executors of Spark have resources of their own.
        self.external_resources: ExternalResourceInfos = {}
        self._host = host
        variables = {
            "<host>": "localhost",
            "<tm_id>": "spark",
            "<job_id>": job.job_id,
            "<job_name>": job.job_name,
            "<task_id>": vertex.id,
            "<task_name>": vertex.name,
            "<task_attempt_id>": self.execution_attempt_id,
            "<task_attempt_num>": str(attempt_number),
            "<subtask_index>": str(subtask_index),
        }
        scope = MetricScope(job.job_id, vertex.id, subtask_index, attempt_number)
        self.metric_group = TaskMetricGroup(scope, variables, self.configuration)

    def load_pickle(self, data: bytes) -> Any:
        return self._host.load_spec(data)

    def send_operator_event(self, operator_id: str, event: Any) -> None:
        self._host.on_operator_event(operator_id, event)

    def notify_running(self) -> None:
        return

    def notify_end_of_data(self) -> None:
        return

    def close(self) -> None:
        self.metric_group.close()
        self.state.close()


class WorkerChain:
    """The operators of one subtask. Thread: one.

    Args:
        attempt_number: the attempt of the Spark task.
        outputs: the outputs by number of the writer.

    Attributes:
        sink_reports: the results of the sinks, complete after `run`.
    """

    def __init__(self, program: PassProgram, subtask_index: int, attempt_number: int, outputs: list[Any]) -> None:
        self._program = program
        self.sink_reports: list[SinkReport] = []
        #: The operator id and the committables of each sink.
        self._sinks: list[tuple[str, list[bytes]]] = []
        self._num_loaded = 0
        self._task_attempt = attempt_number
        self._mailbox = TaskMailbox()
        self._outputs = outputs
        vertex = _vertex_of(program)
        self.environment: Any = WorkerEnvironment(
            program, vertex, subtask_index, attempt_number + program.job.attempt_number, self
        )
        self._timers = ProcessingTimeService(self.environment.clock)
        self._reader_events = ReaderEvents((), ())
        if program.source_events is not None:
            self._reader_events = program.source_events[subtask_index]
        self._answers = list(self._reader_events.answers)
        self._chain: OperatorChain | None = None

    def run(self, batches: Iterable[tuple[int, Batch]]) -> None:
        """Opens the operators, processes all batches, and closes the operators.

        Args:
            batches: the batches, each with its input of the head.
        """
        # A worker has no options of its own. Connectors find those of the job, such as the keys of a bucket.
        use_file_systems_in_this_thread(self.environment.configuration)
        try:
            chain = OperatorChain(self.environment, self._mailbox, self._timers, self._outputs)
            self._chain = chain
            chain.open()
            if self._program.source_events is None:
                self._process(chain, batches)
            else:
                self._read(chain)
            self._wait_until(lambda: chain.is_drained)
            self._timers.quiesce()
            chain.finish()
            self._wait_until(lambda: chain.has_finished)
        except BaseException:
            self._mailbox.close()
            if self._chain is not None:
                self._chain.close()
            raise
        self._mailbox.close()
        failures = chain.close()
        if failures:
            raise failures[0]
        self.sink_reports = [self._report(number) for number in range(len(self._sinks))]

    def accumulators(self) -> dict[str, bytes]:
        """Returns the pickled accumulators of the functions. Called after `run`."""
        registry = self.environment.accumulators
        if registry.is_empty:
            return {}
        registry.take_snapshot()
        return registry.snapshot

    def close(self) -> None:
        """Releases all resources. Called after success and failure."""
        self.environment.close()

    # -- running -------------------------------------------------------------------------------------------------

    def _process(self, chain: OperatorChain, batches: Iterable[tuple[int, Batch]]) -> None:
        head = chain.head
        limit = chain.max_batch_rows
        for input_index, batch in batches:
            for part in _parts(batch, limit):
                self._wait_until(lambda: chain.is_writable)
                head.process_batch(part, input_index)
                head.after_batch(part.num_rows)
            self._take_turn()
        head.process_element(Watermark(MAX_WATERMARK))
        for input_index in range(self._program.num_inputs):
            head.end_input(input_index)

    def _read(self, chain: OperatorChain) -> None:
        source = chain.head
        if not isinstance(source, SourceOperator):
            raise InternalError(f"{self._program.name} has no inputs, and its head is not a source")
        # If Spark runs the subtask again, blocks must have the same records as before. Otherwise Spark takes the
        # subtask for one that is not deterministic, and repeats all of its consumers or gives up.
        source.batch_size.fix(_SOURCE_BATCH_ROWS)
        if chain.max_batch_rows is not None:
            source.batch_size.limit(chain.max_batch_rows)
        while True:
            self._take_turn()
            if not chain.is_writable:
                self._mailbox.wait(self._wait_s())
                continue
            status = source.emit_next()
            if status is ActionStatus.END:
                source.emit_max_watermark()
                return
            if status is ActionStatus.NOTHING_AVAILABLE:
                self._mailbox.wait(self._wait_s())

    def _take_turn(self) -> None:
        """Processes mail and due timers, as the mailbox loop does between two batches."""
        mailbox = self._mailbox
        while mailbox.has_mail and (mail := mailbox.take()) is not None:
            mail.action()
        if self._timers.next_deadline_ns() is not None:
            self._timers.fire_due(self.environment.clock.monotonic_ns())

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        self._take_turn()
        while not condition():
            self._mailbox.wait(self._wait_s())
            self._take_turn()

    def _wait_s(self) -> float:
        deadline_ns = self._timers.next_deadline_ns()
        if deadline_ns is None:
            return _WAIT_S
        return min(max(0.0, (deadline_ns - self.environment.clock.monotonic_ns()) / 1e9), _WAIT_S)

    # -- events --------------------------------------------------------------------------------------------------

    def load_spec(self, data: bytes) -> Any:
        """Loads the spec of the next operator, the head first. Replaces sinks by DeferredSinks."""
        spec = pickle.loads(data)
        number, self._num_loaded = self._num_loaded, self._num_loaded + 1
        if not isinstance(spec, SinkSpec):
            return spec
        committables: list[bytes] = []
        program, operator_id = self._program, self._program.operators[number].operator_id
        self._sinks.append((operator_id, committables))
        attempts = job_id_of_sink(program.job.job_id, operator_id), program.job.attempt_number, self._task_attempt
        ids_before = job_ids_before(*attempts, program.may_speculate)
        return replace(spec, sink=DeferredSink(spec.sink, committables, job_id_of_attempt(*attempts), ids_before))

    def _report(self, number: int) -> SinkReport:
        operator_id, committables = self._sinks[number]
        assert self._chain is not None
        operator = self._chain.operator(operator_id)
        environment = self.environment
        return SinkReport(
            number,
            environment.subtask_index,
            self._task_attempt,
            getattr(operator, "num_records", 0),
            tuple(committables),
        )

    def on_operator_event(self, operator_id: str, event: Any) -> None:
        """Answers a reader with the events that its coordinator gave in the driver."""
        if isinstance(event, ReaderRegistered):
            for first in self._reader_events.first:
                self._send(operator_id, first)
        elif isinstance(event, RequestSplit):
            self._send(operator_id, self._answers.pop(0) if self._answers else NoMoreSplits())
        else:
            raise UnsupportedOperationError(
                f"{self._program.name}: the connector's reader sends an event to its coordinator "
                f"({type(event).__name__}), which is not possible from Spark: run it with set_batch_backend('native')"
            )

    def _send(self, operator_id: str, event: AddSplits | NoMoreSplits | SourceEvent) -> None:
        def deliver() -> None:
            assert self._chain is not None
            operator = self._chain.operator(operator_id)
            assert operator is not None
            operator.handle_operator_event(event)

        self._mailbox.put(Mail(f"operator event {type(event).__name__}", deliver))


def _parts(batch: Batch, limit: int | None) -> Iterable[Batch]:
    if limit is None or batch.num_rows <= limit:
        return (batch,)
    return (batch.slice(start, min(limit, batch.num_rows - start)) for start in range(0, batch.num_rows, limit))


def _vertex_of(program: PassProgram) -> job_pb2.JobVertex:
    vertex = job_pb2.JobVertex(id=program.operators[0].operator_id, name=program.name)
    for operator in program.operators:
        descriptor = vertex.chain.add(
            operator_id=operator.operator_id, name=operator.name, factory_pickle=operator.spec_pickle
        )
        for link in operator.links:
            output = descriptor.outputs.add(side_output_tag=link.tag or "")
            if link.chained is not None:
                output.chained_operator = link.chained
            else:
                assert link.writer is not None
                output.result = link.writer
    return vertex


def pickled_spec(spec: Any) -> bytes:
    """Returns a spec as `PassOperator.spec_pickle`."""
    import cloudpickle

    return bytes(cloudpickle.dumps(spec, protocol=pickle.HIGHEST_PROTOCOL))
