"""The handler of a service's log: levels per job, rate limits, and the output of tasks.

Many records contain text from callers and user functions. To prevent floods, repeated warnings from one place in
flinkpy are counted and not written.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TextIO

from flinkpy.common.clock import SystemClock
from flinkpy.logs.context import LogContext
from flinkpy.logs.formats import CONTEXT_ATTRIBUTE, JsonFormatter, TextFormatter, context_of

#: Loggers of flinkpy itself and of the libraries that only flinkpy uses.
RUNTIME_LOGGERS = ("flinkpy", "grpc", "kazoo")

#: Number of warnings that one place in flinkpy may write in a burst, and per second after it. All subtasks of a large
#: job may fail at once; thousands of equal warnings say no more than these and their number.
SITE_BURST = 200
SITE_RECORDS_PER_S = 2.0

#: Seconds of records that a burst may hold, so that tracebacks logged by each subtask at the start are complete.
_BURST_S = 5.0
#: Interval of the reports on how many warnings of one place were dropped.
_REPORT_INTERVAL_S = 10.0

_CLOCK = SystemClock()

#: True if a record of this job (None: no job), logger and level is wanted.
Wanted = Callable[[str | None, str, int], bool]


class RateLimitedHandler(logging.StreamHandler[TextIO]):
    """Writes at most `per_second` records of user functions per second on average, and reports how many it dropped.

    A function that logs per record would otherwise flood a terminal and cost more than the job. A token bucket lets
    bursts of a few seconds pass whole. 0 means no limit.

    Records of flinkpy below WARNING are never dropped, because callers cannot cause them at will. Each place in
    flinkpy that warns has its own bucket.

    Thread: any; `logging` holds the handler's lock around `emit`.

    Attributes:
        wanted: decides by the job of a record; None while no job has a level of its own.
    """

    def __init__(self, stream: TextIO, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self.wanted: Wanted | None = None
        self._per_second = per_second
        self._clock = clock
        self._functions = _Bucket(per_second, per_second * _BURST_S, clock())
        #: One bucket per place in flinkpy's code, so their number is bounded.
        self._sites: dict[tuple[str, int], _Bucket] = {}

    def emit(self, record: logging.LogRecord) -> None:
        context = context_of(record)
        setattr(record, CONTEXT_ATTRIBUTE, context)
        if self.wanted is not None and not self.wanted(
            None if context is None else context.job_id, record.name, record.levelno
        ):
            return
        if record.name.partition(".")[0] in RUNTIME_LOGGERS:
            if record.levelno >= logging.WARNING and not self._site_of(record).take(self._clock()):
                return
        elif self._per_second > 0 and not self._functions.take(self._clock()):
            return
        self._report_dropped()
        super().emit(record)

    def emit_output(self, context: LogContext, name: str, lines: list[str]) -> None:
        """Writes lines that a task has printed. Output is not limited: a program that prints wants all of it."""
        if self.wanted is not None and not self.wanted(context.job_id, name, logging.INFO):
            return
        created, thread = _CLOCK.now_ms() / 1000, threading.current_thread().name
        self.acquire()
        try:
            formatter = self.formatter
            assert isinstance(formatter, (TextFormatter, JsonFormatter))
            shown = [formatter.format_output(created, context, thread, name, line) for line in lines]
            self.stream.write("\n".join(shown) + "\n")
            self.flush()
        finally:
            self.release()

    def _site_of(self, record: logging.LogRecord) -> _Bucket:
        key = (record.pathname, record.lineno)
        bucket = self._sites.get(key)
        if bucket is None:
            bucket = self._sites[key] = _Bucket(SITE_RECORDS_PER_S, SITE_BURST, self._clock(), record.name)
        return bucket

    def close(self) -> None:
        """Reports the records that were dropped since the last report."""
        self.acquire()
        try:
            self._report_dropped(is_end=True)
        finally:
            self.release()
        super().close()

    def _report_dropped(self, *, is_end: bool = False) -> None:
        count = self._functions.dropped
        if count:
            self._functions.dropped = 0
            self._report(
                f"%d log records were dropped: more than env.log.rate-limit ({self._per_second}) per second", count
            )
        now_s = self._clock()
        for (_, line), site in self._sites.items():
            if site.dropped and (is_end or now_s >= site.next_report_s):
                count, site.dropped = site.dropped, 0
                site.next_report_s = now_s + _REPORT_INTERVAL_S
                self._report(f"%d more records from {site.name} (line {line}) were dropped", count)

    def _report(self, text: str, count: int) -> None:
        super().emit(logging.LogRecord("flinkpy.logging", logging.WARNING, __file__, 0, text, (count,), None))


class _Bucket:
    """A token bucket that counts the records it had no token for.

    Attributes:
        name: name of the logger.
        dropped: records that got no token since the last report.
        next_report_s: earliest time of the next report.
    """

    def __init__(self, per_second: float, burst: float, now_s: float, name: str = "") -> None:
        self.name = name
        self.dropped = 0
        self.next_report_s = 0.0
        self._per_second = per_second
        self._burst = burst
        self._tokens = burst
        self._refilled_s = now_s

    def take(self, now_s: float) -> bool:
        self._tokens = min(self._burst, self._tokens + (now_s - self._refilled_s) * self._per_second)
        self._refilled_s = now_s
        if self._tokens < 1:
            self.dropped += 1
            return False
        self._tokens -= 1
        return True
