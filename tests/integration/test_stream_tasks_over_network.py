"""Stream tasks that are connected by real partitions, gates and sockets. Each task has its own thread."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
import pytest
from no_checkpoints import NoCheckpoints

from flinkpy._proto import job_pb2
from flinkpy.common.clock import SystemClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.external_resource import ExternalResourceInfos
from flinkpy.common.typeinfo import Types
from flinkpy.connector_api.sink import SinkBase, SinkWriter
from flinkpy.connector_api.source import Boundedness, ReaderStatus, SourceBase, SourceReader
from flinkpy.datastream.functions import KeyedProcessFunction, MapFunctionWrapper
from flinkpy.datastream.state import ValueStateDescriptor
from flinkpy.graph import operator_specs as specs
from flinkpy.metrics.metric_registry import MetricScope
from flinkpy.network.environment import NetworkEnvironment
from flinkpy.network.options import NetworkOptions
from flinkpy.network.partitioner import KeyGroupStreamPartitioner
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import rows_of
from flinkpy.streaming.operators.accumulator_registry import AccumulatorRegistry
from flinkpy.streaming.operators.metric_group import TaskMetricGroup
from flinkpy.streaming.tasks import CancelTaskError, StreamTask, StreamTaskState, create_stream_task

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
KEY = specs.FieldKeySelector((0,))
ROWS, KEYS, JOIN_S = 50_000, 97, 30.0


class Numbers(SourceBase):
    """Emits 0 to `count` and then ends or stays idle forever."""

    def __init__(self, count: int, ends: bool = True) -> None:
        self.count = count
        self.ends = ends

    boundedness = Boundedness.BOUNDED  # type: ignore[assignment]

    def create_enumerator(self, context: Any) -> Any:
        raise AssertionError("only readers here")

    def create_reader(self, context: Any) -> SourceReader:
        return NumbersReader(self.count, self.ends)


class NumbersReader(SourceReader):
    def __init__(self, count: int, ends: bool) -> None:
        self.next, self.count, self.ends = 0, count, ends

    def start(self) -> None:
        return

    def poll_batch(self) -> Batch | ReaderStatus:
        if self.next == self.count:
            return ReaderStatus.END_OF_INPUT if self.ends else ReaderStatus.NOTHING_AVAILABLE
        rows = min(1_000, self.count - self.next)
        numbers = np.arange(self.next, self.next + rows)
        self.next += rows
        return Batch(pa.RecordBatch.from_arrays([pa.array(numbers)], ["f0"]))

    def add_splits(self, splits: list[Any]) -> None:
        raise AssertionError("no splits here")

    def notify_no_more_splits(self) -> None:
        return


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count


class Collect(SinkBase):
    """A sink whose writers append to WRITTEN once GATE is open."""

    def create_writer(self, context: Any) -> SinkWriter:
        return CollectWriter()


WRITTEN: list[tuple[int, int]] = []
GATE = threading.Event()


class CollectWriter(SinkWriter):
    def write(self, batch: Batch) -> None:
        GATE.wait(JOIN_S)
        WRITTEN.extend(rows_of(batch, PAIR))


class Environment:
    job_id = job_name = "job"
    attempt_number = 0
    max_parallelism = 128

    def __init__(self, vertex: job_pb2.JobVertex, index: int, partitions: list[Any], gates: list[Any]) -> None:
        self.vertex, self.subtask_index, self.parallelism = vertex, index, vertex.parallelism
        self.result_partitions, self.input_gates = partitions, gates
        self.task_name = self.execution_attempt_id = f"{vertex.name} ({index + 1}/{vertex.parallelism})"
        self.configuration = Configuration()
        self.clock = SystemClock()
        self.load_pickle = cloudpickle.loads
        self.running = threading.Event()
        self.notify_running = self.running.set
        self.state = NoCheckpoints(Path("unused"))
        self.metric_group = TaskMetricGroup(MetricScope("job", self.vertex.id, 0, 0), {})
        self.accumulators = AccumulatorRegistry(self.clock)
        self.cached_files: dict[str, str] = {}
        self.external_resources: ExternalResourceInfos = {}

    def send_operator_event(self, operator_id: str, event: Any) -> None:
        return


def vertex(
    name: str, parallelism: int, chain: list[specs.OperatorSpec], typed: bool | None = None
) -> job_pb2.JobVertex:
    """Returns a vertex with one keyed result, with or without a declared type. With `typed` None it has no result."""
    made = job_pb2.JobVertex(id=name, name=name, parallelism=parallelism, max_parallelism=128)
    for position, spec in enumerate(chain):
        operator = made.chain.add(operator_id=f"{name}{position}", name=name, factory_pickle=cloudpickle.dumps(spec))
        if position + 1 < len(chain):
            operator.outputs.add(chained_operator=position + 1)
        elif typed is not None:
            operator.outputs.add(result=0)
    if typed is None:
        made.inputs.add(source_data_set_id="data")
    else:
        made.results.add(
            id="data",
            partitioner_pickle=cloudpickle.dumps(KeyGroupStreamPartitioner(KEY, Types.LONG())),
            type_pickle=cloudpickle.dumps(PAIR) if typed else b"",
            buffer_timeout_ms=100,
        )
    return made


class Job:
    """A job of two producers and two consumers. With `remote`, the consumers have another data plane."""

    def __init__(
        self, *, remote: bool, typed: bool, ends: bool = True, rows: int = ROWS, sink_open: bool = True
    ) -> None:
        WRITTEN.clear()
        GATE.clear()
        if sink_open:
            GATE.set()
        # Small enough that `rows` can fill it.
        options = NetworkOptions(memory_bytes=1 << 20)
        self.networks = [NetworkEnvironment(options) for _ in range(2 if remote else 1)]
        addresses = [network.start() for network in self.networks]
        to_pair = MapFunctionWrapper(lambda n: (n % KEYS, n))
        source = vertex(
            "source",
            2,
            [
                specs.SourceSpec(Numbers(rows, ends), output_type=Types.LONG()),
                specs.MapSpec(to_pair, input_types=(Types.LONG(),)),
            ],
            typed,
        )
        count = vertex(
            "count",
            2,
            [
                specs.KeyedProcessSpec(KEY, Count(), input_types=(PAIR if typed else None,)),
                specs.SinkSpec(Collect(), input_types=(PAIR,)),
            ],
        )
        partitions = [
            self.networks[0].create_result_partition(partition_id=f"p{i}", num_subpartitions=2) for i in range(2)
        ]
        ids = [(partition.partition_id, addresses[0]) for partition in partitions]
        environments = [Environment(source, i, [partition], []) for i, partition in enumerate(partitions)]
        for index in range(2):
            gate = self.networks[-1].create_input_gate(
                owner=f"count {index}", subpartition_index=index, partitions=ids, on_failure=lambda error: None
            )
            environments.append(Environment(count, index, [], [(0, 0, gate)]))
        self.environments = environments
        self.tasks: list[StreamTask] = [create_stream_task(environment) for environment in environments]
        self.errors: list[BaseException | None] = [None] * len(self.tasks)
        self.threads = [threading.Thread(target=self._run, args=(i,), name=f"task {i}") for i in range(len(self.tasks))]
        for thread in self.threads:
            thread.start()

    def _run(self, index: int) -> None:
        try:
            self.tasks[index].invoke()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.errors[index] = error

    def join(self) -> None:
        for thread in self.threads:
            thread.join(JOIN_S)
        alive = [thread.name for thread in self.threads if thread.is_alive()]
        for network in self.networks:
            network.close()
        assert alive == []


@pytest.mark.parametrize("typed", [True, False], ids=["typed", "untyped"])
@pytest.mark.parametrize("remote", [pytest.param(False, marks=pytest.mark.chaos), True], ids=["local", "remote"])
def test_every_record_is_counted_once_by_the_owner_of_its_key(remote, typed):
    job = Job(remote=remote, typed=typed)
    job.join()

    assert job.errors == [None] * 4
    assert [task.state for task in job.tasks] == [StreamTaskState.FINISHED] * 4
    expected = Counter({key: 2 * len(range(key, ROWS, KEYS)) for key in range(KEYS)})
    assert Counter(key for key, _ in WRITTEN) == expected
    assert dict(sorted(WRITTEN)) == expected  # the last count of each key is its number of records
    records_in = [task.metrics()["num_records_in"] for task in job.tasks]
    assert sum(records_in[2:]) == 2 * ROWS
    assert min(records_in[2:]) > 0


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
def test_idle_tasks_report_idle_time_and_can_be_cancelled(remote):
    job = Job(remote=remote, typed=True, ends=False)
    for environment in job.environments:
        assert environment.running.wait(JOIN_S)

    for task in job.tasks:
        task.cancel()
    job.join()

    assert [type(error) for error in job.errors] == [CancelTaskError] * 4
    assert [task.state for task in job.tasks] == [StreamTaskState.CANCELED] * 4


def test_a_blocked_sink_back_pressures_its_producers():
    job = Job(remote=True, typed=True, rows=8 * ROWS, sink_open=False)
    # The upper bound of the wait, which ends as soon as both producers are back-pressured.
    for _ in range(6_000):
        if all(task.metrics()["back_pressured_time_ms"] > 0 for task in job.tasks[:2]):
            break
        threading.Event().wait(0.005)
    produced = [task.metrics()["num_records_out"] for task in job.tasks[:2]]
    GATE.set()
    job.join()

    assert max(produced) < 8 * ROWS
    assert job.errors == [None] * 4
    assert len(WRITTEN) == 16 * ROWS
