"""Sinks that belong to the program, run in Spark's driver: `print`, and the results of `execute_and_collect`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from flinkpy.common.clock import SystemClock
from flinkpy.connector_api.sink import SinkWriter
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import has_exact_columns, to_columns
from flinkpy.spark.driver.driver_job import SinkVertex

#: How often a writer that waits for its reader checks whether the job was canceled.
_LOOK_S = 0.2


class LocalSink(Protocol):
    """Thread: `write`, `finish` and `close` run on the thread of the job."""

    def write(self, batch: Batch, check_cancelled: Callable[[], None]) -> None: ...

    def finish(self, check_cancelled: Callable[[], None]) -> None: ...

    def close(self) -> None: ...


def local_sink(vertex: SinkVertex, job_id: str, attempt_number: int) -> LocalSink:
    if vertex.sink.coordinator_provider is not None:
        return CollectingSink(vertex, job_id, attempt_number)
    return PrintingSink(vertex, job_id, attempt_number)


class _DriverWriterContext:
    """Implements WriterContext in the driver."""

    restored_checkpoint_id = None
    is_checkpointing_enabled = False
    is_exactly_once = False
    waits_for_final_checkpoint = False

    def __init__(self, vertex: SinkVertex, job_id: str, attempt_number: int, subtask_index: int = 0) -> None:
        self.job_id = job_id
        self.attempt_number = attempt_number
        self.subtask_index = subtask_index
        self.parallelism = vertex.parallelism
        self.input_type = vertex.input_type

    def current_processing_time(self) -> int:
        return SystemClock().now_ms()

    def schedule_after(self, delay_ms: int, action: Callable[[int], None]) -> None:
        """Ignores the action, because sinks in the driver have no timers."""
        return

    def send_event_to_coordinator(self, event: Any) -> None:
        return

    def notify_writable(self) -> None:
        return


def _conformed(batch: Batch, type_info: Any) -> Batch:
    """Returns the batch with columns if its type has them, as a task passes it to a writer."""
    return to_columns(batch, type_info) if type_info is not None and has_exact_columns(type_info) else batch


class PrintingSink:
    """Gives the batches to the writers of the sink's subtasks in turn."""

    def __init__(self, vertex: SinkVertex, job_id: str, attempt_number: int) -> None:
        self._type = vertex.input_type
        self._writers: list[SinkWriter] = []
        for subtask_index in range(vertex.parallelism):
            context: Any = _DriverWriterContext(vertex, job_id, attempt_number, subtask_index)
            self._writers.append(vertex.sink.create_writer(context))
        self._turn = 0

    def write(self, batch: Batch, check_cancelled: Callable[[], None]) -> None:
        self._writers[self._turn].write(_conformed(batch, self._type))
        self._turn = (self._turn + 1) % len(self._writers)

    def finish(self, check_cancelled: Callable[[], None]) -> None:
        for writer in self._writers:
            writer.flush(end_of_input=True)

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


class CollectingSink(_DriverWriterContext):
    """A CollectSink with its writer and its coordinator in one process.

    A lock replaces the threads of the task and of the JobMaster. Thread: any calls `answer`.
    """

    def __init__(self, vertex: SinkVertex, job_id: str, attempt_number: int) -> None:
        super().__init__(vertex, job_id, attempt_number)
        self.operator_id = vertex.operator_id
        self.coordinator_store: dict[str, Any] = {}
        self._type = vertex.input_type
        self._changed = threading.Condition(threading.RLock())
        self._error: BaseException | None = None
        self._timers: list[threading.Timer] = []
        with self._changed:
            self._coordinator = vertex.sink.coordinator_provider.create(self)
            self._writer: Any = vertex.sink.create_writer(self)  # type: ignore[arg-type]

    def answer(self, payload: bytes) -> bytes:
        """Answers a request of the program's iterator."""
        with self._changed:
            answer: bytes = self._coordinator.handle_request(payload)
            self._changed.notify_all()
            return answer

    def write(self, batch: Batch, check_cancelled: Callable[[], None]) -> None:
        self._wait_until(lambda: self._writer.is_writable, check_cancelled)
        with self._changed:
            self._writer.write(_conformed(batch, self._type))

    def finish(self, check_cancelled: Callable[[], None]) -> None:
        """Ends the result and waits until the program has all of it or needs no more."""
        with self._changed:
            self._writer.flush(end_of_input=True)
        self._wait_until(lambda: self._writer.has_finished, check_cancelled)

    def close(self) -> None:
        with self._changed:
            for timer in self._timers:
                timer.cancel()
            self._writer.close()

    def _wait_until(self, condition: Callable[[], bool], check_cancelled: Callable[[], None]) -> None:
        with self._changed:
            while not condition():
                self._changed.wait(_LOOK_S)
                check_cancelled()
                if self._error is not None:
                    raise self._error

    # -- the services of a task and of the JobMaster ------------------------------------------------------------------

    def send_event_to_coordinator(self, event: Any) -> None:
        self._coordinator.handle_event(self.subtask_index, self.attempt_number, event)

    def send_event(self, subtask_index: int, event: Any) -> None:
        self._writer.handle_event(event)

    def notify_writable(self) -> None:
        self._changed.notify_all()

    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        return

    def fail_job(self, error: BaseException) -> None:
        self._error = error

    def schedule(self, delay_ms: int, action: Any) -> None:
        def run() -> None:
            with self._changed:
                action()
                self._changed.notify_all()

        timer = threading.Timer(delay_ms / 1000, run)
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def run_blocking(self, call: Any, on_done: Any) -> None:
        on_done(call(), None)
