"""SimpleVersionedSerializer: how a connector's own objects are stored in checkpoints.

Without one they are pickled. Write one where a class may change between the program that takes a savepoint and the one
that is started from it.

Source: org.apache.flink.core.io.SimpleVersionedSerializer.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import Any

from flinkpy.common.errors import CorruptStateError, FlinkError, StateRestoreError

_HEADER = struct.Struct("<i")


class SimpleVersionedSerializer(ABC):
    """Thread: any; keeps no state between calls."""

    @property
    @abstractmethod
    def version(self) -> int:
        """Of what `serialize` writes; stored beside it."""

    @abstractmethod
    def serialize(self, value: Any) -> bytes: ...

    @abstractmethod
    def deserialize(self, version: int, data: bytes) -> Any:
        """What this or an older version wrote."""


class PickleSerializer(SimpleVersionedSerializer):
    """Any Python object; one of a class of the main module becomes an object of the class that the job has now."""

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
    """`value` with the version of its serializer; None: pickled."""
    chosen = serializer or PickleSerializer()
    return _HEADER.pack(chosen.version) + chosen.serialize(value)


def read_versioned(serializer: SimpleVersionedSerializer | None, data: bytes, what: str) -> Any:
    """What `write_versioned` wrote. `what` names it in errors.

    Raises:
        CorruptStateError: too short to be that.
        StateRestoreError: the serializer does not understand it.
    """
    if len(data) < _HEADER.size:
        raise CorruptStateError(f"{what}: {len(data)} bytes are too few")
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
