"""Files that are either complete or absent, even after a crash of the process or the host.

A file is written under a temporary name, synced, and renamed. A checksum is verified when it is read. All calls block.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from pathlib import Path

from flinkpy.common.errors import ExternalError
from flinkpy.common.failpoints import failpoint

#: First bytes of a file with a checksum; they distinguish a damaged file from any other file.
_MAGIC = b"FLKP1\n"
#: First bytes of a file in a later format; they contain the number of the format.
_OTHER_FORMAT = re.compile(rb"FLKP[0-9]{1,4}\n")
_DIGEST_BYTES = 32

#: Suffix of a file that is being written; such a file found at start-up is left over from a crash.
UNFINISHED_SUFFIX = ".unfinished"


class CorruptFileError(ExternalError):
    """The content of a file is damaged; the message names the file."""


def write_checksummed(path: Path, content: bytes) -> None:
    """Writes `content` to `path`, from where `read_checksummed` can read it even after a power failure.

    Raises: OSError; no file remains in that case.
    """
    digest = hashlib.sha256(content).digest()
    write_durably(path, _MAGIC + digest + content)


def read_checksummed(path: Path) -> bytes:
    """Returns the content that `write_checksummed` wrote. Raises: FileNotFoundError, CorruptFileError."""
    stored = path.read_bytes()
    head = len(_MAGIC) + _DIGEST_BYTES
    content = stored[head:]
    if not stored.startswith(_MAGIC) and _OTHER_FORMAT.match(stored):
        raise CorruptFileError(
            f"{path} was written by a newer release of flinkpy, which this release cannot read",
            details={"path": str(path)},
        )
    if not stored.startswith(_MAGIC) or hashlib.sha256(content).digest() != stored[len(_MAGIC) : head]:
        raise CorruptFileError(f"{path} is damaged: its checksum does not match", details={"path": str(path)})
    return content


def write_durably(path: Path, content: bytes) -> None:
    """Writes `content` to `path` atomically, and so that it survives a power failure."""
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
    """Returns an unused temporary name in the directory of `path`."""
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}{UNFINISHED_SUFFIX}")


def remove_durably(path: Path) -> None:
    """Removes a file, if it exists, so that the removal survives a power failure."""
    path.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Makes renames and removals in `directory` survive a power failure."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_unfinished(directory: Path) -> None:
    """Removes partly written files that a crash has left. No process may write to the directory meanwhile."""
    for path in directory.glob(f"*{UNFINISHED_SUFFIX}"):
        path.unlink(missing_ok=True)
