"""From a JobGraph to a running job: which cluster it goes to, and waiting for it.

`execution.target` decides: `remote` is the cluster of `jobmanager.rpc.address` or, with high availability, of
ZooKeeper, `local` the cluster embedded in this program. Where it is not set, an address that is set means `remote`.

Source: org.apache.flink.core.execution.PipelineExecutor and the executors behind it.
"""

from __future__ import annotations

import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from flinkpy import __version__
from flinkpy._proto import job_pb2
from flinkpy.client.application import current_application
from flinkpy.client.client_heartbeat import ClientHeartbeat, heartbeat_settings
from flinkpy.client.cluster_client import ClusterClient
from flinkpy.client.cluster_connection import configured_addresses, connect, is_elected
from flinkpy.client.job_client import RemoteJobClient, execution_result
from flinkpy.client.job_listeners import JobListeners
from flinkpy.client.job_watch import JobWatch, tell_detached
from flinkpy.client.program_configuration import check_program_configuration
from flinkpy.common.clock import SystemClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ConfigurationError, DuplicateJobSubmissionError, FlinkError
from flinkpy.common.interruptible import wait_for
from flinkpy.common.python_environment import environment_profile
from flinkpy.configuration import client_options, core_options, validate
from flinkpy.configuration.options import read_option

#: Instead of an address: the Dispatcher is the one that leads, as ZooKeeper tells it.
ELECTED = "(elected)"
#: How long Ctrl-C waits for the job to be canceled before the program ends without it.
CANCEL_WAIT_S = 15.0


def execute(
    job_graph: job_pb2.JobGraph, configuration: Configuration, *, needs_client: bool = False
) -> RemoteJobClient:
    """Submit the job to the cluster that the configuration means; returns once the cluster has taken it.

    Args:
        needs_client: the job is of no use without this process, and the cluster cancels it when this process is gone.

    Raises:
        ConfigurationError: an option is wrong, or `remote` is asked for without an address.
        JobSubmissionError: the cluster does not accept the job.
        RpcUnavailableError: no cluster answers at the address.
    """
    validate(configuration)
    check_program_configuration(configuration)
    if needs_client:
        _, job_graph.initial_client_heartbeat_timeout_ms = heartbeat_settings(configuration)
    listeners = JobListeners(configuration)
    try:
        client = _execute(job_graph, configuration)
    except Exception as error:
        listeners.on_job_submitted(None, error)
        raise
    listeners.on_job_submitted(client, None)
    return client


def _execute(job_graph: job_pb2.JobGraph, configuration: Configuration) -> RemoteJobClient:
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

    from flinkpy.client.embedded_cluster import embedded_cluster
    from flinkpy.graph.required_slots import required_slots

    cluster = embedded_cluster()
    job_id = job_graph.job_id
    profile = environment_profile(job_graph.artifacts)
    address = cluster.claim_slots(job_id, required_slots(job_graph), configuration, profile)
    try:
        return _submit(
            ClusterClient(address, timeout_s, security=cluster.security),
            job_graph,
            configuration,
            on_end=lambda: cluster.release_slots(job_id),
        )
    except BaseException:
        cluster.release_slots(job_id)
        raise


def result_of(client: RemoteJobClient, configuration: Configuration) -> Any:
    """The JobExecutionResult of a job that `execute` has submitted; see `await_result` for how it ends otherwise.

    Where `execution.attached` is false (`flinkpy run --detached`) the result is not waited for and has no runtime.
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
    """The JobExecutionResult of the job once it has ended. Ctrl-C cancels the job before it is raised.

    Raises:
        JobExecutionError: the job failed; the message begins with the user's own traceback.
        JobCancelledError: somebody canceled it.
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
    """Whether a job that `execute` submits and waits for is to end where this process does."""
    return read_option(configuration, core_options.SHUTDOWN_ON_ATTACHED_EXIT) and not is_detached(configuration)


@contextmanager
def _ending_with_its_client(configuration: Configuration) -> Iterator[None]:
    """Where `execution.shutdown-on-attached-exit` is set, the signals that end this process end the wait first."""
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
    """Whether nobody waits: only where it was said, because a plain program that calls `execute()` waits."""
    said = configuration.contains_key(core_options.EXECUTION_ATTACHED.key)
    return said and not read_option(configuration, core_options.EXECUTION_ATTACHED)


def remote_address(configuration: Configuration) -> str | None:
    """`host:port` of the Dispatcher a job goes to, several of them, or ELECTED; None means the embedded cluster."""
    target = read_option(configuration, core_options.EXECUTION_TARGET)
    if target in ("local", "embedded"):
        return None
    if target == "local-application":
        raise ConfigurationError(
            "option `execution.target` is `local-application`: the program has to be started by `flinkpy run` or "
            "`flinkpy run-application`, which give it a cluster of its own"
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
    # A job of the embedded cluster has nobody else who could tell of its restarts.
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
    """Bring the program's files to the BlobServer; each says where it lies here."""
    if not job_graph.artifacts:
        return
    from flinkpy.datastream.user_artifacts import LOCAL_PATH, read_artifact

    for artifact in job_graph.artifacts:
        if LOCAL_PATH in artifact.attributes:
            artifact.blob_key = client.put_blob(read_artifact(artifact))
            del artifact.attributes[LOCAL_PATH]


def _stamp(job_graph: job_pb2.JobGraph) -> None:
    """Who submits: the cluster refuses a client of another release by this."""
    job_graph.client_version = job_graph.client_version or __version__
    job_graph.python_version = job_graph.python_version or platform.python_version()
    job_graph.created_ms = job_graph.created_ms or SystemClock().now_ms()


def _cancel_and_wait(client: RemoteJobClient) -> None:
    """Cancel the job and wait for its end, both within CANCEL_WAIT_S."""
    deadline_s = time.monotonic() + CANCEL_WAIT_S
    try:
        client.cluster_client.cancel_job(str(client.get_job_id()), timeout_s=CANCEL_WAIT_S)
    except FlinkError:
        return  # it has ended already, or its cluster is gone
    wait_for(client.job_result(), deadline_s - time.monotonic())
