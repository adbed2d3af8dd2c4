"""ShardFetcher: a thread that gets the records of a reader's shards, each shard at most one answer ahead of the task.

Source: org.apache.flink.streaming.connectors.kinesis.internals.publisher.polling.PollingRecordPublisher. Differs: one
thread for all shards of a subtask.
"""

from __future__ import annotations

import datetime
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from flinkpy.common.errors import FlinkError, InternalError
from flinkpy.connectors.kinesis.client import (
    client_errors,
    code_of,
    is_retryable,
    kinesis_error,
    stream_argument,
)
from flinkpy.connectors.kinesis.shards import KinesisShardSplit, Position

_LOG = logging.getLogger(__name__)

#: A call that is under way has an end: boto3's own time-outs, tries included, are longer only where nobody answers.
_CLOSE_S = 10.0


class Fetched(NamedTuple):
    split_id: str
    #: As AWS gives them, in order.
    records: list[dict[str, Any]]
    #: Nothing follows: the shard is closed.
    is_end: bool


@dataclass(frozen=True, slots=True)
class FetchSettings:
    max_records: int = 10_000
    interval_s: float = 0.2
    max_retries: int = 3
    backoff_base_s: float = 0.3
    backoff_max_s: float = 1.0
    backoff_factor: float = 1.5

    def backoff_s(self, failure: int) -> float:
        """After that failure in a row, counted from 1."""
        return min(self.backoff_max_s, self.backoff_base_s * self.backoff_factor ** (failure - 1))


@dataclass(slots=True)
class _Shard:
    split: KinesisShardSplit
    position: Position
    iterator: str | None = None
    due_s: float = 0.0
    failures: int = 0
    is_waiting: bool = False
    is_paused: bool = False


class ShardFetcher:
    """Thread: methods are called by the task thread.

    Args:
        notify: called when `take` has something, or an error, to give.
    """

    def __init__(
        self, make_client: Callable[[], Any], settings: FetchSettings, name: str, notify: Callable[[], None]
    ) -> None:
        self._make_client = make_client
        self._settings = settings
        self._notify = notify
        self._lock = threading.Condition()
        self._shards: dict[str, _Shard] = {}
        self._queue: deque[Fetched] = deque()
        self._error: BaseException | None = None
        self._is_closed = False
        self._client: Any = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Raises: ConfigurationError, UnsupportedOperationError: there is no such client."""
        self._client = self._make_client()
        self._thread.start()

    def add(self, split: KinesisShardSplit) -> None:
        with self._lock:
            self._shards[split.split_id] = _Shard(split, split.position)
            self._lock.notify_all()

    def pause_or_resume(self, to_pause: list[str], to_resume: list[str]) -> None:
        with self._lock:
            for split_ids, is_paused in ((to_pause, True), (to_resume, False)):
                for split_id in split_ids:
                    if split_id in self._shards:
                        self._shards[split_id].is_paused = is_paused
            self._lock.notify_all()

    def take(self) -> Fetched | None:
        """Raises: FlinkError: fetching has ended with it."""
        with self._lock:
            if self._queue:
                return self._queue.popleft()
            if self._error is not None:
                raise self._error
            return None

    def done_with(self, split_id: str) -> None:
        """What was taken of it has been emitted: its next records may come."""
        with self._lock:
            shard = self._shards.get(split_id)
            if shard is not None:
                shard.is_waiting = False
                self._lock.notify_all()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._lock.notify_all()
        if self._thread.ident is not None:
            self._thread.join(_CLOSE_S)
            if self._thread.is_alive():
                _LOG.warning("Kinesis: thread %s does not end", self._thread.name)

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (shard := self._next_due()) is not None:
                self._fetch(shard)
        except FlinkError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - the task raises it; a thread that ends silently would hang the job
            self._fail(InternalError(f"the Kinesis fetcher failed: {type(error).__name__}: {error}"))

    def _next_due(self) -> _Shard | None:
        """The shard that has waited longest for its turn; None: the fetcher is closed."""
        with self._lock:
            while not self._is_closed:
                ready = [shard for shard in self._shards.values() if not (shard.is_waiting or shard.is_paused)]
                first = min(ready, key=_due, default=None)
                pause_s = None if first is None else first.due_s - time.monotonic()
                if first is not None and pause_s is not None and pause_s <= 0:
                    return first
                self._lock.wait(pause_s)
        return None

    def _fetch(self, shard: _Shard) -> None:
        source = shard.split.shard
        try:
            if shard.iterator is None:
                answer = self._client.get_shard_iterator(
                    ShardId=source.shard_id, **stream_argument(source.stream), **shard.position.arguments
                )
                shard.iterator = answer["ShardIterator"]
            answer = self._client.get_records(ShardIterator=shard.iterator, Limit=self._settings.max_records)
        except client_errors() as error:
            self._on_error(shard, error)
            return
        shard.failures = 0
        shard.iterator = answer.get("NextShardIterator")
        records = answer["Records"]
        if records and shard.position.timestamp is not None:
            start = datetime.datetime.fromtimestamp(shard.position.timestamp, datetime.UTC)
            records = [record for record in records if record["ApproximateArrivalTimestamp"] >= start]
        if records:
            shard.position = Position("AFTER_SEQUENCE_NUMBER", sequence_number=records[-1]["SequenceNumber"])
        is_end = shard.iterator is None
        shard.due_s = time.monotonic() + self._settings.interval_s
        if not records and not is_end:
            return
        with self._lock:
            if is_end:
                del self._shards[source.split_id]
            shard.is_waiting = True
            self._queue.append(Fetched(source.split_id, records, is_end))
        self._notify()

    def _on_error(self, shard: _Shard, error: Exception) -> None:
        shard.failures += 1
        what = f"Kinesis stream {shard.split.shard.stream!r}, {shard.split.shard.shard_id}"
        is_expired = code_of(error) == "ExpiredIteratorException"
        if not (is_expired or is_retryable(error)) or shard.failures > self._settings.max_retries:
            raise kinesis_error(what, error) from error
        _LOG.warning("%s: %s; trying again", what, error)
        if is_expired:
            shard.iterator = None
        shard.due_s = time.monotonic() + self._settings.backoff_s(shard.failures)

    def _fail(self, error: FlinkError) -> None:
        with self._lock:
            self._error = error
        self._notify()


def _due(shard: _Shard) -> float:
    return shard.due_s
