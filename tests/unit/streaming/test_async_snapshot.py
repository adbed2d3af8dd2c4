from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from memory_checkpoints import MemoryStreams
from streaming_fakes import DirectExecutor

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason, failure_reason
from flinkpy.common.clock import ManualClock
from flinkpy.streaming.checkpoint.async_snapshot import AsyncSnapshot, size_of


class Reports:
    """A snapshot that records its reports and how often its parts were released."""

    def __init__(self, num_parts: int = 1) -> None:
        self.streams = MemoryStreams()
        self.acknowledged: list[tuple[checkpoint_pb2.CheckpointMetrics, dict]] = []
        self.declined: list[BaseException] = []
        self.released = 0
        self.ended = 0
        self.snapshot = AsyncSnapshot(
            4,
            num_parts,
            self.streams,
            checkpoint_pb2.CheckpointMetrics(),
            ManualClock(0),
            acknowledge=lambda metrics, states: self.acknowledged.append((metrics, states)),
            decline=self.declined.append,
            on_end=self.on_end,
        )

    def on_end(self) -> None:
        self.ended += 1

    def release(self) -> None:
        self.released += 1


def writing(operator_id: str, data: bytes = b"state"):
    def write(streams):
        stream = streams.create()
        stream.write(data)
        handle = checkpoint_pb2.OperatorStateHandle(file=stream.close_and_get_handle())
        return {operator_id: checkpoint_pb2.OperatorSubtaskState(operator=[handle])}

    return write


def failing(streams):
    streams.create().write(b"half")
    raise ValueError("broken")


def test_last_part_reports_all_parts():
    reports = Reports(3)
    executor = DirectExecutor()
    reports.snapshot.run_part(executor, writing("a"), reports.release)
    reports.snapshot.run_part(executor, writing("a", b"more"), reports.release, is_in_flight=True)
    assert reports.acknowledged == []
    assert reports.snapshot.is_running

    reports.snapshot.skip_part()

    ((metrics, states),) = reports.acknowledged
    assert len(states["a"].operator) == 2
    assert (metrics.bytes_persisted, metrics.state_size_bytes, metrics.bytes_persisted_during_alignment) == (9, 9, 4)
    assert reports.released == 2
    assert not reports.snapshot.is_running


def test_first_failure_is_reported_once_and_leaves_no_file():
    reports = Reports(2)
    executor = DirectExecutor()
    reports.snapshot.run_part(executor, failing, reports.release)
    reports.snapshot.run_part(executor, failing, reports.release)

    (error,) = reports.declined
    assert failure_reason(error) is CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION
    assert "broken" in str(error)
    assert reports.streams.open_streams == []
    assert reports.released == 2


def test_part_cancelled_before_it_starts_is_released_and_not_reported():
    reports = Reports()
    executor = DirectExecutor()
    executor.is_held = True
    reports.snapshot.run_part(executor, writing("a"), reports.release)

    assert reports.snapshot.cancel()
    assert reports.released == 1
    executor.run_all()

    assert (reports.acknowledged, reports.declined, reports.released) == ([], [], 1)
    assert not reports.snapshot.cancel()
    assert not reports.snapshot.is_running


def test_part_that_arrives_after_the_end_is_only_released():
    reports = Reports(2)
    reports.snapshot.cancel()

    reports.snapshot.run_part(DirectExecutor(), writing("a"), reports.release)

    assert reports.released == 1
    assert reports.streams.files == {}


def test_cancelled_write_stops_at_its_next_step():
    reports = Reports()
    began, go_on = threading.Event(), threading.Event()

    def write(streams):
        stream = streams.create()
        stream.write(b"one")
        began.set()
        assert go_on.wait(60)
        stream.write(b"two")
        raise AssertionError("the write was not stopped")

    with ThreadPoolExecutor(1) as executor:
        reports.snapshot.run_part(executor, write, reports.release)
        assert began.wait(60)
        reports.snapshot.cancel()
        assert reports.snapshot.is_running
        assert not reports.snapshot.wait(0)
        go_on.set()
        assert reports.snapshot.wait(60)

    assert (reports.acknowledged, reports.declined, reports.released, reports.ended) == ([], [], 1, 1)
    assert reports.streams.open_streams == []
    assert not reports.snapshot.is_running


def test_snapshot_is_declined_if_the_executor_is_shut_down():
    reports = Reports()
    executor = DirectExecutor()
    executor.is_shut_down = True

    reports.snapshot.run_part(executor, writing("a"), reports.release)

    assert len(reports.declined) == 1
    assert reports.released == 1


def test_failed_acknowledgement_declines_the_snapshot():
    reports = Reports()

    def refuse(metrics, states):
        raise OSError("gone")

    reports.snapshot._acknowledge = refuse
    reports.snapshot.run_part(DirectExecutor(), writing("a"), reports.release)

    assert "gone" in str(reports.declined[0])


@pytest.mark.parametrize("round_number", range(5))
def test_parts_on_several_threads_report_once(round_number):
    reports = Reports(8)
    with ThreadPoolExecutor(8) as executor:
        for part in range(8):
            reports.snapshot.run_part(executor, writing(f"op{part}"), reports.release)
    assert len(reports.acknowledged) == 1
    assert len(reports.acknowledged[0][1]) == 8
    assert reports.released == 8


def test_file_shared_by_several_channels_counts_once():
    file = checkpoint_pb2.StreamStateHandle(path="x", size_bytes=10)
    state = checkpoint_pb2.OperatorSubtaskState(
        channels=[checkpoint_pb2.ChannelStateHandle(channel_index=n, file=file) for n in range(3)]
    )

    assert size_of(state) == 10
