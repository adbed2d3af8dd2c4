"""StreamExecutionEnvironment: the entry point of a program. It creates the sources and executes the job."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flinkpy.client.user_artifacts import UserArtifacts, check_python_executable
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import JobExecutionError, UnsupportedOperationError, UserError
from flinkpy.common.execution_config import ExecutionConfig
from flinkpy.common.job_client import JobListener
from flinkpy.common.key_groups import check_buffer_timeout, check_parallelism
from flinkpy.common.typeinfo import TypeInformation
from flinkpy.common.watermark_strategy import WatermarkStrategy
from flinkpy.connector_api.source import SourceBase
from flinkpy.datastream import function_checks as checks
from flinkpy.datastream.base_stream import DataStream
from flinkpy.datastream.cached_data_stream import ClusterDatasets, has_finished
from flinkpy.datastream.checkpoint_config import CheckpointConfig
from flinkpy.datastream.checkpointing_mode import CheckpointingMode
from flinkpy.datastream.execution_mode import RuntimeExecutionMode
from flinkpy.datastream.job_submitter import JobSubmitter
from flinkpy.datastream.program_checks import (
    check_replaced_inputs,
    check_sinks_of_streaming_mode,
    check_state_backend,
    check_timestamp_column,
    check_types_are_declared,
    check_unaligned_checkpoints,
    configured_job_id,
    warn_of_sinks_that_never_commit,
)
from flinkpy.datastream.slot_sharing_group import SlotSharingGroup
from flinkpy.datastream.unexecuted_programs import forget_sinks, note_sink
from flinkpy.graph.operator_specs import SourceSpec
from flinkpy.graph.stream_graph import StreamGraph, StreamGraphOptions, build_stream_graph
from flinkpy.graph.transformation import OperatorTransformation

if TYPE_CHECKING:
    from flinkpy._proto import job_pb2
    from flinkpy.client.cluster_client import ClusterClient
    from flinkpy.common.job_client import JobClient
    from flinkpy.common.job_execution_result import JobExecutionResult
    from flinkpy.datastream.collected_results import ResultsToCome

__all__ = ["StreamExecutionEnvironment"]

DEFAULT_JOB_NAME = "Flink Streaming Job"
#: Each subtask may get a process. A program that sets no parallelism should not start one process per core of a large
#: machine.
_MAX_DEFAULT_LOCAL_PARALLELISM = 8

#: The uid of the sink that `execute_and_collect` adds. It is fixed, because a restored job must find its state again.
_COLLECT_UID = "flinkpy-collect"

_RUNTIME_MODE = "execution.runtime-mode"
_BUFFER_TIMEOUT = "execution.buffer-timeout.interval"
_BUFFER_TIMEOUT_ENABLED = "execution.buffer-timeout.enabled"
_CHANGELOG_ENABLED = "state.changelog.enabled"
_CHAINING = "pipeline.operator-chaining.enabled"


class StreamExecutionEnvironment:
    """The context in which a program is built and executed.

    An environment creates streams from sources, holds the configuration of the job, and executes everything that was
    built from its streams.

    Example:
        ```
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(2)
        words = env.from_collection(["a", "b", "a"], type_info=Types.STRING())
        words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1).print()
        env.execute("word count")
        ```

    Source: pyflink.datastream.StreamExecutionEnvironment.
    """

    _default_local_parallelism: int | None = None

    def __init__(self, j_stream_execution_environment: Configuration | None = None, serializer: Any = None) -> None:
        self._configuration = Configuration(j_stream_execution_environment)
        self._config = ExecutionConfig(self._configuration)
        self._operators: list[OperatorTransformation] = []
        #: The results that `collect_async` promised. They start when the program is executed.
        self._collecting: list[ResultsToCome] = []
        self._slot_sharing_groups: dict[str, SlotSharingGroup] = {}
        self._artifacts = UserArtifacts()
        self._jobs = JobSubmitter(self._configuration)
        self.cluster_datasets = ClusterDatasets()

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """Creates an environment.

        Args:
            configuration: options that take precedence over those of the configuration file.

        Returns:
            a new environment with the options of the configuration file and of `configuration`. Its `execute` submits
            to the cluster that these options name, or starts an embedded cluster if they name none.

        Example:
            ```
            config = Configuration()
            config.set_string("state.backend.type", "rocksdb")
            env = StreamExecutionEnvironment.get_execution_environment(config)
            ```
        """
        from flinkpy.checkpoint.storage.file_systems import initialize_file_systems
        from flinkpy.configuration.loading import load_configuration

        loaded = load_configuration()
        if configuration is not None:
            loaded.add_all(configuration)
        environment = StreamExecutionEnvironment(loaded)
        # Some sources read their first file while the program is built, so they need the file systems now.
        initialize_file_systems(environment._configuration)
        return environment

    @staticmethod
    def create_local_environment(
        parallelism: int | None = None, configuration: Configuration | None = None
    ) -> StreamExecutionEnvironment:
        """Creates an environment whose jobs run on an embedded cluster, whatever the configuration file says.

        Args:
            parallelism: the default parallelism. None takes the configured one.
            configuration: options that take precedence over those of the configuration file.
        """
        return _environment(parallelism, configuration, {"execution.target": "local"})

    @staticmethod
    def create_remote_environment(
        host: str, port: int, parallelism: int | None = None, configuration: Configuration | None = None
    ) -> StreamExecutionEnvironment:
        """Creates an environment whose jobs run on the cluster whose Dispatcher listens at `host:port`.

        Args:
            host: the host of the Dispatcher.
            port: its RPC port.
            parallelism: the default parallelism. None takes the configured one.
            configuration: options that take precedence over those of the configuration file.
        """
        remote = {
            "execution.target": "remote",
            "jobmanager.rpc.address": host,
            "jobmanager.rpc.port": str(port),
        }
        return _environment(parallelism, configuration, remote)

    # -- configuration ---------------------------------------------------------------------------------------------

    def get_config(self) -> ExecutionConfig:
        """Returns the execution settings of this environment. Changes to them take effect in this environment."""
        return self._config

    def get_configuration(self) -> Configuration:
        """Returns the options of this environment. Changes to them take effect in this environment."""
        return self._configuration

    def configure(self, configuration: Configuration) -> None:
        """Adds options to those of this environment, and replaces those that are already set.

        Args:
            configuration: the options. They are checked when the program is executed.
        """
        self._configuration.add_all(configuration)

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Sets the default parallelism of operators that are created after this call.

        Args:
            parallelism: the number of subtasks, from 1 to 32,768. An operator's own `set_parallelism` takes precedence.

        Raises:
            ValueError: the parallelism is out of this range.
        """
        self._config.set_parallelism(parallelism)
        return self

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Sets the default maximum parallelism of operators: the number of key groups.

        Keyed state cannot be rescaled beyond it, and a restored job must keep it.

        Args:
            max_parallelism: from 1 to 32,768.
        """
        self._config.set_max_parallelism(max_parallelism)
        return self

    def get_parallelism(self) -> int:
        """Returns the default parallelism of operators.

        This is the configured parallelism. If none is configured, it is the default local parallelism on an embedded
        cluster, and 1 on any other.
        """
        configured = self._config.get_parallelism()
        if self._configuration.contains_key("parallelism.default") or self._is_remote():
            return configured
        return self.get_default_local_parallelism()

    def get_max_parallelism(self) -> int:
        """Returns the default maximum parallelism; -1 if it is derived from the parallelism."""
        return self._config.get_max_parallelism()

    def get_default_local_parallelism(self) -> int:
        """Returns the default parallelism on an embedded cluster: the number of cores, but at most 8, unless set."""
        chosen = type(self)._default_local_parallelism
        return chosen if chosen is not None else min(os.cpu_count() or 1, _MAX_DEFAULT_LOCAL_PARALLELISM)

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Sets the default parallelism on an embedded cluster, for all environments of this process.

        Args:
            parallelism: the number of subtasks, at least 1.
        """
        check_parallelism(parallelism)
        StreamExecutionEnvironment._default_local_parallelism = parallelism

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> StreamExecutionEnvironment:
        """Registers a slot sharing group and its resources under its name.

        Each slot of the group has these resources. The job fails if no TaskExecutor can have as much.

        Args:
            slot_sharing_group: the group. Operators refer to it by its name.
        """
        self._slot_sharing_groups[slot_sharing_group.get_name()] = slot_sharing_group
        return self

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """Sets whether the program runs as a streaming or as a batch job.

        Args:
            execution_mode: STREAMING (the default), BATCH for bounded sources only, or AUTOMATIC, which chooses BATCH
                if all sources are bounded.

        Raises:
            TypeError: the mode is not a RuntimeExecutionMode.
        """
        if not isinstance(execution_mode, RuntimeExecutionMode):
            raise TypeError(
                f"the mode must be a RuntimeExecutionMode, such as RuntimeExecutionMode.BATCH, not {execution_mode!r}"
            )
        self._configuration.set_string(_RUNTIME_MODE, execution_mode.name)
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> StreamExecutionEnvironment:
        """Sets how long a record may wait in an incomplete batch before the batch is sent.

        Args:
            timeout_millis: the time in milliseconds. 0 sends each record immediately; -1 sends full batches only.
        """
        check_buffer_timeout(timeout_millis)
        self._configuration.set_boolean(_BUFFER_TIMEOUT_ENABLED, timeout_millis >= 0)
        if timeout_millis >= 0:
            self._configuration.set_string(_BUFFER_TIMEOUT, f"{timeout_millis} ms")
        return self

    def get_buffer_timeout(self) -> int:
        """Returns the buffer timeout in milliseconds; -1 if only full batches are sent."""
        from flinkpy.configuration.execution_options import BUFFER_TIMEOUT, BUFFER_TIMEOUT_ENABLED
        from flinkpy.configuration.options import read_option

        if not read_option(self._configuration, BUFFER_TIMEOUT_ENABLED):
            return -1
        return read_option(self._configuration, BUFFER_TIMEOUT)

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        """Runs every operator in a separate task."""
        self._configuration.set_boolean(_CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Returns True if operators may be chained into one task."""
        from flinkpy.configuration.options import read_option
        from flinkpy.configuration.pipeline_options import OPERATOR_CHAINING

        return read_option(self._configuration, OPERATOR_CHAINING)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Returns True if operators may be chained although their maximum parallelism differs."""
        from flinkpy.configuration.options import read_option
        from flinkpy.configuration.pipeline_options import OPERATOR_CHAINING_DIFFERENT_MAX_PARALLELISM

        return read_option(self._configuration, OPERATOR_CHAINING_DIFFERENT_MAX_PARALLELISM)

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Returns the checkpoint settings of this environment. Changes to them take effect in this environment."""
        return CheckpointConfig(self._configuration)

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> StreamExecutionEnvironment:
        """Enables periodic checkpoints. A job that fails restarts from the latest completed checkpoint.

        Args:
            interval: the time between the starts of two checkpoints in milliseconds, at least 10.
            mode: EXACTLY_ONCE or AT_LEAST_ONCE. None keeps the configured mode, which is EXACTLY_ONCE by default.

        Raises:
            ValueError: the interval is below 10 ms.

        Example:
            ```
            env.enable_checkpointing(30_000)
            ```
        """
        config = self.get_checkpoint_config()
        if mode is not None:
            config.set_checkpointing_mode(mode)
        config.set_checkpoint_interval(interval)
        return self

    def get_checkpoint_interval(self) -> int:
        """Returns the checkpoint interval in milliseconds; -1 if there are no periodic checkpoints."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        return self.get_checkpoint_config().get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        return self.get_checkpoint_config().get_checkpointing_mode()

    def enable_changelog_state_backend(self, enabled: bool) -> StreamExecutionEnvironment:
        """Sets `state.changelog.enabled`.

        There is no changelog state backend: `execute` refuses a program that enables it.
        """
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
        """Sets the directory of savepoints for which the caller names no directory.

        Args:
            directory: a path or a URI, such as `s3://bucket/savepoints`.
        """
        self._configuration.set_string("execution.checkpointing.savepoint-dir", directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Returns the default savepoint directory; None if it is not set."""
        from flinkpy.configuration.checkpointing_options import SAVEPOINT_DIRECTORY
        from flinkpy.configuration.options import read_option

        return read_option(self._configuration, SAVEPOINT_DIRECTORY) or None

    def is_unaligned_checkpoints_enabled(self) -> bool:
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        return self.get_checkpoint_config().is_force_unaligned_checkpoints()

    # -- files and packages of the program -------------------------------------------------------------------------

    def add_python_file(self, file_path: str) -> None:
        """Ships Python code to the workers, where the program's functions can import it.

        Args:
            file_path: a module, a package directory or a zip file.
        """
        self._artifacts.add_python_file(file_path)

    def remove_python_file(self, file_path: str) -> bool:
        """Takes back a file of `add_python_file`. Returns False if there is none with this path. Beyond PyFlink."""
        return self._artifacts.remove_python_file(file_path)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Ships an archive to the workers and unpacks it in the working directory of the program's functions.

        Args:
            archive_path: a `.zip`, `.tar`, `.tar.gz`, `.tgz` or `.jar` file.
            target_dir: the name of the directory it is unpacked to. None uses the name of the archive.
        """
        self._artifacts.add_python_archive(archive_path, target_dir)

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Ships a file or a directory to every TaskExecutor that runs the program's functions.

        A function gets its local path from `RuntimeContext.get_distributed_cache().get_file(name)`.

        Args:
            file_path: the file or directory.
            name: the name under which functions ask for it.
            executable: True to make the copies executable.
        """
        self._artifacts.add_cached_file(file_path, name, executable)

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Installs the packages of a requirements.txt on every worker that runs the program's functions.

        They go into an environment that is shared only by jobs with the same requirements. If the installation fails,
        the job fails with pip's message.

        Args:
            requirements_file_path: the requirements.txt file.
            requirements_cache_dir: a directory of packages. If it is given, no package comes from anywhere else.
        """
        self._artifacts.set_requirements(requirements_file_path, requirements_cache_dir)

    def set_python_executable(self, python_exec: str) -> None:
        """Checks that `python_exec` is the interpreter that runs this program.

        Functions run inside the TaskExecutors, so another interpreter cannot be chosen.

        Raises:
            UnsupportedOperationError: `python_exec` is another interpreter.
        """
        check_python_executable(python_exec)

    def add_jars(self, *jars_path: str) -> None:
        """Adds to `pipeline.jars` as PyFlink does, and warns that it has no effect: flinkpy has no JVM."""
        warnings.warn("add_jars has no effect: flinkpy has no JVM", stacklevel=2)
        self._add_to_list("pipeline.jars", jars_path)

    def add_classpaths(self, *classpaths: str) -> None:
        """Adds to `pipeline.classpaths` as PyFlink does, and warns that it has no effect: flinkpy has no JVM."""
        warnings.warn("add_classpaths has no effect: flinkpy has no JVM", stacklevel=2)
        self._add_to_list("pipeline.classpaths", classpaths)

    def _add_to_list(self, key: str, elements: tuple[str, ...]) -> None:
        present = Configuration.parse_list_value(self._configuration.get_string(key, ""))
        self._configuration.set_string(key, str([*present, *elements]))

    # -- sources ---------------------------------------------------------------------------------------------------

    def from_collection(self, collection: Iterable[Any], type_info: TypeInformation | None = None) -> DataStream:
        """Creates a stream of the elements of a collection. One subtask emits them in their order.

        Args:
            collection: a list or another iterable. All its elements become part of the job.
            type_info: the type of the elements. None pickles them.

        Returns:
            a bounded stream of parallelism 1.

        Raises:
            TypeError: `collection` is not an iterable, or is a text or a dict.
            TypeMismatchError: an element does not match `type_info`. The error names the element.

        Example:
            ```
            env.from_collection([(1, "a"), (2, "b")], Types.TUPLE([Types.LONG(), Types.STRING()]))
            ```
        """
        from flinkpy.connectors.collection import CollectionSource

        if isinstance(collection, (str, bytes, dict)) or not isinstance(collection, Iterable):
            raise TypeError(f"from_collection needs a list of elements, not a {type(collection).__name__}")
        declared = checks.output_type_of(type_info)
        source = CollectionSource(collection, declared)
        stream = self._source(source, None, "Collection Source", declared)
        stream.force_non_parallel()
        return stream

    def from_elements(self, *elements: Any, type_info: TypeInformation | None = None) -> DataStream:
        """Creates a stream of the arguments, as `from_collection` does for a list of them. Beyond PyFlink.

        Raises:
            ValueError: there is no argument.
        """
        if not elements:
            raise ValueError("from_elements needs at least one element; an empty stream is from_collection([], type)")
        return self.from_collection(list(elements), type_info)

    def from_data(self, *data: Any, type_info: TypeInformation | None = None) -> DataStream:
        """Creates a stream of the elements of one list, or of the arguments themselves. Beyond PyFlink.

        Args:
            data: one list or tuple of elements; or the elements.
            type_info: the type of the elements. None pickles them.
        """
        if len(data) == 1 and isinstance(data[0], (list, tuple)):
            return self.from_collection(list(data[0]), type_info)
        return self.from_elements(*data, type_info=type_info)

    def from_parallel_collection(
        self, collection: Iterable[Any], type_info: TypeInformation | None = None
    ) -> DataStream:
        """Creates a stream of the elements of a collection, split among all subtasks. Beyond PyFlink.

        Each subtask emits its part in the order of the collection.

        Args:
            collection: a list or another iterable.
            type_info: the type of the elements. None pickles them.
        """
        from flinkpy.connectors.collection import CollectionSource

        declared = checks.output_type_of(type_info)
        source = CollectionSource(_elements_of(collection, "from_parallel_collection"), declared, is_parallel=True)
        return self._source(source, None, "Parallel Collection Source", declared)

    def from_source(
        self,
        source: Any,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """Creates a stream of the records of a source.

        Args:
            source: a `flinkpy.connector_api.source.SourceBase`, such as a KafkaSource or a FileSource.
            watermark_strategy: assigns event time and watermarks; `WatermarkStrategy.no_watermarks()` for neither.
            source_name: the name of the operator.
            type_info: the type of the records. None takes the type that the source declares.

        Returns:
            a stream, bounded if the source is.

        Raises:
            TypeError: `source` or `watermark_strategy` is of another class.

        Example:
            ```
            strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
            orders = env.from_source(source, strategy, "orders")
            ```
        """
        if not isinstance(source, SourceBase):
            raise TypeError("The source must be an implementation of flinkpy.connector_api.source.SourceBase")
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise TypeError("The watermark_strategy must be a WatermarkStrategy")
        declared = checks.output_type_of(type_info) or checks.output_type_of(source.produced_type)
        check_timestamp_column(watermark_strategy, declared)
        return _in_its_subtasks(self._source(source, watermark_strategy, source_name, declared), source)

    def from_sequence(self, start: int, end: int) -> DataStream:
        """Creates a stream of the numbers from `start` to `end`, split among all subtasks.

        Beyond PyFlink (Java's `fromSequence`).

        Args:
            start: the first number.
            end: the last number, which is included.

        Returns:
            a bounded stream of type LONG.
        """
        from flinkpy.common.typeinfo import Types
        from flinkpy.connectors.number_sequence import NumberSequenceSource

        return self._source(NumberSequenceSource(start, end), None, "Sequence Source", Types.LONG())

    def socket_text_stream(self, hostname: str, port: int, delimiter: str = "\n", max_retry: int = 0) -> DataStream:
        """Creates a stream of the text that a server sends over a socket. Beyond PyFlink.

        One subtask reads the socket. A socket cannot be read again: after a failure, text that was read but not
        processed is lost.

        Args:
            hostname: the host of the server.
            port: the port of the server.
            delimiter: the end of each record. It is not part of the record.
            max_retry: the number of connections, half a second apart, after which the stream ends if the server closes
                each of them. 0 connects once, -1 connects again forever.

        Returns:
            a stream of texts, decoded as UTF-8.
        """
        from flinkpy.connectors.sockets import SocketTextStreamFunction

        return self.add_source(SocketTextStreamFunction(hostname, port, delimiter, max_retry), "Socket Stream")

    def add_source(
        self, source_func: Any, source_name: str = "Custom Source", type_info: TypeInformation | None = None
    ) -> DataStream:
        """Creates a stream of the records of a SourceFunction: a Java one in PyFlink, a Python one in flinkpy.

        The function runs in one subtask, unless it is a ParallelSourceFunction or its `to_source` returns a source with
        splits.

        Args:
            source_func: the SourceFunction.
            source_name: the name of the operator.
            type_info: the type of the records. None takes the type that the function declares.

        Raises:
            UnsupportedOperationError: `source_func` is the name of a Java class.
            TypeError: `source_func` is not a SourceFunction.
        """
        from flinkpy.connectors.source_function import SourceFunction

        if isinstance(source_func, str):
            source_func = SourceFunction(source_func)
        if not isinstance(source_func, SourceFunction):
            raise TypeError(
                f"add_source needs a flinkpy.datastream.functions.SourceFunction, not {type(source_func).__name__}; "
                "pass other sources to from_source"
            )
        source = source_func.to_source()
        declared = checks.output_type_of(type_info) or checks.output_type_of(source.produced_type)
        # The legacy functions of some connectors, such as FlinkKafkaConsumer, carry a watermark strategy.
        strategy = getattr(source_func, "watermark_strategy", None)
        return _in_its_subtasks(self._source(source, strategy, source_name, declared), source)

    def create_input(self, input_format: Any, type_info: TypeInformation | None = None) -> DataStream:
        """Creates a stream of the records of an input format, such as AvroInputFormat.

        Args:
            input_format: an object with `to_source` and `get_produced_type`.
            type_info: the type of the records. None takes the type that the format declares.

        Raises:
            UnsupportedOperationError: it is something else. PyFlink's InputFormats are Java objects.
        """
        if not hasattr(input_format, "to_source"):
            raise UnsupportedOperationError(
                "create_input: flinkpy has no JVM and cannot run a Java InputFormat; use from_source"
            )
        declared = checks.output_type_of(type_info) or checks.output_type_of(input_format.get_produced_type())
        return self._source(input_format.to_source(), None, "Custom File Source", declared)

    # -- execution -------------------------------------------------------------------------------------------------

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Executes everything that was built since the last execution, and waits until the job has ended.

        A detached submission does not wait.

        Args:
            job_name: the name of the job. None takes `pipeline.name`, or "Flink Streaming Job".

        Returns:
            the result, with the accumulators and the runtime of the job.

        Raises:
            UserError: the program called `collect_async`, whose results need `execute_async`.
            FunctionSerializationError: a function cannot be pickled.
            JobExecutionError: the job failed. If a user function raised, the message begins with its traceback.
        """
        if self._collecting:
            raise UserError("the results of collect_async are read while the job runs: call execute_async, not execute")
        operators = self._operators.copy()
        try:
            result = self._jobs.submit_and_await(self.generate_job_graph(job_name))
        except JobExecutionError as error:
            if not self.cluster_datasets.forget_corrupted(error):
                raise
            self._operators[:] = operators
            result = self._jobs.submit_and_await(self.generate_job_graph(job_name))
        if result.get_net_runtime() >= 0:  # -1: detached, the job still runs
            self.cluster_datasets.submitted(lambda: True)
        return result

    def execute_async(self, job_name: str = DEFAULT_JOB_NAME) -> JobClient:
        """Submits everything that was built since the last execution, and does not wait for its end.

        Args:
            job_name: the name of the job.

        Returns:
            a client of the running job: its status, `cancel`, savepoints and the result.

        Raises:
            FunctionSerializationError: a function cannot be pickled.

        Example:
            ```
            client = env.execute_async("orders")
            client.stop_with_savepoint(False, "s3://bucket/savepoints").result()
            ```
        """
        from flinkpy.common.job_client import JobClient

        client = self._jobs.submit(self.generate_job_graph(job_name), needs_client=bool(self._collecting))
        self.cluster_datasets.submitted(has_finished(client.job_result()))
        for results in self._collecting:
            results.start(client)
        self._collecting.clear()
        return JobClient(client)

    def register_job_listener(self, job_listener: JobListener) -> None:
        """Registers a listener that is notified of every job executed from now on."""
        if not isinstance(job_listener, JobListener):
            raise TypeError(f"register_job_listener: {job_listener!r} is not a JobListener")
        self._jobs.listeners.append(job_listener)

    def get_job_listeners(self) -> list[JobListener]:
        """Returns the registered listeners."""
        return list(self._jobs.listeners)

    def clear_job_listeners(self) -> None:
        """Removes all listeners."""
        self._jobs.listeners.clear()

    def get_execution_plan(self) -> str:
        """Returns the plan of the program built so far, as JSON. The program can still be executed afterwards."""
        from flinkpy.datastream.explained_programs import plan_of
        from flinkpy.graph.job_plan import flink_plan

        graph, configuration, is_batch = self._final_graph(self._stream_graph(None))
        forget_sinks(self)  # a program that only shows its plan needs no warning that it was not executed
        return json.dumps(flink_plan(plan_of(graph, configuration, is_batch=is_batch)), indent=2)

    @contextmanager
    def separate_program(self) -> Iterator[None]:
        """Makes the operators that the block adds a program of their own, such as the job of an SQL statement.

        Operators that were added before are kept for the next execution after the block. A block that fails leaves
        nothing behind. Not part of PyFlink's API.
        """
        operators, collecting = self._operators, self._collecting
        self._operators, self._collecting = [], []
        try:
            yield
        finally:
            self._operators, self._collecting = operators, collecting

    def get_transformations(self) -> list[OperatorTransformation]:
        """Returns the operators built since the last execution in the order of their creation, without sources."""
        return list(self._operators)

    def get_stream_graph(self, clear_transformations: bool = True) -> StreamGraph:
        """Returns the graph of the program built so far.

        Args:
            clear_transformations: True makes the environment forget the program.
        """
        graph = self._stream_graph(None)
        if clear_transformations:
            self._operators.clear()
            forget_sinks(self)
        return graph

    def close(self) -> None:
        """Discards the program built so far, and deletes the results of its cached streams."""
        self._operators.clear()
        forget_sinks(self)
        self.cluster_datasets.close()

    def invalidate_cluster_dataset(self, dataset_id: str) -> None:
        """Deletes the result of a cached stream. Beyond PyFlink.

        Args:
            dataset_id: the id of the result, from `CachedDataStream.dataset_id`.
        """
        self.cluster_datasets.invalidate(dataset_id)

    def cluster_client(self) -> ClusterClient | None:
        """Returns a new client of the cluster that runs the jobs of this environment. Not part of PyFlink's API.

        Returns: None if that is the embedded cluster of the program and no job has started it.

        Raises: UnsupportedOperationError if jobs run in a Spark session.
        """
        return self._jobs.cluster_client()

    # -- inside ----------------------------------------------------------------------------------------------------

    def generate_job_graph(self, job_name: str | None = None) -> job_pb2.JobGraph:
        """Returns the JobGraph of everything built since the last execution. Beyond PyFlink.

        The environment forgets these operators: the next execution does not contain them.
        """
        from flinkpy.configuration.key_notices import warn_of_keys
        from flinkpy.datastream.explained_programs import note_job
        from flinkpy.graph.job_graph_generator import generate_job_graph

        graph = self._stream_graph(job_name)
        check_state_backend(self._configuration)
        warn_of_keys(self._configuration)
        check_unaligned_checkpoints(graph, self.get_checkpoint_config())
        check_types_are_declared(graph, self._config)
        check_replaced_inputs(graph)
        graph, configuration, is_batch = self._final_graph(graph)
        if not is_batch:
            check_sinks_of_streaming_mode(graph)
            warn_of_sinks_that_never_commit(graph, configuration)
        note_job(graph, configuration, is_batch=is_batch)
        job_graph = generate_job_graph(
            graph,
            configuration,
            job_id=configured_job_id(self._configuration),
            artifacts=self._artifacts.collect(self._configuration),
        )
        self._operators.clear()
        forget_sinks(self)
        return job_graph

    def _final_graph(self, graph: StreamGraph) -> tuple[StreamGraph, Configuration, bool]:
        """Chooses the backends and optimizes the graph.

        Returns:
            the graph, the configuration of its job, and True if the job runs in batch mode.
        """
        from flinkpy.graph.batch_mode import runs_in_batch_mode, to_batch_mode
        from flinkpy.graph.column_optimizer import optimize_columns
        from flinkpy.graph.sink_topology import split_global_sinks, split_sinks
        from flinkpy.graph.spark_regions import cut_spark_regions

        configuration = self._configuration
        is_batch = runs_in_batch_mode(graph, configuration)
        if is_batch:
            configuration = to_batch_mode(graph, configuration)
            cut_spark_regions(graph, configuration)
            split_sinks(graph)
        else:
            split_global_sinks(graph)
        optimize_columns(graph, configuration, is_batch)
        return graph, configuration, is_batch

    def collect(self, stream: DataStream, job_name: str | None) -> Any:
        """Executes the program with a sink that sends the records of `stream` to this process.

        Returns:
            an iterator of the records, with `close()`.
        """
        from flinkpy.datastream.collected_results import CollectedResults

        operator_id = _collect(stream, _COLLECT_UID)
        client = self._jobs.submit(self.generate_job_graph(job_name), needs_client=True)
        self.cluster_datasets.submitted(has_finished(client.job_result()))
        return CollectedResults(client, operator_id)

    def collect_later(self, stream: DataStream) -> Any:
        """Adds a sink as `collect` does, but leaves the execution to the next `execute_async`."""
        from flinkpy.datastream.collected_results import ResultsToCome

        results = ResultsToCome(_collect(stream, f"{_COLLECT_UID}-{len(self._collecting)}"))
        self._collecting.append(results)
        return results

    def add_operator(self, operator: OperatorTransformation) -> None:
        """Adds an operator to the program, even if nothing reads its result. A source is only added if it is read."""
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
        strategy = watermark_strategy
        if strategy is not None and strategy.does_nothing:
            strategy = None
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
            slot_sharing_groups={name: group.resource_profile for name, group in self._slot_sharing_groups.items()},
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
    """Adds a sink that sends the records of the stream to this process. Returns the sink's operator id."""
    from flinkpy.configuration.client_options import COLLECT_MAX_RECORD
    from flinkpy.configuration.options import read_option
    from flinkpy.connectors.collect_sink import CollectSink
    from flinkpy.graph.operator_hashes import id_of_uid

    # One subtask, as in Flink, so that the records of a stream of parallelism 1 keep their order.
    configuration = stream.get_execution_environment().get_configuration()
    sink = (
        stream.sink_to(CollectSink(read_option(configuration, COLLECT_MAX_RECORD))).name("Collect").set_parallelism(1)
    )
    sink.uid(uid)
    return id_of_uid(sink.transformation.uid)


def _in_its_subtasks(stream: DataStream, source: SourceBase) -> DataStream:
    """Runs the source in one subtask if it is a SourceFunction that is not parallel.

    Such a function would emit the same records in every subtask.
    """
    from flinkpy.connectors.source_function import ParallelSourceFunction

    if source.source_function is not None and not isinstance(source.source_function, ParallelSourceFunction):
        stream.force_non_parallel()
    return stream


def _elements_of(collection: Any, method: str) -> list[Any]:
    """Returns the elements as a list. Raises: TypeError if it is not an iterable, or is a text or a dict."""
    if isinstance(collection, (str, bytes, dict)) or not hasattr(collection, "__iter__"):
        raise TypeError(f"{method} needs a list of elements, not a {type(collection).__name__}")
    return list(collection)


def _environment(
    parallelism: int | None, configuration: Configuration | None, target: dict[str, str]
) -> StreamExecutionEnvironment:
    chosen = Configuration(configuration)
    for key, value in target.items():
        chosen.set_string(key, value)
    environment = StreamExecutionEnvironment.get_execution_environment(chosen)
    if parallelism is not None:
        environment.set_parallelism(parallelism)
    return environment
