"""NetworkTaskDeployer: creates the data path of a task from its TaskDeployment.

This is the only module in which the control path (deployments, user code, callbacks into the endpoint) and the data
path (network, streaming) meet.

Source: org.apache.flink.runtime.taskexecutor.TaskExecutor#submitTask, org.apache.flink.runtime.taskmanager.Task
(setupPartitionsAndGates), RuntimeEnvironment.
"""

from __future__ import annotations

import itertools
import os
import pickle
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO, ParamSpec, TypeVar

import cloudpickle

from flinkpy._proto import checkpoint_pb2, dispatcher_pb2, job_pb2, taskexecutor_pb2
from flinkpy.checkpoint.storage.file_systems import use_file_systems_in_this_thread
from flinkpy.common.clock import Clock, SystemClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.error_text import USER_ERRORS, describe, format_user_traceback
from flinkpy.common.errors import (
    ExternalError,
    FlinkError,
    FunctionError,
    TaskSubmissionError,
    UnsupportedOperationError,
)
from flinkpy.common.external_resource import ExternalResourceInfos
from flinkpy.common.ids import ExecutionAttemptID, ResultPartitionID
from flinkpy.common.job_modules import in_current_modules
from flinkpy.common.python_environment import environments_root
from flinkpy.common.python_path import PythonPath
from flinkpy.common.safe_paths import safe_join
from flinkpy.common.working_directory import WorkingDirectory
from flinkpy.configuration import checkpointing_options, cluster_options, pipeline_options, read_option
from flinkpy.graph.spark_region import SPARK_TASK
from flinkpy.logs.context import LogContext, in_current_context
from flinkpy.metrics.metric_registry import MetricRegistry, MetricScope
from flinkpy.network.blocking.sort_merge_result_partition import SortMergeResultPartition
from flinkpy.network.environment import NetworkEnvironment
from flinkpy.network.input_gate import InputGate
from flinkpy.network.result_partition import ResultPartition
from flinkpy.rpc.peer_connection import Peers
from flinkpy.state.checkpoint_streams import CheckpointStreams, StateFiles
from flinkpy.streaming.operators.accumulator_registry import AccumulatorRegistry
from flinkpy.streaming.operators.metric_group import TaskMetricGroup
from flinkpy.streaming.tasks import create_stream_task
from flinkpy.streaming.tasks.environment import ShippedFiles, TaskStateManager
from flinkpy.taskexecutor.contracts import Invokable, TaskCallbacks
from flinkpy.taskexecutor.local_state_store import LocalStateDirectories, LocalStateStore, remove_in_background
from flinkpy.taskexecutor.options import TaskExecutorOptions
from flinkpy.taskexecutor.task_state_manager import SubtaskStateManager
from flinkpy.taskexecutor.user_code import ProcessEnvironment, UserCode
from flinkpy.traces.trace_context import SpanContext

P = ParamSpec("P")
T = TypeVar("T")

#: The number of threads per core, as in Flink; this work mostly waits for disks and networks.
THREADS_PER_CORE = 4
#: The size of the pieces in which results are sent to the JobMaster: far below the maximum size of a message.
RESULT_PIECE_BYTES = 4 << 20
MAX_THREADS = 64


class IoExecutor(Executor):
    """The threads that write snapshots and remove files. Thread: any.

    Source: the ioExecutor of org.apache.flink.runtime.taskexecutor.TaskManagerRunner.

    Args:
        size: the maximum number of threads; None: depends on the number of cores.
    """

    def __init__(self, size: int | None = None) -> None:
        threads = size or min(MAX_THREADS, THREADS_PER_CORE * (os.cpu_count() or 1))
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="taskexecutor-io")
        self._lock = threading.Lock()
        self._running: set[Future[Any]] = set()

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Runs `call` on a thread, with the modules and the log context of the calling one.

        Raises: RuntimeError after `shutdown`.
        """
        future = self._pool.submit(in_current_context(in_current_modules(call)), *args, **kwargs)
        with self._lock:
            self._running.add(future)
        future.add_done_callback(self._done)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)

    def close(self, timeout_s: float) -> bool:
        """Drops queued work and accepts none. Returns False if work still runs after `timeout_s`."""
        with self._lock:
            running = set(self._running)
        self._pool.shutdown(wait=False, cancel_futures=True)
        return not wait(running, timeout_s).not_done

    def _done(self, future: Future[Any]) -> None:
        with self._lock:
            self._running.discard(future)


@dataclass(slots=True)
class RuntimeEnvironment:
    """The TaskEnvironment of one task. Source: org.apache.flink.runtime.taskmanager.RuntimeEnvironment."""

    job_id: str
    job_name: str
    configuration: Configuration
    vertex: job_pb2.JobVertex
    subtask_index: int
    parallelism: int
    max_parallelism: int
    attempt_number: int
    execution_attempt_id: str
    task_name: str
    clock: Clock
    result_partitions: list[ResultPartition]
    input_gates: list[tuple[int, int, InputGate]]
    state: TaskStateManager
    metric_group: TaskMetricGroup
    accumulators: AccumulatorRegistry
    cached_files: Mapping[str, str]
    external_resources: ExternalResourceInfos
    on_restored: Callable[[], Mapping[str, int]]
    shipped_files: ShippedFiles
    #: The positions of results in `vertex.results` that are final: what this attempt writes to them is dropped.
    final_results: frozenset[int] = frozenset()
    callbacks: TaskCallbacks | None = None
    #: The span that causes what the task does, if the job is traced.
    trace_parent: SpanContext | None = None

    def load_pickle(self, data: bytes) -> Any:
        try:
            return pickle.loads(data)
        except USER_ERRORS as error:
            raise FunctionError(
                f"{self.task_name}: cannot load the code of the job: {describe(error)}",
                remote_traceback=format_user_traceback(error),
            ) from error

    def send_operator_event(self, operator_id: str, event: Any) -> None:
        assert self.callbacks is not None
        self.callbacks.send_operator_event(operator_id, event)

    def notify_running(self) -> None:
        assert self.callbacks is not None
        self.callbacks.notify_running(self.on_restored())

    def notify_end_of_data(self) -> None:
        assert self.callbacks is not None
        self.callbacks.notify_end_of_data()


class DeployedStreamTask:
    """A deployment whose partitions and gates exist. Implements `DeployedTask`."""

    def __init__(
        self,
        environment: RuntimeEnvironment,
        deployment: taskexecutor_pb2.TaskDeployment,
        user_code: UserCode,
        state: SubtaskStateManager,
        stored: Mapping[str, SortMergeResultPartition],
        fetched: Mapping[str, SortMergeResultPartition],
        has_remote_inputs: bool,
    ) -> None:
        """Creates the task.

        Args:
            has_remote_inputs: True unless all producers of the task run in this process.
            stored: the produced partitions that the JobMaster keeps, by id.
            fetched: the partitions to fill with results that the JobMaster keeps, by the id of the result partition.
        """
        self.execution_attempt_id = deployment.execution_attempt_id
        self.task_name = environment.task_name
        self.trace_parent = environment.trace_parent
        self.log_context = LogContext(
            job_id=environment.job_id,
            job_name=environment.job_name,
            vertex_id=deployment.vertex_id,
            vertex_name=environment.vertex.name,
            subtask_index=deployment.subtask_index,
            parallelism=environment.parallelism,
            attempt_number=deployment.attempt_number,
            thread_name=environment.task_name,
        )
        self.vertex_id = deployment.vertex_id
        self.subtask_index = deployment.subtask_index
        self.allocation_id = deployment.allocation_id
        # The JobMaster keeps the others, so nobody reads them here.
        here = [p for p in deployment.produced_partitions if not p.is_kept_by_job_master]
        self.result_partition_ids = tuple(p.result_partition_id for p in here)
        self._blocking = [
            partition for partition in environment.result_partitions if isinstance(partition, SortMergeResultPartition)
        ]
        self.blocking_partition_ids = tuple(
            partition.partition_id
            for partition in self._blocking
            if partition.partition_id in self.result_partition_ids
        )
        self._stored = stored
        self._fetched = fetched
        self._deployment = deployment
        self._environment = environment
        self._user_code = user_code
        self._has_remote_inputs = has_remote_inputs
        self._state = state

    def subpartition_bytes(self) -> dict[str, list[int]]:
        return {partition.partition_id: partition.subpartition_bytes.tolist() for partition in self._blocking}

    def create_invokable(self, callbacks: TaskCallbacks) -> Invokable:
        self._user_code.use_in_this_thread()
        environment = self._environment
        # The files of the job have arrived since this object was created.
        environment.shipped_files = self._user_code.shipped_files
        environment.callbacks = self._state.callbacks = callbacks
        use_file_systems_in_this_thread(environment.configuration)
        for partition_id, partition in self._stored.items():
            partition.on_finished = partial(_store, callbacks, partition_id, partition)
        for partition_id, partition in self._fetched.items():
            partition.restore(callbacks.fetch_result(partition_id))
        if environment.vertex.task_kind == SPARK_TASK:
            from flinkpy.spark.region_task import SparkRegionTask  # imported by jobs that use it

            return SparkRegionTask(environment)
        return create_stream_task(environment)

    def dump_event(self, event: Any) -> bytes:
        # cloudpickle, because the class of a split may be defined in the user's main module.
        return cloudpickle.dumps(event)

    def update_partition(self, input_index: int, partition: taskexecutor_pb2.ShuffleDescriptor) -> None:
        for gate in self._deployment.input_gates:
            if gate.input_index == input_index and partition in gate.partitions:
                return  # it was deployed with this location
        raise UnsupportedOperationError(
            f"{self.task_name}: its input {input_index} cannot be moved to partition {partition.result_partition_id}; "
            "tasks are deployed when all their producers have slots"
        )

    def release(self, cause: BaseException | None) -> None:
        for _, _, gate in self._environment.input_gates:
            gate.close()
        if cause is not None:
            error = cause if isinstance(cause, Exception) else ExternalError(str(cause))
            for partition in self._environment.result_partitions:
                partition.release(error)
        for copy in (*self._stored.values(), *self._fetched.values()):
            copy.release()
        self._environment.metric_group.close()
        remove_in_background(self._state.io_executor, [self._state.directory])


class NetworkTaskDeployer:
    """Implements `TaskDeployer`. Thread: main thread."""

    def __init__(
        self,
        network: NetworkEnvironment,
        rpc_client: Peers,
        working_directory: WorkingDirectory,
        configuration: Configuration,
        clock: Clock | None = None,
        metrics: MetricRegistry | None = None,
        options: TaskExecutorOptions | None = None,
        external_resources: ExternalResourceInfos | None = None,
    ) -> None:
        self._external_resources = external_resources or {}
        self._metrics = metrics or MetricRegistry()
        self._options = options
        self._network = network
        self._rpc_client = rpc_client
        self._working_directory = working_directory
        self._configuration = configuration
        self._clock = clock or SystemClock()
        self._python_path = PythonPath()
        self.process_environment = ProcessEnvironment(
            working_directory.path / "python-environment",
            environments_root(read_option(configuration, pipeline_options.PYTHON_ENVIRONMENT_DIR)),
        )
        #: Numbers directories, so that a job that returns does not use a directory that is being removed.
        self._numbers = itertools.count()
        self._io_executor = IoExecutor(read_option(configuration, cluster_options.IO_POOL_SIZE))
        #: The directory of the tasks' state backends.
        self._task_directory = working_directory.subdirectory("tasks", empty=True)
        self._local_state_directories = LocalStateDirectories.open(
            read_option(configuration, checkpointing_options.LOCAL_BACKUP_DIRS), working_directory
        )

    def close(self, timeout_s: float) -> bool:
        """Stops the I/O threads, after the tasks have ended. Returns False if one still works after `timeout_s`."""
        has_ended = self._io_executor.close(timeout_s)
        self.process_environment.close()
        self._local_state_directories.close()
        return has_ended

    @property
    def profile(self) -> str | None:
        return self.process_environment.profile

    def dedicate(self, profile: str) -> None:
        self.process_environment.dedicate(profile)

    def user_code(self, job: taskexecutor_pb2.JobInformation) -> UserCode:
        name = f"{job.job_id}-{next(self._numbers)}"
        directory = safe_join(self._working_directory.path, name)
        fetch_blob = self._fetcher(job.blob_server_address)
        local_state = LocalStateStore(self._local_state_directories.of_job(name), self._io_executor)
        return UserCode(job, directory, self._python_path, self.process_environment, fetch_blob, local_state)

    def deploy(
        self,
        job: taskexecutor_pb2.JobInformation,
        vertex: job_pb2.JobVertex,
        deployment: taskexecutor_pb2.TaskDeployment,
        user_code: UserCode,
        on_input_failure: Callable[[FlinkError], None],
    ) -> DeployedStreamTask:
        """Creates partitions and gates. Raises: FlinkError; everything created is released then."""
        name = f"{vertex.name} ({deployment.subtask_index + 1}/{vertex.parallelism})"
        partitions: list[ResultPartition] = []
        stored: dict[str, SortMergeResultPartition] = {}
        fetched: dict[str, SortMergeResultPartition] = {}
        gates: list[tuple[int, int, InputGate]] = []
        try:
            for produced in sorted(deployment.produced_partitions, key=lambda p: p.result_index):
                partition = self._create_partition(vertex, produced, name)
                partitions.append(partition)
                if produced.is_kept_by_job_master and not produced.is_final:
                    assert isinstance(partition, SortMergeResultPartition)
                    stored[produced.result_partition_id] = partition
            for gate in deployment.input_gates:
                if gate.is_kept_by_job_master:
                    gate = self._with_copies(gate, deployment.execution_attempt_id, name, fetched)
                gates.append((gate.input_index, gate.edge_index, self._create_gate(gate, name, on_input_failure)))
            configuration = self._job_configuration(job)
            state = self._state_manager(name, configuration, deployment, user_code.local_state)
        except Exception as error:
            for _, _, made in gates:
                made.close()
            for partition in (*partitions, *fetched.values()):
                partition.release(error)
            if isinstance(error, FlinkError):
                raise
            raise TaskSubmissionError(f"{name}: {describe(error)}") from error
        environment = RuntimeEnvironment(
            job_id=job.job_id,
            job_name=job.name,
            configuration=configuration,
            vertex=vertex,
            subtask_index=deployment.subtask_index,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            attempt_number=deployment.attempt_number,
            execution_attempt_id=deployment.execution_attempt_id,
            task_name=name,
            clock=self._clock,
            result_partitions=partitions,
            input_gates=gates,
            state=state,
            metric_group=self._metric_group(job, vertex, deployment, configuration),
            accumulators=AccumulatorRegistry(self._clock),
            cached_files=user_code.cached_files,
            external_resources=self._external_resources,
            on_restored=state.log_restore,
            shipped_files=ShippedFiles(),  # set when the files of the job have arrived
            final_results=frozenset(one.result_index for one in deployment.produced_partitions if one.is_final),
            trace_parent=SpanContext.parse(job.traceparent),
        )
        return DeployedStreamTask(
            environment, deployment, user_code, state, stored, fetched, self._has_remote_inputs(deployment)
        )

    def _has_remote_inputs(self, deployment: taskexecutor_pb2.TaskDeployment) -> bool:
        """Returns True if a producer of the task is not known to run in this process."""
        mine = None if self._options is None else self._options.resource_id
        return any(
            partition.resource_id != mine
            for gate in deployment.input_gates
            if not gate.is_kept_by_job_master
            for partition in gate.partitions
        )

    def partition_is_released(self, result_partition_id: str) -> bool:
        return self._network.partition_manager.find(result_partition_id) is None

    def release_partition(self, result_partition_id: str, cause: FlinkError | None) -> None:
        self._network.release_partition(result_partition_id, cause)

    def _metric_group(
        self,
        job: taskexecutor_pb2.JobInformation,
        vertex: job_pb2.JobVertex,
        deployment: taskexecutor_pb2.TaskDeployment,
        configuration: Configuration,
    ) -> TaskMetricGroup:
        variables = {
            "<host>": "localhost" if self._options is None else self._options.advertised_host,
            "<tm_id>": "" if self._options is None else self._options.resource_id,
            "<job_id>": job.job_id,
            "<job_name>": job.name,
            "<task_id>": vertex.id,
            "<task_name>": vertex.name,
            "<task_attempt_id>": deployment.execution_attempt_id,
            "<task_attempt_num>": str(deployment.attempt_number),
            "<subtask_index>": str(deployment.subtask_index),
        }
        scope = MetricScope(job.job_id, vertex.id, deployment.subtask_index, deployment.attempt_number)
        return TaskMetricGroup(scope, variables, configuration, self._metrics)

    def _state_manager(
        self,
        task_name: str,
        configuration: Configuration,
        deployment: taskexecutor_pb2.TaskDeployment,
        local_state: LocalStateStore,
    ) -> SubtaskStateManager:
        directory = self._task_directory / str(next(self._numbers))
        directory.mkdir()
        storage = _CheckpointStorage(configuration)
        return SubtaskStateManager(
            task_name=task_name,
            owner=(deployment.vertex_id, deployment.subtask_index),
            restore=deployment.restore if deployment.HasField("restore") else None,
            streams_of_location=storage.streams,
            files=storage,
            directory=directory,
            io_executor=self._io_executor,
            backup=local_state if read_option(configuration, checkpointing_options.LOCAL_BACKUP) else None,
            local=local_state if read_option(configuration, checkpointing_options.RESTORE_FROM_LOCAL) else None,
        )

    def _create_partition(
        self, vertex: job_pb2.JobVertex, produced: taskexecutor_pb2.ResultPartitionDeployment, task_name: str
    ) -> ResultPartition:
        data_set = vertex.results[produced.result_index]
        return self._network.create_result_partition(
            partition_id=produced.result_partition_id,
            num_subpartitions=produced.num_subpartitions,
            partition_type=job_pb2.ResultPartitionType.Name(data_set.type),
            owner=task_name,
        )

    def _with_copies(
        self,
        gate: taskexecutor_pb2.InputGateDeployment,
        execution_attempt_id: str,
        task_name: str,
        fetched: dict[str, SortMergeResultPartition],
    ) -> taskexecutor_pb2.InputGateDeployment:
        """Returns the gate with local partitions, which the task fills with results that the JobMaster keeps.

        Args:
            fetched: the partitions are added to it.
        """
        local = taskexecutor_pb2.InputGateDeployment()
        local.CopyFrom(gate)
        for partition in local.partitions:
            # Named after its reader: the copy of another attempt may still be here.
            copied = ResultPartitionID.parse(partition.result_partition_id)
            reader = ExecutionAttemptID.parse(execution_attempt_id)
            copy_id = str(ResultPartitionID(copied.data_set_id, copied.partition_index, reader))
            copy = self._network.create_result_partition(
                partition_id=copy_id,
                num_subpartitions=gate.subpartition_index + (gate.num_subpartitions or 1),
                partition_type="BLOCKING",
                owner=task_name,
            )
            assert isinstance(copy, SortMergeResultPartition)
            fetched[partition.result_partition_id] = copy
            partition.result_partition_id = copy_id
        return local

    def _create_gate(
        self,
        gate: taskexecutor_pb2.InputGateDeployment,
        task_name: str,
        on_failure: Callable[[FlinkError], None],
    ) -> InputGate:
        def failed(error: Exception) -> None:
            on_failure(error if isinstance(error, FlinkError) else ExternalError(f"{task_name}: {error}"))

        return self._network.create_input_gate(
            owner=task_name,
            subpartition_index=gate.subpartition_index,
            partitions=[(p.result_partition_id, p.data_address) for p in gate.partitions],
            on_failure=failed,
            num_subpartitions=gate.num_subpartitions or 1,
            is_blocking=gate.is_blocking,
        )

    def _job_configuration(self, job: taskexecutor_pb2.JobInformation) -> Configuration:
        """Returns the TaskExecutor's configuration, overridden by that of the job."""
        return Configuration.from_dict({**self._configuration.to_dict(), **job.configuration.entries})

    def _fetcher(self, blob_server_address: str) -> Callable[[str], AsyncIterator[bytes]]:
        async def fetch(blob_key: str) -> AsyncIterator[bytes]:
            gateway = self._rpc_client.gateway("BlobServer", blob_server_address)
            async for chunk in gateway.get_blob(dispatcher_pb2.BlobKey(sha256=blob_key)):
                yield chunk.data

        return fetch


def _store(callbacks: TaskCallbacks, partition_id: str, partition: SortMergeResultPartition) -> None:
    """Stores a finished partition at the JobMaster. Nobody reads it here. Thread: task thread."""
    callbacks.store_result(partition_id, partition.content(RESULT_PIECE_BYTES))
    partition.release()


class _CheckpointStorage:
    """Opens streams and files of checkpoints with the configuration of a job. Thread: any."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def streams(self, location: checkpoint_pb2.CheckpointLocation) -> CheckpointStreams:
        from flinkpy.checkpoint.storage import CheckpointStreamFactory  # imported by jobs that use it

        return CheckpointStreamFactory(location, self._configuration)

    def open(self, handle: checkpoint_pb2.StreamStateHandle) -> BinaryIO:
        return self._files.open(handle)

    def fetch(
        self,
        handle: checkpoint_pb2.StreamStateHandle,
        target: Path,
        *,
        never_changes: bool = False,
        checks_itself: bool = False,
    ) -> None:
        self._files.fetch(handle, target, never_changes=never_changes, checks_itself=checks_itself)

    @cached_property
    def _files(self) -> StateFiles:
        from flinkpy.checkpoint.storage import StateFileReader

        return StateFileReader(self._configuration)
