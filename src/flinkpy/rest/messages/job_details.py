"""Bodies of the operations that tell of one job, its vertices and its subtasks.

Source: org.apache.flink.runtime.rest.messages.job.JobDetailsInfo, JobVertexDetailsInfo, JobPlanInfo and others.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType, field

from flinkpy.rest.messages.asynchronous import FailureCause, QueueStatus
from flinkpy.rest.messages.staleness import MayBeStale


class IOMetricsInfo(msgspec.Struct, kw_only=True, rename="kebab"):
    """Amounts that one or all attempts have read and written. `...-complete`: the value is a report."""

    read_bytes: int
    read_bytes_complete: bool
    write_bytes: int
    write_bytes_complete: bool
    read_records: int
    read_records_complete: bool
    write_records: int
    write_records_complete: bool
    accumulated_backpressured_time: int
    accumulated_idle_time: int
    accumulated_busy_time: float


class AggregatedTaskDetailsInfo(msgspec.Struct, kw_only=True, rename="kebab"):
    """min, max, avg, sum, median, p25, p75 and p95 over subtasks, of each metric and of the time in each state."""

    metrics: dict[str, dict[str, int]]
    status_duration: dict[str, dict[str, int]]


class SubtaskExecutionAttemptDetailsInfo(msgspec.Struct, kw_only=True, rename="kebab"):
    """One attempt of a subtask."""

    subtask: int
    status: str
    attempt: int
    endpoint: str
    start_time: int
    #: An old name of `start-time`.
    deprecated_start_time: int = field(name="start_time")
    end_time: int
    duration: int
    metrics: IOMetricsInfo
    taskmanager_id: str
    status_duration: dict[str, int]
    other_concurrent_attempts: list[SubtaskExecutionAttemptDetailsInfo] | UnsetType = UNSET


class JobVertexDetailsInfo(MayBeStale, kw_only=True):
    """A vertex with its subtasks."""

    id: str
    name: str
    parallelism: int
    max_parallelism: int = field(name="maxParallelism")
    now: int
    subtasks: list[SubtaskExecutionAttemptDetailsInfo]
    aggregated: AggregatedTaskDetailsInfo


class JobDetailsVertex(msgspec.Struct, kw_only=True):
    """A vertex in the details of its job."""

    id: str
    slot_sharing_group_id: str = field(name="slotSharingGroupId")
    name: str
    max_parallelism: int = field(name="maxParallelism")
    parallelism: int
    status: str
    start_time: int = field(name="start-time")
    end_time: int = field(name="end-time")
    duration: int
    tasks: dict[str, int]
    metrics: IOMetricsInfo


class PlanInput(msgspec.Struct, kw_only=True):
    """An input of a node of a plan."""

    num: int
    id: str
    ship_strategy: str
    exchange: str


class PlanNode(msgspec.Struct, kw_only=True):
    """A vertex in the plan of its job. The description is HTML."""

    id: str
    parallelism: int
    operator: str
    operator_strategy: str
    description: str
    optimizer_properties: dict[str, Any]
    inputs: list[PlanInput] | UnsetType = UNSET


class Plan(msgspec.Struct, kw_only=True):
    """The graph of the vertices of a job."""

    jid: str
    name: str
    type: str
    nodes: list[PlanNode]


class JobPlanInfo(msgspec.Struct, kw_only=True):
    plan: Plan


class StreamGraphNode(msgspec.Struct, kw_only=True):
    """An operator in the stream graph of its job."""

    id: str
    parallelism: int
    operator: str
    description: str
    job_vertex_id: str
    inputs: list[PlanInput]


class StreamGraph(msgspec.Struct, kw_only=True):
    """The graph of the operators of a job."""

    nodes: list[StreamGraphNode]


class JobDetailsInfo(MayBeStale, kw_only=True):
    """A job with its vertices and its plan."""

    jid: str
    name: str
    is_stoppable: bool = field(name="isStoppable")
    state: str
    job_type: str = field(name="job-type")
    scheduler_type: str = field(name="schedulerType")
    start_time: int = field(name="start-time")
    end_time: int = field(name="end-time")
    duration: int
    max_parallelism: int = field(name="maxParallelism")
    application_id: str = field(name="application-id")
    now: int
    timestamps: dict[str, int]
    vertices: list[JobDetailsVertex]
    status_counts: dict[str, int] = field(name="status-counts")
    plan: Plan
    stream_graph: StreamGraph = field(name="stream-graph")
    pending_operators: int = field(name="pending-operators")


class ExecutionConfigInfo(msgspec.Struct, kw_only=True, rename="kebab"):
    """The execution configuration of a job."""

    restart_strategy: str
    job_parallelism: int
    object_reuse_mode: bool
    user_config: dict[str, str]


class JobConfigInfo(msgspec.Struct, kw_only=True):
    jid: str
    name: str
    execution_config: ExecutionConfigInfo = field(name="execution-config")


class JobStatusInfo(msgspec.Struct, kw_only=True):
    status: str


class JobResult(msgspec.Struct, kw_only=True, rename="kebab"):
    """The result of an ended job. `accumulator-results` holds Java objects in Flink, and is empty here."""

    id: str
    name: str
    application_status: str
    net_runtime: int
    start_time: int
    end_time: int
    accumulator_results: dict[str, str]
    failure_cause: FailureCause | UnsetType = UNSET


class JobExecutionResult(msgspec.Struct, kw_only=True):
    """The result of a job, once it has ended."""

    status: QueueStatus
    job_execution_result: JobResult | UnsetType = field(name="job-execution-result", default=UNSET)


class UserAccumulator(msgspec.Struct, kw_only=True):
    name: str
    type: str
    value: str


class JobAccumulatorsInfo(msgspec.Struct, kw_only=True, rename="kebab"):
    """The accumulators of a job. The serialized ones hold Java objects in Flink, and are left out here."""

    job_accumulators: list[UserAccumulator]
    user_task_accumulators: list[UserAccumulator]
    serialized_user_task_accumulators: dict[str, str]


class JobVertexAccumulatorsInfo(msgspec.Struct, kw_only=True):
    id: str
    user_accumulators: list[UserAccumulator] = field(name="user-accumulators")


class SubtaskAccumulatorsInfo(msgspec.Struct, kw_only=True):
    subtask: int
    attempt: int
    endpoint: str
    user_accumulators: list[UserAccumulator] = field(name="user-accumulators")


class SubtasksAllAccumulatorsInfo(msgspec.Struct, kw_only=True):
    id: str
    parallelism: int
    subtasks: list[SubtaskAccumulatorsInfo]


class SubtaskExecutionAttemptAccumulatorsInfo(msgspec.Struct, kw_only=True):
    subtask: int
    attempt: int
    id: str
    user_accumulators: list[UserAccumulator] = field(name="user-accumulators")


class SubtaskTimeInfo(msgspec.Struct, kw_only=True):
    subtask: int
    endpoint: str
    duration: int
    timestamps: dict[str, int]


class SubtasksTimesInfo(msgspec.Struct, kw_only=True):
    """When each subtask entered each state; 0: it has not."""

    id: str
    name: str
    now: int
    subtasks: list[SubtaskTimeInfo]


class FormerAttempt(msgspec.Struct, kw_only=True):
    """An attempt of a subtask that a later one has replaced. The timestamps are as in SubtaskTimeInfo."""

    subtask: int
    attempt: int
    endpoint: str
    timestamps: dict[str, int]


class FormerAttempts(msgspec.Struct, kw_only=True):
    """The former attempts of all subtasks of a vertex, the oldest first."""

    attempts: list[FormerAttempt]


class VertexTaskManagerInfo(msgspec.Struct, kw_only=True, rename="kebab"):
    """The subtasks of a vertex on one TaskManager, together."""

    endpoint: str
    status: str
    start_time: int
    end_time: int
    duration: int
    metrics: IOMetricsInfo
    status_counts: dict[str, int]
    taskmanager_id: str
    aggregated: AggregatedTaskDetailsInfo


class JobVertexTaskManagersInfo(msgspec.Struct, kw_only=True):
    id: str
    name: str
    now: int
    taskmanagers: list[VertexTaskManagerInfo]


class ExceptionInfo(msgspec.Struct, kw_only=True):
    """A failure. The last three fields are absent if the whole job failed."""

    exception_name: str = field(name="exceptionName")
    stacktrace: str
    timestamp: int
    failure_labels: dict[str, str] = field(name="failureLabels")
    task_name: str | UnsetType = field(name="taskName", default=UNSET)
    endpoint: str | UnsetType = UNSET
    task_manager_id: str | UnsetType = field(name="taskManagerId", default=UNSET)


class RootExceptionInfo(ExceptionInfo, kw_only=True):
    """A failure, with those that occurred while the tasks were being restarted because of it."""

    concurrent_exceptions: list[ExceptionInfo] = field(name="concurrentExceptions")


class JobExceptionHistory(msgspec.Struct, kw_only=True):
    entries: list[RootExceptionInfo]
    truncated: bool


class JobExceptionsInfoWithHistory(MayBeStale, kw_only=True):
    """The last failures of a job, newest first."""

    exception_history: JobExceptionHistory = field(name="exceptionHistory")


class SubtaskBackPressureInfo(msgspec.Struct, kw_only=True):
    """The shares of its time that a subtask was back-pressured, idle and busy."""

    subtask: int
    attempt_number: int = field(name="attempt-number")
    level: str = field(name="backpressureLevel")
    deprecated_level: str = field(name="backpressure-level")
    ratio: float
    idle_ratio: float = field(name="idleRatio")
    busy_ratio: float = field(name="busyRatio")


class JobVertexBackPressureInfo(msgspec.Struct, kw_only=True):
    """The back-pressure of a vertex. The status is `deprecated` and all else null if nothing is known."""

    status: str
    level: str | None = field(name="backpressureLevel")
    deprecated_level: str | None = field(name="backpressure-level")
    end_timestamp: int | None = field(name="end-timestamp")
    subtasks: list[SubtaskBackPressureInfo] | None


class FlameGraphNode(msgspec.Struct, kw_only=True):
    """A frame of a flame graph: `name` is function and line, `value` the number of samples in which it was seen."""

    name: str
    value: int
    children: list[FlameGraphNode]
    #: The origin of the code: `user`, `library` (Python's and installed packages), or `runtime` (flinkpy's).
    kind: str


class VertexFlameGraph(msgspec.Struct, kw_only=True):
    """A flame graph. `data` is left out while `end_timestamp` is one of the values below 0.

    -1: the vertex has ended, -2: flame graphs are switched off, -3: the first samples are being taken.
    """

    end_timestamp: int = field(name="endTimestamp")
    data: FlameGraphNode | UnsetType = UNSET
    start_timestamp: int | UnsetType = field(name="startTimestamp", default=UNSET)
    #: Newer samples are being taken.
    is_sampling: bool = field(name="isSampling", default=False)
    #: The subtasks of which there are samples.
    num_subtasks: int = field(name="subtasks", default=0)
    #: TaskManagers that were asked for samples and did not answer. The flame graph is without their subtasks.
    unreachable: list[str] = []
    #: Why the last try to take samples failed; empty if it did not.
    error: str = ""


class LogUrlResponse(msgspec.Struct, kw_only=True):
    url: str


#: Flink reads these fields as Java's Integer and refuses other numbers as a bad request.
Integer = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class ParallelismBounds(msgspec.Struct, kw_only=True, forbid_unknown_fields=False):
    lower_bound: Integer = field(name="lowerBound")
    upper_bound: Integer = field(name="upperBound")


class VertexResourceRequirements(msgspec.Struct, kw_only=True):
    parallelism: ParallelismBounds


#: The bounds of the parallelism by vertex id.
JobResourceRequirementsBody = dict[str, VertexResourceRequirements]
