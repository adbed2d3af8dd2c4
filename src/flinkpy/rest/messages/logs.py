"""Bodies of operations on log records and log levels. They are flinkpy's own."""

from __future__ import annotations

from typing import Any

import msgspec


class LogRecordInfo(msgspec.Struct, kw_only=True, rename="kebab", omit_defaults=True):
    """A record of a log.

    Attributes:
        timestamp: milliseconds since 1970; 0 for text that is no record.
        task: the task, e.g. `Map (1/2)#0`: vertex, subtask, parallelism and attempt.
        process: the process that wrote the record.
        fields: all members of a record that was logged as JSON, e.g. its `exception`.
    """

    timestamp: int
    level: str
    logger: str
    message: str
    thread: str = ""
    job_id: str = ""
    job_name: str = ""
    task: str = ""
    process: str = ""
    host: str = ""
    fields: dict[str, Any] | None = None


class LogRecordsInfo(msgspec.Struct, kw_only=True, rename="kebab"):
    """Records in the order of their times.

    Attributes:
        position: the value of the parameter `position` for the records that follow.
        is_complete: false: more records can be read at once.
        is_cut: older records have been removed, or were not looked at.
        without_log: processes whose output goes to a terminal or a pipe.
        unreachable: processes that did not answer.
    """

    records: list[LogRecordInfo]
    position: str
    is_complete: bool
    is_cut: bool = False
    without_log: list[str] = []
    unreachable: list[str] = []


class LogLevelInfo(msgspec.Struct, kw_only=True, rename="kebab"):
    """The level of a logger.

    Attributes:
        logger: the name of the logger; empty: the root logger.
        job_id: the job whose records it applies to; empty: all.
        is_changed: it was set while the process ran.
        remaining: milliseconds until it goes back; 0: it stays until the process ends.
    """

    logger: str
    level: str
    job_id: str = ""
    is_changed: bool = False
    remaining: int = 0


class ProcessLogLevels(msgspec.Struct, kw_only=True, rename="kebab"):
    """The levels of a process."""

    process: str
    levels: list[LogLevelInfo]


class LogLevelsInfo(msgspec.Struct, kw_only=True, rename="kebab"):
    processes: list[ProcessLogLevels]
    unreachable: list[str] = []


class LogLevelChange(msgspec.Struct, kw_only=True):
    """A level to set.

    Attributes:
        logger: the name of the logger; empty: the root logger.
        level: TRACE, DEBUG, INFO, WARNING, ERROR or OFF; null: takes an earlier change back.
    """

    logger: str
    level: str | None


class LogLevelsRequestBody(msgspec.Struct, kw_only=True):
    """Levels to set.

    Attributes:
        duration: milliseconds after which they go back; 0: never.
    """

    levels: list[LogLevelChange]
    duration: int = 0
