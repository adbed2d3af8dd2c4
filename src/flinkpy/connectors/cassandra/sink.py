"""QuerySink: executes a query for every record, at least once. With a write-ahead log it does so after checkpoints.

Source: org.apache.flink.streaming.connectors.cassandra.{CassandraSinkBase,CassandraRowSink,CassandraRowWriteAheadSink}.
Differs: the log is part of checkpoints, as committables.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flinkpy.common.errors import CassandraError, TypeMismatchError
from flinkpy.common.types import Row
from flinkpy.connector_api.sink import CommitRequest, Committer, SinkBase, SinkWriter, WriterContext
from flinkpy.connectors.cassandra.client import CassandraClient
from flinkpy.connectors.cassandra.options import CassandraCommitter, CassandraFailureHandler, ClusterBuilder
from flinkpy.records.batch import Batch

#: The default for one subtask. A limit keeps requests to a slow cluster from piling up.
DEFAULT_MAX_CONCURRENT_REQUESTS = 1024


@dataclass
class QuerySink(SinkBase):
    """Executes a query for every record.

    Attributes:
        request_timeout_s: how long to wait for a request to end when there are too many; None for no limit.
        ignores_null_fields: True if a None leaves a field unchanged.
        has_log: True to write records only after a checkpoint with them is complete.
        log_committer: remembers which parts of the log have been written; None to write them again after a failure.
    """

    query: str
    builder: ClusterBuilder
    failure_handler: CassandraFailureHandler = field(default_factory=CassandraFailureHandler.no_op)
    max_concurrent_requests: int = DEFAULT_MAX_CONCURRENT_REQUESTS
    request_timeout_s: float | None = None
    ignores_null_fields: bool = False
    consistency_level: int | None = None
    is_traced: bool = False
    has_log: bool = False
    log_committer: CassandraCommitter | None = None

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return LogWriter(context) if self.has_log else QueryWriter(context, self)

    @property
    def commits_at_checkpoints(self) -> bool:
        return self.has_log

    def create_committer(self) -> Committer | None:
        return LogCommitter(self) if self.has_log else None

    def new_requests(self) -> Requests:
        return Requests(self, self.builder.new_client(self.consistency_level, self.is_traced))


class Requests:
    """Executes the query asynchronously for records. Thread: task thread, except for `_on_done`."""

    def __init__(self, sink: QuerySink, client: CassandraClient) -> None:
        self._sink = sink
        self._client = client
        self._lock = threading.Condition()
        self._num_running = 0
        self._errors: deque[tuple[Any, BaseException]] = deque()
        try:
            self._num_placeholders = client.prepare(sink.query)
        except BaseException:
            client.close()
            raise

    def execute(self, record: Any) -> None:
        """Starts a request. Raises: CassandraError, TypeMismatchError; errors of the failure handler."""
        values = self._values_of(record)
        self._wait(lambda: self._num_running < self._sink.max_concurrent_requests, self._sink.request_timeout_s)
        with self._lock:
            self._num_running += 1
        try:
            self._client.execute_async(values, lambda error: self._on_done(record, error))
        except (TypeError, ValueError) as error:
            raise TypeMismatchError(f"{record!r} does not fit {self._sink.query!r}: {error}") from error

    def finish(self) -> None:
        """Waits for all requests. Raises: the same errors as `execute`."""
        self._wait(lambda: not self._num_running, None)

    def close(self) -> None:
        self._client.close()

    def _values_of(self, record: Any) -> list[Any]:
        if not isinstance(record, (Row, tuple, list)):
            raise TypeMismatchError(f"the Cassandra sink takes Rows and tuples, not {record!r}")
        values = list(record)
        if len(values) != self._num_placeholders:
            raise TypeMismatchError(
                f"{record!r} has {len(values)} fields, and {self._sink.query!r} has {self._num_placeholders} "
                "placeholders"
            )
        if self._sink.ignores_null_fields:
            values = [self._client.unset if value is None else value for value in values]
        return values

    def _on_done(self, record: Any, error: BaseException | None) -> None:
        """Thread: any."""
        with self._lock:
            self._num_running -= 1
            if error is not None:
                self._errors.append((record, error))
            self._lock.notify_all()

    def _wait(self, condition: Callable[[], bool], timeout_s: float | None) -> None:
        with self._lock:
            is_met = self._lock.wait_for(lambda: condition() or self._errors, timeout_s)
        while self._errors:
            record, error = self._errors.popleft()
            failure = CassandraError(f"{self._sink.query!r} with {record!r}: {type(error).__name__}: {error}")
            failure.__cause__ = error
            self._sink.failure_handler.on_failure(failure)
        if not is_met:
            raise CassandraError(
                f"{self._sink.query!r}: {self._num_running} requests are running, and none has ended for {timeout_s} s"
            )
        if not condition():
            self._wait(condition, timeout_s)


class QueryWriter(SinkWriter):
    """Writes records as they come. Thread: task thread."""

    def __init__(self, context: WriterContext, sink: QuerySink) -> None:
        self._context = context
        self._requests = sink.new_requests()

    def write(self, batch: Batch) -> None:
        from flinkpy.records.lanes import rows_of

        execute = self._requests.execute
        for record in rows_of(batch, self._context.input_type):
            execute(record)

    def flush(self, end_of_input: bool) -> None:
        self._requests.finish()

    def close(self) -> None:
        self._requests.close()


@dataclass(frozen=True, slots=True)
class LoggedRecords:
    """The records of one subtask between two checkpoints."""

    commit_id: str
    records: tuple[Any, ...]


class LogWriter(SinkWriter):
    """Collects the records, which become part of the checkpoint."""

    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self._records: list[Any] = []

    def write(self, batch: Batch) -> None:
        from flinkpy.records.lanes import rows_of

        self._records += rows_of(batch, self._context.input_type)

    def prepare_commit(self) -> list[LoggedRecords]:
        records, self._records = tuple(self._records), []
        return [LoggedRecords(uuid.uuid4().hex, records)] if records else []


class LogCommitter(Committer):
    """Executes the query for the records of a completed checkpoint. Repeats them after a failure."""

    def __init__(self, sink: QuerySink) -> None:
        self._sink = sink
        self._requests: Requests | None = None

    def commit(self, requests: list[CommitRequest]) -> None:
        if self._requests is None:
            self._requests = self._sink.new_requests()
        done = self._sink.log_committer
        for request in requests:
            logged: LoggedRecords = request.get_committable()
            if done is not None and done.is_committed(logged.commit_id):
                request.signal_already_committed()
                continue
            for record in logged.records:
                self._requests.execute(record)
            self._requests.finish()
            if done is not None:
                done.mark_committed(logged.commit_id)

    def close(self) -> None:
        if self._requests is not None:
            self._requests.close()
        if self._sink.log_committer is not None:
            self._sink.log_committer.close()
