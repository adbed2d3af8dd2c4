"""The errors flinkpy raises, and how they cross a process boundary.

Recovery decides on an error's type, `domain` and `retry`, never on its text. Every class here is registered by its
name, so that the class raised on one side of an RPC is the class caught on the other; an unknown name (a newer peer)
arrives as `RemoteError` with the same fields.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any, ClassVar, Self

from flinkpy.common.error_text import MAX_MESSAGE_CHARS, MAX_TRACEBACK_CHARS, bounded_text, safe_repr

#: Longest message that an error holds in its own process: a JobExecutionError's message holds a traceback as well.
_MAX_HELD_CHARS = MAX_MESSAGE_CHARS + MAX_TRACEBACK_CHARS


class ErrorDomain(enum.Enum):
    """Whose fault it is."""

    USER = 1
    EXTERNAL = 2
    INTERNAL = 3


class ErrorRetry(enum.Enum):
    """What a caller may do about it."""

    NEVER = 1
    RESTART = 2
    BACKOFF = 3


_PACKAGE = __name__.partition(".")[0]
_REGISTRY: dict[str, type[FlinkError]] = {}


class FlinkError(Exception):
    """Root of every error flinkpy raises on purpose.

    Attributes:
        details: facts a program may want (string to string), e.g. `{"option": "parallelism.default"}`.
        remote_traceback: formatted traceback of the process it was raised in, user frames first.
    """

    domain: ClassVar[ErrorDomain] = ErrorDomain.INTERNAL
    retry: ClassVar[ErrorRetry] = ErrorRetry.NEVER

    message: str
    details: dict[str, str]
    remote_traceback: str

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Sets the attributes even where a program's subclass does not call `__init__`."""
        error = super().__new__(cls, *args, **kwargs)
        error.message, error.details, error.remote_traceback = "", {}, ""
        return error

    def __init__(self, message: str = "", *, details: dict[str, str] | None = None, remote_traceback: str = "") -> None:
        # A user's function may raise one with anything for a message.
        text = message if isinstance(message, str) else safe_repr(message, MAX_MESSAGE_CHARS)
        self.message = bounded_text(text, _MAX_HELD_CHARS)
        super().__init__(self.message)
        self.details = dict(details or {})
        self.remote_traceback = remote_traceback

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A program's own subclass never takes the place of one of flinkpy's.
        if cls.__module__.partition(".")[0] == _PACKAGE:
            _REGISTRY[cls.__name__] = cls

    def __str__(self) -> str:
        return self.message or super().__str__()


_REGISTRY["FlinkError"] = FlinkError


def chain_of_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yields `error`, its cause, the cause of that, and so on. Each comes once: an error may be raised from itself."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def is_caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    """True if `error`, or an error in its chain of causes, is of that type."""
    return any(isinstance(link, kind) for link in chain_of_causes(error))


def error_class(name: str) -> type[FlinkError] | None:
    """The registered class of that name, or None where this release does not know it."""
    return _REGISTRY.get(name)


class UserError(FlinkError):
    domain = ErrorDomain.USER


class ExternalError(FlinkError):
    domain = ErrorDomain.EXTERNAL
    retry = ErrorRetry.RESTART


class InternalError(FlinkError):
    domain = ErrorDomain.INTERNAL


class RemoteError(FlinkError):
    """An error of a type this process does not know; `details["type"]` has the name."""


class ConfigurationError(UserError):
    """One or more options are wrong; the message lists all of them."""


class PrivateDirectoryError(ConfigurationError):
    """A directory that must be this user's alone is not, or a link stands in its place; names it and its owner."""


class SecretError(UserError):
    """The cluster secret or a token cannot be had, or others could have read or changed it; names file and remedy."""


class AuthenticationError(UserError):
    """A call showed no token, or none of this cluster; names both sides."""


class AuthorizationError(UserError):
    """The token shown on a call is of too low a role; names the call and the role it needs."""


class AddressInUseError(ExternalError):
    retry = ErrorRetry.NEVER


class VersionMismatchError(UserError):
    """Client and cluster are of different releases."""


class JobSubmissionError(UserError):
    """The JobGraph cannot be accepted; the message names the vertex or edge."""


class DuplicateJobSubmissionError(JobSubmissionError):
    """A job with this JobID is running or has finished."""


class ApplicationError(UserError):
    """An application cannot be run, or its program breaks the rules of applications."""


class JobNotFoundError(UserError):
    pass


class JobExecutionError(FlinkError):
    """The job ended in FAILED. The user's traceback is in `remote_traceback`.

    Attributes:
        cause: what made the job fail, typed, with its own causes.
    """

    domain = ErrorDomain.USER
    cause: FlinkError | None = None


class JobCancelledError(UserError):
    """The job was canceled while its result was awaited."""


class JobTerminatedWithoutCancellationError(UserError):
    """The job to be canceled has ended in another way; `details["status"]` says which."""


class FunctionSerializationError(UserError):
    """A user function cannot be pickled; names the function and the object inside it that is to blame."""


class FunctionError(UserError):
    """A user function raised. `remote_traceback` begins with the user's own frames."""

    retry = ErrorRetry.RESTART


class StateSerializationError(UserError):
    """What a function has put into state cannot be pickled; names operator, state, key and value where known."""


class TypeMismatchError(UserError):
    """A value does not match the type declared for its stream."""


class UnsafePathError(UserError):
    """A name from outside cannot become part of a path: it would lead out of the directory it is for."""


class InputFormatError(UserError):
    """A record of an input could not be parsed; file and row are in `details` and in the message."""


class InputNotFoundError(UserError):
    """An input file or directory is missing or unreadable."""


class ClusterDatasetCorruptedError(InputNotFoundError):
    """Records of a cached stream are gone or damaged; `details["directory"]` says where they were."""


class NoResourceAvailableError(ExternalError):
    """Slots were not to be had within slot.request.timeout."""

    retry = ErrorRetry.RESTART


class StaleFencingTokenError(ExternalError):
    """The call carried the token of another leadership: the sender or the receiver is from a past life."""

    retry = ErrorRetry.BACKOFF


class NotRegisteredError(ExternalError):
    """The callee does not know the caller (any more); it must register again."""

    retry = ErrorRetry.BACKOFF


class RegistrationRefusedError(ExternalError):
    """The callee does not want the caller now, e.g. because the cluster has as many slots as it may."""

    retry = ErrorRetry.BACKOFF


class NotLeaderError(ExternalError):
    retry = ErrorRetry.BACKOFF


class LeadershipLostError(ExternalError):
    """What only a leader may write was refused: its leadership has ended; `details["path"]` names the node of it."""

    retry = ErrorRetry.NEVER


class HighAvailabilityError(ExternalError):
    """ZooKeeper or the shared storage of the masters is not to be had or not what it must be; names node or path."""

    retry = ErrorRetry.NEVER


class SlotAllocationError(ExternalError):
    """The slot asked for is taken or does not exist."""

    retry = ErrorRetry.BACKOFF


class TaskSubmissionError(ExternalError):
    pass


class TaskManagerLostError(ExternalError):
    """A TaskExecutor process died or stopped answering."""


class JobMasterLostError(ExternalError):
    """The JobMaster process of a job died."""


class PartitionConnectionError(ExternalError):
    """A data connection to the producer or consumer of a partition broke."""


class PartitionAuthenticationError(PartitionConnectionError):
    """One side of a data connection did not prove to be of this cluster, by its secret or certificate."""


class InsufficientNetworkBuffersError(ExternalError):
    """The network memory of the process does not hold the buffers that its partitions and gates require."""


class PartitionNotFoundError(ExternalError):
    """The producer does not have the partition (it failed, or has not started yet)."""


class PartitionCorruptedError(PartitionNotFoundError):
    """The file of a finished partition is damaged or missing: `details["result_partition_id"]` has to be made anew."""


class PartitionWriteError(ExternalError):
    """A blocking partition cannot be written, its disk being full for one; `details["path"]` names the file."""


class SpillError(ExternalError):
    """An operator cannot keep on disk what does not fit in its memory; `details["directory"]` names the place."""


class RpcUnavailableError(ExternalError):
    """Nobody answers at that address, or the connection broke before an answer came."""

    retry = ErrorRetry.BACKOFF


class TlsError(RpcUnavailableError):
    """A TLS connection could not be made; names the peer and the likely cause."""


class RpcTimeoutError(ExternalError):
    retry = ErrorRetry.BACKOFF


class CheckpointError(ExternalError):
    """A checkpoint or savepoint was not completed. `details["failure_reason"]` is a CheckpointFailureReason's name."""


class StopWithSavepointStoppingError(CheckpointError):
    """The savepoint exists (`details["savepoint_path"]`), but the job did not end with it; it has been restarted."""


class CheckpointStorageError(ExternalError):
    """A place of checkpoints cannot be read or written; names the path."""


class StateBackendError(ExternalError):
    """A state backend's files on the local disk cannot be read or written; names the path."""


class CorruptStateError(CheckpointStorageError):
    """Bytes of a checkpoint are not those that were written (checksum, length, format); names the file."""


class AccumulatorError(UserError):
    """An accumulator could not be pickled, merged or computed; names it."""


class PythonEnvironmentError(UserError):
    """The packages that a job requires cannot be installed, or do not go with the process; has pip's own message."""

    retry = ErrorRetry.RESTART


class CommitError(ExternalError):
    """What a sink has written for a completed checkpoint could not be made visible; names sink and checkpoint."""


class CommittablesLostError(CommitError):
    """The records of a completed checkpoint are gone where the sink had stored them, so they cannot be made visible.

    No restart brings them back. The job fails for good, and its checkpoints are kept whatever their retention is.
    """

    retry = ErrorRetry.NEVER


class KafkaError(ExternalError):
    """A Kafka cluster, topic or partition did not do what was asked; names the brokers or the topic. `details["code"]`
    is Kafka's name of the error, where Kafka gave one.
    """


class JdbcError(ExternalError):
    """A database did not do what was asked; names it, the statement, and the row where one is to blame."""


class ElasticsearchError(ExternalError):
    """A cluster of Elasticsearch refused a document, or did not answer; names the index and the document."""


class RabbitMQError(ExternalError):
    """A RabbitMQ server did not do what was asked; names it, or the queue."""


class KinesisError(ExternalError):
    """Kinesis or Firehose did not do what was asked; names the stream, and the shard where one is to blame."""


class CassandraError(ExternalError):
    """A cluster of Cassandra did not do what was asked; names it, and the statement where one is to blame."""


class PulsarError(ExternalError):
    """A Pulsar cluster did not do what was asked; names it, or the topic."""


class SparkError(ExternalError):
    """Spark failed, or what it runs on did, and not a function of the user's."""


class SparkUnavailableError(UserError):
    """There is no Spark that could run the job: no pyspark, no Java, a master that refuses, another Python version."""


class ProducerFencedError(KafkaError):
    """Somebody else has taken over a transactional id, or the broker has rolled its transaction back."""


class StateRestoreError(UserError):
    """What is to be restored does not fit the job; names the path, and the operator or state."""


class CheckpointNotFoundError(StateRestoreError):
    """There is no checkpoint or savepoint at the path; the message says what was looked for."""


class StateMigrationError(StateRestoreError):
    """The type of a state has changed in a way that its stored values cannot follow; names state, operator, field."""


class InvalidTransitionError(InternalError):
    """A state machine was asked for a transition it does not have; carries the story of that id."""


class UnsupportedOperationError(UserError):
    """flinkpy does not have this (yet, or ever); the message says which and what to use instead."""


# The five ways a channel or buffer can be unavailable, each named by its cause.
class ChannelError(FlinkError):
    domain = ErrorDomain.INTERNAL


class ClosedError(ChannelError):
    """You closed it."""


class BrokenError(ChannelError):
    """The other side broke it."""


class EndOfStreamError(ChannelError):
    """It ended in the regular way; nothing more will come."""


class WouldBlockError(ChannelError):
    """Nothing now; ask again when notified."""


class BusyError(ChannelError):
    """Somebody else is already waiting on it."""
