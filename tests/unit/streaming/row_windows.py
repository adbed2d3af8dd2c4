"""Windows of the row lane in tests: window operations of programs run in operators, without processes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
from memory_checkpoints import OPTIONS, MemoryStreams
from streaming_fakes import CollectingOutput, FakeTaskEnvironment, FakeTaskStateManager, OperatorHarness, make_vertex

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.clock import ManualClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.key_groups import key_group_range
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.base_stream import DataStream
from flinkpy.datastream.functions import AggregateFunction
from flinkpy.datastream.stream_execution_environment import StreamExecutionEnvironment
from flinkpy.graph.operator_specs import WindowSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.records.key_hash import hash_key
from flinkpy.streaming.mailbox.task_mailbox import TaskMailbox
from flinkpy.streaming.operators.factory import create_operator
from flinkpy.streaming.operators.metric_group import OperatorMetricGroup
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService

BACKENDS = ("hashmap", "rocksdb")
RECORD_TYPE = Types.TUPLE([Types.STRING(), Types.INT()])


class Concatenated(AggregateFunction):
    def create_accumulator(self) -> Any:
        return ()

    def add(self, value: Any, accumulator: Any) -> Any:
        return (*accumulator, value[1])

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, a: Any, b: Any) -> Any:
        return a + b


def stream(type_info: Any = RECORD_TYPE) -> DataStream:
    """Returns a stream of (key, number) records."""
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection([], type_info)


def spec_of(result: DataStream) -> WindowSpec:
    spec = result.transformation.spec  # type: ignore[attr-defined]
    assert isinstance(spec, WindowSpec)
    return spec


def keyed_spec(build: Callable[[Any], DataStream]) -> WindowSpec:
    """`build(keyed stream)` makes the operation; the key is the first field."""
    return spec_of(build(stream().key_by(lambda record: record[0], Types.STRING())))


class WindowHarness(OperatorHarness):
    """Runs a window operator. Watermarks are ints, and `results` are (record, timestamp) pairs."""

    def results(self) -> list[tuple[Any, Any]]:
        return list(zip(self.output.rows, self.output.timestamps))

    def take(self) -> list[Any]:
        """Returns the rows since the last call."""
        rows = self.output.rows
        self.output.items.clear()
        return rows

    def late_dropped(self) -> int:
        return int(self.context.metrics.counter("numLateRecordsDropped").get_count())


def harness(
    build: Callable[[Any], DataStream], backend: str = "hashmap", side_tags: tuple[str, ...] = ()
) -> WindowHarness:
    return WindowHarness(keyed_spec(build), side_tags=side_tags, configuration={"state.backend.type": backend})


class Subtasks:
    """A keyed window operator with any parallelism whose input is distributed by key group as by an exchange.

    It can be stopped at any time, and resumes from its snapshot with another parallelism or backend.
    """

    def __init__(
        self,
        spec: WindowSpec,
        backend: str = "hashmap",
        parallelism: int = 1,
        restored: list[checkpoint_pb2.KeyedStateHandle] | None = None,
        files: MemoryStreams | None = None,
        clock: ManualClock | None = None,
        watermark: int | None = None,
    ) -> None:
        self.spec = spec
        self.parallelism = parallelism
        self.files = files or MemoryStreams()
        self.clock = clock or ManualClock(1_000)
        self.harnesses: list[Any] = []
        self._get_key = spec.key_selector.get_key
        snapshot = None
        if restored is not None:
            snapshot = checkpoint_pb2.TaskStateSnapshot()
            snapshot.operators["op0"].keyed.extend(restored)
        for index in range(parallelism):
            state = FakeTaskStateManager(snapshot, files=self.files)
            state.directory = state.directory / f"subtask-{id(self)}-{index}"
            self.harnesses.append(_Subtask(spec, backend, index, parallelism, state, self.clock))
        if watermark is not None:
            self.watermark(watermark)

    def process(self, records: list[Any], timestamps: list[int] | None) -> None:
        for index, subtask in enumerate(self.harnesses):
            rows = [at for at, record in enumerate(records) if self._owner(record) == index]
            if rows:
                times = None if timestamps is None else np.array([timestamps[at] for at in rows], dtype=np.int64)
                subtask.operator.process_batch(Batch([records[at] for at in rows], times))

    def _owner(self, record: Any) -> int:
        key_group = hash_key(self._get_key(record)) % 128
        ranges = [key_group_range(128, self.parallelism, index) for index in range(self.parallelism)]
        return next(i for i, owned in enumerate(ranges) if owned.start <= key_group <= owned.end)

    def watermark(self, timestamp: int) -> None:
        for subtask in self.harnesses:
            subtask.operator.process_element(Watermark(timestamp))

    def advance(self, by_ms: int) -> None:
        self.clock.advance(by_ms)
        for subtask in self.harnesses:
            subtask.service.fire_due(self.clock.monotonic_ns())

    def results(self) -> list[tuple[Any, Any]]:
        return [pair for h in self.harnesses for pair in zip(h.output.rows, h.output.timestamps)]

    def snapshot(self) -> list[checkpoint_pb2.KeyedStateHandle]:
        handles = []
        for subtask in self.harnesses:
            snapshots = subtask.operator.snapshots(1, OPTIONS)
            keyed = snapshots["op0"].keyed
            handle = keyed.write(self.files)
            snapshots["op0"].release()
            if handle is not None:
                handles.append(handle)
        return handles

    def restored(self, parallelism: int | None = None, backend: str = "hashmap") -> Subtasks:
        """Takes a snapshot now and returns the operator restored from it, without earlier results."""
        handles = self.snapshot()
        self.close()
        return Subtasks(self.spec, backend, parallelism or self.parallelism, handles, self.files, self.clock)

    def close(self) -> None:
        for subtask in self.harnesses:
            subtask.operator.close()
            shutil.rmtree(subtask.environment.state.directory, ignore_errors=True)


class _Subtask:
    def __init__(
        self, spec: WindowSpec, backend: str, index: int, parallelism: int, state: FakeTaskStateManager, clock: Any
    ) -> None:
        self.environment = FakeTaskEnvironment(
            make_vertex([spec]), clock=clock, state=state, subtask_index=index, parallelism=parallelism
        )
        self.environment.configuration = Configuration.from_dict({"state.backend.type": backend})
        self.service = ProcessingTimeService(clock)
        context = OperatorContext(
            "op0", "windows", self.environment, TaskMailbox(), self.service, OperatorMetricGroup()
        )
        self.output = CollectingOutput()
        self.operator = create_operator(spec, context, self.output, {})
        self.operator.restore(state.restored_state)
        self.operator.open()
