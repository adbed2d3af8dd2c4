"""RocksDatabase: one database on local disk, with typed errors, and open for as long as somebody reads it.

The write-ahead log is off: what makes state durable are checkpoints, and a database whose process died is never opened
again.
"""

from __future__ import annotations

import shutil
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from flinkpy.common.errors import CorruptStateError, FlinkError, StateBackendError
from flinkpy.state.rocksdb.settings import load_rocksdict

#: Entries per batch that `write` builds between two looks at its size.
_ENTRIES_PER_LOOK = 256
Pair = tuple[bytes, bytes]


def database_error(error: Exception, doing: str, path: Path) -> FlinkError:
    """rocksdict raises plain Exceptions; what happened is in the text."""
    text = str(error)
    if text.startswith("Corruption") or "checksum" in text:
        return CorruptStateError(f"the database {path} is damaged: {text}", details={"path": str(path)})
    hint = " (the disk is full)" if "No space left" in text else ""
    return StateBackendError(f"the database {path} failed at {doing}{hint}: {text}", details={"path": str(path)})


def remove_directory(directory: Path) -> None:
    """With all that is in it; and the backend's own directory around it where it was the last in there."""
    shutil.rmtree(directory, ignore_errors=True)
    with suppress(OSError):
        directory.parent.rmdir()


class RocksDatabase:
    """Thread: task thread, but for `DatabaseView`s and `DatabaseFiles`.

    Args:
        directory: of this database alone; removed with everything in it when the last user has let go.
        options: rocksdict.Options.

    Raises:
        StateBackendError, CorruptStateError.
    """

    def __init__(self, directory: Path, options: Any, write_batch_bytes: int) -> None:
        self._rocksdict = load_rocksdict()
        self.directory = directory
        self.path = directory / "db"
        self._write_batch_bytes = write_batch_bytes
        self._users = 1
        self._lock = threading.Lock()
        #: Asked for since the last write, so that they are to be linked before the next one.
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
        """One more user, who calls `release` once. Thread: any."""
        with self._lock:
            assert self._users, "the database is closed"
            self._users += 1

    def release(self) -> None:
        """Thread: any. The last one closes the database and removes its files."""
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
        """In the order of the keys; where they are sorted they are found twice as fast."""
        if len(keys) < 2:
            return [self.get(key) for key in keys]
        try:
            return self._db.get(keys)  # type: ignore[no-any-return]
        except Exception as error:
            raise database_error(error, "reading", self.path) from error

    def scan(self, lower: bytes, upper: bytes | None) -> Iterator[Pair]:
        """Pairs with lower <= key < upper in order of key; `upper` None: to the end."""
        return _scan(self._rocksdict, self._db, lower, upper, self.path)

    @contextmanager
    def failing(self, doing: str) -> Iterator[None]:
        """Errors of rocksdict become ours."""
        try:
            yield
        except FlinkError:
            raise
        except Exception as error:
            raise database_error(error, doing, self.path) from error

    def view(self) -> DatabaseView:
        """The database as it is now. It has to be closed."""
        # An iterator sees what there was when it was made. Those of rocksdict's snapshots see what was written since.
        options = self._rocksdict.ReadOptions()
        return DatabaseView(self, self._db.items(read_opt=options), self._db.iter(options))

    # -- writing ---------------------------------------------------------------------------------------------------

    def write(self, pairs: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put each pair; a value of None deletes. In order of key it is several times as fast."""
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
                        # A written batch is consumed.
                        batch = self._rocksdict.WriteBatch(raw_mode=True)
                        put, delete = batch.put, batch.delete
            if len(batch):
                self._db.write(batch)

    def put_many(self, keys: list[bytes], values: list[bytes]) -> None:
        """`write` for pairs of which none deletes."""
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
        with self.failing("deleting"):
            batch = self._rocksdict.WriteBatch(raw_mode=True)
            batch.delete_range(lower, upper)
            self._db.write(batch)

    # -- files -----------------------------------------------------------------------------------------------------

    def files(self, target: Path) -> DatabaseFiles:
        """The files with all that has been written so far, hard-linked into `target` when they are asked to."""
        self._link_files()
        self._files = files = DatabaseFiles(self, target)
        return files

    def _link_files(self) -> None:
        """Those that were asked for, where nobody else has: what comes next is not to be in them."""
        files, self._files = self._files, None
        if files is not None:
            files.link_first()

    def link_files_into(self, target: Path) -> None:
        """Thread: any, while nobody writes. Half of the time is spent on waiting for the disk, without the GIL."""
        with self.failing("flushing"):
            self._db.flush(True)
        with self.failing("linking its files"):
            self._rocksdict.Checkpoint(self._db).create_checkpoint(str(target))

    def property(self, name: str) -> int:
        with self.failing("reading its properties"):
            return self._db.property_int_value(name) or 0

    def set_options(self, options: dict[str, str]) -> None:
        with self.failing("changing its options"):
            self._db.set_options(options)


class DatabaseFiles:
    """The files of a database as it was, linked on the thread that uploads them: the task does not wait for the disk.

    What the task changes meanwhile it holds in memory. Where it has to write before they are linked, it links them
    itself, or waits until they are. Thread: any.

    Args:
        directory: is made by `link`.
    """

    def __init__(self, database: RocksDatabase, directory: Path) -> None:
        database.retain()
        self.directory = directory
        self._database: RocksDatabase | None = database
        self._lock = threading.Lock()
        self._is_linked = False
        self._failure: FlinkError | None = None

    def link(self) -> None:
        """Idempotent.

        Raises: StateBackendError, CorruptStateError; again and again.
        """
        with self._lock:
            if self._is_linked:
                return
            if self._failure is None:
                self._failure = StateBackendError(f"linking the database's files into {self.directory} was interrupted")
                try:
                    if self._database is not None:
                        self._database.link_files_into(self.directory)
                        self._is_linked = True
                        return
                except FlinkError as error:
                    self._failure = error
            raise self._failure

    def link_first(self) -> None:
        """Before the database is changed. A failure is the snapshot's, which hears of it by its own `link`."""
        if self._database is not None:
            with suppress(FlinkError):
                self.link()

    def close(self) -> None:
        """They are not needed any more, linked or not. Idempotent."""
        with self._lock:
            database, self._database = self._database, None
        if database is not None:
            database.release()
        remove_directory(self.directory)


class DatabaseView:
    """A database as it was. Thread: one at a time, any.

    Args:
        pairs: all of it, in order.
        cursor: an iterator over the same, of rocksdict.
    """

    def __init__(self, database: RocksDatabase, pairs: Iterator[Pair], cursor: Any) -> None:
        database.retain()
        self._database: RocksDatabase | None = database
        self._path = database.path
        self._pairs: Iterator[Pair] = pairs
        self._cursor = cursor
        #: What `_pairs` gave last and nobody has had yet.
        self._next: Pair | None = None
        #: The last key that somebody had.
        self._last: bytes | None = None

    def scan(self, lower: bytes, upper: bytes | None) -> Iterator[Pair]:
        """Pairs with lower <= key < upper in order of key. What comes in order of key is read in one pass."""
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
                # An error ends the iteration as if there were no more: look again at where it ended.
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
        """Idempotent."""
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
        # An error ends the iteration as if there were no more: look again at where it ended.
        probe = source.iter(options)
        probe.seek(lower if last is None else last[0] + b"\0")
        probe.status()
    except Exception as error:
        raise database_error(error, "reading", path) from error
