"""The metrics of every task and operator, under Flink's names.

Source: org.apache.flink.runtime.metrics.groups.{TaskIOMetricGroup,InternalOperatorIOMetricGroup}, MetricNames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from flinkpy.metrics.metricbase import DEFAULT_TIME_SPAN_S, CounterView, Gauge, Meter, View
from flinkpy.streaming.operators.sink_operator import SinkOperator
from flinkpy.streaming.operators.stream_operator import StreamOperator
from flinkpy.streaming.tasks.operator_chain import OperatorChain
from flinkpy.streaming.tasks.shuffle_metrics import register_shuffle_metrics

if TYPE_CHECKING:
    from flinkpy.metrics.metric_registry import NamedMetricGroup
    from flinkpy.streaming.io.record_writer_output import RecordWriterOutput
    from flinkpy.streaming.mailbox.mailbox_processor import TaskTimes
    from flinkpy.streaming.mailbox.task_mailbox import TaskMailbox
    from flinkpy.streaming.tasks.stream_task import StreamTask

#: Flink's name -> a field of IOMetrics. Each also has a rate metric.
_COUNTS = {
    "numRecordsIn": "num_records_in",
    "numRecordsOut": "num_records_out",
    "numBytesIn": "num_bytes_in",
    "numBytesOut": "num_bytes_out",
    "numBuffersIn": "num_batches_in",
    "numBuffersOut": "num_batches_out",
}
#: The part of Flink's name before `Committables` -> a field of CommitCounts.
_COMMIT_COUNTS = {
    "total": "total",
    "successful": "successful",
    "alreadyCommitted": "already_committed",
    "retried": "retried",
    "failed": "failed",
}
_TIMES = {"Idle": "idle_time_ms", "Busy": "busy_time_ms", "BackPressured": "back_pressured_time_ms"}


def io_metrics(
    times: TaskTimes, writers: Iterable[RecordWriterOutput], sinks: Iterable[SinkOperator]
) -> dict[str, int]:
    """Returns the fields of IOMetrics. Those of the input are 0, for the task to fill in."""
    idle_ms, busy_ms, back_pressured_ms = times.read_ms()
    values = dict.fromkeys(_COUNTS.values(), 0)
    values |= {"idle_time_ms": idle_ms, "busy_time_ms": busy_ms, "back_pressured_time_ms": back_pressured_ms}
    for writer in writers:
        values["num_records_out"] += writer.num_records
        values["num_batches_out"] += writer.num_batches
        values["num_bytes_out"] += writer.partition.bytes_out
    for operator in sinks:
        values["num_records_out"] += operator.num_records
        values["num_batches_out"] += operator.num_batches
    return values


def register_task_metrics(task: StreamTask) -> None:
    """Registers the metrics of the subtask and of its operators. Called after the chain has been built."""
    group = task.environment.metric_group

    def reading(field: str) -> Callable[[], int]:
        return lambda: task.metrics()[field]

    for name, field in _COUNTS.items():
        group.count_of(name, reading(field))
    for name, field in _TIMES.items():
        group.gauge(f"accumulate{name}TimeMs", reading(field))
        group.time_of(f"{name[0].lower()}{name[1:]}TimeMsPerSecond", reading(field))
    times = task.times
    # A task waits between batches only, never inside one, so all back-pressure is what Flink calls soft.
    group.time_of("softBackPressuredTimeMsPerSecond", reading(_TIMES["BackPressured"]))
    group.time_of("hardBackPressuredTimeMsPerSecond", lambda: 0)
    group.register("maxSoftBackPressureTimeMs", _LongestWait(times))
    group.gauge("maxHardBackPressureTimeMs", lambda: 0)
    group.gauge("isBackPressured", lambda: task.is_back_pressured)
    group.gauge("initializationTime", lambda: task.initialization_ms)
    group.gauge("checkpointAlignmentTime", lambda: task.last_alignment_ns)
    group.gauge("checkpointStartDelayNanos", lambda: task.last_start_delay_ns)
    _register_mailbox(group, task.mailbox)
    register_shuffle_metrics(task)
    group.gauge("currentInputWatermark", lambda: task.chain.head.current_watermark)
    chain = task.chain
    if isinstance(chain, OperatorChain):
        group.count_of("numFiredTimers", lambda: sum(operator.num_fired_timers for operator in chain.operators))
        _register_operator_metrics(chain, reading("num_records_in"))
        for number, watermark in enumerate(task.input_watermarks, start=1):
            chain.metric_groups[0].gauge(f"currentInput{number}Watermark", watermark)


def _register_mailbox(group: NamedMetricGroup, mailbox: TaskMailbox) -> None:
    mails = CounterView(lambda: mailbox.num_mails)
    group.register("mailboxMailsPerSecond", Meter(DEFAULT_TIME_SPAN_S, mails))
    group.histogram("mailboxLatencyMs", mailbox.latency_ms)
    group.gauge("mailboxQueueSize", lambda: len(mailbox))


class _LongestWait(View, Gauge):
    """The longest single wait for an output, in ms, in the last interval between two updates.

    Source: org.apache.flink.runtime.metrics.TimerGauge#getMaxSingleMeasurement.
    """

    __slots__ = ("_longest_ms", "_times")

    def __init__(self, times: TaskTimes) -> None:
        super().__init__(lambda: self._longest_ms)
        self._times = times
        self._longest_ms = 0

    def update(self) -> None:
        self._longest_ms = self._times.longest_back_pressure_ns // 1_000_000
        self._times.longest_back_pressure_ns = 0


def _register_operator_metrics(chain: OperatorChain, records_into_head: Callable[[], int]) -> None:
    for position, group in chain.metric_groups.items():
        operator = chain.operator_at(position)
        if position == 0:
            group.count_of("numRecordsIn", records_into_head)
        elif position in chain.feeders:
            group.count_of("numRecordsIn", _counted([chain.feeders[position]]))
        if isinstance(operator, SinkOperator):
            # As in Flink, both names count the records given to the writer.
            group.count_of("numRecordsSend", _counted([operator]))
            group.count_of("numRecordsOut", _counted([operator]))
            _register_committables(group, operator)
        elif position in chain.outputs:
            group.count_of("numRecordsOut", _counted(chain.outputs[position]))
        group.gauge("currentInputWatermark", _input_watermark_of(operator))
        if not isinstance(operator, SinkOperator):
            group.gauge("currentOutputWatermark", _output_watermark_of(operator))
            group.gauge("isOutputIdle", _output_idleness_of(operator))


def _register_committables(group: NamedMetricGroup, operator: SinkOperator) -> None:
    if not operator.has_committer:
        return

    def count_of(field: str) -> Callable[[], int]:
        return lambda: int(getattr(operator.commit_counts, field))

    for name, field in _COMMIT_COUNTS.items():
        group.count_only(f"{name}Committables", count_of(field))


def _counted(counters: Sequence[Any]) -> Callable[[], int]:
    """Returns a function that adds up the records of the counters."""
    return lambda: sum(counter.num_records for counter in counters)


def _input_watermark_of(operator: StreamOperator) -> Callable[[], int]:
    return lambda: operator.current_watermark


def _output_watermark_of(operator: StreamOperator) -> Callable[[], int]:
    return lambda: operator.current_output_watermark


def _output_idleness_of(operator: StreamOperator) -> Callable[[], int]:
    return lambda: int(operator.is_output_idle)
