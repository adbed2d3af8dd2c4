"""KeyContext: the current key of an operator, shared with its states."""

from __future__ import annotations

from typing import Any


class KeyContext:
    """Holds the key of the record that is being processed. The operator sets it, and states read it."""

    __slots__ = ("key",)

    def __init__(self) -> None:
        self.key: Any = None
