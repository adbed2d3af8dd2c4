"""Sets up the log of a service process: which records are written, how, and how many of them.

User functions run in the same processes as flinkpy, so the two have levels of their own: a program with an embedded
cluster shows the warnings of its functions without showing what the services say about themselves.

What callers and user functions have sent is part of many records. So no record can look like another one: control
characters are escaped, and every line after a record's first begins with a mark. And no caller can bury the log: what
one place in flinkpy warns of again and again is counted, not written.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from flinkpy.common.error_text import MAX_MESSAGE_CHARS, MAX_TRACEBACK_CHARS, bounded_text, format_traceback
from flinkpy.common.printable import escaped

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration

_FORMAT = "%(asctime)s %(levelname)-5s [%(threadName)s] %(name)s - %(message)s"

#: Loggers of flinkpy itself and of the libraries that only flinkpy uses.
RUNTIME_LOGGERS = ("flinkpy", "grpc", "kazoo")

#: Longest record: an error's message and its traceback.
MAX_RECORD_CHARS = MAX_MESSAGE_CHARS + MAX_TRACEBACK_CHARS

#: Begins each further line of a record, so that only a record's own first line begins with a time.
CONTINUATION_MARK = "  | "

#: Warnings of one place in flinkpy that are written at once, and a second afterwards. Each subtask of a large job may
#: fail at the same time; thousands of warnings alike tell no more than these and their number.
SITE_BURST = 200
SITE_RECORDS_PER_S = 2.0

#: A burst may hold this many seconds' worth of records, so that a traceback logged per subtask at start is whole.
_BURST_S = 5.0
#: How often it is told how many warnings of one place were left out.
_REPORT_INTERVAL_S = 10.0


def configure_logging(configuration: Configuration, stream: TextIO | None = None) -> None:
    """Log to standard error as `env.log.level`, `env.log.runtime-level` and `env.log.rate-limit` say.

    Warnings of Python's `warnings` module are logged too, by the logger `py.warnings`.
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
    """Formats log records as valid text of a bounded size, which cannot pass for another record or act on a terminal.

    What callers send and users' functions raise is part of records, with its traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        text = bounded_text(escaped(super().format(record)), MAX_RECORD_CHARS)
        return text.replace("\n", f"\n{CONTINUATION_MARK}")

    def formatException(self, ei: Any) -> str:
        return format_traceback(ei[1]).rstrip("\n") if ei[1] is not None else super().formatException(ei)


class RateLimitedHandler(logging.StreamHandler[TextIO]):
    """Writes at most `per_second` records of user functions a second on average and says how many it left out.

    A function that logs per record would otherwise bury a terminal and cost more than the job does. A token bucket:
    bursts of a few seconds' worth pass whole. 0 is no limit.

    Records of flinkpy itself below WARNING are never left out, because no caller can bring them about at will. Each
    place that warns has a bucket of its own.

    Thread: any; `logging` holds the handler's lock around `emit`.
    """

    def __init__(self, stream: TextIO, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._per_second = per_second
        self._clock = clock
        self._functions = _Bucket(per_second, per_second * _BURST_S, clock())
        #: By the place in flinkpy's code, so there are no more of them than such places.
        self._sites: dict[tuple[str, int], _Bucket] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] in RUNTIME_LOGGERS:
            if record.levelno >= logging.WARNING and not self._site_of(record).take(self._clock()):
                return
        elif self._per_second > 0 and not self._functions.take(self._clock()):
            return
        self._tell_left_out()
        super().emit(record)

    def _site_of(self, record: logging.LogRecord) -> _Bucket:
        key = (record.pathname, record.lineno)
        bucket = self._sites.get(key)
        if bucket is None:
            bucket = self._sites[key] = _Bucket(SITE_RECORDS_PER_S, SITE_BURST, self._clock(), record.name)
        return bucket

    def close(self) -> None:
        """Say what has been left out since the last record."""
        self.acquire()
        try:
            self._tell_left_out(is_end=True)
        finally:
            self.release()
        super().close()

    def _tell_left_out(self, *, is_end: bool = False) -> None:
        count = self._functions.left_out
        if count:
            self._functions.left_out = 0
            self._tell(
                f"%d log records were left out: more than env.log.rate-limit ({self._per_second}) a second", count
            )
        now_s = self._clock()
        for (_, line), site in self._sites.items():
            if site.left_out and (is_end or now_s >= site.next_report_s):
                count, site.left_out = site.left_out, 0
                site.next_report_s = now_s + _REPORT_INTERVAL_S
                self._tell(f"%d records like those of {site.name} (line {line}) were left out", count)

    def _tell(self, text: str, count: int) -> None:
        super().emit(logging.LogRecord("flinkpy.logging", logging.WARNING, __file__, 0, text, (count,), None))


class _Bucket:
    """A token bucket, and how many records found it empty.

    Attributes:
        name: of the logger.
        next_report_s: when the number may be told again.
    """

    def __init__(self, per_second: float, burst: float, now_s: float, name: str = "") -> None:
        self.name = name
        self.left_out = 0
        self.next_report_s = 0.0
        self._per_second = per_second
        self._burst = burst
        self._tokens = burst
        self._refilled_s = now_s

    def take(self, now_s: float) -> bool:
        self._tokens = min(self._burst, self._tokens + (now_s - self._refilled_s) * self._per_second)
        self._refilled_s = now_s
        if self._tokens < 1:
            self.left_out += 1
            return False
        self._tokens -= 1
        return True
