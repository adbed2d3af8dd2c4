"""RocksDatabase: a RocksDB database on local disk, with typed errors. It stays open until its last user releases it.

The write-ahead log is off. Checkpoints make the state durable, and the database of a dead process is never opened
again.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice, starmap
from pathlib import Path
from typing import Any

from flinkpy.common.errors import CorruptStateError, FlinkError, StateBackendError
from flinkpy.state.rocksdb.settings import load_rocksdict

#: The number of entries that `write` adds to a batch between two checks of its size.
_ENTRIES_PER_LOOK = 256
Pair = tuple[bytes, bytes]


def database_error(error: Exception, doing: str, path: Path) -> FlinkError:
    """Returns the typed error for an exception of rocksdict, which only raises Exception with a text."""
    text = str(error)
    if text.startswith("Corruption") or "checksum" in text:
        return CorruptStateError(f"the database {path} is damaged: {text}", details={"path": str(path)})
    hint = " (the disk is full)" if "No space left" in text else ""
    return StateBackendError(f"{doing} the database {path} failed{hint}: {text}", details={"path": str(path)})


def remove_directory(directory: Path) -> None:
    """Removes a directory with its content, and its parent, the directory of the backend, if that becomes empty."""
    shutil.rmtree(directory, ignore_errors=True)
    with suppress(OSError):
        directory.parent.rmdir()


class RocksDatabase:
    """A database. Thread: task thread; any for DatabaseView and DatabaseFiles.

    Args:
        directory: belongs to this database alone. It is removed when the last user releases the database.
        options: a rocksdict.Options.
        write_batch_bytes: the size in bytes at which `write` writes a batch.

    Raises: StateBackendError, CorruptStateError.
    """

    def __init__(self, directory: Path, options: Any, write_batch_bytes: int) -> None:
        self._rocksdict = load_rocksdict()
        self.directory = directory
        self.path = directory / "db"
        self._options = options
        self._write_batch_bytes = write_batch_bytes
        self._users = 1
        self._lock = threading.Lock()
        #: The files requested since the last write. They must be linked before the next write.
        self._files: DatabaseFiles | None = None
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._db = self._rocksdict.Rdict(str(self.path), options)
            without_log = self._rocksdict.WriteOptions()
            without_log.disable_wal = True
            self._db.set_write_options(without_log)
        except Exception as error:
            raise database_error(error, "opening", self.path) from error

    # -- life ------------------------------------------------------------------------------------------------------

    def retain(self) -> None:
        """Adds a user, which calls `release` once. Thread: any."""
        with self._lock:
            assert self._users, "the database is closed"
            self._users += 1

    def release(self) -> None:
        """Removes a user. The last one closes the database and removes its files. Thread: any."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
        self._db.close()
        remove_directory(self.directory)

    # -- reading ---------------------------------------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        try:
            return self._db.get(key)  # type: ignore[no-any-return]
        except Exception as error:
            raise database_error(error, "reading", self.path) from error

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Returns the values in the order of the keys. Sorted keys are twice as fast."""
        if len(keys) < 2:
            return [self.get(key) for key in keys]
        try:
            return self._db.get(keys)  # type: ignore[no-any-return]
        except Exception as error:
            raise database_error(error, "reading", self.path) from error

    def scan(self, lower: bytes, upper: bytes | None) -> Iterator[Pair]:
        """Yields the pairs with lower <= key < upper in the order of the keys. Without `upper` it goes to the end."""
        return _scan(self._rocksdict, self._db, lower, upper, self.path)

    @contextmanager
    def failing(self, doing: str) -> Iterator[None]:
        """Turns errors of rocksdict into typed errors. `doing` is a verb such as "writing"."""
        try:
            yield
        except FlinkError:
            raise
        except Exception as error:
            raise database_error(error, doing, self.path) from error

    def view(self) -> DatabaseView:
        """Returns a view of the current content. The caller must close it."""
        # An iterator sees the content at its creation. Iterators of rocksdict's snapshots also see later writes.
        options = self._rocksdict.ReadOptions()
        return DatabaseView(self, self._db.items(read_opt=options), self._db.iter(options))

    # -- writing ---------------------------------------------------------------------------------------------------

    def write(self, pairs: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Writes the pairs. A value of None deletes the key. Sorted keys are several times as fast."""
        self._link_files()
        batch = self._rocksdict.WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        pending = 0
        with self.failing("writing"):
            for key, value in pairs:
                if value is None:
                    delete(key)
                else:
                    put(key, value)
                pending += 1
                if pending >= _ENTRIES_PER_LOOK:
                    pending = 0
                    if batch.size_in_bytes() >= self._write_batch_bytes:
                        self._db.write(batch)
                        # A batch can be written only once.
                        batch = self._rocksdict.WriteBatch(raw_mode=True)
                        put, delete = batch.put, batch.delete
            if len(batch):
                self._db.write(batch)

    def put_pairs(self, pairs: Iterator[Pair]) -> None:
        """Writes pairs that include no deletions. It is faster than `write`."""
        self._link_files()
        with self.failing("writing"):
            batch = self._rocksdict.WriteBatch(raw_mode=True)
            while chunk := list(islice(pairs, _ENTRIES_PER_LOOK)):
                deque(starmap(batch.put, chunk), maxlen=0)
                if batch.size_in_bytes() >= self._write_batch_bytes:
                    self._db.write(batch)
                    batch = self._rocksdict.WriteBatch(raw_mode=True)
            if len(batch):
                self._db.write(batch)

    def put_many(self, keys: list[bytes], values: list[bytes]) -> None:
        """Writes pairs that include no deletions."""
        self._link_files()
        with self.failing("writing"):
            batch = self._rocksdict.WriteBatch(raw_mode=True)
            for start in range(0, len(keys), _ENTRIES_PER_LOOK):
                end = start + _ENTRIES_PER_LOOK
                deque(map(batch.put, keys[start:end], values[start:end]), maxlen=0)
                if batch.size_in_bytes() >= self._write_batch_bytes:
                    self._db.write(batch)
                    batch = self._rocksdict.WriteBatch(raw_mode=True)
            if len(batch):
                self._db.write(batch)

    def delete_range(self, lower: bytes, upper: bytes) -> None:
        self._link_files()
        with self.failing("deleting from"):
            batch = self._rocksdict.WriteBatch(raw_mode=True)
            batch.delete_range(lower, upper)
            self._db.write(batch)

    # -- files -----------------------------------------------------------------------------------------------------

    def files(self, target: Path) -> DatabaseFiles:
        """Returns the files with the current content. They are hard-linked into `target` later."""
        self._link_files()
        self._files = files = DatabaseFiles(self, target)
        return files

    def _link_files(self) -> None:
        """Links the requested files before a write, which must not be in them, if they are not linked yet."""
        files, self._files = self._files, None
        if files is not None:
            files.link_first()

    def link_files_into(self, target: Path) -> None:
        """Flushes the database and hard-links its files. Thread: any, but not during a write.

        Half of the time is spent waiting for the disk without the GIL.
        """
        with self.failing("flushing"):
            self._db.flush(True)
        with self.failing("linking the files of"):
            self._rocksdict.Checkpoint(self._db).create_checkpoint(str(target))

    def property(self, name: str) -> int:
        with self.failing("reading the properties of"):
            return self._db.property_int_value(name) or 0

    def ticker(self, name: str) -> int:
        """Returns a figure of RocksDB's statistics; 0 unless the options enable them. Thread: any."""
        statistics = self._options.get_statistics() or ""
        found = re.search(rf"^{re.escape(name)} COUNT : (\d+)$", statistics, re.MULTILINE)
        return int(found[1]) if found else 0

    def set_options(self, options: dict[str, str]) -> None:
        with self.failing("changing the options of"):
            self._db.set_options(options)


class DatabaseFiles:
    """The files of a database at one moment. The thread that uploads them links them, so the task does not wait.

    Meanwhile the task holds its changes in memory. If it must write before the files are linked, it links them itself
    or waits until they are linked. Thread: any.

    Args:
        directory: does not exist yet. `link` creates it.
    """

    def __init__(self, database: RocksDatabase, directory: Path) -> None:
        database.retain()
        self.directory = directory
        self._database: RocksDatabase | None = database
        self._lock = threading.Lock()
        self._is_linked = False
        self._failure: FlinkError | None = None

    def link(self) -> None:
        """Links the files. Idempotent. After a failure each call raises the same error.

        Raises: StateBackendError, CorruptStateError.
        """
        with self._lock:
            if self._is_linked:
                return
            if self._failure is None:
                self._failure = StateBackendError(f"linking the database files into {self.directory} was interrupted")
                try:
                    if self._database is not None:
                        self._database.link_files_into(self.directory)
                        self._is_linked = True
                        return
                except FlinkError as error:
                    self._failure = error
            raise self._failure

    def link_first(self) -> None:
        """Links the files before a change of the database. The snapshot gets a failure from its own call of `link`."""
        if self._database is not None:
            with suppress(FlinkError):
                self.link()

    def close(self) -> None:
        """Removes the linked files and releases the database. Idempotent."""
        with self._lock:
            database, self._database = self._database, None
        if database is not None:
            database.release()
        remove_directory(self.directory)


class DatabaseView:
    """The content of a database at one moment. Thread: any, one at a time.

    Args:
        pairs: all pairs in order.
        cursor: a rocksdict iterator over the same content.
    """

    def __init__(self, database: RocksDatabase, pairs: Iterator[Pair], cursor: Any) -> None:
        database.retain()
        self._database: RocksDatabase | None = database
        self._path = database.path
        self._pairs: Iterator[Pair] = pairs
        self._cursor = cursor
        #: The last pair of `_pairs`, if it has not been yielded yet.
        self._next: Pair | None = None
        #: The last key that was yielded.
        self._last: bytes | None = None

    def scan(self, lower: bytes, upper: bytes | None) -> Iterator[Pair]:
        """Yields the pairs with lower <= key < upper in order. Scans of ascending ranges share one pass."""
        try:
            if self._last is not None and lower <= self._last:
                yield from self._seek(lower, upper)
                return
            pair = self._next or next(self._pairs, None)
            while pair is not None and pair[0] < lower:
                pair = next(self._pairs, None)
            while pair is not None and (upper is None or pair[0] < upper):
                self._next, self._last = None, pair[0]
                yield pair
                pair = next(self._pairs, None)
            self._next = pair
            if pair is None:
                # An error ends the iteration like the end of the data. This checks the status at its end.
                self._cursor.seek(lower if self._last is None else max(lower, self._last + b"\0"))
                self._cursor.status()
        except Exception as error:
            raise database_error(error, "reading", self._path) from error

    def _seek(self, lower: bytes, upper: bytes | None) -> Iterator[Pair]:
        cursor = self._cursor
        cursor.seek(lower)
        while cursor.valid() and (upper is None or cursor.key() < upper):
            yield cursor.key(), cursor.value()
            cursor.next()
        cursor.status()

    def close(self) -> None:
        """Releases the database. Idempotent."""
        database, self._database = self._database, None
        self._pairs, self._cursor = iter(()), None
        if database is not None:
            database.release()


def _scan(rocksdict: Any, source: Any, lower: bytes, upper: bytes | None, path: Path) -> Iterator[Pair]:
    options = rocksdict.ReadOptions()
    if upper is not None:
        options.set_iterate_upper_bound(upper)
    last = None
    try:
        for pair in source.items(from_key=lower, read_opt=options):
            yield pair
            last = pair
        # An error ends the iteration like the end of the data. This checks the status at its end.
        probe = source.iter(options)
        probe.seek(lower if last is None else last[0] + b"\0")
        probe.status()
    except Exception as error:
        raise database_error(error, "reading", path) from error
