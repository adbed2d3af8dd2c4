"""The errors that flinkpy raises, also across process boundaries.

Recovery decides on an error's type, `domain` and `retry`, never on its text. Each class is registered under its name,
so both sides of an RPC see the same class. An unknown name, sent by a newer peer, arrives as `RemoteError` with the
same fields.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any, ClassVar, Self

from flinkpy.common.error_text import MAX_MESSAGE_CHARS, MAX_TRACEBACK_CHARS, bounded_text, safe_repr

#: Maximum length of a message within a process; the message of a JobExecutionError includes a traceback.
_MAX_HELD_CHARS = MAX_MESSAGE_CHARS + MAX_TRACEBACK_CHARS


class ErrorDomain(enum.Enum):
    """The party responsible for an error: the user, an external system, or flinkpy itself."""

    USER = 1
    EXTERNAL = 2
    INTERNAL = 3


class ErrorRetry(enum.Enum):
    """The reaction to an error: never retry, restart the job, or retry after a pause."""

    NEVER = 1
    RESTART = 2
    BACKOFF = 3


_PACKAGE = __name__.partition(".")[0]
_REGISTRY: dict[str, type[FlinkError]] = {}


class FlinkError(Exception):
    """Base class of all errors that flinkpy raises on purpose.

    Attributes:
        details: facts for programs, as strings by name, e.g. `{"option": "parallelism.default"}`.
        remote_traceback: formatted traceback from the process that raised the error, user frames first.
    """

    domain: ClassVar[ErrorDomain] = ErrorDomain.INTERNAL
    retry: ClassVar[ErrorRetry] = ErrorRetry.NEVER

    message: str
    details: dict[str, str]
    remote_traceback: str

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Sets the attributes even if a program's subclass does not call `__init__`."""
        error = super().__new__(cls, *args, **kwargs)
        error.message, error.details, error.remote_traceback = "", {}, ""
        return error

    def __init__(self, message: str = "", *, details: dict[str, str] | None = None, remote_traceback: str = "") -> None:
        # A user function may raise it with any object as the message.
        text = message if isinstance(message, str) else safe_repr(message, MAX_MESSAGE_CHARS)
        self.message = bounded_text(text, _MAX_HELD_CHARS)
        super().__init__(self.message)
        self.details = dict(details or {})
        self.remote_traceback = remote_traceback

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A subclass in a program must not replace a class of flinkpy.
        if cls.__module__.partition(".")[0] == _PACKAGE:
            _REGISTRY[cls.__name__] = cls

    def __str__(self) -> str:
        return self.message or super().__str__()


_REGISTRY["FlinkError"] = FlinkError


def chain_of_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yields `error` and its chain of causes, each error once, because an error may be raised from itself."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def is_caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    """True if `error` or an error in its chain of causes has this type."""
    return any(isinstance(link, kind) for link in chain_of_causes(error))


def error_class(name: str) -> type[FlinkError] | None:
    """Returns the error class with this name, or None if this release does not know it."""
    return _REGISTRY.get(name)


class UserError(FlinkError):
    domain = ErrorDomain.USER


class ExternalError(FlinkError):
    domain = ErrorDomain.EXTERNAL
    retry = ErrorRetry.RESTART


class InternalError(FlinkError):
    domain = ErrorDomain.INTERNAL


class RemoteError(FlinkError):
    """An error of a type that this process does not know; `details["type"]` is its name."""


class ConfigurationError(UserError):
    """One or more options are invalid; the message lists all of them."""


class PrivateDirectoryError(ConfigurationError):
    """A directory is not private to this user, or is a symbolic link; the message names it and its owner."""


class SecretError(UserError):
    """The cluster secret or a token cannot be read, or other users can access it; the message names file and remedy."""


class AuthenticationError(UserError):
    """A call has no token, or a token of another cluster; the message names both sides."""


class AuthorizationError(UserError):
    """The role of a call's token is too low; the message names the call and the required role."""


class AddressInUseError(ExternalError):
    """A service cannot bind its address; the message names it."""

    retry = ErrorRetry.NEVER


class VersionMismatchError(UserError):
    """Client and cluster have different releases."""


class JobSubmissionError(UserError):
    """The JobGraph is invalid; the message names the vertex or edge."""


class InvalidResourceRequirementsError(UserError):
    """The parallelism that a user wants for the vertices of a job is impossible; the message names all mistakes.

    Source: the RestHandlerException of org.apache.flink.runtime.dispatcher.Dispatcher#updateJobResourceRequirements.
    """


class DuplicateJobSubmissionError(JobSubmissionError):
    """A job with this JobID is running or has ended."""


class ApplicationError(UserError):
    """An application cannot run, or its program breaks the rules of applications."""


class JobNotFoundError(UserError):
    """The cluster has no job with this JobID."""


class JobExecutionError(FlinkError):
    """The job has failed. `remote_traceback` is the user's traceback.

    Attributes:
        cause: the typed error that failed the job, with its own causes.
    """

    domain = ErrorDomain.USER
    cause: FlinkError | None = None


class JobCancelledError(UserError):
    """The job was canceled while the client waited for its result."""


class JobTerminatedWithoutCancellationError(UserError):
    """The job to cancel has already ended with the status in `details["status"]`."""


class FunctionSerializationError(UserError):
    """A user function cannot be pickled; the message names the function and the object that causes it."""


class FunctionError(UserError):
    """A user function raised an exception. `remote_traceback` begins with the user's frames."""

    retry = ErrorRetry.RESTART


class TaskOutOfMemoryError(UserError):
    """A task used so much memory that its TaskExecutor was about to exceed its budget.

    `details["used_bytes"]`, `["budget_bytes"]` and `["grown_bytes"]` are the figures.
    """

    retry = ErrorRetry.RESTART


class StateSerializationError(UserError):
    """A value in state cannot be pickled; the message names operator, state, key and value if known."""


class TypeMismatchError(UserError):
    """A value does not match the type declared for its stream."""


class SqlParseError(UserError):
    """A SQL text is not in Flink's dialect; `details["line"]` and `details["column"]` are the place, from 1."""


class UnsafePathError(UserError):
    """A received name cannot be used in a path, because it would lead out of its directory."""


class InputFormatError(UserError):
    """A record of an input cannot be parsed; `details` and the message name file and row."""


class InputNotFoundError(UserError):
    """An input file or directory is missing or unreadable."""


class ClusterDatasetCorruptedError(InputNotFoundError):
    """Records of a cached stream are missing or damaged; `details["directory"]` is their directory."""


class NoResourceAvailableError(ExternalError):
    """No slots became available within `slot.request.timeout`."""

    retry = ErrorRetry.RESTART


class StaleFencingTokenError(ExternalError):
    """A call carries the fencing token of another leadership, so its sender or its receiver is outdated."""

    retry = ErrorRetry.BACKOFF


class NotRegisteredError(ExternalError):
    """The callee does not know the caller, which must register again."""

    retry = ErrorRetry.BACKOFF


class RegistrationRefusedError(ExternalError):
    """The callee rejects a registration for now, e.g. because the cluster has its maximum number of slots."""

    retry = ErrorRetry.BACKOFF


class NotLeaderError(ExternalError):
    """The callee is not the leader."""

    retry = ErrorRetry.BACKOFF


class LeadershipLostError(ExternalError):
    """A write was refused because the writer is no longer the leader; `details["path"]` is the leader's node."""

    retry = ErrorRetry.NEVER


class HighAvailabilityError(ExternalError):
    """ZooKeeper or the masters' shared storage is unavailable or invalid; the message names node or path."""

    retry = ErrorRetry.NEVER


class SlotAllocationError(ExternalError):
    """The requested slot is allocated to another job or does not exist."""

    retry = ErrorRetry.BACKOFF


class TaskSubmissionError(ExternalError):
    """A TaskExecutor cannot accept a task."""


class TaskManagerLostError(ExternalError):
    """A TaskExecutor process died or stopped answering."""


class JobMasterLostError(ExternalError):
    """The JobMaster process of a job died."""


class PartitionConnectionError(ExternalError):
    """A data connection to the producer or consumer of a partition broke."""


class PartitionAuthenticationError(PartitionConnectionError):
    """A peer on a data connection could not prove by secret or certificate that it belongs to this cluster."""


class InsufficientNetworkBuffersError(ExternalError):
    """The network memory of the process is too small for the buffers that its partitions and gates require."""


class PartitionNotFoundError(ExternalError):
    """The producer does not have the partition (it failed, or has not started yet)."""


class PartitionCorruptedError(PartitionNotFoundError):
    """The file of a finished partition is damaged or missing; `details["result_partition_id"]` names it."""


class PartitionWriteError(ExternalError):
    """A blocking partition cannot be written, e.g. because the disk is full; `details["path"]` is the file."""


class SpillError(ExternalError):
    """An operator cannot spill data to disk; `details["directory"]` is the directory."""


class RpcUnavailableError(ExternalError):
    """No service answers at the address, or the connection broke before the answer."""

    retry = ErrorRetry.BACKOFF


class TlsError(RpcUnavailableError):
    """A TLS connection failed; the message names the peer and the likely cause."""


class RpcTimeoutError(ExternalError):
    """A call was not answered in time."""

    retry = ErrorRetry.BACKOFF


class CheckpointError(ExternalError):
    """A checkpoint or savepoint failed; `details["failure_reason"]` is the name of a CheckpointFailureReason."""


class StopWithSavepointStoppingError(CheckpointError):
    """The savepoint exists at `details["savepoint_path"]`, but the job did not finish after it and was restarted."""


class CheckpointStorageError(ExternalError):
    """Checkpoint storage cannot be read or written; the message names the path."""


class StateBackendError(ExternalError):
    """A state backend cannot read or write its local files; the message names the path."""


class CorruptStateError(CheckpointStorageError):
    """A checkpoint file is damaged (wrong checksum, length or format); the message names the file."""


class AccumulatorError(UserError):
    """An accumulator cannot be pickled, merged or computed; the message names it."""


class PythonEnvironmentError(UserError):
    """A job's packages cannot be installed or conflict with the process; the message contains pip's message."""

    retry = ErrorRetry.RESTART


class CommitError(ExternalError):
    """A sink could not commit a completed checkpoint; the message names sink and checkpoint."""


class CommittablesLostError(CommitError):
    """The sink's storage has lost the records of a completed checkpoint, so they cannot be committed.

    A restart cannot restore them. The job fails, and its checkpoints are kept regardless of their retention.
    """

    retry = ErrorRetry.NEVER


class KafkaError(ExternalError):
    """A Kafka request failed; the message names the brokers or the topic.

    `details["code"]` is Kafka's name of the error, if Kafka returned one.
    """


class JdbcError(ExternalError):
    """A database request failed; the message names the database, the statement, and the row if known."""


class ElasticsearchError(ExternalError):
    """Elasticsearch rejected a document or did not answer; the message names the index and the document."""


class MongoError(ExternalError):
    """A request to MongoDB failed; the message names the collection and the request."""


class DynamoDbError(ExternalError):
    """DynamoDB refused a request or did not answer; the message names the table."""


class SchemaRegistryError(ExternalError):
    """A schema registry did not answer or refused a request; the message names its address and the request."""


class RabbitMQError(ExternalError):
    """A RabbitMQ request failed; the message names the server or the queue."""


class KinesisError(ExternalError):
    """A Kinesis or Firehose request failed; the message names the stream, and the shard if known."""


class CassandraError(ExternalError):
    """A Cassandra request failed; the message names the cluster, and the statement if known."""


class PulsarError(ExternalError):
    """A Pulsar request failed; the message names the cluster or the topic."""


class KubernetesError(ExternalError):
    """The API server of Kubernetes refused a request, or did not answer.

    `details["status"]` is the HTTP status and `details["reason"]` Kubernetes' word for it, if the server answered.
    """


class TableError(ExternalError):
    """An Iceberg or Delta table, its catalog or its storage failed; the message names the table."""


class TableRuntimeError(UserError):
    """A value of a table has no result, such as a text that is no number in CAST, or a division by zero.

    Source: org.apache.flink.table.api.TableRuntimeException, java.lang.ArithmeticException.
    """


class ValidationError(UserError):
    """A statement or program of the Table API is not valid: an unknown name, wrong types, a wrong option.

    Source: org.apache.flink.table.api.ValidationException.
    """


class TableProgramError(UserError):
    """A valid program of the Table API cannot be planned or run, for example because a sink cannot take its changes.

    Source: org.apache.flink.table.api.TableException.
    """


class CatalogError(UserError):
    """An object of a catalog does not exist, exists already, or cannot be changed; the message names it.

    Source: org.apache.flink.table.catalog.exceptions.
    """


class SparkError(ExternalError):
    """Spark or its environment failed, not a user function."""


class SparkUnavailableError(UserError):
    """No usable Spark: pyspark or Java is missing, the master refuses, or the Python versions differ."""


class ProducerFencedError(KafkaError):
    """Another producer has taken over a transactional id, or the broker has aborted its transaction."""


class StateRestoreError(UserError):
    """A snapshot does not fit the job; the message names the path, and the operator or state."""


class CheckpointNotFoundError(StateRestoreError):
    """There is no checkpoint or savepoint at the path; the message names the expected file."""


class StateMigrationError(StateRestoreError):
    """The stored values of a state cannot be converted to its new type; the message names state, operator and field."""


class InvalidTransitionError(InternalError):
    """A state machine does not have the requested transition; the message contains the history of the id."""


class UnsupportedOperationError(UserError):
    """flinkpy does not support the operation; the message names it and an alternative."""


class ChannelError(FlinkError):
    """A channel or buffer is unavailable; each subclass is one cause."""

    domain = ErrorDomain.INTERNAL


class ClosedError(ChannelError):
    """This side has closed the channel."""


class BrokenError(ChannelError):
    """The other side has broken the channel."""
