"""DistributedCache: access to the files that a program registered with `register_cached_file`.

Source: org.apache.flink.api.common.cache.DistributedCache. Beyond PyFlink.
"""

from __future__ import annotations

from collections.abc import Mapping

from flinkpy.common.errors import InputNotFoundError

__all__ = ["DistributedCache"]


class DistributedCache:
    """The local copies of the registered files. They are read-only: all tasks of the job on a host share them."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = paths

    def get_file(self, name: str) -> str:
        """Returns the local path of the file or directory registered as `name`.

        Raises:
            InputNotFoundError: no file is registered under this name.
        """
        path = self._paths.get(name)
        if path is None:
            known = ", ".join(sorted(self._paths)) or "none"
            raise InputNotFoundError(
                f"no cached file is registered as {name!r} (registered: {known}); call register_cached_file",
                details={"file": name},
            )
        return path
