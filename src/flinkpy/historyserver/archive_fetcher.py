"""ArchiveFetcher: looks for archives in directories, copies new ones into the store, and deletes old ones.

| found                                    | consequence                                                     |
|------------------------------------------|-----------------------------------------------------------------|
| a new archive, or one with other files   | its answers are stored                                          |
| a damaged archive                        | an error in the log; it is tried again when its files change    |
| an archive that has disappeared          | forgotten, if `historyserver.archive.clean-expired-*` says so   |
| too many or too old archives             | deleted in the directory and forgotten                          |
| a directory that cannot be read          | an error in the log; what is known of it stays                  |

Source: org.apache.flink.runtime.webmonitor.history.{HistoryServerArchiveFetcher,HistoryServerApplicationArchiveFetcher}
and .retaining.*. Differs: an application whose files change is read again, and its jobs are shown even if the
application has not been archived because its Dispatcher died.
Thread: one I/O thread calls `refresh`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from flinkpy.checkpoint.storage.file_system import FileSystem, join
from flinkpy.checkpoint.storage.file_systems import FileSystems
from flinkpy.common.errors import FlinkError
from flinkpy.historyserver.archive_store import ArchiveStore
from flinkpy.rest.archive_format import (
    APPLICATIONS,
    JOBS,
    SUMMARY,
    ArchivedAnswer,
    ArchiveError,
    decode_archive,
    is_archive_id,
)

logger = logging.getLogger(__name__)

#: The largest archive that is read. That of a job with 300 x 300 subtasks has about 200 MB.
MAX_ARCHIVE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Which archives stay. None: no limit.

    Attributes:
        cleans_expired: forget archives that have disappeared from their directory.
    """

    max_archives: int | None = None
    ttl_ms: int | None = None
    cleans_expired: bool = False


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class _Archive:
    """An archive in a directory: an application with its jobs, or a single job.

    Attributes:
        path: of the directory of the application, or of the file of the job.
        files: in the order of their paths.
    """

    path: str
    files: tuple[_File, ...]
    is_application: bool

    @property
    def modified_ms(self) -> int:
        return max(file.modified_ms for file in self.files)


class ArchiveFetcher:
    """Keeps the store like the directories."""

    def __init__(
        self,
        directories: tuple[str, ...],
        file_systems: FileSystems,
        store: ArchiveStore,
        applications: Retention,
        jobs: Retention,
    ) -> None:
        self._directories = directories
        self._file_systems = file_systems
        self._store = store
        self._retention = {True: applications, False: jobs}
        #: the archives that were read, or could not be, by directory and path
        self._known: dict[str, dict[str, _Archive]] = {directory: {} for directory in directories}
        #: the directories that could not be read the last time
        self._unreadable: set[str] = set()

    def refresh(self, now_ms: int) -> None:
        """Reads what is new in all directories."""
        for directory in self._directories:
            try:
                self._refresh(directory, now_ms)
            except (FlinkError, OSError) as error:
                if directory not in self._unreadable:
                    logger.error("cannot read the archives in %s: %s", directory, error)
                self._unreadable.add(directory)
            else:
                self._unreadable.discard(directory)

    def _refresh(self, directory: str, now_ms: int) -> None:
        files = self._file_systems.of(directory)
        known = self._known[directory]
        found = {one.path: one for one in _archives(files, directory)}
        for archive in self._surplus(found, now_ms):
            logger.info("deleting the archive %s", archive.path)
            _delete(files, archive)
            del found[archive.path]
            if known.pop(archive.path, None) is not None:
                self._store.remove(archive.path)
        for path, archive in found.items():
            if known.get(path) != archive:
                known[path] = archive
                self._read(files, archive)
        for path, archive in list(known.items()):
            if path not in found and self._retention[archive.is_application].cleans_expired:
                logger.info("the archive %s has been deleted", path)
                del known[path]
                self._store.remove(path)

    def _surplus(self, found: dict[str, _Archive], now_ms: int) -> list[_Archive]:
        """Returns the archives to delete: those that are too old, and the oldest of those that are too many."""
        surplus = []
        for is_application, retention in self._retention.items():
            archives = [one for one in found.values() if one.is_application is is_application]
            archives.sort(key=lambda one: -one.modified_ms)
            for position, one in enumerate(archives):
                is_old = retention.ttl_ms is not None and now_ms - one.modified_ms >= retention.ttl_ms
                if is_old or (retention.max_archives is not None and position >= retention.max_archives):
                    surplus.append(one)
        return surplus

    def _read(self, files: FileSystem, archive: _Archive) -> None:
        answers: dict[str, list[ArchivedAnswer]] = {}
        for file in archive.files:
            try:
                answers[file.path] = _read(files, file)
            except (FlinkError, OSError) as error:
                logger.error("an archive is left out: %s", error)
        if answers:
            self._store.replace(archive.path, answers)


def _archives(files: FileSystem, directory: str) -> Iterator[_Archive]:
    """Yields the archives in a directory. Raises: CheckpointStorageError."""
    for entry in files.list(directory):
        path = join(directory, entry.name)
        if not is_archive_id(entry.name):
            continue
        if not entry.is_directory:
            file = _File(path, entry.size_bytes, entry.modified_ms or 0)
            yield _Archive(path, (file,), is_application=False)
            continue
        applications = join(path, APPLICATIONS)
        for application in files.list(applications):
            if application.is_directory and is_archive_id(application.name):
                found = _application_files(files, join(applications, application.name))
                if found:
                    yield _Archive(join(applications, application.name), found, is_application=True)


def _application_files(files: FileSystem, directory: str) -> tuple[_File, ...]:
    found = [
        _File(join(directory, entry.name), entry.size_bytes, entry.modified_ms or 0)
        for entry in files.list(directory)
        if entry.name == SUMMARY and not entry.is_directory
    ]
    jobs = join(directory, JOBS)
    found += [
        _File(join(jobs, entry.name), entry.size_bytes, entry.modified_ms or 0)
        for entry in files.list(jobs)
        if is_archive_id(entry.name) and not entry.is_directory
    ]
    return tuple(found)


def _read(files: FileSystem, file: _File) -> list[ArchivedAnswer]:
    """Raises: ArchiveError, CheckpointStorageError, CorruptStateError, OSError."""
    if file.size_bytes > MAX_ARCHIVE_BYTES:
        raise ArchiveError(
            f"{file.path} has {file.size_bytes} bytes; archives of up to {MAX_ARCHIVE_BYTES} bytes are read",
            details={"path": file.path},
        )
    with files.open(file.path) as opened:
        return decode_archive(opened.read(MAX_ARCHIVE_BYTES), file.path)


def _delete(files: FileSystem, archive: _Archive) -> None:
    if archive.is_application:
        files.delete_directory(archive.path)
    else:
        files.delete_file(archive.path)
