"""The operations below /jobs: their JSON forms, statuses and errors, in front of a Dispatcher that tests write."""

from __future__ import annotations

import asyncio
import base64
from http import HTTPStatus
from typing import Any

import pytest
from rest_harness import NOW_MS, RestHarness, TestingServices

from flinkpy._proto import checkpoint_pb2, common_pb2, dispatcher_pb2, job_pb2, metrics_pb2
from flinkpy.common.errors import (
    CheckpointError,
    InvalidResourceRequirementsError,
    JobNotFoundError,
    JobTerminatedWithoutCancellationError,
    RpcTimeoutError,
    UnsupportedOperationError,
)
from flinkpy.common.states import ExecutionState as E
from flinkpy.rest import inquiries as inquiries_module
from flinkpy.rest.inquiries import MAX_ANSWERS, Inquiries
from flinkpy.security import Role

JOB, OTHER_JOB = "a" * 32, "b" * 32
SOURCE, SINK = "1" * 32, "2" * 32
TRIGGER = "c" * 32
STARTED_MS = NOW_MS - 60_000


def not_known(job_id: str) -> JobNotFoundError:
    return JobNotFoundError(f"there is no job {job_id}", details={"job_id": job_id})


def subtask(index: int, number: int = 0, state: E = E.RUNNING, **fields: Any) -> job_pb2.SubtaskDetails:
    at = {"CREATED": STARTED_MS, "SCHEDULED": STARTED_MS + 10, "DEPLOYING": STARTED_MS + 20}
    at |= {"INITIALIZING": STARTED_MS + 50, "RUNNING": STARTED_MS + 150}
    if state.is_terminal:
        at[state.name] = STARTED_MS + 1_150
    return job_pb2.SubtaskDetails(
        subtask_index=index,
        attempt_number=number,
        state=state.value,
        resource_id="tm-1",
        endpoint="host:7",
        execution_attempt_id=f"attempt-{index}-{number}",
        metrics=common_pb2.IOMetrics(num_records_in=10 * (index + 1), num_bytes_out=100, busy_time_ms=5),
        state_timestamps=at,
        **fields,
    )


def running_job() -> job_pb2.JobDetails:
    details = job_pb2.JobDetails(
        job_id=JOB,
        name="a <job>",
        status=common_pb2.RUNNING,
        start_time_ms=STARTED_MS,
        end_time_ms=-1,
        status_timestamps={"INITIALIZING": STARTED_MS, "RUNNING": STARTED_MS + 5},
        num_restarts=2,
    )
    details.configuration.entries.update(
        {"execution.checkpointing.interval": "7 s", "pipeline.global-job-parameters": "threads:4"}
    )
    source = details.vertices.add(
        id=SOURCE,
        name="Source: s -> map",
        parallelism=2,
        max_parallelism=128,
        tasks_per_state={"RUNNING": 2},
        metrics=common_pb2.IOMetrics(num_records_in=30, num_bytes_out=200),
        subtasks=[subtask(0), subtask(1, 1, prior_attempts=[subtask(1, 0, E.FAILED)])],
        state=E.RUNNING.value,
        start_time_ms=STARTED_MS + 20,
        end_time_ms=-1,
        slot_sharing_group="default",
    )
    source.operators.add(id="o1", name="Source: s", uid="the-uid")
    source.operators.add(id="o2", name="map", description="map <b>").inputs.add(
        operator_id="o1", ship_strategy="FORWARD"
    )
    sink = details.vertices.add(id=SINK, name="sink", parallelism=1, state=E.CREATED.value, end_time_ms=-1)
    sink.operators.add(id="o3", name="sink").inputs.add(
        operator_id="o2", ship_strategy="HASH", exchange=job_pb2.PIPELINED_BOUNDED, vertex_id=SOURCE
    )
    failure = details.exception_history.add(
        timestamp_ms=NOW_MS - 5,
        error=common_pb2.ErrorInfo(type="FunctionError", message="no", traceback='File "job.py", line 3'),
        task_name="map (1/2)",
        resource_id="tm-1",
        endpoint="host:7",
    )
    failure.error.cause.CopyFrom(common_pb2.ErrorInfo(type="ValueError", message="deep"))
    failure.concurrent.add(timestamp_ms=NOW_MS - 4, error=common_pb2.ErrorInfo(type="Gone", message="x"), task_name="s")
    details.exception_history.add(timestamp_ms=NOW_MS - 50, error=common_pb2.ErrorInfo(type="G", message="global"))
    return details


def checkpoint(number: int, status: str, **fields: Any) -> checkpoint_pb2.CheckpointStatistics:
    one = checkpoint_pb2.CheckpointStatistics(
        checkpoint_id=number,
        status=status,
        kind=fields.pop("kind", checkpoint_pb2.CHECKPOINT),
        trigger_timestamp_ms=NOW_MS - 1_000,
        state_size_bytes=500,
        persisted_bytes=50,
        num_subtasks=3,
        num_acknowledged_subtasks=1,
        latest_ack_timestamp_ms=NOW_MS - 900,
        **fields,
    )
    vertex = one.vertices.add(
        vertex_id=SOURCE,
        num_subtasks=2,
        num_acknowledged_subtasks=1,
        latest_ack_timestamp_ms=NOW_MS - 900,
        state_size_bytes=500,
        persisted_bytes=50,
    )
    vertex.subtasks.add(
        subtask_index=1,
        ack_timestamp_ms=NOW_MS - 900,
        metrics=checkpoint_pb2.CheckpointMetrics(
            sync_duration_ns=3_000_000,
            async_duration_ns=4_000_000,
            alignment_duration_ns=5_000_000,
            checkpoint_start_delay_ns=6_000_000,
            state_size_bytes=500,
            bytes_persisted=50,
            bytes_processed_during_alignment=8,
            is_unaligned=True,
        ),
    )
    return one


def metric_group(index: int, attempt: int = 0, operator: str = "", **values: Any) -> metrics_pb2.MetricGroupDump:
    group = metrics_pb2.MetricGroupDump(
        job_id=JOB, vertex_id=SOURCE, subtask_index=index, attempt_number=attempt, operator_name=operator
    )
    group.operator_id = "o" if operator else ""
    for name, value in values.items():
        metric = group.metrics.add(name=name, kind="gauge")
        if isinstance(value, str):
            metric.text = value
        elif isinstance(value, int):
            metric.number = value
        else:
            metric.real = value
    return group


class FakeDispatcher:
    """A Dispatcher with one job. Counts the calls of each method."""

    def __init__(self) -> None:
        self.job = running_job()
        self.statistics = checkpoint_pb2.CheckpointStatisticsResponse()
        self.groups: list[metrics_pb2.MetricGroupDump] = []
        #: True: the JobMaster knows no kinds of metrics, so it tells those of tasks.
        self.has_old_job_master = False
        self.accumulators = job_pb2.JobAccumulators()
        self.requests: list[tuple[str, Any]] = []
        self.outcome: Any = checkpoint_pb2.CheckpointResult(checkpoint_id=3, path="/s/1")
        self.failure: Exception | None = None
        self.listed = [
            dispatcher_pb2.JobOverview(job_id=JOB, status=common_pb2.RUNNING, start_time_ms=STARTED_MS, end_time_ms=-1)
        ]

    def _asked(self, name: str, request: Any) -> None:
        self.requests.append((name, request))
        if self.failure is not None:
            raise self.failure
        if request.job_id != JOB:
            raise not_known(request.job_id)

    def num_calls(self, name: str) -> int:
        return sum(one == name for one, _ in self.requests)

    def last(self, name: str) -> Any:
        return [request for one, request in self.requests if one == name][-1]

    async def request_job(self, request: Any, timeout_s: float | None = None) -> job_pb2.JobDetails:
        self._asked("request_job", request)
        details = job_pb2.JobDetails()
        details.CopyFrom(self.job)
        for vertex in details.vertices:
            if request.without_subtasks and vertex.id not in request.vertex_ids:
                del vertex.subtasks[:]
        return details

    async def request_job_master_threads(self, request: Any, timeout_s: float | None = None) -> Any:
        self._asked("request_job_master_threads", request)
        return job_pb2.JobMasterThreads(threads=[job_pb2.JobMasterThreads.Thread(name="MainThread", stack="File x")])

    async def update_resource_requirements(self, request: Any, timeout_s: float | None = None) -> Any:
        self._asked("update_resource_requirements", request)
        return common_pb2.Acknowledge()

    async def request_job_status(self, request: Any, timeout_s: float | None = None) -> Any:
        self._asked("request_job_status", request)
        return dispatcher_pb2.JobStatusResponse(job_id=JOB, status=self.job.status)

    async def request_job_result(self, request: Any, timeout_s: float | None = None) -> Any:
        self._asked("request_job_result", request)
        if self.job.end_time_ms < 0:
            return dispatcher_pb2.RequestJobResultResponse(finished=False)
        result = job_pb2.JobResult(job_id=JOB, name="a <job>", status=self.job.status, net_runtime_ms=7)
        if self.job.status == common_pb2.FAILED:
            result.error.CopyFrom(self.job.exception_history[0].error)
        return dispatcher_pb2.RequestJobResultResponse(finished=True, result=result)

    async def list_jobs(self, request: Any, timeout_s: float | None = None) -> Any:
        return dispatcher_pb2.ListJobsResponse(jobs=self.listed)

    async def request_checkpoint_statistics(self, request: Any, timeout_s: float | None = None) -> Any:
        self._asked("request_checkpoint_statistics", request)
        return self.statistics

    async def request_accumulators(self, request: Any, timeout_s: float | None = None) -> Any:
        self._asked("request_accumulators", request)
        return self.accumulators

    async def request_metrics(self, request: Any, timeout_s: float | None = None) -> Any:
        self._asked("request_metrics", request)
        if self.job.end_time_ms > 0:
            raise not_known(JOB)
        dump = metrics_pb2.MetricsDump()
        if "job" in request.kinds and not self.has_old_job_master:
            dump.groups.add(job_id=JOB).metrics.add(name="runningTimeTotal", kind="gauge", number=7)
        if "coordinator" in request.kinds:
            group = dump.groups.add(
                job_id=JOB, vertex_id=SOURCE, subtask_index=-1, operator_id="o", operator_name="a.b"
            )
            group.metrics.add(name="coordinator.enumerator.unassignedSplits", kind="gauge", number=3)
        for group in self.groups if not request.kinds or self.has_old_job_master else ():
            kept = dump.groups.add()
            kept.CopyFrom(group)
            del kept.metrics[:]
            kept.metrics.extend(one for one in group.metrics if not request.names or one.name in request.names)
        return dump

    async def cancel_job(self, request: Any, timeout_s: float | None = None) -> Any:
        self._asked("cancel_job", request)
        return common_pb2.Acknowledge()

    async def report_job_client_heartbeat(self, request: Any, timeout_s: float | None = None) -> Any:
        self._asked("report_job_client_heartbeat", request)

    async def send_coordination_request(self, request: Any, timeout_s: float | None = None) -> Any:
        self._asked("send_coordination_request", request)
        return dispatcher_pb2.CoordinationResponse(payload=request.payload[::-1])

    async def _operate(self, name: str, request: Any) -> Any:
        self._asked(name, request)
        await asyncio.sleep(0)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    async def trigger_checkpoint(self, request: Any, timeout_s: float | None = None) -> Any:
        return await self._operate("trigger_checkpoint", request)

    async def trigger_savepoint(self, request: Any, timeout_s: float | None = None) -> Any:
        return await self._operate("trigger_savepoint", request)

    async def stop_with_savepoint(self, request: Any, timeout_s: float | None = None) -> Any:
        return await self._operate("stop_with_savepoint", request)


class Jobs(RestHarness):
    """A REST application in front of a FakeDispatcher."""

    def __init__(self, **configuration: str) -> None:
        self.dispatcher = FakeDispatcher()
        super().__init__(TestingServices(self.dispatcher), configuration=configuration)

    def get(self, path: str, expected: int = 200, **arguments: Any) -> Any:
        answer = self.call("GET", f"/v1/jobs/{JOB}{path}", role=Role.READ, **arguments)
        assert answer.status_code == expected, answer.text
        return answer.json()


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


# -- details ---------------------------------------------------------------------------------------------------------


def test_a_running_job_is_told_with_flinks_fields_and_sentinels(jobs: Jobs) -> None:
    told = jobs.get("")
    assert (told["jid"], told["state"], told["job-type"], told["schedulerType"]) == (
        JOB, "RUNNING", "STREAMING", "Default",
    )  # fmt: skip
    assert (told["start-time"], told["end-time"], told["duration"], told["now"]) == (STARTED_MS, -1, 60_000, NOW_MS)
    assert (told["isStoppable"], told["maxParallelism"], told["pending-operators"]) == (False, -1, 0)
    assert told["application-id"] == told["jid"]
    assert told["timestamps"]["RUNNING"] == STARTED_MS + 5 and told["timestamps"]["FINISHED"] == 0
    assert told["status-counts"]["RUNNING"] == 1 and told["status-counts"]["CREATED"] == 1
    source, sink = told["vertices"]
    assert (source["status"], source["duration"], source["tasks"]["RUNNING"]) == ("RUNNING", 59_980, 2)
    assert (sink["start-time"], sink["end-time"], sink["duration"]) == (-1, -1, -1)
    assert source["metrics"]["read-records"] == 30 and source["metrics"]["read-records-complete"] is True
    assert isinstance(source["metrics"]["accumulated-busy-time"], float)
    assert len(source["slotSharingGroupId"]) == 32
    assert [node["id"] for node in told["stream-graph"]["nodes"]] == ["o1", "o2", "o3"]
    assert jobs.dispatcher.last("request_job").without_subtasks  # a poll does not carry the subtasks of large jobs


def test_the_overview_counts_the_tasks_of_running_and_ended_jobs(jobs: Jobs) -> None:
    ended = dispatcher_pb2.JobOverview(
        job_id=OTHER_JOB,
        name="e",
        status=common_pb2.FINISHED,
        start_time_ms=STARTED_MS,
        end_time_ms=NOW_MS - 9,
        is_batch=True,
    )
    ended.tasks_per_state["FINISHED"] = 5
    jobs.dispatcher.listed.append(ended)
    running, finished = jobs.call("GET", "/jobs/overview").json()["jobs"]
    assert (running["jid"], running["state"], running["end-time"], running["duration"]) == (JOB, "RUNNING", -1, 60_000)
    assert (running["tasks"]["total"], running["tasks"]["running"], running["tasks"]["failed"]) == (2, 2, 0)
    assert running["last-modification"] == STARTED_MS + 5
    assert (running["jobType"], running["schedulerType"]) == ("STREAMING", "Default")
    assert (finished["jobType"], finished["schedulerType"]) == ("BATCH", "AdaptiveBatch")
    assert (finished["tasks"]["total"], finished["tasks"]["finished"]) == (5, 5)
    assert (finished["end-time"], finished["duration"]) == (NOW_MS - 9, 59_991)
    jobs.dispatcher.failure = RpcTimeoutError("no answer")
    jobs.clock.advance(60_000)
    assert jobs.call("GET", "/jobs/overview").json()["jobs"][0]["state"] == "RUNNING"


def test_a_job_that_ends_again_is_shown_with_its_last_end(jobs: Jobs) -> None:
    def ended(status: common_pb2.JobStatus, end_ms: int) -> dict[str, Any]:
        job = dispatcher_pb2.JobOverview(job_id=JOB, name="e", status=status, start_time_ms=STARTED_MS)
        job.end_time_ms = end_ms
        jobs.dispatcher.listed = [job]
        (line,) = jobs.call("GET", "/jobs/overview").json()["jobs"]
        return line

    first = ended(common_pb2.FAILED, NOW_MS - 9)
    assert ended(common_pb2.FAILED, NOW_MS - 9) == first
    second = ended(common_pb2.FINISHED, NOW_MS - 5)
    assert (second["state"], second["duration"]) == ("FINISHED", first["duration"] + 4)
    # The Dispatcher does not know yet when this one ended.
    unknown = ended(common_pb2.FAILED, 0)
    jobs.clock.advance(1_000)
    assert ended(common_pb2.FAILED, 0)["duration"] == unknown["duration"] + 1_000


def test_the_plan_is_flinks_plan_json_with_descriptions_as_harmless_html(jobs: Jobs) -> None:
    plan = jobs.get("/plan")["plan"]
    assert (plan["jid"], plan["name"], plan["type"]) == (JOB, "a <job>", "STREAMING")
    source, sink = plan["nodes"]
    assert source["description"] == "Source: s<br/>+- map &lt;b&gt;<br/>"
    assert (source["parallelism"], source["operator"], source["operator_strategy"]) == (2, "", "")
    assert source["optimizer_properties"] == {} and "inputs" not in source
    assert sink["inputs"] == [{"num": 0, "id": SOURCE, "ship_strategy": "HASH", "exchange": "pipelined_bounded"}]


def test_a_vertex_is_told_with_its_subtasks_and_statistics_over_them(jobs: Jobs) -> None:
    told = jobs.get(f"/vertices/{SOURCE}")
    assert (told["parallelism"], told["maxParallelism"], told["now"]) == (2, 128, NOW_MS)
    first, second = told["subtasks"]
    assert (first["endpoint"], first["taskmanager-id"], first["start-time"]) == ("host:7", "tm-1", STARTED_MS + 20)
    assert first["start_time"] == first["start-time"] and first["end-time"] == -1
    assert first["status-duration"] == {
        "CREATED": 10, "SCHEDULED": 10, "DEPLOYING": 30, "INITIALIZING": 100, "RUNNING": 59_850,
    }  # fmt: skip
    assert "other-concurrent-attempts" not in first and second["attempt"] == 1
    assert told["aggregated"]["metrics"]["read-records"] == {
        "min": 10, "max": 20, "avg": 15, "sum": 30, "median": 15, "p25": 10, "p75": 20, "p95": 20,
    }  # fmt: skip
    assert told["aggregated"]["status-duration"]["CREATED"]["sum"] == 20


def test_a_subtask_without_a_slot_is_unassigned(jobs: Jobs) -> None:
    jobs.dispatcher.job.vertices[1].subtasks.add(subtask_index=0, state=E.CREATED.value)
    told = jobs.get(f"/vertices/{SINK}/subtasks/0")
    assert (told["endpoint"], told["taskmanager-id"], told["duration"]) == ("(unassigned)", "(unassigned)", -1)
    assert set(told["status-duration"].values()) == {-1}


def test_current_and_former_attempts_are_told_and_unknown_ones_are_not_found(jobs: Jobs) -> None:
    prefix = f"/vertices/{SOURCE}/subtasks"
    assert jobs.get(f"{prefix}/1")["attempt"] == 1
    former = jobs.get(f"{prefix}/1/attempts/0")
    assert (former["status"], former["end-time"], former["duration"]) == ("FAILED", STARTED_MS + 1_150, 1_130)
    assert former["status-duration"]["RUNNING"] == 1_000
    for path, words in (
        (f"{prefix}/1/attempts/7", "Attempt 7 not found in subtask 1"),
        (f"{prefix}/2", f"Invalid subtask index for vertex {SOURCE}"),
        (f"/vertices/{OTHER_JOB}", f"No vertex with ID '{OTHER_JOB}' exists."),
    ):
        assert jobs.get(path, 404)["errors"] == [words]


def test_subtask_times_and_task_managers_of_a_vertex(jobs: Jobs) -> None:
    times = jobs.get(f"/vertices/{SOURCE}/subtasktimes")["subtasks"][0]
    assert (times["duration"], times["timestamps"]["RUNNING"], times["timestamps"]["FAILED"]) == (
        59_990, STARTED_MS + 150, 0,
    )  # fmt: skip
    (manager,) = jobs.get(f"/vertices/{SOURCE}/taskmanagers")["taskmanagers"]
    assert (manager["taskmanager-id"], manager["endpoint"], manager["status"]) == ("tm-1", "host:7", "RUNNING")
    assert manager["status-counts"]["RUNNING"] == 2 and manager["metrics"]["read-records"] == 30
    assert manager["aggregated"]["metrics"]["read-records"]["max"] == 20


def test_the_exception_history_has_causes_and_concurrent_failures(jobs: Jobs) -> None:
    history = jobs.get("/exceptions")["exceptionHistory"]
    root, whole_job = history["entries"]
    assert root["exceptionName"] == "FunctionError" and root["failureLabels"] == {}
    assert root["stacktrace"] == 'FunctionError: no\nFile "job.py", line 3\nCaused by: ValueError: deep\n'
    assert (root["taskName"], root["endpoint"], root["taskManagerId"]) == ("map (1/2)", "host:7", "tm-1")
    assert [one["exceptionName"] for one in root["concurrentExceptions"]] == ["Gone"]
    assert not {"taskName", "endpoint", "taskManagerId"} & set(whole_job)
    assert history["truncated"] is False
    limited = jobs.get("/exceptions?maxExceptions=1")["exceptionHistory"]
    assert len(limited["entries"]) == 1 and limited["truncated"] is True
    assert jobs.get("/exceptions?failureLabelFilter=a:b")["exceptionHistory"]["entries"] == []
    jobs.dispatcher.job.exception_history[1].labels["a"] = "b:c"
    jobs.clock.advance(10_000)
    [labeled] = jobs.get("/exceptions?failureLabelFilter=a:b:c")["exceptionHistory"]["entries"]
    assert labeled["failureLabels"] == {"a": "b:c"} and labeled["exceptionName"] == whole_job["exceptionName"]
    assert jobs.get("/exceptions?maxExceptions=0", 400)["errors"]


def test_configuration_status_and_result_of_a_running_job(jobs: Jobs) -> None:
    config = jobs.get("/config")
    assert (config["jid"], config["name"]) == (JOB, "a <job>")
    assert config["execution-config"]["user-config"] == {"threads": "4"}
    assert config["execution-config"]["job-parallelism"] == 1
    assert jobs.get("/status") == {"status": "RUNNING"}
    assert jobs.get("/execution-result") == {"status": {"id": "IN_PROGRESS"}}


def test_the_result_of_an_ended_job_has_its_failure(jobs: Jobs) -> None:
    jobs.dispatcher.job.status, jobs.dispatcher.job.end_time_ms = common_pb2.FAILED, NOW_MS - 1
    told = jobs.get("/execution-result")
    assert told["status"] == {"id": "COMPLETED"}
    result = told["job-execution-result"]
    assert (result["application-status"], result["net-runtime"]) == ("FAILED", 7)
    assert result["failure-cause"]["class"] == "FunctionError"
    assert jobs.get("")["end-time"] == NOW_MS - 1


def test_secrets_of_the_configuration_are_not_told() -> None:
    jobs = Jobs(**{"security.ssl.rest.key-password": "open sesame", "parallelism.default": "3"})
    entries = {one["key"]: one["value"] for one in jobs.get("/jobmanager/config")}
    assert entries["parallelism.default"] == "3" and entries["execution.checkpointing.interval"] == "7 s"
    assert "open sesame" not in str(entries)


def test_accumulators_of_job_vertex_and_subtasks(jobs: Jobs) -> None:
    one = job_pb2.AccumulatorResult(name="n", type="IntCounter", value="3", value_pickle=b"secret")
    jobs.dispatcher.accumulators.accumulators.append(one)
    jobs.dispatcher.accumulators.subtasks.add(subtask_index=1, accumulators=[one])
    shown = [{"name": "n", "type": "IntCounter", "value": "3"}]
    assert jobs.get("/accumulators?includeSerializedValue=true") == {
        "job-accumulators": [], "user-task-accumulators": shown, "serialized-user-task-accumulators": {},
    }  # fmt: skip
    vertex = f"/vertices/{SOURCE}"
    assert jobs.get(f"{vertex}/accumulators") == {"id": SOURCE, "user-accumulators": shown}
    subtasks = jobs.get(f"{vertex}/subtasks/accumulators")["subtasks"]
    assert [each["user-accumulators"] for each in subtasks] == [[], shown]
    assert jobs.get(f"{vertex}/subtasks/1/attempts/1/accumulators")["user-accumulators"] == shown
    assert jobs.get(f"{vertex}/subtasks/1/attempts/0/accumulators")["user-accumulators"] == []


# -- checkpoints -----------------------------------------------------------------------------------------------------


def test_a_job_without_checkpoints_has_empty_statistics(jobs: Jobs) -> None:
    told = jobs.get("/checkpoints")
    assert told["counts"] == {"restored": 0, "total": 0, "in_progress": 0, "completed": 0, "failed": 0}
    assert told["summary"]["state_size"] == {
        "min": 0, "max": 0, "avg": 0, "p50": "NaN", "p90": "NaN", "p95": "NaN", "p99": "NaN", "p999": "NaN",
    }  # fmt: skip
    assert told["latest"] == {"completed": None, "savepoint": None, "failed": None, "restored": None}
    assert told["history"] == []


def test_checkpoints_are_told_by_their_status(jobs: Jobs) -> None:
    done = checkpoint(2, "COMPLETED", end_timestamp_ms=NOW_MS - 800, external_path="/c/2", is_unaligned=True)
    failed = checkpoint(3, "FAILED", end_timestamp_ms=NOW_MS - 700)
    failed.failure.CopyFrom(common_pb2.ErrorInfo(type="CheckpointError", message="late"))
    stopped = checkpoint(
        4, "COMPLETED", kind=checkpoint_pb2.SYNC_SAVEPOINT_SUSPEND, format=checkpoint_pb2.NATIVE, external_path="/s/4"
    )
    statistics = jobs.dispatcher.statistics
    statistics.history.extend([checkpoint(5, "IN_PROGRESS"), stopped, failed, done])
    statistics.latest_completed.CopyFrom(done)
    statistics.latest_restored.CopyFrom(
        checkpoint_pb2.RestoredCheckpointStatistics(checkpoint_id=1, restore_timestamp_ms=9, external_path="/c/1")
    )
    statistics.summary.duration_ms.CopyFrom(checkpoint_pb2.CheckpointSummary.Statistic(minimum=3, p99=9))
    told = jobs.get("/checkpoints")
    assert [one["className"] for one in told["history"]] == ["in_progress", "completed", "failed", "completed"]
    running, savepoint, failure, completed = told["history"]
    assert (running["checkpoint_type"], running["end_to_end_duration"], running["tasks"]) == ("CHECKPOINT", 100, {})
    assert running["savepointFormat"] is None
    assert (savepoint["checkpoint_type"], savepoint["is_savepoint"], savepoint["savepointFormat"]) == (
        "SYNC_SAVEPOINT", True, "NATIVE",
    )  # fmt: skip
    assert (failure["failure_message"], failure["failure_timestamp"]) == ("CheckpointError: late", NOW_MS - 700)
    assert (completed["checkpoint_type"], completed["external_path"], completed["discarded"]) == (
        "UNALIGNED_CHECKPOINT", "/c/2", False,
    )  # fmt: skip
    assert (completed["state_size"], completed["checkpointed_size"], completed["end_to_end_duration"]) == (500, 50, 200)
    assert told["latest"]["restored"]["id"] == 1 and told["latest"]["completed"]["id"] == 2
    assert told["summary"]["end_to_end_duration"]["min"] == 3 and told["summary"]["end_to_end_duration"]["p99"] == 9.0
    assert jobs.dispatcher.last("request_checkpoint_statistics").without_subtasks


def test_the_details_of_a_checkpoint_tell_tasks_and_subtasks(jobs: Jobs) -> None:
    jobs.dispatcher.statistics.history.append(checkpoint(5, "IN_PROGRESS"))
    task = jobs.get("/checkpoints/details/5")["tasks"][SOURCE]
    assert (task["status"], task["num_acknowledged_subtasks"], task["end_to_end_duration"]) == ("IN_PROGRESS", 1, 100)
    told = jobs.get(f"/checkpoints/details/5/subtasks/{SOURCE}")
    pending, done = told["subtasks"]
    assert pending == {"className": "pending", "index": 0, "status": "pending_or_failed"}
    assert (done["className"], done["status"], done["end_to_end_duration"]) == ("completed", "completed", 100)
    assert done["checkpoint"] == {"sync": 3, "async": 4}
    assert done["alignment"] == {"buffered": 0, "processed": 8, "persisted": 0, "duration": 5}
    assert (done["start_delay"], done["unaligned_checkpoint"], done["aborted"]) == (6, True, False)
    assert told["summary"]["checkpoint_duration"]["sync"]["max"] == 3 and told["summary"]["start_delay"]["avg"] == 6
    assert jobs.dispatcher.last("request_checkpoint_statistics").checkpoint_id == 5
    assert jobs.get("/checkpoints/details/9", 404)["errors"] == [
        "Could not find checkpointing statistics for checkpoint 9."
    ]
    assert jobs.get(f"/checkpoints/details/5/subtasks/{OTHER_JOB}", 404)["errors"]


def test_the_checkpoint_configuration_is_that_of_cluster_and_job() -> None:
    jobs = Jobs(**{"state.backend.type": "rocksdb", "execution.checkpointing.dir": "/c"})
    told = jobs.get("/checkpoints/config")
    assert (told["mode"], told["interval"], told["timeout"]) == ("exactly_once", 7_000, 600_000)
    assert told["externalization"] == {"enabled": False, "delete_on_cancellation": True}
    assert (told["state_backend"], told["checkpoint_storage"]) == (
        "EmbeddedRocksDBStateBackend", "FileSystemCheckpointStorage",
    )  # fmt: skip
    del jobs.dispatcher.job.configuration.entries["execution.checkpointing.interval"]
    jobs.clock.advance(jobs.options.refresh_interval_ms)
    assert jobs.get("/checkpoints/config")["interval"] == (1 << 63) - 1


def test_a_batch_job_has_no_checkpoints(jobs: Jobs) -> None:
    jobs.dispatcher.job.is_batch = True
    assert jobs.get("")["job-type"] == "BATCH"
    assert jobs.get("/checkpoints", 404)["errors"] == ["Checkpointing has not been enabled."]
    assert jobs.get("/checkpoints/config", 404)["errors"] == [f"Checkpointing is not enabled for this job ({JOB})."]


# -- metrics ---------------------------------------------------------------------------------------------------------


def with_metrics() -> Jobs:
    jobs = Jobs()
    histogram = metric_group(0, operator="a b: c")
    histogram.metrics.add(name="latency", kind="histogram", number=4, statistics={"p50": 2.0, "p99": 3.5})
    jobs.dispatcher.groups = [
        metric_group(0, numRecordsIn=7, rate=1.5, currentInputWatermark=-(1 << 63), backPressuredTimeMsPerSecond=51,
                     idleTimeMsPerSecond=200, busyTimeMsPerSecond=749),
        metric_group(1, 0, numRecordsIn=1),  # a former attempt
        metric_group(1, 1, numRecordsIn=9, backPressuredTimeMsPerSecond=600, currentInputWatermark=42, name="text"),
        histogram,
    ]  # fmt: skip
    return jobs


def test_metrics_are_listed_by_name_and_told_on_request() -> None:
    jobs = with_metrics()
    vertex = f"/vertices/{SOURCE}"
    names = jobs.get(f"{vertex}/metrics")
    assert {"id": "0.a_b__c.latency_p99"} in names and {"id": "1.numRecordsIn"} in names
    assert jobs.get(f"{vertex}/metrics?get=1.numRecordsIn,missing,0.a_b__c.latency_median,0.rate") == [
        {"id": "1.numRecordsIn", "value": "9"},
        {"id": "0.a_b__c.latency_median", "value": "2.0"},
        {"id": "0.rate", "value": "1.5"},
    ]
    assert "latency" in jobs.dispatcher.last("request_metrics").names
    assert jobs.get(f"{vertex}/subtasks/1/metrics?get=numRecordsIn") == [{"id": "numRecordsIn", "value": "9"}]
    name = "a_b.coordinator.enumerator.unassignedSplits"
    assert jobs.get(f"{vertex}/jm-operator-metrics") == [{"id": name}]
    assert jobs.get(f"{vertex}/jm-operator-metrics?get={name}") == [{"id": name, "value": "3"}]
    assert jobs.get("/metrics?get=runningTimeTotal") == [{"id": "runningTimeTotal", "value": "7"}]


def test_metrics_of_subtasks_are_aggregated() -> None:
    jobs = with_metrics()
    path = f"/vertices/{SOURCE}/subtasks/metrics"
    assert {"id": "numRecordsIn"} in jobs.get(path)
    assert jobs.get(f"{path}?get=numRecordsIn,name") == [
        {"id": "numRecordsIn", "min": 7.0, "max": 9.0, "avg": 8.0, "sum": 16.0, "skew": 12.5}
    ]
    assert jobs.get(f"{path}?get=numRecordsIn&agg=max,MIN&subtasks=1-5") == [
        {"id": "numRecordsIn", "min": 9.0, "max": 9.0}
    ]
    for query in ("subtasks=x", "subtasks=3-1", "agg=median"):
        assert jobs.get(f"{path}?get=numRecordsIn&{query}", 400)["errors"]


def test_watermarks_are_those_of_the_tasks() -> None:
    jobs = with_metrics()
    assert jobs.get(f"/vertices/{SOURCE}/watermarks") == [
        {"id": "0.currentInputWatermark", "value": "-9223372036854775808"},
        {"id": "1.currentInputWatermark", "value": "42"},
    ]


def test_the_back_pressure_of_a_vertex_is_that_of_its_worst_subtask() -> None:
    jobs = with_metrics()
    told = jobs.get(f"/vertices/{SOURCE}/backpressure")
    assert (told["status"], told["backpressureLevel"], told["backpressure-level"]) == ("ok", "high", "high")
    assert told["end-timestamp"] == NOW_MS
    first, second = told["subtasks"]
    assert (first["backpressureLevel"], first["ratio"], first["idleRatio"], first["busyRatio"]) == (
        "ok", 0.051, 0.2, 0.749,
    )  # fmt: skip
    assert (second["attempt-number"], second["backpressure-level"]) == (1, "high")
    jobs.dispatcher.groups.clear()
    jobs.clock.advance(jobs.options.refresh_interval_ms)
    assert jobs.get(f"/vertices/{SOURCE}/backpressure") == {
        "status": "deprecated", "backpressureLevel": None, "backpressure-level": None, "end-timestamp": None,
        "subtasks": None,
    }  # fmt: skip


def test_the_tasks_of_an_ended_job_have_no_metrics() -> None:
    jobs = with_metrics()
    jobs.dispatcher.job.end_time_ms = NOW_MS - 1
    assert jobs.get(f"/vertices/{SOURCE}/metrics") == []
    assert jobs.get(f"/vertices/{SOURCE}/watermarks") == []


def test_metrics_of_a_job_without_a_job_master_are_those_of_its_details(jobs: Jobs) -> None:
    jobs.dispatcher.has_old_job_master = True
    jobs.dispatcher.statistics.num_completed = 4
    assert jobs.get("/metrics?get=numRestarts,uptime,numberOfCompletedCheckpoints,runningState,restartingTime") == [
        {"id": "numRestarts", "value": "2"},
        {"id": "uptime", "value": "59995"},
        {"id": "numberOfCompletedCheckpoints", "value": "4"},
        {"id": "runningState", "value": "1"},
        {"id": "restartingTime", "value": "0"},
    ]
    answer = jobs.call("GET", f"/jobs/metrics?get=numRestarts&agg=sum&jobs={JOB}").json()
    assert answer == [{"id": "numRestarts", "sum": 2.0}]
    assert jobs.call("GET", f"/jobs/metrics?jobs={OTHER_JOB}").json() == []


# -- operations ------------------------------------------------------------------------------------------------------


def operate(jobs: Jobs, path: str, body: dict[str, Any], status_path: str) -> tuple[Any, Any, Any]:
    """Triggers an operation twice. Returns the first status, the status at the end and the second answer's id."""

    async def scenario() -> tuple[Any, Any, Any]:
        begun = await jobs.acall("POST", f"/jobs/{JOB}{path}", json=body)
        assert begun.status_code == HTTPStatus.ACCEPTED, begun.text
        url = f"/jobs/{JOB}{status_path}/{begun.json()['request-id']}"
        first = (await jobs.acall("GET", url)).json()
        again = await jobs.acall("POST", f"/jobs/{JOB}{path}", json=body)
        for _ in range(5):
            await asyncio.sleep(0)
        return first, (await jobs.acall("GET", url)).json(), again.json()["request-id"]

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("path", "body", "status_path", "called", "operation"),
    [
        ("/savepoints", {"target-directory": "/s"}, "/savepoints", "trigger_savepoint", {"location": "/s/1"}),
        ("/stop", {"targetDirectory": "/s", "drain": True}, "/savepoints", "stop_with_savepoint", {"location": "/s/1"}),
        ("/checkpoints", {"checkpointType": "FULL"}, "/checkpoints", "trigger_checkpoint", {"checkpointId": 3}),
    ],
)
def test_an_operation_given_the_same_trigger_id_twice_runs_once(
    jobs: Jobs, path: str, body: dict[str, Any], status_path: str, called: str, operation: dict[str, Any]
) -> None:
    _, last, again = operate(jobs, path, {**body, "triggerId": TRIGGER.upper()}, status_path)
    assert last == {"status": {"id": "COMPLETED"}, "operation": operation}
    assert again == TRIGGER and jobs.dispatcher.num_calls(called) == 1
    assert jobs.dispatcher.last(called).trigger_id == TRIGGER


def test_a_failed_operation_tells_why(jobs: Jobs) -> None:
    jobs.dispatcher.outcome = CheckpointError("declined")
    _, last, _ = operate(jobs, "/savepoints", {"target-directory": "/s", "triggerId": TRIGGER}, "/savepoints")
    assert last["operation"] == {"failure-cause": {"class": "CheckpointError", "stack-trace": "declined"}}


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/savepoints", {}, "key [execution.checkpointing.savepoint-dir] is not set. Property [target-directory] must"),
        ("/stop", {}, "Property [targetDirectory] must be provided."),
        ("/savepoints", {"target-directory": "/s", "triggerId": "x"}, "is not a trigger id"),
        ("/savepoints", {"target-directory": "/s", "formatType": "ODD"}, "Request did not match expected format"),
        ("/checkpoints", {"checkpointType": "INCREMENTAL"}, "incremental"),
    ],
)  # fmt: skip
def test_a_bad_operation_is_refused_before_it_starts(jobs: Jobs, path: str, body: Any, words: str) -> None:
    answer = jobs.call("POST", f"/jobs/{JOB}{path}", json=body)
    assert answer.status_code == 400 and words in answer.json()["errors"][0]
    assert not {"trigger_savepoint", "stop_with_savepoint", "trigger_checkpoint"} & {
        n for n, _ in jobs.dispatcher.requests
    }


def test_canceling_a_job(jobs: Jobs) -> None:
    answer = jobs.call("PATCH", f"/jobs/{JOB}?mode=cancel")
    assert (answer.status_code, answer.json()) == (202, {})
    assert jobs.dispatcher.num_calls("cancel_job") == 1
    assert jobs.call("PATCH", f"/jobs/{JOB}?mode=stop").status_code == 308
    assert jobs.call("PATCH", f"/jobs/{JOB}", role=Role.READ).status_code == 403
    jobs.dispatcher.failure = JobTerminatedWithoutCancellationError("ended", details={"status": "FINISHED"})
    answer = jobs.call("PATCH", f"/jobs/{JOB}")
    assert answer.status_code == 409 and "another terminal state (FINISHED)" in answer.json()["errors"][0]


def test_heartbeats_and_requests_of_a_client_reach_the_job(jobs: Jobs) -> None:
    path = f"/jobs/{JOB}/clientHeartbeat"
    assert jobs.call("PATCH", path, json={"expiredTimestamp": NOW_MS + 700}).status_code == 202
    assert jobs.dispatcher.last("report_job_client_heartbeat").timeout_ms == 700
    assert jobs.call("PATCH", path, json={"expiredTimestamp": NOW_MS}).status_code == 400
    path = f"/jobs/{JOB}/coordinators/the-uid"
    body = {"serializedCoordinationRequest": base64.b64encode(b"abc").decode()}
    answer = jobs.call("POST", path, json=body)
    assert base64.b64decode(answer.json()["serializedCoordinationResult"]) == b"cba"
    assert jobs.dispatcher.last("send_coordination_request").operator_id == "o1"
    assert jobs.call("POST", path, json={"serializedCoordinationRequest": "?"}).status_code == 400
    assert jobs.call("POST", f"/jobs/{JOB}/coordinators/none", json=body).status_code == 404


def test_rescaling_is_refused_in_words(jobs: Jobs) -> None:
    answer = jobs.call("PATCH", f"/jobs/{JOB}/rescaling?parallelism=4")
    assert answer.status_code == 409 and "stop it with a savepoint" in answer.json()["errors"][0]
    assert jobs.get(f"/rescaling/{TRIGGER}", 404)["errors"]
    bounds = {"parallelism": {"lowerBound": 2, "upperBound": 2}}
    assert jobs.get("/resource-requirements")[SOURCE] == bounds
    jobs.dispatcher.failure = UnsupportedOperationError("not adaptive")
    answer = jobs.call("PUT", f"/jobs/{JOB}/resource-requirements", json={SOURCE: bounds})
    assert (answer.status_code, answer.json()) == (409, {"errors": ["not adaptive"]})
    jobs.dispatcher.failure = None
    for part in ("config", "history", "overview", "summary", f"details/{TRIGGER}"):
        assert jobs.get(f"/rescales/{part}", 404)["errors"] == ["AdaptiveScheduler is not enabled for this job"]


def test_resource_requirements_are_passed_on_and_shown(jobs: Jobs) -> None:
    bounds = {SOURCE: {"parallelism": {"lowerBound": 1, "upperBound": 4}}}
    assert jobs.call("PUT", f"/jobs/{JOB}/resource-requirements", json=bounds).status_code == 200
    (wanted,) = jobs.dispatcher.last("update_resource_requirements").requirements.vertices
    assert (wanted.vertex_id, wanted.lower_bound, wanted.upper_bound) == (SOURCE, 1, 4)
    jobs.dispatcher.failure = InvalidResourceRequirementsError("exceeds its maximum parallelism 2")
    answer = jobs.call("PUT", f"/jobs/{JOB}/resource-requirements", json=bounds)
    assert (answer.status_code, answer.json()["errors"]) == (400, ["exceeds its maximum parallelism 2"])


@pytest.mark.parametrize(
    "path",
    [
        *("", "/plan", "/config", "/exceptions", "/accumulators", "/status", "/execution-result", "/metrics"),
        *("/checkpoints", "/checkpoints/config", "/checkpoints/details/1"),
        *(f"/vertices/{SOURCE}", f"/vertices/{SOURCE}/metrics"),
        *("/jobmanager/config", "/jobmanager/environment", "/jobmanager/log-url", "/taskmanagers/tm/log-url"),
    ],
)
def test_an_unknown_job_is_not_found_in_flinks_words(jobs: Jobs, path: str) -> None:
    answer = jobs.call("GET", f"/jobs/{OTHER_JOB}{path}")
    assert (answer.status_code, answer.json()) == (404, {"errors": [f"Job {OTHER_JOB} not found"]})


# -- what is kept ----------------------------------------------------------------------------------------------------


def test_viewers_share_an_answer_for_the_refresh_interval(jobs: Jobs) -> None:
    for path in ("", "/plan", "/exceptions", "/config", ""):
        jobs.get(path)
    assert jobs.dispatcher.num_calls("request_job") == 1
    assert "age" not in jobs.call("GET", f"/jobs/{JOB}").headers
    jobs.clock.advance(jobs.options.refresh_interval_ms)
    jobs.get("")
    assert jobs.dispatcher.num_calls("request_job") == 2


def test_callers_that_ask_at_once_share_one_answer(jobs: Jobs) -> None:
    async def scenario() -> None:
        answers = await asyncio.gather(*(jobs.acall("GET", f"/jobs/{JOB}") for _ in range(20)))
        assert {answer.status_code for answer in answers} == {200}

    asyncio.run(scenario())
    assert jobs.dispatcher.num_calls("request_job") == 1


def test_a_caller_gets_the_old_answer_if_the_new_one_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inquiries_module, "PATIENCE_S", 0.0)
    inquiries, gate = Inquiries(), asyncio.Event()

    async def slowly() -> str:
        await gate.wait()
        return "new"

    async def at_once() -> str:
        return "old"

    async def scenario() -> None:
        assert await inquiries.ask(("job",), at_once, 0, 1_000) == ("old", 0)
        assert await inquiries.ask(("job",), slowly, 5_000, 1_000) == ("old", 5_000)
        gate.set()
        await asyncio.sleep(0.001)
        assert await inquiries.ask(("job",), at_once, 5_500, 1_000) == ("new", 500)

    asyncio.run(scenario())


def test_a_caller_that_asks_again_does_not_wait_for_the_next_answer() -> None:
    inquiries, gate = Inquiries(), asyncio.Event()

    async def at_once() -> str:
        return "old"

    async def slowly() -> str:
        await gate.wait()
        return "new"

    async def scenario() -> None:
        assert await inquiries.ask(("job",), at_once, 0, 1_000) == ("old", 0)
        assert await inquiries.ask(("job",), slowly, 900, 1_000) == ("old", 900)
        assert await inquiries.ask(("job",), at_once, 950, 1_000) == ("old", 950)  # one question is on its way
        gate.set()
        while (told := await inquiries.ask(("job",), at_once, 960, 1_000))[0] == "old":
            await asyncio.sleep(0)
        assert told == ("new", 60)

    asyncio.run(scenario())


def test_the_answers_that_are_kept_are_bounded() -> None:
    inquiries, asked = Inquiries(), []

    async def scenario() -> None:
        for number in (*range(MAX_ANSWERS + 1), 0, MAX_ANSWERS):

            async def fetch(number: int = number) -> int:
                asked.append(number)
                return number

            assert await inquiries.ask((number,), fetch, 0, 1_000) == (number, 0)

    asyncio.run(scenario())
    assert asked == [*range(MAX_ANSWERS + 1), 0]


def test_the_threads_of_a_job_master_are_told(jobs: Jobs) -> None:
    dump = jobs.get("/jobmanager/thread-dump")
    assert dump == {"threadInfos": [{"threadName": "MainThread", "stringifiedThreadInfo": "File x"}]}


def test_the_last_answer_is_told_while_the_job_master_does_not_answer(jobs: Jobs) -> None:
    fresh = jobs.get("")
    assert "stale" not in fresh and "age" not in fresh
    jobs.clock.advance(60_000)
    jobs.dispatcher.failure = RpcTimeoutError("no answer")
    stale = jobs.call("GET", f"/jobs/{JOB}")
    assert (stale.json()["state"], stale.headers["age"]) == ("RUNNING", "60")
    assert (stale.json()["stale"], stale.json()["age"]) == (True, 60_000)
    exceptions = jobs.get("/exceptions")
    assert exceptions["stale"] and exceptions["age"] == 60_000
    assert jobs.get(f"/vertices/{SOURCE}", 504)["errors"]  # it has never been told


def test_answers_of_one_kind_do_not_take_more_places_than_they_may() -> None:
    inquiries, asked = Inquiries(), []

    async def run() -> None:
        async def fetch() -> int:
            asked.append(1)
            return len(asked)

        for number in range(3):
            await inquiries.ask(("checkpoints", number), fetch, 0, 1_000, max_kept=2)
        await inquiries.ask(("job", 0), fetch, 0, 1_000)
        assert await inquiries.ask(("checkpoints", 2), fetch, 1, 1_000, max_kept=2) == (3, 1)
        assert await inquiries.ask(("checkpoints", 0), fetch, 1, 1_000, max_kept=2) == (5, 0), "it was not kept"

    asyncio.run(run())
