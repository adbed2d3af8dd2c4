"""The file of operator state: elements, each a pickle that can be read and handed on by itself, and what they are.

```
file    = magic (8 bytes) | format version (u32) | element ... | footer (JSON, UTF-8) | length of footer (u32)
footer  = [{"begin": offset, "end": offset, "state": StateMetaInfo.to_json}, ...]
```

Where the elements lie is in the OperatorStateHandle, so that the JobMaster can deal them out without reading them. The
footer says by offset of which state and type an element is: a name may be there twice with different types, where
subtasks had not all asked for their state.
"""

from __future__ import annotations

import io
import json
import struct
from dataclasses import dataclass
from typing import BinaryIO

from flinkpy.common.errors import CorruptStateError, StateRestoreError
from flinkpy.state.checkpoint_streams import CheckpointOutputStream
from flinkpy.state.key_groups_file import UNREADABLE
from flinkpy.state.meta_info import StateMetaInfo

MAGIC = b"FLPYOPS\n"
FORMAT_VERSION = 1
_PREFIX = struct.Struct("<8sI")
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class StateSection:
    """Where the elements of one state are: from `begin` up to `end`, not included."""

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
    """`name` is for messages. Raises: CorruptStateError (not such a file), StateRestoreError (a newer format)."""
    prefix = file.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size or prefix[: len(MAGIC)] != MAGIC:
        raise CorruptStateError(f"{name}: not a file of operator state")
    _, version = _PREFIX.unpack(prefix)
    if version > FORMAT_VERSION:
        raise StateRestoreError(
            f"{name}: written in format {version} by a newer release; this one reads up to {FORMAT_VERSION}"
        )
    try:
        file.seek(-_LENGTH.size, io.SEEK_END)
        (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
        file.seek(-_LENGTH.size - length, io.SEEK_END)
        footer = json.loads(file.read(length))
        sections = [StateSection(part["begin"], part["end"], StateMetaInfo.from_json(part["state"])) for part in footer]
        if not all(isinstance(part.begin, int) and isinstance(part.end, int) for part in sections):
            raise TypeError("a section without its place")
        return sections
    except (OSError, struct.error, *UNREADABLE) as error:
        raise CorruptStateError(f"{name}: unreadable footer: {error}") from error
