"""HeldNexmark: Nexmark's events, of which the second half comes when a test wants it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from flinkpy.connector_api.source import SourceReader, SourceReaderContext
from flinkpy.connectors.nexmark.options import NexmarkOptions
from flinkpy.connectors.nexmark.source import NexmarkSource

#: How much faster the clock goes at last.
_FASTER = 1_000


class HeldNexmark(NexmarkSource):
    """Emits the events of a time in that time, and the others as soon as a file exists.

    Args:
        options: the events, with a limited rate.
        held_after_s: the seconds that each reader emits events before it waits.
        hurry: the path of the file with which a test ends the wait. Readers that start later emit without a limit.
    """

    def __init__(self, options: NexmarkOptions, held_after_s: float, hurry: Path) -> None:
        super().__init__(options)
        self._held_after_ns = int(held_after_s * 1e9)
        self._hurry = str(hurry)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        held: Any = _HeldContext(context, self._held_after_ns, self._hurry)
        return super().create_reader(held)


class _HeldContext:
    """The context of a reader with a clock that stops until a file exists, and is fast afterwards."""

    def __init__(self, context: SourceReaderContext, held_after_ns: int, hurry: str) -> None:
        self._context = context
        self._hurry = hurry
        self._held_from_ns = context.monotonic_ns() + held_after_ns

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def monotonic_ns(self) -> int:
        now_ns = self._context.monotonic_ns()
        return now_ns * _FASTER if os.path.exists(self._hurry) else min(now_ns, self._held_from_ns)
