"""JobTraces: the spans and events of one job, under Flink's names.

All spans of a job belong to the trace of its submission: JobInitialization and Checkpoint are children of the span
Submission, or of Recovery after a failure. After many checkpoints a trace would become too large for the systems that
keep it, so later ones begin traces of their own, which are linked to the submission.

Source: org.apache.flink.runtime.checkpoint.{CheckpointStatsTracker,JobInitializationMetricsBuilder},
org.apache.flink.runtime.scheduler.{metrics.AllSubTasksRunningOrFinishedStateTimeMetrics,JobFailureMetricReporter}.
Thread: JobMaster main thread. The reporters have threads of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.configuration import trace_options
from flinkpy.traces.event import Event, EventBuilder, Events
from flinkpy.traces.reporting import Tracer
from flinkpy.traces.span import Span, SpanBuilder
from flinkpy.traces.trace_context import SpanContext

if TYPE_CHECKING:
    from flinkpy.jobmaster.failover.execution_failure_handler import ExceptionHistoryEntry
    from flinkpy.jobmaster.scheduler.default_scheduler import DefaultScheduler

#: Checkpoints whose spans belong to the trace of the job. Systems for traces show some thousands of spans at most.
MAX_CHECKPOINTS_IN_TRACE = 1_000

#: Flink's scopes, so that searches and dashboards made for Flink find these spans and events.
CHECKPOINT_SCOPE = "org.apache.flink.runtime.checkpoint.CheckpointStatsTracker"
_STATUS_SCOPE = "org.apache.flink.runtime.jobmaster.JobMaster"
_FAILURE_SCOPE = "org.apache.flink.runtime.scheduler.adaptive.JobFailureMetricReporter"
_SUBTASKS_SCOPE = "org.apache.flink.runtime.scheduler.metrics.AllSubTasksRunningOrFinishedStateTimeMetrics"
_SCOPE = "flinkpy.jobmaster"

_RUNS = (ExecutionState.RUNNING, ExecutionState.FINISHED)
#: Flink's names of kinds of snapshots.
_TYPES = {
    pb.CHECKPOINT: "Checkpoint",
    pb.FULL_CHECKPOINT: "Full Checkpoint",
    pb.SAVEPOINT: "Savepoint",
    pb.SYNC_SAVEPOINT_SUSPEND: "Suspend Savepoint",
    pb.SYNC_SAVEPOINT_TERMINATE: "Terminate Savepoint",
}
_NS_PER_MS = 1_000_000
#: Flink's names of what a subtask measures in a checkpoint.
_SUBTASK_METRICS: dict[str, Callable[[pb.CheckpointMetrics], int]] = {
    "StateSizeBytes": lambda metrics: metrics.state_size_bytes,
    "CheckpointedSizeBytes": lambda metrics: metrics.bytes_persisted,
    "CheckpointStartDelayMs": lambda metrics: metrics.checkpoint_start_delay_ns // _NS_PER_MS,
    "AlignmentDurationMs": lambda metrics: metrics.alignment_duration_ns // _NS_PER_MS,
    "SyncCheckpointDurationMs": lambda metrics: metrics.sync_duration_ns // _NS_PER_MS,
    "AsyncCheckpointDurationMs": lambda metrics: metrics.async_duration_ns // _NS_PER_MS,
    "ProcessedDataBytes": lambda metrics: metrics.bytes_processed_during_alignment,
    "PersistedDataBytes": lambda metrics: metrics.bytes_persisted_during_alignment,
}
#: Sums that a checkpoint has under other names: fullSize and checkpointedSize.
_OTHERWISE_NAMED = ("StateSizeBytes", "CheckpointedSizeBytes")


class JobTraces:
    """Observes one job and reports its spans and events.

    Args:
        tracer: the reporters of the process.
        scheduler: the scheduler of the job.
        root: the span of the submission; None: it was not traced.
        detail_level: `traces.checkpoint.span-detail-level`.
        variables: attributes of all spans and events: the id and the name of the job.
        is_recovery: another JobMaster has led the job before.
        now_ms: the time at which the JobMaster starts.
    """

    def __init__(
        self,
        tracer: Tracer,
        scheduler: DefaultScheduler,
        root: SpanContext | None,
        *,
        detail_level: str,
        variables: Mapping[str, str],
        is_recovery: bool,
        now_ms: int,
    ) -> None:
        self._tracer = tracer
        self._scheduler = scheduler
        self._root = root or SpanContext.new()
        self._detail_level = detail_level
        self._variables = dict(variables)
        self._status: JobState | None = None
        self._last_failure: ExceptionHistoryEntry | None = None
        self._num_restarts = scheduler.num_restarts
        self._num_checkpoints = 0
        self._are_all_running = False
        self._may_have_changed = False
        #: The recovery that is going on, and when it began.
        self._recovery: SpanContext | None = None
        self._recovery_start_ms = 0
        self._recovery_cause = ""
        #: The initialization that is going on: when it began, and the measurements of its subtasks by name.
        self._deployed_ms: int | None = None
        self._measured: dict[str, list[int]] = {}
        if is_recovery:
            self._begin_recovery(now_ms, "the JobMaster was replaced")
        scheduler.checkpoints.coordinator.statistics.on_ended = self.checkpoint_ended

    @property
    def parent(self) -> SpanContext:
        """The span that causes what happens now."""
        return self._recovery or self._root

    # ---- observations

    def tasks_deployed(self, now_ms: int) -> None:
        """Records that tasks are being deployed: the job is initialized from now until all tasks run."""
        if self._deployed_ms is None:
            self._deployed_ms = now_ms
            self._measured = {}

    def task_state_changed(self) -> None:
        self._may_have_changed = True

    def task_initialized(self, measured: Mapping[str, int]) -> None:
        """Records the times that the initialization of one subtask took."""
        for name, value in measured.items():
            self._measured.setdefault(name, []).append(value)

    def observe(self, now_ms: int) -> None:
        """Reports what has changed since the last call."""
        state = self._scheduler.graph.state
        self._observe_failures(state)
        if state is not self._status:
            self._status = state
            self._event(_STATUS_SCOPE, Events.JOB_STATUS_CHANGE_EVENT, now_ms, {"newJobStatus": state.name})
            self._end_unfinished(state, now_ms)
        if self._may_have_changed:
            self._may_have_changed = False
            self._observe_tasks(now_ms)

    def _observe_failures(self, state: JobState) -> None:
        newest = next(iter(self._scheduler.exception_history.entries), None)
        # The event follows when the failure has its labels.
        if newest is not None and newest is not self._last_failure and newest.labels is not None:
            self._last_failure = newest
            can_restart = state not in (JobState.FAILING, JobState.FAILED)
            attributes: dict[str, str | bool | int] = {
                "canRestart": can_restart,
                "isGlobalFailure": not newest.task_name,
                **{f"failureLabel.{key}": value for key, value in newest.labels.items()},
            }
            self._event(
                _FAILURE_SCOPE, Events.JOB_FAILURE_EVENT, newest.timestamp_ms, attributes, body=str(newest.error)
            )
        if self._scheduler.num_restarts > self._num_restarts:
            self._num_restarts = self._scheduler.num_restarts
            if newest is not None:
                self._begin_recovery(newest.timestamp_ms, str(newest.error))

    def _observe_tasks(self, now_ms: int) -> None:
        are_all_running = all(vertex.current.state in _RUNS for vertex in self._scheduler.graph.vertices)
        if are_all_running == self._are_all_running:
            return
        self._are_all_running = are_all_running
        status = "ALL_RUNNING_OR_FINISHED" if are_all_running else "NOT_ALL_RUNNING_OR_FINISHED"
        self._event(_SUBTASKS_SCOPE, Events.ALL_SUBTASKS_STATUS_CHANGE_EVENT, now_ms, {"status": status})
        if are_all_running:
            self._end_initialization(now_ms, "COMPLETED")
            self._end_recovery(now_ms, "")

    def _end_unfinished(self, state: JobState, now_ms: int) -> None:
        if state.is_terminal:
            error = "" if state is JobState.FINISHED else f"the job is {state.name}"
            self._end_initialization(now_ms, "COMPLETED" if not error else "FAILED")
            self._end_recovery(now_ms, error)

    # ---- spans

    def _begin_recovery(self, start_ms: int, cause: str) -> None:
        if self._recovery is None:
            self._recovery = SpanContext.new(self._root)
            self._recovery_start_ms, self._recovery_cause = start_ms, cause
        # The tasks that were being deployed have failed: what follows is another initialization.
        self._deployed_ms = None

    def _end_recovery(self, now_ms: int, error: str) -> None:
        if self._recovery is None:
            return
        span = (
            Span.builder(_SCOPE, "Recovery")
            .set_start_ts_millis(self._recovery_start_ms)
            .set_end_ts_millis(now_ms)
            .set_context(self._recovery)
            .set_parent(self._root)
            .set_attributes({"numRestarts": self._num_restarts, "cause": self._recovery_cause})
            .set_error(error)
        )
        self._recovery = None
        self._report(span)

    def _end_initialization(self, now_ms: int, status: str) -> None:
        if self._deployed_ms is None:
            return
        span = (
            Span.builder(CHECKPOINT_SCOPE, "JobInitialization")
            .set_start_ts_millis(self._deployed_ms)
            .set_end_ts_millis(now_ms)
            .set_parent(self.parent)
            .set_attribute("initializationStatus", status)
        )
        for name, values in sorted(self._measured.items()):
            span.set_attribute(f"max{name}", max(values)).set_attribute(f"sum{name}", sum(values))
        checkpoints = self._scheduler.checkpoints.coordinator.statistics
        if (restored := checkpoints.latest_restored) is not None:
            span.set_attribute("checkpointId", restored.checkpoint_id)
            last = checkpoints.last_completed
            # The size of a checkpoint of an earlier JobMaster is not known.
            if last is not None and last.checkpoint_id == restored.checkpoint_id:
                span.set_attribute("fullSize", last.state_size_bytes)
        if status != "COMPLETED":
            span.set_error("not all tasks have started")
        self._deployed_ms, self._measured = None, {}
        self._report(span)

    def checkpoint_ended(self, statistics: pb.CheckpointStatistics) -> None:
        """Reports a checkpoint or savepoint that is complete or has failed."""
        self._num_checkpoints += 1
        attributes = checkpoint_attributes(statistics)
        if self._tracer.has_spans:
            span = checkpoint_span(statistics, self._detail_level)
            if self._num_checkpoints <= MAX_CHECKPOINTS_IN_TRACE:
                span.set_parent(self._root)
            else:
                span.set_parent(None, [self._root])
            self._report(span)
        observed_ms = statistics.end_timestamp_ms
        self._event(CHECKPOINT_SCOPE, Events.CHECKPOINT_EVENT, observed_ms, attributes)

    def _report(self, span: SpanBuilder) -> None:
        self._tracer.add_span(span.set_attributes(self._variables))

    def _event(
        self, scope: str, name: Events, at_ms: int, attributes: Mapping[str, str | bool | int], body: str = ""
    ) -> None:
        builder: EventBuilder = Event.builder(scope, name.value).set_observed_ts_millis(at_ms).set_body(body)
        self._tracer.add_event(builder.set_attributes({**self._variables, **attributes}).set_parent(self.parent))


def checkpoint_attributes(statistics: pb.CheckpointStatistics) -> dict[str, str | bool | int]:
    """Returns Flink's attributes of a checkpoint, for its span and its event."""
    return {
        "checkpointId": statistics.checkpoint_id,
        "fullSize": statistics.state_size_bytes,
        "checkpointedSize": statistics.persisted_bytes,
        "metadataSize": statistics.metadata_bytes,
        "checkpointStatus": statistics.status,
        "checkpointType": _TYPES.get(statistics.kind, "Checkpoint"),
        "isUnaligned": statistics.is_unaligned,
    }


def checkpoint_span(statistics: pb.CheckpointStatistics, detail_level: str) -> SpanBuilder:
    """Returns the span of a checkpoint that has ended, from its trigger to the last acknowledgement of a task."""
    span = (
        Span.builder(CHECKPOINT_SCOPE, "Checkpoint")
        .set_start_ts_millis(statistics.trigger_timestamp_ms)
        .set_end_ts_millis(statistics.latest_ack_timestamp_ms or statistics.end_timestamp_ms)
        .set_attributes(checkpoint_attributes(statistics))
    )
    if statistics.HasField("failure"):
        span.set_error(statistics.failure.message)
    vertices = sorted((vertex for vertex in statistics.vertices if vertex.subtasks), key=_least_delay_ns)
    for name, read in _SUBTASK_METRICS.items():
        maxima = [max(read(subtask.metrics) for subtask in vertex.subtasks) for vertex in vertices]
        sums = [sum(read(subtask.metrics) for subtask in vertex.subtasks) for vertex in vertices]
        span.set_attribute(f"max{name}", max(maxima, default=0))
        if name not in _OTHERWISE_NAMED:
            span.set_attribute(f"sum{name}", sum(sums))
        if detail_level == trace_options.SPAN_PER_CHECKPOINT_WITH_TASKS:
            span.set_attribute(f"perTaskMax{name}", maxima).set_attribute(f"perTaskSum{name}", sums)
    if detail_level in (trace_options.CHILDREN_SPANS_PER_TASK, trace_options.CHILDREN_SPANS_PER_SUBTASK):
        has_subtasks = detail_level == trace_options.CHILDREN_SPANS_PER_SUBTASK
        for vertex in vertices:
            span.add_child(_task_span(statistics, vertex, has_subtasks=has_subtasks))
    return span


def _least_delay_ns(vertex: pb.VertexCheckpointStatistics) -> int:
    return min(subtask.metrics.checkpoint_start_delay_ns for subtask in vertex.subtasks)


def _task_span(
    statistics: pb.CheckpointStatistics, vertex: pb.VertexCheckpointStatistics, *, has_subtasks: bool
) -> SpanBuilder:
    start_ms = statistics.trigger_timestamp_ms + _least_delay_ns(vertex) // _NS_PER_MS
    ids: dict[str, str | int] = {"checkpointId": statistics.checkpoint_id, "jobVertexId": vertex.vertex_id}
    span = _started(Span.builder(CHECKPOINT_SCOPE, "Checkpoint_Task"), start_ms, vertex.latest_ack_timestamp_ms, ids)
    for name, read in _SUBTASK_METRICS.items():
        values = [read(subtask.metrics) for subtask in vertex.subtasks]
        span.set_attribute(f"max{name}", max(values)).set_attribute(f"sum{name}", sum(values))
    for subtask in vertex.subtasks if has_subtasks else ():
        start_ms = statistics.trigger_timestamp_ms + subtask.metrics.checkpoint_start_delay_ns // _NS_PER_MS
        child = Span.builder(CHECKPOINT_SCOPE, "Checkpoint_Subtask")
        child = _started(child, start_ms, subtask.ack_timestamp_ms, {**ids, "subtaskId": subtask.subtask_index})
        child.set_attributes({name: read(subtask.metrics) for name, read in _SUBTASK_METRICS.items()})
        span.add_child(child)
    return span


def _started(span: SpanBuilder, start_ms: int, end_ms: int, attributes: Mapping[str, str | int]) -> SpanBuilder:
    # Clocks of hosts differ, and a span must not end before it starts.
    return span.set_start_ts_millis(start_ms).set_end_ts_millis(max(start_ms, end_ms)).set_attributes(attributes)
