"""The metrics of a job and of its checkpoints in the JobMaster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from jobmaster_fakes import source_and_sink

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.configuration import Configuration
from flinkpy.common.states import JobState
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.job_metrics import JobMetrics, checkpoint_values, register_status_metrics
from flinkpy.metrics.metric_registry import ScopeKind, read_metric

ALL = ("STATE", "CURRENT_TIME", "TOTAL_TIME")
VARIABLES = {"<host>": "h", "<job_id>": "1", "<job_name>": "j"}


class Job:
    """An ExecutionGraph, its metrics, and a clock."""

    def __init__(self, settings: tuple[str, ...] = ALL) -> None:
        self.now_ms = 1_000
        self.graph = ExecutionGraph(source_and_sink(), graph_id="g", now_ms=self.now_ms)
        self.metrics = JobMetrics("1", VARIABLES)
        scheduler = cast(Any, SimpleNamespace(graph=self.graph, num_restarts=3))
        register_status_metrics(self.metrics.group, scheduler, lambda: self.now_ms, settings)

    def go(self, status: JobState, after_ms: int) -> None:
        self.now_ms += after_ms
        self.graph.transition(status, self.now_ms)

    def values(self) -> dict[str, Any]:
        return {name: read_metric(metric).value for name, metric in self.metrics.group.metrics()}


def test_times_of_a_status_are_of_this_stay_and_of_all_stays() -> None:
    job = Job()
    job.go(JobState.CREATED, 5)
    job.go(JobState.RUNNING, 5)
    job.go(JobState.RESTARTING, 1_000)
    job.now_ms += 40
    values = job.values()
    assert (values["restartingState"], values["restartingTime"], values["restartingTimeTotal"]) == (1, 40, 40)
    assert (values["runningState"], values["runningTime"], values["runningTimeTotal"]) == (0, 0, 1_000)
    assert (values["uptime"], values["downtime"], values["numRestarts"]) == (0, 40, 3)
    job.go(JobState.CREATED, 0)
    job.go(JobState.RUNNING, 0)
    job.now_ms += 7
    values = job.values()
    assert (values["runningTime"], values["runningTimeTotal"], values["uptime"], values["downtime"]) == (7, 1_007, 7, 0)
    assert values["initializingTimeTotal"] == 5


def test_an_ended_job_has_no_uptime() -> None:
    job = Job()
    for status in (JobState.CREATED, JobState.RUNNING, JobState.FINISHED):
        job.go(status, 1)
    assert (job.values()["uptime"], job.values()["downtime"]) == (-1, -1)


def test_an_option_chooses_the_metrics_of_statuses() -> None:
    names = set(Job(("TOTAL_TIME",)).values())
    assert "runningTimeTotal" in names and not names & {"runningTime", "runningState"}


def test_checkpoints_that_never_were_have_unknown_sizes() -> None:
    statistics = cast(
        Any,
        SimpleNamespace(
            num_total=0, num_in_progress=0, num_completed=0, num_failed=0, latest_restored=None, last_completed=None
        ),
    )
    values = checkpoint_values(statistics)
    assert (values["lastCheckpointMetadataSize"], values["lastCheckpointExternalPath"]) == (-1, "n/a")
    statistics.latest_restored = checkpoint_pb2.RestoredCheckpointStatistics(restore_timestamp_ms=9)
    statistics.last_completed = checkpoint_pb2.CheckpointStatistics(
        checkpoint_id=4,
        trigger_timestamp_ms=100,
        end_timestamp_ms=130,
        persisted_bytes=5,
        state_size_bytes=50,
        metadata_bytes=7,
        external_path="/x",
    )
    values = checkpoint_values(statistics)
    assert [values[f"lastCheckpoint{name}"] for name in ("Duration", "Size", "FullSize", "MetadataSize")] == [
        30,
        5,
        50,
        7,
    ]
    assert (values["lastCheckpointRestoreTimestamp"], values["lastCompletedCheckpointId"]) == (9, 4)
    assert values["lastCheckpointExternalPath"] == "/x"


def test_coordinators_have_the_scope_of_their_operator() -> None:
    metrics = JobMetrics("1", VARIABLES, configuration=Configuration.from_dict({"metrics.scope.delimiter": "-"}))
    group = metrics.add_coordinator("v", "o", "Source: s")
    group.add_group("coordinator").gauge("n", lambda: 2)
    ((scope, name, reading),) = metrics.registry.read(kinds=[ScopeKind.COORDINATOR])
    assert (scope.vertex_id, scope.operator_id, name, reading.value) == ("v", "o", "coordinator.n", 2)
    assert group.get_metric_identifier("n") == "h-jobmanager-j-Source: s-n"
