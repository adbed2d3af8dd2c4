"""SimpleVersionedSerializer: stores objects of a connector in checkpoints.

Objects without a serializer are pickled. Write a serializer if a class may change between the program that takes a
savepoint and the program that starts from it.

Source: org.apache.flink.core.io.SimpleVersionedSerializer.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import Any

from flinkpy.common.errors import CorruptStateError, FlinkError, StateRestoreError

_HEADER = struct.Struct("<i")


class SimpleVersionedSerializer(ABC):
    """Converts objects of one kind to bytes and back. Thread: any. A serializer keeps no state between calls."""

    @property
    @abstractmethod
    def version(self) -> int:
        """The version of the bytes that `serialize` writes. It is stored with them."""

    @abstractmethod
    def serialize(self, value: Any) -> bytes:
        """Returns the bytes of an object."""

    @abstractmethod
    def deserialize(self, version: int, data: bytes) -> Any:
        """Returns the object that `serialize` of the given version wrote: the present version or an older one."""


class PickleSerializer(SimpleVersionedSerializer):
    """Pickles any object. Objects of the main module's classes are restored with the job's current classes."""

    @property
    def version(self) -> int:
        return 1

    def serialize(self, value: Any) -> bytes:
        from flinkpy.state import pickling

        return pickling.dumps(value)

    def deserialize(self, version: int, data: bytes) -> Any:
        from flinkpy.state import pickling

        return pickling.loads(data)


def write_versioned(serializer: SimpleVersionedSerializer | None, value: Any) -> bytes:
    """Returns the bytes of a value after the version of its serializer. Without a serializer, the value is pickled."""
    chosen = serializer or PickleSerializer()
    return _HEADER.pack(chosen.version) + chosen.serialize(value)


def read_versioned(serializer: SimpleVersionedSerializer | None, data: bytes, what: str) -> Any:
    """Returns the value that `write_versioned` wrote.

    Args:
        what: the name of the value in errors.

    Raises:
        CorruptStateError: the data is too short.
        StateRestoreError: the serializer cannot read the data.
    """
    if len(data) < _HEADER.size:
        raise CorruptStateError(f"{what} is truncated: it has only {len(data)} bytes")
    [version] = _HEADER.unpack_from(data)
    chosen = serializer or PickleSerializer()
    try:
        return chosen.deserialize(version, data[_HEADER.size :])
    except FlinkError:
        raise
    except Exception as error:
        raise StateRestoreError(
            f"{what} (version {version}) cannot be read by {type(chosen).__name__}: {type(error).__name__}: {error}"
        ) from error
