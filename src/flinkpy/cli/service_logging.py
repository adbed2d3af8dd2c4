"""Sets up the log of a service process: which records are written, how, and how many of them.

User functions run in the same processes as flinkpy, so the two have levels of their own: a program with an embedded
cluster shows the warnings of its functions without showing what the services say about themselves.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from flinkpy.common.error_text import MAX_MESSAGE_CHARS, MAX_TRACEBACK_CHARS, bounded_text, format_traceback

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration

_FORMAT = "%(asctime)s %(levelname)-5s [%(threadName)s] %(name)s - %(message)s"

#: Loggers of flinkpy itself and of the libraries that only flinkpy uses.
RUNTIME_LOGGERS = ("flinkpy", "grpc", "kazoo")

#: Longest record: an error's message and its traceback.
MAX_RECORD_CHARS = MAX_MESSAGE_CHARS + MAX_TRACEBACK_CHARS

#: A burst may hold this many seconds' worth of records, so that a traceback logged per subtask at start is whole.
_BURST_S = 5.0


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
    """Formats log records as valid text of a bounded size: what users' functions raise is logged with its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        return bounded_text(super().format(record), MAX_RECORD_CHARS)

    def formatException(self, ei: Any) -> str:
        return format_traceback(ei[1]).rstrip("\n") if ei[1] is not None else super().formatException(ei)


class RateLimitedHandler(logging.StreamHandler[TextIO]):
    """Writes at most `per_second` records a second on average and says how many it left out.

    A function that logs per record would otherwise bury a terminal and cost more than the job does. A token bucket:
    bursts of a few seconds' worth pass whole. Records of flinkpy itself, and all records where `per_second` is 0, are
    never left out.

    Thread: any; `logging` holds the handler's lock around `emit`.
    """

    def __init__(self, stream: TextIO, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._per_second = per_second
        self._clock = clock
        self._tokens = per_second * _BURST_S
        self._refilled_s = clock()
        self._left_out = 0

    def emit(self, record: logging.LogRecord) -> None:
        if self._per_second > 0 and record.name.partition(".")[0] not in RUNTIME_LOGGERS:
            now_s = self._clock()
            earned = (now_s - self._refilled_s) * self._per_second
            self._tokens = min(self._per_second * _BURST_S, self._tokens + earned)
            self._refilled_s = now_s
            if self._tokens < 1:
                self._left_out += 1
                return
            self._tokens -= 1
        self._tell_left_out()
        super().emit(record)

    def close(self) -> None:
        """Say what has been left out since the last record."""
        self.acquire()
        try:
            self._tell_left_out()
        finally:
            self.release()
        super().close()

    def _tell_left_out(self) -> None:
        if self._left_out == 0:
            return
        count, self._left_out = self._left_out, 0
        text = "%d log records were left out: more than env.log.rate-limit (%d) a second"
        super().emit(
            logging.LogRecord("flinkpy.logging", logging.WARNING, __file__, 0, text, (count, self._per_second), None)
        )
