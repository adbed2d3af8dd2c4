"""PrivateDirectory: a directory in a shared place that only this user can change.

Names in a shared place such as the temporary directory can be guessed, so another user may have created a directory or
a symbolic link there first. This module guarantees that a directory belongs to this user, that no other user can write
into it, and that no symbolic link is on the path from the shared place. All operations are relative to the opened
directory, so nothing can be exchanged between the check and the use. All calls block.
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
#: All permissions except the owner's.
_OF_OTHERS = 0o077
_WRITABLE_BY_OTHERS = 0o022


class PrivateDirectory:
    """An open directory that only this user can change; a context manager that closes it.

    Attributes:
        path: path for messages and for calls that need one. It names this directory as long as no other user can
            rename a parent; the sticky bit of the temporary directory prevents that.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def make(cls, root: Path, *names: str) -> Self:
        """Opens `root / names...` and creates missing directories with mode 0700.

        If other users can read an existing directory of this user, their permissions are removed. If they can write to
        it, it is refused.

        Args:
            root: the shared place. It is not checked, and symbolic links to it are followed.
            names: names of the directories below `root`.

        Raises:
            PrivateDirectoryError: a directory is not private; the message names it and its owner.
            OSError: a directory cannot be created or opened.
        """
        return cls._open(root, names, is_made=True)

    @classmethod
    def open(cls, root: Path, *names: str) -> Self:
        """Opens an existing directory. Raises: PrivateDirectoryError, FileNotFoundError, OSError."""
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
        """Returns the sorted names of all entries of the directory."""
        return sorted(os.listdir(self._descriptor))

    def open_file(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Opens a regular file in the directory and returns its descriptor; a symbolic link is not followed.

        Raises: PrivateDirectoryError if it is not a regular file of this user, OSError.
        """
        try:
            descriptor = os.open(
                name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=self._descriptor
            )
        except OSError as error:
            if os.path.islink(self.path / name):
                raise PrivateDirectoryError(
                    f"{self.path / name} is a symbolic link, which flinkpy does not follow",
                    details={"path": str(self.path / name)},
                ) from error
            raise
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            os.close(descriptor)
            raise _not_ours(self.path / name, status, "is not a file of this user")
        return descriptor

    def remove(self, name: str) -> None:
        """Removes a subdirectory and its content as far as possible; a symbolic link is not followed."""
        shutil.rmtree(name, ignore_errors=True, dir_fd=self._descriptor)

    def clear(self) -> None:
        """Removes the content of the directory as far as possible; links are removed, not followed."""
        for name in self.names():
            if self.is_directory(name):
                self.remove(name)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=self._descriptor)

    def is_directory(self, name: str) -> bool:
        """True for a directory; False for a symbolic link, even to a directory, and for a missing name."""
        try:
            return stat.S_ISDIR(os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Closes the directory; idempotent."""
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
    """Creates `path` and its missing parents, removes other users' permissions on `path`, and returns it.

    This is for a directory that the user configured: symbolic links are followed, and other users may have had access
    before.

    Raises: PrivateDirectoryError if it belongs to another user, OSError.
    """
    resolved = path.resolve()
    resolved.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(resolved, _OPEN_DIRECTORY)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            raise _not_ours(path, status, "belongs to another user")
        if status.st_mode & _OF_OTHERS:
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~_OF_OTHERS)
    finally:
        os.close(descriptor)
    return path


def check_owner(path: Path) -> None:
    """Checks the owner and the permissions of a directory, if it exists.

    Raises: PrivateDirectoryError if it belongs to another user, or if all users can write to it.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return
    if status.st_uid != os.geteuid() or status.st_mode & stat.S_IWOTH:
        raise _not_ours(path, status, "is not private")


def open_directory(name: str, path: Path, parent: int) -> int:
    """Opens a directory relative to the open directory `parent` without following a link. `path` is for messages.

    Raises: PrivateDirectoryError if it is a symbolic link or not a directory, OSError.
    """
    try:
        return os.open(name, _OPEN_DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        raise
    except OSError as error:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            if status.st_uid != os.geteuid():
                raise _not_ours(path, status, "is not private") from error
            raise
        what = "is a symbolic link" if stat.S_ISLNK(status.st_mode) else "is not a directory"
        raise _not_ours(path, status, what) from error


def delete_file_below(root: Path, *names: str) -> None:
    """Deletes the file `root / names...` without following links.

    Raises: PrivateDirectoryError if a parent is a link or a file, OSError.
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
    """Makes an open directory private. Raises: PrivateDirectoryError if other users own it or can write to it."""
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or status.st_mode & _WRITABLE_BY_OTHERS:
        raise _not_ours(path, status, "is not private")
    if status.st_mode & _OF_OTHERS:
        os.fchmod(descriptor, 0o700)


def _not_ours(path: Path, status: os.stat_result, what: str) -> PrivateDirectoryError:
    owner = owner_name(status.st_uid)
    return PrivateDirectoryError(
        f"{path} {what}: its owner is {owner}, its mode {stat.S_IMODE(status.st_mode):04o}. Another user may have "
        "created it or may change it, so flinkpy does not use it; remove it, or configure another directory",
        details={"path": str(path), "owner": owner},
    )


def owner_name(uid: int) -> str:
    """Returns the name of a user with the id in parentheses, or only the id if there is no name."""
    import pwd

    try:
        return f"{pwd.getpwuid(uid).pw_name} ({uid})"
    except KeyError:
        return str(uid)
