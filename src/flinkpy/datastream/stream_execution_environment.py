"""StreamExecutionEnvironment: where a program begins, and where it is executed from."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import JobExecutionError, UserError
from flinkpy.common.execution_config import ExecutionConfig
from flinkpy.common.parallelism import check_buffer_timeout, check_parallelism
from flinkpy.common.typeinfo import TypeInformation
from flinkpy.common.watermark_strategy import WatermarkStrategy
from flinkpy.connector_api.source import SourceBase
from flinkpy.datastream import function_checks as checks
from flinkpy.datastream.base_stream import DataStream
from flinkpy.datastream.cached_data_stream import ClusterDatasets, has_finished
from flinkpy.datastream.checkpoint_config import CheckpointConfig
from flinkpy.datastream.checkpointing_mode import CheckpointingMode
from flinkpy.datastream.event_time_checks import check_timestamp_column
from flinkpy.datastream.execution_mode import RuntimeExecutionMode
from flinkpy.datastream.program_checks import (
    check_state_backend,
    check_types_are_declared,
    check_unaligned_checkpoints,
    configured_job_id,
    warn_of_sinks_that_never_commit,
)
from flinkpy.datastream.program_jobs import JobListeners, ProgramJobs
from flinkpy.datastream.program_sources import ProgramSources, in_its_subtasks
from flinkpy.datastream.slot_sharing_group import SlotSharingGroup, warn_of_resources
from flinkpy.datastream.unexecuted_programs import forget_sinks, note_sink
from flinkpy.datastream.user_artifacts import UserArtifacts, check_python_executable
from flinkpy.graph.operator_specs import SourceSpec
from flinkpy.graph.stream_graph import StreamGraph, StreamGraphOptions, build_stream_graph
from flinkpy.graph.transformation import OperatorTransformation

if TYPE_CHECKING:
    from flinkpy._proto import job_pb2
    from flinkpy.common.job_client import JobClient
    from flinkpy.common.job_execution_result import JobExecutionResult
    from flinkpy.datastream.collected_results import ResultsToCome

__all__ = ["StreamExecutionEnvironment"]

DEFAULT_JOB_NAME = "Flink Streaming Job"
#: A subtask is worth a process of its own, and a program that says nothing should not start one for each of many cores.
_MAX_DEFAULT_LOCAL_PARALLELISM = 8

#: A job has one at most, and a restored job must find it again.
_COLLECT_UID = "flinkpy-collect"

_RUNTIME_MODE = "execution.runtime-mode"
_BUFFER_TIMEOUT = "execution.buffer-timeout.interval"
_BUFFER_TIMEOUT_ENABLED = "execution.buffer-timeout.enabled"
_CHANGELOG_ENABLED = "state.changelog.enabled"
_CHAINING = "pipeline.operator-chaining.enabled"


class StreamExecutionEnvironment(ProgramSources, ProgramJobs):
    """Makes streams from sources, and executes what was built from them.

    Source: pyflink.datastream.StreamExecutionEnvironment.
    """

    _default_local_parallelism: int | None = None

    def __init__(self, j_stream_execution_environment: Configuration | None = None, serializer: Any = None) -> None:
        self._configuration = Configuration(j_stream_execution_environment)
        self._config = ExecutionConfig(self._configuration)
        self._operators: list[OperatorTransformation] = []
        #: Of `collect_async`, until the program is executed.
        self._collecting: list[ResultsToCome] = []
        self._slot_sharing_groups: dict[str, SlotSharingGroup] = {}
        self._artifacts = UserArtifacts()
        self._listeners = JobListeners()
        self.cluster_datasets = ClusterDatasets()

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """A new environment: the configuration files' options, with those given here over them."""
        from flinkpy.checkpoint.storage.file_systems import initialize_file_systems
        from flinkpy.configuration.loading import load_configuration

        loaded = load_configuration()
        if configuration is not None:
            loaded.add_all(configuration)
        environment = StreamExecutionEnvironment(loaded)
        # For sources that look at their first file while the program is made.
        initialize_file_systems(environment._configuration)
        return environment

    # -- configuration ---------------------------------------------------------------------------------------------

    def get_config(self) -> ExecutionConfig:
        return self._config

    def configure(self, configuration: Configuration) -> None:
        """Take over the options; they are checked when the program is executed."""
        self._configuration.add_all(configuration)

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Of operators made from now on that set none of their own."""
        self._config.set_parallelism(parallelism)
        return self

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        self._config.set_max_parallelism(max_parallelism)
        return self

    def get_parallelism(self) -> int:
        """The configured one; else the default local parallelism on an embedded cluster, and 1 on any other."""
        configured = self._config.get_parallelism()
        if self._configuration.contains_key("parallelism.default") or self._is_remote():
            return configured
        return self.get_default_local_parallelism()

    def get_max_parallelism(self) -> int:
        return self._config.get_max_parallelism()

    def get_default_local_parallelism(self) -> int:
        """The number of cores, but at most 8, unless set otherwise."""
        chosen = type(self)._default_local_parallelism
        return chosen if chosen is not None else min(os.cpu_count() or 1, _MAX_DEFAULT_LOCAL_PARALLELISM)

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """For all environments of this program."""
        check_parallelism(parallelism)
        StreamExecutionEnvironment._default_local_parallelism = parallelism

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> StreamExecutionEnvironment:
        """Make a group with its resources known by its name.

        The resources have no effect yet: a group that asks for some is named in a warning, once.
        """
        warn_of_resources(slot_sharing_group)
        self._slot_sharing_groups[slot_sharing_group.get_name()] = slot_sharing_group
        return self

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        if not isinstance(execution_mode, RuntimeExecutionMode):
            raise TypeError(
                f"the mode is a RuntimeExecutionMode, such as RuntimeExecutionMode.BATCH, not {execution_mode!r}"
            )
        self._configuration.set_string(_RUNTIME_MODE, execution_mode.name)
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> StreamExecutionEnvironment:
        """Longest time a record waits in a batch; -1: until the batch is full, 0: not at all."""
        check_buffer_timeout(timeout_millis)
        self._configuration.set_boolean(_BUFFER_TIMEOUT_ENABLED, timeout_millis >= 0)
        if timeout_millis >= 0:
            self._configuration.set_string(_BUFFER_TIMEOUT, f"{timeout_millis} ms")
        return self

    def get_buffer_timeout(self) -> int:
        from flinkpy.configuration.execution_options import BUFFER_TIMEOUT, BUFFER_TIMEOUT_ENABLED
        from flinkpy.configuration.options import read_option

        if not read_option(self._configuration, BUFFER_TIMEOUT_ENABLED):
            return -1
        return read_option(self._configuration, BUFFER_TIMEOUT)

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        self._configuration.set_boolean(_CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        from flinkpy.configuration.options import read_option
        from flinkpy.configuration.pipeline_options import OPERATOR_CHAINING

        return read_option(self._configuration, OPERATOR_CHAINING)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        from flinkpy.configuration.options import read_option
        from flinkpy.configuration.pipeline_options import OPERATOR_CHAINING_DIFFERENT_MAX_PARALLELISM

        return read_option(self._configuration, OPERATOR_CHAINING_DIFFERENT_MAX_PARALLELISM)

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def get_checkpoint_config(self) -> CheckpointConfig:
        """How checkpoints are taken; changing it changes this environment."""
        return CheckpointConfig(self._configuration)

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> StreamExecutionEnvironment:
        """Take a checkpoint every `interval` ms, and restart a failed job from the last one.

        Args:
            mode: None leaves the configured one, by default EXACTLY_ONCE.

        Raises: ValueError where the interval is below 10 ms.
        """
        config = self.get_checkpoint_config()
        if mode is not None:
            config.set_checkpointing_mode(mode)
        config.set_checkpoint_interval(interval)
        return self

    def get_checkpoint_interval(self) -> int:
        """In ms; -1: there are no periodic checkpoints."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        return self.get_checkpoint_config().get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        return self.get_checkpoint_config().get_checkpointing_mode()

    def enable_changelog_state_backend(self, enabled: bool) -> StreamExecutionEnvironment:
        """Set `state.changelog.enabled`. A program that enables it is refused when it is executed."""
        self._configuration.set_boolean(_CHANGELOG_ENABLED, enabled)
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """Returns None if `state.changelog.enabled` is not set."""
        from flinkpy.configuration.options import is_set, read_option
        from flinkpy.configuration.state_backend_options import CHANGELOG_ENABLED

        if not is_set(self._configuration, CHANGELOG_ENABLED):
            return None
        return read_option(self._configuration, CHANGELOG_ENABLED)

    def set_default_savepoint_directory(self, directory: str) -> StreamExecutionEnvironment:
        self._configuration.set_string("execution.checkpointing.savepoint-dir", directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        from flinkpy.configuration.checkpointing_options import SAVEPOINT_DIRECTORY
        from flinkpy.configuration.options import read_option

        return read_option(self._configuration, SAVEPOINT_DIRECTORY) or None

    def is_unaligned_checkpoints_enabled(self) -> bool:
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        return self.get_checkpoint_config().is_force_unaligned_checkpoints()

    # -- what the program brings along -----------------------------------------------------------------------------

    def add_python_file(self, file_path: str) -> None:
        """Make a module, a package directory or a zip file importable wherever the program's functions run."""
        self._artifacts.add_python_file(file_path)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Unpack an archive in the working directory of the program's functions, as `target_dir` or its own name."""
        self._artifacts.add_python_archive(archive_path, target_dir)

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Bring a file, or a directory, to every TaskExecutor that runs the program's functions: there
        `RuntimeContext.get_distributed_cache().get_file(name)` is its path."""
        self._artifacts.add_cached_file(file_path, name, executable)

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Install the packages of a requirements.txt wherever the program's functions run, in an environment that only
        jobs with the same requirements share.

        Args:
            requirements_cache_dir: a directory of packages; nothing is then taken from anywhere else.

        Where they cannot be installed the job fails with pip's message.
        """
        self._artifacts.set_requirements(requirements_file_path, requirements_cache_dir)

    def set_python_executable(self, python_exec: str) -> None:
        """Accepted where it names the interpreter that runs this program: functions run inside the TaskExecutors.

        Raises:
            UnsupportedOperationError: it is another interpreter.
        """
        check_python_executable(python_exec)

    def add_jars(self, *jars_path: str) -> None:
        """Kept in `pipeline.jars`, as in PyFlink; a jar can do nothing here."""
        warnings.warn("add_jars has no effect: flinkpy has no JVM", stacklevel=2)
        self._add_to_list("pipeline.jars", jars_path)

    def add_classpaths(self, *classpaths: str) -> None:
        """Kept in `pipeline.classpaths`, as in PyFlink; a class path can do nothing here."""
        warnings.warn("add_classpaths has no effect: flinkpy has no JVM", stacklevel=2)
        self._add_to_list("pipeline.classpaths", classpaths)

    def _add_to_list(self, key: str, elements: tuple[str, ...]) -> None:
        present = Configuration.parse_list_value(self._configuration.get_string(key, ""))
        self._configuration.set_string(key, str([*present, *elements]))

    # -- sources ---------------------------------------------------------------------------------------------------

    def from_collection(self, collection: Iterable[Any], type_info: TypeInformation | None = None) -> DataStream:
        """The elements of a list (or other iterable), in their order, in one subtask.

        Raises:
            TypeMismatchError: an element does not match `type_info`; names it.
        """
        from flinkpy.connectors.collection import CollectionSource

        if isinstance(collection, (str, bytes, dict)) or not isinstance(collection, Iterable):
            raise TypeError(f"from_collection needs a list of elements, not a {type(collection).__name__}")
        declared = checks.output_type_of(type_info)
        source = CollectionSource(collection, declared)
        stream = self._source(source, None, "Collection Source", declared)
        stream.force_non_parallel()
        return stream

    def from_source(
        self,
        source: Any,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """The records of `source`, a `flinkpy.connector_api.source.SourceBase`; `type_info` overrides its own type."""
        if not isinstance(source, SourceBase):
            raise TypeError("The source must be an implementation of flinkpy.connector_api.source.SourceBase")
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise TypeError("The watermark_strategy must be a WatermarkStrategy")
        declared = checks.output_type_of(type_info) or checks.output_type_of(source.produced_type)
        check_timestamp_column(watermark_strategy, declared)
        return in_its_subtasks(self._source(source, watermark_strategy, source_name, declared), source)

    def from_sequence(self, start: int, end: int) -> DataStream:
        """The numbers `start` to `end`, both included, as LONG columns. Beyond PyFlink (Java's `fromSequence`)."""
        from flinkpy.common.typeinfo import Types
        from flinkpy.connectors.number_sequence import NumberSequenceSource

        return self._source(NumberSequenceSource(start, end), None, "Sequence Source", Types.LONG())

    # -- execution -------------------------------------------------------------------------------------------------

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Execute the program and wait for its end.

        Raises:
            FunctionSerializationError: a function cannot be pickled.
            JobExecutionError: the job failed; the message begins with the user's own traceback.
        """
        if self._collecting:
            raise UserError("the results of collect_async are read while the job runs: call execute_async, not execute")
        operators = self._operators.copy()
        try:
            result = self._submit_and_await(self.generate_job_graph(job_name))
        except JobExecutionError as error:
            if not self.cluster_datasets.forget_corrupted(error):
                raise
            self._operators[:] = operators
            result = self._submit_and_await(self.generate_job_graph(job_name))
        if result.get_net_runtime() >= 0:  # it was waited for
            self.cluster_datasets.submitted(lambda: True)
        return result

    def execute_async(self, job_name: str = DEFAULT_JOB_NAME) -> JobClient:
        """Execute the program without waiting for it."""
        from flinkpy.common.job_client import JobClient

        client = self._submit(self.generate_job_graph(job_name), needs_client=bool(self._collecting))
        self.cluster_datasets.submitted(has_finished(client.job_result()))
        for results in self._collecting:
            results.start(client)
        self._collecting.clear()
        return JobClient(client)

    def get_execution_plan(self) -> str:
        """The program so far as JSON."""
        from flinkpy.graph.batch_mode import runs_in_batch_mode, to_batch_mode
        from flinkpy.graph.column_optimizer import optimize_columns
        from flinkpy.graph.execution_plan import execution_plan
        from flinkpy.graph.spark_regions import choose_backends

        graph = self._stream_graph(None)
        is_batch = runs_in_batch_mode(graph, self._configuration)
        if is_batch:
            choose_backends(graph, to_batch_mode(graph, self._configuration))
        optimize_columns(graph, self._configuration, is_batch)
        forget_sinks(self)  # a program that shows its plan need not run
        return execution_plan(graph)

    def close(self) -> None:
        """Forget the program built so far, and what was cached."""
        self._operators.clear()
        forget_sinks(self)
        self.cluster_datasets.close()

    def invalidate_cluster_dataset(self, dataset_id: str) -> None:
        """Delete what was cached under this id, which `CachedDataStream.dataset_id` has. Beyond PyFlink."""
        self.cluster_datasets.invalidate(dataset_id)

    # -- inside ----------------------------------------------------------------------------------------------------

    def generate_job_graph(self, job_name: str | None = None) -> job_pb2.JobGraph:
        """The JobGraph of everything built since the last execution, which is forgotten by this. Beyond PyFlink."""
        from flinkpy.configuration.key_notices import warn_of_keys
        from flinkpy.graph.batch_mode import runs_in_batch_mode, to_batch_mode
        from flinkpy.graph.batch_sinks import split_sinks
        from flinkpy.graph.column_optimizer import optimize_columns
        from flinkpy.graph.job_graph_generator import generate_job_graph
        from flinkpy.graph.spark_regions import cut_spark_regions

        graph = self._stream_graph(job_name)
        check_state_backend(self._configuration)
        warn_of_keys(self._configuration)
        check_unaligned_checkpoints(graph, self.get_checkpoint_config())
        check_types_are_declared(graph, self._config)
        configuration = self._configuration
        is_batch = runs_in_batch_mode(graph, configuration)
        if is_batch:
            configuration = to_batch_mode(graph, configuration)
            cut_spark_regions(graph, configuration)
            split_sinks(graph)
        else:
            warn_of_sinks_that_never_commit(graph, configuration)
        optimize_columns(graph, configuration, is_batch)
        job_graph = generate_job_graph(
            graph,
            configuration,
            job_id=configured_job_id(self._configuration),
            artifacts=self._artifacts.collect(self._configuration),
        )
        self._operators.clear()
        forget_sinks(self)
        return job_graph

    def collect(self, stream: DataStream, job_name: str | None) -> Any:
        """Execute the program with a sink that brings `stream` here; gives an iterator with `close()`."""
        from flinkpy.datastream.collected_results import CollectedResults

        operator_id = _collect(stream, _COLLECT_UID)
        client = self._submit(self.generate_job_graph(job_name), needs_client=True)
        self.cluster_datasets.submitted(has_finished(client.job_result()))
        return CollectedResults(client, operator_id)

    def collect_later(self, stream: DataStream) -> Any:
        """As `collect`, of the next `execute_async`."""
        from flinkpy.datastream.collected_results import ResultsToCome

        results = ResultsToCome(_collect(stream, f"{_COLLECT_UID}-{len(self._collecting)}"))
        self._collecting.append(results)
        return results

    def add_operator(self, operator: OperatorTransformation) -> None:
        """The operator is part of the program, whether or not anything reads its result."""
        if operator.parallelism is None:
            operator.parallelism = self.get_parallelism()
            operator.has_default_parallelism = True
        if not operator.is_source:
            self._operators.append(operator)
        if operator.is_sink:
            note_sink(self, operator.name)

    def _source(
        self,
        source: SourceBase,
        watermark_strategy: WatermarkStrategy | None,
        name: str,
        type_info: TypeInformation | None,
    ) -> DataStream:
        strategy = None if _does_nothing(watermark_strategy) else watermark_strategy
        operator = OperatorTransformation(name, SourceSpec(source, strategy, output_type=type_info), ())
        self.add_operator(operator)
        return DataStream(operator, self)

    def _stream_graph(self, job_name: str | None) -> StreamGraph:
        from flinkpy.configuration import pipeline_options
        from flinkpy.configuration.options import read_option

        configuration = self._configuration
        options = StreamGraphOptions(
            parallelism=self.get_parallelism(),
            max_parallelism=self.get_max_parallelism(),
            buffer_timeout_ms=self.get_buffer_timeout(),
            is_chaining_enabled=self.is_chaining_enabled(),
            is_chaining_with_different_max_parallelism_enabled=(
                self.is_chaining_of_operators_with_different_max_parallelism_enabled()
            ),
            are_uids_generated=self._config.has_auto_generated_uids_enabled(),
        )
        name = job_name or read_option(configuration, pipeline_options.NAME) or DEFAULT_JOB_NAME
        operators = self.cluster_datasets.plan(self._operators, configuration, options.parallelism)
        return build_stream_graph(operators, name, options)

    def _is_remote(self) -> bool:
        target = self._configuration.get_string("execution.target", "")
        if target:
            return target == "remote"
        return self._configuration.contains_key("jobmanager.rpc.address")


def _collect(stream: DataStream, uid: str) -> str:
    """The id of the operator that brings the stream to the program."""
    from flinkpy.configuration.client_options import COLLECT_MAX_RECORD
    from flinkpy.configuration.options import read_option
    from flinkpy.connectors.collect_sink import CollectSink
    from flinkpy.graph.operator_hashes import id_of_uid

    # One subtask, as in Flink: what a stream of parallelism 1 gives arrives in its order.
    configuration = stream.get_execution_environment().get_configuration()
    sink = (
        stream.sink_to(CollectSink(read_option(configuration, COLLECT_MAX_RECORD))).name("Collect").set_parallelism(1)
    )
    sink.uid(uid)
    return id_of_uid(sink.transformation.uid)


def _does_nothing(strategy: WatermarkStrategy | None) -> bool:
    return strategy is None or strategy.does_nothing
