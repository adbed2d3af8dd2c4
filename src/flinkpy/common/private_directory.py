"""PrivateDirectory: a directory in a place that others can write to, which nobody but this user can change.

A name in a shared place such as the temporary directory can be guessed, so another user may have put a directory or a
symbolic link there before us. Whoever makes or trusts such a directory does it here: the directory belongs to this
user, nobody else can write into it, and no symbolic link lies on the way from the shared place. What is done in it is
done relative to the opened directory, so that nothing can be exchanged between the check and the use. Blocking.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from pathlib import Path
from types import TracebackType
from typing import Self

from flinkpy.common.errors import PrivateDirectoryError

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Everybody's permissions but the owner's.
_OF_OTHERS = 0o077
_WRITABLE_BY_OTHERS = 0o022


class PrivateDirectory:
    """An open directory that is this user's alone. A context manager, which closes it.

    Attributes:
        path: for messages, and for what needs a path. It names this directory as long as no other user can rename
            anything on the way to it, which the sticky bit of the temporary directory sees to.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def make(cls, root: Path, *names: str) -> Self:
        """Opens `root / names...`, each made with mode 0700 if it is missing.

        A directory of this user that others may only read is taken from them; it is refused if they could have written
        into it.

        Args:
            root: the shared place, which is as it was configured and not checked; links to it are followed.

        Raises: PrivateDirectoryError naming the directory and its owner, OSError.
        """
        return cls._open(root, names, is_made=True)

    @classmethod
    def open(cls, root: Path, *names: str) -> Self:
        """Opens a directory that must be there. Raises: PrivateDirectoryError, FileNotFoundError, OSError."""
        return cls._open(root, names, is_made=False)

    @classmethod
    def _open(cls, root: Path, names: tuple[str, ...], *, is_made: bool) -> Self:
        path = root
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in names:
                path = path / name
                if is_made:
                    _make(name, descriptor)
                inner = open_directory(name, path, descriptor)
                os.close(descriptor)
                descriptor = inner
                _take(path, descriptor)
            return cls(path, descriptor)
        except BaseException:
            os.close(descriptor)
            raise

    def names(self) -> list[str]:
        """Returns the names of everything in the directory."""
        return sorted(os.listdir(self._descriptor))

    def open_file(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Returns the descriptor of a regular file in the directory; a symbolic link is not followed.

        Raises: PrivateDirectoryError where it is something else than a file of this user, OSError.
        """
        try:
            descriptor = os.open(
                name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=self._descriptor
            )
        except OSError as error:
            if os.path.islink(self.path / name):
                raise PrivateDirectoryError(
                    f"{self.path / name} is a symbolic link, which is not followed",
                    details={"path": str(self.path / name)},
                ) from error
            raise
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            os.close(descriptor)
            raise _not_ours(self.path / name, status, "is not a file of this user")
        return descriptor

    def remove(self, name: str) -> None:
        """Removes a directory in this one with everything in it, as far as possible; a link is not followed."""
        shutil.rmtree(name, ignore_errors=True, dir_fd=self._descriptor)

    def clear(self) -> None:
        """Removes everything in the directory, as far as possible; links are removed, not followed."""
        for name in self.names():
            if self.is_directory(name):
                self.remove(name)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=self._descriptor)

    def is_directory(self, name: str) -> bool:
        """True for a directory; false for a symbolic link, whatever it points at, and for a name that is not there."""
        try:
            return stat.S_ISDIR(os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Idempotent."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def make_private_directory(path: Path) -> Path:
    """Makes `path` and its missing parents, and takes what permissions others have there from them; returns it.

    For a directory that the user has configured, so links on the way to it are followed, and others may have been let
    into it before.

    Raises: PrivateDirectoryError where it belongs to another user, OSError.
    """
    resolved = path.resolve()
    resolved.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(resolved, _OPEN_DIRECTORY)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            raise _not_ours(path, status, "is not this user's")
        if status.st_mode & _OF_OTHERS:
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~_OF_OTHERS)
    finally:
        os.close(descriptor)
    return path


def check_owner(path: Path) -> None:
    """Checks that a directory is this user's, and that others cannot write there; a missing one is fine.

    Raises: PrivateDirectoryError.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return
    if status.st_uid != os.geteuid() or status.st_mode & stat.S_IWOTH:
        raise _not_ours(path, status, "is not this user's alone")


def open_directory(name: str, path: Path, parent: int) -> int:
    """Opens a directory relative to `parent`, an open one, without following a link. `path` is for messages.

    Raises: PrivateDirectoryError where it is a symbolic link or no directory, OSError.
    """
    try:
        return os.open(name, _OPEN_DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        raise
    except OSError as error:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            if status.st_uid != os.geteuid():
                raise _not_ours(path, status, "is not this user's alone") from error
            raise
        what = "is a symbolic link" if stat.S_ISLNK(status.st_mode) else "is no directory"
        raise _not_ours(path, status, what) from error


def delete_file_below(root: Path, *names: str) -> None:
    """Deletes `root / names...` without following a link on the way. A file that is not there is fine.

    Raises: PrivateDirectoryError where a link or a file is in the way, OSError.
    """
    *directories, last = names
    path, descriptor = root, os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in directories:
            path = path / name
            inner = open_directory(name, path, descriptor)
            os.close(descriptor)
            descriptor = inner
        os.unlink(last, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def _make(name: str, parent: int) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        return


def _take(path: Path, descriptor: int) -> None:
    """Raises: PrivateDirectoryError where the open directory is another user's, or others could write into it."""
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or status.st_mode & _WRITABLE_BY_OTHERS:
        raise _not_ours(path, status, "is not this user's alone")
    if status.st_mode & _OF_OTHERS:
        os.fchmod(descriptor, 0o700)


def _not_ours(path: Path, status: os.stat_result, what: str) -> PrivateDirectoryError:
    owner = owner_name(status.st_uid)
    return PrivateDirectoryError(
        f"{path} {what}: its owner is {owner}, its mode {stat.S_IMODE(status.st_mode):04o}. Another user may have made "
        "it or can change it, so nothing in it is used; remove it, or configure another directory",
        details={"path": str(path), "owner": owner},
    )


def owner_name(uid: int) -> str:
    """Returns the name of a user, with the number in parentheses; only the number where there is no name."""
    import pwd

    try:
        return f"{pwd.getpwuid(uid).pw_name} ({uid})"
    except KeyError:
        return str(uid)
