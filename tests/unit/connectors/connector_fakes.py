"""Contexts for connectors that run without a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flinkpy.connector_api.source import ReaderStatus, SourceBase, SourceReader
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import rows_of
from flinkpy.streaming.operators.metric_group import OperatorMetricGroup


class TestingCoordinatorContext:
    """Records the calls of a coordinator. Blocking calls and timers wait until the test runs them."""

    __test__ = False
    operator_id = "operator-1"

    def __init__(self, parallelism: int = 2) -> None:
        self.parallelism = parallelism
        self.sent: list[tuple[int, Any]] = []
        self.failures: list[BaseException] = []
        #: The values of `set_is_processing_backlog`, in order.
        self.backlogs: list[bool] = []
        self.timers: list[tuple[int, Callable[[], None]]] = []
        self.blocking: list[tuple[Callable[[], Any], Callable[[Any, Any], None]]] = []

    def send_event(self, subtask_index: int, event: Any) -> None:
        self.sent.append((subtask_index, event))

    def fail_job(self, error: BaseException) -> None:
        self.failures.append(error)

    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        self.backlogs.append(is_processing_backlog)

    def schedule(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.timers.append((delay_ms, action))

    def run_blocking(self, call: Callable[[], Any], on_done: Callable[[Any, Any], None]) -> None:
        self.blocking.append((call, on_done))

    def finish_blocking(self) -> None:
        pending, self.blocking = self.blocking, []
        for call, on_done in pending:
            try:
                result = call()
            except Exception as error:  # noqa: BLE001 - passed on, as the JobMaster does
                on_done(None, error)
            else:
                on_done(result, None)

    def take_sent(self) -> list[tuple[int, Any]]:
        sent, self.sent = self.sent, []
        return sent


@dataclass
class TestingReaderContext:
    __test__ = False
    subtask_index: int = 0
    parallelism: int = 1
    max_batch_rows: int = 1000
    is_checkpointing_enabled: bool = False
    split_requests: int = 0
    availability_calls: int = 0
    source_events: list[Any] = field(default_factory=list)
    finished_splits: list[str] = field(default_factory=list)
    now_ns: int = 0
    timers: list[tuple[int, Any]] = field(default_factory=list)
    #: Watermarks and changes of idleness, in order.
    elements: list[Any] = field(default_factory=list)
    metric_group: OperatorMetricGroup = field(default_factory=lambda: OperatorMetricGroup((), {}))
    #: (tag, records) in the order in which they were emitted.
    side_outputs: list[tuple[str, list[Any]]] = field(default_factory=list)

    def emit_to_side_output(self, tag_id: str, batch: Batch) -> None:
        self.side_outputs.append((tag_id, rows_of(batch)))

    def monotonic_ns(self) -> int:
        return self.now_ns

    def schedule(self, delay_ms: int, action: Any) -> None:
        self.timers.append((delay_ms, action))

    def emit_watermark(self, timestamp: int) -> None:
        self.elements.append(timestamp)

    def mark_idle(self) -> None:
        self.elements.append("idle")

    def mark_active(self) -> None:
        self.elements.append("active")

    def split_finished(self, split_id: str) -> None:
        self.finished_splits.append(split_id)

    def send_split_request(self) -> None:
        self.split_requests += 1

    def send_source_event(self, event: Any) -> None:
        self.source_events.append(event)

    def notify_available(self) -> None:
        self.availability_calls += 1


@dataclass
class TestingWriterContext:
    __test__ = False
    subtask_index: int = 0
    parallelism: int = 1
    attempt_number: int = 0
    job_id: str = "0123456789abcdef"
    input_type: Any = None
    restored_checkpoint_id: int | None = None
    is_checkpointing_enabled: bool = False
    is_exactly_once: bool = False
    waits_for_final_checkpoint: bool = False
    events: list[Any] = field(default_factory=list)
    writable_calls: int = 0
    timers: list[Any] = field(default_factory=list)

    def current_processing_time(self) -> int:
        return 1_000

    def schedule_after(self, delay_ms: int, action: Any) -> None:
        self.timers.append((delay_ms, action))

    def send_event_to_coordinator(self, event: Any) -> None:
        self.events.append(event)

    def notify_writable(self) -> None:
        self.writable_calls += 1


def drain(reader: SourceReader) -> list[Batch]:
    """Returns all batches of a reader that knows that no more splits come."""
    batches = []
    while True:
        polled = reader.poll_batch()
        if isinstance(polled, ReaderStatus):
            assert polled is ReaderStatus.END_OF_INPUT
            return batches
        assert polled.num_rows > 0
        batches.append(polled)


def read_splits(source: SourceBase, splits: list[Any], max_batch_rows: int = 1000) -> list[Batch]:
    """Returns all batches that one reader returns for the splits."""
    reader = source.create_reader(TestingReaderContext(max_batch_rows=max_batch_rows))
    reader.add_splits(splits)
    reader.notify_no_more_splits()
    reader.start()
    try:
        return drain(reader)
    finally:
        reader.close()
