"""Records in text and JSON: what is written can be read again, and cannot be forged."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from flinkpy.common.errors import FunctionError
from flinkpy.common.ids import JobID
from flinkpy.logs.context import LogContext
from flinkpy.logs.formats import (
    CONTEXT_ATTRIBUTE,
    ERROR_ATTRIBUTE,
    MAX_RECORD_CHARS,
    JsonFormatter,
    TextFormatter,
    parse_line,
)

JOB = "a" * 32
TASK = LogContext(JOB, "words", "b" * 32, "Map", 1, 4, 2, "Map (2/4)")
FORMATTERS = [TextFormatter(), JsonFormatter()]


def record(message: str, *args: Any, context: LogContext | None = TASK, **fields: Any) -> logging.LogRecord:
    made = logging.LogRecord("my.module", logging.WARNING, __file__, 1, message, args, fields.pop("exc_info", None))
    made.created, made.threadName = 1795416672.123, fields.pop("thread", "Map (2/4)")
    setattr(made, CONTEXT_ATTRIBUTE, context)
    return made


def test_a_line_of_text_is_short_and_names_its_task() -> None:
    line = TextFormatter().format(record("read %d rows", 7))
    time, _, rest = line.partition(" WARNING ")
    assert len(time) == len("2026-11-23 06:51:12,123") and time.endswith(",123")
    assert rest == f"[words {JOB} | Map (2/4)#2] my.module - read 7 rows"
    of_thread = TextFormatter().format(record("x", thread="pool 1"))
    assert f"[words {JOB} | Map (2/4)#2 | pool 1] " in of_thread
    assert " [pool 1] my.module - x" in TextFormatter().format(record("x", context=None, thread="pool 1"))


def test_a_line_of_json_has_the_parts_as_members() -> None:
    found = json.loads(JsonFormatter().format(record("read %d rows", 7)))
    assert found == {
        "@timestamp": "2026-11-23T06:51:12.123Z",
        "level": "WARNING",
        "logger": "my.module",
        "thread": "Map (2/4)",
        **TASK.fields,
        "message": "read 7 rows",
    }


def test_json_has_an_exception_in_parts() -> None:
    try:
        raise KeyError("the key")
    except KeyError:
        made = record("failed", exc_info=sys.exc_info())
    found = json.loads(JsonFormatter().format(made))["exception"]
    assert (found["type"], found["message"]) == ("KeyError", "'the key'")
    assert found["frames"][-1] == {
        "file": __file__,
        "line": found["frames"][-1]["line"],
        "function": "test_json_has_an_exception_in_parts",
        "code": 'raise KeyError("the key")',
    }
    assert found["traceback"].startswith("Traceback (most recent call last):")


def test_json_has_the_user_exception_behind_the_failure_of_a_task() -> None:
    try:
        try:
            int("x")
        except ValueError as cause:
            raise FunctionError("Map (1/2): ValueError: x", remote_traceback="Traceback: whole") from cause
    except FunctionError as error:
        made = record("Map is FAILED: %s\n%s", error, error.remote_traceback)
        setattr(made, ERROR_ATTRIBUTE, error)
    line = JsonFormatter().format(made)
    found = json.loads(line)["exception"]
    assert found["type"] == "ValueError" and "invalid literal" in found["message"]
    assert found["frames"][-1]["code"] == 'int("x")' and found["traceback"] == "Traceback: whole"
    read = parse_line(line)
    assert read is not None and read.message.count("Traceback: whole") == 1


@pytest.mark.parametrize("formatter", FORMATTERS, ids=["text", "json"])
@pytest.mark.parametrize("thread", ["Map (2/4)", "pool 1"])
@pytest.mark.parametrize("context", [TASK, LogContext(JOB, "words"), LogContext(JOB), None])
def test_written_records_can_be_read_again(formatter: Any, thread: str, context: LogContext | None) -> None:
    line = formatter.format(record("hello - [x] y", context=context, thread=thread))
    found = parse_line(line)
    assert found is not None and found.timestamp_ms == 1795416672123
    assert (found.level, found.logger, found.message) == ("WARNING", "my.module", "hello - [x] y")
    assert found.thread == thread or found.thread == found.task.rpartition("#")[0]
    assert found.job_id == ("" if context is None else JOB)
    assert found.task == ("Map (2/4)#2" if context is TASK else "")


HOSTILE = '\n2026-01-01 00:00:00,000 INFO  [x] y - z\r\x1b[2J\u202e\u2028\ud800\x00\x85{"@timestamp":1}'


@pytest.mark.parametrize("formatter", FORMATTERS, ids=["text", "json"])
def test_no_text_of_users_can_begin_a_record_or_act_on_a_terminal(formatter: Any) -> None:
    context = LogContext(JOB, HOSTILE, "v", HOSTILE, 0, 1, 0, "t")
    made = record(HOSTILE, context=context, thread=HOSTILE)
    made.name = HOSTILE
    text = formatter.format(made)
    text.encode()
    first, *others = text.split("\n")
    assert first.isprintable() and all(line.isprintable() and line.startswith("  | ") for line in others)
    found = parse_line(first)
    assert found is not None and found.job_id == JOB and found.task.endswith("(1/1)#0")
    assert found.timestamp_ms == 1795416672123
    assert [parse_line(line) for line in others] == [None] * len(others)


@pytest.mark.parametrize("formatter", FORMATTERS, ids=["text", "json"])
def test_records_are_bounded(formatter: Any) -> None:
    made = record("x" * 1_000_000, context=LogContext(JOB, "j" * 100_000, "v", "m" * 100_000, 0, 1))
    assert len(formatter.format(made)) < MAX_RECORD_CHARS + 4_000


def test_a_service_names_the_job_of_a_line_by_an_argument() -> None:
    made = logging.LogRecord("flinkpy.x", logging.INFO, __file__, 1, "job %s ends", (JobID(JOB),), None)
    assert f" [{JOB} | MainThread] flinkpy.x - job {JOB} ends" in TextFormatter().format(made)


@pytest.mark.parametrize(
    "line",
    ["", "Fatal Python error", "2026-11-23 06:51:12,123", "9999-99-99 99:99:99,999 INFO  [x] y - z",
     '{"@timestamp":', '{"@timestamp":1}', '{"@timestamp":"yesterday"}', "[" * 100_000,
     '{"@timestamp":' + "[" * 100_000],
)  # fmt: skip
def test_other_text_is_no_record(line: str) -> None:
    assert parse_line(line) is None
