"""Inquiries: answers of the services that are kept for a moment, so that a hundred viewers cost as much as one.

An answer younger than a limit is given again, and callers that ask while an answer is on its way share it. Somebody
who asks again before the answer is too old starts the next question, but does not wait for it. If a service does not
answer in time, callers get its last answer, which is marked by its age.

Source: org.apache.flink.runtime.rest.handler.legacy.{DefaultExecutionGraphCache,metrics.MetricFetcherImpl}.
Thread: one asyncio loop.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from flinkpy.common.errors import RpcTimeoutError, RpcUnavailableError

#: The part of its greatest age from which on an answer that is still asked for is replaced. A page that polls more
#: often never waits for a service then.
_RENEWED_AT = 0.6
#: How long a caller waits for a new answer if there is an old one. A page that polls shows the old one meanwhile.
PATIENCE_S = 2.0
#: Answers that are kept. The answer for a vertex of 300 subtasks has about 200 kB.
MAX_ANSWERS = 128

T = TypeVar("T")


@dataclass(slots=True)
class _Answer:
    value: Any
    asked_ms: int


class Inquiries:
    """The answers that are kept, by what was asked."""

    def __init__(self) -> None:
        #: In the order of their use.
        self._answers: OrderedDict[tuple[Hashable, ...], _Answer] = OrderedDict()
        self._asking: dict[Hashable, asyncio.Future[Any]] = {}

    async def ask(
        self,
        key: tuple[Hashable, ...],
        fetch: Callable[[], Coroutine[Any, Any, T]],
        now_ms: int,
        max_age_ms: int,
        max_kept: int | None = None,
    ) -> tuple[T, int]:
        """Returns the answer and its age in ms, which is above `max_age_ms` only if the service does not answer.

        Args:
            key: what is asked for. The first part is the kind of the question.
            fetch: asks the service.
            now_ms: the monotonic time.
            max_kept: the number of answers to questions of this kind that are kept; None: MAX_ANSWERS.

        Raises: the errors of `fetch`.
        """
        kept = self._answers.get(key)
        age_ms = math.inf if kept is None else now_ms - kept.asked_ms
        asking = self._asking.get(key)
        if asking is None and age_ms >= max_age_ms * _RENEWED_AT:
            asking = self._asking[key] = asyncio.ensure_future(fetch())
            asking.add_done_callback(lambda done: self._answered(key, done, now_ms, max_kept))
        if kept is not None and age_ms < max_age_ms:
            self._answers.move_to_end(key)
            return kept.value, now_ms - kept.asked_ms
        assert asking is not None
        # It goes on for later callers if this one gives up.
        done, _ = await asyncio.wait({asking}, timeout=None if kept is None else PATIENCE_S)
        try:
            if done or kept is None:
                return asking.result(), 0
        except (RpcUnavailableError, RpcTimeoutError):
            if kept is None:
                raise
        return kept.value, now_ms - kept.asked_ms

    def _answered(
        self, key: tuple[Hashable, ...], done: asyncio.Future[Any], asked_ms: int, max_kept: int | None
    ) -> None:
        self._asking.pop(key, None)
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            self._answers[key] = _Answer(done.result(), asked_ms)
            self._answers.move_to_end(key)
            while len(self._answers) > MAX_ANSWERS:
                self._answers.popitem(last=False)
            if max_kept is not None:
                kept = [one for one in self._answers if one[0] == key[0]]
                for surplus in kept[: max(0, len(kept) - max_kept)]:
                    del self._answers[surplus]
        elif not isinstance(error, (RpcUnavailableError, RpcTimeoutError)):
            self._answers.pop(key, None)  # e.g. the job is forgotten
