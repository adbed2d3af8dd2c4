"""The one place where a name that came from outside becomes part of a path.

Job ids, blob keys, names of artifacts, of log files and of cached files are what others sent. Nothing of them may lead
out of the directory that they are for.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from flinkpy.common.errors import UnsafePathError

#: Longest name of a file on Linux, in bytes.
_MAX_NAME_BYTES = 255
_SHOWN_CHARS = 80


def safe_join(root: Path, *names: str) -> Path:
    """`root / name / ...`, each name that of one file or directory.

    Raises: UnsafePathError for a name that is empty, `.`, `..`, too long, or has a separator or a control character.
    """
    path = root
    for name in names:
        if not is_safe_name(name):
            raise _unsafe(name)
        path = path / name
    return path


def safe_join_below(root: Path, relative: str) -> Path:
    """`root / relative`, where `relative` may name directories on the way. What lies there may not lead out either.

    Raises: UnsafePathError.
    """
    parts = PurePosixPath(relative).parts
    if not parts or relative.startswith("/") or not all(is_safe_name(part) for part in parts):
        raise _unsafe(relative)
    path = root.joinpath(*parts)
    # A symbolic link that lies in the way already.
    if not path.resolve().is_relative_to(root.resolve()):
        raise _unsafe(relative)
    return path


def is_safe_name(name: str) -> bool:
    """Whether it names one file in whatever directory it is put into."""
    if name in ("", ".", "..") or any(char in "/\\" or ord(char) < 32 or ord(char) == 127 for char in name):
        return False
    try:
        return len(name.encode("utf-8")) <= _MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False


def _unsafe(name: str) -> UnsafePathError:
    shown = ascii(name[:_SHOWN_CHARS])
    return UnsafePathError(
        f"{shown} cannot become part of a path: it is no name of a file, or leaves its directory",
        details={"name": shown},
    )
