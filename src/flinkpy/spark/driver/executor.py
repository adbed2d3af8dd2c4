"""Runs the jobs of a program whose `execution.target` is `spark`. Has the functions of `flinkpy.client.executor`."""

from __future__ import annotations

import atexit
import hashlib
import logging
import shutil
import sys
import tempfile
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinkpy._proto import job_pb2
from flinkpy.client.job_listeners import JobListeners
from flinkpy.client.job_results import accumulators_of, execution_result
from flinkpy.common.accumulators import AccumulatorFailure
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.ids import JobID
from flinkpy.common.interruptible import wait_for
from flinkpy.configuration import pipeline_options, read_option, validate
from flinkpy.configuration.spark_options import STAGING_DIR
from flinkpy.spark.driver.attached_spark import SESSIONS, AttachedSpark
from flinkpy.spark.driver.commit_log import (
    CommitLog,
    FileCommitLog,
    HadoopFiles,
    LogFiles,
    MountedFiles,
    NoCommitLog,
    log_directory,
)
from flinkpy.spark.driver.driver_job import DriverJob, driver_job
from flinkpy.spark.driver.execution import Execution
from flinkpy.spark.driver.user_artifacts import unpack_artifacts
from flinkpy.spark.hadoop_directory import is_remote, local_path

if TYPE_CHECKING:
    from flinkpy.common.completable_future import CompletableFuture

#: How long Ctrl-C waits for the job to be canceled before the program ends.
_CANCEL_WAIT_S = 15.0


def execute(job_graph: job_pb2.JobGraph, configuration: Configuration, *, needs_client: bool = False) -> DriverClient:
    """Starts a job in the Spark session of this process, and makes a session if there is none.

    Raises:
        ConfigurationError: an option is wrong.
        UnsupportedOperationError: an operator needs a flinkpy cluster.
        SparkUnavailableError, SparkError: there is no Spark.
    """
    validate(configuration)
    listeners = JobListeners(configuration)
    try:
        client = DriverClient(job_graph, _start(job_graph, configuration))
    except Exception as error:
        listeners.on_job_submitted(None, error)
        raise
    listeners.on_job_submitted(client, None)
    return client


def _start(job_graph: job_pb2.JobGraph, configuration: Configuration) -> Execution:
    artifacts = unpack_artifacts(job_graph.artifacts, _DIRECTORY.path)
    for entry in reversed(artifacts.shipped_files.python_path):
        if entry not in sys.path:  # the functions of the job are loaded here before they are sent to the executors
            sys.path.insert(0, entry)
    job = driver_job(job_graph)
    spark = SESSIONS.attach(configuration)
    job_graph.job_id, is_configured = _JOB_IDS.next(spark, configuration)
    log = _commit_log(job_graph, job, spark, is_configured)
    if not is_configured:
        _LOGS.append(log)
    execution = Execution(job_graph, job, spark, SESSIONS, log, artifacts)
    execution.start()
    return execution


def _commit_log(job_graph: job_pb2.JobGraph, job: DriverJob, spark: AttachedSpark, is_configured: bool) -> CommitLog:
    """Returns the log of a job. Only a job that another attempt of the driver can find again needs files."""
    if not job.committers or not (is_configured or spark.may_start_again):
        return NoCommitLog(spark.attempt_number)
    directory = spark.settings.staging_dir
    if directory is not None:
        place = log_directory(directory, job_graph.job_id)
        files: LogFiles = MountedFiles(local_path(place))
        if is_remote(directory):
            files = HadoopFiles(spark.new_session(), place, spark.files)
        return FileCommitLog(files, job_graph.job_id, job_graph.name)
    _LOG.warning(
        "job %s commits its sinks, but %s is not set: if the driver fails and runs again, it repeats what it has "
        "committed",
        job_graph.name,
        STAGING_DIR.key,
    )
    return NoCommitLog(spark.attempt_number)


def forget_jobs() -> None:
    """Removes the records of the jobs of this program. Called when the program has succeeded.

    The records of jobs whose ids the program configures are kept, because the user may run it again.
    """
    while _LOGS:
        _LOGS.pop().forget()


def result_of(client: DriverClient, configuration: Configuration) -> Any:
    """Waits for a job and returns its JobExecutionResult. Ctrl-C cancels the job first.

    Raises:
        JobExecutionError: the job failed. The message begins with the traceback of the user's code.
        JobCancelledError: the job was canceled.
    """
    listeners = JobListeners(configuration)
    end = client.job_result()
    try:
        wait_for(end)
        result = execution_result(end.result())
    except (KeyboardInterrupt, SystemExit):
        client.execution.cancel()
        wait_for(end, _CANCEL_WAIT_S)
        raise
    except Exception as error:
        listeners.on_job_executed(None, error)
        raise
    listeners.on_job_executed(result, None)
    return result


def ends_with_its_client(configuration: Configuration) -> bool:
    """Returns True: the job runs in the process of its client."""
    return True


def job_id_of(application_id: str, number: int) -> str:
    """Returns the id of job `number` of an application of Spark, counted from 0.

    Another attempt of the application's driver runs the same program, so its jobs have the same ids.
    """
    return hashlib.sha256(f"job {number} of Spark application {application_id}".encode()).hexdigest()[:32]


class _JobIds:
    """The ids of the jobs of this program. Thread: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_jobs = 0

    def next(self, spark: AttachedSpark, configuration: Configuration) -> tuple[str, bool]:
        """Returns the id of the next job, and True if the configuration decides it.

        A configured id is that of the first job.
        """
        configured = (read_option(configuration, pipeline_options.JOB_ID) or "").lower()
        with self._lock:
            number, self._num_jobs = self._num_jobs, self._num_jobs + 1
        if not configured:
            return job_id_of(spark.application_id, number), False
        return configured if number == 0 else job_id_of(configured, number), True


class _Directory:
    """A directory of this process, made when it is first needed."""

    def __init__(self) -> None:
        self._path: Path | None = None

    @property
    def path(self) -> Path:
        if self._path is None:
            self._path = Path(tempfile.mkdtemp(prefix="flinkpy-driver-"))
            atexit.register(shutil.rmtree, self._path, ignore_errors=True)
        return self._path


_LOG = logging.getLogger(__name__)
_JOB_IDS = _JobIds()
#: The logs to forget when the program has succeeded.
_LOGS: list[CommitLog] = []
_DIRECTORY = _Directory()


class DriverClient:
    """The client of a job in this process. Has the methods of RemoteJobClient that apply. Thread: any."""

    def __init__(self, job_graph: job_pb2.JobGraph, execution: Execution) -> None:
        self.execution = execution
        self.job_name = job_graph.name
        self._job_id = job_graph.job_id

    @property
    def cluster_client(self) -> DriverClient:
        """Answers the requests of `execute_and_collect`, which a Dispatcher answers in a cluster."""
        return self

    def send_coordination_request(
        self, job_id: str, operator_id: str, payload: bytes, timeout_s: float | None = None
    ) -> bytes:
        return self.execution.answer(operator_id, payload)

    def get_job_id(self) -> JobID:
        return JobID(self._job_id)

    def get_job_status(self) -> CompletableFuture:
        from flinkpy.common.job_status import JobStatus

        return _done(JobStatus[self.execution.state.name])

    def cancel(self) -> CompletableFuture:
        self.execution.cancel()
        return _done(None)

    def get_accumulators(self) -> CompletableFuture:
        values = accumulators_of(self.execution.accumulators())
        return _done({name: value for name, value in values.items() if not isinstance(value, AccumulatorFailure)})

    def job_result(self) -> Future[job_pb2.JobResult]:
        return self.execution.result

    def get_job_execution_result(self) -> CompletableFuture:
        from flinkpy.common.completable_future import CompletableFuture

        return CompletableFuture(self.execution.result, execution_result)

    def stop_with_savepoint(self, *arguments: Any, **named: Any) -> CompletableFuture:
        raise UnsupportedOperationError("a batch job in Spark has no savepoints: cancel it instead")

    trigger_savepoint = trigger_checkpoint = get_checkpoint_statistics = stop_with_savepoint


def _done(value: Any) -> CompletableFuture:
    from flinkpy.common.completable_future import CompletableFuture

    future: Future[Any] = Future()
    future.set_result(value)
    return CompletableFuture(future)
