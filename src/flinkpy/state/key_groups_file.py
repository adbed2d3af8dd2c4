"""The canonical format of keyed state: one file with a section per key group. Every backend can write and read it.

```
file    = magic (8 bytes) | format version (u32) | length of header (u32) | header (JSON, UTF-8) | section per key group
section = chunk ...                       the handle holds the offsets of the sections, not the file
chunk   = index of the state (u32) | number of entries (u32) | length (u64) | payload
```

The header describes each state with `StateMetaInfo.to_json`. All integers are little endian. Payloads:

| kind of state | payload |
|---|---|
| value, reducing, aggregating | pickle of (keys, values) |
| list | pickle of (keys, lists); a later chunk with the same key appends elements |
| map | pickle of (keys, dicts); a later chunk with the same key adds entries |
| timers | pickle of (keys, timestamps) |
| table, rows | Arrow IPC stream of one batch; a later chunk of rows follows the rows of the earlier ones |

Chunks are small (about a millisecond of pickling), because a pickler holds the GIL until it is done.

Source: org.apache.flink.runtime.state.FullSnapshotAsyncWriter, FullSnapshotRestoreOperation.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import CorruptStateError, StateMigrationError, StateRestoreError, StateSerializationError
from flinkpy.common.key_groups import KeyGroupRange
from flinkpy.records.key_identity import user_keys
from flinkpy.state.checkpoint_streams import CheckpointOutputStream
from flinkpy.state.meta_info import StateMetaInfo, key_conversion_is_possible
from flinkpy.state.pickling import dumps, loads, unpicklable
from flinkpy.state.type_snapshot import TypeDescription, describe_type, show_type

if TYPE_CHECKING:
    from flinkpy.state.backend import KeyedStateBackendParameters

MAGIC = b"FLPYKGS\n"
#: Incremented with every change that an older release cannot read.
FORMAT_VERSION = 1
_PREFIX = struct.Struct("<8sII")
_CHUNK = struct.Struct("<IIQ")
_PIECE_BYTES = 1 << 20
#: The exceptions that reading malformed JSON raises.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class KeyGroupsHeader:
    """The header of a file.

    Attributes:
        key_type: None if the type of the keys was not declared.
        states: a name may occur twice with different types, because some subtasks may not have requested their
            restored state.
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
    """Returns the next bytes, or fewer at the end of the file. Allocates no more memory than the file has bytes.

    `read` allocates the full length first, so a wrong length could exhaust the memory.
    """
    if length <= _PIECE_BYTES:
        return file.read(length)
    pieces = []
    while length > 0 and (piece := file.read(min(length, _PIECE_BYTES))):
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


def read_header(file: BinaryIO, name: str) -> KeyGroupsHeader:
    """Reads the header at the beginning of the file. `name` is used in messages.

    Raises:
        CorruptStateError: it is not a file of keyed state, or it is damaged.
        StateRestoreError: the file has a newer format.
    """
    prefix = file.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size:
        raise CorruptStateError(f"{name}: the file is too short for a file of keyed state")
    magic, version, length = _PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise CorruptStateError(f"{name}: the file is not a file of keyed state")
    if version > FORMAT_VERSION:
        raise StateRestoreError(
            f"{name}: a newer release wrote the file in format {version}; this release reads formats up to "
            f"{FORMAT_VERSION}"
        )
    try:
        data = json.loads(read_bytes(file, length))
        states = tuple(StateMetaInfo.from_json(state) for state in data["states"])
        if not isinstance(data["max_parallelism"], int):
            raise TypeError("max_parallelism is not a number")
        return KeyGroupsHeader(data["max_parallelism"], data["key_type"], states)
    except UNREADABLE as error:
        raise CorruptStateError(f"{name}: the header cannot be read: {error}") from error


class KeyGroupsFileWriter:
    """Writes a file. Key groups are written in ascending order; empty ones may be left out. Thread: one."""

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
        #: True if no entry has been written.
        self.is_empty = True

    def begin_key_group(self, key_group: int) -> None:
        """Begins the section of a key group."""
        position = key_group - self._range.start
        if not 0 <= position < len(self._range) or position < len(self._offsets) - 1:
            raise ValueError(
                f"key group {key_group} is not in {self._range}, or not after the {len(self._offsets)} former ones"
            )
        here = self._stream.tell()
        while len(self._offsets) <= position:
            self._offsets.append(here)

    def write_chunk(self, state_index: int, keys: Any, values: Any) -> None:
        """Writes entries, given as two sequences of the same length.

        The file holds the keys that the user knows, not the keys under which state is kept.

        Raises: StateSerializationError, which names the state, the key and the value.
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
        """Closes the stream and makes the file durable. Returns its handle."""
        here = self._stream.tell()
        while len(self._offsets) <= len(self._range):
            self._offsets.append(here)
        handle = checkpoint_pb2.KeyGroupsStateHandle(file=self._stream.close_and_get_handle(), offsets=self._offsets)
        handle.key_groups.start, handle.key_groups.end = self._range.start, self._range.end
        return checkpoint_pb2.KeyedStateHandle(key_groups=handle)


def _has_pickle(value: Any) -> bool:
    try:
        dumps(value)
    except Exception:  # noqa: BLE001 - any exception means that the value cannot be pickled
        return False
    return True


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some entries of one state in one key group."""

    key_group: int
    state_index: int
    num_entries: int
    payload: bytes

    def keys_and_values(self) -> tuple[list[Any], list[Any]]:
        """Returns the keys, as the user knows them, and their values."""
        keys, values = loads(self.payload)
        return keys, values


class KeyGroupsFileReader:
    """Reads a file whose content has been verified. Thread: one.

    Attributes:
        header: the header of the file.
    """

    def __init__(self, file: BinaryIO, handle: checkpoint_pb2.KeyGroupsStateHandle) -> None:
        self._file = file
        self._handle = handle
        self._name = handle.file.path or "inlined keyed state"
        self.header = read_header(file, self._name)

    def chunks(self, key_group_range: KeyGroupRange) -> Iterator[Chunk]:
        """Returns the chunks of the file's key groups in this range, in the order of the key groups.

        Raises: CorruptStateError.
        """
        start, end = self._handle.key_groups.start, self._handle.key_groups.end
        offsets = self._handle.offsets
        if len(offsets) != end - start + 2:
            raise CorruptStateError(
                f"{self._name}: its handle has {len(offsets)} offsets for the key groups {start} to {end}"
            )
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


def restored_chunks(
    parameters: KeyedStateBackendParameters, handle: checkpoint_pb2.KeyGroupsStateHandle
) -> Iterator[tuple[StateMetaInfo, Chunk]]:
    """Returns the chunks of the subtask's key groups that the file holds, in the order of the key groups.

    Raises:
        StateRestoreError: the file has a newer format or another max parallelism.
        StateMigrationError: the keys have another type.
        CorruptStateError, CheckpointStorageError: the file cannot be read.
    """
    wanted = parameters.key_group_range
    if handle.key_groups.end < wanted.start or handle.key_groups.start > wanted.end:
        return
    if parameters.files is None:
        raise StateRestoreError(
            f"operator {parameters.operator_name!r}: there is state to restore, but no reader for its files"
        )
    with parameters.files.open(handle.file) as file:
        reader = KeyGroupsFileReader(file, handle)
        check_header(parameters, reader.header)
        states = reader.header.states
        for chunk in reader.chunks(wanted):
            yield states[chunk.state_index], chunk


def check_header(parameters: KeyedStateBackendParameters, header: KeyGroupsHeader) -> None:
    """Checks that the subtask can restore state with this header. Raises: see `restored_chunks`."""
    operator = f"operator {parameters.operator_name!r}"
    if header.max_parallelism != parameters.max_parallelism:
        raise StateRestoreError(
            f"{operator}: the state was written with max parallelism {header.max_parallelism} and cannot be restored "
            f"with {parameters.max_parallelism}, because keys would belong to other key groups"
        )
    key_type = None if parameters.key_type is None else describe_type(parameters.key_type)
    if not key_conversion_is_possible(header.key_type, key_type):
        assert header.key_type is not None
        assert key_type is not None
        raise StateMigrationError(
            f"{operator}: the keys were stored as {show_type(header.key_type)} and now have the type "
            f"{show_type(key_type)}",
            details={"operator": parameters.operator_name, "field": "key"},
        )
