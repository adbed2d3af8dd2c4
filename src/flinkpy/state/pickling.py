"""Serializes state with pickle, and with cloudpickle for objects whose classes came with the job by value.

A class of the user's main script is not in a module that a later process could import. So the state holds the whole
class and its name. A restored object gets the class that the job has under that name now, so that `isinstance` holds
and the object has the current methods. The stored class is only used if the job has none of that name.

This module only unpickles state that a task of a job wrote, after its checksum has been verified.
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

#: The classes of this process that came by value, and the id that cloudpickle gave each of them. It records every class
#: that it loads.
_CLASSES_BY_VALUE: weakref.WeakKeyDictionary[type, str] = cloudpickle_internals._DYNAMIC_CLASS_TRACKER_BY_CLASS
_written_classes: weakref.WeakKeyDictionary[type, bytes] = weakref.WeakKeyDictionary()
#: The ids of the classes of each name that were left after a garbage collection.
_collected: dict[tuple[str, str], set[str]] = {}


def dumps(value: Any) -> bytes:
    """Returns the pickle of a value. Raises: any exception that the pickling of the user's object raises."""
    try:
        return pickle.dumps(value, _PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        # For example a class of the main script or a lambda, which cannot be imported by name.
        buffer = io.BytesIO()
        _StatePickler(buffer, _PROTOCOL).dump(value)
        return buffer.getvalue()


def unpicklable(value: Any, error: BaseException, where: str = "") -> StateSerializationError:
    """Returns the error for a value or key of state that cannot be pickled.

    Args:
        error: the exception that pickling raised.
        where: the operator, state and key, if they are known.
    """
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
    """Returns the class of this process for a stored object.

    Pickles of state call this function by its name and with these arguments, so they must not change.
    """
    numbers = set(_classes_named(module, qualname))
    if len(numbers) > 1 and _collected.get((module, qualname)) != numbers:
        # Other jobs in this process have classes of this name, too. Those of ended jobs must not be used.
        gc.collect()
        _collected[module, qualname] = set(_classes_named(module, qualname))
    classes = _classes_named(module, qualname)
    if not classes:
        return cloudpickle.loads(data)
    # Prefers the class that wrote the object, then the one loaded last: a job's functions are loaded before its state.
    return classes.get(number) or list(classes.values())[-1]


def _classes_named(module: str, qualname: str) -> dict[str, type]:
    """Returns the classes of that name by id, in the order in which they were loaded."""
    return {
        number: kind
        for kind, number in list(_CLASSES_BY_VALUE.items())
        if kind.__qualname__ == qualname and kind.__module__ == module
    }
