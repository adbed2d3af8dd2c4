"""How state becomes bytes: pickle, and cloudpickle for objects of classes that came with the job by value.

Only state that was written by a task of a job is unpickled here, after its checksum has been verified.
"""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle

_PROTOCOL = 5


def dumps(value: Any) -> bytes:
    """Raises: whatever the objects' own pickling raises."""
    try:
        return pickle.dumps(value, _PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        # A class of the main script, a lambda: not importable by name.
        return bytes(cloudpickle.dumps(value, _PROTOCOL))


def loads(data: bytes | memoryview) -> Any:
    return pickle.loads(data)
