"""AsyncRunner: the asyncio loop of one operator, on a thread of its own.

```
   task thread:  put(chunk | element) -> inbox                                   out -> take()
                                           |  one wake-up per batch              ^  one mail per round of the loop
   loop thread:                          backlog -> workers -> ElementQueue -----+
```

Workers are coroutines, at most `capacity`, which take records from the backlog and await the user's function for each.
They come into being as there is work and end when there is none. A record counts towards the capacity until its results
are released, so that one slow record lets the results behind it grow only so far.

There is one timer for all time-outs: it looks again and again at what every worker is doing.

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
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import Any

from flinkpy.records.elements import Element, Watermark
from flinkpy.streaming.operators.async_io.element_queue import Chunk, ElementQueue, Item, Released
from flinkpy.streaming.operators.stream_operator import USER_ERRORS

_LOG = logging.getLogger(__name__)

#: How often a call is looked at in its time: it times out late by at most twice this part of it.
TIMEOUT_PRECISION = 50
#: The shortest time between two looks.
MIN_TICK_S = 0.001
#: Looking at many calls takes at most this part of the loop's time, whatever that does to precision.
MAX_TICK_LOAD = 0.05
#: How long the end of an operator waits for user code that does not end when it is cancelled.
CANCEL_TIMEOUT_S = 5.0
#: A thread that waits for the loop looks so often whether there is one.
LOOK_AGAIN_S = 0.5

#: value -> results; whatever the user's function gives.
Invoke = Callable[[Any], Awaitable[Any]]


class _Slot:
    """What one worker is doing.

    Attributes:
        item: what it awaits the results of, one record or a list. None when that was given up: it must let go of it.
        seen, seen_s: what it had when it was last looked at, and since when. A worker does not note when it begins with
            a record: that would cost more than all else it does.
    """

    __slots__ = ("item", "seen", "seen_s", "task")

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task
        self.item: Item | list[Item] | None = None
        self.seen: Item | list[Item] | None = None
        self.seen_s = 0.0


class AsyncRunner:
    """Thread: `start`, `call`, `put`, `take`, `wait` and `stop` are for the task thread, all else is the loop thread's.

    Args:
        invoke: called for each record; with `max_batch_size`, for as many as there are, up to so many: it then takes a
            list and gives a list of lists.
        time_out: value -> results, for a record that took longer than `timeout_s`; 0: they may take any time.
        on_released: `take` will give something. Called on the loop thread, once until `take` was called.
        on_error: the operator has failed, of that record where it is known. Called on the loop thread, once.
    """

    _loop: asyncio.AbstractEventLoop

    def __init__(
        self,
        name: str,
        invoke: Invoke,
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
        self._invoke = invoke
        self._time_out = time_out
        self._queue = queue
        #: Records that a worker has.
        self._load = max(1, max_batch_size)
        self._take = self._take_batches if max_batch_size else self._take_items
        self._capacity = max(capacity, self._load)
        self._timeout_s = timeout_s
        self._tick_s = max(timeout_s / TIMEOUT_PRECISION, MIN_TICK_S)
        self._check_results = check_results
        self._on_released = on_released
        self._on_error = on_error
        self._thread = threading.Thread(target=self._run, name=f"async: {name}", daemon=True)
        self._is_stopping = False
        self._closer: Callable[[], Awaitable[None]] | None = None
        self._close_error: BaseException | None = None
        # Between the threads.
        self._inbox: deque[Chunk | Element] = deque()
        self._is_wake_scheduled = False
        self._out: deque[list[Released]] = deque()
        self._is_release_announced = False
        self._has_released = threading.Event()
        # The loop thread's.
        self._backlog: deque[Chunk | Element] = deque()
        self._items: Iterator[Item] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots: set[_Slot] = set()
        #: Workers that have not been given up.
        self._active = 0
        self._is_flush_scheduled = False
        self._is_round_over = False
        self._timer: asyncio.TimerHandle | None = None
        self._has_failed = False

    # -- task thread ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._on_loop_error)
        self._thread.start()

    def call(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine function on the loop and wait until it ends; raises what it raises."""
        future = asyncio.run_coroutine_threadsafe(function(), self._loop)
        while not concurrent.futures.wait([future], LOOK_AGAIN_S).done:
            if not self._thread.is_alive():
                raise RuntimeError("an asynchronous function has stopped the loop that it runs on")
        future.result()

    def put(self, entry: Chunk | Element) -> None:
        """Start these records when their turn comes."""
        self._inbox.append(entry)
        if not self._is_wake_scheduled:
            self._is_wake_scheduled = True
            self._loop.call_soon_threadsafe(self._wake)

    def take(self) -> Iterator[Released]:
        """What has been released, in order."""
        self._is_release_announced = False
        self._has_released.clear()
        out = self._out
        while out:
            yield from out.popleft()

    def wait(self, timeout_s: float) -> None:
        """Until `take` gives something, or the time is over."""
        self._has_released.wait(timeout_s)

    def stop(self, closer: Callable[[], Awaitable[None]] | None = None) -> None:
        """Cancel what is under way, then await `closer()`, and end the thread. Raises what `closer` raises."""
        self._is_stopping = True
        if not self._thread.is_alive():
            return
        self._closer = closer
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(2 * CANCEL_TIMEOUT_S)
        if self._thread.is_alive():
            _LOG.warning("%s does not end: a function blocks its loop", self._thread.name)
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
        """Until `stop`. Where user code ends the loop instead, the operator has failed."""
        try:
            self._loop.run_forever()
        except BaseException as error:  # noqa: BLE001 - e.g. SystemExit in a task that a function has started
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
            _LOG.warning("%s: %r does not end although it was cancelled", self._thread.name, task)

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
        """One more worker, where there is work and room for it; it sees to it that more come."""
        if self._items is None:
            if not self._backlog:
                return
            self._items = self._next_items()
        if (self._active + 1) * self._load + self._queue.held > self._capacity or self._is_stopping:
            return
        self._active += 1
        task = self._loop.create_task(self._work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _next_items(self) -> Iterator[Item]:
        """The records of the backlog, for all workers; control elements are dealt with as they come up."""
        backlog, queue = self._backlog, self._queue
        while backlog:
            entry = backlog.popleft()
            if isinstance(entry, Chunk):
                queue.add_chunk(entry)
                # A function that never suspends would keep the loop to itself.
                self._is_round_over = True
                yield from zip(itertools.repeat(entry), range(len(entry.rows)), entry.rows)
            else:
                queue.add_element(entry)
                if queue.has_released and not self._is_flush_scheduled:
                    self._schedule_flush()
        self._items = None

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
        """False where the worker was given up, or everything was."""
        invoke, queue, capacity = self._invoke, self._queue, self._capacity
        is_first = True
        for item in self._items or ():
            slot.item = item
            if is_first:
                is_first = False
                self._start_timer()
                self._spawn()
                self._spawn()
            try:
                results = await invoke(item[2])
                if slot.item is not item:
                    return False
                if type(results) is not list:
                    results = self._check_results(results)
            except (*USER_ERRORS, asyncio.CancelledError) as error:
                if slot.item is item and not self._is_stopping:
                    self._fail(error, item)
                return False
            part = queue.part
            if part is not None and part.chunk is item[0] and ((turn := part.next) is None or turn == item[1]):
                if turn is None:
                    part.positions.append(item[1])
                else:
                    part.next = turn + 1
                part.results.extend(results)
                if part.counts is not None:
                    part.counts.append(len(results))
                continue
            queue.complete(item, results)
            if not self._is_flush_scheduled:
                self._schedule_flush()
            if queue.held and self._active + queue.held > capacity:
                break
            if self._is_round_over:
                self._is_round_over = False
                slot.item = None
                await asyncio.sleep(0)
                if self._is_stopping:
                    return False
        slot.item = None
        return True

    async def _take_batches(self, slot: _Slot) -> bool:
        """As `_take_items`, many records a call. Nothing waits for a batch to fill: what there is is taken."""
        queue, size = self._queue, self._load
        is_first = True
        while batch := list(itertools.islice(self._items or (), size)):
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
                checked = [self._check_results(of_one) for of_one in results]
                if len(checked) != len(batch):
                    raise RuntimeError(f"async_invoke_batch gave {len(checked)} lists for {len(batch)} records")
            except (*USER_ERRORS, asyncio.CancelledError) as error:
                if slot.item is batch and not self._is_stopping:
                    self._fail(error, batch[0])
                return False
            slot.item = None
            for item, of_one in zip(batch, checked):
                queue.complete(item, of_one)
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
        """Hand over what this round of the loop has released."""
        self._is_flush_scheduled = False
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
        """Give up the calls that have been seen for too long."""
        self._timer = None
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
        """The records have timed out: their call is cancelled, and their results are those of `time_out`."""
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
        """An error in a callback of ours would leave the operator waiting for ever; others are only logged."""
        callback = getattr(context.get("handle"), "_callback", None)
        if getattr(callback, "__self__", None) is self and (error := context.get("exception")) is not None:
            self._fail(error, None)
        else:
            loop.default_exception_handler(context)


def checked_results(results: Any, function: Any) -> list[Any]:
    """The results as a list.

    Raises: RuntimeError where they are none.
    """
    if isinstance(results, Iterable):
        return list(results)
    fault = "cannot be none" if results is None else "should be of list type"
    raise RuntimeError(
        f"The result of AsyncFunction {fault}, please check the methods 'async_invoke' and 'timeout' of class "
        f"'{type(function)}'."
    )


def with_retries(invoke: Invoke, strategy: Any) -> Invoke:
    """`invoke`, tried again as the strategy says; a delay keeps the record's place and nothing else."""
    predicate = strategy.get_retry_predicate()
    retry_result, retry_error = predicate.result_predicate(), predicate.exception_predicate()
    if retry_result is None and retry_error is None:
        return invoke

    async def invoke_until_good(value: Any) -> Any:
        attempt = 1
        while True:
            try:
                results = await invoke(value)
            except Exception as error:
                if retry_error is None or not retry_error(error) or not strategy.can_retry(attempt):
                    raise
            else:
                is_good = results is None or retry_result is None or not retry_result(results)
                if is_good or not strategy.can_retry(attempt):
                    return results
            await asyncio.sleep(strategy.get_backoff_time_millis(attempt) / 1000)
            attempt += 1

    return invoke_until_good
