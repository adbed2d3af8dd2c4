"""The log of a service process: levels, format and rate limits."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator

import pytest

from flinkpy.client.local_cluster import set_shared_output_defaults
from flinkpy.common.configuration import Configuration
from flinkpy.common.error_text import escaped
from flinkpy.logs.formats import CONTINUATION_MARK, MAX_RECORD_CHARS, TextFormatter
from flinkpy.logs.handler import RUNTIME_LOGGERS, SITE_BURST, RateLimitedHandler
from flinkpy.logs.setup import configure_logging


@pytest.fixture
def bare_logging() -> Iterator[None]:
    """Resets the `logging` module to the state of a new process and restores it afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in RUNTIME_LOGGERS}
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, old in levels.items():
        logging.getLogger(name).setLevel(old)


def log_of(entries: dict[str, str]) -> str:
    """Logs at three levels with the loggers of a function and of flinkpy. Returns the written lines."""
    configuration = Configuration()
    for key, value in entries.items():
        configuration.set_string(key, value)
    stream = io.StringIO()
    logging.getLogger().handlers.clear()
    configure_logging(configuration, stream)
    for name in ("my.job", "flinkpy.taskexecutor"):
        logger = logging.getLogger(name)
        logger.info("%s info", name)
        logger.warning("%s warning", name)
        logger.error("%s error", name)
    return "\n".join(line.partition(" - ")[2] for line in stream.getvalue().splitlines())


@pytest.mark.usefixtures("bare_logging")
def test_a_shared_output_shows_warnings_of_functions_and_only_errors_of_flinkpy() -> None:
    entries: dict[str, str] = {}
    set_shared_output_defaults(entries)
    assert log_of(entries) == "my.job warning\nmy.job error\nflinkpy.taskexecutor error"


@pytest.mark.usefixtures("bare_logging")
def test_the_log_level_applies_to_flinkpy_unless_the_runtime_level_is_set() -> None:
    entries = {"env.log.level": "INFO"}
    set_shared_output_defaults(entries)
    assert len(log_of(entries).splitlines()) == 6
    entries["env.log.runtime-level"] = "OFF"
    assert log_of(entries) == "my.job info\nmy.job warning\nmy.job error"


@pytest.mark.usefixtures("bare_logging")
def test_warnings_of_functions_are_logged() -> None:
    stream = io.StringIO()
    logging.getLogger().handlers.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        configure_logging(Configuration(), stream)
        warnings.warn("the input looks odd", UserWarning, stacklevel=1)
        logging.captureWarnings(False)
    assert "py.warnings - " in stream.getvalue() and "UserWarning: the input looks odd" in stream.getvalue()


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def record(text: str, name: str = "my.job") -> logging.LogRecord:
    return logging.LogRecord(name, logging.WARNING, __file__, 1, text, (), None)


def test_records_above_the_limit_are_dropped_and_counted() -> None:
    clock, stream = Clock(), io.StringIO()
    handler = RateLimitedHandler(stream, per_second=2, clock=clock)
    for number in range(25):
        handler.handle(record(f"record {number}"))
    assert stream.getvalue().splitlines() == [f"record {number}" for number in range(10)], "a burst of 5 s"
    clock.now_s += 1
    handler.handle(record("later"))
    assert stream.getvalue().splitlines()[10:] == [
        "15 log records were dropped: more than env.log.rate-limit (2) per second",
        "later",
    ]


def test_closing_the_log_reports_the_last_dropped_records() -> None:
    stream = io.StringIO()
    handler = RateLimitedHandler(stream, per_second=1, clock=Clock())
    for _ in range(6):
        handler.handle(record("again"))
    handler.close()
    assert stream.getvalue().splitlines()[5:] == [
        "1 log records were dropped: more than env.log.rate-limit (1) per second"
    ]


def test_records_of_flinkpy_are_not_limited_and_zero_means_no_limit() -> None:
    stream = io.StringIO()
    limited = RateLimitedHandler(stream, per_second=1, clock=Clock())
    unlimited = RateLimitedHandler(stream, per_second=0, clock=Clock())
    for _ in range(100):
        limited.handle(record("runtime", "flinkpy.rpc"))
        unlimited.handle(record("function"))
    assert stream.getvalue().count("runtime\n") == 100 and stream.getvalue().count("function\n") == 100


@pytest.mark.usefixtures("bare_logging")
def test_a_record_is_valid_text_of_bounded_size() -> None:
    stream = io.StringIO()
    logging.getLogger().handlers.clear()
    configure_logging(Configuration(), stream)
    try:
        raise ValueError("\ud800" + "x" * 1_000_000)
    except ValueError as error:
        logging.getLogger("my.job").exception("failed: %s", error)

    written = stream.getvalue()
    written.encode()
    assert (
        "failed: \\ud800xxx" in written
        and len(written) <= MAX_RECORD_CHARS + 100 + written.count(CONTINUATION_MARK) * 4
    )


def logger_of(stream: io.StringIO, clock: Callable[[], float] = lambda: 0.0, name: str = "flinkpy.x") -> logging.Logger:
    handler = RateLimitedHandler(stream, 0, clock)
    handler.setFormatter(TextFormatter())
    logger = logging.Logger(name)
    logger.addHandler(handler)
    return logger


INJECTED = (
    "\n2026-01-01 00:00:00 INFO flinkpy.dispatcher - x is FINISHED\r\x1b[2J\x1b]0;owned\x07\x9b\u202e\u2028\ud800"
)


def test_text_of_callers_cannot_forge_a_record_or_act_on_a_terminal() -> None:
    stream = io.StringIO()
    logger = logger_of(stream)
    logger.error("job %s", INJECTED)
    try:
        raise ValueError(INJECTED)
    except ValueError:
        logger.exception("failed")
    text = stream.getvalue()
    assert all(line.startswith(CONTINUATION_MARK) for line in text.split("\n")[:-1] if "flinkpy.dispatcher" in line)
    assert len([line for line in text.split("\n")[:-1] if not line.startswith(CONTINUATION_MARK)]) == 2
    assert text.replace("\n", "").isprintable()
    assert r"FINISHED\r\x1b[2J\x1b]0;owned\x07\x9b\u202e\u2028\ud800" in text
    assert f'{CONTINUATION_MARK}  File "{__file__}"' in text  # a traceback stays as readable as it was


def test_text_of_all_languages_and_tabs_stay_unchanged() -> None:
    assert escaped("naïve\tüñí 漢字 🎈") == "naïve\tüñí 漢字 🎈"


def test_repeated_warnings_of_one_place_are_dropped_and_counted() -> None:
    stream, now = io.StringIO(), [0.0]
    logger = logger_of(stream, lambda: now[0])
    for number in range(20_000):
        logger.warning("bad encoding %d", number)
    logger.error("something else")
    logger.info("a record that no caller brings about")
    lines = stream.getvalue().splitlines()
    assert len(lines) == SITE_BURST + 3
    assert "19800 more records from flinkpy.x" in lines[-3]
    now[0] = 60.0
    logger.warning("something else again")
    assert "bad encoding" not in stream.getvalue().splitlines()[-1]
    for handler in logger.handlers:
        handler.close()
    assert len(stream.getvalue().splitlines()) == SITE_BURST + 4
    assert len(stream.getvalue()) < 40_000


def test_closing_the_log_reports_dropped_warnings() -> None:
    stream = io.StringIO()
    logger = logger_of(stream)
    for _ in range(SITE_BURST + 5):
        logger.warning("bad")
    for handler in logger.handlers:
        handler.close()
    assert "5 more records from" in stream.getvalue().splitlines()[-1]


def test_information_of_flinkpy_is_never_dropped() -> None:
    stream = io.StringIO()
    logger = logger_of(stream)
    for number in range(2_000):
        logger.info("task %d is RUNNING", number)
    assert len(stream.getvalue().splitlines()) == 2_000
