"""How state becomes bytes: pickle, and cloudpickle for objects of classes that came with the job by value.

A class of the user's main script is in no module that a later process could import. It is written down whole, but with
its name: a restored object is of the class that the job has under that name now, so that `isinstance` holds and it has
today's methods; the written one is only used where the job has none.

Only state that was written by a task of a job is unpickled here, after its checksum has been verified.
"""

from __future__ import annotations

import gc
import io
import pickle
import weakref
from typing import Any

import cloudpickle
from cloudpickle import cloudpickle as cloudpickle_internals

from flinkpy.common.errors import StateSerializationError

_PROTOCOL = 5

#: The classes of this process that came by value, and cloudpickle's number of each. It keeps every one it has loaded.
_CLASSES_BY_VALUE: weakref.WeakKeyDictionary[type, str] = cloudpickle_internals._DYNAMIC_CLASS_TRACKER_BY_CLASS
_written_classes: weakref.WeakKeyDictionary[type, bytes] = weakref.WeakKeyDictionary()
#: Numbers of the classes of one name that were still there after the garbage had been collected.
_collected: dict[tuple[str, str], set[str]] = {}


def dumps(value: Any) -> bytes:
    """Raises: whatever the objects' own pickling raises."""
    try:
        return pickle.dumps(value, _PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        # A class of the main script, a lambda: not importable by name.
        buffer = io.BytesIO()
        _StatePickler(buffer, _PROTOCOL).dump(value)
        return buffer.getvalue()


def unpicklable(value: Any, error: BaseException, where: str = "") -> StateSerializationError:
    """The error for a value (or key) of state whose pickling raised `error`; `where` names operator, state and key."""
    prefix = f"{where}: " if where else ""
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    return StateSerializationError(
        f"{prefix}{value!r:.200} ({kind}) cannot be pickled, so it cannot be kept in state: {error}"
    )


def loads(data: bytes | memoryview) -> Any:
    return pickle.loads(data)


class _StatePickler(cloudpickle.Pickler):  # type: ignore[misc]
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and obj in _CLASSES_BY_VALUE:
            return _class_of, (obj.__module__, obj.__qualname__, _CLASSES_BY_VALUE[obj], _written(obj))
        return super().reducer_override(obj)


def _written(kind: type) -> bytes:
    data = _written_classes.get(kind)
    if data is None:
        data = _written_classes[kind] = bytes(cloudpickle.dumps(kind, _PROTOCOL))
    return data


def _class_of(module: str, qualname: str, number: str, data: bytes) -> Any:
    """The class of this process that an object belongs to. Part of the format of state: keep the signature."""
    numbers = set(_classes_named(module, qualname))
    if len(numbers) > 1 and _collected.get((module, qualname)) != numbers:
        # Others are of jobs that run here too, or that have ended and were not yet collected: those must not win.
        gc.collect()
        _collected[module, qualname] = set(_classes_named(module, qualname))
    classes = _classes_named(module, qualname)
    if not classes:
        return cloudpickle.loads(data)
    # The very class that wrote it, or else the one loaded last: a job's functions are loaded before its state.
    return classes.get(number) or list(classes.values())[-1]


def _classes_named(module: str, qualname: str) -> dict[str, type]:
    """By number, in the order in which they were loaded."""
    return {
        number: kind
        for kind, number in list(_CLASSES_BY_VALUE.items())
        if kind.__qualname__ == qualname and kind.__module__ == module
    }
