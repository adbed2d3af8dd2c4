"""AsyncSnapshot: one checkpoint of one task, from its barrier to its report.

It has a fixed number of parts: the operators' state, the in-flight data of the inputs, and that of the outputs. I/O
threads write the parts. The thread that completes the last part, or on which the first part fails, sends the report.
The report never waits for the task thread. After a cancellation the parts stop at their next write.

It takes no lock, because a task thread may be interrupted at any point. Results are appended to a deque, and the thread
that pops the only token decides how the checkpoint ends.

Source: org.apache.flink.streaming.runtime.tasks.AsyncCheckpointRunnable.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from pathlib import Path
from typing import Any

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason, checkpoint_error
from flinkpy.common.clock import Clock
from flinkpy.common.errors import FlinkError
from flinkpy.state.checkpoint_streams import CheckpointedStateScope, CheckpointOutputStream, CheckpointStreams

_LOG = logging.getLogger(__name__)

#: Operator id -> its state, as written by one part.
States = dict[str, checkpoint_pb2.OperatorSubtaskState]


class SnapshotCancelledError(FlinkError):
    """Ends the writing of a checkpoint that was aborted."""


class AsyncSnapshot:
    """Writes the parts of one snapshot. Thread: the task thread calls its methods; the parts run on I/O threads.

    Args:
        num_parts: how often `run_part` or `skip_part` is called, unless the snapshot is cancelled.
        acknowledge: called once, on any thread, when all parts have been written.
        decline: called once, on any thread, with the first failure.
        on_end: called on any thread when a part has ended.
    """

    def __init__(
        self,
        checkpoint_id: int,
        num_parts: int,
        streams: CheckpointStreams,
        metrics: checkpoint_pb2.CheckpointMetrics,
        clock: Clock,
        *,
        acknowledge: Callable[[checkpoint_pb2.CheckpointMetrics, States], None],
        decline: Callable[[BaseException], None],
        on_end: Callable[[], None],
    ) -> None:
        self.checkpoint_id = checkpoint_id
        #: The task thread fills them in before it starts the last part.
        self.metrics = metrics
        self._num_parts = num_parts
        self._streams = streams
        self._clock = clock
        self._acknowledge = acknowledge
        self._decline = decline
        self._on_end = on_end
        self._started_ns = clock.monotonic_ns()
        #: (state, bytes written, True for data of channels) of each completed part.
        self._done: deque[tuple[States, int, bool]] = deque()
        #: The thread that pops the token ends the checkpoint.
        self._token: list[None] = [None]
        self._futures: list[tuple[Future[None], Callable[[], None]]] = []

    @property
    def has_ended(self) -> bool:
        """True once it has been reported or cancelled. A part may still be finishing a write."""
        return not self._token

    @property
    def is_running(self) -> bool:
        """True if a part runs or may still start."""
        return not self.has_ended or any(not future.done() for future, _ in self._futures)

    def run_part(
        self,
        executor: Executor,
        write: Callable[[CheckpointStreams], States],
        release: Callable[[], None],
        *,
        is_in_flight: bool = False,
    ) -> None:
        """Writes one part on the executor. `release` is called exactly once, even if `write` is never called.

        Args:
            is_in_flight: True if the part is data of channels.
        """
        if self.has_ended:
            release()
            return
        try:
            future = executor.submit(self._run, write, release, is_in_flight)
        except RuntimeError as error:  # the executor has been shut down because the process ends
            release()
            self._fail(error)
            return
        self._futures.append((future, release))

    def skip_part(self) -> None:
        """Completes a part for which there is nothing to write."""
        self._complete({}, 0, True)

    def cancel(self) -> bool:
        """Cancels the snapshot, which is then not reported. Returns False if it has already been reported."""
        cancelled = self._take_token()
        self._drop_waiting()
        return cancelled

    def wait(self, timeout_s: float) -> bool:
        """Waits until no part runs. Returns False on timeout."""
        return not wait([future for future, _ in self._futures], timeout_s).not_done

    # -- I/O threads ---------------------------------------------------------------------------------------------

    def _run(
        self, write: Callable[[CheckpointStreams], States], release: Callable[[], None], is_in_flight: bool
    ) -> None:
        counting = _CountingStreams(self._streams, self)
        failure: BaseException | None = None
        states: States = {}
        try:
            if not self.has_ended:
                states = write(counting)
        except BaseException as error:  # noqa: BLE001 - the coordinator must learn of every error
            failure = error
            counting.abort()
        try:
            release()
        except BaseException as error:  # noqa: BLE001 - as above
            failure = failure or error
        if failure is not None:
            self._fail(failure)
        else:
            self._complete(states, counting.bytes_written, is_in_flight)
        self._on_end()

    def _complete(self, states: States, bytes_written: int, is_in_flight: bool) -> None:
        self._done.append((states, bytes_written, is_in_flight))
        if len(self._done) == self._num_parts and self._take_token():
            self._report()

    def _report(self) -> None:
        merged: States = {}
        metrics = self.metrics
        for states, written, is_in_flight in list(self._done):
            metrics.bytes_persisted += written
            if is_in_flight:
                metrics.bytes_persisted_during_alignment += written
            for operator_id, state in states.items():
                merged.setdefault(operator_id, checkpoint_pb2.OperatorSubtaskState()).MergeFrom(state)
        metrics.state_size_bytes = sum(map(size_of, merged.values()))
        metrics.async_duration_ns = self._clock.monotonic_ns() - self._started_ns
        try:
            self._acknowledge(metrics, merged)
        except Exception as error:  # noqa: BLE001 - the coordinator must not wait for a report
            self._decline(checkpoint_error(CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION, f"{error}", error))

    # -- any thread ----------------------------------------------------------------------------------------------

    def _take_token(self) -> bool:
        try:
            self._token.pop()
        except IndexError:
            return False
        return True

    def _fail(self, error: BaseException) -> None:
        if not self._take_token():
            if not isinstance(error, SnapshotCancelledError):
                _LOG.info("a part of checkpoint %d failed after the checkpoint ended: %s", self.checkpoint_id, error)
            return
        self._decline(checkpoint_error(CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION, f"{error}", error))

    def _drop_waiting(self) -> None:
        """Cancels the parts that have not started."""
        for future, release in self._futures:
            if future.cancel():
                release()
        self._futures = [entry for entry in self._futures if not entry[0].cancelled()]


class _CountingStreams:
    """The streams of one part. They count the bytes written, and raise an error when the checkpoint has ended."""

    def __init__(self, streams: CheckpointStreams, owner: AsyncSnapshot) -> None:
        self._streams = streams
        self._owner = owner
        self.bytes_written = 0
        self._open: list[_CountingStream] = []

    @property
    def can_share(self) -> bool:
        return self._streams.can_share

    def create(self, scope: CheckpointedStateScope = CheckpointedStateScope.EXCLUSIVE) -> CheckpointOutputStream:
        self.check()
        stream = _CountingStream(self._streams.create(scope), self)
        self._open.append(stream)
        return stream

    def store_file(self, source: Path, scope: CheckpointedStateScope) -> checkpoint_pb2.StreamStateHandle:
        self.check()
        handle = self._streams.store_file(source, scope)
        self.bytes_written += handle.size_bytes
        return handle

    def check(self) -> None:
        if self._owner.has_ended:
            raise SnapshotCancelledError(f"checkpoint {self._owner.checkpoint_id} was aborted")

    def closed(self, stream: _CountingStream, size_bytes: int) -> None:
        self._open.remove(stream)
        self.bytes_written += size_bytes

    def abort(self) -> None:
        """Removes the files that are still open after a failure."""
        for stream in self._open:
            try:
                stream.abort()
            except Exception as error:  # noqa: BLE001 - the first failure is the one to report
                _LOG.warning("removing an unfinished checkpoint file failed", exc_info=error)


class _CountingStream:
    def __init__(self, stream: CheckpointOutputStream, owner: _CountingStreams) -> None:
        self._stream = stream
        self._owner = owner
        self.tell = stream.tell
        self.abort = stream.abort

    def write(self, data: Any) -> int:
        self._owner.check()
        return self._stream.write(data)

    def close_and_get_handle(self) -> checkpoint_pb2.StreamStateHandle:
        self._owner.check()
        handle = self._stream.close_and_get_handle()
        self._owner.closed(self, handle.size_bytes)
        return handle


def size_of(state: checkpoint_pb2.OperatorSubtaskState) -> int:
    """Returns the size in bytes of all files that the state refers to."""
    size = 0
    for keyed in state.keyed:
        if keyed.WhichOneof("kind") == "incremental":
            size += keyed.incremental.meta.size_bytes
            for file in (*keyed.incremental.shared, *keyed.incremental.private):
                size += file.handle.size_bytes
        else:
            size += keyed.key_groups.file.size_bytes
    size += sum(handle.file.size_bytes for handle in state.operator)
    # Several channels may share one file.
    files = {channel.file.SerializeToString(): channel.file.size_bytes for channel in state.channels}
    return size + sum(files.values())
