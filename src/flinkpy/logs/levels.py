"""LogLevels: the levels of loggers, which can be changed while a process runs.

A level belongs to a logger and maybe to one job. A logger of Python has one level in a process. So a logger gets the
lowest level that any job wants of it, and the handler drops the records that their own job does not want. A change may
end after a time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkpy.common.errors import UserError

if TYPE_CHECKING:
    from flinkpy.logs.handler import RateLimitedHandler

#: The names of levels, as in `env.log.level`. WARN is the same as WARNING.
NAMES = ("TRACE", "DEBUG", "INFO", "WARNING", "WARN", "ERROR", "OFF")
#: The maximum number of levels that are set in one process, so that callers cannot fill its memory.
MAX_CHANGES = 1_000
#: Longest name of a logger in a change.
MAX_LOGGER_CHARS = 500


def number_of(level: str) -> int:
    """Returns the level in `logging` of a name. Raises: UserError."""
    special = {"TRACE": logging.DEBUG, "OFF": logging.CRITICAL + 1}
    name = level.upper()
    if name not in NAMES:
        raise UserError(f"unknown log level {level[:50]!r}: expected one of {', '.join(NAMES)}")
    return special[name] if name in special else logging.getLevelNamesMapping()[name]


def name_of(number: int) -> str:
    """Returns the name of a level in `logging`."""
    return "OFF" if number > logging.CRITICAL else logging.getLevelName(number)


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A level that was set while the process ran.

    Attributes:
        logger: the name of the logger; empty: the root logger.
        job_id: the job whose records it applies to; empty: all records.
        until_ms: when it ends, on the clock of LogLevels; 0: never.
    """

    logger: str
    level: int
    job_id: str = ""
    until_ms: int = 0

    @property
    def level_name(self) -> str:
        return name_of(self.level)


class LogLevels:
    """The levels of a process. Thread: any."""

    def __init__(
        self,
        root: logging.Logger,
        handler: RateLimitedHandler,
        now_ms: Callable[[], int] = lambda: int(time.monotonic() * 1000),
    ) -> None:
        self.now_ms = now_ms
        self._root = root
        self._handler = handler
        self._lock = threading.Lock()
        self._changes: dict[tuple[str, str], LevelChange] = {}
        #: The levels that changed loggers had before.
        self._configured: dict[str, int] = {}

    def change(self, logger: str, level: str | None, *, job_id: str = "", until_ms: int = 0) -> None:
        """Sets the level of a logger, and of those below it that have none. None takes an earlier change back.

        Raises: UserError.
        """
        self.check(logger, level)
        name = "" if logger == "root" else logger
        key = (name, job_id)
        number = None if level is None else number_of(level)
        with self._lock:
            if number is None:
                self._changes.pop(key, None)
            elif key not in self._changes and len(self._changes) >= MAX_CHANGES:
                raise UserError(f"{MAX_CHANGES} log levels are set already; take some back first")
            else:
                self._changes[key] = LevelChange(name, number, job_id, until_ms)
            self._apply(name)

    def check(self, logger: str, level: str | None) -> None:
        """Raises: UserError if `change` would not take these."""
        if len(logger) > MAX_LOGGER_CHARS:
            raise UserError(f"the name of a logger has at most {MAX_LOGGER_CHARS} characters")
        if level is not None:
            number_of(level)

    def expire(self) -> None:
        """Takes back the changes whose time is over."""
        now_ms = self.now_ms()
        with self._lock:
            for key, change in list(self._changes.items()):
                if 0 < change.until_ms <= now_ms:
                    del self._changes[key]
                    self._apply(change.logger)

    def forget_job(self, job_id: str) -> None:
        """Takes back the changes for a job that has ended here."""
        with self._lock:
            for key in [key for key in self._changes if key[1] == job_id]:
                del self._changes[key]
                self._apply(key[0])

    def changes(self) -> list[LevelChange]:
        """Returns the changes, by logger and job."""
        with self._lock:
            return [self._changes[key] for key in sorted(self._changes)]

    def configured(self) -> list[tuple[str, str]]:
        """Returns the loggers that have a level of their own without the changes, and these levels."""
        found = {}
        with self._lock:
            for name, logger in [("", self._root), *list(self._root.manager.loggerDict.items())]:
                if isinstance(logger, logging.Logger):
                    level = self._configured.get(name, logger.level)
                    if level:
                        found[name] = name_of(level)
        return sorted(found.items())

    def _logger(self, name: str) -> logging.Logger:
        return self._root.manager.getLogger(name) if name else self._root

    def _apply(self, name: str) -> None:
        logger = self._logger(name)
        changes = [change for change in self._changes.values() if change.logger == name]
        if changes:
            configured = self._configured.setdefault(name, logger.level)
            # Without a change for all jobs, the others keep the level that the logger takes from the ones above it.
            general = next((change.level for change in changes if not change.job_id), None)
            base = self._effective(name, configured) if general is None else general
            logger.setLevel(min([base, *(change.level for change in changes)]))
        elif name in self._configured:
            logger.setLevel(self._configured.pop(name))
        self._handler.wanted = self._wants if any(change.job_id for change in self._changes.values()) else None

    def _effective(self, name: str, configured: int) -> int:
        """Returns the level of a logger without the changes for jobs."""
        level: int = configured
        while not level and name:
            name = name.rpartition(".")[0]
            general = self._changes.get((name, ""))
            logger = self._root.manager.loggerDict.get(name) if name else self._root
            own = logger.level if isinstance(logger, logging.Logger) else 0
            level = general.level if general is not None else self._configured.get(name, own)
        return level or logging.WARNING

    def _wants(self, job_id: str | None, name: str, level: int) -> bool:
        """True if a record is at least of the level that its job wants of its logger.

        The nearest logger with a level decides. For one logger, the level of the job comes before that for all.
        """
        while True:
            change = self._changes.get((name, job_id)) if job_id else None
            change = change or self._changes.get((name, ""))
            if change is not None:
                return level >= change.level
            logger = self._root.manager.loggerDict.get(name) if name else self._root
            configured = self._configured.get(name, logger.level if isinstance(logger, logging.Logger) else 0)
            if configured:
                return level >= configured
            if not name:
                return True
            name = name.rpartition(".")[0]
