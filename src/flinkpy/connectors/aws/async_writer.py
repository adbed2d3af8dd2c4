"""AsyncWriter: sends the records of a sink in several requests at a time, and refused records again.

Source: org.apache.flink.connector.base.sink.writer.AsyncSinkWriter. Differs: a checkpoint waits until all records have
been sent. Flink stores unsent records in the checkpoint.
"""

from __future__ import annotations

import logging
import queue
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

from flinkpy.common.errors import ConfigurationError, FlinkError, InputFormatError
from flinkpy.connector_api.sink import SinkWriter, WriterContext
from flinkpy.connectors.aws.client import client_errors, code_of, is_retryable, is_retryable_code
from flinkpy.logs.context import in_current_context
from flinkpy.records.batch import Batch

_LOG = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.05
_MAX_PAUSE_S = 2.0


@dataclass(frozen=True)
class BufferSettings:
    """The limits of an AsyncWriter's buffer and requests. Sizes are in bytes, times in milliseconds."""

    max_batch_size: int = 500
    max_in_flight_requests: int = 50
    max_buffered_requests: int = 10_000
    max_batch_size_in_bytes: int = 5 << 20
    max_time_in_buffer_ms: int = 5_000
    max_record_size_in_bytes: int = 1 << 20

    def check(self) -> None:
        """Checks all values. Raises: ConfigurationError."""
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
                raise ConfigurationError(f"{name} must be an int above 0, not {value!r}")
        if self.max_buffered_requests <= self.max_batch_size:
            raise ConfigurationError(
                f"max_buffered_requests ({self.max_buffered_requests}) must be above max_batch_size "
                f"({self.max_batch_size})"
            )
        if self.max_batch_size_in_bytes < self.max_record_size_in_bytes:
            raise ConfigurationError(
                f"max_batch_size_in_bytes ({self.max_batch_size_in_bytes}) must not be below max_record_size_in_bytes "
                f"({self.max_record_size_in_bytes})"
            )


class Entry(NamedTuple):
    """A record in the form of a request.

    Attributes:
        size: in bytes.
        key: identifies what the record changes, if changes of the same key must stay in order; None otherwise. A
            request has only the last of several changes of a key, and the next one waits for its answer.
    """

    request: dict[str, Any]
    size: int
    key: Hashable = None


class Refusal(NamedTuple):
    """The reason why the service refused the entry at `position` of a request."""

    position: int
    code: str
    message: str


class EntrySink(ABC):
    """Converts batches to entries and sends them.

    Thread: `entries_of` is called by the task thread, `send` by threads of the writer.
    """

    #: The name of the stream in errors and log lines.
    name: str

    @abstractmethod
    def entries_of(self, batch: Batch) -> list[Entry]: ...

    @abstractmethod
    def send(self, requests: list[dict[str, Any]]) -> list[Refusal]:
        """Sends one request. Returns the refused entries. Raises: errors of boto3."""

    @abstractmethod
    def failure(self, reason: str, code: str) -> FlinkError:
        """Returns the error with which the job fails.

        Args:
            reason: what failed.
            code: the error code of the service; "" if it did not answer.
        """


class _Answer(NamedTuple):
    entries: list[Entry]
    refusals: list[Refusal]
    error: Exception | None


class _Taken(NamedTuple):
    """The entries of a request.

    Attributes:
        num_removed: how many entries left the buffer, with those that later ones replaced.
    """

    entries: list[Entry]
    num_removed: int


class AsyncWriter(SinkWriter):
    """Sends entries in batches, in several requests at a time. Refused entries are sent again.

    Thread: task thread. Separate threads send the requests.
    """

    def __init__(self, context: WriterContext, sink: EntrySink, settings: BufferSettings, fails_on_error: bool) -> None:
        self._context = context
        self._sink = sink
        self._settings = settings
        self._fails_on_error = fails_on_error
        self._buffer: deque[Entry] = deque()
        self._bytes = 0
        self._in_flight = 0
        #: The keys of the entries of unanswered requests.
        self._keys_in_flight: set[Hashable] = set()
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self._executor = ThreadPoolExecutor(settings.max_in_flight_requests, thread_name_prefix=sink.name)
        self._has_timer = False
        #: The number of answers in a row that contained refusals.
        self._failures = 0
        self._closed = threading.Event()

    def write(self, batch: Batch) -> None:
        settings = self._settings
        for entry in self._sink.entries_of(batch):
            if entry.size > settings.max_record_size_in_bytes:
                raise InputFormatError(
                    f"{self._sink.name}: a record of {entry.size} bytes is longer than max_record_size_in_bytes, "
                    f"{settings.max_record_size_in_bytes}"
                )
            while len(self._buffer) >= settings.max_buffered_requests:
                self._send_one()
            self._buffer.append(entry)
            self._bytes += entry.size
            while len(self._buffer) >= settings.max_batch_size or self._bytes >= settings.max_batch_size_in_bytes:
                if self._in_flight >= settings.max_in_flight_requests and len(self._buffer) < (
                    settings.max_buffered_requests
                ):
                    break
                self._send_one()
        self._take_answers(blocking=False)
        self._schedule()

    def flush(self, end_of_input: bool) -> None:
        while self._buffer or self._in_flight:
            if self._buffer:
                self._send_one()
            else:
                self._take_answers(blocking=True)

    def close(self) -> None:
        self._closed.set()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _schedule(self) -> None:
        if not self._has_timer and (self._buffer or self._in_flight):
            self._has_timer = True
            self._context.schedule_after(self._settings.max_time_in_buffer_ms, self._on_time)

    def _on_time(self, _: int) -> None:
        self._has_timer = False
        self._take_answers(blocking=False)
        waiting = len(self._buffer)
        while waiting > 0:
            waiting -= self._send_one()
        self._schedule()

    def _send_one(self) -> int:
        """Sends a batch as soon as the number of requests allows it. Returns the number of entries in it."""
        while self._in_flight >= self._settings.max_in_flight_requests:
            self._take_answers(blocking=True)
        while not (taken := self._take_entries()).entries and self._in_flight:
            self._take_answers(blocking=True)
        entries = taken.entries
        if entries:
            self._in_flight += 1
            self._keys_in_flight |= {entry.key for entry in entries if entry.key is not None}
            self._executor.submit(in_current_context(self._request), entries, self._pause_s())
        return taken.num_removed

    def _take_entries(self) -> _Taken:
        """Removes the entries of the next request from the buffer. There are none if all wait for answers."""
        buffer, settings = self._buffer, self._settings
        taken: dict[Hashable, Entry] = {}
        waiting: list[Entry] = []
        waiting_keys: set[Hashable] = set()
        size = num_removed = 0
        while buffer and len(taken) < settings.max_batch_size:
            if size + buffer[0].size > settings.max_batch_size_in_bytes:
                break
            entry = buffer.popleft()
            if entry.key is not None and (entry.key in self._keys_in_flight or entry.key in waiting_keys):
                waiting.append(entry)
                waiting_keys.add(entry.key)
                continue
            # An entry without a key has its number for one.
            key = num_removed if entry.key is None else (entry.key,)
            replaced = taken.pop(key, None)
            taken[key] = entry
            size += entry.size - (0 if replaced is None else replaced.size)
            self._bytes -= entry.size
            num_removed += 1
        buffer.extendleft(reversed(waiting))
        return _Taken(list(taken.values()), num_removed)

    def _pause_s(self) -> float:
        return min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2 ** (self._failures - 1)) if self._failures else 0.0

    def _request(self, entries: list[Entry], pause_s: float) -> None:
        """Thread: the executor's."""
        if pause_s:
            self._closed.wait(pause_s)
        try:
            answer = _Answer(entries, self._sink.send([entry.request for entry in entries]), None)
        except Exception as error:  # noqa: BLE001 - the task thread handles it
            answer = _Answer(entries, [], error)
        self._answers.put(answer)

    def _take_answers(self, blocking: bool) -> None:
        """Handles the answers that have arrived. With `blocking`, waits for at least one."""
        while self._in_flight:
            try:
                answer = self._answers.get(blocking)
            except queue.Empty:
                return
            blocking = False
            self._in_flight -= 1
            self._keys_in_flight -= {entry.key for entry in answer.entries}
            self._on_answer(answer)

    def _on_answer(self, answer: _Answer) -> None:
        name, error = self._sink.name, answer.error
        again = answer.entries
        if error is not None:
            if self._fails_on_error or not isinstance(error, client_errors()) or not is_retryable(error):
                raise self._sink.failure(f"{type(error).__name__}: {error}", code_of(error)) from error
            reason = f"{type(error).__name__}: {error}"
        elif answer.refusals:
            first = answer.refusals[0]
            reason = f"{first.code}: {first.message}"
            hopeless = next((refusal for refusal in answer.refusals if not is_retryable_code(refusal.code)), None)
            if self._fails_on_error or hopeless is not None:
                cause = hopeless or first
                text = f"{len(answer.refusals)} of {len(again)} records were refused: {cause.code}: {cause.message}"
                raise self._sink.failure(text, cause.code)
            again = [again[refusal.position] for refusal in answer.refusals]
        else:
            self._failures = 0
            return
        self._failures += 1
        _LOG.warning("%s refused %d of %d records: %s; sending again", name, len(again), len(answer.entries), reason)
        self._buffer.extendleft(reversed(again))
        self._bytes += sum(entry.size for entry in again)
