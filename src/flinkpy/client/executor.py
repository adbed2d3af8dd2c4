"""Submits a JobGraph to a cluster and waits for the job.

`execution.target` selects the cluster: `remote` means the cluster at `jobmanager.rpc.address` or, with high
availability, in ZooKeeper; `local` means the cluster embedded in this program. If the option is not set, a configured
address means `remote`. Jobs with `local-threads` come from `flinkpy.minicluster.executor`.

Source: org.apache.flink.core.execution.PipelineExecutor and the executors behind it.
"""

from __future__ import annotations

import logging
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, Protocol

from flinkpy import __version__
from flinkpy._proto import job_pb2
from flinkpy.client.application import current_application
from flinkpy.client.cluster_client import ClusterClient, configured_addresses, connect, is_elected
from flinkpy.client.job_client import ClientHeartbeat, RemoteJobClient, heartbeat_settings
from flinkpy.client.job_listeners import JobListeners
from flinkpy.client.job_results import execution_result
from flinkpy.client.job_watch import JobWatch, tell_detached
from flinkpy.common.clock import SystemClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ConfigurationError, DuplicateJobSubmissionError, FlinkError
from flinkpy.common.interruptible import wait_for
from flinkpy.common.python_environment import environment_profile
from flinkpy.configuration import client_options, core_options, validate
from flinkpy.configuration.loading import load_configuration
from flinkpy.configuration.options import read_option
from flinkpy.security import SecurityContext

logger = logging.getLogger(__name__)


class ProgramCluster(Protocol):
    """A cluster that starts with the jobs of this program and ends with the program or before. Thread: any."""

    def claim_slots(self, job_id: str, slots: int, configuration: Configuration, profile: str = "") -> str:
        """Starts or extends the cluster so that the job has `slots` free slots. Returns the Dispatcher's address."""
        ...

    def release_slots(self, job_id: str) -> None:
        """Frees the slots of a job that has ended."""
        ...

    @property
    def dispatcher_address(self) -> str | None:
        """The address of the Dispatcher; None while the cluster does not run."""
        ...

    @property
    def security(self) -> SecurityContext:
        """The credentials of the cluster's clients. Valid while the cluster runs."""
        ...


#: Stands for an address: the leading Dispatcher according to ZooKeeper.
ELECTED = "(elected)"
#: How long Ctrl-C waits for the job to be canceled before the program ends.
CANCEL_WAIT_S = 15.0


def execute(
    job_graph: job_pb2.JobGraph,
    configuration: Configuration,
    *,
    needs_client: bool = False,
    cluster: ProgramCluster | None = None,
) -> RemoteJobClient:
    """Submits the job to the configured cluster and returns when the cluster has accepted it.

    Args:
        job_graph: the job.
        configuration: options of the program.
        needs_client: the cluster cancels the job when this process ends.
        cluster: the cluster of a job that is not submitted to another one; None: the embedded cluster.

    Raises:
        ConfigurationError: an option is wrong, or the target is `remote` and no address is set.
        JobSubmissionError: the cluster refuses the job.
        RpcUnavailableError: no cluster answers at the address.
    """
    validate(configuration)
    check_program_configuration(configuration)
    if needs_client:
        _, job_graph.initial_client_heartbeat_timeout_ms = heartbeat_settings(configuration)
    listeners = JobListeners(configuration)
    try:
        client = _execute(job_graph, configuration, cluster)
    except Exception as error:
        listeners.on_job_submitted(None, error)
        raise
    listeners.on_job_submitted(client, None)
    return client


def _execute(
    job_graph: job_pb2.JobGraph, configuration: Configuration, cluster: ProgramCluster | None
) -> RemoteJobClient:
    _stamp(job_graph)
    timeout_s = read_option(configuration, client_options.CLIENT_TIMEOUT) / 1000
    application = current_application()
    if application is None:
        address = remote_address(configuration)
    else:
        application.fix_job_id(job_graph, configuration)
        address = application.address
    if address is not None:
        client = connect(configuration, None if address == ELECTED else address)
        return _submit(client, job_graph, configuration)

    from flinkpy.graph.required_slots import required_slots

    own = cluster or _embedded_cluster()
    job_id = job_graph.job_id
    profile = environment_profile(job_graph.artifacts)
    address = own.claim_slots(job_id, required_slots(job_graph), configuration, profile)
    try:
        return _submit(
            ClusterClient(address, timeout_s, security=own.security),
            job_graph,
            configuration,
            on_end=lambda: own.release_slots(job_id),
        )
    except BaseException:
        own.release_slots(job_id)
        raise


def cluster_client(configuration: Configuration, *, cluster: ProgramCluster | None = None) -> ClusterClient | None:
    """Returns a client of the cluster that `execute` submits jobs to.

    Args:
        cluster: as in `execute`.

    Returns: None if that is a cluster of this program, and it does not run.

    Raises: ConfigurationError, see `remote_address`.
    """
    application = current_application()
    address = remote_address(configuration) if application is None else application.address
    if address is not None:
        return connect(configuration, None if address == ELECTED else address)
    own = cluster or _embedded_cluster()
    found = own.dispatcher_address
    if found is None:
        return None
    timeout_s = read_option(configuration, client_options.CLIENT_TIMEOUT) / 1000
    return ClusterClient(found, timeout_s, security=own.security)


def _embedded_cluster() -> ProgramCluster:
    from flinkpy.client.embedded_cluster import embedded_cluster

    return embedded_cluster()


def result_of(client: RemoteJobClient, configuration: Configuration) -> Any:
    """Waits for a job that `execute` submitted and returns its JobExecutionResult. Raises: see `await_result`.

    If `execution.attached` is false (`flinkpy run --detached`), it does not wait, and the result has no runtime.
    """
    if is_detached(configuration):
        from flinkpy.common.job_execution_result import JobExecutionResult

        return JobExecutionResult(client.get_job_id(), -1, {})
    listeners = JobListeners(configuration)
    try:
        with _ending_with_its_client(configuration):
            result = await_result(client)
    except Exception as error:
        listeners.on_job_executed(None, error)
        raise
    listeners.on_job_executed(result, None)
    return result


def await_result(client: RemoteJobClient) -> Any:
    """Waits until the job has ended and returns its JobExecutionResult. Ctrl-C cancels the job first.

    Raises:
        JobExecutionError: the job failed. The message begins with the traceback of the user's code.
        JobCancelledError: the job was canceled.
    """
    end = client.job_result()
    with client.reporting_restarts():
        try:
            wait_for(end)
        except (KeyboardInterrupt, SystemExit):
            _cancel_and_wait(client)
            raise
    return execution_result(end.result())


def ends_with_its_client(configuration: Configuration) -> bool:
    """True if a job that this process waits for must end with this process."""
    return read_option(configuration, core_options.SHUTDOWN_ON_ATTACHED_EXIT) and not is_detached(configuration)


@contextmanager
def _ending_with_its_client(configuration: Configuration) -> Iterator[None]:
    """Turns SIGTERM and SIGHUP into SystemExit during the wait, if `execution.shutdown-on-attached-exit` is set."""
    wanted = read_option(configuration, core_options.SHUTDOWN_ON_ATTACHED_EXIT)
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, _exit) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def is_detached(configuration: Configuration) -> bool:
    """True if `execution.attached` is set to false. By default, a program waits for its jobs."""
    is_set = configuration.contains_key(core_options.EXECUTION_ATTACHED.key)
    return is_set and not read_option(configuration, core_options.EXECUTION_ATTACHED)


def remote_address(configuration: Configuration) -> str | None:
    """Returns the address of the Dispatcher for jobs, or several, or ELECTED. None means the embedded cluster."""
    target = read_option(configuration, core_options.EXECUTION_TARGET)
    if target in ("local", "embedded", core_options.LOCAL_THREADS):
        return None
    if target == "local-application":
        raise ConfigurationError(
            "option `execution.target` is `local-application`: start the program with `flinkpy run` or "
            "`flinkpy run-application`, which start a cluster for it"
        )
    if target in core_options.KUBERNETES_TARGETS:
        raise ConfigurationError(
            f"option `execution.target` is `{target}`: start the program with `flinkpy run` or `flinkpy "
            "run-application`, which find or start the cluster on Kubernetes"
        )
    if is_elected(configuration):
        return ELECTED
    addresses = configured_addresses(configuration)
    if addresses is None and target == "remote":
        raise ConfigurationError("option `execution.target` is `remote`, but `jobmanager.rpc.address` is not set")
    return addresses


def _submit(
    client: ClusterClient,
    job_graph: job_pb2.JobGraph,
    configuration: Configuration,
    *,
    on_end: Callable[[], None] | None = None,
) -> RemoteJobClient:
    try:
        job_id = _hand_over(client, job_graph)
    except BaseException:
        client.close()
        raise
    # Only this process can report the restarts of a job in the embedded cluster.
    watch = None
    if not is_detached(configuration):
        watch = JobWatch.start(client, job_id, job_graph.name, reports_restarts=on_end is not None)
    else:
        tell_detached(job_id, job_graph.name)
    heartbeat = None
    if job_graph.initial_client_heartbeat_timeout_ms > 0:
        heartbeat = ClientHeartbeat(client, job_id, *heartbeat_settings(configuration))
    return RemoteJobClient(client, job_id, job_graph.name, watch=watch, heartbeat=heartbeat, on_end=on_end)


def _hand_over(client: ClusterClient, job_graph: job_pb2.JobGraph) -> str:
    application = current_application()
    _upload_artifacts(client, job_graph)
    try:
        job_id = client.submit_job(job_graph)
    except DuplicateJobSubmissionError:
        if application is None:
            raise
        application.join(client, job_graph)
        return job_graph.job_id
    if application is not None:
        application.submitted(job_graph)
    return job_id


def _upload_artifacts(client: ClusterClient, job_graph: job_pb2.JobGraph) -> None:
    """Uploads the files of the program to the BlobServer and records their keys."""
    if not job_graph.artifacts:
        return
    from flinkpy.client.user_artifacts import LOCAL_PATH, read_artifact

    for artifact in job_graph.artifacts:
        if LOCAL_PATH in artifact.attributes:
            artifact.blob_key = client.put_blob(read_artifact(artifact))
            del artifact.attributes[LOCAL_PATH]


def _stamp(job_graph: job_pb2.JobGraph) -> None:
    """Adds the versions and the time. The cluster refuses a client of another release."""
    job_graph.client_version = job_graph.client_version or __version__
    job_graph.python_version = job_graph.python_version or platform.python_version()
    job_graph.created_ms = job_graph.created_ms or SystemClock().now_ms()


def _cancel_and_wait(client: RemoteJobClient) -> None:
    """Cancels the job and waits for its end, for at most CANCEL_WAIT_S in total. Says what happens to the job.

    A second interruption ends the wait. The cluster cancels the job all the same.
    """
    deadline_s = time.monotonic() + CANCEL_WAIT_S
    job_id = str(client.get_job_id())
    client.tell("interrupted: canceling the job (interrupt again to leave without waiting for its end)")
    try:
        client.cluster_client.cancel_job(job_id, timeout_s=CANCEL_WAIT_S)
    except FlinkError as error:
        # The job has ended, or its cluster is gone.
        client.tell(f"the job could not be canceled: {error}")
        return
    try:
        is_over = wait_for(client.job_result(), deadline_s - time.monotonic())
    except KeyboardInterrupt:
        client.tell(f"the cluster goes on canceling the job; `flinkpy info {job_id}` shows it")
        raise
    if not is_over:
        client.tell(f"the job has not ended within {CANCEL_WAIT_S:g} s; `flinkpy info {job_id}` shows it")


def check_program_configuration(configuration: Configuration) -> None:
    """Checks `execution.program-config.enabled`: if it is false, a program may not set options.

    The configuration that the program was started with decides. The program cannot change this option itself.

    Source: org.apache.flink.client.program.StreamContextEnvironment (`MutatedConfigurationException`).

    Raises:
        ConfigurationError: the program set options. The message names all of them.
    """
    given = load_configuration()
    if read_option(given, client_options.PROGRAM_CONFIG_ENABLED):
        return
    allowed = read_option(given, client_options.PROGRAM_CONFIG_WILDCARDS)
    before, now = given.to_dict(), configuration.to_dict()
    changed = [
        f"`{key}`: {now[key]!r}" if key in now else f"`{key}`: removed"
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key) and not any(key == one or key.startswith(f"{one}.") for one in allowed)
    ]
    if changed:
        raise ConfigurationError(
            f"the program sets options although `execution.program-config.enabled` is false: {', '.join(changed)}. "
            "Set them in config.yaml or by -D, or allow them in `execution.program-config.wildcards`"
        )
