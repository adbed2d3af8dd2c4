"""AsyncSnapshot: one checkpoint of one task from its barrier to its report.

It has a fixed number of parts (the operators' state; what the inputs held; what the outputs held), each written by an
I/O thread. When the last is done, or the first has failed, the report goes out from there: it never waits for the task
thread. Cancelling makes the parts stop at their next write.

No lock is taken: a task thread may be interrupted at any point. Results are appended to a deque, and who pops the one
token decides how it ends.

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

#: Operator id -> its state, as one part has written it.
States = dict[str, checkpoint_pb2.OperatorSubtaskState]


class SnapshotCancelledError(FlinkError):
    """Ends the writing of a checkpoint that nobody wants any more."""


class AsyncSnapshot:
    """Thread: made, fed and cancelled by the task thread; parts run on I/O threads.

    Args:
        num_parts: `run_part` is called this often, unless it is cancelled.
        acknowledge: called once from any thread when all parts are written.
        decline: called once from any thread with the first failure.
        on_end: called from any thread when a part has ended.
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
        #: Completed by the task thread until the last part has started.
        self.metrics = metrics
        self._num_parts = num_parts
        self._streams = streams
        self._clock = clock
        self._acknowledge = acknowledge
        self._decline = decline
        self._on_end = on_end
        self._started_ns = clock.monotonic_ns()
        #: (state, bytes written, whether it is data of channels) of each part that is done.
        self._done: deque[tuple[States, int, bool]] = deque()
        #: Whoever pops it ends the checkpoint.
        self._token: list[None] = [None]
        self._futures: list[tuple[Future[None], Callable[[], None]]] = []

    @property
    def has_ended(self) -> bool:
        """Reported or cancelled; a part may still be on its way out of a write."""
        return not self._token

    @property
    def is_running(self) -> bool:
        """Whether a part runs or may still come."""
        return not self.has_ended or any(not future.done() for future, _ in self._futures)

    def run_part(
        self,
        executor: Executor,
        write: Callable[[CheckpointStreams], States],
        release: Callable[[], None],
        *,
        is_in_flight: bool = False,
    ) -> None:
        """Write one part on the executor. `release` is called exactly once, also where `write` never is.

        Args:
            is_in_flight: it is data of channels.
        """
        if self.has_ended:
            release()
            return
        try:
            future = executor.submit(self._run, write, release, is_in_flight)
        except RuntimeError as error:  # the executor is shut down: the process is ending
            release()
            self._fail(error)
            return
        self._futures.append((future, release))

    def skip_part(self) -> None:
        """There is nothing to write for one of the parts."""
        self._complete({}, 0, True)

    def cancel(self) -> bool:
        """Nobody wants it any more; nothing is reported. False where it had been reported already."""
        cancelled = self._take_token()
        self._drop_waiting()
        return cancelled

    def wait(self, timeout_s: float) -> bool:
        """Wait until no part runs any more; False on timeout."""
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
        except BaseException as error:  # noqa: BLE001 - whatever it is, the coordinator must hear of it
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
        except Exception as error:  # noqa: BLE001 - whatever it is, the coordinator must not wait for the rest
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
                _LOG.info("checkpoint %d, which has ended already: %s", self.checkpoint_id, error)
            return
        self._decline(checkpoint_error(CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION, f"{error}", error))

    def _drop_waiting(self) -> None:
        """Parts that have not begun never will."""
        for future, release in self._futures:
            if future.cancel():
                release()
        self._futures = [entry for entry in self._futures if not entry[0].cancelled()]


class _CountingStreams:
    """The streams of one part: counts what is written, and stops when the checkpoint has ended."""

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
        """What is still open after a failure leaves nothing behind."""
        for stream in self._open:
            try:
                stream.abort()
            except Exception as error:  # noqa: BLE001 - the failure that brought us here is the one to report
                _LOG.warning("dropping a checkpoint file failed", exc_info=error)


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
    """Bytes of everything the state refers to."""
    size = 0
    for keyed in state.keyed:
        if keyed.WhichOneof("kind") == "incremental":
            size += keyed.incremental.meta.size_bytes
            for file in (*keyed.incremental.shared, *keyed.incremental.private):
                size += file.handle.size_bytes
        else:
            size += keyed.key_groups.file.size_bytes
    size += sum(handle.file.size_bytes for handle in state.operator)
    # Several channels share one file.
    files = {channel.file.SerializeToString(): channel.file.size_bytes for channel in state.channels}
    return size + sum(files.values())
