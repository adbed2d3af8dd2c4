"""JavaObjectWrapper exists only for PyFlink's API: flinkpy has no Java objects."""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import UnsupportedOperationError


class JavaObjectWrapper:
    def __init__(self, j_object: Any) -> None:
        raise UnsupportedOperationError(f"{type(self).__name__}: flinkpy has no JVM and cannot use Java objects")

    def get_java_object(self) -> Any:
        raise UnsupportedOperationError("get_java_object: flinkpy has no JVM")
