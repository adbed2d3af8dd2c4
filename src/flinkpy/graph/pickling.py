"""Pickles user functions. If one cannot be pickled, finds the object inside it that is the cause.

cloudpickle pickles lambdas, closures, and the functions and classes of the main script by value. It pickles objects
imported from a module by name. Locks, open files, sockets and generators, for example, cannot be pickled.
"""

from __future__ import annotations

import functools
import os
import site
import sys
import sysconfig
import types
from collections.abc import Iterator
from typing import Any

import cloudpickle

import flinkpy
from flinkpy.common.errors import FunctionSerializationError

#: How deep the search follows references. Deeper objects are reported as the object at this depth.
_MAX_DEPTH = 12
#: How many objects the search examines. Each costs an attempt to pickle it.
_MAX_OBJECTS = 2_000
_VALUE_CHARACTERS = 100

_PROTOCOL = 5


def dumps_function(payload: Any, function: Any, operator_name: str) -> bytes:
    """Pickles `payload`, which contains the user's `function`, for the given operator.

    Raises:
        FunctionSerializationError: if it cannot be pickled. Names the function, the operator, the object that cannot be
            pickled, and the path of references to that object.
    """
    try:
        return cloudpickle.dumps(payload, protocol=_PROTOCOL)
    except Exception as error:  # __reduce__ of a user object may raise any exception
        raise _explain(function, operator_name, error) from error


def name_of_function(function: Any) -> str:
    """Returns the module and qualified name of a function, or of the class of a function object."""
    wrapped = getattr(function, "_func", None)
    if wrapped is not None:
        function = wrapped
    if isinstance(function, functools.partial):
        return f"partial of {name_of_function(function.func)}"
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _explain(function: Any, operator_name: str, error: Exception) -> FunctionSerializationError:
    subject = getattr(function, "_func", None) or function
    name = name_of_function(function)
    culprit = _Search().find(subject, "")
    message = f"the function {name} of operator '{operator_name}' cannot be pickled"
    details = {"function": name, "operator": operator_name}
    if culprit is None:
        return FunctionSerializationError(f"{message}: {error}", details=details)
    path, value, reason = culprit
    details["culprit"] = path or name
    what = f"{path} is {_describe(value)}" if path else f"it is {_describe(value)}"
    return FunctionSerializationError(
        f"{message}: {what}, and {reason}. Create it in open(), which runs in every subtask.",
        details=details,
    )


def _describe(value: Any) -> str:
    kind = type(value)
    text = repr(value)
    if len(text) > _VALUE_CHARACTERS:
        text = text[:_VALUE_CHARACTERS] + "..."
    return f"a {kind.__module__}.{kind.__qualname__} ({text})"


class _Search:
    """A depth-first search along the references between objects that cannot be pickled."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def find(self, value: Any, path: str, depth: int = 0) -> tuple[str, Any, str] | None:
        """Returns (path, object, reason) of the deepest object that cannot be pickled, or None if `value` can."""
        if id(value) in self._seen or len(self._seen) >= _MAX_OBJECTS:
            return None
        self._seen.add(id(value))
        reason = _failure(value)
        if reason is None:
            return None
        if depth < _MAX_DEPTH:
            for step, child in _references(value):
                found = self.find(child, f"{path} -> {step}" if path else step, depth + 1)
                if found is not None:
                    return found
        return path, value, reason


def _failure(value: Any) -> str | None:
    try:
        cloudpickle.dumps(value, protocol=_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - the error is the reason to report
        return str(error) or type(error).__name__
    return None


def _references(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the objects that are pickled with `value`, each with the step that leads to it."""
    if isinstance(value, types.FunctionType):
        yield from _function_references(value)
    elif isinstance(value, types.MethodType):
        yield "the method's object", value.__self__
    elif isinstance(value, functools.partial):
        yield "the partial's function", value.func
        yield from ((f"argument {i}", argument) for i, argument in enumerate(value.args))
        yield from ((f"argument {name!r}", argument) for name, argument in value.keywords.items())
    elif isinstance(value, dict):
        for key, item in value.items():
            yield f"key {key!r}", key
            yield f"item {key!r}", item
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"element {i}", item) for i, item in enumerate(value))
    elif isinstance(value, type):
        yield from ((f"class attribute {name!r}", item) for name, item in vars(value).items() if name != "__dict__")
    elif not isinstance(value, types.ModuleType):
        yield from _attribute_references(value)


def _function_references(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield f"closure variable {name!r}", cell.cell_contents
        except ValueError:  # not yet assigned
            continue
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield f"global variable {name!r}", function.__globals__[name]
    for i, default in enumerate(function.__defaults__ or ()):
        yield f"default argument {i}", default
    yield from ((f"default argument {name!r}", item) for name, item in (function.__kwdefaults__ or {}).items())


def _global_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _attribute_references(value: Any) -> Iterator[tuple[str, Any]]:
    yield from ((f"attribute {name!r}", item) for name, item in getattr(value, "__dict__", {}).items())
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                yield f"attribute {name!r}", getattr(value, name)
    if not isinstance(type(value), type(None)) and type(value).__module__ == "__main__":
        yield "its class", type(value)


def user_python_path() -> list[str]:
    """Returns the entries of `sys.path` that belong neither to the interpreter nor to flinkpy, as absolute paths.

    The JobGraph contains the functions of the program's main script. Functions of other modules are imported by name.
    Tasks on the same host import them from these directories.
    """
    own = _installed_directories()
    found: list[str] = []
    for entry in sys.path:
        directory = os.path.realpath(entry or os.getcwd())
        if directory in found or any(_is_within(directory, prefix) for prefix in own):
            continue
        if os.path.isdir(directory) or os.path.isfile(directory):
            found.append(directory)
    return found


def _installed_directories() -> set[str]:
    directories = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    directories.update(site.getsitepackages())
    directories.add(site.getusersitepackages())
    directories.add(os.path.join(sys.base_prefix, "lib", f"python{sys.version_info[0]}{sys.version_info[1]}.zip"))
    directories.add(os.path.dirname(os.path.dirname(os.path.abspath(flinkpy.__file__))))
    directories.add(os.path.join(sys.prefix, "bin"))
    return {os.path.realpath(directory) for directory in directories if directory}


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory + os.sep)
