"""Runs Kafka sources and sinks without a cluster: enumerator, readers and writers are in this process."""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from flinkpy.connector_api.source import ReaderStatus, SourceBase
from flinkpy.metrics.metric_registry import NamedMetricGroup

#: Longer than any wait here on a loaded machine.
PATIENCE_S = 60.0


@dataclass
class ReaderContext:
    subtask_index: int
    parallelism: int
    max_batch_rows: int = 1000
    finished_splits: list[str] = field(default_factory=list)
    metric_group: NamedMetricGroup = field(default_factory=NamedMetricGroup)
    side_outputs: list[Any] = field(default_factory=list)

    def emit_to_side_output(self, tag_id: str, batch: Any) -> None:
        self.side_outputs.append((tag_id, list(batch.values)))

    def split_finished(self, split_id: str) -> None:
        self.finished_splits.append(split_id)

    def send_source_event(self, event: Any) -> None:
        raise AssertionError(event)

    def notify_available(self) -> None:
        return

    def metrics(self) -> dict[str, Any]:
        return {
            name: metric.get_value() if hasattr(metric, "get_value") else metric.get_count()
            for name, metric in self.metric_group.metrics()
        }


class EnumeratorContext:
    """Makes asynchronous calls at once. Timers wait until the test runs them."""

    def __init__(self, parallelism: int, run: Running) -> None:
        self.parallelism = parallelism
        self.registered_readers: set[int] = set()
        self.timers: list[Callable[[], None]] = []
        self._run = run

    def assign_splits(self, assignment: dict[int, list[Any]]) -> None:
        for subtask_index, splits in assignment.items():
            self._run.readers[subtask_index].add_splits(pickle.loads(pickle.dumps(splits)))

    def signal_no_more_splits(self, subtask_index: int) -> None:
        self._run.readers[subtask_index].notify_no_more_splits()

    def send_event_to_reader(self, subtask_index: int, event: Any) -> None:
        self._run.readers[subtask_index].handle_source_event(event)

    def call_async(self, call: Callable[[], Any], on_done: Callable[[Any, Any], None]) -> None:
        try:
            result = call()
        except Exception as error:  # noqa: BLE001 - handed on, as the JobMaster does
            on_done(None, error)
        else:
            on_done(result, None)

    def schedule(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.timers.append(action)


class Running:
    """A running source. It collects the records of its readers and takes checkpoints when a test asks for them."""

    def __init__(
        self, source: SourceBase, parallelism: int = 1, checkpoint: Any = None, max_batch_rows: int = 1000
    ) -> None:
        self.contexts = [ReaderContext(index, parallelism, max_batch_rows) for index in range(parallelism)]
        self.readers = [source.create_reader(context) for context in self.contexts]
        self.enumerator_context = EnumeratorContext(parallelism, self)
        #: The records of each reader: (split id, value, timestamp).
        self.records: list[list[tuple[str | None, Any, int]]] = [[] for _ in self.readers]
        self._ended = [False] * parallelism
        if checkpoint is None:
            self.enumerator = source.create_enumerator(self.enumerator_context)
        else:
            state, splits = pickle.loads(checkpoint)
            serializer = source.split_serializer
            for number, data in enumerate(splits):
                split = serializer.deserialize(serializer.version, data)
                self.readers[number % parallelism].add_splits([split])
            serializer = source.enumerator_state_serializer
            restored = serializer.deserialize(serializer.version, state)
            self.enumerator = source.restore_enumerator(self.enumerator_context, restored)
        self._source = source
        for reader in self.readers:
            reader.start()
        try:
            self.enumerator.start()
        except Exception:
            self.close()
            raise
        for index in range(parallelism):
            self.enumerator_context.registered_readers.add(index)
            self.enumerator.add_reader(index)

    def run_timers(self) -> None:
        """Runs all scheduled actions now."""
        timers, self.enumerator_context.timers = self.enumerator_context.timers, []
        for timer in timers:
            timer()

    def poll(self) -> bool:
        """Polls each reader once. Returns True if one of them returned a batch."""
        has_polled = False
        for index, reader in enumerate(self.readers):
            polled = reader.poll_batch()
            if polled is ReaderStatus.END_OF_INPUT:
                self._ended[index] = True
            elif polled is not ReaderStatus.NOTHING_AVAILABLE:
                has_polled = True
                self._ended[index] = False
                times = polled.timestamps.tolist()
                split_ids = [reader.current_split_id] * polled.num_rows
                self.records[index] += zip(split_ids, list(polled.values), times, strict=True)
        return has_polled

    def read(self, num_records: int) -> list[Any]:
        """Polls until there are `num_records` values in all, and returns all values."""
        return self._until(lambda: self.num_records >= num_records, f"{num_records} records")

    def read_to_end(self) -> list[Any]:
        return self._until(lambda: all(self._ended), "the end")

    def read_until(self, condition: Callable[[], Any], what: str) -> list[Any]:
        return self._until(condition, what)

    @property
    def num_records(self) -> int:
        return sum(map(len, self.records))

    @property
    def values(self) -> list[Any]:
        return [value for records in self.records for _, value, _ in records]

    def values_of(self, split_id: str) -> list[Any]:
        return [value for records in self.records for of, value, _ in records if of == split_id]

    def checkpoint(self, checkpoint_id: int = 1) -> bytes:
        """Returns a checkpoint as it is stored. `Running(source, checkpoint=...)` continues from it."""
        serializer = self._source.split_serializer
        splits = [
            serializer.serialize(split) for reader in self.readers for split in reader.snapshot_state(checkpoint_id)
        ]
        state = self.enumerator.snapshot_state(checkpoint_id)
        return pickle.dumps((self._source.enumerator_state_serializer.serialize(state), splits))

    def complete(self, checkpoint_id: int) -> None:
        for reader in self.readers:
            reader.notify_checkpoint_complete(checkpoint_id)

    def close(self) -> None:
        for reader in self.readers:
            reader.close()
        self.enumerator.close()

    def _until(self, condition: Callable[[], Any], what: str) -> list[Any]:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if not self.poll():
                assert time.monotonic() < deadline, f"waited for {what}: there are {self.num_records} records"
                time.sleep(0.005)
        return self.values


@contextmanager
def running(source: SourceBase, parallelism: int = 1, **settings: Any) -> Iterator[Running]:
    run = Running(source, parallelism, **settings)
    try:
        yield run
    finally:
        run.close()


@dataclass
class WriterContext:
    subtask_index: int = 0
    parallelism: int = 1
    attempt_number: int = 0
    input_type: Any = None
    restored_checkpoint_id: int | None = None


class CommitRequests:
    """Requests to a committer, with the signal that it gave for each."""

    def __init__(self, committables: list[Any]) -> None:
        self.requests = [CommitRequest(committable) for committable in committables]

    @property
    def signals(self) -> list[str]:
        return [request.signal for request in self.requests]

    @property
    def errors(self) -> deque[BaseException]:
        return deque(request.error for request in self.requests if request.error is not None)


class CommitRequest:
    def __init__(self, committable: Any) -> None:
        self._committable = committable
        self.signal = "committed"
        self.error: BaseException | None = None

    def get_committable(self) -> Any:
        return self._committable

    def get_number_of_retries(self) -> int:
        return 0

    def signal_failed_with_known_reason(self, error: BaseException) -> None:
        self.signal, self.error = "failed with known reason", error

    def signal_failed_with_unknown_reason(self, error: BaseException) -> None:
        self.signal, self.error = "failed with unknown reason", error

    def retry_later(self) -> None:
        self.signal = "retry later"

    def signal_already_committed(self) -> None:
        self.signal = "already committed"
