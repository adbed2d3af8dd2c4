"""KeyContext: where states look for the key of the record being processed."""

from __future__ import annotations

from typing import Any


class KeyContext:
    """The key of the record being processed."""

    __slots__ = ("key",)

    def __init__(self) -> None:
        self.key: Any = None
