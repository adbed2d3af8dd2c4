"""CollectIterator: the client's end of a CollectSink."""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from flinkpy.common.errors import ErrorRetry, FlinkError, InternalError, JobExecutionError
from flinkpy.connectors.collect_protocol import (
    CollectRequest,
    CollectResponse,
    Guarantee,
    PayloadAssembler,
    SubtaskResult,
    decode_payload,
)

#: The size of an answer: several of the writer's largest batches, below the RPC layer's message limit.
_MAX_RESPONSE_BYTES = 2 << 20
#: The pause after an empty answer, which doubles up to the maximum. The first pause is short, so that small batches are
#: returned as they come. The maximum is Flink's interval.
_FIRST_WAIT_S = 0.002
_LAST_WAIT_S = 0.1
#: How long to repeat a request that fails because the JobMaster is starting or is being replaced.
_RETRY_FOR_S = 60.0


class _Subtask:
    """The client's part of one subtask's result.

    Batches below `given` have been returned to the user. Batches from `given` to `next_sequence` are held back until a
    completed checkpoint contains them.
    """

    def __init__(self, decode: Callable[[bytes], list[Any]]) -> None:
        self.version = ""
        self.given = 0
        self.held_back: deque[bytes] = deque()
        self.assembler = PayloadAssembler(decode)

    @property
    def next_sequence(self) -> int:
        return self.given + len(self.held_back)

    def begin(self, result: SubtaskResult) -> None:
        """Handles the start or restart of the writer.

        A restored writer sends the batches that the client did not have at the checkpoint again, from `first_sequence`
        on. Held batches below that number stay valid. Later ones are dropped, because the writer sends or produces them
        again.

        Raises:
            JobExecutionError: the writer restarts before batches that were returned to the user.
        """
        start = result.start
        self.version = start.version
        if start.guarantee is Guarantee.AT_LEAST_ONCE and start.first_sequence < self.given:
            self.given = start.first_sequence
            self.held_back.clear()
            self.assembler.reset()  # a writer never begins in the middle of a payload
        if start.restored_sequence < self.given:
            raise JobExecutionError(
                "the job was restarted from its beginning after a part of its result had been read; "
                "the result cannot be continued, run the job again"
                if not start.restored_sequence
                else "the job was restored from a checkpoint before a part of its result that had been read; "
                "the result cannot be continued, run the job again"
            )
        if start.first_sequence > self.next_sequence:
            raise InternalError(
                f"batches {self.next_sequence} to {start.first_sequence} of the result are lost: they count as read"
            )
        while self.held_back and self.next_sequence > start.first_sequence:
            self.held_back.pop()

    def take(self, result: SubtaskResult) -> Iterator[bytes]:
        """Adds batches. Yields those that may be returned to the user now."""
        for sequence, payload in result.batches:
            if sequence == self.next_sequence:
                self.held_back.append(payload)
        is_held_back = result.start.guarantee is Guarantee.EXACTLY_ONCE
        while self.held_back and (not is_held_back or self.given < result.confirmed_sequence):
            self.given += 1
            yield self.held_back.popleft()


class CollectIterator(Iterator[Any]):
    """Iterates over the records of a CollectSink while the job runs. Thread: the user's.

    With exactly-once checkpoints it returns the records of completed checkpoints, and keeps later records in memory.

    Args:
        request: sends a payload to the sink's coordinator and returns the answer
            (`Dispatcher.SendCoordinationRequest`). It may raise any FlinkError. Those with `retry` BACKOFF are retried
            for a minute, all others reach the user. Repeating a request has no further effect.
        on_close: called once, when everything was read or `close()` was called.
        wait: sleeps for a number of seconds.
        decode: returns the elements of a payload: records, or batches with `decode_batch`.

    Raises:
        JobExecutionError: the job restarted from its beginning after a part of its result had been read.

    Source: org.apache.flink.streaming.api.operators.collect.{CollectResultIterator, CollectResultFetcher}.
    """

    def __init__(
        self,
        request: Callable[[bytes], bytes],
        on_close: Callable[[], None] | None = None,
        wait: Callable[[float], None] = time.sleep,
        decode: Callable[[bytes], list[Any]] = decode_payload,
    ) -> None:
        self._decode = decode
        self._request = request
        self._on_close = on_close
        self._wait = wait
        self._records: deque[Any] = deque()
        self._subtasks: dict[int, _Subtask] = {}
        self._is_closed = False

    def __next__(self) -> Any:
        while not self._records:
            if self._is_closed:
                raise StopIteration
            self._fetch()
        return self._records.popleft()

    def close(self) -> None:
        """Ends the iteration. The job's sink drops the remaining records. A second call has no effect."""
        self._records.clear()
        if not self._is_closed:
            self._send_close()

    def __enter__(self) -> CollectIterator:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _fetch(self) -> None:
        """Fetches the next batches. Waits until there are some or the result ends."""
        wait_s = _FIRST_WAIT_S
        while True:
            response = self._ask(self._next_request(_MAX_RESPONSE_BYTES))
            try:
                has_begun = self._take(response)
            except FlinkError:
                self._send_close()
                raise
            if response.finished:
                self._send_close()
                return
            if self._records:
                return
            if has_begun:
                continue
            self._wait(wait_s)
            wait_s = min(2 * wait_s, _LAST_WAIT_S)

    def _take(self, response: CollectResponse) -> bool:
        """Takes batches from an answer. Returns True if a writer has started, so that its batches can be requested."""
        has_begun = False
        for subtask_index, result in sorted(response.subtasks.items()):
            subtask = self._subtasks.get(subtask_index)
            if subtask is None:
                subtask = self._subtasks[subtask_index] = _Subtask(self._decode)
            if subtask.version != result.start.version:
                has_begun = True
                subtask.begin(result)
            for payload in subtask.take(result):
                self._records.extend(subtask.assembler.take(payload))
        return has_begun

    def _next_request(self, max_bytes: int, *, close: bool = False) -> CollectRequest:
        positions = {index: (subtask.version, subtask.next_sequence) for index, subtask in self._subtasks.items()}
        return CollectRequest(positions, max_bytes, close)

    def _ask(self, request: CollectRequest) -> CollectResponse:
        payload = pickle.dumps(request, protocol=pickle.HIGHEST_PROTOCOL)
        waited_s = 0.0
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                return pickle.loads(self._request(payload))
            except FlinkError as error:
                if error.retry is not ErrorRetry.BACKOFF or waited_s >= _RETRY_FOR_S:
                    # Nobody will read the rest, so the job must not wait for a reader.
                    self._send_close()
                    raise
            self._wait(wait_s)
            waited_s += wait_s
            wait_s = min(2 * wait_s, _LAST_WAIT_S)

    def _send_close(self) -> None:
        self._is_closed = True
        request = self._next_request(0, close=True)
        try:
            self._request(pickle.dumps(request, protocol=pickle.HIGHEST_PROTOCOL))
        except FlinkError:
            # The job has ended or cannot be reached. The coordinator releases the writers after a while.
            return
        finally:
            if self._on_close is not None:
                self._on_close()
