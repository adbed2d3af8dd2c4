"""PythonPath: which directories of which jobs are on `sys.path` of this process.

Jobs come and go, `sys.path` and `sys.modules` are one per process. Each entry is counted; with its last job an entry
leaves `sys.path` and the modules imported from it leave `sys.modules`, so a later job sees its own code. Two jobs that
run here at once must not bring different modules of one name: the second would silently run the first one's code, so
that is an error.

Source: the class loaders of org.apache.flink.runtime.execution.librarycache, as far as Python can.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections import Counter
from collections.abc import Iterable
from types import ModuleType

from flinkpy.common.errors import UnsupportedOperationError


class PythonPath:
    """Thread: any, but not two at once (the TaskExecutor's main thread; `check_modules` also from task threads)."""

    def __init__(self) -> None:
        self._users: Counter[str] = Counter()
        #: Entries put on sys.path by this object, i.e. that were not there before.
        self._added: set[str] = set()
        #: Those of them whose files a job sent along, and nothing else.
        self._shipped: set[str] = set()
        #: Of files of modules, where they really are: to ask takes a call of the system per directory above each.
        self._real_files: dict[str, str] = {}

    def acquire(self, entries: Iterable[str], shipped: Iterable[str] = ()) -> tuple[str, ...]:
        """Put `entries` on the path, in their order and before what is there; returns them normalised.

        Args:
            shipped: those of the entries that hold what the job sent along, and nothing else.

        Raises:
            UnsupportedOperationError: another job has loaded a different module of a name found there; or it has sent
                along one, which either could load from now on in place of its own.
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

    def release(self, entries: Iterable[str]) -> None:
        """A job no longer needs what `acquire` returned."""
        for entry in entries:
            self._users[entry] -= 1
            if self._users[entry] <= 0:
                del self._users[entry]
                self._forget(entry)

    def check_modules(self, entries: tuple[str, ...]) -> None:
        """Raises: UnsupportedOperationError where a module of another job hides one of these entries."""
        for name, module in self._loaded_modules(self._added.difference(entries)):
            if "." in name:
                continue
            for entry in entries:
                if _is_different_file(module, entry, name):
                    raise UnsupportedOperationError(
                        f"module {name!r} of {entry} cannot be loaded: another job that runs in this TaskExecutor has "
                        f"loaded {module.__file__}. Use TaskExecutors with one slot each, or rename the module.",
                        details={"module": name, "path": entry},
                    )

    def _check_shipped(self, sent: set[str]) -> None:
        for present in self._shipped - sent:
            for entry in sent:
                for name in _modules_in(entry) & _modules_in(present):
                    if _content(_file_of(entry, name)) != _content(_file_of(present, name)):
                        raise UnsupportedOperationError(
                            f"module {name!r} of {entry} cannot be loaded: another job that runs in this TaskExecutor "
                            f"has sent along {_file_of(present, name)}. Use TaskExecutors with one slot each, or "
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
        """Those that came from these entries of ours."""
        if not entries:
            return []
        # A process has many modules, nearly all of which are none of a job's.
        prefixes = tuple(entry.rstrip(os.sep) + os.sep for entry in entries)
        return [
            (name, module)
            for name, module in list(sys.modules.items())
            if isinstance(file := getattr(module, "__file__", None), str)
            and (real := self._real_file(file)).startswith(prefixes)
            and self._entry_of(real) in entries
        ]

    def _real_file(self, file: str) -> str:
        real = self._real_files.get(file)
        if real is None:
            real = self._real_files[file] = os.path.realpath(file)
        return real

    def _entry_of(self, file: str) -> str:
        """The entry that a module came from: the longest one on sys.path that holds its file."""
        holding = [entry for entry in (*self._added, *sys.path) if file.startswith(entry.rstrip(os.sep) + os.sep)]
        return max(holding, key=len, default="")


def _modules_in(entry: str) -> set[str]:
    """Names of the modules and packages of a directory."""
    if not os.path.isdir(entry):
        return set()
    return {name.removesuffix(".py") for name in os.listdir(entry) if os.path.isfile(_file_of(entry, name))}


def _file_of(entry: str, name: str) -> str:
    """Of a module, by its name or that of its file, or of a package."""
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
