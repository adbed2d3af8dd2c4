"""Failpoints: named places where a test can make this process die or fail, between one step and the next.

Each step that makes something durable or tells somebody about it calls `failpoint(name)`, which costs one comparison
unless the environment variable `FLINKPY_FAILPOINTS` names that point:

    FLINKPY_FAILPOINTS="metadata.before_rename=crash;state_file.before_sync=full@3"

`crash` kills the process as SIGKILL does, `error` raises an OSError (EIO), `full` one of a full disk (ENOSPC); `@3`
means the third time and only then, without it every time.

Where `FLINKPY_FAILPOINT_TOKENS` names a directory, a point fires only by removing a file of its own name, or
`<name>.<anything>`, from it: so a fault happens as often as there are files, in whichever process gets there first and
however often processes are restarted, and a test sees that it has.
"""

from __future__ import annotations

import errno
import os
import signal
from dataclasses import dataclass
from pathlib import Path

SPECIFICATION_VARIABLE = "FLINKPY_FAILPOINTS"
TOKENS_VARIABLE = "FLINKPY_FAILPOINT_TOKENS"

#: Every failpoint, with what has and has not happened there.
FAILPOINTS = {
    "file_sink.before_sync": "a part file is written under its hidden name, not yet on disk",
    "file_sink.after_sync": "it is on disk, and no checkpoint has it",
    "file_sink.before_compact": "part files are to be merged; a checkpoint may have them, and nobody the merged file",
    "file_sink.before_link": "a completed checkpoint has it; readers do not see it",
    "file_sink.before_unlink": "readers see it; it has its hidden name too",
    "file_sink.before_directory_sync": "it has its name, which a power failure may still take away",
    "kafka_sink.before_prepare": "all records of a transaction are stored, and no checkpoint has it",
    "kafka_sink.before_commit": "a completed checkpoint has a transaction; readers do not see it",
    "kafka_sink.after_commit": "readers see it, and the job does not know that they do",
    "jdbc.after_prepare": "the database has a transaction that no checkpoint has",
    "jdbc.after_commit": "readers see it, and the job does not know that they do",
    "durable_file.before_sync": "the new content is written aside, not yet on disk",
    "durable_file.before_rename": "the new content is on disk, under a name that nobody reads",
    "durable_file.before_directory_sync": "it has its name, which a power failure may still take away",
    "state_file.before_create": "nothing has been written",
    "state_file.before_write": "the file exists under a name that nobody reads; some of it may be written",
    "state_file.before_sync": "everything is written, not yet on disk",
    "state_file.before_rename": "everything is on disk, under a name that nobody reads",
    "state_file.before_directory_sync": "it has its name, which a power failure may still take away",
    "state_file.before_handle": "it is durable and nobody knows of it",
    "metadata.before_create": "all state is durable, `_metadata` is not begun",
    "metadata.before_write": "the file exists under a name that nobody reads",
    "metadata.before_sync": "`_metadata` is written aside, not yet on disk",
    "metadata.before_rename": "it is on disk, under a name that nobody reads",
    "metadata.before_directory_sync": "it has its name, which a power failure may still take away",
    "completed.before_pointers": "the checkpoint can be read, and is not yet one to recover from",
    "completed.after_pointers": "it is; older ones that it replaces are still there",
    "discard.before_metadata": "a checkpoint is about to be deleted",
    "discard.after_metadata": "its `_metadata` is gone, its other files are there",
    "discard.before_shared": "its own files are gone, shared ones that nobody else needs are there",
    "counter.before_store": "the next checkpoint's id is drawn and not yet noted",
}


@dataclass(slots=True)
class _Armed:
    action: str
    at_hit: int  # 0: every time
    hits: int = 0


def _parse(specification: str) -> dict[str, _Armed]:
    armed = {}
    for entry in filter(None, (part.strip() for part in specification.split(";"))):
        name, _, fault = entry.partition("=")
        action, _, at_hit = fault.partition("@")
        if name not in FAILPOINTS or action not in {"crash", "error", "full"} or not (at_hit or "1").isdigit():
            raise ValueError(f"{SPECIFICATION_VARIABLE}: {entry!r} is no failpoint with crash, error or full")
        armed[name] = _Armed(action, int(at_hit or 0))
    return armed


_armed = _parse(os.environ.get(SPECIFICATION_VARIABLE, ""))


def failpoint(name: str) -> None:
    """Raises: OSError, or kills the process, where a test asked for it."""
    if _armed:
        _hit(name)


def arm(specification: str) -> None:
    """What FLINKPY_FAILPOINTS would say, for this process from now on; an empty text disarms all."""
    global _armed
    _armed = _parse(specification)


def _hit(name: str) -> None:
    if name not in FAILPOINTS:
        raise KeyError(f"failpoint {name!r} is not in the table of failpoints")
    point = _armed.get(name)
    if point is None:
        return
    point.hits += 1
    if (point.at_hit and point.hits != point.at_hit) or not _token_taken(name):
        return
    if point.action == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    code = errno.ENOSPC if point.action == "full" else errno.EIO
    raise OSError(code, f"{os.strerror(code)} (failpoint {name})")


def _token_taken(name: str) -> bool:
    """Whether the fault may happen: removing a file is atomic, so one token is used by one process."""
    directory = os.environ.get(TOKENS_VARIABLE)
    if not directory:
        return True
    for token in sorted(Path(directory).glob(f"{name}*")):
        if token.name == name or token.name.startswith(f"{name}."):
            try:
                token.unlink()
            except FileNotFoundError:
                continue
            return True
    return False
