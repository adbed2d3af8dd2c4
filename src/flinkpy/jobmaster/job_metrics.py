"""JobMetrics: the metrics of a job and of its coordinators in the JobMaster, under Flink's names.

Reporters read these gauges on their threads. They read single fields and copies of collections, which the main thread
replaces.

Source: org.apache.flink.runtime.scheduler.metrics.{JobStatusMetrics,AllSubTasksRunningOrFinishedStateTimeMetrics},
runtime.executiongraph.metrics.{UpTimeGauge,DownTimeGauge}, runtime.checkpoint.CheckpointStatsTracker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from flinkpy.common.configuration import Configuration
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.configuration import metric_options, read_option
from flinkpy.jobmaster.scheduler.speculative_scheduler import SpeculativeScheduler
from flinkpy.metrics.metric_registry import MetricRegistry, MetricScope, NamedMetricGroup
from flinkpy.metrics.scope_formats import GroupKind, ScopeFormats

if TYPE_CHECKING:
    from flinkpy.checkpoint.coordinator.checkpoint_stats_tracker import CheckpointStatsTracker
    from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
    from flinkpy.jobmaster.scheduler.default_scheduler import DefaultScheduler

#: Statuses whose times are metrics. Terminal statuses have none, because the metrics end with the job.
TIMED_STATUSES = (
    JobState.INITIALIZING,
    JobState.CREATED,
    JobState.RUNNING,
    JobState.RESTARTING,
    JobState.CANCELLING,
    JobState.FAILING,
)
_DEPLOYING = ExecutionState.DEPLOYING
_DOWN = (JobState.RESTARTING, JobState.FAILING)
#: The value of a time or a size that is not known.
UNKNOWN = -1
NO_PATH = "n/a"


class JobMetrics:
    """The groups of one job in the registry of its JobMaster's process.

    Args:
        variables: the values of `<host>`, `<job_id>` and `<job_name>`.
    """

    def __init__(
        self,
        job_id: str,
        variables: Mapping[str, str],
        registry: MetricRegistry | None = None,
        configuration: Configuration | None = None,
    ) -> None:
        self.registry = registry or MetricRegistry()
        self._job_id = job_id
        self._variables = variables
        self._configuration = configuration or Configuration()
        self._formats = ScopeFormats(configuration)
        self.group = self._formats.group(GroupKind.JOB_MANAGER_JOB, variables)
        self.registry.register(MetricScope(job_id), self.group)

    def register(self, scheduler: DefaultScheduler, now_ms: Callable[[], int]) -> None:
        """Registers the metrics of the job's status, its restarts and its checkpoints."""
        settings = read_option(self._configuration, metric_options.JOB_STATUS_METRICS)
        register_status_metrics(self.group, scheduler, now_ms, settings)
        register_checkpoint_metrics(self.group, scheduler.checkpoints.coordinator.statistics)
        if isinstance(scheduler, SpeculativeScheduler):
            self.group.gauge("numSlowExecutionVertices", lambda: scheduler.num_slow_tasks)
            self.group.count_only("numEffectiveSpeculativeExecutions", lambda: scheduler.num_effective_attempts)

    def add_coordinator(self, vertex_id: str, operator_id: str, operator_name: str) -> NamedMetricGroup:
        """Returns the group of an operator's coordinator, which it replaces if there is one."""
        variables = {**self._variables, "<operator_id>": operator_id, "<operator_name>": operator_name}
        group = self._formats.group(GroupKind.JOB_MANAGER_OPERATOR, variables)
        scope = MetricScope(self._job_id, vertex_id, operator_id=operator_id, operator_name=operator_name)
        self.registry.register(scope, group)
        return group


def register_status_metrics(
    group: NamedMetricGroup, scheduler: DefaultScheduler, now_ms: Callable[[], int], settings: tuple[str, ...]
) -> None:
    graph = scheduler.graph

    def time_in(status: JobState) -> int:
        return max(0, now_ms() - graph.status_timestamps[status]) if graph.state is status else 0

    def register_status(status: JobState) -> None:
        name = status.name.lower()
        if "STATE" in settings:
            group.gauge(f"{name}State", lambda: int(graph.state is status))
        if "CURRENT_TIME" in settings:
            group.gauge(f"{name}Time", lambda: time_in(status))
        if "TOTAL_TIME" in settings:
            group.gauge(f"{name}TimeTotal", lambda: graph.total_ms_in.get(status, 0) + time_in(status))

    for status in TIMED_STATUSES:
        register_status(status)
    if "STATE" in settings:
        group.gauge("deployingState", lambda: int(_deploying_since_ms(graph) is not None))
    if "CURRENT_TIME" in settings:
        group.gauge("deployingTime", lambda: max(0, now_ms() - (_deploying_since_ms(graph) or now_ms())))

    def up_ms() -> int:
        return UNKNOWN if graph.state.is_terminal else time_in(JobState.RUNNING)

    def down_ms() -> int:
        return UNKNOWN if graph.state.is_terminal else sum(time_in(status) for status in _DOWN)

    group.gauge("uptime", up_ms)
    group.gauge("downtime", down_ms)
    for name in ("numRestarts", "fullRestarts"):
        group.gauge(name, lambda: scheduler.num_restarts)


def _deploying_since_ms(graph: ExecutionGraph) -> int | None:
    """Returns when the first of the tasks that are deploying now began to; None if there is none."""
    executions = [vertex.current for vertex in list(graph.vertices)]
    deploying = [one.state_timestamps[_DEPLOYING] for one in executions if one.state is _DEPLOYING]
    return min(deploying, default=None)


def register_checkpoint_metrics(group: NamedMetricGroup, statistics: CheckpointStatsTracker) -> None:
    for name in checkpoint_values(statistics):
        group.gauge(name, _checkpoint_gauge(statistics, name))


def _checkpoint_gauge(statistics: CheckpointStatsTracker, name: str) -> Callable[[], int | str]:
    return lambda: checkpoint_values(statistics)[name]


def checkpoint_values(statistics: CheckpointStatsTracker) -> dict[str, int | str]:
    """Returns the metrics of checkpoints by their names. Sizes and times are -1 before the first checkpoint."""
    values: dict[str, int | str] = {
        "totalNumberOfCheckpoints": statistics.num_total,
        "numberOfInProgressCheckpoints": statistics.num_in_progress,
        "numberOfCompletedCheckpoints": statistics.num_completed,
        "numberOfFailedCheckpoints": statistics.num_failed,
        "lastCheckpointRestoreTimestamp": UNKNOWN,
        "lastCheckpointSize": UNKNOWN,
        "lastCheckpointFullSize": UNKNOWN,
        "lastCheckpointMetadataSize": UNKNOWN,
        "lastCheckpointDuration": UNKNOWN,
        "lastCheckpointProcessedData": UNKNOWN,
        "lastCheckpointPersistedData": UNKNOWN,
        "lastCheckpointCompletedTimestamp": UNKNOWN,
        "lastCompletedCheckpointId": UNKNOWN,
        "lastCheckpointExternalPath": NO_PATH,
    }
    restored = statistics.latest_restored
    if restored is not None:
        values["lastCheckpointRestoreTimestamp"] = restored.restore_timestamp_ms
    last = statistics.last_completed
    if last is not None:
        values |= {
            "lastCheckpointSize": last.persisted_bytes,
            "lastCheckpointFullSize": last.state_size_bytes,
            "lastCheckpointMetadataSize": last.metadata_bytes or UNKNOWN,
            "lastCheckpointDuration": last.end_timestamp_ms - last.trigger_timestamp_ms,
            "lastCheckpointProcessedData": last.processed_in_flight_bytes,
            "lastCheckpointPersistedData": last.persisted_in_flight_bytes,
            "lastCheckpointCompletedTimestamp": last.end_timestamp_ms,
            "lastCompletedCheckpointId": last.checkpoint_id,
            "lastCheckpointExternalPath": last.external_path or NO_PATH,
        }
    return values
