"""The memory that this process uses, against the limits that apply to it."""

from __future__ import annotations

from dataclasses import dataclass

from flinkpy.common.cgroup import CgroupMemory

_STATUS = "/proc/self/status"
#: The pages that are no copies of files. The kernel can drop those of files, e.g. of chunks of state that are mapped.
_KEPT = (b"RssAnon:", b"RssShmem:")


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """The memory that a process uses, and the limit that is closest.

    Attributes:
        used_bytes: the resident memory of the process, without pages of files.
        budget_bytes: the limit that is closest to being reached: of the process, or of its container.
        room_bytes: how much is left of it, of which other processes of the container may take a part. Negative if the
            limit is exceeded.
    """

    used_bytes: int
    budget_bytes: int
    room_bytes: int


class MemoryMeter:
    """Measures the memory of this process. Thread: any.

    Args:
        process_bytes: the configured limit of the process, or None.
        container: the limit of its container, or None.
        status_path: the file in which the kernel tells what the process uses; tests use another one.
    """

    def __init__(self, process_bytes: int | None, container: CgroupMemory | None, status_path: str = _STATUS) -> None:
        self._process_bytes = process_bytes
        self._container = container
        self._status_path = status_path

    @property
    def has_limit(self) -> bool:
        return self._process_bytes is not None or self._container is not None

    @property
    def limit_bytes(self) -> int | None:
        """The lowest limit that applies to the process."""
        limits = [self._process_bytes, None if self._container is None else self._container.limit_bytes]
        return min((limit for limit in limits if limit is not None), default=None)

    def used_bytes(self) -> int:
        """Returns the resident memory of the process, without pages of files. Raises: OSError."""
        with open(self._status_path, "rb", buffering=0) as file:
            lines = file.read().splitlines()
        kept = [line for line in lines if line.startswith(_KEPT)]
        # Sandboxes that imitate Linux tell only the whole.
        return 1024 * sum(int(line.split()[1]) for line in kept or [one for one in lines if one.startswith(b"VmRSS:")])

    def read(self) -> MemoryReading:
        """Returns the use, and the closest limit. Requires `has_limit`. Raises: OSError."""
        used = self.used_bytes()
        readings = []
        if self._process_bytes is not None:
            readings.append(MemoryReading(used, self._process_bytes, self._process_bytes - used))
        if self._container is not None:
            used_by_all = self._container.used_bytes()
            limit = self._container.limit_bytes
            readings.append(MemoryReading(used, limit, limit - (used if used_by_all is None else used_by_all)))
        return min(readings, key=lambda reading: reading.room_bytes / max(1, reading.budget_bytes))
