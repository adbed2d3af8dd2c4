"""InputFormat exists only for PyFlink's API: in PyFlink it wraps a Java object."""

from __future__ import annotations

from typing import Any

from flinkpy.common.utils import JavaObjectWrapper

__all__ = ["InputFormat"]


class InputFormat(JavaObjectWrapper):
    def __init__(self, j_input_format: Any) -> None:
        super().__init__(j_input_format)
