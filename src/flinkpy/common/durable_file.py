"""Files that are whole or absent, also after a crash of process or host: written aside, synced, renamed, and checked
by a checksum when they are read again. Blocking."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from pathlib import Path

from flinkpy.common.errors import ExternalError
from flinkpy.common.failpoints import failpoint

#: First bytes of a file with a checksum, so that any other file is told from a damaged one.
_MAGIC = b"FLKP1\n"
#: That of a later format: the number in it is the format's.
_OTHER_FORMAT = re.compile(rb"FLKP[0-9]{1,4}\n")
_DIGEST_BYTES = 32

#: Suffix of a file that is being written; one found at start-up is the remains of a crash.
UNFINISHED_SUFFIX = ".unfinished"


class CorruptFileError(ExternalError):
    """A file's content is not what was written; names the file."""


def write_checksummed(path: Path, content: bytes) -> None:
    """Write `content` to `path`; when this returns, `read_checksummed` finds it even after a power failure.

    Raises: OSError, with nothing left under `path` or beside it.
    """
    digest = hashlib.sha256(content).digest()
    write_durably(path, _MAGIC + digest + content)


def read_checksummed(path: Path) -> bytes:
    """What `write_checksummed` wrote. Raises: FileNotFoundError, CorruptFileError."""
    stored = path.read_bytes()
    head = len(_MAGIC) + _DIGEST_BYTES
    content = stored[head:]
    if not stored.startswith(_MAGIC) and _OTHER_FORMAT.match(stored):
        raise CorruptFileError(
            f"{path} was written by a newer release, in a format that this one does not read",
            details={"path": str(path)},
        )
    if not stored.startswith(_MAGIC) or hashlib.sha256(content).digest() != stored[len(_MAGIC) : head]:
        raise CorruptFileError(f"{path} is damaged: its checksum does not match", details={"path": str(path)})
    return content


def write_durably(path: Path, content: bytes) -> None:
    """Write `content` to `path` whole or not at all, and make it survive a power failure."""
    unfinished = unfinished_path(path)
    try:
        with open(unfinished, "xb") as file:
            file.write(content)
            file.flush()
            failpoint("durable_file.before_sync")
            os.fsync(file.fileno())
        failpoint("durable_file.before_rename")
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    failpoint("durable_file.before_directory_sync")
    sync_directory(path.parent)


def unfinished_path(path: Path) -> Path:
    """A name beside `path` that nobody else uses."""
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}{UNFINISHED_SUFFIX}")


def remove_durably(path: Path) -> None:
    """Remove a file; one that is not there is fine."""
    path.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make renames and removals in `directory` survive a power failure."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_unfinished(directory: Path) -> None:
    """Remove what a crash left half-written. Only while nobody writes there."""
    for path in directory.glob(f"*{UNFINISHED_SUFFIX}"):
        path.unlink(missing_ok=True)
