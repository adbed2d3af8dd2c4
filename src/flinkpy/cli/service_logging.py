"""Sets up the log of a service process: levels, format and rate limits.

User functions run in the same processes as flinkpy, so each has its own level: a program with an embedded
cluster shows the warnings of its functions without those of the services.

Many records contain text from callers and user functions. To prevent forged records, control characters are escaped,
and each line of a record after its first begins with a mark. To prevent floods, repeated warnings from one place in
flinkpy are counted and not written.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from flinkpy.common.error_text import MAX_MESSAGE_CHARS, MAX_TRACEBACK_CHARS, bounded_text, escaped, format_traceback

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration

_FORMAT = "%(asctime)s %(levelname)-5s [%(threadName)s] %(name)s - %(message)s"

#: Loggers of flinkpy itself and of the libraries that only flinkpy uses.
RUNTIME_LOGGERS = ("flinkpy", "grpc", "kazoo")

#: Longest record: the message of an error and its traceback.
MAX_RECORD_CHARS = MAX_MESSAGE_CHARS + MAX_TRACEBACK_CHARS

#: Begins each further line of a record, so that only the first line of a record begins with a time.
CONTINUATION_MARK = "  | "

#: Number of warnings that one place in flinkpy may write in a burst, and per second after it. All subtasks of a large
#: job may fail at once; thousands of equal warnings say no more than these and their number.
SITE_BURST = 200
SITE_RECORDS_PER_S = 2.0

#: Seconds of records that a burst may hold, so that tracebacks logged by each subtask at the start are complete.
_BURST_S = 5.0
#: Interval of the reports on how many warnings of one place were dropped.
_REPORT_INTERVAL_S = 10.0


def configure_logging(configuration: Configuration, stream: TextIO | None = None) -> None:
    """Logs to standard error by `env.log.level`, `env.log.runtime-level` and `env.log.rate-limit`.

    The logger `py.warnings` also logs the warnings of Python's `warnings` module.
    """
    from flinkpy.configuration import core_options, read_option

    level = _numeric(read_option(configuration, core_options.LOG_LEVEL))
    runtime_level = read_option(configuration, core_options.LOG_RUNTIME_LEVEL)
    handler = RateLimitedHandler(
        sys.stderr if stream is None else stream, read_option(configuration, core_options.LOG_RATE_LIMIT)
    )
    handler.setFormatter(BoundedFormatter(_FORMAT))
    logging.basicConfig(level=level, handlers=[handler])
    logging.captureWarnings(True)
    if runtime_level is not None:
        for name in RUNTIME_LOGGERS:
            logging.getLogger(name).setLevel(_numeric(runtime_level))


def _numeric(level: str) -> int:
    special = {"TRACE": logging.DEBUG, "OFF": logging.CRITICAL + 1}
    return special[level] if level in special else logging.getLevelNamesMapping()[level]


class BoundedFormatter(logging.Formatter):
    """Formats a record as text of bounded size that cannot look like another record or act on a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        text = bounded_text(escaped(super().format(record)), MAX_RECORD_CHARS)
        return text.replace("\n", f"\n{CONTINUATION_MARK}")

    def formatException(self, ei: Any) -> str:
        return format_traceback(ei[1]).rstrip("\n") if ei[1] is not None else super().formatException(ei)


class RateLimitedHandler(logging.StreamHandler[TextIO]):
    """Writes at most `per_second` records of user functions per second on average, and reports how many it dropped.

    A function that logs per record would otherwise flood a terminal and cost more than the job. A token bucket lets
    bursts of a few seconds pass whole. 0 means no limit.

    Records of flinkpy below WARNING are never dropped, because callers cannot cause them at will. Each place in
    flinkpy that warns has its own bucket.

    Thread: any; `logging` holds the handler's lock around `emit`.
    """

    def __init__(self, stream: TextIO, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._per_second = per_second
        self._clock = clock
        self._functions = _Bucket(per_second, per_second * _BURST_S, clock())
        #: One bucket per place in flinkpy's code, so their number is bounded.
        self._sites: dict[tuple[str, int], _Bucket] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] in RUNTIME_LOGGERS:
            if record.levelno >= logging.WARNING and not self._site_of(record).take(self._clock()):
                return
        elif self._per_second > 0 and not self._functions.take(self._clock()):
            return
        self._report_dropped()
        super().emit(record)

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
