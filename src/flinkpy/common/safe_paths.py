"""Joins received names to paths; no other module does this.

Job ids, blob keys, and names of artifacts, log files and cached files come from other processes. None of them may lead
out of its directory.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from flinkpy.common.errors import UnsafePathError

#: Maximum length of a file name on Linux.
_MAX_NAME_BYTES = 255
_SHOWN_CHARS = 80


def safe_join(root: Path, *names: str) -> Path:
    """Returns `root / name / ...`, where each name is a single file or directory.

    Raises: UnsafePathError for a name that is empty, `.`, `..`, too long, or contains a separator or control character.
    """
    path = root
    for name in names:
        if not is_safe_name(name):
            raise _unsafe(name)
        path = path / name
    return path


def safe_join_below(root: Path, relative: str) -> Path:
    """Returns `root / relative`, where `relative` may contain directories.

    Raises: UnsafePathError if a part is unsafe, or if existing symbolic links lead out of `root`.
    """
    parts = PurePosixPath(relative).parts
    if not parts or relative.startswith("/") or not all(is_safe_name(part) for part in parts):
        raise _unsafe(relative)
    path = root.joinpath(*parts)
    if not path.resolve().is_relative_to(root.resolve()):
        raise _unsafe(relative)
    return path


def is_safe_name(name: str) -> bool:
    """True if the name is a single file name in any directory."""
    if name in ("", ".", "..") or any(char in "/\\" or ord(char) < 32 or ord(char) == 127 for char in name):
        return False
    try:
        return len(name.encode("utf-8")) <= _MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False


def _unsafe(name: str) -> UnsafePathError:
    shown = ascii(name[:_SHOWN_CHARS])
    return UnsafePathError(
        f"{shown} cannot be part of a path: it is not a file name, or it leads out of its directory",
        details={"name": shown},
    )
