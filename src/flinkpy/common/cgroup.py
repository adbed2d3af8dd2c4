"""The memory limit of this process's control group, as containers set it."""

from __future__ import annotations

from pathlib import Path

#: Version 1 writes a number near 2**63 for "no limit".
_UNLIMITED = 1 << 60


def memory_limit_bytes(root: Path = Path("/")) -> int | None:
    """Returns the lowest memory limit of this process's control group and its parents; None if there is none.

    Args:
        root: the directory that has `proc` and `sys`.
    """
    limits: list[int] = []
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers == "":  # version 2
            limits += _limits_upwards(root / "sys/fs/cgroup", path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits_upwards(root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes")
    return min((limit for limit in limits if limit < _UNLIMITED), default=None)


def _limits_upwards(mount: Path, path: str, name: str) -> list[int]:
    """Returns the limits in a group's directory and those above it. In a container, the group is often the mount."""
    directory = mount / path.lstrip("/")
    directories = [mount, *(one for one in (directory, *directory.parents) if one.is_relative_to(mount))]
    texts = [line.strip() for one in directories for line in _lines(one / name)]
    return [int(text) for text in texts if text.isdigit()]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
