"""The metrics of tasks, operators, sources and sinks under Flink's names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from streaming_fakes import (
    WRITTEN,
    FakeInputGate,
    FakeResultPartition,
    FakeTaskEnvironment,
    ListSink,
    ListSource,
    make_vertex,
)

from flinkpy.common.clock import ManualClock
from flinkpy.common.configuration import Configuration
from flinkpy.datastream.functions import MapFunctionWrapper
from flinkpy.graph import operator_specs as specs
from flinkpy.metrics.metric_registry import NamedMetricGroup, read_metric
from flinkpy.metrics.metricbase import TimerGauge
from flinkpy.records.batch import Batch
from flinkpy.records.elements import EndOfData, EndOfPartition, Watermark
from flinkpy.streaming.io.combined_watermark import CombinedInputs
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus, TaskTimes
from flinkpy.streaming.mailbox.task_mailbox import Mail, MailPriority, TaskMailbox
from flinkpy.streaming.operators.committables import Committables
from flinkpy.streaming.tasks import StreamTask, create_stream_task
from flinkpy.streaming.tasks.shuffle_metrics import register_shuffle_metrics
from flinkpy.streaming.tasks.task_metrics import _LongestWait


@pytest.fixture(autouse=True)
def _clean() -> None:
    WRITTEN.clear()


def values(group: NamedMetricGroup) -> dict[str, Any]:
    return {name: read_metric(metric, name).value for name, metric in group.metrics()}


def invoked(chain: list[Any], gates: list[Any], results: int = 0) -> tuple[StreamTask, FakeTaskEnvironment]:
    environment = FakeTaskEnvironment(
        make_vertex(chain, results=results, inputs=len(gates)),
        input_gates=[(0, number, gate) for number, gate in enumerate(gates)],
        result_partitions=[FakeResultPartition() for _ in range(results)],
    )
    task = create_stream_task(environment)
    task.invoke()
    return task, environment


def test_a_task_has_the_metrics_of_flink() -> None:
    gate = FakeInputGate()
    for item in (Batch([1, 2]), Watermark(7), EndOfData(), EndOfPartition()):
        gate.put(0, item)
    task, environment = invoked([specs.MapSpec(MapFunctionWrapper(lambda v: v))], [gate], results=1)
    found = values(environment.metric_group)
    assert (found["numRecordsIn"], found["numRecordsOut"]) == (2, 2)
    assert (found["isBackPressured"], found["numFiredTimers"], found["mailboxQueueSize"]) == ("false", 0, 0)
    assert (found["checkpointAlignmentTime"], found["checkpointStartDelayNanos"]) == (0, 0)
    assert found["Shuffle.Netty.Input.numBytesInLocal"] == 0 and found["Shuffle.Netty.Input.numBuffersInRemote"] == 0
    assert found["initializationTime"] == task.initialization_ms
    times = ("idle", "busy", "backPressured", "softBackPressured", "hardBackPressured")
    assert all(0 <= found[f"{name}TimeMsPerSecond"] <= 1000 for name in times)
    unreadable = {name for name, value in found.items() if isinstance(value, str) and "Error" in value}
    # The fake partition has no queue and no pool.
    assert all(name.startswith("Shuffle.Netty.Output.Buffers.") for name in unreadable)


def test_a_source_and_a_sink_have_the_metrics_of_flink() -> None:
    _, environment = invoked([specs.SourceSpec(ListSource([[1, 2], [3]])), specs.SinkSpec(ListSink("out"))], [])
    registered = environment.metric_group._registry.groups()
    groups = {scope.operator_id: values(group) for scope, group in registered if scope.operator_id}
    source, sink = groups["op0"], groups["op1"]
    assert (source["numRecordsIn"], source["numRecordsOut"], source["sourceIdleTime"]) == (3, 3, 0)
    assert (sink["numRecordsIn"], sink["numRecordsSend"], sink["numRecordsOut"]) == (3, 3, 3)


def channel(is_remote: bool, **fields: int) -> SimpleNamespace:
    return SimpleNamespace(is_remote=is_remote, **fields)


def test_queues_and_pools_of_a_task_are_read_on_demand() -> None:
    group = NamedMetricGroup()
    gates = [
        SimpleNamespace(
            channels=[
                channel(False, num_queued=2, queued_bytes=0, bytes_in=10, batches_in=1),
                channel(True, num_queued=3, queued_bytes=50, bytes_in=70, batches_in=4),
            ],
            pool=SimpleNamespace(quota=8, used=2),
        ),
        SimpleNamespace(channels=[], pool=None),
    ]
    subpartitions = [SimpleNamespace(queue=[1, 2]), SimpleNamespace(queue=[])]
    partition = SimpleNamespace(
        pool=SimpleNamespace(quota=4, used=5), num_queued=2, queued_bytes=96, subpartitions=subpartitions
    )
    environment = SimpleNamespace(
        input_gates=[(0, 0, gate) for gate in gates],
        metric_group=group,
        configuration=Configuration.from_dict({"taskmanager.network.detailed-metrics": "true"}),
    )
    register_shuffle_metrics(SimpleNamespace(environment=environment, partitions=[partition]))  # type: ignore[arg-type]
    found = {name.removeprefix("Shuffle.Netty."): value for name, value in values(group).items()}
    assert found["Input.Buffers.inputQueueLength"] == 5 and found["Input.Buffers.inputQueueSize"] == 50
    assert found["Input.Buffers.inPoolUsage"] == 0.25 and found["Output.Buffers.outPoolUsage"] == 1.0
    assert (found["Output.Buffers.outputQueueLength"], found["Output.Buffers.outputQueueSize"]) == (2, 96)
    assert [found[f"Input.num{what}"] for what in ("BytesInLocal", "BytesInRemote", "BuffersInRemote")] == [10, 70, 4]
    assert found["Input.numBytesInRemotePerSecond"] == 0.0
    assert [found[f"Output.0.{name}QueueLen"] for name in ("total", "min", "max", "avg")] == [2, 0, 2, 1.0]
    assert found["Input.1.avgQueueLen"] == 0.0


def test_a_mailbox_counts_its_mail_and_how_long_it_waited() -> None:
    clock = ManualClock(1_000)
    mailbox = TaskMailbox(clock)
    for priority in MailPriority:
        mailbox.put(Mail("x", lambda: None, priority))
    clock.advance(4)
    assert (len(mailbox), mailbox.num_mails) == (2, 0)
    taken = mailbox.take()
    clock.advance(6)
    assert taken is not None and mailbox.take() is not None and mailbox.take() is None
    assert (len(mailbox), mailbox.num_mails, mailbox.latency_ms.get_count()) == (0, 2, 2)
    assert (mailbox.latency_ms.statistics()["min"], mailbox.latency_ms.statistics()["max"]) == (4.0, 10.0)


def test_the_longest_back_pressure_is_that_of_the_last_interval() -> None:
    clock = ManualClock()
    times = TaskTimes(clock)
    gauge = _LongestWait(times)
    for status, waited_ms in (
        (ActionStatus.BLOCKED, 30),
        (ActionStatus.NOTHING_AVAILABLE, 90),
        (ActionStatus.BLOCKED, 9),
    ):
        times.begin_wait(status, clock.monotonic_ns())
        clock.advance(waited_ms)
        times.end_wait()
    assert gauge.get_value() == 0
    gauge.update()
    assert gauge.get_value() == 30
    gauge.update()
    assert gauge.get_value() == 0


def test_each_input_has_its_own_watermark() -> None:
    inputs = CombinedInputs(2)
    inputs.input_watermark(0, Watermark(50))
    inputs.input_watermark(1, Watermark(20))
    assert (inputs.watermark_of(0), inputs.watermark_of(1)) == (50, 20)


class Committing:
    """A committer with one outcome per committable."""

    def __init__(self) -> None:
        self.calls = 0

    def commit(self, requests: list[Any]) -> None:
        self.calls += 1
        for request in requests:
            match request.get_committable():
                case "again":
                    request.signal_already_committed()
                case "bad":
                    request.signal_failed_with_known_reason(ValueError("bad"))
                case "later" if self.calls == 1:
                    request.retry_later()

    def close(self) -> None:
        return


def test_committables_are_counted_by_their_outcome() -> None:
    committables = Committables()
    committables.add(1, ["good", "again", "bad", "later"])
    committables.add(2, ["next"])
    committables.commit_up_to(1, Committing(), max_retries=3)  # type: ignore[arg-type]
    counts = committables.counts
    assert (counts.total, counts.successful, counts.already_committed, counts.retried, counts.failed) == (5, 2, 1, 1, 1)
    assert len(committables) == 1


def test_the_shares_of_a_task_add_up_to_its_whole_time_from_the_first_minute_on() -> None:
    clock = ManualClock()
    times = TaskTimes(clock)
    times.start()
    clock.advance(20_000)  # the task restores its state before its metrics are registered
    shares = [
        TimerGauge(lambda: times.read_ms()[0], clock),
        TimerGauge(lambda: times.read_ms()[1], clock),
        TimerGauge(lambda: times.read_ms()[2], clock),
    ]
    for second in range(1, 200):
        times.begin_wait(ActionStatus.NOTHING_AVAILABLE, clock.monotonic_ns())
        clock.advance(300)
        times.end_wait()
        times.begin_wait(ActionStatus.BLOCKED, clock.monotonic_ns())
        clock.advance(200)
        times.end_wait()
        clock.advance(500)
        if second % 5 == 0:
            for share in shares:
                share.update()
        assert [share.get_value() for share in shares] == [300, 500, 200]


def test_a_share_reaches_its_new_value_as_its_window_passes() -> None:
    clock = ManualClock()
    times = TaskTimes(clock)
    times.start()
    idle = TimerGauge(lambda: times.read_ms()[0], clock)
    for _ in range(24):
        clock.advance(5_000)
        idle.update()
    times.begin_wait(ActionStatus.NOTHING_AVAILABLE, clock.monotonic_ns())
    seen = []
    for _ in range(13):
        clock.advance(5_000)
        seen.append(idle.get_value())  # the wait is still in progress
        idle.update()
    assert seen[0] > 70 and seen == sorted(seen) and seen[-1] == 1000
