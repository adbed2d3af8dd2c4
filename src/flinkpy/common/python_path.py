"""PythonPath: the directories of jobs on `sys.path` of this process.

A process has one `sys.path` and one `sys.modules`, which all jobs share. The users of each entry are counted. When the
last job of an entry ends, the entry is removed from `sys.path`, and the modules imported from it from `sys.modules`, so
a later job sees its own code. A job whose modules differ from those of the same name that a running job has, gets
modules of its own (`job_modules`). Otherwise it would silently run the code of the other job.

Source: the class loaders of org.apache.flink.runtime.execution.librarycache, as far as possible in Python.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections import Counter
from collections.abc import Iterable
from types import ModuleType

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.job_modules import JobModules, forget_ordinary_module, ordinary_module


class PythonPath:
    """Counts and checks the entries. Thread: main thread; `check_modules` also task threads."""

    def __init__(self) -> None:
        self._users: Counter[str] = Counter()
        #: Entries that this object put on sys.path.
        self._added: set[str] = set()
        #: A cache of `os.path.realpath` of module files, which makes a system call for each directory of a path.
        self._real_files: dict[str, str] = {}

    def acquire(self, entries: Iterable[str]) -> tuple[str, ...]:
        """Puts `entries` at the front of the path, in their order. Returns them normalised.

        Raises:
            UnsupportedOperationError: another job has a different module of the same name.
        """
        wanted = _normalised(entries)
        self.check_modules(wanted)
        self._check_files(wanted)
        for entry in reversed(wanted):
            self._users[entry] += 1
            if entry not in self._added and entry not in sys.path:
                sys.path.insert(0, entry)
                self._added.add(entry)
        importlib.invalidate_caches()
        return wanted

    def acquire_isolated(self, owner: str, entries: Iterable[str]) -> tuple[tuple[str, ...], JobModules]:
        """Makes a job find its modules in its own entries. Entries that other jobs have too are shared with them.

        Args:
            owner: names the job.

        Returns: the shared entries, which `release` must get, and the modules of the job.
        """
        wanted = _normalised(entries)
        shared = self.acquire([entry for entry in wanted if entry in self._users])
        modules = JobModules(owner, [entry for entry in wanted if entry not in shared])
        modules.open(self._loaded_modules(self._added))
        return shared, modules

    def path_of(self, entries: Iterable[str]) -> tuple[str, ...]:
        """Returns the `sys.path` of a process that runs only the job with these entries."""
        wanted = _normalised(entries)
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
                        f"{module.__file__}",
                        details={"module": name, "path": entry},
                    )

    def _check_files(self, wanted: tuple[str, ...]) -> None:
        """Checks that no module of another job, even if it is not loaded yet, differs from one in these entries."""
        for present in set(self._users).difference(wanted):
            for entry in wanted:
                for name in modules_in(entry) & modules_in(present):
                    if _content(_file_of(entry, name)) != _content(_file_of(present, name)):
                        raise UnsupportedOperationError(
                            f"cannot load module {name!r} of {entry}: another job in this TaskExecutor has "
                            f"{_file_of(present, name)}",
                            details={"module": name, "path": entry},
                        )

    def _forget(self, entry: str) -> None:
        if entry not in self._added:
            return
        for name, module in self._loaded_modules({entry}):
            self._real_files.pop(module.__file__ or "", None)
            forget_ordinary_module(name)
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
            for name, found in list(sys.modules.items())
            if name != "__main__"
            and (module := ordinary_module(found)) is not None
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


def _normalised(entries: Iterable[str]) -> tuple[str, ...]:
    """Returns the entries that exist, each once."""
    return tuple(dict.fromkeys(os.path.realpath(entry) for entry in entries if os.path.exists(entry)))


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
