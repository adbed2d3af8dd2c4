"""DistributedCache: files that a program registered, as they lie on the host of a task.

Source: org.apache.flink.api.common.cache.DistributedCache. Beyond PyFlink.
"""

from __future__ import annotations

from collections.abc import Mapping

from flinkpy.common.errors import InputNotFoundError

__all__ = ["DistributedCache"]


class DistributedCache:
    """Read only: the tasks of a job on one host share the files."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = paths

    def get_file(self, name: str) -> str:
        """The path of the file, or of the directory, registered as `name`.

        Raises: InputNotFoundError where none was.
        """
        path = self._paths.get(name)
        if path is None:
            known = ", ".join(sorted(self._paths)) or "none"
            raise InputNotFoundError(
                f"no cached file is registered as {name!r} (registered: {known}); call register_cached_file",
                details={"file": name},
            )
        return path
