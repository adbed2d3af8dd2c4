"""Committables: the output of a sink's writer that its committer has not made visible yet, by checkpoint.

Source: org.apache.flink.streaming.runtime.operators.sink.committables.CommittableCollector.
"""

from __future__ import annotations

import enum
import logging
from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import CommitError, CommittablesLostError, ErrorRetry, FlinkError
from flinkpy.connector_api.sink import Committer

_LOG = logging.getLogger(__name__)

#: The checkpoint id of the end of the input in a job without checkpoints. It is larger than every other id.
END_OF_INPUT_ID = (1 << 63) - 1
#: The gauge of committables that wait for a checkpoint. Source: Flink's MetricNames.PENDING_COMMITTABLES.
PENDING_COMMITTABLES = "pendingCommittables"


class _Signal(enum.Enum):
    NONE = "none yet"
    DONE = "committed"
    ALREADY_COMMITTED = "committed by an earlier attempt"
    DROPPED = "dropped for a known reason"
    RETRY = "to be tried again"
    FAILED = "cannot be committed"


class _Request:
    """One committable and the result of the last attempt to commit it. Implements CommitRequest."""

    __slots__ = ("committable", "error", "retries", "signal")

    def __init__(self, committable: Any) -> None:
        self.committable = committable
        self.retries = 0
        self.signal = _Signal.NONE
        self.error: BaseException | None = None

    def get_committable(self) -> Any:
        return self.committable

    def get_number_of_retries(self) -> int:
        return self.retries

    def signal_failed_with_known_reason(self, error: BaseException) -> None:
        _LOG.error("dropping committable %r, which cannot be committed", self.committable, exc_info=error)
        self.signal = _Signal.DROPPED

    def signal_failed_with_unknown_reason(self, error: BaseException) -> None:
        self.signal = _Signal.FAILED
        self.error = error

    def retry_later(self) -> None:
        self.signal = _Signal.RETRY

    def update_and_retry_later(self, committable: Any) -> None:
        self.committable = committable
        self.signal = _Signal.RETRY

    def signal_already_committed(self) -> None:
        self.signal = _Signal.ALREADY_COMMITTED


@dataclass(slots=True)
class CommitCounts:
    """The numbers of committables by their outcomes. Thread: written by the task thread, read by any.

    Attributes:
        retried: how often a committable was to be tried again.
        failed: those that were dropped, or that failed their task.
    """

    total: int = 0
    successful: int = 0
    already_committed: int = 0
    retried: int = 0
    failed: int = 0

    def add(self, requests: list[_Request]) -> None:
        """Counts the outcomes of one call of a committer."""
        for request in requests:
            match request.signal:
                case _Signal.DONE:
                    self.successful += 1
                case _Signal.ALREADY_COMMITTED:
                    self.already_committed += 1
                case _Signal.RETRY:
                    self.retried += 1
                case _Signal.DROPPED | _Signal.FAILED:
                    self.failed += 1


class Committables:
    """Collects committables and commits them. Thread: task thread."""

    def __init__(self) -> None:
        self.counts = CommitCounts()
        self._by_checkpoint: dict[int, list[_Request]] = {}

    def __len__(self) -> int:
        return sum(map(len, list(self._by_checkpoint.values())))

    def add(self, checkpoint_id: int, committables: list[Any]) -> None:
        """Adds committables. `checkpoint_id` is the first checkpoint that contains them."""
        if committables:
            self.counts.total += len(committables)
            self._by_checkpoint.setdefault(checkpoint_id, []).extend(map(_Request, committables))

    def items(self) -> list[tuple[int, Any]]:
        """Returns (checkpoint id, committable) in the order in which they must be committed."""
        return [
            (checkpoint_id, request.committable)
            for checkpoint_id in sorted(self._by_checkpoint)
            for request in self._by_checkpoint[checkpoint_id]
        ]

    def commit_up_to(self, checkpoint_id: int, committer: Committer, max_retries: int) -> int:
        """Commits everything up to this checkpoint, the oldest checkpoint first. Returns the number of committables.

        Raises:
            CommitError: some committables could not be committed. They are kept.
            CommittablesLostError: the records of some committables are lost.
        """
        count = 0
        for due in sorted(known for known in self._by_checkpoint if known <= checkpoint_id):
            requests = self._by_checkpoint[due]
            _commit(due, requests, committer, max_retries, self.counts)
            count += len(requests)
            del self._by_checkpoint[due]
        return count


def _commit(
    checkpoint_id: int, requests: list[_Request], committer: Committer, max_retries: int, counts: CommitCounts
) -> None:
    total = len(requests)
    left = requests
    for retry in range(max_retries + 1):
        error = _commit_once(left, committer)
        counts.add(left)
        failed = [request for request in left if request.signal is _Signal.FAILED]
        if failed:
            raise _error(f"{len(failed)} of {total} cannot be committed", checkpoint_id, failed[0].error)
        left = [request for request in left if request.signal is _Signal.RETRY]
        if not left:
            return
        if retry < max_retries:
            for request in left:
                request.retries += 1
    raise _error(f"{len(left)} of {total} could not be committed in {max_retries} retries", checkpoint_id, error)


def _commit_once(requests: list[_Request], committer: Committer) -> Exception | None:
    """Calls the committer once, so that every request has a signal. Returns the error if a retry may help."""
    for request in requests:
        request.signal = _Signal.NONE
    raised: Exception | None = None
    try:
        committer.commit(list(requests))
    except FlinkError as error:
        if error.retry is ErrorRetry.NEVER:
            raise
        raised = error
    except Exception as error:  # noqa: BLE001 - any error of the connector; the caller decides about a retry
        raised = error
    if raised is not None:
        _LOG.warning("committing %d committables failed", len(requests), exc_info=raised)
    for request in requests:
        if request.signal is _Signal.NONE:
            request.signal = _Signal.DONE if raised is None else _Signal.RETRY
    return raised


def _error(problem: str, checkpoint_id: int, cause: BaseException | None) -> CommitError:
    reason = "" if cause is None else f": {type(cause).__name__}: {cause}"
    when = "of the end of the input" if checkpoint_id == END_OF_INPUT_ID else f"of checkpoint {checkpoint_id}"
    kind = CommittablesLostError if isinstance(cause, CommittablesLostError) else CommitError
    error = kind(f"committables {when}: {problem}{reason}", details={"checkpoint_id": str(checkpoint_id)})
    error.__cause__ = cause
    return error
