"""Execution: runs one job in Spark's driver.

```
  job thread:   regions, one after the other -> sinks in the driver
                committables -> CommitLog -> committers -> CommitLog
```

A job has three phases. All regions run, which writes all sinks. Then the committables are stored. Then they are
committed. So an attempt that ends in the first phase has committed nothing, and the next attempt of the driver begins
again. After the second phase the next attempt only commits.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from flinkpy._proto import job_pb2
from flinkpy.common.configuration import Configuration
from flinkpy.common.error_text import USER_ERRORS, describe, format_user_traceback
from flinkpy.common.errors import CommitError, FlinkError, FunctionError
from flinkpy.common.states import JobState
from flinkpy.configuration import read_option
from flinkpy.configuration.checkpointing_options import COMMITTER_RETRIES
from flinkpy.connector_api.serializer import read_versioned
from flinkpy.graph.operator_specs import SinkSpec
from flinkpy.graph.spark_region import SparkRegion
from flinkpy.jobmaster.accumulators import merge_accumulators
from flinkpy.rpc.error_codec import error_to_proto
from flinkpy.spark.driver.attached_spark import AttachedSessions, AttachedSpark
from flinkpy.spark.driver.commit_log import CommitLog, CommitRecord
from flinkpy.spark.driver.driver_job import CommitterVertex, DriverJob, RegionVertex
from flinkpy.spark.driver.local_sinks import CollectingSink, LocalSink, local_sink
from flinkpy.spark.driver.user_artifacts import UnpackedArtifacts
from flinkpy.spark.region_run import AccumulatorReport, CancelledError, Finished, RegionRun
from flinkpy.spark.staging import staging_of_attempt
from flinkpy.spark.translation.program import JobFacts
from flinkpy.spark.user_files import UserFiles
from flinkpy.streaming.operators.committables import END_OF_INPUT_ID, Committables

_LOG = logging.getLogger(__name__)

#: How often the job thread checks whether the job was canceled while Spark works.
_LOOK_S = 0.2


class Execution:
    """One job. Thread: any, but the job itself runs on a thread of its own.

    Attributes:
        result: the JobResult, for any kind of end.
        state: the current state.
    """

    def __init__(
        self,
        graph: job_pb2.JobGraph,
        job: DriverJob,
        spark: AttachedSpark,
        sessions: AttachedSessions,
        commit_log: CommitLog,
        artifacts: UnpackedArtifacts,
    ) -> None:
        self.result: Future[job_pb2.JobResult] = Future()
        self.state = JobState.CREATED
        self._graph = graph
        self._job = job
        self._spark = spark
        self._sessions = sessions
        self._commit_log = commit_log
        self._artifacts = artifacts
        self._configuration = Configuration.from_dict(dict(graph.configuration.entries))
        self._is_cancelled = threading.Event()
        self._wake = threading.Event()
        self._reports: list[Mapping[str, bytes]] = []
        self._attempt_number = commit_log.begin()
        self._sinks: dict[str, LocalSink] = {
            operator_id: local_sink(sink, graph.job_id, self._attempt_number) for operator_id, sink in job.sinks.items()
        }
        #: The committables that leave the regions, by the operator id of their committer.
        self._committables: dict[str, list[bytes]] = {operator_id: [] for operator_id in job.committers}

    def start(self) -> None:
        name = f"flinkpy job {self._graph.job_id}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def cancel(self) -> None:
        """Cancels the job, unless it commits already. Does not wait."""
        self._is_cancelled.set()
        self._wake.set()

    def answer(self, operator_id: str, payload: bytes) -> bytes:
        """Answers a request of the iterator of `execute_and_collect`."""
        sink = self._sinks[operator_id]
        assert isinstance(sink, CollectingSink)
        return sink.answer(payload)

    def accumulators(self) -> list[job_pb2.AccumulatorResult]:
        """Returns the values of the accumulators so far."""
        return merge_accumulators(tuple(self._reports))

    # -- job thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        started_s = time.monotonic()
        self.state = JobState.RUNNING
        result = job_pb2.JobResult(job_id=self._graph.job_id, name=self._graph.name)
        try:
            with ExitStack() as resources:
                for sink in self._sinks.values():
                    resources.callback(sink.close)
                self._run_and_commit(result, started_s)
            self.state = JobState.FINISHED
        except CancelledError:
            self.state = JobState.CANCELED
        except BaseException as error:  # noqa: BLE001 - raised by those who wait for the result
            self.state = JobState.FAILED
            if not isinstance(error, FlinkError):
                _LOG.exception("job %s failed outside of Spark", self._graph.name)
                error = FunctionError(describe(error), remote_traceback=format_user_traceback(error))
            result.error.CopyFrom(error_to_proto(error))
        result.status = self.state.value  # type: ignore[assignment]
        result.net_runtime_ms = result.net_runtime_ms or int(1000 * (time.monotonic() - started_s))
        self.result.set_result(result)

    def _run_and_commit(self, result: job_pb2.JobResult, started_s: float) -> None:
        record = self._commit_log.find()
        if record is not None:
            self._finish(record, result)
            return
        for region in self._job.regions:
            self._run_region(region, region.region)
        self._finish_sinks()
        result.accumulators.extend(self.accumulators())
        result.net_runtime_ms = int(1000 * (time.monotonic() - started_s))
        record = CommitRecord(self._graph.name, self._committables, result.SerializeToString())
        self._commit_log.store(record)
        self._commit(record)

    def _finish(self, record: CommitRecord, result: job_pb2.JobResult) -> None:
        """Finishes a job whose sinks an earlier attempt has written.

        The results for the program are not stored, so they are computed again, without the sinks. A sink that is
        opened again would remove what waits for its commit.
        """
        done = "committed its output" if record.is_committed else "written its sinks"
        _LOG.warning("an earlier attempt of job %s (%s) has %s", self._graph.name, self._graph.job_id, done)
        result.MergeFromString(record.result)
        if not record.is_committed:
            self._commit(record)
        for vertex in self._job.regions:
            region = without_sinks(vertex.region)
            if region.outputs:
                self._run_region(vertex, region)
        self._finish_sinks()

    def _finish_sinks(self) -> None:
        for sink in self._sinks.values():
            sink.finish(self._check_cancelled)

    def _run_region(self, vertex: RegionVertex, region: SparkRegion) -> None:
        settings = self._spark.settings
        graph = self._graph
        attempt = f"{graph.job_id}-{vertex.vertex.id}-{uuid.uuid4().hex}"
        staging = staging_of_attempt(settings, self._spark.files / attempt, attempt)
        run = RegionRun(
            region=region,
            settings=settings,
            sessions=self._sessions,  # type: ignore[arg-type]
            job=JobFacts(
                job_id=graph.job_id,
                job_name=graph.name,
                configuration=self._configuration.to_dict(),
                cached_files=self._artifacts.cached_files,
                attempt_number=self._attempt_number,
            ),
            user_files=UserFiles(self._artifacts.shipped_files, settings),
            task_name=vertex.name,
            tag=f"flinkpy-{graph.job_id}-{vertex.vertex.id}-{self._attempt_number}",
            staging=staging,
            on_available=self._wake.set,
        )
        try:
            run.start([])
            while True:
                self._wake.clear()
                item = run.poll()
                if item is None:
                    self._wake.wait(_LOOK_S)
                    self._check_cancelled()
                elif isinstance(item, Finished):
                    if item.error is not None:
                        raise item.error
                    return
                elif isinstance(item, AccumulatorReport):
                    self._reports.append(item.values)
                else:
                    self._take(vertex, *item)
        finally:
            run.close()
            if staging.remote is not None:
                staging.remote.remove()

    def _take(self, vertex: RegionVertex, number: int, batch: Any) -> None:
        """Passes a batch of a region's output to its readers."""
        for operator_id in vertex.readers.get(number, ()):
            if operator_id in self._committables:
                self._committables[operator_id].extend(batch.values)
            else:
                self._sinks[operator_id].write(batch, self._check_cancelled)

    def _check_cancelled(self) -> None:
        if self._is_cancelled.is_set():
            raise CancelledError

    # -- commits ------------------------------------------------------------------------------------------------------

    def _commit(self, record: CommitRecord) -> None:
        """Commits all sinks. If one fails, the others are committed before its error is raised."""
        failures: list[BaseException] = []
        for operator_id, committables in record.committables.items():
            try:
                self._commit_one(self._job.committers[operator_id], committables)
            except USER_ERRORS as error:
                failures.append(error)
        if failures:
            raise failures[0]
        self._commit_log.store(CommitRecord(record.name, {}, record.result, is_committed=True))

    def _commit_one(self, vertex: CommitterVertex, serialized: list[bytes]) -> None:
        if not serialized:
            return
        serializer = vertex.sink.committable_serializer
        where = f"operator {vertex.name}, a committable"
        committables = Committables()
        committables.add(END_OF_INPUT_ID, [read_versioned(serializer, data, where) for data in serialized])
        committer = vertex.sink.create_committer()
        assert committer is not None, f"{vertex.name} had a committer when the job was built"
        try:
            committables.commit_up_to(END_OF_INPUT_ID, committer, read_option(self._configuration, COMMITTER_RETRIES))
        except CommitError as error:
            error.message = f"operator {vertex.name}: {error.message}"
            raise
        finally:
            committer.close()


def without_sinks(region: SparkRegion) -> SparkRegion:
    """Returns the region without its sinks. Its other outputs keep their numbers."""
    nodes = tuple(node for node in region.nodes if not isinstance(node.spec, SinkSpec))
    return replace(region, nodes=nodes, committables=())
