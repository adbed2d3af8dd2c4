"""MergedLogs: puts the records of several logs, which arrive in pieces, into the order of their times. Pure."""

from __future__ import annotations

import heapq
from collections import deque

from flinkpy._proto import common_pb2, dispatcher_pb2

#: A record and the log that it comes from.
LoggedBy = tuple[common_pb2.LogRecords, common_pb2.LogRecord]


class MergedLogs:
    """The logs of a job. A record is held back while a log that has more to read may have an earlier one.

    A log whose records are held back is not read until they have been taken. So each log holds one piece at most.
    """

    def __init__(self) -> None:
        #: Where to continue, by log.
        self.positions: dict[str, str] = {}
        self._held: dict[str, deque[LoggedBy]] = {}
        self._at_end: dict[str, bool] = {}

    @property
    def is_behind(self) -> bool:
        """True if a log has more records that can be read at once."""
        return not all(self._at_end.values())

    @property
    def held_logs(self) -> list[str]:
        """The logs that need not be read now, because records of them are held back."""
        return [key for key, held in self._held.items() if held and not self._at_end[key]]

    @property
    def logs_with_held_records(self) -> list[str]:
        """The logs of which records are held back."""
        return [key for key, held in self._held.items() if held]

    def take(self, answer: dispatcher_pb2.JobLogRecords) -> list[LoggedBy]:
        """Returns the records that can be shown after this answer, each with its log."""
        skipped = set(self.held_logs)
        for log in answer.logs:
            if log.has_log and log.log not in skipped:
                self._held.setdefault(log.log, deque()).extend((log, record) for record in log.records)
                self.positions[log.log] = log.position
                self._at_end[log.log] = log.is_at_end
        for key in self._at_end.keys() - {log.log for log in answer.logs}:
            self._at_end[key] = True  # its process has ended
        limits = [
            self._held[key][-1][1].timestamp_ms if self._held[key] else -1
            for key, is_at_end in self._at_end.items()
            if not is_at_end
        ]
        return self._until(min(limits, default=None))

    def _until(self, limit_ms: int | None) -> list[LoggedBy]:
        parts = []
        for held in self._held.values():
            part = []
            while held and (limit_ms is None or held[0][1].timestamp_ms <= limit_ms):
                part.append(held.popleft())
            parts.append(part)
        return list(heapq.merge(*parts, key=lambda pair: pair[1].timestamp_ms))
