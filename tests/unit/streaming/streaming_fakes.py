"""Fakes of a stream task's surroundings: network, environment, sources and sinks. All run on one thread."""

from __future__ import annotations

import tempfile
from collections import deque
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
from memory_checkpoints import MemoryStreams

from flinkpy._proto import checkpoint_pb2, job_pb2
from flinkpy.common.clock import ManualClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.external_resource import ExternalResourceInfos
from flinkpy.connector_api.sink import SinkBase, SinkWriter
from flinkpy.connector_api.source import Boundedness, ReaderStatus, SourceBase, SourceReader
from flinkpy.graph import operator_specs as specs
from flinkpy.metrics.metric_registry import MetricScope
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier, EndOfPartition, Watermark
from flinkpy.streaming.io.checkpointing.barrier_handler import alignment_of, with_alignment
from flinkpy.streaming.mailbox.task_mailbox import TaskMailbox
from flinkpy.streaming.operators.accumulator_registry import AccumulatorRegistry
from flinkpy.streaming.operators.factory import create_operator
from flinkpy.streaming.operators.metric_group import OperatorMetricGroup, TaskMetricGroup
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService


class FakeResultPartition:
    """A result partition that records its input. The test sets `is_available`."""

    partition_type = "PIPELINED_BOUNDED"

    def __init__(self, num_subpartitions: int = 1) -> None:
        self.num_subpartitions = num_subpartitions
        self.items: list[list[Any]] = [[] for _ in range(num_subpartitions)]
        self.is_available = True
        self.listener: Any = None
        self.bytes_out = 0
        #: True if the producer must persist the data that a barrier overtakes here.
        self.keeps_overtaken = True
        #: A barrier that keeps its place in the queue and has not been sent.
        self.queued_barrier: int | None = None
        self.is_finished = False

    def set_availability_listener(self, listener: Any) -> None:
        self.listener = listener

    def emit(self, subpartition: int, batch: Batch, type_info: Any = None) -> None:
        self.items[subpartition].append(batch)

    def emit_parts(self, parts: Any, whole: Batch, type_info: Any = None) -> None:
        for subpartition, part in parts:
            self.emit(subpartition, part, type_info)

    def emit_broadcast(self, batch: Batch) -> None:
        for items in self.items:
            items.append(batch)

    def emit_element(self, element: Any, subpartition: int | None = None) -> None:
        for index in range(self.num_subpartitions) if subpartition is None else [subpartition]:
            self.items[index].append(element)

    def emit_priority(self, barrier: Any) -> list[tuple[int, list[Any]]]:
        """Overtakes all batches behind the last priority barrier."""
        overtaken = []
        for index, items in enumerate(self.items):
            batches = []
            for item in reversed(items):
                if _is_priority(item):
                    break
                if isinstance(item, Batch):
                    batches.insert(0, item)
            overtaken.append((index, batches))
            items.append(barrier)
        return overtaken if self.keeps_overtaken else []

    def has_queued_barrier(self, checkpoint_id: int) -> bool:
        return self.queued_barrier == checkpoint_id

    def convert_to_unaligned(self, checkpoint_id: int) -> list[tuple[int, list[Any]]] | None:
        if self.queued_barrier != checkpoint_id:
            return None
        self.queued_barrier = None
        return self.emit_priority(CheckpointBarrier(checkpoint_id, 0))

    def finish(self) -> None:
        self.emit_element(EndOfPartition())
        self.is_finished = True

    def rows(self) -> list[Any]:
        return [row for items in self.items for item in items if isinstance(item, Batch) for row in batch_rows(item)]

    def elements(self) -> list[Any]:
        return [item for item in self.items[0] if not isinstance(item, Batch)]


class FakeInputGate:
    """Returns the items of the test in their order, except those of blocked channels and priority barriers."""

    def __init__(self, num_channels: int = 1) -> None:
        self.num_channels = num_channels
        #: The channels that metrics read. The items of the test have none.
        self.channels: list[Any] = []
        self.pool: Any = None
        self.queue: deque[tuple[int, Any]] = deque()
        self.blocked: set[int] = set()
        self.captures: dict[int, dict[int, list[Any]]] = {}
        self.aborted_captures: list[int] = []
        self.given_barriers: dict[int, set[int]] = {}
        self.overtaken: dict[int, dict[int, list[Any]]] = {}
        self.ended: set[int] = set()
        self.listener: Any = None
        self.bytes_in = 0
        self.is_closed = False
        self.requested = 0

    def put(self, channel: int, item: Any) -> None:
        self.queue.append((channel, item))
        if self.listener is not None:
            self.listener()

    def poll(self) -> tuple[int, Any] | None:
        if (first := self.poll_priority()) is not None:
            return first
        for position, (channel, item) in enumerate(self.queue):
            if channel in self.blocked:
                continue
            del self.queue[position]
            if callable(item):
                item()
                return self.poll()
            self._given(channel, item)
            return channel, item
        return None

    @property
    def is_capturing(self) -> bool:
        return bool(self.captures)

    def poll_batch(self) -> tuple[int, Batch] | None:
        if self.captures or self.has_priority:
            return None
        first = next(((channel, item) for channel, item in self.queue if channel not in self.blocked), None)
        if first is None or not isinstance(first[1], Batch):
            return None
        return self.poll()

    def put_back(self, index: int, rest: Batch) -> None:
        assert not self.captures
        self.queue.appendleft((index, rest))

    def _given(self, channel: int, item: Any) -> None:
        if isinstance(item, CheckpointBarrier):
            self.given_barriers.setdefault(item.checkpoint_id, set()).add(channel)
        elif isinstance(item, EndOfPartition):
            self.ended.add(channel)
        elif isinstance(item, Batch):
            for checkpoint_id, captured in self.captures.items():
                if channel not in self.given_barriers.get(checkpoint_id, ()):
                    captured.setdefault(channel, []).append(item)

    @property
    def has_priority(self) -> bool:
        return any(_is_priority(item) for _, item in self.queue)

    def poll_priority(self) -> tuple[int, Any] | None:
        for position, (channel, item) in enumerate(self.queue):
            if not _is_priority(item):
                continue
            before = [other for c, other in list(self.queue)[:position] if c == channel and isinstance(other, Batch)]
            del self.queue[position]
            self.given_barriers.setdefault(item.checkpoint_id, set()).add(channel)
            capture = self.captures.get(item.checkpoint_id)
            if capture is not None:
                capture.setdefault(channel, []).extend(before)
            else:
                self.overtaken.setdefault(item.checkpoint_id, {})[channel] = before
            return channel, item
        return None

    def block_channel(self, index: int) -> None:
        self.blocked.add(index)

    def unblock_channels(self) -> None:
        self.blocked.clear()

    def start_capture(self, checkpoint_id: int) -> None:
        self.captures[checkpoint_id] = dict(self.overtaken.pop(checkpoint_id, {}))
        self.convert_to_unaligned(checkpoint_id)

    def finish_capture(self, checkpoint_id: int) -> list[tuple[int, list[Any]]]:
        owing = set(range(self.num_channels)) - self.given_barriers.get(checkpoint_id, set()) - self.ended
        assert not owing, f"channels {owing} owe their barrier"
        captured = self.captures.pop(checkpoint_id)
        return [(channel, batches) for channel, batches in sorted(captured.items()) if batches]

    def abort_capture(self, checkpoint_id: int) -> None:
        self.aborted_captures.append(checkpoint_id)
        self.captures.pop(checkpoint_id, None)
        self.overtaken.pop(checkpoint_id, None)

    def convert_to_unaligned(self, checkpoint_id: int) -> None:
        for position, (channel, item) in enumerate(self.queue):
            if isinstance(item, CheckpointBarrier) and item.checkpoint_id == checkpoint_id:
                self.queue[position] = (channel, with_alignment(item, checkpoint_pb2.UNALIGNED))

    @property
    def is_available(self) -> bool:
        return any(channel not in self.blocked for channel, _ in self.queue)

    def set_availability_listener(self, listener: Any) -> None:
        self.listener = listener

    def request_partitions(self) -> None:
        self.requested += 1

    def close(self) -> None:
        self.is_closed = True


def _is_priority(item: Any) -> bool:
    return isinstance(item, CheckpointBarrier) and alignment_of(item) == checkpoint_pb2.UNALIGNED


class ListSource(SourceBase):
    """A source that emits the given batches. `events` records the calls of the reader."""

    def __init__(self, batches: list[Any], reader_class: type[SourceReader] | None = None) -> None:
        self.batches = batches
        self.reader_class = reader_class or ListReader

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, context: Any) -> Any:
        raise AssertionError("a task never makes the enumerator")

    def create_reader(self, context: Any) -> SourceReader:
        return self.reader_class(self.batches, context)  # type: ignore[call-arg]


class ListReader(SourceReader):
    def __init__(self, batches: list[Any], context: Any) -> None:
        self.pending = deque(batches)
        self.context = context

    def start(self) -> None:
        return

    def poll_batch(self) -> Batch | ReaderStatus:
        if not self.pending:
            return ReaderStatus.END_OF_INPUT
        item = self.pending.popleft()
        if callable(item):
            item()
            self.context.notify_available()
            return ReaderStatus.NOTHING_AVAILABLE
        return item if isinstance(item, Batch | ReaderStatus) else Batch(item)

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return [item for item in self.pending if not callable(item)]

    def add_splits(self, splits: list[Any]) -> None:
        self.pending.extend(splits)

    def notify_no_more_splits(self) -> None:
        return


#: The records that sinks from unpickled specs have written, by name. Tests clear it.
WRITTEN: dict[str, list[Any]] = {}


class ListSink(SinkBase):
    def __init__(self, name: str) -> None:
        self.name = name

    def create_writer(self, context: Any) -> SinkWriter:
        return ListWriter(WRITTEN.setdefault(self.name, []))


class ListWriter(SinkWriter):
    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def write(self, batch: Batch) -> None:
        self.log.extend(batch_rows(batch))

    def write_watermark(self, timestamp: int) -> None:
        self.log.append(("watermark", timestamp))

    def flush(self, end_of_input: bool) -> None:
        self.log.append(("flush", end_of_input))

    def close(self) -> None:
        self.log.append("close")


class DirectExecutor:
    """Runs at once, or, while `is_held`, when `run_all` is called."""

    def __init__(self) -> None:
        self.is_held = False
        self.is_shut_down = False
        self.waiting: deque[tuple[Future[Any], Any, tuple[Any, ...]]] = deque()

    def submit(self, function: Any, *args: Any) -> Future[Any]:
        if self.is_shut_down:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[Any] = Future()
        self.waiting.append((future, function, args))
        if not self.is_held:
            self.run_all()
        return future

    def run_all(self) -> None:
        while self.waiting:
            future, function, args = self.waiting.popleft()
            if future.set_running_or_notify_cancel():
                future.set_result(function(*args))


class FakeTaskStateManager:
    """Keeps state in memory. A task starts from `restored`."""

    def __init__(
        self,
        restored: checkpoint_pb2.TaskStateSnapshot | None = None,
        checkpoint_id: int = 1,
        files: MemoryStreams | None = None,
    ) -> None:
        self.restored = restored
        self.restored_checkpoint_id = None if restored is None else checkpoint_id
        self.is_restored_as_finished = restored is not None and restored.is_finished
        self.files: Any = files or MemoryStreams()
        self.directory = Path(tempfile.gettempdir()) / "flinkpy-streaming-tests"
        self.io_executor: Any = DirectExecutor()
        self.acknowledged: dict[int, tuple[Any, checkpoint_pb2.TaskStateSnapshot]] = {}
        self.declined: list[tuple[int, BaseException]] = []
        self.completed: list[int] = []
        self.aborted: list[int] = []
        #: Called with the id of each checkpoint that is acknowledged.
        self.on_acknowledge: Any = lambda checkpoint_id: None

    def restored_state(self, operator_id: str) -> checkpoint_pb2.OperatorSubtaskState | None:
        if self.restored is None or operator_id not in self.restored.operators:
            return None
        return self.restored.operators[operator_id]

    def checkpoint_streams(self, checkpoint_id: int, options: Any) -> Any:
        return self.files

    def acknowledge(self, checkpoint_id: int, metrics: Any, state: checkpoint_pb2.TaskStateSnapshot) -> None:
        assert checkpoint_id not in self.acknowledged, "acknowledged twice"
        self.acknowledged[checkpoint_id] = (metrics, state)
        self.on_acknowledge(checkpoint_id)

    def decline(self, checkpoint_id: int, error: BaseException) -> None:
        self.declined.append((checkpoint_id, error))

    def notify_complete(self, checkpoint_id: int) -> None:
        self.completed.append(checkpoint_id)

    def notify_aborted(self, checkpoint_id: int) -> None:
        self.aborted.append(checkpoint_id)


class FakeTaskEnvironment:
    """The environment of one subtask of a vertex that the test defines."""

    def __init__(self, vertex: job_pb2.JobVertex, **overrides: Any) -> None:
        self.job_id = "job"
        self.job_name = "test job"
        self.configuration = Configuration()
        self.vertex = vertex
        self.subtask_index = 0
        self.parallelism = 1
        self.max_parallelism = 128
        self.attempt_number = 0
        self.execution_attempt_id = "attempt"
        self.task_name = f"{vertex.name} (1/1)"
        self.clock: Any = ManualClock(1_000)
        self.result_partitions: list[Any] = []
        self.input_gates: list[Any] = []
        self.sent: list[tuple[str, Any]] = []
        self.running = 0
        self.ends_of_data = 0
        self.state: Any = FakeTaskStateManager()
        self.metric_group = TaskMetricGroup(MetricScope("job", vertex.id, 0, 0), {})
        self.accumulators = AccumulatorRegistry(self.clock)
        self.cached_files: dict[str, str] = {}
        self.external_resources: ExternalResourceInfos = {}
        for name, value in overrides.items():
            setattr(self, name, value)

    def load_pickle(self, data: bytes) -> Any:
        return cloudpickle.loads(data)

    def send_operator_event(self, operator_id: str, event: Any) -> None:
        self.sent.append((operator_id, event))

    def notify_running(self) -> None:
        self.running += 1

    def notify_end_of_data(self) -> None:
        self.ends_of_data += 1


def make_vertex(
    chain: list[specs.OperatorSpec], *, results: int = 0, inputs: int = 0, links: dict[int, list[Any]] | None = None
) -> job_pb2.JobVertex:
    """A vertex whose operators feed one another in order, the last one the results.

    `links` overrides the outputs of a position: ints for chained operators, ("result", n) for results, and
    ("side", tag, target) for either behind a side output.
    """
    vertex = job_pb2.JobVertex(id="vertex", name="vertex", parallelism=1, max_parallelism=128)
    for position, spec in enumerate(chain):
        descriptor = vertex.chain.add(
            operator_id=f"op{position}",
            name=f"{type(spec).__name__}-{position}",
            factory_pickle=cloudpickle.dumps(spec),
        )
        if links and position in links:
            targets = links[position]
        elif position + 1 < len(chain):
            targets = [position + 1]
        else:
            targets = [("result", n) for n in range(results)]
        for target in targets:
            output = descriptor.outputs.add()
            if isinstance(target, tuple) and target[0] == "side":
                output.side_output_tag = target[1]
                target = target[2]
            if isinstance(target, tuple):
                output.result = target[1]
            else:
                output.chained_operator = target
    for n in range(results):
        vertex.results.add(id=f"result{n}", partitioner_pickle=forward_partitioner(), buffer_timeout_ms=100)
    for n in range(inputs):
        vertex.inputs.add(source_data_set_id=f"input{n}", input_index=n)
    return vertex


def batch_rows(batch: Batch) -> list[Any]:
    if isinstance(batch.values, list):
        return batch.values
    columns = [column.to_pylist() for column in batch.values.columns]
    return columns[0] if len(columns) == 1 else list(zip(*columns))


def forward_partitioner() -> bytes:
    from flinkpy.network.partitioner import ForwardPartitioner

    return cloudpickle.dumps(ForwardPartitioner())


class CollectingOutput:
    """Collects the output of an operator."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def emit(self, batch: Batch) -> None:
        assert batch.num_rows, "an operator emitted an empty batch"
        self.items.append(batch)

    def emit_element(self, element: Any) -> None:
        self.items.append(element)

    @property
    def rows(self) -> list[Any]:
        return [row for item in self.items if isinstance(item, Batch) for row in batch_rows(item)]

    @property
    def timestamps(self) -> list[Any]:
        """Returns the timestamps of all records, with None for records of batches without timestamps."""
        return [
            timestamp
            for item in self.items
            if isinstance(item, Batch)
            for timestamp in ([None] * item.num_rows if item.timestamps is None else item.timestamps.tolist())
        ]

    @property
    def elements(self) -> list[Any]:
        return [item for item in self.items if not isinstance(item, Batch)]


class OperatorHarness:
    """Runs one operator without a task, with a manual clock, and collects its output.

    The constructor restores and opens the operator. The caller closes `operator`.

    Example:
        harness = OperatorHarness(spec)
        assert harness.process([1, 2], timestamps=[10, 20]) == [...]
        harness.watermark(100)

    Args:
        spec: the operator.
        side_tags: tags of the side outputs that are collected in `side`.
        configuration: options of the job.
        state: the restored state, empty by default.
        subtask: the index of the subtask, and the parallelism.
    """

    def __init__(
        self,
        spec: specs.OperatorSpec,
        *,
        side_tags: tuple[str, ...] = (),
        configuration: dict[str, str] | None = None,
        state: FakeTaskStateManager | None = None,
        subtask: tuple[int, int] = (0, 1),
    ) -> None:
        self.clock = ManualClock(1_000)
        vertex = make_vertex([spec])
        self.environment = FakeTaskEnvironment(
            vertex,
            clock=self.clock,
            state=state or FakeTaskStateManager(),
            subtask_index=subtask[0],
            parallelism=subtask[1],
        )
        if configuration:
            self.environment.configuration = Configuration.from_dict(configuration)
        self.back_pressured_ms = 0
        self.service = ProcessingTimeService(self.clock, lambda: self.back_pressured_ms * 1_000_000)
        self.mailbox = TaskMailbox()
        self.context = OperatorContext(
            "op0", type(spec).__name__, self.environment, self.mailbox, self.service, OperatorMetricGroup()
        )
        self.output = CollectingOutput()
        self.side = {tag: CollectingOutput() for tag in side_tags}
        self.operator = create_operator(spec, self.context, self.output, dict(self.side))
        self.operator.restore(self.environment.state.restored_state)
        self.operator.open()

    def process(self, rows: Any, timestamps: list[int] | None = None) -> list[Any]:
        """Processes one batch, and returns all rows emitted so far.

        Args:
            rows: Python objects or an Arrow RecordBatch.
            timestamps: one event timestamp in milliseconds per row.
        """
        times = None if timestamps is None else np.array(timestamps, dtype=np.int64)
        self.operator.process_batch(Batch(rows, times))
        return self.output.rows

    def watermark(self, timestamp: int) -> None:
        self.operator.process_element(Watermark(timestamp))

    def advance(self, by_ms: int) -> None:
        """Advances the clock, and fires due processing-time timers."""
        self.clock.advance(by_ms)
        self.service.fire_due(self.clock.monotonic_ns())
