"""StateRegistry: which number each state has in the keys of a database, and what is in it.

Numbers are given in the order in which states are first asked for and are part of a native snapshot. After a restore at
another parallelism a name may be there more than once, each written with another type, until it is asked for.
"""

from __future__ import annotations

import base64
import json
import struct
from typing import BinaryIO

from flinkpy.common.errors import CorruptStateError, UnsupportedOperationError
from flinkpy.state.key_groups_file import UNREADABLE, KeyGroupsHeader, read_bytes, read_header
from flinkpy.state.meta_info import TIMERS, StateMetaInfo
from flinkpy.state.rocksdb.key_codec import classes_by_value
from flinkpy.state.type_snapshot import TypeDescription

_LENGTH = struct.Struct("<I")
#: State numbers are 16 bits.
_MAX_STATES = 0xFFFF


class StateRegistry:
    """Thread: task thread; snapshots take a copy of `states`.

    Attributes:
        states: by number; ascending.
        last_chunk: number of the last chunk of any list (`list_state`).
    """

    def __init__(self) -> None:
        self.last_chunk = 0
        self.states: dict[int, StateMetaInfo] = {}
        self._next_id = 0

    def find(self, name: str, *, timers: bool) -> list[int]:
        """Numbers of all that was restored or registered under that name. Queues of timers have names of their own."""
        return [
            state_id for state_id, meta in self.states.items() if meta.name == name and (meta.kind == TIMERS) is timers
        ]

    def register(self, meta: StateMetaInfo) -> int:
        """A new number."""
        state_id = self._next_id
        if state_id >= _MAX_STATES:
            raise UnsupportedOperationError(f"state {meta.name!r}: a database has at most {_MAX_STATES} states")
        self._next_id += 1
        self.states[state_id] = meta
        return state_id

    def next_chunk(self) -> int:
        self.last_chunk += 1
        return self.last_chunk

    def number_of(self, meta: StateMetaInfo) -> int:
        """That of exactly this state; a new one where it is not there."""
        for state_id, known in self.states.items():
            if known == meta:
                return state_id
        return self.register(meta)

    def header(self, max_parallelism: int, key_type: TypeDescription | None) -> KeyGroupsHeader:
        """Of the canonical format; the states in the order of `states`."""
        return KeyGroupsHeader(max_parallelism, key_type, tuple(self.states.values()))

    def to_bytes(self, header: KeyGroupsHeader) -> bytes:
        """The `meta` file of a native snapshot: the header of the canonical format, then what only a database needs."""
        classes = [[*name, base64.b64encode(data).decode()] for name, data in list(classes_by_value.items())]
        data = json.dumps({"numbers": list(self.states), "last_chunk": self.last_chunk, "classes": classes}).encode()
        return header.to_bytes() + _LENGTH.pack(len(data)) + data

    @staticmethod
    def from_file(file: BinaryIO, name: str) -> tuple[StateRegistry, KeyGroupsHeader]:
        """The classes of keys become known to the process.

        Raises: CorruptStateError, StateRestoreError (a newer format).
        """
        header = read_header(file, name)
        try:
            (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
            data = json.loads(read_bytes(file, length))
            registry = StateRegistry()
            registry.states = dict(zip(map(int, data["numbers"]), header.states, strict=True))
            registry._next_id = max(registry.states, default=-1) + 1
            registry.last_chunk = int(data["last_chunk"])
            for module, qualname, pickled in data["classes"]:
                classes_by_value.setdefault((module, qualname), base64.b64decode(pickled))
        except (struct.error, *UNREADABLE) as error:
            raise CorruptStateError(f"{name}: the numbers of the states cannot be read: {error}") from error
        return registry, header
