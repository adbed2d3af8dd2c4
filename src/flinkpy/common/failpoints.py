"""Failpoints: named places where a test can make a process die or fail between two steps.

Each step that makes data durable or announces it calls `failpoint(name)`. The call costs one comparison unless the
environment variable `FLINKPY_FAILPOINTS` names the failpoint:

    FLINKPY_FAILPOINTS="metadata.before_rename=crash;state_file.before_sync=full@3"

`crash` kills the process with SIGKILL, `error` raises an OSError (EIO), `full` raises the OSError of a full disk
(ENOSPC). `@3` means only the third time; without it the fault happens every time.

If `FLINKPY_FAILPOINT_TOKENS` names a directory, a failpoint fires only if it can remove a file named `<name>` or
`<name>.<anything>` from it. So a fault happens once per file, in whichever process comes first and across restarts, and
a test can see that it happened.
"""

from __future__ import annotations

import errno
import os
import signal
from dataclasses import dataclass
from pathlib import Path

SPECIFICATION_VARIABLE = "FLINKPY_FAILPOINTS"
TOKENS_VARIABLE = "FLINKPY_FAILPOINT_TOKENS"

#: All failpoints, each with the state of the system at that point.
FAILPOINTS = {
    "file_sink.before_sync": "a part file is written under its hidden name, not yet on disk",
    "file_sink.after_sync": "the part file is on disk, and no checkpoint contains it",
    "file_sink.before_compact": "part files will be merged; a checkpoint may contain them, but not the merged file",
    "file_sink.before_link": "a completed checkpoint contains the part file; readers do not see it",
    "file_sink.before_unlink": "readers see the part file; its hidden name still exists",
    "file_sink.before_success_file": "the files of a partition are visible; its success file is not",
    "file_sink.before_directory_sync": "the part file has its name, which a power failure may still undo",
    "batch_files.before_plan": "a batch sink has chosen the files to replace, and nothing says which",
    "batch_files.after_plan": "the files to replace are known; none is deleted, and no new one is visible",
    "batch_files.before_replace": "readers see the new files and the old ones",
    "batch_files.before_success_file": "readers see the new files; there is no success file",
    "batch_files.before_end_of_commit": "everything is visible, and the commit does not know that it has ended",
    "batch_files.after_commit": "the commit has ended, and the job does not know it",
    "kafka_sink.before_prepare": "all records of a transaction are stored, and no checkpoint contains it",
    "kafka_sink.before_commit": "a completed checkpoint contains a transaction; readers do not see it",
    "kafka_sink.after_commit": "readers see the transaction, and the job does not know it",
    "jdbc.after_prepare": "the database has a transaction that no checkpoint contains",
    "jdbc.after_commit": "readers see the transaction, and the job does not know it",
    "hive_sink.before_partitions": "files of a Hive table are visible in directories that the metastore does not know",
    "table_sink.before_commit": "data files are written; no version of the table contains them",
    "table_sink.after_commit": "readers of the table see the records, and the job does not know it",
    "durable_file.before_sync": "the new content is written to a temporary file, not yet on disk",
    "durable_file.before_rename": "the new content is on disk under its temporary name",
    "durable_file.before_directory_sync": "the file has its name, which a power failure may still undo",
    "state_file.before_create": "nothing has been written",
    "state_file.before_write": "the file exists under its temporary name and may be partly written",
    "state_file.before_sync": "the whole file is written, not yet on disk",
    "state_file.before_rename": "the whole file is on disk under its temporary name",
    "state_file.before_directory_sync": "the file has its name, which a power failure may still undo",
    "state_file.before_handle": "the file is durable, and no other component knows it",
    "archive.before_create": "a job has ended, and nothing of its archive is written",
    "archive.before_write": "the archive of an ended job exists under its temporary name",
    "archive.before_sync": "the archive of an ended job is written under its temporary name, not yet on disk",
    "archive.before_rename": "the archive of an ended job is on disk under its temporary name",
    "archive.before_directory_sync": "the archive has its name, which a power failure may still undo",
    "metadata.before_create": "all state is durable, `_metadata` does not exist",
    "metadata.before_write": "`_metadata` exists under its temporary name",
    "metadata.before_sync": "`_metadata` is written under its temporary name, not yet on disk",
    "metadata.before_rename": "`_metadata` is on disk under its temporary name",
    "metadata.before_directory_sync": "`_metadata` has its name, which a power failure may still undo",
    "completed.before_pointers": "the checkpoint is readable, and recovery does not use it yet",
    "completed.after_pointers": "recovery uses the checkpoint; the older ones that it replaces still exist",
    "kept_result.before_rename": "committables of a batch sink are on disk, and not yet under their name",
    "discard.before_metadata": "a checkpoint will be deleted",
    "discard.after_metadata": "its `_metadata` is deleted, its other files exist",
    "discard.before_shared": "its own files are deleted, shared files that are no longer needed exist",
    "counter.before_store": "the id of the next checkpoint is assigned and not yet stored",
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
            raise ValueError(f"{SPECIFICATION_VARIABLE}: {entry!r} is not a failpoint with crash, error or full")
        armed[name] = _Armed(action, int(at_hit or 0))
    return armed


_armed = _parse(os.environ.get(SPECIFICATION_VARIABLE, ""))


def failpoint(name: str) -> None:
    """Raises an OSError or kills the process if a test has armed the failpoint."""
    if _armed:
        _hit(name)


def arm(specification: str) -> None:
    """Replaces the armed failpoints of this process, in the syntax of FLINKPY_FAILPOINTS; an empty text disarms all."""
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
    """True if the fault may happen. Removing a file is atomic, so only one process takes a token."""
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
