"""AsyncRunner: the asyncio loop of one operator, on its own thread.

```
   task thread:  put(chunk | element) -> inbox                                   out -> take()
                                           |  one wake-up per batch              ^  one mail per round of the loop
   loop thread:                          backlog -> workers -> ElementQueue -----+
```

Workers are coroutines, at most `capacity` of them. They take records from the backlog and await the user's function for
each. Workers start when there is work and end when there is none. A record counts towards the capacity until its
results are released, so the results behind one slow record stay bounded.

Bookkeeping per record would cost more than a call that never suspends. So a worker keeps no books while its calls do
not suspend: it *runs* through the records of a chunk and collects their results. When a call suspends, the next code on
the loop *settles* the run. All workers share one iterator, whose position shows the record that the worker waits for;
all records before it are completed. After that the worker takes records one by one, until a call does not suspend.

One timer serves all timeouts. It checks periodically which record each worker is processing.

Source: org.apache.flink.streaming.api.operators.async.AsyncWaitOperator.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from operator import length_hint
from typing import Any, cast

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.logs.helper_threads import helper_thread
from flinkpy.records.elements import Element, Watermark
from flinkpy.streaming.async_io.element_queue import Chunk, ElementQueue, Item, Released

_LOG = logging.getLogger(__name__)

#: The number of checks of a call during its timeout. A timeout is late by at most two of these intervals.
TIMEOUT_PRECISION = 50
#: The minimum time between two checks.
MIN_TICK_S = 0.001
#: Checking many calls takes at most this fraction of the loop's time, even if the timeouts become less precise.
MAX_TICK_LOAD = 0.05
#: How long the operator waits at its end for user code that ignores its cancellation.
CANCEL_TIMEOUT_S = 5.0
#: How often a thread that waits for the loop checks that the loop's thread is alive.
ALIVE_CHECK_S = 0.5


#: Takes a value and returns the results of the user's function.
Invoke = Callable[[Any], Awaitable[Any]]

#: Stands for the results of a call that raised an error and must be retried.
FAILED = object()


class Retries:
    """Applies the user's retry strategy to calls of `invoke`. Thread: loop thread.

    Source: org.apache.flink.streaming.api.operators.async.AsyncWaitOperator, RetryableResultHandlerDelegator.

    The caller makes the first attempt itself, so a call that needs no retry has no extra cost.

    Attributes:
        invoke: makes one attempt.
        is_bad: returns True if results (not None) require a retry; None if no results do.
        can_retry: returns True if another attempt is allowed after this number of attempts.
    """

    def __init__(self, invoke: Invoke, strategy: Any) -> None:
        self.invoke = invoke
        self._strategy = strategy
        self.can_retry: Callable[[int], bool] = strategy.can_retry
        predicate = strategy.get_retry_predicate()
        self.is_bad: Callable[[Any], bool] | None = predicate.result_predicate()
        self._is_retried = predicate.exception_predicate()

    def is_due_after(self, results: Any, attempt: int) -> bool:
        is_bad = self.is_bad
        return is_bad is not None and results is not None and is_bad(results) and self.can_retry(attempt)

    def is_due_after_error(self, error: Exception, attempt: int) -> bool:
        is_retried = self._is_retried
        return is_retried is not None and is_retried(error) and self.can_retry(attempt)

    async def invoke_again(self, value: Any) -> Any:
        """Retries after a first attempt that failed. During a delay the record only occupies its capacity."""
        attempt = 1
        while True:
            await asyncio.sleep(self._strategy.get_backoff_time_millis(attempt) / 1000)
            attempt += 1
            try:
                results = await self.invoke(value)
            except Exception as error:
                if not self.is_due_after_error(error, attempt):
                    raise
            else:
                if not self.is_due_after(results, attempt):
                    return results


class _Slot:
    """The current work of one worker.

    Attributes:
        item: the record, or the list of records, whose results the worker awaits. None if the call was given up; the
            worker must then drop its results. Not valid for a worker that runs, until the run is settled.
        seen, seen_s: the item at the last check, and the time when it was first seen. Workers do not note when they
            start a record, because that would cost more than the rest of their work.
    """

    __slots__ = ("item", "seen", "seen_s", "task")

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task
        self.item: Item | list[Item] | None = None
        self.seen: Item | list[Item] | None = None
        self.seen_s = 0.0


class AsyncRunner:
    """Calls an AsyncFunction for records.

    Thread: `start`, `call`, `put`, `take`, `wait` and `stop` run on the task thread, all else on the loop thread.

    Args:
        retries: calls the function for a record, and retries. With `max_batch_size` the function gets a list of records
            and returns a list of lists.
        time_out: returns the results of a record that took longer than `timeout_s`.
        timeout_s: the timeout of a call; 0 for none.
        on_released: called when `take` has something to return. Runs on the loop thread, once per `take`.
        on_error: called with the error, and with the record if it is known, when the operator has failed. Runs on the
            loop thread, once.
    """

    _loop: asyncio.AbstractEventLoop

    def __init__(
        self,
        name: str,
        retries: Retries,
        time_out: Callable[[Any], Any],
        queue: ElementQueue,
        *,
        capacity: int,
        timeout_s: float,
        max_batch_size: int = 0,
        check_results: Callable[[Any], list[Any]],
        on_released: Callable[[], None],
        on_error: Callable[[BaseException, Item | None], None],
    ) -> None:
        self._invoke = retries.invoke
        self._retries = retries
        self._time_out = time_out
        self._queue = queue
        #: The number of records that a worker takes at once.
        self._load = max(1, max_batch_size)
        self._take = self._take_batches if max_batch_size else self._take_items
        self._capacity = max(capacity, self._load)
        self._timeout_s = timeout_s
        self._tick_s = max(timeout_s / TIMEOUT_PRECISION, MIN_TICK_S)
        self._check_results = check_results
        self._on_released = on_released
        self._on_error = on_error
        self._thread = helper_thread(self._run, f"async: {name}")
        self._is_stopping = False
        self._closer: Callable[[], Awaitable[None]] | None = None
        self._close_error: BaseException | None = None
        # Shared by both threads.
        self._inbox: deque[Chunk | Element] = deque()
        self._is_wake_scheduled = False
        self._out: deque[list[Released]] = deque()
        self._is_release_announced = False
        self._has_released = threading.Event()
        # Only for the loop thread.
        self._backlog: deque[Chunk | Element] = deque()
        #: The chunk that the workers take records from. All records before `_next` are taken if no worker runs. If one
        #: runs, `_values` shows how far it has come.
        self._chunk: Chunk | None = None
        self._values: Iterator[Any] = iter(())
        self._next = 0
        self._items = self._next_items()
        #: The worker that runs, from `_next` on, and the results that it has collected.
        self._running: _Slot | None = None
        self._run_results: list[Any] = []
        self._run_counts: list[int] | None = None
        #: The worker that took the last record, if no worker runs.
        self._latest: _Slot | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots: set[_Slot] = set()
        #: Workers that have not been given up.
        self._active = 0
        self._is_flush_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._has_failed = False

    # -- task thread ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._on_loop_error)
        self._thread.start()

    def call(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs a coroutine function on the loop and waits for its end. Raises its error."""
        future = asyncio.run_coroutine_threadsafe(function(), self._loop)
        while not concurrent.futures.wait([future], ALIVE_CHECK_S).done:
            if not self._thread.is_alive():
                raise RuntimeError("an asynchronous function has stopped the loop that it runs on")
        future.result()

    def put(self, entry: Chunk | Element) -> None:
        """Adds records or a control element to the backlog."""
        self._inbox.append(entry)
        if not self._is_wake_scheduled:
            self._is_wake_scheduled = True
            self._loop.call_soon_threadsafe(self._wake)

    def take(self) -> Iterator[Released]:
        """Yields everything released so far, in order."""
        self._is_release_announced = False
        self._has_released.clear()
        out = self._out
        while out:
            yield from out.popleft()

    def wait(self, timeout_s: float) -> None:
        """Waits until `take` has something to return, or until the timeout."""
        self._has_released.wait(timeout_s)

    def stop(self, closer: Callable[[], Awaitable[None]] | None = None) -> None:
        """Cancels all calls, awaits `closer()`, and ends the thread. Raises the error of `closer`."""
        self._is_stopping = True
        if not self._thread.is_alive():
            return
        self._closer = closer
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(2 * CANCEL_TIMEOUT_S)
        if self._thread.is_alive():
            _LOG.warning("thread '%s' does not end: a function blocks its event loop", self._thread.name)
        if self._close_error is not None:
            raise self._close_error

    # -- loop thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            self._run_loop()
            self._cancel_tasks()
            if self._closer is not None:
                loop.run_until_complete(self._closer())
                self._cancel_tasks()
            loop.run_until_complete(loop.shutdown_asyncgens())
        except BaseException as error:  # noqa: BLE001 - raised by `stop`, on the task thread
            self._close_error = error
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    def _run_loop(self) -> None:
        """Runs the loop until `stop`. If user code ends the loop, the operator fails."""
        try:
            self._loop.run_forever()
        except BaseException as error:  # noqa: BLE001 - e.g. SystemExit in a task that a function started
            if not self._is_stopping:
                self._fail(error, None)
        else:
            if not self._is_stopping:
                self._fail(RuntimeError("an asynchronous function has stopped the loop that it runs on"), None)

    def _cancel_tasks(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        if not tasks:
            return
        for task in tasks:
            task.cancel()
        _, pending = self._loop.run_until_complete(asyncio.wait(tasks, timeout=CANCEL_TIMEOUT_S))
        for task in pending:
            _LOG.warning("thread '%s': %r does not end although it was canceled", self._thread.name, task)

    def _wake(self) -> None:
        self._is_wake_scheduled = False
        inbox, backlog = self._inbox, self._backlog
        while inbox:
            entry = inbox.popleft()
            if isinstance(entry, Watermark) and backlog and isinstance(backlog[-1], Watermark):
                backlog[-1] = entry
            else:
                backlog.append(entry)
        self._spawn()

    def _spawn(self) -> None:
        """Starts one more worker, if there is work and free capacity. The worker starts further ones."""
        chunk = self._chunk
        if (chunk is None or self._next == len(chunk.rows)) and not self._backlog:
            return
        if (self._active + 1) * self._load + self._queue.held > self._capacity or self._is_stopping:
            return
        self._active += 1
        task = self._loop.create_task(self._work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _take_chunk(self) -> Chunk | None:
        """Returns the chunk with the next record, or None. Passes control elements of the backlog to the queue."""
        chunk = self._chunk
        if chunk is not None and self._next < len(chunk.rows):
            return chunk
        self._chunk = None
        backlog, queue = self._backlog, self._queue
        while backlog:
            entry = backlog.popleft()
            if isinstance(entry, Chunk):
                queue.add_chunk(entry)
                self._chunk, self._values, self._next = entry, iter(entry.rows), 0
                return entry
            queue.add_element(entry)
            if queue.has_released and not self._is_flush_scheduled:
                self._schedule_flush()
        return None

    def _next_items(self) -> Iterator[Item]:
        """Yields all available records. All workers share the iterator, which is replaced when it is exhausted."""
        while (chunk := self._take_chunk()) is not None:
            for position, value in enumerate(chunk.rows):
                self._next = position + 1
                yield chunk, position, value
        self._items = self._next_items()

    async def _work(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        slot = _Slot(task)
        self._slots.add(slot)
        try:
            if await self._take(slot):
                self._active -= 1
        finally:
            self._slots.discard(slot)

    async def _take_items(self, slot: _Slot) -> bool:
        """Processes records one by one until none are left.

        Returns: False if this worker was given up or the operator has failed or stops.
        """
        invoke, queue, retries, capacity = self._invoke, self._queue, self._retries, self._capacity
        is_bad, is_first, is_running = retries.is_bad, True, True
        item: Any = None
        run: list[Any] = []
        while True:
            self._settle()
            chunk = self._take_chunk()
            if chunk is None:
                return True
            if is_first:
                is_first = False
                self._start_timer()
                self._spawn()
                self._spawn()
            is_running = is_running and queue.is_next(chunk, self._next)
            if is_running:
                run = self._begin_run(slot, chunk)
            counts = self._run_counts
            for value in self._values:
                if not is_running:
                    slot.item = item = chunk, self._next, value
                    self._next += 1
                    self._latest = slot
                try:
                    try:
                        results = await invoke(value)
                    except Exception as error:
                        if not retries.is_due_after_error(error, 1):
                            raise
                        results = FAILED
                    if results is FAILED or (
                        is_bad and results is not None and is_bad(results) and retries.can_retry(1)
                    ):
                        results = await retries.invoke_again(value)
                    if type(results) is not list:
                        results = self._check_results(results)
                except (*USER_ERRORS, asyncio.CancelledError) as error:
                    if self._running is slot:
                        self._settle()
                    if slot.item is not None and not self._is_stopping:
                        self._fail(error, cast("Item", slot.item))
                    return False
                if is_running:
                    if self._running is slot:
                        run.extend(results)
                        if counts is not None:
                            counts.append(len(results))
                        continue
                    item = slot.item
                    if item is None:
                        return False
                    is_running = False
                else:
                    if slot.item is not item:
                        return False
                    is_running = self._latest is slot
                queue.complete(item, results)
                if not self._is_flush_scheduled:
                    self._schedule_flush()
                if queue.held and self._active + queue.held > capacity:
                    slot.item = None
                    return True
                if self._running is not None:
                    self._settle()
                if is_running or self._chunk is not chunk:
                    break
            else:
                if is_running:
                    self._end_run(len(chunk.rows))
                    # Let other tasks run: a function that never suspends would block the loop.
                    slot.item = None
                    await asyncio.sleep(0)
                    if self._is_stopping:
                        return False

    def _begin_run(self, slot: _Slot, chunk: Chunk) -> list[Any]:
        """Starts a run of the worker. Returns the list that collects the results."""
        self._running = slot
        self._run_counts = None if chunk.timestamps is None else []
        if not self._is_flush_scheduled:
            self._schedule_flush()
        return self._run_results

    def _settle(self) -> None:
        """Ends the run, if a worker runs. The records before the one it took last are completed."""
        slot, chunk = self._running, self._chunk
        if slot is not None:
            assert chunk is not None
            position = len(chunk.rows) - length_hint(self._values) - 1
            slot.item = chunk, position, chunk.rows[position]
            self._end_run(position)
            self._next = position + 1

    def _end_run(self, end: int) -> None:
        """Ends the run and completes its records up to `end`."""
        chunk = self._chunk
        assert chunk is not None
        self._running = None
        if end > self._next:
            self._queue.complete_run(chunk, self._next, end, self._run_results, self._run_counts)
            self._run_results = []
            self._next = end
            if not self._is_flush_scheduled:
                self._schedule_flush()

    async def _take_batches(self, slot: _Slot) -> bool:
        """Processes lists of records, like `_take_items`. Does not wait until a list is full."""
        queue, size = self._queue, self._load
        is_first = True
        while batch := list(itertools.islice(self._items, size)):
            slot.item = batch
            if is_first:
                is_first = False
                self._start_timer()
                self._spawn()
                self._spawn()
            try:
                results = await self._invoke([value for _, _, value in batch])
                if slot.item is not batch:
                    return False
                checked = [self._check_results(item_results) for item_results in results]
                if len(checked) != len(batch):
                    raise RuntimeError(
                        f"async_invoke_batch must return one list per record: it returned {len(checked)} lists for "
                        f"{len(batch)} records"
                    )
            except (*USER_ERRORS, asyncio.CancelledError) as error:
                if slot.item is batch and not self._is_stopping:
                    self._fail(error, batch[0])
                return False
            slot.item = None
            for item, item_results in zip(batch, checked):
                queue.complete(item, item_results)
            if not self._is_flush_scheduled:
                self._schedule_flush()
            if self._active * size + queue.held > self._capacity:
                break
            await asyncio.sleep(0)
            if self._is_stopping:
                return False
        slot.item = None
        return True

    def _schedule_flush(self) -> None:
        self._is_flush_scheduled = True
        self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Passes on everything that this round of the loop has released."""
        self._is_flush_scheduled = False
        self._settle()
        parts = self._queue.take()
        if parts:
            self._out.append(parts)
            if not self._is_release_announced:
                self._is_release_announced = True
                self._has_released.set()
                self._on_released()
        self._spawn()

    def _start_timer(self) -> None:
        if self._timer is None and self._timeout_s > 0:
            self._timer = self._loop.call_later(self._tick_s, self._look_for_timeouts)

    def _look_for_timeouts(self) -> None:
        """Gives up the calls that have taken too long."""
        self._timer = None
        self._settle()
        timeout_s, now_s = self._timeout_s, time.monotonic()
        is_busy = False
        for slot in list(self._slots):
            item = slot.item
            if item is None:
                continue
            is_busy = True
            if slot.seen is not item:
                slot.seen, slot.seen_s = item, now_s
            elif now_s - slot.seen_s >= timeout_s:
                self._give_up(slot, item if isinstance(item, list) else [item])
        if is_busy:
            took_s = time.monotonic() - now_s
            delay_s = max(self._tick_s, took_s / MAX_TICK_LOAD)
            self._timer = self._loop.call_later(delay_s, self._look_for_timeouts)

    def _give_up(self, slot: _Slot, items: list[Item]) -> None:
        """Cancels a call that has timed out. The results of its records are those of `time_out`."""
        slot.item = None
        self._slots.discard(slot)
        self._active -= 1
        slot.task.cancel()
        for item in items:
            try:
                results = self._check_results(self._time_out(item[2]))
            except USER_ERRORS as error:
                self._fail(error, item)
                return
            self._queue.complete(item, results)
        if not self._is_flush_scheduled:
            self._schedule_flush()

    def _fail(self, error: BaseException, item: Item | None) -> None:
        if not self._has_failed:
            self._has_failed = True
            self._on_error(error, item)

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Fails the operator if one of its own callbacks raised, because it would wait forever. Logs other errors."""
        callback = getattr(context.get("handle"), "_callback", None)
        if getattr(callback, "__self__", None) is self and (error := context.get("exception")) is not None:
            self._fail(error, None)
        else:
            loop.default_exception_handler(context)
