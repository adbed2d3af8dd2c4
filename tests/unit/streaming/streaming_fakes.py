"""Fakes of what a stream task meets: network, environment, sources and sinks. All run on one thread."""

from __future__ import annotations

from collections import deque
from typing import Any

import cloudpickle
import numpy as np

from flinkpy._proto import job_pb2
from flinkpy.common.clock import ManualClock
from flinkpy.common.configuration import Configuration
from flinkpy.connector_api.sink import SinkBase, SinkWriter
from flinkpy.connector_api.source import Boundedness, ReaderStatus, SourceBase, SourceReader
from flinkpy.graph import operator_specs as specs
from flinkpy.records.batch import Batch
from flinkpy.records.elements import EndOfPartition, Watermark
from flinkpy.streaming.mailbox.task_mailbox import TaskMailbox
from flinkpy.streaming.operators.factory import create_operator
from flinkpy.streaming.operators.metric_group import OperatorMetricGroup
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService


class FakeResultPartition:
    """Records what is emitted; `is_available` is set by the test."""

    def __init__(self, num_subpartitions: int = 1) -> None:
        self.num_subpartitions = num_subpartitions
        self.items: list[list[Any]] = [[] for _ in range(num_subpartitions)]
        self.is_available = True
        self.listener: Any = None
        self.bytes_out = 0
        self.is_finished = False

    def set_availability_listener(self, listener: Any) -> None:
        self.listener = listener

    def emit(self, subpartition: int, batch: Batch, type_info: Any = None) -> None:
        self.items[subpartition].append(batch)

    def emit_broadcast(self, batch: Batch) -> None:
        for items in self.items:
            items.append(batch)

    def emit_element(self, element: Any, subpartition: int | None = None) -> None:
        for index in range(self.num_subpartitions) if subpartition is None else [subpartition]:
            self.items[index].append(element)

    def finish(self) -> None:
        self.emit_element(EndOfPartition())
        self.is_finished = True

    def rows(self) -> list[Any]:
        return [row for items in self.items for item in items if isinstance(item, Batch) for row in batch_rows(item)]

    def elements(self) -> list[Any]:
        return [item for item in self.items[0] if not isinstance(item, Batch)]


class FakeInputGate:
    """Gives what the test has put in."""

    def __init__(self, num_channels: int = 1) -> None:
        self.num_channels = num_channels
        self.queue: deque[tuple[int, Any]] = deque()
        self.listener: Any = None
        self.bytes_in = 0
        self.is_closed = False
        self.requested = 0

    def put(self, channel: int, item: Any) -> None:
        self.queue.append((channel, item))
        if self.listener is not None:
            self.listener()

    def poll(self) -> tuple[int, Any] | None:
        return self.queue.popleft() if self.queue else None

    @property
    def is_available(self) -> bool:
        return bool(self.queue)

    def set_availability_listener(self, listener: Any) -> None:
        self.listener = listener

    def request_partitions(self) -> None:
        self.requested += 1

    def close(self) -> None:
        self.is_closed = True


class ListSource(SourceBase):
    """Emits the given batches; `events` records what the reader was told."""

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
            return ReaderStatus.NOTHING_AVAILABLE
        return item if isinstance(item, Batch | ReaderStatus) else Batch(item)

    def add_splits(self, splits: list[Any]) -> None:
        self.pending.extend(splits)

    def notify_no_more_splits(self) -> None:
        return


#: What sinks made by unpickled specs have written, by name; tests clear it.
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


class FakeTaskEnvironment:
    """One subtask of a hand-made vertex."""

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
        for name, value in overrides.items():
            setattr(self, name, value)

    def load_pickle(self, data: bytes) -> Any:
        return cloudpickle.loads(data)

    def send_operator_event(self, operator_id: str, event: Any) -> None:
        self.sent.append((operator_id, event))

    def notify_running(self) -> None:
        self.running += 1


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
    """Keeps what an operator emits."""

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
        """Of every record; None for each record of a batch without."""
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
    """One operator, opened, with a manual clock and collecting outputs."""

    def __init__(
        self, spec: specs.OperatorSpec, *, side_tags: tuple[str, ...] = (), configuration: dict[str, str] | None = None
    ) -> None:
        self.clock = ManualClock(1_000)
        vertex = make_vertex([spec])
        self.environment = FakeTaskEnvironment(vertex, clock=self.clock)
        if configuration:
            self.environment.configuration = Configuration.from_dict(configuration)
        self.service = ProcessingTimeService(self.clock)
        self.mailbox = TaskMailbox()
        self.context = OperatorContext(
            "op0", type(spec).__name__, self.environment, self.mailbox, self.service, OperatorMetricGroup()
        )
        self.output = CollectingOutput()
        self.side = {tag: CollectingOutput() for tag in side_tags}
        self.operator = create_operator(spec, self.context, self.output, dict(self.side))
        self.operator.open()

    def process(self, rows: Any, timestamps: list[int] | None = None) -> list[Any]:
        """Feed one batch; returns all rows emitted so far."""
        times = None if timestamps is None else np.array(timestamps, dtype=np.int64)
        self.operator.process_batch(Batch(rows, times))
        return self.output.rows

    def watermark(self, timestamp: int) -> None:
        self.operator.process_element(Watermark(timestamp))

    def advance(self, by_ms: int) -> None:
        """Let time pass and due processing-time timers fire."""
        self.clock.advance(by_ms)
        self.service.fire_due(self.clock.monotonic_ns())
