"""SHOW JOBS, DESCRIBE JOB and STOP JOB: statements about the jobs of the cluster that the session uses.

Source: org.apache.flink.table.gateway.service.operation.OperationExecutor.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from flinkpy.common.errors import JobNotFoundError
from flinkpy.common.states import JobState
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.types.logical_types import LocalZonedTimestampType, VarCharType
from flinkpy.table.catalog.resolved_schema import ResolvedSchema
from flinkpy.table.planner.errors import invalid
from flinkpy.table.table_result import TableResult

if TYPE_CHECKING:
    from flinkpy.client.cluster_client import ClusterClient
    from flinkpy.datastream.stream_execution_environment import StreamExecutionEnvironment

_COLUMNS = ResolvedSchema.physical(
    ("job id", VarCharType()),
    ("job name", VarCharType()),
    ("status", VarCharType()),
    ("start time", LocalZonedTimestampType(6)),
)


class JobStatements:
    """Thread: that of the program.

    Args:
        environment: knows the cluster.
        time_zone: returns the name of the time zone of the session, in which instants are shown.
    """

    def __init__(self, environment: StreamExecutionEnvironment, time_zone: Any) -> None:
        self._environment = environment
        self._time_zone = time_zone

    def show(self) -> TableResult:
        """Returns all jobs that the cluster knows, the latest first."""
        with self._client() as client:
            jobs = [] if client is None else client.list_jobs()
        jobs.sort(key=lambda each: each.start_time_ms, reverse=True)
        return TableResult.of_rows(_COLUMNS, [self._row(each) for each in jobs])

    def describe(self, statement: ast.DescribeJob) -> TableResult:
        """Returns one job. Raises: ValidationError if the cluster does not know it."""
        with self._client() as client:
            found = [] if client is None else [each for each in client.list_jobs() if each.job_id == statement.job_id]
        if not found:
            raise invalid(statement, f"Described job {statement.job_id} does not exist in the cluster.")
        return TableResult.of_rows(_COLUMNS, [self._row(found[0])])

    def stop(self, statement: ast.StopJob) -> TableResult:
        """Cancels a job, or stops it with a savepoint, whose path is the result.

        Raises:
            ValidationError: the cluster does not know the job.
            CheckpointError: the savepoint failed; the job continues.
        """
        with self._client() as client:
            if client is None:
                raise invalid(statement, f"Could not stop job {statement.job_id}: no job has started a cluster yet.")
            try:
                if not statement.with_savepoint:
                    client.cancel_job(statement.job_id)
                    return TableResult.ok()
                path = client.stop_with_savepoint(statement.job_id, drain=statement.with_drain)
            except JobNotFoundError as error:
                raise invalid(statement, f"Could not stop job {statement.job_id}: {error.message}") from error
        return TableResult.of_rows(ResolvedSchema.physical(("savepoint path", VarCharType())), [(path,)])

    @contextmanager
    def _client(self) -> Iterator[ClusterClient | None]:
        client = self._environment.cluster_client()
        try:
            yield client
        finally:
            if client is not None:
                client.close()

    def _row(self, job: Any) -> tuple[Any, ...]:
        zone = ZoneInfo(self._time_zone())
        started = datetime.fromtimestamp(job.start_time_ms / 1000, zone).replace(tzinfo=None)
        return job.job_id, job.name, JobState(job.status).name, started
