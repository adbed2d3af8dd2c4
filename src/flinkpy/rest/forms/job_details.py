"""Makes the bodies that tell of a job, its vertices and its subtasks from JobDetails.

Source: org.apache.flink.runtime.rest.handler.job.{JobDetailsHandler,JobVertexDetailsHandler,SubtasksTimesHandler,
JobVertexTaskManagersHandler}, messages.job.StatusDurationUtils, messages.AggregatedTaskDetailsInfo.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import UNSET

from flinkpy._proto import common_pb2, dispatcher_pb2, job_pb2
from flinkpy.checkpoint.coordinator.checkpoint_stats_tracker import quantile_of
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.configuration import client_options
from flinkpy.rest.forms.job_plan import plan_of, stream_graph_of
from flinkpy.rest.messages.job_details import (
    AggregatedTaskDetailsInfo,
    FormerAttempt,
    FormerAttempts,
    IOMetricsInfo,
    JobDetailsInfo,
    JobDetailsVertex,
    JobVertexDetailsInfo,
    JobVertexTaskManagersInfo,
    SubtaskExecutionAttemptDetailsInfo,
    SubtasksTimesInfo,
    SubtaskTimeInfo,
    VertexTaskManagerInfo,
)
from flinkpy.rest.messages.jobs import JobDetails

#: Stands in place of the address of a TaskManager while a subtask has no slot, as in Flink.
UNASSIGNED = "(unassigned)"

#: All states of Flink. No task is ever RECONCILING here.
_EXECUTION_STATES = [*(state.name for state in ExecutionState), "RECONCILING"]
_STATE_NAMES = [state.name for state in ExecutionState]
#: States whose durations are told. Terminal states have none, and a task is CANCELING for a moment only.
_TIMED_STATES = (
    ExecutionState.CREATED,
    ExecutionState.SCHEDULED,
    ExecutionState.DEPLOYING,
    ExecutionState.INITIALIZING,
    ExecutionState.RUNNING,
)
#: Statistics over subtasks, by name. Source: AggregatedTaskDetailsInfo.MetricsStatistics.
_QUANTILES = (("median", 0.5), ("p25", 0.25), ("p75", 0.75), ("p95", 0.95))


def job_details_info(details: job_pb2.JobDetails, now_ms: int) -> JobDetailsInfo:
    end_ms = _end_ms(details)
    counts = Counter(state_of(vertex.state) for vertex in details.vertices)
    return JobDetailsInfo(
        jid=details.job_id,
        name=details.name,
        is_stoppable=False,
        state=job_state_of(details.status),
        job_type=_job_type(details),
        scheduler_type=_scheduler_type(details),
        start_time=details.start_time_ms,
        end_time=end_ms,
        duration=_duration_ms(details.start_time_ms, end_ms, now_ms),
        max_parallelism=-1,
        # A job that was submitted by itself is the only one of an application with its id, as in Flink.
        application_id=details.configuration.entries.get(client_options.APPLICATION_ID.key, details.job_id),
        now=now_ms,
        timestamps={state.name: details.status_timestamps.get(state.name, 0) for state in JobState},
        vertices=[_vertex(vertex, now_ms) for vertex in details.vertices],
        status_counts={name: counts[name] for name in _EXECUTION_STATES},
        plan=plan_of(details),
        stream_graph=stream_graph_of(details),
        pending_operators=0,
    )


def job_overview(details: job_pb2.JobDetails, now_ms: int) -> JobDetails:
    """Returns a job that runs as a line of the overview."""
    counts: Counter[str] = Counter()
    for vertex in details.vertices:
        counts.update(vertex.tasks_per_state)
    end_ms = _end_ms(details)
    return JobDetails(
        jid=details.job_id,
        name=details.name,
        start_time=details.start_time_ms,
        end_time=end_ms,
        duration=_duration_ms(details.start_time_ms, end_ms, now_ms),
        state=job_state_of(details.status),
        last_modification=max(details.status_timestamps.values(), default=details.start_time_ms),
        tasks=_task_counts(counts),
        job_type=_job_type(details),
        scheduler_type=_scheduler_type(details),
    )


def ended_job_overview(job: dispatcher_pb2.JobOverview, now_ms: int) -> JobDetails:
    """Returns a job that has ended, or whose JobMaster does not answer, as a line of the overview."""
    end_ms = _known_ms(job.end_time_ms)
    return JobDetails(
        jid=job.job_id,
        name=job.name,
        start_time=job.start_time_ms,
        end_time=end_ms,
        duration=_duration_ms(job.start_time_ms, end_ms, now_ms),
        state=job_state_of(job.status),
        last_modification=job.start_time_ms if end_ms < 0 else end_ms,
        tasks=_task_counts(job.tasks_per_state),
        job_type=_job_type(job),
        scheduler_type=_scheduler_type(job),
    )


def _job_type(job: job_pb2.JobDetails | dispatcher_pb2.JobOverview) -> str:
    return "BATCH" if job.is_batch else "STREAMING"


def _scheduler_type(job: job_pb2.JobDetails | dispatcher_pb2.JobOverview) -> str:
    """Returns the scheduler of Flink that does what the scheduler of such jobs does here."""
    return "AdaptiveBatch" if job.is_batch else "Default"


def _task_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Returns the counts under Flink's names, which are in lower case here, with their total."""
    return {"total": sum(counts.values()), **{name.lower(): counts.get(name, 0) for name in _EXECUTION_STATES}}


def _end_ms(details: job_pb2.JobDetails) -> int:
    return details.end_time_ms if details.end_time_ms > 0 else -1


def _duration_ms(start_ms: int, end_ms: int, now_ms: int) -> int:
    """Returns the time since `start_ms`, or up to `end_ms` if that is known. -1: it has not started."""
    if start_ms <= 0:
        return -1
    return max(0, (end_ms if end_ms > 0 else now_ms) - start_ms)


def _vertex(vertex: job_pb2.VertexDetails, now_ms: int) -> JobDetailsVertex:
    start_ms, end_ms = _known_ms(vertex.start_time_ms), _known_ms(vertex.end_time_ms)
    return JobDetailsVertex(
        id=vertex.id,
        slot_sharing_group_id=hashlib.sha256(vertex.slot_sharing_group.encode()).hexdigest()[:32],
        name=vertex.name,
        max_parallelism=vertex.max_parallelism,
        parallelism=vertex.parallelism,
        status=state_of(vertex.state),
        start_time=start_ms,
        end_time=end_ms,
        duration=_duration_ms(start_ms, end_ms, now_ms),
        tasks={name: vertex.tasks_per_state.get(name, 0) for name in _EXECUTION_STATES},
        metrics=io_metrics_info(vertex.metrics),
    )


def _known_ms(timestamp_ms: int) -> int:
    """Returns the timestamp; -1 if there is none."""
    return timestamp_ms if timestamp_ms > 0 else -1


def io_metrics_info(metrics: common_pb2.IOMetrics) -> IOMetricsInfo:
    return IOMetricsInfo(
        read_bytes=metrics.num_bytes_in,
        read_bytes_complete=True,
        write_bytes=metrics.num_bytes_out,
        write_bytes_complete=True,
        read_records=metrics.num_records_in,
        read_records_complete=True,
        write_records=metrics.num_records_out,
        write_records_complete=True,
        accumulated_backpressured_time=metrics.back_pressured_time_ms,
        accumulated_idle_time=metrics.idle_time_ms,
        accumulated_busy_time=float(metrics.busy_time_ms),
    )


def job_vertex_details_info(vertex: job_pb2.VertexDetails, now_ms: int) -> JobVertexDetailsInfo:
    subtasks = [subtask_info(subtask, now_ms) for subtask in vertex.subtasks]
    return JobVertexDetailsInfo(
        id=vertex.id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        now=now_ms,
        subtasks=subtasks,
        aggregated=aggregated(subtasks),
    )


def subtask_info(attempt: job_pb2.SubtaskDetails, now_ms: int) -> SubtaskExecutionAttemptDetailsInfo:
    """Returns an attempt, with the attempts that run beside it."""
    start_ms, end_ms = attempt_times(attempt)
    concurrent = [subtask_info(other, now_ms) for other in attempt.concurrent_attempts]
    return SubtaskExecutionAttemptDetailsInfo(
        subtask=attempt.subtask_index,
        status=state_of(attempt.state),
        attempt=attempt.attempt_number,
        endpoint=attempt.endpoint or UNASSIGNED,
        start_time=start_ms,
        deprecated_start_time=start_ms,
        end_time=end_ms,
        duration=_duration_ms(start_ms, end_ms, now_ms),
        metrics=io_metrics_info(attempt.metrics),
        taskmanager_id=attempt.resource_id or UNASSIGNED,
        status_duration=status_durations(attempt, now_ms),
        other_concurrent_attempts=concurrent or UNSET,
    )


def attempt_times(attempt: job_pb2.SubtaskDetails) -> tuple[int, int]:
    """Returns when the attempt was deployed and when it ended. -1: it has not happened."""
    state = ExecutionState(attempt.state) if attempt.state else ExecutionState.CREATED
    end_ms = attempt.state_timestamps.get(state.name, -1) if state.is_terminal else -1
    return attempt.state_timestamps.get(ExecutionState.DEPLOYING.name, -1), end_ms


def status_durations(attempt: job_pb2.SubtaskDetails, now_ms: int) -> dict[str, int]:
    """Returns how long the attempt was in each state. -1: never."""
    entered = dict(attempt.state_timestamps)
    durations = {}
    # An attempt enters its states in the order of the enum, and may leave some out.
    left_ms = now_ms
    for name in reversed(_STATE_NAMES):
        start_ms = entered.get(name)
        durations[name] = -1 if start_ms is None else max(0, left_ms - start_ms)
        left_ms = left_ms if start_ms is None else start_ms
    return {state.name: durations[state.name] for state in _TIMED_STATES}


def aggregated(subtasks: Sequence[SubtaskExecutionAttemptDetailsInfo]) -> AggregatedTaskDetailsInfo:
    """Returns statistics over the subtasks."""
    metrics: dict[str, list[int]] = {
        "read-bytes": [one.metrics.read_bytes for one in subtasks],
        "write-bytes": [one.metrics.write_bytes for one in subtasks],
        "read-records": [one.metrics.read_records for one in subtasks],
        "write-records": [one.metrics.write_records for one in subtasks],
        "accumulated-backpressured-time": [one.metrics.accumulated_backpressured_time for one in subtasks],
        "accumulated-idle-time": [one.metrics.accumulated_idle_time for one in subtasks],
        "accumulated-busy-time": [int(one.metrics.accumulated_busy_time) for one in subtasks],
    }
    durations = {state.name: [one.status_duration[state.name] for one in subtasks] for state in _TIMED_STATES}
    return AggregatedTaskDetailsInfo(
        metrics={name: _statistics(values) for name, values in metrics.items()},
        status_duration={name: _statistics(values) for name, values in durations.items()},
    )


def _statistics(values: Sequence[int]) -> dict[str, int]:
    ordered = sorted(values)
    if not ordered:
        return dict.fromkeys(("min", "max", "avg", "sum", *(name for name, _ in _QUANTILES)), 0)
    total = sum(ordered)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "avg": total // len(ordered),
        "sum": total,
        **{name: int(quantile_of(ordered, quantile)) for name, quantile in _QUANTILES},
    }


def subtasks_times_info(vertex: job_pb2.VertexDetails, now_ms: int) -> SubtasksTimesInfo:
    return SubtasksTimesInfo(
        id=vertex.id,
        name=vertex.name,
        now=now_ms,
        subtasks=[_subtask_times(subtask, now_ms) for subtask in vertex.subtasks],
    )


def _subtask_times(subtask: job_pb2.SubtaskDetails, now_ms: int) -> SubtaskTimeInfo:
    scheduled_ms = subtask.state_timestamps.get(ExecutionState.SCHEDULED.name, -1)
    return SubtaskTimeInfo(
        subtask=subtask.subtask_index,
        endpoint=subtask.endpoint or UNASSIGNED,
        duration=_duration_ms(scheduled_ms, attempt_times(subtask)[1], now_ms),
        timestamps=_timestamps(subtask),
    )


def _timestamps(attempt: job_pb2.SubtaskDetails) -> dict[str, int]:
    return {name: attempt.state_timestamps.get(name, 0) for name in _EXECUTION_STATES}


def former_attempts(vertex: job_pb2.VertexDetails) -> FormerAttempts:
    attempts = [
        FormerAttempt(
            subtask=one.subtask_index,
            attempt=one.attempt_number,
            endpoint=one.endpoint or UNASSIGNED,
            timestamps=_timestamps(one),
        )
        for subtask in vertex.subtasks
        for one in subtask.prior_attempts
    ]
    return FormerAttempts(attempts=sorted(attempts, key=lambda one: (one.subtask, one.attempt)))


def vertex_task_managers_info(vertex: job_pb2.VertexDetails, now_ms: int) -> JobVertexTaskManagersInfo:
    """Returns the subtasks of the vertex, together for each TaskManager. Speculative attempts count, too."""
    by_manager: dict[str, list[job_pb2.SubtaskDetails]] = {}
    for subtask in vertex.subtasks:
        for attempt in (subtask, *subtask.concurrent_attempts):
            by_manager.setdefault(attempt.resource_id or UNASSIGNED, []).append(attempt)
    return JobVertexTaskManagersInfo(
        id=vertex.id,
        name=vertex.name,
        now=now_ms,
        taskmanagers=[
            _task_manager(resource_id, attempts, now_ms) for resource_id, attempts in sorted(by_manager.items())
        ],
    )


def _task_manager(resource_id: str, attempts: Sequence[job_pb2.SubtaskDetails], now_ms: int) -> VertexTaskManagerInfo:
    counts = Counter(state_of(attempt.state) for attempt in attempts)
    times = [attempt_times(attempt) for attempt in attempts]
    start_ms = min((start for start, _ in times if start > 0), default=-1)
    end_ms = max(end for _, end in times) if all(end > 0 for _, end in times) else -1
    total = common_pb2.IOMetrics()
    for attempt in attempts:
        _add(total, attempt.metrics)
    return VertexTaskManagerInfo(
        endpoint=attempts[0].endpoint or UNASSIGNED,
        status=aggregated_state(counts, len(attempts)),
        start_time=start_ms,
        end_time=end_ms,
        duration=_duration_ms(start_ms, end_ms, now_ms),
        metrics=io_metrics_info(total),
        status_counts={name: counts[name] for name in _EXECUTION_STATES},
        taskmanager_id=resource_id,
        aggregated=aggregated([subtask_info(attempt, now_ms) for attempt in attempts]),
    )


def _add(total: common_pb2.IOMetrics, metrics: common_pb2.IOMetrics) -> None:
    for one in common_pb2.IOMetrics.DESCRIPTOR.fields:
        setattr(total, one.name, getattr(total, one.name) + getattr(metrics, one.name))


#: A group of tasks has the first of these states that one of them has.
_DECISIVE = ("FAILED", "CANCELING", "CANCELED", "INITIALIZING", "RUNNING")


def aggregated_state(counts: Mapping[str, int], num_tasks: int) -> str:
    """Returns the state of a group of tasks. Source: ExecutionJobVertex#getAggregateJobVertexState."""
    decisive = next((name for name in _DECISIVE if counts.get(name)), None)
    if decisive is not None:
        return decisive
    num_finished = counts.get("FINISHED", 0)
    if not num_finished:
        return "CREATED"
    return "FINISHED" if num_finished == num_tasks else "RUNNING"


def state_of(state: int) -> str:
    """Returns Flink's name of an ExecutionState. A vertex without subtasks is CREATED."""
    return ExecutionState(state).name if state else ExecutionState.CREATED.name


def job_state_of(status: int) -> str:
    return JobState(status).name if status else JobState.INITIALIZING.name


def find_vertex(details: job_pb2.JobDetails, vertex_id: str) -> job_pb2.VertexDetails | None:
    return next((vertex for vertex in details.vertices if vertex.id == vertex_id), None)


def find_attempt(subtasks: Iterable[job_pb2.SubtaskDetails], index: int, number: int) -> job_pb2.SubtaskDetails | None:
    """Returns an attempt of a subtask: the current one, one beside it or a former one."""
    for subtask in subtasks:
        if subtask.subtask_index == index:
            attempts = (subtask, *subtask.concurrent_attempts, *subtask.prior_attempts)
            return next((attempt for attempt in attempts if attempt.attempt_number == number), None)
    return None
