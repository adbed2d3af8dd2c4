"""Carries errors of functions through Spark, and turns Spark's exceptions into flinkpy's errors.

Spark passes on only the text of an exception. So a worker raises a WorkerFailure, whose text ends with a marker line
that has the error as compressed JSON in base64. `failure_in` finds the line in the text of Spark's exception.

Other exceptions of Spark are wrapped several times: by py4j, by the future of a query stage, by the failure of a stage.
`cause_of` finds the exception that tells the reason, and `_MEANINGS` says what it means and which option helps.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import sys
import zlib
from dataclasses import dataclass
from typing import Any

from flinkpy.common.error_text import bounded_text, describe, format_user_traceback
from flinkpy.common.errors import (
    FlinkError,
    FunctionError,
    RemoteError,
    SparkError,
    SparkUnavailableError,
    TableRuntimeError,
    error_class,
)

#: The maximum length of Spark's own message in an error.
_MAX_CAUSE_CHARACTERS = 600
_STAGE_FAILURE = re.compile(r"(Task \d+ in stage [\d.]+ failed \d+ times?)[^\n]*")
_VERSIONS = re.compile(
    r"Python in worker has different version:? ([\d.]+\d) than that in driver:? ([\d.]+\d)", re.IGNORECASE
)
#: Patterns for the output of a Python that ends before it runs tasks, and for the version in the paths of its modules.
_NO_START = re.compile(r"Error from python worker:\s*\n(.*?)\n\s*PYTHONPATH was:", re.DOTALL)
_VERSION_OF_LIBRARY = re.compile(r"/python(\d+\.\d+)/")
_NO_PYTHON = re.compile(r'Cannot run program "([^"]+)"')
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
#: The text that py4j and PySpark put before that of an exception.
_CALL = re.compile(r"(?:\w+: )?An error occurred while calling [^\s:]+:?\.?\s*:?\s*")
#: An exception that only wraps the next one.
_WRAPPER = re.compile(
    r"(?:[\w.$]+(?:Exception|Error): )?(?:Exception thrown in awaitResult:?|Job aborted\.?|Boxed (?:Exception|Error)|"
    r"\[TASK_WRITE_FAILED\].*)?\s*$"
)
_EXCEPTION_CLASS = re.compile(r"^(?:[a-z_]\w*\.)+(?:[\w$]*\$)?(\w+)(?=: |$)")
#: The reason of the last attempt of a task or stage.
_LAST_FAILURE = re.compile(
    r"[Mm]ost recent failure(?: reason)?: (?:Lost task [\d.]+ in stage [\d.]+ \([^\n]*?\): )?(.+)", re.DOTALL
)
_ON_EXECUTOR = re.compile(r"\(TID \d+\) \(([^\s()]+) executor ([^\s()]+)\)")
_CAUSED_BY = "Caused by: "
_CONF = "execution.batch.spark.conf."
_EXECUTOR_LOST = "executor lost"
_KILLED = (
    r"exceeding (?:physical |virtual )?memory limits|exited (?:with )?code:? 137|exit code:? 137|OOMKilled|"
    r"exitCode=137"
)
#: The meanings of Spark's texts by a sign in the text. The first sign that is found counts.
_MEANINGS = {
    r"No space left on device|not enough space": (
        f"no space left on a disk of the executors; free some, or set {_CONF}spark.local.dir to a larger disk"
    ),
    # An executor ends with code 52 when it has no memory left.
    r"OutOfMemoryError|Unable to acquire \d+ bytes of memory|exited with code 52\b": (
        f"an executor ran out of memory; set {_CONF}spark.executor.memory to more, or use more partitions"
    ),
    _KILLED: (
        "executor lost: it was killed, usually because it used too much memory; set "
        f"{_CONF}spark.executor.memoryOverhead to more"
    ),
    r"Python worker exited unexpectedly": (
        "a Python worker was killed or has crashed, usually because it used too much memory; set "
        f"{_CONF}spark.executor.memoryOverhead to more, or {_CONF}spark.python.worker.faulthandler.enabled to true "
        "to see where it crashes"
    ),
    r"CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND|Checkpoint block \S+ not found": (
        "executor lost with records that Spark cannot compute again; set "
        f"{_CONF}spark.checkpoint.dir to a directory that all executors reach"
    ),
    r"cannot rollback the|indeterminate output|INDETERMINATE": (
        "executor lost, and a function gave other records when Spark ran it again, so Spark cannot repeat only the "
        "lost tasks; make the functions deterministic, or set a restart strategy"
    ),
    r"ExecutorLostFailure|FetchFailed|has failed the maximum allowable number of times": _EXECUTOR_LOST,
    r"AccessControlException|AccessDeniedException|Permission denied": "permission denied",
}


#: The number of frames of each stack trace that an error shows, and the maximum length of all of them.
_KEPT_FRAMES = 3
_MAX_TRACE_CHARACTERS = 20_000
_FRAME_LINE = re.compile(r"\s*(at [\w.$/<>]+\(|\.\.\. \d+ more)")
_FRAME = re.compile(r"[\w.$/<>]+\([\w.: ]*\)$")
_END_OF_CAUSE = (
    "at ",
    "JVM stacktrace",
    "Driver stacktrace",
    "Traceback (most recent",
    "This stopped SparkContext was created at",
)
#: Parts of the messages of py4j and gRPC when Spark no longer answers.
_GONE = (
    "Py4JNetworkError",
    "Answer from Java side is empty",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "BrokenPipeError",
    "SparkContext was shut down",
    "SparkContext has been shutdown",
    "Cannot call methods on a stopped SparkContext",
    "StatusCode.UNAVAILABLE",
    "failed to connect to all addresses",
    "All masters are unresponsive",
    "Master removed our application",
    # A restarted server does not know the session.
    "NO_ACTIVE_SESSION",
    "INVALID_HANDLE.SESSION",
    "Received incorrect server side session identifier",
)
#: These also appear in the reason of a failed stage, if executors do not reach each other. Then the driver is there.
_GONE_UNLESS_STAGE_FAILED = ("Connection refused", "Connection reset by peer")
_STAGE_FAILED = "due to stage failure"


_MARKER = "flinkpy-error:"
_PATTERN = re.compile(re.escape(_MARKER) + r"([A-Za-z0-9+/=]+):end")
#: The text of an error that a query raises by the function `raise_error` of Spark.
_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] TableRuntimeError: (.*?) SQLSTATE", re.DOTALL)
#: The maximum length of each text in an error of a worker. Spark, gRPC and logs have limits of their own.
_MAX_CHARACTERS = 16_384


class WorkerFailure(Exception):
    """Raised by a worker. Its text begins with the message of the error."""


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """An attempt of a task of Spark. The first attempt has the number 0."""

    stage: int
    partition: int
    number: int


def worker_failure(error: BaseException, task_name: str, attempt: TaskAttempt | None = None) -> WorkerFailure:
    """Returns the exception that carries `error` to the driver. An error other than a FlinkError is a FunctionError.

    Args:
        attempt: the attempt that failed. Spark Connect does not tell it otherwise.
    """
    if not isinstance(error, FlinkError):
        error = FunctionError(
            f"{task_name}: {describe(error)}",
            details={"task": task_name},
            remote_traceback=format_user_traceback(error),
        )
    described = {
        "type": type(error).__name__,
        "message": bounded_text(error.message, _MAX_CHARACTERS),
        "details": {key: bounded_text(value, _MAX_CHARACTERS) for key, value in error.details.items()},
        "traceback": error.remote_traceback[-_MAX_CHARACTERS:],
        "attempt": None if attempt is None else [attempt.stage, attempt.partition, attempt.number],
    }
    packed = base64.b64encode(zlib.compress(json.dumps(described).encode())).decode()
    return WorkerFailure(
        f"{bounded_text(error.message, _MAX_CHARACTERS)}\n{error.remote_traceback}\n{_MARKER}{packed}:end"
    )


def failure_in(text: str) -> FlinkError | None:
    """Returns the error in the text of a Spark exception; None if neither a worker nor a query of ours raised it."""
    raised = _RAISED.search(text)
    if raised is not None:
        return TableRuntimeError(raised[1])
    described = _described_in(text)
    if described is None:
        return None
    kind = error_class(described["type"])
    details = described["details"]
    if kind is None:
        kind, details = RemoteError, {**details, "type": described["type"]}
    return kind(described["message"], details=details, remote_traceback=described["traceback"])


def failed_attempt_in(text: str) -> TaskAttempt | None:
    """Returns the attempt that raised the error in the text of a Spark exception; None if it is not known."""
    described = _described_in(text)
    if described is None or described.get("attempt") is None:
        return None
    return TaskAttempt(*described["attempt"])


def _described_in(text: str) -> dict[str, Any] | None:
    found = _PATTERN.search(text)
    if found is None:
        return None
    try:
        described: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(found[1])))
    except (ValueError, zlib.error, binascii.Error):
        return None
    return described


def as_flink_error(
    error: BaseException,
    task_name: str,
    master: str,
    progress: str = "",
    last_words: str = "",
    ending: str = "",
    lost_executors: str = "",
) -> FlinkError:
    """Returns the error that the task fails with.

    Args:
        progress: the progress of Spark's jobs.
        last_words: the last log lines of Spark's driver.
        ending: how the driver has ended, if it has. It is then the cause of every other error.
        lost_executors: the executors that were lost last, with the reasons.
    """
    if isinstance(error, FlinkError):
        return error
    text = f"{type(error).__name__}: {error}"
    failure = failure_in(text)
    if failure is not None:
        return _with_cause(failure, text, progress)
    if ending:
        return SparkError(f"{task_name}: Spark at {master} is gone: {with_last_words(ending, last_words)}")
    obstacle = _python_obstacle(text, master)
    if obstacle is not None:
        return SparkUnavailableError(f"{task_name}: the executors of Spark at {master} {obstacle}")
    signs = _GONE if _STAGE_FAILED in text else _GONE + _GONE_UNLESS_STAGE_FAILED
    if any(sign in text for sign in signs):
        return SparkError(f"{task_name}: Spark at {master} is gone: {with_last_words(cause_of(text), last_words)}")
    return SparkError(f"{task_name}: {meaning_of(text, lost_executors)}", remote_traceback=short_trace(text))


def short_trace(text: str) -> str:
    """Returns the text of an exception of Java with the first frames of each stack trace only.

    Logs and the command line show it with the cause. Spark's threads alone fill a hundred lines.
    """
    kept: list[str] = []
    num_frames = num_left_out = 0
    for line in [*text.splitlines(), ""]:
        is_frame = _FRAME_LINE.match(line) is not None
        if is_frame and num_frames >= _KEPT_FRAMES:
            num_left_out += 1
            continue
        if num_left_out and not is_frame:
            kept.append(f"\t... {num_left_out} more frames")
        num_frames, num_left_out = (num_frames + 1, 0) if is_frame else (0, 0)
        kept.append(line)
    return "\n".join(kept).rstrip()[:_MAX_TRACE_CHARACTERS]


def meaning_of(text: str, lost_executors: str = "") -> str:
    """Returns what an exception of Spark means, with the option that helps, and Spark's own words.

    Args:
        lost_executors: as in `as_flink_error`. Spark gives up when shuffle files are missing, and tells only that.
    """
    cause = cause_of(text)
    places = [f"on {host}, executor {executor}" for host, executor in _ON_EXECUTOR.findall(text)[-1:]]
    if (found := _STAGE_FAILURE.search(text)) is not None:
        places.insert(0, found[1])
    told = f"{cause} ({'; '.join(places)})" if places else cause
    meaning = _meaning_in(cause) or _meaning_in(text) or "Spark failed"
    if meaning == _EXECUTOR_LOST and lost_executors:
        meaning, told = _meaning_in(lost_executors) or meaning, f"{told}; lost {lost_executors}"
    return f"{meaning}: {told}"


def _meaning_in(text: str) -> str:
    return next((meaning for sign, meaning in _MEANINGS.items() if re.search(sign, text)), "")


def _python_obstacle(text: str, master: str) -> str | None:
    """Returns what is wrong with the Python of the executors, and what to do; None if nothing is known to be wrong."""
    if master.startswith("sc://"):
        setting = "PYSPARK_PYTHON in the environment of the Spark Connect server"
    else:
        setting = "execution.batch.spark.conf.spark.pyspark.python"
    needed = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = _VERSIONS.search(text)
    if found is not None:
        return _other_version(found[1], needed, setting)
    found = _NO_PYTHON.search(text)
    if found is not None:
        return f"have no Python {found[1]!r}: set {setting} to the path of a Python {needed} there"
    start = _NO_START.search(text)
    lines = _traceback_lines(start[1]) if start is not None else []
    version = _VERSION_OF_LIBRARY.search(start[1]) if start is not None else None
    if version is not None and version[1] != needed:
        # Spark's own modules cannot be imported by an old Python, which therefore does not compare the versions.
        return (
            f"run Python {version[1]}, but this program runs Python {needed}: set {setting} to a Python {needed} there"
        )
    found = _NO_MODULE.search(text)
    if found is not None:
        return (
            f"have a Python without the module {found[1]!r}: install flinkpy's dependencies (pip install flinkpy) and "
            f"the packages of the job there, or set {setting} to a Python that has them"
        )
    if lines:
        return f"could not start Python: {_shorten(lines[-1])}"
    return None


def _other_version(found: str, needed: str, setting: str) -> str:
    return f"run Python {found}, but this program runs Python {needed}: set {setting} to a Python {needed} there"


def _traceback_lines(text: str) -> list[str]:
    """Returns the lines of a traceback, of which the last one is the error."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line]


def cause_of(text: str) -> str:
    """Returns the message of the exception that tells the reason of a Spark error, without stack traces."""
    messages = [_message(part) for part in text.split(_CAUSED_BY)]
    for message in messages:
        found = _LAST_FAILURE.search(message)
        if found is not None:
            return _shorten(_EXCEPTION_CLASS.sub(r"\1", found[1]))
    told = next((message for message in messages if not _WRAPPER.match(message)), None)
    return _shorten(_EXCEPTION_CLASS.sub(r"\1", told or messages[0] or text.strip()))


def _message(text: str) -> str:
    """Returns the beginning of an exception's text as one line, up to its stack trace."""
    kept = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith(_END_OF_CAUSE) or _FRAME.match(stripped):
            break
        if stripped:
            kept.append(stripped)
    return _CALL.sub("", " ".join(kept), count=1)


def with_last_words(cause: str, last_words: str) -> str:
    """Appends the last log lines of Spark's driver to a cause."""
    return f"{cause}. Its last log lines: {_shorten(last_words)}" if last_words else cause


def _with_cause(failure: FlinkError, text: str, progress: str) -> FlinkError:
    found = _STAGE_FAILURE.search(text)
    failed = found[1] if found is not None else ""
    if not failed and (attempt := failed_attempt_in(text)) is not None:
        times = f"{attempt.number + 1} time{'s' if attempt.number else ''}"
        failed = f"Task {attempt.partition} in stage {attempt.stage} failed {times}"
    told = "; ".join(part for part in (failed, progress) if part)
    if told and isinstance(failure, FunctionError):
        failure.remote_traceback = f"{failure.remote_traceback.rstrip()}\n\nSpark: {told}\n"
        failure.details.setdefault("spark", told)
    return failure


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_CAUSE_CHARACTERS else f"{text[:_MAX_CAUSE_CHARACTERS]}..."
