"""Methods of StreamExecutionEnvironment about its program and its jobs, and other ways to create one. Beyond PyFlink.

Source: org.apache.flink.streaming.api.environment.StreamExecutionEnvironment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy.common.configuration import Configuration
from flinkpy.common.job_listener import JobListener
from flinkpy.datastream.unexecuted_programs import forget_sinks

if TYPE_CHECKING:
    from flinkpy._proto import job_pb2
    from flinkpy.client.job_client import RemoteJobClient
    from flinkpy.common.job_client import JobClient
    from flinkpy.common.job_execution_result import JobExecutionResult
    from flinkpy.datastream.stream_execution_environment import StreamExecutionEnvironment
    from flinkpy.graph.stream_graph import StreamGraph
    from flinkpy.graph.transformation import OperatorTransformation


class JobListeners(list[JobListener]):
    """The job listeners of an environment."""

    def submitted(self, job_client: JobClient | None, error: BaseException | None = None) -> None:
        """Notifies all listeners that a job was submitted, or that its submission failed."""
        for listener in tuple(self):
            listener.on_job_submitted(job_client, error)

    def executed(self, result: JobExecutionResult | None, error: BaseException | None = None) -> None:
        """Notifies all listeners that a job has finished, or that it failed."""
        for listener in tuple(self):
            listener.on_job_executed(result, error)


class ProgramJobs:
    """What StreamExecutionEnvironment inherits."""

    _configuration: Configuration
    _operators: list[OperatorTransformation]
    _listeners: JobListeners

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

    def get_configuration(self) -> Configuration:
        """Returns the options of this environment. Changes to them take effect in this environment."""
        return self._configuration

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

    def register_job_listener(self, job_listener: JobListener) -> None:
        """Registers a listener that is notified of every job executed from now on."""
        if not isinstance(job_listener, JobListener):
            raise TypeError(f"register_job_listener: {job_listener!r} is not a JobListener")
        self._listeners.append(job_listener)

    def get_job_listeners(self) -> list[JobListener]:
        """Returns the registered listeners."""
        return list(self._listeners)

    def clear_job_listeners(self) -> None:
        """Removes all listeners."""
        self._listeners.clear()

    def _submit(self, job_graph: job_pb2.JobGraph, *, needs_client: bool = False) -> RemoteJobClient:
        from flinkpy.client.executor import execute
        from flinkpy.common.job_client import JobClient

        try:
            client = execute(job_graph, self._configuration, needs_client=needs_client)
        except Exception as error:
            self._listeners.submitted(None, error)
            raise
        self._listeners.submitted(JobClient(client))
        return client

    def _submit_and_await(self, job_graph: job_pb2.JobGraph) -> JobExecutionResult:
        from flinkpy.client.executor import ends_with_its_client

        return self._await(self._submit(job_graph, needs_client=ends_with_its_client(self._configuration)))

    def _await(self, client: RemoteJobClient) -> JobExecutionResult:
        from flinkpy.client.executor import result_of

        try:
            result: JobExecutionResult = result_of(client, self._configuration)
        except Exception as error:  # noqa: BLE001 - raised again
            self._listeners.executed(None, error)
            # The frames of flinkpy would stand between the user's call and the message.
            raise error.with_traceback(None) from None
        except KeyboardInterrupt as interrupt:
            raise interrupt.with_traceback(None) from None
        self._listeners.executed(result)
        return result

    def _stream_graph(self, job_name: str | None) -> StreamGraph:
        raise NotImplementedError


def _environment(
    parallelism: int | None, configuration: Configuration | None, target: dict[str, str]
) -> StreamExecutionEnvironment:
    from flinkpy.datastream.stream_execution_environment import StreamExecutionEnvironment

    chosen = Configuration(configuration)
    for key, value in target.items():
        chosen.set_string(key, value)
    environment = StreamExecutionEnvironment.get_execution_environment(chosen)
    if parallelism is not None:
        environment.set_parallelism(parallelism)
    return environment
