"""PythonPath: the directories of jobs on `sys.path` of this process.

A process has one `sys.path` and one `sys.modules`, which all jobs share. The users of each entry are counted. When the
last job of an entry ends, the entry is removed from `sys.path`, and the modules imported from it from `sys.modules`, so
a later job sees its own code. Two jobs that run in a process at the same time must not have different modules of the
same name. That is an error, because the second job would silently run the code of the first one.

Source: the class loaders of org.apache.flink.runtime.execution.librarycache, as far as possible in Python.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable
from types import ModuleType

from flinkpy.common.errors import UnsupportedOperationError


class RefusedModules:
    """The modules of a job that this process cannot import, because another job uses others of the same name.

    Tasks that need none of them run nevertheless.

    Args:
        names: the names of the modules and packages at the top level.
        reason: the error for a task that needs one.
    """

    def __init__(self, names: Iterable[str], reason: str) -> None:
        self.names = frozenset(names)
        self.reason = reason
        # A pickle of protocol 5 has the name of a module as a short string: an opcode, its length, its text.
        words = b"|".join(
            b"\\x8c(?:%s%s|.%s[.])" % (re.escape(bytes([len(name)])), re.escape(name), re.escape(name))
            for name in sorted(name.encode() for name in self.names)
        )
        self._pattern = re.compile(words or b"(?!)", re.DOTALL)

    def are_named_in(self, pickled: bytes) -> bool:
        """Returns True if loading these pickles may import one of the modules, at once or when a function runs."""
        return self._pattern.search(pickled) is not None

    def error(self) -> UnsupportedOperationError:
        return UnsupportedOperationError(self.reason)


class PythonPath:
    """Counts and checks the entries. Thread: main thread; `check_modules` also task threads."""

    def __init__(self) -> None:
        self._users: Counter[str] = Counter()
        #: Entries that this object put on sys.path.
        self._added: set[str] = set()
        #: Entries that contain only files that a job shipped.
        self._shipped: set[str] = set()
        #: A cache of `os.path.realpath` of module files, which makes a system call for each directory of a path.
        self._real_files: dict[str, str] = {}

    def acquire(self, entries: Iterable[str], shipped: Iterable[str] = ()) -> tuple[str, ...]:
        """Puts `entries` at the front of the path, in their order. Returns them normalised.

        Args:
            shipped: the entries that contain only files that the job shipped.

        Raises:
            UnsupportedOperationError: another job has loaded or shipped a different module of the same name.
        """
        wanted = tuple(dict.fromkeys(os.path.realpath(entry) for entry in entries if os.path.exists(entry)))
        sent = {os.path.realpath(entry) for entry in shipped}
        self.check_modules(wanted)
        self._check_shipped(sent)
        self._shipped.update(sent)
        for entry in reversed(wanted):
            self._users[entry] += 1
            if entry not in self._added and entry not in sys.path:
                sys.path.insert(0, entry)
                self._added.add(entry)
        importlib.invalidate_caches()
        return wanted

    def path_of(self, entries: Iterable[str]) -> tuple[str, ...]:
        """Returns the `sys.path` of a process that runs only the job with these entries."""
        wanted = tuple(dict.fromkeys(os.path.realpath(entry) for entry in entries if os.path.exists(entry)))
        return (*wanted, *(entry for entry in sys.path if entry not in self._added and entry not in wanted))

    def release(self, entries: Iterable[str]) -> None:
        """Releases the entries that `acquire` returned."""
        for entry in entries:
            self._users[entry] -= 1
            if self._users[entry] <= 0:
                del self._users[entry]
                self._forget(entry)

    def check_modules(self, entries: tuple[str, ...]) -> None:
        """Checks that no module of another job hides one of these entries. Raises: UnsupportedOperationError."""
        for name, module in self._loaded_modules(self._added.difference(entries)):
            if "." in name:
                continue
            for entry in entries:
                if _is_different_file(module, entry, name):
                    raise UnsupportedOperationError(
                        f"cannot load module {name!r} of {entry}: another job in this TaskExecutor has loaded "
                        f"{module.__file__}. Use TaskExecutors with one slot each, or rename the module.",
                        details={"module": name, "path": entry},
                    )

    def _check_shipped(self, sent: set[str]) -> None:
        for present in self._shipped - sent:
            for entry in sent:
                for name in modules_in(entry) & modules_in(present):
                    if _content(_file_of(entry, name)) != _content(_file_of(present, name)):
                        raise UnsupportedOperationError(
                            f"cannot load module {name!r} of {entry}: another job in this TaskExecutor has shipped "
                            f"{_file_of(present, name)}. Use TaskExecutors with one slot each, or "
                            "rename the module.",
                            details={"module": name, "path": entry},
                        )

    def _forget(self, entry: str) -> None:
        self._shipped.discard(entry)
        if entry not in self._added:
            return
        for name, module in self._loaded_modules({entry}):
            self._real_files.pop(module.__file__ or "", None)
            del sys.modules[name]
        self._added.discard(entry)
        if entry in sys.path:
            sys.path.remove(entry)
        for cached in [p for p in sys.path_importer_cache if p == entry or p.startswith(entry + os.sep)]:
            del sys.path_importer_cache[cached]

    def _loaded_modules(self, entries: set[str]) -> list[tuple[str, ModuleType]]:
        """Returns the modules that were imported from these entries.

        The main module of this process is none of them, even if its file lies there: libraries rely on it.
        """
        if not entries:
            return []
        # Few of the many modules of a process belong to a job.
        prefixes = tuple(entry.rstrip(os.sep) + os.sep for entry in entries)
        return [
            (name, module)
            for name, module in list(sys.modules.items())
            if name != "__main__"
            and isinstance(file := getattr(module, "__file__", None), str)
            and (real := self._real_file(file)).startswith(prefixes)
            and self._entry_of(real) in entries
        ]

    def _real_file(self, file: str) -> str:
        real = self._real_files.get(file)
        if real is None:
            real = self._real_files[file] = os.path.realpath(file)
        return real

    def _entry_of(self, file: str) -> str:
        """Returns the entry of a module: the longest one on sys.path that contains its file."""
        holding = [entry for entry in (*self._added, *sys.path) if file.startswith(entry.rstrip(os.sep) + os.sep)]
        return max(holding, key=len, default="")


def modules_in(entry: str) -> set[str]:
    """Returns the names of the modules and packages in a directory."""
    if not os.path.isdir(entry):
        return set()
    return {name.removesuffix(".py") for name in os.listdir(entry) if os.path.isfile(_file_of(entry, name))}


def _file_of(entry: str, name: str) -> str:
    """Returns the file of a module, given by its name or file name, or of a package."""
    module = os.path.join(entry, f"{name.removesuffix('.py')}.py")
    return module if os.path.isfile(module) else os.path.join(entry, name, "__init__.py")


def _is_different_file(module: ModuleType, entry: str, name: str) -> bool:
    for candidate in (os.path.join(entry, f"{name}.py"), os.path.join(entry, name, "__init__.py")):
        if os.path.isfile(candidate):
            return _content(candidate) != _content(module.__file__ or "")
    return False


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:  # inside an archive
        return path.encode()
