"""The file of job events: records that are only ever appended, each with its length and checksums.

```
  FLKPEVT1 | length u32 | crc32 of the length u32 | crc32 of the payload u32 | payload | length | ...
```

A process or host that dies while it writes leaves a record at the very end that is not whole, or a tail of zeros: that
is cut off. Damage anywhere else means that the file cannot be relied on.

Source: org.apache.flink.runtime.jobmaster.event.FileSystemJobEventStore. Blocking; one thread at a time.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

from flinkpy.common.durable_file import write_durably
from flinkpy.common.errors import CorruptStateError

MAGIC = b"FLKPEVT1"
_HEAD = struct.Struct("<III")


def read_log(path: Path) -> tuple[list[bytes], int]:
    """The payloads, and how many bytes of the file are whole. No file: no payloads.

    Raises: CorruptStateError naming the file and the place of the damage.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    if len(content) < len(MAGIC):
        if MAGIC.startswith(content):
            return [], 0
        raise CorruptStateError(f"{path} is not a log of job events")
    if not content.startswith(MAGIC):
        raise CorruptStateError(f"{path} is not a log of job events")
    payloads: list[bytes] = []
    position = len(MAGIC)
    while position < len(content):
        end = position + _HEAD.size
        if end > len(content):
            break
        length, head_checksum, checksum = _HEAD.unpack_from(content, position)
        is_head_whole = head_checksum == _checksum_of(length)
        payload = content[end : end + length]
        if is_head_whole and len(payload) == length and zlib.crc32(payload) == checksum:
            payloads.append(payload)
            position = end + length
        elif (is_head_whole and end + length >= len(content)) or not any(content[position:]):
            break
        else:
            raise CorruptStateError(f"{path} is damaged at byte {position}, and that is not its end")
    return payloads, position


def _checksum_of(length: int) -> int:
    return zlib.crc32(length.to_bytes(4, "little"))


class EventLogWriter:
    """Appends to the whole part of a log; what is behind that is cut off. Raises: OSError.

    The log becomes another file: the writer of a JobMaster that stood still and does not know yet that it has a
    successor goes on with one that nobody reads any more.
    """

    def __init__(self, path: Path, whole_bytes: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.read_bytes()[:whole_bytes] if whole_bytes else MAGIC
        write_durably(path, whole)
        self._file = path.open("r+b")
        self._file.seek(len(whole))

    def append(self, payloads: Iterable[bytes]) -> None:
        """They are on disk when this returns. An error is final: nothing may be appended after it."""
        for payload in payloads:
            head = _HEAD.pack(len(payload), _checksum_of(len(payload)), zlib.crc32(payload))
            self._file.write(head + payload)
        self._sync()

    def close(self) -> None:
        self._file.close()

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
