"""Connects the parts of a process's log when the process starts: format, file, rotation, levels and output of tasks.

User functions run in the same processes as flinkpy, so each has its own level: a program with an embedded cluster shows
the warnings of its functions without those of the services.
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from flinkpy.common.process import OWN_LOG_VARIABLE
from flinkpy.logs.context import LogContext, follow_threads, set_process_context
from flinkpy.logs.formats import JsonFormatter, TextFormatter
from flinkpy.logs.handler import RUNTIME_LOGGERS, RateLimitedHandler
from flinkpy.logs.levels import LogLevels, number_of
from flinkpy.logs.log_file import LogFile, regular_file, remove_oldest
from flinkpy.logs.output import STDERR, STDOUT, TaskOutput

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration

#: The file behind standard error.
STANDARD_ERROR = "/proc/self/fd/2"
#: Begins the names of the logs of JobMasters; the id of the job follows.
JOB_MASTER_PREFIX = "jobmaster-"


@dataclass(slots=True)
class ProcessLog:
    """The log of this process.

    Attributes:
        path: the file with the whole log of this process; None: it writes to a terminal or a pipe only.
        file: the object that writes to it; None if nothing may rotate it here.
    """

    handler: RateLimitedHandler
    levels: LogLevels
    path: Path | None = None
    file: LogFile | None = None

    def check_size(self) -> None:
        """Rotates the file if it is full. Services call this now and then, because native code may fill it."""
        if self.file is not None:
            self.file.check_size()


#: The log of this process, once `configure_logging` has made it.
_PROCESS: list[ProcessLog] = []


def process_log() -> ProcessLog | None:
    """Returns the log of this process; None in a program that is no service."""
    return _PROCESS[0] if _PROCESS else None


def configure_logging(
    configuration: Configuration,
    stream: TextIO | None = None,
    *,
    name: str = "",
    runs_tasks: bool = False,
    has_standard_error_of_parent: bool = False,
) -> ProcessLog:
    """Sets up the log by the options `env.log.*`, and makes Python's warnings part of it.

    Args:
        stream: where records go; None: to standard error, and to a file in `env.log.dir`.
        name: the name of the process, for a file in `env.log.dir` if standard error is no file there.
        runs_tasks: the process runs tasks, whose output and threads are followed.
        has_standard_error_of_parent: this process never has a file in `env.log.dir` for itself alone.
    """
    from flinkpy.configuration import core_options, read_option, taskmanager_options

    level = number_of(read_option(configuration, core_options.LOG_LEVEL))
    runtime_level = read_option(configuration, core_options.LOG_RUNTIME_LEVEL)
    handler = RateLimitedHandler(
        sys.stderr if stream is None else stream, read_option(configuration, core_options.LOG_RATE_LIMIT)
    )
    is_json = read_option(configuration, core_options.LOG_FORMAT) == "json"
    handler.setFormatter(JsonFormatter() if is_json else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler])
    logging.captureWarnings(True)
    if runtime_level is not None:
        for logger in RUNTIME_LOGGERS:
            logging.getLogger(logger).setLevel(number_of(runtime_level))
    log = ProcessLog(handler, LogLevels(logging.getLogger(), handler))
    _PROCESS[:] = [log]
    if stream is None:
        _use_files(log, configuration, name, has_standard_error_of_parent)
    if runs_tasks:
        follow_threads()
        mode = read_option(configuration, taskmanager_options.SYSTEM_OUT_MODE)
        if mode != "DEFAULT" or log.file is not None:
            _capture_output(log, configuration, is_ignored=mode == "IGNORE")
    return log


def _use_files(log: ProcessLog, configuration: Configuration, name: str, has_standard_error_of_parent: bool) -> None:
    """Writes the log to a file: that of standard error, else one in `env.log.dir`."""
    from flinkpy.configuration import core_options, read_option

    directory = read_option(configuration, core_options.LOG_DIR)
    log.path = regular_file(STANDARD_ERROR)
    owns_standard_error = os.environ.pop(OWN_LOG_VARIABLE, None) is not None
    if has_standard_error_of_parent:
        return
    max_bytes = read_option(configuration, core_options.LOG_MAX_SIZE)
    max_files = read_option(configuration, core_options.LOG_MAX)
    if log.path is not None:
        # Several processes may write to any other file, or another program rotates it.
        if owns_standard_error and directory is not None and log.path.parent == Path(directory).resolve():
            descriptors = (2, 1) if regular_file("/proc/self/fd/1") == log.path else (2,)
            log.file = LogFile(log.path, descriptors, max_bytes=max_bytes, max_files=max_files)
            log.handler.stream = log.file  # type: ignore[assignment]
    elif directory is not None and name:
        try:
            log.file = LogFile.open_unused(
                Path(directory), name, max_bytes=max_bytes, max_files=max_files, mode=_mode(configuration)
            )
        except OSError as error:
            logging.getLogger(__name__).warning("no log file can be written in %s: %s", directory, error)
            return
        log.path = log.file.path
        log.handler.stream = _Both(log.handler.stream, log.file)  # type: ignore[assignment]


def begin_job(configuration: Configuration, context: LogContext) -> None:
    """Makes this process, a JobMaster, one of a job: its lines name the job and go to a file of the job.

    Errors also go to standard error, where the Dispatcher finds the reason if this process ends.
    """
    from flinkpy.configuration import core_options, read_option

    set_process_context(context)
    log = process_log()
    directory = read_option(configuration, core_options.LOG_DIR)
    if log is None:
        return
    if directory is None:
        return
    path = Path(directory) / f"{JOB_MASTER_PREFIX}{context.job_id}.log"
    try:
        log.file = LogFile.open(
            path,
            max_bytes=read_option(configuration, core_options.LOG_MAX_SIZE),
            max_files=read_option(configuration, core_options.LOG_MAX),
            mode=_mode(configuration),
        )
        remove_oldest(path.parent, JOB_MASTER_PREFIX, read_option(configuration, core_options.LOG_MAX_JOBS))
    except OSError as error:
        logging.getLogger(__name__).warning("the job has no log file, because %s cannot be written: %s", path, error)
        return
    log.path = path
    # The last words of this process go to both, too.
    _capture_output(log, configuration, is_ignored=False, passes_errors_on=True)
    errors = RateLimitedHandler(log.handler.stream, 0)
    errors.setLevel(logging.ERROR)
    errors.setFormatter(log.handler.formatter)
    log.handler.stream = log.file  # type: ignore[assignment]
    logging.getLogger().addHandler(errors)


def _capture_output(
    log: ProcessLog, configuration: Configuration, *, is_ignored: bool, passes_errors_on: bool = False
) -> None:
    from flinkpy.configuration import read_option, taskmanager_options

    max_chars = read_option(configuration, taskmanager_options.SYSTEM_OUT_LOG_CACHE_SIZE)
    sink = (lambda context, name, lines: None) if is_ignored else log.handler.emit_output
    sys.stdout = TaskOutput(STDOUT, sys.stdout, sink, max_chars)  # type: ignore[assignment]
    sys.stderr = TaskOutput(  # type: ignore[assignment]
        STDERR, sys.stderr, sink, max_chars, passes_on=passes_errors_on
    )


def _mode(configuration: Configuration) -> int:
    """Returns the permissions of a log. A process that runs functions leaves its own umask as it is."""
    from flinkpy.configuration import read_option, security_options

    return 0o666 & ~int(read_option(configuration, security_options.UMASK), 8)


def flush_output() -> None:
    """Makes records of unfinished lines that this thread has printed. Called at the end of a task."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TaskOutput):
            stream.flush()


class _Both:
    """Two streams that take the same text."""

    def __init__(self, first: TextIO, second: LogFile) -> None:
        self._first = first
        self._second = second

    def write(self, text: str) -> None:
        self._second.write(text)
        self._first.write(text)

    def flush(self) -> None:
        self._first.flush()
