"""RecordWriterOutput: the end of a chain, where batches go into a result partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy.records.batch import Batch
from flinkpy.records.elements import Element

if TYPE_CHECKING:
    from flinkpy.network.record_writer import RecordWriter
    from flinkpy.network.result_partition import ResultPartition


class RecordWriterOutput:
    """Thread: task thread; the counters are read by any.

    Attributes:
        num_records: records emitted so far, each once however many channels it went to.
    """

    __slots__ = ("num_batches", "num_records", "partition", "writer")

    def __init__(self, writer: RecordWriter, partition: ResultPartition) -> None:
        self.writer = writer
        self.partition = partition
        self.num_records = 0
        self.num_batches = 0

    def emit(self, batch: Batch) -> None:
        self.num_records += batch.num_rows
        self.num_batches += 1
        self.writer.emit(batch)

    def emit_element(self, element: Element) -> None:
        self.writer.emit_element(element)

    @property
    def flush_deadline_ns(self) -> int | None:
        """Monotonic time at which what is gathered must go out; None where nothing is."""
        deadline_ms = self.writer.next_flush_deadline
        return None if deadline_ms is None else deadline_ms * 1_000_000
