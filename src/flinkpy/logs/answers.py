"""Answers of a process about its own log: records, and levels of loggers. Blocking, without state of callers."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from pathlib import Path

from flinkpy._proto import common_pb2
from flinkpy.common.errors import UserError
from flinkpy.logs.formats import LoggedRecord
from flinkpy.logs.levels import LogLevels
from flinkpy.logs.log_file import regular_file
from flinkpy.logs.reader import MAX_ANSWER_BYTES, MAX_RECORDS, LogQuery, LogReader, Position
from flinkpy.logs.setup import STANDARD_ERROR, process_log

#: Longest time after which a changed level goes back: a week. For longer, the configuration is the right place.
MAX_DURATION_MS = 7 * 24 * 3600 * 1000
#: The end of a change is looked for a little later, so that its time is over then on any clock.
_LATER_S = 0.01


def own_log() -> Path | None:
    """Returns the file with the log of this process; None if it writes to a terminal or a pipe."""
    log = process_log()
    return regular_file(STANDARD_ERROR) if log is None else log.path


def log_key(path: Path) -> str:
    """Returns the name of a log file among those of all hosts."""
    return f"{platform.node()}:{path}"


def query_of(query: common_pb2.LogQuery) -> LogQuery:
    """Raises: UserError."""
    made = LogQuery(query.job_id, query.min_level, query.task, query.text, query.since_ms)
    made.check()
    return made


def log_records(request: common_pb2.LogRecordsRequest, path: Path | None, source: str) -> common_pb2.LogRecords:
    """Returns the records of a log that a caller wants. Raises: UserError."""
    answer = common_pb2.LogRecords(source=source, host=platform.node(), is_at_end=True)
    if path is None:
        return answer
    answer.has_log = True
    answer.log = key = log_key(path)
    if key in request.skip:
        answer.position = request.positions.get(key, "")
        answer.is_at_end = False
        return answer
    if not 0 <= request.max_bytes <= MAX_ANSWER_BYTES:
        raise UserError(f"max_bytes is {request.max_bytes}, but must be from 0 to {MAX_ANSWER_BYTES}")
    if not 0 <= request.tail <= MAX_RECORDS:
        raise UserError(f"tail is {request.tail}, but must be from 0 to {MAX_RECORDS}")
    query, reader = query_of(request.query), LogReader(path)
    max_bytes = request.max_bytes or MAX_ANSWER_BYTES
    if request.tail:
        found = reader.tail(query, request.tail, max_bytes)
    else:
        begin = Position.parse(request.positions[key]) if key in request.positions else None
        found = reader.read(query, begin, max_bytes)
    answer.records.extend(map(record_message, found.records))
    answer.position = str(found.position)
    answer.is_at_end, answer.is_cut = found.is_at_end, found.is_cut
    return answer


def record_message(record: LoggedRecord) -> common_pb2.LogRecord:
    return common_pb2.LogRecord(
        timestamp_ms=record.timestamp_ms,
        level=record.level,
        logger=record.logger,
        thread=record.thread,
        job_id=record.job_id,
        job_name=record.job_name,
        task=record.task,
        message=record.message,
        fields_json=json.dumps(record.fields) if record.fields else "",
    )


def change_log_levels(
    levels: LogLevels | None,
    request: common_pb2.LogLevelsRequest,
    source: str,
    call_later: Callable[[float, Callable[[], None]], object],
) -> common_pb2.LogLevels:
    """Changes levels of this process, and returns all.

    Args:
        call_later: makes a call after some seconds, to end a change.

    Raises: UserError; then nothing has changed.
    """
    answer = common_pb2.LogLevels(source=source)
    if levels is None:
        return answer
    for change in request.changes:
        if not 0 <= change.remaining_ms <= MAX_DURATION_MS:
            raise UserError(f"the duration of a log level must be from 0 to {MAX_DURATION_MS} ms")
        levels.check(change.logger, change.level or None)
    now_ms = levels.now_ms()
    for change in request.changes:
        until_ms = now_ms + change.remaining_ms if change.remaining_ms else 0
        levels.change(change.logger, change.level or None, job_id=change.job_id, until_ms=until_ms)
        if until_ms:
            call_later(change.remaining_ms / 1000 + _LATER_S, levels.expire)
    for logger, name in levels.configured():
        answer.levels.add(logger=logger, level=name)
    for changed in levels.changes():
        answer.levels.add(
            logger=changed.logger,
            level=changed.level_name,
            job_id=changed.job_id,
            remaining_ms=max(1, changed.until_ms - now_ms) if changed.until_ms else 0,
            is_changed=True,
        )
    return answer
