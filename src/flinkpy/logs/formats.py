r"""The two formats of a log: text and JSON. Each can be written and read.

A record of text is one line, and a line with a mark for each further line of its message:

```
2026-11-23 06:51:12,123 INFO  [wordcount 4b2f... | Map (1/2)#0] my.module - the message
  | its second line
```

The brackets hold up to three fields: the job (name and id), the task, and the thread unless it is the task's own. A
record of JSON is one line with the same parts as members. In both formats no text of a user can look like the start of
a record or act on a terminal, and records are bounded.
"""

from __future__ import annotations

import datetime
import functools
import json
import logging
import re
import time
import traceback
from dataclasses import dataclass, field
from typing import Any

from flinkpy.common.error_text import (
    MAX_MESSAGE_CHARS,
    MAX_TRACEBACK_CHARS,
    bounded_text,
    describe,
    escaped,
    format_traceback,
    is_runtime_frame,
    text_of,
    valid_text,
)
from flinkpy.common.errors import FlinkError
from flinkpy.common.ids import JobID
from flinkpy.logs.context import LogContext, current_context, shown_name

#: Longest record: the message of an error and its traceback.
MAX_RECORD_CHARS = MAX_MESSAGE_CHARS + MAX_TRACEBACK_CHARS
#: Begins each further line of a record, so that only the first line of a record begins with a time.
CONTINUATION_MARK = "  | "
#: Longest names of loggers and threads in a record. Both may come from users.
MAX_FIELD_CHARS = 200
#: Frames of user code in a record of JSON. The traceback beside them shows all.
MAX_FRAMES = 50

#: The attribute of a record that holds its context. The handler sets it, because the formatter may run later.
CONTEXT_ATTRIBUTE = "flink_context"
#: The attribute of a record that holds the failure of a task, whose text the message contains already.
ERROR_ATTRIBUTE = "flink_error"


def context_of(record: logging.LogRecord) -> LogContext | None:
    """Returns the context of a record, which the current thread has logged.

    A service that works for all jobs names the job of a record by an argument: `logger.info("job %s ends", job_id)`.
    """
    context: LogContext | None = getattr(record, CONTEXT_ATTRIBUTE, None) or current_context()
    if context is None and record.args and isinstance(record.args, tuple):
        for argument in record.args:
            if type(argument) is JobID:
                return LogContext(argument.value)
    return context


class _Times:
    """Formats times of records. Keeps the text of the last second, because most records follow each other."""

    def __init__(self, convert: Any, pattern: str) -> None:
        self._convert = convert
        self._pattern = pattern
        self._second = -1
        self._text = ""

    def text(self, seconds: float) -> str:
        second = int(seconds)
        if second != self._second:
            self._text, self._second = time.strftime(self._pattern, self._convert(second)), second
        return self._text


@functools.lru_cache(1_000)
def _shown(name: str) -> str:
    return shown_name(name, MAX_FIELD_CHARS)


@functools.lru_cache(1_000)
def _shown_logger(name: str) -> str:
    # A space ends the name.
    return shown_name(name, MAX_FIELD_CHARS).replace(" ", r"\x20") or "root"


class TextFormatter(logging.Formatter):
    """Formats records as text. Thread: the handler's lock is held."""

    def __init__(self) -> None:
        super().__init__()
        self._times = _Times(time.localtime, "%Y-%m-%d %H:%M:%S")

    def head(self, created: float, level: str, context: LogContext | None, thread: str, logger: str) -> str:
        """Returns the part of a line before the message."""
        shown = self._times.text(created)
        if context is None:
            where = _shown(thread)
        elif thread == context.thread_name:
            where = context.text
        else:
            where = f"{context.text} | {_shown(thread)}"
        return f"{shown},{int(created * 1000) % 1000:03d} {level:<5} [{where}] {_shown_logger(logger)} - "

    def format(self, record: logging.LogRecord) -> str:
        head = self.head(record.created, record.levelname, context_of(record), record.threadName or "", record.name)
        text = record.getMessage()
        if record.exc_info or record.exc_text or record.stack_info:
            text = "\n".join(part for part in (text, self._exception_text(record), record.stack_info) if part)
        return head + self.shown_message(text)

    def format_output(self, created: float, context: LogContext | None, thread: str, logger: str, text: str) -> str:
        """Returns a line that user code has printed as a record."""
        return self.head(created, "INFO", context, thread, logger) + self.shown_message(text)

    @staticmethod
    def shown_message(text: str) -> str:
        if text.isascii() and text.isprintable() and len(text) <= MAX_RECORD_CHARS:
            return text
        return bounded_text(escaped(text), MAX_RECORD_CHARS).replace("\n", f"\n{CONTINUATION_MARK}")

    def _exception_text(self, record: logging.LogRecord) -> str:
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        return record.exc_text or ""

    def formatException(self, ei: Any) -> str:
        return format_traceback(ei[1]).rstrip("\n") if ei[1] is not None else super().formatException(ei)


class JsonFormatter(logging.Formatter):
    """Formats records as lines of JSON, with Flink's keys of the context. Thread: the handler's lock is held."""

    def __init__(self) -> None:
        super().__init__()
        self._times = _Times(time.gmtime, "%Y-%m-%dT%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        fields = self._fields(
            record.created, record.levelname, context_of(record), record.threadName or "", record.name
        )
        fields["message"] = bounded_text(record.getMessage(), MAX_MESSAGE_CHARS)
        error = record.exc_info[1] if record.exc_info else getattr(record, ERROR_ATTRIBUTE, None)
        if error is not None:
            fields["exception"] = exception_fields(error)
        elif record.exc_text:
            fields["exception"] = {"traceback": bounded_text(record.exc_text, MAX_TRACEBACK_CHARS)}
        if record.stack_info:
            fields["stack"] = bounded_text(record.stack_info, MAX_TRACEBACK_CHARS)
        return _dump(fields)

    def format_output(self, created: float, context: LogContext | None, thread: str, logger: str, text: str) -> str:
        """Returns a line that user code has printed as a record."""
        fields = self._fields(created, "INFO", context, thread, logger)
        fields["message"] = bounded_text(text, MAX_RECORD_CHARS)
        return _dump(fields)

    def _fields(
        self, created: float, level: str, context: LogContext | None, thread: str, logger: str
    ) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "@timestamp": f"{self._times.text(created)}.{int(created * 1000) % 1000:03d}Z",
            "level": level,
            "logger": bounded_text(logger, MAX_FIELD_CHARS),
            "thread": bounded_text(thread, MAX_FIELD_CHARS),
        }
        if context is not None:
            fields.update(context.fields)
        return fields


def _dump(fields: dict[str, Any]) -> str:
    # ASCII: control characters, marks of direction and lone surrogates are escaped by JSON itself.
    return json.dumps(fields, separators=(",", ":"))


def exception_fields(error: BaseException) -> dict[str, Any]:
    """Returns the type, the message, the traceback and the frames of user code of an exception. Never raises.

    For an error of flinkpy that reports one of a user function, they are those of the latter.
    """
    trace = error.remote_traceback if isinstance(error, FlinkError) else ""
    if isinstance(error, FlinkError) and error.__cause__ is not None:
        error = error.__cause__
    kind = type(error)
    frames = []
    for frame in traceback.extract_tb(error.__traceback__):
        if not is_runtime_frame(frame):
            frames.append(
                {"file": valid_text(frame.filename), "line": frame.lineno, "function": frame.name, "code": frame.line}
            )
    if len(frames) > MAX_FRAMES:
        frames = frames[: MAX_FRAMES // 2] + frames[-MAX_FRAMES // 2 :]
    return {
        "type": bounded_text(f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."), MAX_FIELD_CHARS),
        "message": text_of(error) or describe(error),
        "frames": frames,
        "traceback": bounded_text(trace, MAX_TRACEBACK_CHARS) if trace else format_traceback(error),
    }


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class LoggedRecord:
    """A record that was read from a log.

    Attributes:
        timestamp_ms: milliseconds since 1970; 0 for text that is not part of a record.
        task: `Map (1/2)#0`, or empty.
        message: the message, with the traceback of an exception.
        fields: all members of a record of JSON.
    """

    timestamp_ms: int = 0
    level: str = ""
    logger: str = ""
    thread: str = ""
    job_id: str = ""
    job_name: str = ""
    task: str = ""
    message: str = ""
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def level_number(self) -> int:
        """The level as in `logging`. Text that is no record has the lowest."""
        return LEVELS.get(self.level, 0)


#: The levels by name. User code may have others, which are shown and count as INFO.
LEVELS = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "WARN": 30, "ERROR": 40, "CRITICAL": 50}

_HEAD = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) (.{1,60}?) +\[([^\]]*)\] (\S+) - (.*)", re.DOTALL)
_JOB = re.compile(r"(?:(.*) )?([0-9a-f]{32})")
_TASK = re.compile(r".* \(\d+/\d+\)#\d+")


def parse_line(line: str) -> LoggedRecord | None:
    """Returns the record that begins with a line; None if the line begins none."""
    return _parse_json(line) if line.startswith('{"@timestamp":') else _parse_text(line)


def _parse_text(line: str) -> LoggedRecord | None:
    found = _HEAD.fullmatch(line) if line[:1].isdigit() else None
    if found is None:
        return None
    shown, milliseconds, level, where, logger, message = found.groups()
    try:
        seconds = _LOCAL_SECONDS.of(shown)
    except (ValueError, OverflowError):
        return None
    record = LoggedRecord(seconds * 1000 + int(milliseconds), level, logger, message=message)
    parts = where.split(" | ")
    job = _JOB.fullmatch(parts[0])
    if job is not None:
        record.job_name, record.job_id = job[1] or "", job[2]
        del parts[0]
        if parts and _TASK.fullmatch(parts[0]):
            record.task = parts.pop(0)
            record.thread = record.task.rpartition("#")[0]
    if parts:
        record.thread = " | ".join(parts)
    return record


class _Seconds:
    """Parses times of records. Keeps the last one, because most records follow each other.

    Args:
        zone: the zone of the times; None: that of this process.
    """

    def __init__(self, zone: datetime.tzinfo | None) -> None:
        self._zone = zone
        self._last: tuple[str, int] = ("", 0)

    def of(self, shown: str) -> int:
        """Returns the seconds since 1970 of `2026-11-23 06:51:12`. Raises: ValueError, OverflowError."""
        last, seconds = self._last
        if last != shown:
            seconds = int(datetime.datetime.fromisoformat(shown).replace(tzinfo=self._zone).timestamp())
            self._last = (shown, seconds)
        return seconds


_LOCAL_SECONDS = _Seconds(None)
_UTC_SECONDS = _Seconds(datetime.UTC)


def _parse_json(line: str) -> LoggedRecord | None:
    try:
        fields = json.loads(line)
        shown = fields["@timestamp"]
        seconds = _UTC_SECONDS.of(shown[:19])
        milliseconds = int(shown[20:23])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    record = LoggedRecord(
        seconds * 1000 + milliseconds,
        str(fields.get("level", "")),
        str(fields.get("logger", "")),
        str(fields.get("thread", "")),
        str(fields.get("flink-job-id", "")),
        str(fields.get("flink-job-name", "")),
        message=str(fields.get("message", "")),
        fields=fields,
    )
    subtask = fields.get("flink-subtask-index")
    if isinstance(subtask, int):
        name, parallelism = fields.get("flink-vertex-name", ""), fields.get("flink-parallelism", "")
        record.task = f"{name} ({subtask + 1}/{parallelism})#{fields.get('flink-attempt-number', '')}"
    exception = fields.get("exception")
    if isinstance(exception, dict):
        trace = str(exception.get("traceback", "")).rstrip()
        if trace not in record.message:
            record.message += f"\n{trace}"
    return record
