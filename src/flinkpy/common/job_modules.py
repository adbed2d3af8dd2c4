"""JobModules: the modules of a job that shares its process with another job, which has others of the same names.

Python has one `sys.modules` per process, so by itself a process has one module of each name. Here the job that came
first keeps the ordinary modules. A later job whose modules clash with them is *isolated*: its modules are found in its
own directories only, and exist beside the others.

```
sys.modules["rules"]                  a shared name: a module whose attributes are those of
    a thread of isolated job B   ->   sys.modules["<job B> rules"], made from B's directories
    any other thread             ->   the ordinary module: that of job A
```

A module of a job keeps its real name, so its classes can be pickled, stored in checkpoints, and read by other processes
as always. It does not matter when a name is imported: `import` inside of functions, `importlib`, and the unpickling of
records look it up in `sys.modules`, and find the shared name.

A thread belongs to an isolated job if it is a task of the job (`use`), if such a thread has started it, or while it
works for one (`in_current_modules`). All other threads see the ordinary modules.

Source: the class loaders of org.apache.flink.runtime.execution.librarycache, which resolve a class by the class that
names it. Python resolves by thread here, because a lookup in `sys.modules` does not tell who asks.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

P = ParamSpec("P")
T = TypeVar("T")

_SUFFIXES = (".py", ".pyc", ".so", ".pyd")
#: The key in `sys.modules` of an ordinary module that was loaded when its name was shared already.
_ORDINARY = "<ordinary>"


class JobModules:
    """The modules of one isolated job. Thread: any, but only one calls `open` and `close`.

    Args:
        owner: names the job in the keys of `sys.modules`. No two jobs of a process have the same.
        entries: the directories and archives that the job imports from.
    """

    def __init__(self, owner: str, entries: Iterable[str]) -> None:
        self.owner = f"<{owner}>"
        self.entries = tuple(os.path.realpath(entry) for entry in entries if os.path.exists(entry))
        #: The names at the top level that mean modules of the job, in its threads.
        self.names = frozenset().union(*map(names_in, self.entries))

    def open(self, others: Iterable[tuple[str, ModuleType]]) -> None:
        """Makes the names of the job shared.

        Args:
            others: the modules of other jobs that are loaded, by name.
        """
        with _LOCK:
            if not _ISOLATED:
                sys.meta_path.insert(0, _FINDER)
                threading.Thread.start = _start  # type: ignore[assignment,method-assign]
            _ISOLATED[self.owner] = self
            for name, module in others:
                if _top(name) in self.names and not isinstance(sys.modules.get(name), SharedName):
                    sys.modules[name] = SharedName(name, module)

    def close(self) -> None:
        """Forgets the modules of the job. Names that no isolated job has become ordinary again. Idempotent."""
        with _LOCK:
            if _ISOLATED.pop(self.owner, None) is None:
                return
            left = frozenset().union(*(one.names for one in _ISOLATED.values()))
            for name, module in list(sys.modules.items()):
                if name.startswith(f"{self.owner} "):
                    del sys.modules[name]
                elif isinstance(module, SharedName) and _top(name) not in left:
                    _make_ordinary(name, module)
            if not _ISOLATED:
                sys.meta_path.remove(_FINDER)
                threading.Thread.start = _ORDINARY_START  # type: ignore[method-assign]
            for entry in self.entries:
                for cached in [p for p in sys.path_importer_cache if p == entry or p.startswith(entry + os.sep)]:
                    del sys.path_importer_cache[cached]

    def use(self) -> None:
        """Makes the current thread one of this job, until it ends."""
        _THREAD.job = self

    def module(self, name: str) -> ModuleType | None:
        """Returns a module of the job, and loads it if needed. Returns None if the job has none of this name."""
        return _load(self.owner, name) if _top(name) in self.names else None

    def find(self, name: str) -> ModuleSpec | None:
        """Finds a module of the job by its real name."""
        parent, _, _ = name.rpartition(".")
        if not parent:
            return PathFinder.find_spec(name, list(self.entries))
        package = self.module(parent)
        return None if package is None else PathFinder.find_spec(name, package.__path__)


def current() -> JobModules | None:
    """Returns the isolated job to which this thread belongs; None if it sees the ordinary modules."""
    job = getattr(_THREAD, "job", None)
    # A thread may outlive its job.
    return job if job is not None and job.owner in _ISOLATED else None


def in_current_modules(call: Callable[P, T]) -> Callable[P, T]:
    """Returns the call in a form for other threads, which see the modules of the current one while it runs.

    A pool of threads for all jobs needs it for every call, because a task of an isolated job may start its threads.
    """
    if not _ISOLATED:
        return call
    job = current()

    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        with _using(job):
            return call(*args, **kwargs)

    return called


def names_in(entry: str) -> set[str]:
    """Returns the names of modules and packages at the top level of a directory or an archive."""
    if os.path.isdir(entry):
        found = os.listdir(entry)
        packages = {name for name in found if os.path.isdir(os.path.join(entry, name))}
    elif zipfile.is_zipfile(entry):
        with zipfile.ZipFile(entry) as archive:
            paths = archive.namelist()
        found = [path for path in paths if "/" not in path]
        packages = {path.partition("/")[0] for path in paths if "/" in path}
    else:
        return set()
    modules = {name.partition(".")[0] for name in found if name.endswith(_SUFFIXES)}
    return {name for name in modules | packages if name.isidentifier() and not _is_taken(name)}


class SharedName(ModuleType):
    """A name in `sys.modules` that means another module in threads of an isolated job.

    All attributes are those of the module that the current thread means.
    """

    def __init__(self, name: str, ordinary: ModuleType | None) -> None:
        super().__init__(name)
        own = _own(self)
        own["_name"], own["_ordinary"] = name, ordinary
        # While Python makes a module, it sets attributes that belong to no job.
        own["_is_made"] = ordinary is not None

    def __getattribute__(self, name: str) -> Any:
        own = _own(self)
        if own["_is_made"]:
            return getattr(_meant(own), name)
        return ModuleType.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = _own(self)
        if own["_is_made"]:
            setattr(_meant(own), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_meant(_own(self)), name)

    def __dir__(self) -> list[str]:
        return dir(_meant(_own(self)))


def ordinary_module(module: ModuleType) -> ModuleType | None:
    """Returns the ordinary module that a module in `sys.modules` means. Loads nothing."""
    ordinary: ModuleType | None = _own(module)["_ordinary"] if isinstance(module, SharedName) else module
    return ordinary


def forget_ordinary_module(name: str) -> None:
    """Removes the ordinary module of a name from `sys.modules`."""
    module = sys.modules[name]
    if isinstance(module, SharedName):
        _own(module)["_ordinary"] = None
    else:
        del sys.modules[name]


def _own(shared: SharedName) -> dict[str, Any]:
    own: dict[str, Any] = ModuleType.__getattribute__(shared, "__dict__")
    return own


def _meant(own: dict[str, Any]) -> ModuleType:
    """Returns the module that a shared name means in this thread.

    Raises: AttributeError, as for a module without attributes, if it means none. Tools look at all modules.
    """
    name, job = own["_name"], current()
    if job is not None:
        module = job.module(name)
        if module is not None:
            return module
    if own["_ordinary"] is None:
        try:
            own["_ordinary"] = _load(_ORDINARY, name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    if own["_ordinary"] is None:
        raise AttributeError(f"this thread has no module {name!r}: it belongs to another job in this process")
    ordinary: ModuleType = own["_ordinary"]
    return ordinary


def _load(owner: str, name: str) -> ModuleType | None:
    """Imports a module under the key of its owner. Python's own locks make threads wait for each other.

    Raises: ModuleNotFoundError if there is none; what the module raises.
    """
    parent, _, _ = name.rpartition(".")
    if parent and _key(owner, name) not in sys.modules:
        # It may import this module, which must not happen while Python looks for this module.
        _load(owner, parent) if owner != _ORDINARY else importlib.import_module(parent)
    return importlib.import_module(_key(owner, name))


def _key(owner: str, name: str) -> str:
    """Returns the name of an owner's module in `sys.modules`. It has no dots, so Python looks for no parent of it."""
    return f"{owner} {name.replace('.', '/')}"


def _make_ordinary(name: str, shared: SharedName) -> None:
    own = _own(shared)
    loaded = sys.modules.pop(_key(_ORDINARY, name), None)
    ordinary = own["_ordinary"] = own["_ordinary"] or loaded
    if ordinary is None:
        del sys.modules[name]
    else:
        sys.modules[name] = ordinary


class _Finder(MetaPathFinder):
    """Finds shared names, and the modules that they mean."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        owner, separator, key = fullname.partition(" ")
        if not separator:
            is_shared = any(_top(fullname) in job.names for job in list(_ISOLATED.values()))
            return ModuleSpec(fullname, _SHARED_LOADER, is_package=True) if is_shared else None
        name = key.replace("/", ".")
        if owner == _ORDINARY:
            found = _find_ordinary(name)
        elif owner in _ISOLATED:
            found = _ISOLATED[owner].find(name)
        else:
            return None
        if found is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return ModuleSpec(fullname, _MeantLoader(found), origin=found.origin)


def _find_ordinary(name: str) -> ModuleSpec | None:
    parent, _, _ = name.rpartition(".")
    path = None if not parent else sys.modules[parent].__path__
    for finder in list(sys.meta_path):
        spec = None if finder is _FINDER else finder.find_spec(name, path)
        if spec is not None:
            return spec
    return None


class _SharedLoader(Loader):
    """Makes shared names. Importing one loads the module that it means in this thread."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return SharedName(spec.name, None)

    def exec_module(self, module: ModuleType) -> None:
        assert isinstance(module, SharedName)
        own = _own(module)
        own["_is_made"] = True
        try:
            _meant(own)
        except AttributeError:
            raise ModuleNotFoundError(f"No module named {own['_name']!r}", name=own["_name"]) from None


class _MeantLoader(Loader):
    """Makes a module with its real name, for a key of `sys.modules` that has its owner too."""

    def __init__(self, found: ModuleSpec) -> None:
        self._found = found

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        from importlib.util import module_from_spec

        return module_from_spec(self._found)

    def exec_module(self, module: ModuleType) -> None:
        found: Any = self._found
        module.__spec__ = found
        # Python looks at this to make other threads wait until the module is complete.
        found._initializing = True
        try:
            if found.loader is not None:
                found.loader.exec_module(module)
        finally:
            found._initializing = False
        parent, _, child = found.name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)


def _top(name: str) -> str:
    return name.partition(".")[0]


def _is_taken(name: str) -> bool:
    """True if a name means the same module for all jobs: one of Python or of flinkpy."""
    return name in sys.stdlib_module_names or name in sys.builtin_module_names or name in ("flinkpy", "__main__")


@contextmanager
def _using(job: JobModules | None) -> Iterator[None]:
    before = current()
    _THREAD.job = job
    try:
        yield
    finally:
        _THREAD.job = before


def _start(thread: threading.Thread) -> None:
    """Starts a thread, which belongs to the isolated job of the current one."""
    if current() is not None:
        thread.run = in_current_modules(thread.run)  # type: ignore[method-assign]
    _ORDINARY_START(thread)


#: The isolated jobs by owner.
_ISOLATED: dict[str, JobModules] = {}
_LOCK = threading.RLock()
_THREAD = threading.local()
_FINDER = _Finder()
_SHARED_LOADER = _SharedLoader()
_ORDINARY_START = threading.Thread.start
