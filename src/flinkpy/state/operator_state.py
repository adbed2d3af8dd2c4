"""OperatorStateBackend: state that belongs to a subtask instead of a key, and its file format.

There are three kinds of operator state. A restore splits list state among the subtasks, gives the whole union list
state to each of them, and gives each of them the same broadcast state.

A snapshot stores each element separately. Immutable elements are pickled later on another thread, all others
immediately.

```
file    = magic (8 bytes) | format version (u32) | element ... | footer (JSON, UTF-8) | length of footer (u32)
footer  = [{"begin": offset, "end": offset, "state": StateMetaInfo.to_json}, ...]
```

The OperatorStateHandle holds the offsets of the elements, so the JobMaster can distribute them without reading them.
The footer maps offsets to states and types. A name may occur twice with different types, because some subtasks may not
have requested their restored state.

Source: org.apache.flink.runtime.state.DefaultOperatorStateBackend.
"""

from __future__ import annotations

import enum
import io
import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.clock import SystemClock
from flinkpy.common.errors import CorruptStateError, StateRestoreError, UnsupportedOperationError
from flinkpy.state.checkpoint_streams import CheckpointOutputStream, CheckpointStreams, StateFiles
from flinkpy.state.key_groups_file import UNREADABLE
from flinkpy.state.meta_info import LIST, MAP, StateMetaInfo, element_conversion, layout_conversion
from flinkpy.state.pickling import dumps, loads, unpicklable
from flinkpy.state.private_copy import is_immutable

MAGIC = b"FLPYOPS\n"
FORMAT_VERSION = 1
_PREFIX = struct.Struct("<8sI")
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class StateSection:
    """The part of the file with the elements of one state: from `begin` up to, but not including, `end`."""

    begin: int
    end: int
    meta: StateMetaInfo


def write_prefix(stream: CheckpointOutputStream) -> None:
    stream.write(_PREFIX.pack(MAGIC, FORMAT_VERSION))


def write_footer(stream: CheckpointOutputStream, sections: list[StateSection]) -> None:
    footer = [{"begin": part.begin, "end": part.end, "state": part.meta.to_json()} for part in sections]
    data = json.dumps(footer).encode()
    stream.write(data + _LENGTH.pack(len(data)))


def read_sections(file: BinaryIO, name: str) -> list[StateSection]:
    """Reads the footer of a file. `name` is used in messages.

    Raises:
        CorruptStateError: it is not a file of operator state, or it is damaged.
        StateRestoreError: the file has a newer format.
    """
    prefix = file.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size or prefix[: len(MAGIC)] != MAGIC:
        raise CorruptStateError(f"{name}: the file is not a file of operator state")
    _, version = _PREFIX.unpack(prefix)
    if version > FORMAT_VERSION:
        raise StateRestoreError(
            f"{name}: a newer release wrote the file in format {version}; this release reads formats up to "
            f"{FORMAT_VERSION}"
        )
    try:
        file.seek(-_LENGTH.size, io.SEEK_END)
        (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
        file.seek(-_LENGTH.size - length, io.SEEK_END)
        footer = json.loads(file.read(length))
        sections = [StateSection(part["begin"], part["end"], StateMetaInfo.from_json(part["state"])) for part in footer]
        if not all(isinstance(part.begin, int) and isinstance(part.end, int) for part in sections):
            raise TypeError("the offsets of a section are not numbers")
        return sections
    except (OSError, struct.error, *UNREADABLE) as error:
        raise CorruptStateError(f"{name}: the footer cannot be read: {error}") from error


class OperatorStateMode(enum.Enum):
    """The way a restore redistributes the state. The values are those of OperatorStateModeMessage."""

    SPLIT_DISTRIBUTE = 1
    UNION = 2
    BROADCAST = 3

    @property
    def kind(self) -> str:
        return MAP if self is OperatorStateMode.BROADCAST else LIST


class OperatorListState:
    """A list of elements of this subtask."""

    __slots__ = ("elements",)

    def __init__(self) -> None:
        self.elements: list[Any] = []

    def get(self) -> list[Any]:
        return self.elements.copy()

    def add(self, value: Any) -> None:
        self.elements.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        self.elements.extend(values)

    def update(self, values: Iterable[Any]) -> None:
        self.elements = list(values)

    def clear(self) -> None:
        self.elements.clear()


class HeapBroadcastState:
    """A dict of which each subtask holds the same copy."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        return self.entries.get(key)

    def put(self, key: Any, value: Any) -> None:
        self.entries[key] = value

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        self.entries.update(dict_value)

    def remove(self, key: Any) -> None:
        self.entries.pop(key, None)

    def contains(self, key: Any) -> bool:
        return key in self.entries

    def is_empty(self) -> bool:
        return not self.entries

    def items(self) -> list[tuple[Any, Any]]:
        return list(self.entries.items())

    def keys(self) -> list[Any]:
        return list(self.entries)

    def values(self) -> list[Any]:
        return list(self.entries.values())

    def clear(self) -> None:
        self.entries.clear()

    __getitem__ = get
    __setitem__ = put
    __delitem__ = remove
    __contains__ = contains

    def __iter__(self) -> Any:
        return iter(self.keys())


@dataclass(slots=True, eq=False)
class _RestoredState:
    """Restored elements, still pickled, of a state that was not requested yet."""

    mode: OperatorStateMode
    meta: StateMetaInfo
    elements: list[bytes] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _FrozenState:
    """A frozen state: elements that are already pickled, and values that are still to be pickled."""

    mode: OperatorStateMode
    meta: StateMetaInfo
    pickles: list[bytes]
    values: list[Any]


class OperatorStateBackend:
    """The operator state of one subtask. Thread: task thread.

    Two requests with the same name return the same state. A second request in another mode raises
    UnsupportedOperationError. Restored state that is never requested is kept, and is part of every snapshot.
    """

    def __init__(
        self,
        restored: Sequence[checkpoint_pb2.OperatorStateHandle] = (),
        files: StateFiles | None = None,
        operator_name: str = "",
    ) -> None:
        """Raises: StateRestoreError, CorruptStateError, CheckpointStorageError."""
        self._operator_name = operator_name
        self._states: dict[str, tuple[StateMetaInfo, OperatorStateMode, Any]] = {}
        self._restored: list[_RestoredState] = []
        for handle in restored:
            if files is None:
                raise StateRestoreError(
                    f"operator {operator_name!r}: there is state to restore, but no reader for its files"
                )
            self._read(handle, files)

    def _read(self, handle: checkpoint_pb2.OperatorStateHandle, files: StateFiles) -> None:
        name = handle.file.path or "inlined operator state"
        with files.open(handle.file) as file:
            sections = read_sections(file, name)
            for elements in handle.states:
                mode = OperatorStateMode(elements.mode)
                for offset, length in zip(elements.offsets, elements.lengths, strict=True):
                    meta = next((part.meta for part in sections if part.begin <= offset < part.end), None)
                    if meta is None or meta.name != elements.name:
                        raise CorruptStateError(f"{name}: its footer and its handle differ about {elements.name!r}")
                    file.seek(offset)
                    data = file.read(length)
                    if len(data) != length:
                        raise CorruptStateError(f"{name}: the file ends within the state {elements.name!r}")
                    self._restored_state(mode, meta).elements.append(data)

    def _restored_state(self, mode: OperatorStateMode, meta: StateMetaInfo) -> _RestoredState:
        for known in self._restored:
            if known.mode is mode and known.meta == meta:
                return known
        state = _RestoredState(mode, meta)
        self._restored.append(state)
        return state

    def get_list_state(self, descriptor: Any) -> OperatorListState:
        return self._state(descriptor, OperatorStateMode.SPLIT_DISTRIBUTE, OperatorListState)

    def get_union_list_state(self, descriptor: Any) -> OperatorListState:
        return self._state(descriptor, OperatorStateMode.UNION, OperatorListState)

    def get_broadcast_state(self, state_descriptor: Any) -> HeapBroadcastState:
        return self._state(state_descriptor, OperatorStateMode.BROADCAST, HeapBroadcastState)

    def _state(self, descriptor: Any, mode: OperatorStateMode, create: type[Any]) -> Any:
        name = descriptor.get_name()
        known = self._states.get(name)
        if known is None:
            meta = StateMetaInfo.of(mode.kind, descriptor)
            state = create()
            self._fill(state, mode, meta, descriptor)
            known = self._states[name] = (meta, mode, state)
        if known[1] is not mode:
            raise UnsupportedOperationError(
                f"operator state {name!r} is already a {known[1].name} state; it cannot be requested as {mode.name}"
            )
        return known[2]

    def _fill(self, state: Any, mode: OperatorStateMode, meta: StateMetaInfo, descriptor: Any) -> None:
        """Adds the restored elements, converted to the current type."""
        restored = [known for known in self._restored if known.meta.name == meta.name]
        for known in restored:
            if known.mode is not mode:
                raise StateRestoreError(
                    f"operator {self._operator_name!r}, state {meta.name!r}: it was stored as {known.mode.name} and "
                    f"is requested as {mode.name}",
                    details={"operator": self._operator_name, "state": meta.name},
                )
            convert = element_conversion(known.meta, meta, descriptor, self._operator_name, SystemClock().now_ms)
            if mode is OperatorStateMode.BROADCAST:
                convert = layout_conversion(MAP, convert)
            for data in known.elements:
                element = loads(data)
                element = element if convert is None else convert(element)
                if mode is OperatorStateMode.BROADCAST:
                    state.put_all(element)
                else:
                    state.add(element)
            self._restored.remove(known)

    # -- snapshots -------------------------------------------------------------------------------------------------

    def snapshot(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> OperatorStateSnapshot:
        """Freezes the current state.

        Raises: StateSerializationError if a mutable element cannot be pickled.
        """
        frozen = [_FrozenState(state.mode, state.meta, state.elements.copy(), []) for state in self._restored]
        for meta, mode, state in self._states.values():
            frozen.append(self._freeze(meta, mode, state))
        return OperatorStateSnapshot(self._operator_name, frozen)

    def _freeze(self, meta: StateMetaInfo, mode: OperatorStateMode, state: Any) -> _FrozenState:
        if mode is OperatorStateMode.BROADCAST:
            entries: dict[Any, Any] = state.entries
            if not entries:
                return _FrozenState(mode, meta, [], [])
            if all(map(is_immutable, entries.values())):
                return _FrozenState(mode, meta, [], [entries.copy()])
            return _FrozenState(mode, meta, [_pickled(self._operator_name, meta, entries)], [])
        elements: list[Any] = state.elements
        if all(map(is_immutable, elements)):
            return _FrozenState(mode, meta, [], elements.copy())
        return _FrozenState(mode, meta, [_pickled(self._operator_name, meta, element) for element in elements], [])


def _pickled(operator_name: str, meta: StateMetaInfo, element: Any) -> bytes:
    try:
        return dumps(element)
    except Exception as error:  # whatever the object's own pickling raises
        raise unpicklable(element, error, f"operator {operator_name!r}, state {meta.name!r}") from error


class OperatorStateSnapshot:
    """The StateSnapshot of an OperatorStateBackend."""

    def __init__(self, operator_name: str, states: list[_FrozenState]) -> None:
        self._operator_name = operator_name
        self._states = states

    def write(self, streams: CheckpointStreams) -> checkpoint_pb2.OperatorStateHandle | None:
        states = [state for state in self._states if state.pickles or state.values]
        if not states:
            return None
        handle = checkpoint_pb2.OperatorStateHandle()
        stream = streams.create()
        try:
            write_prefix(stream)
            sections = []
            for state in states:
                begin = stream.tell()
                elements = handle.states.add(name=state.meta.name, mode=state.mode.value)  # type: ignore[arg-type]
                pickles = state.pickles or (_pickled(self._operator_name, state.meta, value) for value in state.values)
                for data in pickles:
                    elements.offsets.append(stream.tell())
                    elements.lengths.append(len(data))
                    stream.write(data)
                sections.append(StateSection(begin, stream.tell(), state.meta))
            write_footer(stream, sections)
            handle.file.CopyFrom(stream.close_and_get_handle())
        except BaseException:
            stream.abort()
            raise
        return handle

    def release(self) -> None:
        self._states = []
