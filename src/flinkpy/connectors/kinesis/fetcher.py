"""ShardFetcher: the thread that fetches the records of a reader's shards.

Source: org.apache.flink.streaming.connectors.kinesis.internals.publisher.polling.PollingRecordPublisher. Differs: one
thread serves all shards of a subtask.
"""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flinkpy.connectors.aws.client import client_errors, code_of, is_retryable
from flinkpy.connectors.kinesis.requests import kinesis_error, stream_argument
from flinkpy.connectors.kinesis.shards import KinesisShardSplit, Position
from flinkpy.connectors.source_reader_base import SplitFetcher, SplitState

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The properties `flink.shard.getrecords.*`, with times in seconds."""

    max_records: int = 10_000
    interval_s: float = 0.2
    max_retries: int = 3
    backoff_base_s: float = 0.3
    backoff_max_s: float = 1.0
    backoff_factor: float = 1.5

    def backoff_s(self, failure: int) -> float:
        """Returns the pause after a number of failures in a row, the first of which is 1."""
        return min(self.backoff_max_s, self.backoff_base_s * self.backoff_factor ** (failure - 1))


class _Shard(SplitState):
    def __init__(self, split: KinesisShardSplit) -> None:
        super().__init__(split)
        self.position = split.position
        self.iterator: str | None = None
        self.due_s = 0.0
        self.failures = 0

    @property
    def name(self) -> str:
        """The shard's name in errors and log lines."""
        return f"Kinesis stream {self.split.shard.stream!r}, {self.split.shard.shard_id}"


class ShardFetcher(SplitFetcher[_Shard]):
    """Fetches the records of all shards of a reader in one thread.

    Thread: public methods are called by the task thread.
    """

    def __init__(
        self, make_client: Callable[[], Any], settings: FetchSettings, name: str, notify: Callable[[], None]
    ) -> None:
        super().__init__("Kinesis", notify)
        self._make_client = make_client
        self._settings = settings
        self._name = name
        self._client: Any = None

    def start(self) -> None:
        """Raises: ConfigurationError, UnsupportedOperationError if the client cannot be created."""
        self._client = self._make_client()
        self._start_thread(self._name, self._fetch_all)

    def add(self, split: KinesisShardSplit) -> None:
        with self._lock:
            self._splits[split.split_id] = _Shard(split)
            self._lock.notify_all()

    # -- the thread ----------------------------------------------------------------------------------------------

    def _fetch_all(self) -> None:
        while (shard := self._next_due()) is not None:
            self._fetch(shard)

    def _next_due(self) -> _Shard | None:
        """Waits for the shard whose next request is due first; returns None if the fetcher is closed."""
        with self._lock:
            while not self._closed.is_set():
                first = min((shard for shard in self._splits.values() if shard.may_fetch), key=_due, default=None)
                pause_s = None if first is None else first.due_s - time.monotonic()
                if pause_s is not None and pause_s <= 0:
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
        if records or is_end:
            self._put(shard, records, is_end)

    def _on_error(self, shard: _Shard, error: Exception) -> None:
        shard.failures += 1
        is_expired = code_of(error) == "ExpiredIteratorException"
        if not (is_expired or is_retryable(error)) or shard.failures > self._settings.max_retries:
            raise kinesis_error(shard.name, error) from error
        _LOG.warning("%s: %s; trying again", shard.name, error)
        if is_expired:
            shard.iterator = None
        shard.due_s = time.monotonic() + self._settings.backoff_s(shard.failures)


def _due(shard: _Shard) -> float:
    return shard.due_s
