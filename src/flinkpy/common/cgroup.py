"""The memory limit of this process's control group, as containers set it, and what the group uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Version 1 writes a number near 2**63 for "no limit".
_UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class CgroupMemory:
    """A control group with a memory limit."""

    limit_bytes: int
    directory: Path
    is_version_1: bool

    def used_bytes(self) -> int | None:
        """Returns the memory of the group that the kernel cannot take back; None if the group does not tell.

        These are all its pages but those of files, which the kernel drops before it kills a process.
        """
        prefix = "total_" if self.is_version_1 else ""
        usage = _lines(self.directory / ("memory.usage_in_bytes" if self.is_version_1 else "memory.current"))
        if not usage or not usage[0].isdigit():
            return None
        facts = dict(line.split(" ", 1) for line in _lines(self.directory / "memory.stat") if " " in line)
        droppable = sum(int(facts.get(f"{prefix}{name}_file", "0")) for name in ("active", "inactive"))
        return max(0, int(usage[0]) - droppable)


def memory_limit(root: Path = Path("/")) -> CgroupMemory | None:
    """Returns the group with the lowest limit, of this process's group and its parents; None if there is no limit.

    Args:
        root: the directory that has `proc` and `sys`.
    """
    found: list[CgroupMemory] = []
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            found += _groups_upwards(root / "sys/fs/cgroup", path, is_version_1=False)
        elif "memory" in controllers.split(","):
            found += _groups_upwards(root / "sys/fs/cgroup/memory", path, is_version_1=True)
    limited = [group for group in found if group.limit_bytes < _UNLIMITED]
    return min(limited, key=lambda group: group.limit_bytes, default=None)


def memory_limit_bytes(root: Path = Path("/")) -> int | None:
    """Returns the lowest memory limit of this process's control group and its parents; None if there is none."""
    group = memory_limit(root)
    return None if group is None else group.limit_bytes


def _groups_upwards(mount: Path, path: str, *, is_version_1: bool) -> Iterator[CgroupMemory]:
    """Yields the groups with a limit, upwards from `path`. In a container, the group is often the mount."""
    name = "memory.limit_in_bytes" if is_version_1 else "memory.max"
    directory = mount / path.lstrip("/")
    for one in (mount, *(one for one in (directory, *directory.parents) if one.is_relative_to(mount))):
        for line in _lines(one / name):
            if line.strip().isdigit():
                yield CgroupMemory(int(line), one, is_version_1)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
