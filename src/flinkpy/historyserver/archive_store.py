"""ArchiveStore: the archived answers in a file of SQLite, so that many large jobs take little memory.

Each answer belongs to an archive, which is added and removed as a whole.

Source: the `historyserver.web.tmpdir` of org.apache.flink.runtime.webmonitor.history.HistoryServer. Differs: Flink
writes a file per answer.
Thread: any; each call takes a lock.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flinkpy.rest.archive_format import APPLICATIONS_OVERVIEW, JOBS_OVERVIEW, ArchivedAnswer

_SCHEMA = """
CREATE TABLE answers (
  archive TEXT NOT NULL, file TEXT NOT NULL, path TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (path, file)
);
CREATE INDEX answers_by_archive ON answers (archive);
"""
#: An answer is found by its path. If two directories have an archive of one job, the answers are the same.
_FIND = "SELECT body FROM answers WHERE path = ? LIMIT 1"
#: The list in an answer that each archive has, by its path.
_LISTS = {JOBS_OVERVIEW: "jobs", APPLICATIONS_OVERVIEW: "applications"}
_IDS = {JOBS_OVERVIEW: "jid", APPLICATIONS_OVERVIEW: "id"}


class ArchiveStore:
    """The answers of all archives.

    Args:
        directory: for its file, which is removed at the end.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / "archives.sqlite"
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        # The file is a copy of the archives: what a crash leaves of it is not read again.
        self._connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + _SCHEMA)
        #: the combined lists, until an archive is added or removed
        self._lists: dict[str, bytes] = {}

    def replace(self, archive: str, files: Mapping[str, Iterable[ArchivedAnswer]]) -> None:
        """Adds an archive, in the place of one with the same name.

        Args:
            files: the answers in each of its files. Every file of a job has an answer with the same path.
        """
        rows = [
            (archive, file, one.path, zlib.compress(one.body.encode(), 1))
            for file, answers in files.items()
            for one in answers
        ]
        with self._lock:
            self._lists.clear()
            self._connection.execute("BEGIN")
            self._connection.execute("DELETE FROM answers WHERE archive = ?", (archive,))
            self._connection.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)", rows)
            self._connection.execute("COMMIT")

    def remove(self, archive: str) -> None:
        with self._lock:
            self._lists.clear()
            self._connection.execute("DELETE FROM answers WHERE archive = ?", (archive,))

    def find(self, path: str) -> bytes | None:
        """Returns the JSON text of an answer. Lists have the entries of all archives."""
        with self._lock:
            if path in _LISTS:
                if path not in self._lists:
                    self._lists[path] = self._combined(path)
                return self._lists[path]
            row = self._connection.execute(_FIND, (path,)).fetchone()
        return None if row is None else zlib.decompress(row[0])

    def _combined(self, path: str) -> bytes:
        found: dict[str, Any] = {}
        for (body,) in self._connection.execute("SELECT body FROM answers WHERE path = ? ORDER BY file", (path,)):
            for entry in json.loads(zlib.decompress(body)).get(_LISTS[path], ()):
                found[entry[_IDS[path]]] = entry
        entries = sorted(found.values(), key=lambda entry: -entry.get("start-time", 0))
        return json.dumps({_LISTS[path]: entries}).encode()

    def close(self) -> None:
        with self._lock:
            self._connection.close()
            self._path.unlink(missing_ok=True)
