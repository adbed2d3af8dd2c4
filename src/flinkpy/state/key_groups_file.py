"""The canonical format of keyed state: one file, one section per key group, which any backend writes and reads.

```
file    = magic (8 bytes) | format version (u32) | length of header (u32) | header (JSON, UTF-8) | section per key group
section = chunk ...                       offsets of the sections are in the handle, not in the file
chunk   = index of the state (u32) | number of entries (u32) | length (u64) | payload
```

The header names each state: `StateMetaInfo.to_json`. All integers are little endian. Payloads:

| kind of state | payload |
|---|---|
| value, reducing, aggregating | pickle of (keys, values) |
| list | pickle of (keys, lists); a key that comes again in a later chunk appends |
| map | pickle of (keys, dicts); a key that comes again in a later chunk adds entries |
| timers | pickle of (keys, timestamps) |
| table | Arrow IPC stream of one batch |

Chunks are small (about a millisecond of pickling), because a pickler keeps the GIL until it is done.

Source: org.apache.flink.runtime.state.FullSnapshotAsyncWriter, FullSnapshotRestoreOperation.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import CorruptStateError, StateRestoreError, StateSerializationError
from flinkpy.common.key_groups import KeyGroupRange
from flinkpy.records.key_identity import user_keys
from flinkpy.state.checkpoint_streams import CheckpointOutputStream
from flinkpy.state.meta_info import StateMetaInfo
from flinkpy.state.pickling import dumps, loads, unpicklable
from flinkpy.state.type_snapshot import TypeDescription

MAGIC = b"FLPYKGS\n"
#: Raised with every change that an older release could not read.
FORMAT_VERSION = 1
_PREFIX = struct.Struct("<8sII")
_CHUNK = struct.Struct("<IIQ")
_PIECE_BYTES = 1 << 20
#: The exceptions that reading malformed JSON raises.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class KeyGroupsHeader:
    """What stands before the data.

    Attributes:
        key_type: None where it was not declared.
        states: a name may be there twice with different types, where subtasks had not all asked for their state.
    """

    max_parallelism: int
    key_type: TypeDescription | None
    states: tuple[StateMetaInfo, ...]

    def to_bytes(self) -> bytes:
        states = [state.to_json() for state in self.states]
        header = {"max_parallelism": self.max_parallelism, "key_type": self.key_type, "states": states}
        data = json.dumps(header).encode()
        return _PREFIX.pack(MAGIC, FORMAT_VERSION, len(data)) + data


def read_bytes(file: BinaryIO, length: int) -> bytes:
    """Returns the next bytes, fewer where the file ends, and takes no more memory than they have.

    `read` asks for the memory at once, so that a length that is not true would take what it says.
    """
    if length <= _PIECE_BYTES:
        return file.read(length)
    pieces = []
    while length > 0 and (piece := file.read(min(length, _PIECE_BYTES))):
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


def read_header(file: BinaryIO, name: str) -> KeyGroupsHeader:
    """From the beginning of the file. `name` is for messages.

    Raises: CorruptStateError (not such a file), StateRestoreError (a newer format).
    """
    prefix = file.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size:
        raise CorruptStateError(f"{name}: too short for a file of keyed state")
    magic, version, length = _PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise CorruptStateError(f"{name}: not a file of keyed state")
    if version > FORMAT_VERSION:
        raise StateRestoreError(
            f"{name}: written in format {version} by a newer release; this one reads up to {FORMAT_VERSION}"
        )
    try:
        data = json.loads(read_bytes(file, length))
        states = tuple(StateMetaInfo.from_json(state) for state in data["states"])
        if not isinstance(data["max_parallelism"], int):
            raise TypeError("max_parallelism is no number")
        return KeyGroupsHeader(data["max_parallelism"], data["key_type"], states)
    except UNREADABLE as error:
        raise CorruptStateError(f"{name}: unreadable header: {error}") from error


class KeyGroupsFileWriter:
    """Thread: one. Key groups come in ascending order; those that have nothing may be left out."""

    def __init__(
        self,
        stream: CheckpointOutputStream,
        header: KeyGroupsHeader,
        key_group_range: KeyGroupRange,
        operator_name: str = "",
    ) -> None:
        self._stream = stream
        self._range = key_group_range
        self._states = header.states
        self._operator_name = operator_name
        stream.write(header.to_bytes())
        self._offsets = [stream.tell()]
        #: Whether there is any entry.
        self.is_empty = True

    def begin_key_group(self, key_group: int) -> None:
        """What follows is of that key group."""
        position = key_group - self._range.start
        if not 0 <= position < len(self._range) or position < len(self._offsets) - 1:
            raise ValueError(f"key group {key_group} of {self._range} comes after {len(self._offsets)} others")
        here = self._stream.tell()
        while len(self._offsets) <= position:
            self._offsets.append(here)

    def write_chunk(self, state_index: int, keys: Any, values: Any) -> None:
        """Sequences of the same length. A file has the keys that users know, not those that state is kept under.

        Raises: StateSerializationError naming state, key and value.
        """
        keys = user_keys(keys)
        try:
            payload = dumps((keys, values))
        except Exception as error:  # whatever the objects' own pickling raises
            raise self._unpicklable(state_index, list(keys), list(values), error) from error
        self.write_payload(state_index, len(keys), payload)

    def _unpicklable(
        self, state_index: int, keys: list[Any], values: list[Any], error: Exception
    ) -> StateSerializationError:
        where = f"operator {self._operator_name!r}, state {self._states[state_index].name!r}"
        for key, value in zip(keys, values):
            for culprit in (key, value):
                if not _has_pickle(culprit):
                    return unpicklable(culprit, error, f"{where}, key {key!r:.100}")
        return unpicklable(values, error, where)

    def write_payload(self, state_index: int, num_entries: int, payload: bytes | memoryview) -> None:
        self._stream.write(_CHUNK.pack(state_index, num_entries, len(payload)))
        self._stream.write(payload)
        self.is_empty = False

    def finish(self) -> checkpoint_pb2.KeyedStateHandle:
        """Close the stream; what it wrote is durable."""
        here = self._stream.tell()
        while len(self._offsets) <= len(self._range):
            self._offsets.append(here)
        handle = checkpoint_pb2.KeyGroupsStateHandle(file=self._stream.close_and_get_handle(), offsets=self._offsets)
        handle.key_groups.start, handle.key_groups.end = self._range.start, self._range.end
        return checkpoint_pb2.KeyedStateHandle(key_groups=handle)


def _has_pickle(value: Any) -> bool:
    try:
        dumps(value)
    except Exception:  # noqa: BLE001 - whatever it is, it is the answer
        return False
    return True


@dataclass(frozen=True, slots=True)
class Chunk:
    """Entries of one state in one key group."""

    key_group: int
    state_index: int
    num_entries: int
    payload: bytes

    def keys_and_values(self) -> tuple[list[Any], list[Any]]:
        """The keys are as users know them."""
        keys, values = loads(self.payload)
        return keys, values


class KeyGroupsFileReader:
    """Thread: one. `file` was verified by whoever opened it.

    Attributes:
        header: as written.
    """

    def __init__(self, file: BinaryIO, handle: checkpoint_pb2.KeyGroupsStateHandle) -> None:
        self._file = file
        self._handle = handle
        self._name = handle.file.path or "inlined keyed state"
        self.header = read_header(file, self._name)

    def chunks(self, key_group_range: KeyGroupRange) -> Iterator[Chunk]:
        """Those of the key groups that are in the range and in the file, in order.

        Raises: CorruptStateError.
        """
        start, end = self._handle.key_groups.start, self._handle.key_groups.end
        offsets = self._handle.offsets
        if len(offsets) != end - start + 2:
            raise CorruptStateError(f"{self._name}: {len(offsets)} offsets for key groups {start} to {end}")
        for key_group in range(max(start, key_group_range.start), min(end, key_group_range.end) + 1):
            begin, stop = offsets[key_group - start], offsets[key_group - start + 1]
            if begin < 0:
                raise CorruptStateError(f"{self._name}: key group {key_group} begins before the file")
            if begin < stop:
                self._file.seek(begin)
                yield from self._section(key_group, stop - begin)

    def _section(self, key_group: int, left: int) -> Iterator[Chunk]:
        while left > 0:
            head = self._file.read(_CHUNK.size)
            if len(head) < _CHUNK.size:
                raise CorruptStateError(f"{self._name}: key group {key_group} ends early")
            state_index, num_entries, length = _CHUNK.unpack(head)
            payload = read_bytes(self._file, length)
            if len(payload) < length or state_index >= len(self.header.states):
                raise CorruptStateError(f"{self._name}: key group {key_group} is damaged")
            yield Chunk(key_group, state_index, num_entries, payload)
            left -= _CHUNK.size + length
        if left:
            raise CorruptStateError(f"{self._name}: key group {key_group} is longer than its section")
