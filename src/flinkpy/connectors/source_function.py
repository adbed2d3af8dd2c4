"""SourceFunction, a source that runs in its own thread, and SourceFunctionSource, which runs it.

In PyFlink the name stands for a Java object. Here the function is written in Python, as in Flink's Java API. It is the
quick way. `flinkpy.connector_api`, which handles whole batches, is the better base for new sources.

```python
class Ticks(SourceFunction, CheckpointedFunction):
    def __init__(self):
        self.next, self.is_running = 0, True

    def run(self, ctx):
        while self.is_running:
            with ctx.get_checkpoint_lock():
                ctx.collect_with_timestamp(self.next, self.next * 1000)
                self.next += 1

    def cancel(self):
        self.is_running = False
```

The reader hands the records over in batches:

```
   function's thread:  run(ctx) -> collect, emit_watermark ... -> bounded queue
   task thread:        poll_batch <- the queued records up to the next watermark
                       checkpoint: take the lock; store the function's state and the queued records; release
```

The function's state already covers the records in the queue, so a checkpoint stores these records too. Emitting them
before the barrier instead would pile up records behind a blocked output. A function that waits for room in the queue
while it holds the lock gets room, so that it can release the lock.

Source: org.apache.flink.streaming.api.functions.source.legacy.SourceFunction,
org.apache.flink.streaming.api.operators.StreamSource,
org.apache.flink.streaming.runtime.tasks.SourceStreamTask (LegacySourceFunctionThread).
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from threading import get_ident
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import TypeMismatchError, UnsupportedOperationError
from flinkpy.common.watermark_strategy import Watermark
from flinkpy.connector_api.source import (
    Boundedness,
    ReaderStatus,
    SourceBase,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkpy.functions.function import Function
from flinkpy.logs.helper_threads import helper_thread

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

    from flinkpy.records.batch import Batch

_LOG = logging.getLogger(__name__)

#: The capacity of the queue: enough records for full batches, and few enough to add no noticeable latency.
MAX_QUEUED_RECORDS = 4096

#: How long the end of a task waits for `run` to return after `cancel`.
_JOIN_S = 10.0

#: How often a waiting task checks whether `run` has returned. Usually the end of `run` wakes the task before.
_LOOK_AGAIN_S = 0.5


class CheckpointLock:
    """The lock that a source function holds during steps that no checkpoint may split. The task takes it to checkpoint.

    It is reentrant. The task has priority, because a function that takes the lock again immediately would keep it out
    forever.

    Args:
        condition: guards the fields of this lock. Its waiters are woken when the lock becomes free.

    Source: the checkpoint lock of org.apache.flink.streaming.api.functions.source.legacy.SourceFunction.
    """

    def __init__(self, condition: threading.Condition) -> None:
        self._condition = condition
        self._owner: int | None = None
        self._depth = 0
        self._is_wanted_by_task = False

    # -- the function's thread -----------------------------------------------------------------------------------

    def __enter__(self) -> CheckpointLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def acquire(self) -> None:
        thread = threading.get_ident()
        with self._condition:
            if self._owner != thread:
                while self._owner is not None or self._is_wanted_by_task:
                    self._condition.wait()
                self._owner = thread
            self._depth += 1

    def is_open_to(self, thread: int) -> bool:
        """True if `thread` holds the lock, or no thread holds or wants it. Call with the condition held.

        A step that keeps holding the condition then needs no lock.
        """
        return self._owner == thread or (self._owner is None and not self._is_wanted_by_task)

    def release(self) -> None:
        with self._condition:
            if self._owner != threading.get_ident():
                raise RuntimeError("a thread released the checkpoint lock without holding it")
            self._depth -= 1
            if not self._depth:
                self._owner = None
                self._condition.notify_all()

    # -- the task's thread ---------------------------------------------------------------------------------------

    def try_acquire_for_task(self) -> bool:
        """Tries to take the lock without waiting. Call with the condition held.

        After a failed try no other thread gets the lock before the task.
        """
        if self._owner is not None and self._owner != threading.get_ident():
            self._is_wanted_by_task = True
            return False
        self._is_wanted_by_task = False
        self._owner = threading.get_ident()
        self._depth = 1
        return True

    def release_for_task(self) -> None:
        """Releases the lock, or withdraws the claim of a failed try. May be called again."""
        with self._condition:
            self._is_wanted_by_task = False
            if self._owner == threading.get_ident():
                self._owner = None
                self._depth = 0
            self._condition.notify_all()


class SourceFunction(Function):
    """A source that emits records from its own thread, in one subtask.

    To continue after a failure, it keeps its position in operator state, as a CheckpointedFunction does. Emitting a
    record and changing the function's fields are one step for a checkpoint if both happen under
    `ctx.get_checkpoint_lock()`. The task calls `open`, `close` and the methods of checkpoints; the function's own
    thread calls `run`.

    A connector that has a better source overrides `to_source`.
    """

    def __init__(self, source_func: Any = None) -> None:
        """Raises: UnsupportedOperationError for the name of a Java class, or a Java object."""
        if source_func is not None:
            raise UnsupportedOperationError(
                f"{type(self).__name__}({source_func!r}): flinkpy has no JVM and cannot run Java functions; give "
                f"add_source a subclass of {type(self).__name__} with run and cancel instead"
            )

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        """Emits all records. The source ends when this returns, and fails if this raises.

        Args:
            ctx: emits records and watermarks.
        """
        raise UnsupportedOperationError(f"{type(self).__name__} has no method run(ctx)")

    def cancel(self) -> None:
        """Makes `run` return soon. Another thread calls it, possibly twice or after `run` has returned.

        If `run` is in a method of the context, or calls one, an exception ends it there.
        """
        raise UnsupportedOperationError(f"{type(self).__name__} has no method cancel()")

    def to_source(self) -> SourceBase:
        """Returns the source that runs this function, which `from_source` accepts."""
        return SourceFunctionSource(self)

    class SourceContext(ABC):
        """Emits the records and watermarks of `run`. Thread: the function's own.

        Every method may block until there is room for more records, and until a checkpoint has been taken.
        """

        @abstractmethod
        def collect(self, value: Any) -> None:
            """Emits a record without a timestamp."""

        @abstractmethod
        def collect_with_timestamp(self, value: Any, timestamp: int) -> None:
            """Emits a record with its event time in milliseconds since the epoch."""

        @abstractmethod
        def emit_watermark(self, watermark: int | Watermark) -> None:
            """Emits a watermark: no record at or before this time, in milliseconds, follows."""

        @abstractmethod
        def mark_as_temporarily_idle(self) -> None:
            """Marks this subtask as idle: its watermarks are not waited for until it emits a record or watermark."""

        @abstractmethod
        def get_checkpoint_lock(self) -> AbstractContextManager[Any]:
            """Returns a reentrant lock. No checkpoint is taken while it is held (`with ctx.get_checkpoint_lock():`)."""

        @abstractmethod
        def close(self) -> None:
            """Closes the context. It drops all later records."""


class ParallelSourceFunction(SourceFunction):
    """A SourceFunction that runs in every subtask. Each subtask has its own copy of the function."""


class RichSourceFunction(SourceFunction):
    """A SourceFunction that keeps its RuntimeContext. The name is Flink's; every SourceFunction here has `open`."""

    _runtime_context: Any = None

    def open(self, runtime_context: Any) -> None:
        self._runtime_context = runtime_context

    def get_runtime_context(self) -> Any:
        """Returns the RuntimeContext that `open` received. A subclass must call `super().open(runtime_context)`."""
        if self._runtime_context is None:
            raise UnsupportedOperationError(f"{type(self).__name__} has no RuntimeContext before it is open")
        return self._runtime_context


class RichParallelSourceFunction(RichSourceFunction, ParallelSourceFunction):
    """A RichSourceFunction that runs in every subtask."""


class SourceFunctionSource(SourceBase):
    """A source without splits. Each reader runs a copy of the function.

    Args:
        produced_type: TypeInformation of the records; None for pickled Python objects.
    """

    def __init__(self, function: Any, produced_type: Any = None) -> None:
        self._function = function
        self._produced_type = produced_type

    @property
    def boundedness(self) -> Boundedness:
        """Unbounded, because it is not known whether `run` returns."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def produced_type(self) -> Any:
        return self._produced_type

    @property
    def source_function(self) -> Any:
        return self._function

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return _NoSplits()

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        return _NoSplits()

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return SourceFunctionReader(self._function, context)

    def for_coordinator(self) -> SourceBase:
        return SourceFunctionSource(None)


class _NoSplits(SplitEnumerator):
    """Does nothing, because readers need no splits."""

    def start(self) -> None:
        return

    def handle_split_request(self, subtask_index: int) -> None:
        return

    def add_splits_back(self, splits: list[Any], subtask_index: int) -> None:
        return

    def snapshot_state(self, checkpoint_id: int) -> None:
        return


@dataclass(slots=True)
class _Records:
    """Consecutive records that either all have timestamps or all have none."""

    values: list[Any]
    timestamps: list[int] | None


@dataclass(frozen=True, slots=True)
class _Idle:
    pass


class _SourceCancelledError(BaseException):
    """Ends `run` of a function whose task has ended. An `except Exception` in the function does not catch it."""


class SourceFunctionReader(SourceReader):
    """Runs a SourceFunction in a thread and emits its records.

    Thread: task thread, except for `_run` and the methods of the SourceContext.
    """

    def __init__(self, function: Any, context: SourceReaderContext) -> None:
        self._function = function
        self._context = context
        #: The lock of the condition. `put_record` enters it directly, which is faster than entering the condition.
        self._mutex = threading.Lock()
        self._condition = threading.Condition(self._mutex)
        self._queue: deque[_Records | Watermark | _Idle] = deque()
        self._num_queued = 0
        self._error: BaseException | None = None
        self._has_returned = False
        self._is_cancelled = False
        self._is_idle = False
        #: True while the task waits for the lock. A full queue then accepts more records, so that the function can
        #: release the lock.
        self._is_task_waiting = False
        self._thread: threading.Thread | None = None
        self.lock = CheckpointLock(self._condition)

    # -- task thread ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        name = f"source function {type(self._function).__name__} ({self._context.subtask_index})"
        self._thread = helper_thread(self._run, name)
        self._thread.start()

    def poll_batch(self) -> Batch | ReaderStatus:
        batch = self._next_batch()
        if batch is not None:
            return batch
        with self._condition:
            if self._error is not None:
                raise self._error
            if self._has_returned and not self._queue:
                return ReaderStatus.END_OF_INPUT
        return ReaderStatus.NOTHING_AVAILABLE

    def take_lock(self) -> Iterator[Batch]:
        """Takes the lock for the task, until `release_lock`. Yields batches that must be emitted meanwhile."""
        while True:
            with self._condition:
                self._is_task_waiting = True
                self._condition.notify_all()
                while not self.lock.try_acquire_for_task() and self._num_queued < 2 * MAX_QUEUED_RECORDS:
                    self._condition.wait()
                self._is_task_waiting = False
                if self.lock.try_acquire_for_task():
                    return
            # The queue is full and the function still holds the lock.
            yield from self._all_batches()

    def queued(self) -> list[Batch]:
        """Returns the records that have not been polled. Call with the lock taken."""
        with self._condition:
            return [_batch_of(item) for item in self._queue if isinstance(item, _Records)]

    def release_lock(self) -> None:
        self.lock.release_for_task()

    def stop(self) -> Iterator[Batch]:
        """Cancels the function. Yields all records until it has ended; none come afterwards."""
        thread = self._thread
        if thread is None or not thread.is_alive():
            yield from self._all_batches()
            return
        self._function.cancel()
        deadline_ns = self._context.monotonic_ns() + int(_JOIN_S * 1e9)
        while thread.is_alive() and self._context.monotonic_ns() < deadline_ns:
            yield from self._all_batches()
            with self._condition:
                if not self._queue and not self._has_returned:
                    self._condition.wait(_LOOK_AGAIN_S)
            if self._has_returned:
                thread.join(_JOIN_S)
        with self._condition:
            self._is_cancelled = True
            self._condition.notify_all()
        yield from self._all_batches()

    def _all_batches(self) -> Iterator[Batch]:
        while (batch := self._next_batch()) is not None:
            yield batch

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return []

    def add_splits(self, splits: list[Any]) -> None:
        return

    def notify_no_more_splits(self) -> None:
        return

    def close(self) -> None:
        with self._condition:
            self._is_cancelled = True
            self._queue.clear()
            self._num_queued = 0
            self._condition.notify_all()
        self.lock.release_for_task()
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            self._function.cancel()
        finally:
            thread.join(_JOIN_S)
            if thread.is_alive():
                _LOG.warning("%s was cancelled but is still running: run has not returned", thread.name)

    def _next_batch(self) -> Batch | None:
        """Returns the next records, after emitting the watermarks and idleness that precede them."""
        while True:
            with self._condition:
                if not self._queue:
                    return None
                item = self._queue.popleft()
                if isinstance(item, _Records):
                    self._num_queued -= len(item.values)
                    self._condition.notify_all()
            if isinstance(item, _Idle):
                self._is_idle = True
                self._context.mark_idle()
                continue
            if self._is_idle:
                self._is_idle = False
                self._context.mark_active()
            if isinstance(item, Watermark):
                self._context.emit_watermark(item.timestamp)
                continue
            return _batch_of(item)

    # -- the function's thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._function.run(_Context(self))
        except _SourceCancelledError:
            return
        except BaseException as raised:  # noqa: BLE001 - raised again on the task thread
            error = raised
        with self._condition:
            self._error = error
            self._has_returned = True
            self._condition.notify_all()
        self._context.notify_available()

    def put_record(self, value: Any, timestamp: int | None) -> None:
        with self._mutex:
            while not self._is_cancelled and not (self._has_room and self.lock.is_open_to(get_ident())):
                self._condition.wait()
            self._check_cancelled()
            last = self._queue[-1] if self._queue else None
            if isinstance(last, _Records) and (last.timestamps is None) == (timestamp is None):
                last.values.append(value)
                if timestamp is not None and last.timestamps is not None:
                    last.timestamps.append(timestamp)
            else:
                self._queue.append(_Records([value], None if timestamp is None else [timestamp]))
            self._num_queued += 1
            if self._num_queued == 1 or self._is_task_waiting:
                self._wake_task()

    @property
    def _has_room(self) -> bool:
        return self._num_queued < (2 * MAX_QUEUED_RECORDS if self._is_task_waiting else MAX_QUEUED_RECORDS)

    def put_element(self, element: Watermark | _Idle) -> None:
        with self._condition:
            while not self._is_cancelled and not self.lock.is_open_to(get_ident()):
                self._condition.wait()
            self._check_cancelled()
            self._queue.append(element)
            self._wake_task()

    def _check_cancelled(self) -> None:
        if self._is_cancelled:
            raise _SourceCancelledError

    def _wake_task(self) -> None:
        self._condition.notify_all()
        self._context.notify_available()


def _batch_of(records: _Records) -> Batch:
    import numpy as np

    from flinkpy.records.batch import Batch

    timestamps = None if records.timestamps is None else np.array(records.timestamps, dtype=np.int64)
    return Batch(records.values, timestamps)


class _Context(SourceFunction.SourceContext):
    def __init__(self, reader: SourceFunctionReader) -> None:
        self._reader = reader
        self._is_closed = False

    def collect(self, value: Any) -> None:
        if not self._is_closed:
            self._reader.put_record(value, None)

    def collect_with_timestamp(self, value: Any, timestamp: int) -> None:
        if type(timestamp) is not int:
            raise TypeMismatchError(f"collect_with_timestamp takes milliseconds as an int, not {timestamp!r}")
        if not self._is_closed:
            self._reader.put_record(value, timestamp)

    def emit_watermark(self, watermark: int | Watermark) -> None:
        if not self._is_closed:
            self._reader.put_element(watermark if isinstance(watermark, Watermark) else Watermark(watermark))

    def mark_as_temporarily_idle(self) -> None:
        if not self._is_closed:
            self._reader.put_element(_Idle())

    def get_checkpoint_lock(self) -> CheckpointLock:
        return self._reader.lock

    def close(self) -> None:
        self._is_closed = True
