"""CollectIterator: the client's end of a CollectSink."""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from flinkpy.common.errors import ErrorRetry, FlinkError, JobExecutionError
from flinkpy.connectors.collect_payload import decode_payload
from flinkpy.connectors.collect_protocol import CollectRequest, CollectResponse

#: Per request: several of the writer's largest batches, below the RPC layer's message limit.
_MAX_RESPONSE_BYTES = 2 << 20
#: An empty answer is asked for again after this long, doubled up to the maximum. The first is short, because a result
#: that comes in small batches should be seen as it comes; the last is Flink's own interval.
_FIRST_WAIT_S = 0.002
_LAST_WAIT_S = 0.1
#: How long a request that cannot be answered (the JobMaster is only starting, or is being replaced) is repeated.
_RETRY_FOR_S = 60.0


class CollectIterator(Iterator[Any]):
    """Iterates over the records that a CollectSink takes, while the job runs. Thread: the user's.

    Args:
        request: sends a payload to the sink's coordinator and returns its answer
            (`Dispatcher.SendCoordinationRequest`). It may raise any FlinkError: those with `retry` BACKOFF are tried
            again for a minute, all others reach the user. A request may be repeated: it changes nothing twice.
        on_close: called once, when everything was read or `close()` was called.
        wait: sleeps for so many seconds.

    Raises:
        JobExecutionError: the job was restarted from its beginning after some of its result had been read.

    Source: org.apache.flink.streaming.api.operators.collect.{CollectResultIterator, CollectResultFetcher}.
    """

    def __init__(
        self,
        request: Callable[[bytes], bytes],
        on_close: Callable[[], None] | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._request = request
        self._on_close = on_close
        self._wait = wait
        self._records: deque[Any] = deque()
        self._next_sequence = 0
        self._is_closed = False

    def __next__(self) -> Any:
        while not self._records:
            if self._is_closed:
                raise StopIteration
            self._fetch()
        return self._records.popleft()

    def close(self) -> None:
        """Want no more: the job's sink drops what follows. A second call does nothing."""
        self._records.clear()
        if not self._is_closed:
            self._send_close()

    def __enter__(self) -> CollectIterator:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _fetch(self) -> None:
        """Take over the next batches; waits until there are some, or the end."""
        wait_s = _FIRST_WAIT_S
        while True:
            response = self._ask(CollectRequest(self._next_sequence, _MAX_RESPONSE_BYTES))
            if response.failure:
                self._send_close()
                raise JobExecutionError(response.failure)
            for payload in response.batches:
                self._records.extend(decode_payload(payload))
            self._next_sequence = response.next_sequence
            if response.finished:
                self._send_close()
                return
            if self._records:
                return
            self._wait(wait_s)
            wait_s = min(2 * wait_s, _LAST_WAIT_S)

    def _ask(self, request: CollectRequest) -> CollectResponse:
        payload = pickle.dumps(request, protocol=pickle.HIGHEST_PROTOCOL)
        waited_s = 0.0
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                return pickle.loads(self._request(payload))
            except FlinkError as error:
                if error.retry is not ErrorRetry.BACKOFF or waited_s >= _RETRY_FOR_S:
                    # Nobody will read the rest: the job must not wait for that.
                    self._send_close()
                    raise
            self._wait(wait_s)
            waited_s += wait_s
            wait_s = min(2 * wait_s, _LAST_WAIT_S)

    def _send_close(self) -> None:
        self._is_closed = True
        request = CollectRequest(self._next_sequence, 0, close=True)
        try:
            self._request(pickle.dumps(request, protocol=pickle.HIGHEST_PROTOCOL))
        except FlinkError:
            # The job is over already, or cannot be reached; the coordinator does without after a while.
            return
        finally:
            if self._on_close is not None:
                self._on_close()
