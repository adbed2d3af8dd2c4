"""ADD JAR, REMOVE JAR, SHOW JARS and USING of functions, for the resources that Python has: modules, zip files, wheels.

A resource is importable in this process at once, and is shipped with each job of the session.

Source: org.apache.flink.table.resource.ResourceManager. Differs: there is no JVM, so a JAR of Java classes is refused.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from flinkpy.common.errors import UnsupportedOperationError, ValidationError

if TYPE_CHECKING:
    from flinkpy.datastream.stream_execution_environment import StreamExecutionEnvironment

_ENDINGS = (".py", ".zip", ".whl")


class ResourceManager:
    """The resources of a session. Thread: that of the program."""

    def __init__(self, environment: StreamExecutionEnvironment) -> None:
        self._environment = environment
        #: By the path of each, what was added to `sys.path` for it.
        self._added: dict[str, str] = {}

    def add(self, uri: str) -> None:
        """Adds a resource; nothing happens if it is there already.

        Raises:
            UnsupportedOperationError: it is a JAR, or not on this host.
            ValidationError: there is no such file, or it has an ending that Python cannot import.
        """
        path = self._path(uri)
        if path in self._added:
            return
        place = str(Path(path).parent) if path.endswith(".py") else path
        self._environment.add_python_file(path)
        self._added[path] = place
        if place not in sys.path:
            sys.path.append(place)

    def remove(self, uri: str) -> None:
        """Takes a resource back: later jobs do not get it. Raises: ValidationError if it was not added."""
        path = str(Path(_local(uri)).absolute())
        place = self._added.pop(path, None)
        if place is None:
            raise ValidationError(f"Failed to remove '{uri}': it was not added.", details={"file": uri})
        self._environment.remove_python_file(path)
        if place not in self._added.values() and place in sys.path:
            sys.path.remove(place)

    def list(self) -> list[str]:
        """Returns the paths of the resources in the order in which they were added."""
        return [*self._added]

    @staticmethod
    def _path(uri: str) -> str:
        local = _local(uri)
        if local.endswith(".jar"):
            raise UnsupportedOperationError(
                f"'{uri}' is a JAR, and flinkpy has no JVM that could load its classes. Write the function in Python, "
                "install a Python package with the connector, or add a Python file: .py, .zip or .whl.",
                details={"file": uri},
            )
        path = Path(local).absolute()
        if not path.exists():
            raise ValidationError(f"The file '{uri}' does not exist.", details={"file": uri})
        if not path.is_dir() and path.suffix not in _ENDINGS:
            raise ValidationError(
                f"'{uri}' is no resource that Python can import: it has to be a directory or end with "
                f"{', '.join(_ENDINGS)}.",
                details={"file": uri},
            )
        return str(path)


def _local(uri: str) -> str:
    """Returns the path of a URI. Raises: UnsupportedOperationError if its file system is not that of this host."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return uri.removeprefix("file:")
    if scheme == "file":
        return rest
    raise UnsupportedOperationError(
        f"A resource of the file system '{scheme}' cannot be added: copy '{uri}' to this host.", details={"file": uri}
    )
