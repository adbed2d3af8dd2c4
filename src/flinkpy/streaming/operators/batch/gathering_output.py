"""GatheringOutput: combines the small batches of many keys into larger ones. Drops watermarks."""

from __future__ import annotations

from flinkpy.network.record_writer import concat_batches
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Element
from flinkpy.streaming.operators.output import Output

_ENOUGH_ROWS = 4096


class GatheringOutput:
    """Thread: task thread."""

    __slots__ = ("_output", "_pending", "_pending_rows")

    def __init__(self, output: Output) -> None:
        self._output = output
        self._pending: list[Batch] = []
        self._pending_rows = 0

    def emit(self, batch: Batch) -> None:
        if self._pending and not _can_follow(self._pending[-1], batch):
            self.flush()
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        if self._pending_rows >= _ENOUGH_ROWS:
            self.flush()

    def emit_element(self, element: Element) -> None:
        """Drops the element. Downstream operators must not see the watermarks at the end of each key."""
        return

    def flush(self) -> None:
        pending = self._pending
        if pending:
            self._pending = []
            self._pending_rows = 0
            self._output.emit(pending[0] if len(pending) == 1 else concat_batches(pending))


def _can_follow(last: Batch, batch: Batch) -> bool:
    return (
        not last.is_columnar
        and not batch.is_columnar
        and (last.timestamps is None) == (batch.timestamps is None)
        and (last.kinds is None) == (batch.kinds is None)
    )
