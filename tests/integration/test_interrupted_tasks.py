"""A task thread that an asynchronous exception interrupts at any point closes everything it opened exactly once."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from no_checkpoints import NoCheckpoints

from flinkpy._proto import job_pb2
from flinkpy.common.clock import SystemClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.external_resource import ExternalResourceInfos
from flinkpy.connector_api.source import Boundedness, ReaderStatus, SourceBase, SourceReader
from flinkpy.connectors.discard_sink import DiscardingSink
from flinkpy.datastream.functions import MapFunction
from flinkpy.graph import operator_specs as specs
from flinkpy.metrics.metric_registry import MetricScope
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.accumulator_registry import AccumulatorRegistry
from flinkpy.streaming.operators.metric_group import TaskMetricGroup
from flinkpy.streaming.tasks import CancelTaskError, StreamTaskState, create_stream_task
from flinkpy.taskexecutor.task_thread import TaskInterrupted, TaskThread

EVENTS: list[tuple[str, str]] = []


class Recorded(MapFunction):
    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, runtime_context: Any) -> None:
        EVENTS.append(("open", self.name))

    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        EVENTS.append(("close", self.name))


class Endless(SourceBase):
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED  # type: ignore[assignment]

    def create_enumerator(self, context: Any) -> Any:
        raise AssertionError("only readers here")

    def create_reader(self, context: Any) -> SourceReader:
        return EndlessReader()


class EndlessReader(SourceReader):
    polls = 0

    def start(self) -> None:
        return

    def poll_batch(self) -> Batch | ReaderStatus:
        self.polls += 1
        return ReaderStatus.NOTHING_AVAILABLE if self.polls % 3 == 0 else Batch([1, 2, 3])

    def add_splits(self, splits: list[Any]) -> None:
        return

    def notify_no_more_splits(self) -> None:
        return


class Environment:
    job_id = job_name = task_name = execution_attempt_id = "job"
    attempt_number = subtask_index = 0
    parallelism, max_parallelism = 1, 128

    def __init__(self) -> None:
        chain = [
            specs.SourceSpec(Endless()),
            specs.MapSpec(Recorded("a")),
            specs.MapSpec(Recorded("b")),
            specs.SinkSpec(DiscardingSink()),
        ]
        self.vertex = job_pb2.JobVertex(id="v", name="v")
        for position, spec in enumerate(chain):
            operator = self.vertex.chain.add(operator_id=str(position), factory_pickle=cloudpickle.dumps(spec))
            if position + 1 < len(chain):
                operator.outputs.add(chained_operator=position + 1)
        self.result_partitions: list[Any] = []
        self.input_gates: list[Any] = []
        self.configuration = Configuration()
        self.clock = SystemClock()
        self.load_pickle = cloudpickle.loads
        self.state = NoCheckpoints(Path("unused"))
        self.metric_group = TaskMetricGroup(MetricScope("job", self.vertex.id, 0, 0), {})
        self.accumulators = AccumulatorRegistry(self.clock)
        self.cached_files: dict[str, str] = {}
        self.external_resources: ExternalResourceInfos = {}

    def notify_running(self) -> None:
        return

    def send_operator_event(self, operator_id: str, event: Any) -> None:
        return


@pytest.mark.parametrize("seed", range(40))
def test_an_interrupt_at_any_moment_leaves_nothing_open(seed):
    EVENTS.clear()
    rng = random.Random(seed)
    task = create_stream_task(Environment())
    errors: list[BaseException | None] = []
    exited = threading.Event()

    def on_exit(error: BaseException | None) -> None:
        errors.append(error)
        exited.set()

    thread = TaskThread(f"task {seed}", task.invoke, on_exit)
    thread.start()
    threading.Event().wait(rng.random() * 0.01)
    task.cancel()
    for _ in range(3):
        thread.interrupt()
        threading.Event().wait(rng.random() * 0.0005)

    assert exited.wait(30)
    assert thread.join(30)
    assert task.state is StreamTaskState.CANCELED
    # An interrupt may still arrive between the end of the task and the end of its thread.
    assert [type(error) for error in errors] in ([CancelTaskError], [TaskInterrupted])
    opened = [name for what, name in EVENTS if what == "open"]
    closed = [name for what, name in EVENTS if what == "close"]
    assert sorted(opened) == sorted(closed)
