"""Bases of sources whose records are fetched by threads of the reader.

```
   fetcher's thread   fetch records of splits -> queue           then it waits until the queue may take more
   task thread        poll_batch <- take <- queue
```

FetcherThreads runs the threads and keeps their first error. SplitFetcherManager adds the queue. Its subclass
SplitFetcher fetches a split again when the task has emitted all its records. The Kafka fetcher bounds the queue
instead, because one call to librdkafka returns records of many splits. SourceReaderBase emits the records of the queue.

Source: org.apache.flink.connector.base.source.reader: SourceReaderBase, fetcher.SplitFetcherManager,
fetcher.SplitFetcher. Differs: records travel in lists of one split each.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from flinkpy.common.clock import SystemClock
from flinkpy.common.errors import FlinkError, InternalError
from flinkpy.connector_api.source import ReaderStatus, SourceReader, SourceReaderContext
from flinkpy.formats.bad_records import BadRecordReporter
from flinkpy.formats.schema import DecodedMessages, on_error_of
from flinkpy.logs.helper_threads import helper_thread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from flinkpy.records.batch import Batch

_LOG = logging.getLogger(__name__)

#: How long `close` waits for a thread. Calls of the client libraries have time-outs below it, except where a server
#: does not answer at all.
_CLOSE_S = 10.0


_CLOCK = SystemClock()


class Fetched(NamedTuple):
    """Records of one split, in the order of the split."""

    split_id: str
    records: list[Any]
    #: True if the split has no further records.
    is_end: bool = False
    #: When the records arrived, in ms since 1970. The queue sets it.
    fetch_time_ms: int = 0


class SplitState:
    """State of a split in its fetcher. Guarded by the fetcher's lock."""

    def __init__(self, split: Any) -> None:
        self.split = split
        #: True while records of the split are queued or being emitted.
        self.is_queued = False
        #: True while watermark alignment holds the split back.
        self.is_paused = False

    @property
    def may_fetch(self) -> bool:
        return not (self.is_queued or self.is_paused)


class FetcherThreads:
    """Runs the threads of a fetcher. The task raises the first error that ends one of them.

    Args:
        system: the name of the external system, for errors and log lines.
        notify: called from any thread when the task should look for records or for an error.
    """

    def __init__(self, system: str, notify: Callable[[], None]) -> None:
        self._system = system
        self._notify = notify
        self._closed = threading.Event()
        self._error: FlinkError | None = None
        self._threads: list[threading.Thread] = []

    def close(self, extra_s: float = 0.0) -> None:
        """Ends the threads, and waits a limited time for them. Thread: task thread.

        Args:
            extra_s: how many seconds longer than usual a thread may take to end.
        """
        self._closed.set()
        self._wake_threads()
        for thread in self._threads:
            thread.join(extra_s + _CLOSE_S)
            if thread.is_alive():
                _LOG.warning("%s: thread %s does not end", self._system, thread.name)

    def _wake_threads(self) -> None:
        """Wakes the threads so that they see that the fetcher is closed."""

    def _start_thread(self, name: str, run: Callable[..., None], *arguments: Any) -> None:
        thread = helper_thread(self._run, name, (run, *arguments))
        self._threads.append(thread)
        thread.start()

    def _run(self, run: Callable[..., None], *arguments: Any) -> None:
        try:
            run(*arguments)
        except FlinkError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - the task raises it; a thread that ends silently would hang the job
            self._fail(InternalError(f"the {self._system} fetcher failed: {type(error).__name__}: {error}"))

    def _fail(self, error: FlinkError) -> None:
        self._error = self._error or error
        self._notify()


class SplitFetcherManager(FetcherThreads, ABC):
    """Fetches the records of a reader's splits and queues them for the task.

    Subclasses define the work of the threads, and how much of it may be queued.

    Thread: public methods are called by the task thread.
    """

    def __init__(self, system: str, notify: Callable[[], None]) -> None:
        super().__init__(system, notify)
        self._lock = threading.Condition()
        #: The result of each fetch that the task has not taken: records of one or several splits.
        self._queue: deque[list[Fetched]] = deque()
        #: The rest of the fetch that the task took last. Only the task thread uses it.
        self._taken: deque[Fetched] = deque()

    @abstractmethod
    def start(self) -> None:
        """Connects, and starts the threads. Raises: FlinkError."""

    @abstractmethod
    def add(self, split: Any) -> None:
        """Begins to fetch the records of a split."""

    @abstractmethod
    def pause_or_resume(self, to_pause: list[str], to_resume: list[str]) -> None:
        """Stops and resumes fetching. Records that are queued already are still returned by `take`."""

    def take(self) -> Fetched | None:
        """Returns the oldest records in the queue, or None if it is empty.

        Raises:
            FlinkError: the error that ended a thread, once the queue is empty.
        """
        if not self._taken:
            with self._lock:
                if self._queue:
                    self._taken.extend(self._queue.popleft())
                    self._lock.notify_all()
                elif self._error is not None:
                    raise self._error
        return self._taken.popleft() if self._taken else None

    def done_with(self, split_id: str) -> None:
        """Called when all records of a split from `take` have been emitted."""

    def _enqueue(self, fetched: list[Fetched]) -> None:
        """Queues the result of a fetch. Called by the fetcher's threads without the lock."""
        now_ms = _CLOCK.now_ms()
        stamped = [one._replace(fetch_time_ms=now_ms) for one in fetched]
        with self._lock:
            self._queue.append(stamped)
        self._notify()

    def _wake_threads(self) -> None:
        with self._lock:
            self._lock.notify_all()


StateT = TypeVar("StateT", bound=SplitState)


class SplitFetcher(SplitFetcherManager, Generic[StateT]):
    """Fetches records of a split when the task has emitted all earlier ones.

    Subclasses define `start`, `add` and the work of their threads.

    Thread: public methods are called by the task thread.
    """

    def __init__(self, system: str, notify: Callable[[], None]) -> None:
        super().__init__(system, notify)
        self._splits: dict[str, StateT] = {}

    def pause_or_resume(self, to_pause: list[str], to_resume: list[str]) -> None:
        with self._lock:
            for split_ids, is_paused in ((to_pause, True), (to_resume, False)):
                for split_id in split_ids:
                    if split_id in self._splits:
                        self._splits[split_id].is_paused = is_paused
            self._lock.notify_all()

    def done_with(self, split_id: str) -> None:
        """Allows the next fetch of a split."""
        with self._lock:
            state = self._splits.get(split_id)
            if state is not None:
                state.is_queued = False
                self._lock.notify_all()

    def _put(self, state: StateT, records: list[Any], is_end: bool = False) -> None:
        """Queues records of a split for the task. Called by the fetcher's threads without the lock."""
        split_id = state.split.split_id
        with self._lock:
            if is_end:
                del self._splits[split_id]
            state.is_queued = True
        self._enqueue([Fetched(split_id, records, is_end)])


class SourceReaderBase(SourceReader):
    """Emits the records that a SplitFetcherManager fetches, in batches of one split each.

    Subclasses define `add_splits`, which fills `_splits` and calls `add` of the fetcher; `_read`; and `snapshot_state`.

    Thread: task thread.
    """

    names_splits = True

    def __init__(self, context: SourceReaderContext, fetcher: SplitFetcherManager, schema: Any) -> None:
        self._context = context
        self._fetcher = fetcher
        self._schema = schema
        self._bad_records = BadRecordReporter(context, on_error_of(schema))
        #: Splits that are not finished, by id, with their positions.
        self._splits: dict[str, Any] = {}
        self._no_more_splits = False
        #: The records being emitted, and how many of them have been emitted.
        self._fetched: Fetched | None = None
        self._num_emitted = 0
        #: Records of the paused splits, by id. When a split resumes, they move to `_resumed`, which is emitted first.
        self._held_back: dict[str, deque[Fetched]] = {}
        self._resumed: deque[Fetched] = deque()

    @abstractmethod
    def _read(self, split: Any, records: list[Any]) -> Batch | None:
        """Decodes records of a split and advances its position; None if they give no row.

        May remove the split from `_splits`. The rest of its fetched records is then dropped.
        """

    def _on_end(self, split: Any) -> None:
        """Called when the last records of a split have been emitted, if its fetcher knows which are the last."""

    def start(self) -> None:
        self._fetcher.start()

    def notify_no_more_splits(self) -> None:
        self._no_more_splits = True
        self._context.notify_available()

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        """Pauses and resumes splits. Ignores splits that are finished, or that another reader has."""
        to_pause = [split_id for split_id in splits_to_pause if split_id in self._splits]
        to_resume = [split_id for split_id in splits_to_resume if split_id in self._splits]
        for split_id in to_pause:
            self._held_back.setdefault(split_id, deque())
        for split_id in to_resume:
            self._resumed.extend(self._held_back.pop(split_id, ()))
        self._fetcher.pause_or_resume(to_pause, to_resume)
        if self._resumed:
            self._context.notify_available()

    def poll_batch(self) -> Batch | ReaderStatus:
        while True:
            if self._fetched is None:
                if self._has_ended:
                    return ReaderStatus.END_OF_INPUT
                self._fetched = self._resumed.popleft() if self._resumed else self._fetcher.take()
                self._num_emitted = 0
                if self._fetched is None:
                    return ReaderStatus.NOTHING_AVAILABLE
            fetched = self._fetched
            held_back = self._held_back.get(fetched.split_id)
            if held_back is not None:
                held_back.append(fetched._replace(records=fetched.records[self._num_emitted :]))
                self._fetched = None
                continue
            batch = self._next_batch(fetched)
            if batch is not None:
                return batch

    @property
    def _has_ended(self) -> bool:
        return self._no_more_splits and not self._splits

    def _next_batch(self, fetched: Fetched) -> Batch | None:
        """Returns the next batch of fetched records; None if they gave no row or are used up."""
        split = self._splits.get(fetched.split_id)
        if split is None:
            # The split finished while these records were queued.
            self._fetched = None
            return None
        begin = self._num_emitted
        end = self._num_emitted = min(begin + self._context.max_batch_rows, len(fetched.records))
        records = fetched.records[begin:end]
        self.current_split_id = split.split_id
        self.fetch_time_ms = fetched.fetch_time_ms
        batch = self._read(split, records) if records else None
        if end == len(fetched.records):
            self._fetched = None
            self._fetcher.done_with(fetched.split_id)
            if fetched.is_end:
                self._on_end(self._splits[fetched.split_id])
        return batch

    def _batch_of(self, decoded: DecodedMessages, times: Sequence[int] | NDArray[np.int64]) -> Batch | None:
        """Reports records that could not be decoded; returns the others with timestamps.

        Args:
            times: one timestamp in ms for each message that was to be decoded.
        """
        batch, positions, bad = decoded
        self._bad_records.report(bad)
        if not batch.num_rows:
            return None
        all_times = np.asarray(times, np.int64)
        batch.timestamps = all_times if len(positions) == len(all_times) else all_times[positions]
        return batch

    def close(self) -> None:
        self._fetched = None
        self._fetcher.close()
