"""TaskManagers and the JobManager, as the REST server shows them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from rest_harness import RestHarness, TestingServices

from flinkpy._proto import (
    checkpoint_pb2,
    common_pb2,
    metrics_pb2,
    resourcemanager_pb2,
    taskexecutor_pb2,
)
from flinkpy.common.errors import RpcTimeoutError, RpcUnavailableError, UserError
from flinkpy.security import Role

JOB_ID = "1" * 32


class ResourceManager:
    async def request_task_manager_info(
        self, request: resourcemanager_pb2.TaskManagerInfoRequest, timeout_s: float
    ) -> resourcemanager_pb2.TaskManagerInfoResponse:
        found = resourcemanager_pb2.TaskManagerInfo(
            resource_id="te-1",
            address="host:1",
            data_address="host:2",
            hardware=resourcemanager_pb2.HardwareDescription(cpu_cores=4, memory_bytes=1 << 30),
            slots=[
                resourcemanager_pb2.SlotStatus(slot_index=0, allocation_id="a", job_id=JOB_ID, num_tasks=3),
                resourcemanager_pb2.SlotStatus(slot_index=1),
            ],
            last_heartbeat_ms=7,
            total_resource=common_pb2.ResourceProfile(cpu_cores=4, task_heap_bytes=600, task_off_heap_bytes=8),
        )
        is_wanted = request.resource_id in ("", "te-1")
        return resourcemanager_pb2.TaskManagerInfoResponse(task_managers=[found] if is_wanted else [])


class TaskExecutor:
    """A TaskExecutor with one log file; with an error, one that raises it."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    async def request_process_metrics(self, request: Any, timeout_s: float) -> metrics_pb2.MetricsDump:
        if self._error is not None:
            raise self._error
        dump = metrics_pb2.MetricsDump()
        group = dump.groups.add()
        group.metrics.add(name="Status.JVM.Memory.Heap.Used", kind="gauge", number=5)
        group.metrics.add(name="Status.Flink.Memory.Process.Total", kind="gauge", number=1000)
        return dump

    async def request_thread_dump(self, request: Any, timeout_s: float) -> taskexecutor_pb2.ThreadDump:
        if self._error is not None:
            raise self._error
        return taskexecutor_pb2.ThreadDump(threads=[taskexecutor_pb2.ThreadDump.Thread(name="t", stack="s")])

    async def request_log_list(self, request: Any, timeout_s: float) -> taskexecutor_pb2.LogList:
        one = taskexecutor_pb2.LogList.LogFile(name="te.log", size_bytes=4, modified_ms=9)
        return taskexecutor_pb2.LogList(files=[one], log_name="te.log")

    async def request_file(self, request: taskexecutor_pb2.FileRequest) -> AsyncIterator[taskexecutor_pb2.FileChunk]:
        if request.name != "te.log":
            raise UserError("there is no such file")
        content = b"<b>x"[request.offset :]
        for data in (content[:2], content[2:]):
            yield taskexecutor_pb2.FileChunk(data=data)


def harness(error: Exception | None = None, **configuration: str) -> RestHarness:
    services = TestingServices(resource_manager=ResourceManager(), task_executors={"host:1": TaskExecutor(error)})
    return RestHarness(
        services,
        configuration={key.replace("__", "-").replace("_", "."): value for key, value in configuration.items()},
    )


def test_the_list_shows_slots_and_hardware() -> None:
    (found,) = harness().call("GET", "/taskmanagers").json()["taskmanagers"]
    assert (found["id"], found["path"], found["dataPort"], found["timeSinceLastHeartbeat"]) == ("te-1", "host:1", 2, 7)
    assert (found["slotsNumber"], found["freeSlots"], found["hardware"]["cpuCores"]) == (2, 1, 4)
    assert found["assignedTasks"] == 3


def test_details_show_allocated_slots_and_metrics() -> None:
    found = harness().call("GET", "/taskmanagers/te-1").json()
    assert [(slot["jobId"], slot["assignedTasks"]) for slot in found["allocatedSlots"]] == [(JOB_ID, 3)]
    assert found["metrics"]["heapUsed"] == 5
    memory = found["memoryConfiguration"]
    assert (memory["taskHeap"], memory["taskOffHeap"], memory["totalProcessMemory"]) == (600, 8, 1000)
    assert memory["frameworkHeap"] is None
    assert "stale" not in found


@pytest.mark.parametrize("error", [RpcTimeoutError("no answer"), RpcUnavailableError("it has gone")])
def test_a_task_manager_that_does_not_answer_makes_its_details_stale(error: Exception) -> None:
    answer = harness(error).call("GET", "/taskmanagers/te-1")
    assert answer.status_code == 200
    assert (answer.json()["stale"], answer.json()["metrics"]["heapUsed"], answer.json()["slotsNumber"]) == (True, -1, 2)


def test_a_question_that_only_a_silent_task_manager_can_answer_gets_504() -> None:
    assert harness(RpcTimeoutError("no answer")).call("GET", "/taskmanagers/te-1/thread-dump").status_code == 504


@pytest.mark.parametrize("path", ["", "/logs", "/log", "/stdout", "/thread-dump", "/profiler"])
def test_an_unknown_task_manager_gets_404_in_flinks_words(path: str) -> None:
    answer = harness().call("GET", f"/taskmanagers/te-2{path}")
    assert (answer.status_code, answer.json()) == (404, {"errors": ["Could not find TaskExecutor te-2"]})


def test_without_a_resource_manager_the_answer_is_503() -> None:
    server = RestHarness(TestingServices(resource_manager=RpcUnavailableError("no ResourceManager leads")))
    assert server.call("GET", "/taskmanagers").status_code == 503


def test_logs_are_text_and_need_the_role_submit() -> None:
    server = harness()
    for path in ("/log", "/logs/te.log"):
        answer = server.call("GET", f"/taskmanagers/te-1{path}")
        assert (answer.text, answer.headers["content-type"]) == ("<b>x", "text/plain; charset=UTF-8")
        assert server.call("GET", f"/taskmanagers/te-1{path}", role=Role.READ).status_code == 403
    assert server.call("GET", "/taskmanagers/te-1/logs", role=Role.READ).json() == {
        "logs": [{"name": "te.log", "size": 4, "mtime": 9}]
    }


def test_a_log_that_is_not_there_gets_404() -> None:
    for path, name in (("/logs/other.log", "other.log"), ("/stdout", "STDOUT")):
        answer = harness().call("GET", f"/taskmanagers/te-1{path}")
        assert answer.status_code == 404
        assert answer.json() == {"errors": [f"The file {name} does not exist on the TaskExecutor."]}


def test_the_thread_dump_of_a_task_manager() -> None:
    assert harness().call("GET", "/taskmanagers/te-1/thread-dump").json() == {
        "threadInfos": [{"threadName": "t", "stringifiedThreadInfo": "s"}]
    }


def test_the_configuration_is_shown_without_secrets() -> None:
    server = harness(s3_secret="hidden", parallelism_default="2")
    assert server.call("GET", "/jobmanager/config").json() == [
        {"key": "parallelism.default", "value": "2"},
        {"key": "s3.secret", "value": "****"},
    ]


def test_logs_of_the_job_manager_come_from_its_directory(tmp_path: Path) -> None:
    (tmp_path / "jm.log").write_bytes(b"line")
    (tmp_path.parent / "outside").write_bytes(b"no")
    server = harness(env_log_dir=str(tmp_path))
    assert "jm.log" in [log["name"] for log in server.call("GET", "/jobmanager/logs").json()["logs"]]
    answer = server.call("GET", "/jobmanager/logs/jm.log")
    assert (answer.text, answer.headers["content-length"]) == ("line", "4")
    assert server.call("GET", "/jobmanager/logs/..%2Foutside").status_code in (400, 404)
    assert server.call("GET", "/jobmanager/logs/nothing").json() == {
        "errors": ["This file does not exist in JobManager log dir."]
    }


def test_threads_and_environment_of_the_job_manager_are_those_of_this_process() -> None:
    server = harness()
    stacks = [
        one["stringifiedThreadInfo"] for one in server.call("GET", "/jobmanager/thread-dump").json()["threadInfos"]
    ]
    assert any("test_threads_and_environment_of_the_job_manager" in stack for stack in stacks)
    assert server.call("GET", "/jobmanager/environment").json()["jvm"]["version"].startswith("CPython 3")


def test_there_is_no_profiler_of_a_jvm() -> None:
    server = harness()
    assert server.call("GET", "/jobmanager/profiler").json() == {"profilingList": []}
    assert server.call("POST", "/jobmanager/profiler", json={"mode": "CPU", "duration": 5}).json()["status"] == "FAILED"
    assert server.call("GET", "/jobmanager/profiler/x").status_code == 404


class Disposal:
    """A Dispatcher that deletes savepoints when the test lets it."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.disposed: list[str] = []

    async def dispose_savepoint(self, request: checkpoint_pb2.DisposeSavepointRequest) -> common_pb2.Acknowledge:
        await self.may_end.wait()
        self.disposed.append(request.path)
        if request.path == "/nothing":
            raise UserError("/nothing is not a savepoint")
        return common_pb2.Acknowledge()


def test_the_disposal_of_a_savepoint_is_triggered_and_asked_about() -> None:
    async def test() -> None:
        dispatcher = Disposal()
        server = RestHarness(TestingServices(dispatcher))

        async def trigger(path: str) -> str:
            answer = await server.acall("POST", "/savepoint-disposal", json={"savepoint-path": path})
            assert answer.status_code == 200
            return str(answer.json()["request-id"])

        async def status(trigger_id: str) -> Any:
            return (await server.acall("GET", f"/savepoint-disposal/{trigger_id}")).json()

        good, bad = await trigger("/sp"), await trigger("/nothing")
        assert await status(good) == {"status": {"id": "IN_PROGRESS"}, "operation": None}
        dispatcher.may_end.set()
        await asyncio.wait([server.context.operations.outcome("savepoint disposal", "", one) for one in (good, bad)])
        assert await status(good) == {"status": {"id": "COMPLETED"}, "operation": {}}
        cause = (await status(bad))["operation"]["failure-cause"]
        assert cause == {"class": "UserError", "stack-trace": "/nothing is not a savepoint"}
        assert dispatcher.disposed == ["/sp", "/nothing"]

    asyncio.run(test())


def test_a_malformed_or_unknown_trigger_id_is_refused() -> None:
    assert harness().call("GET", "/savepoint-disposal/xyz").status_code == 400
    assert harness().call("GET", f"/savepoint-disposal/{'0' * 32}").status_code == 404


def test_metrics_of_a_task_manager_are_named_and_chosen() -> None:
    server, name = harness(), "Status.JVM.Memory.Heap.Used"
    assert server.call("GET", "/taskmanagers/te-1/metrics").json() == [
        {"id": "Status.Flink.Memory.Process.Total"},
        {"id": name},
    ]
    assert server.call("GET", f"/taskmanagers/te-1/metrics?get={name},x").json() == [{"id": name, "value": "5"}]
    silent = harness(RpcTimeoutError("no answer"))
    assert silent.call("GET", f"/taskmanagers/te-1/metrics?get={name}").json() == []


def test_metrics_of_task_managers_are_aggregated() -> None:
    server, name = harness(), "Status.JVM.Memory.Heap.Used"
    answer = server.call("GET", f"/taskmanagers/metrics?get={name}&agg=max,sum&taskmanagers=te-1")
    assert answer.json() == [{"id": name, "max": 5.0, "sum": 5.0}]
    assert server.call("GET", f"/taskmanagers/metrics?get={name}&taskmanagers=te-2").json() == []
    assert server.call("GET", "/taskmanagers/metrics?agg=median").status_code == 400


class ClusterMetrics:
    async def request_metrics(self, request: Any, timeout_s: float) -> metrics_pb2.MetricsDump:
        assert not request.job_id and not request.resource_id
        dump = metrics_pb2.MetricsDump()
        dump.groups.add().metrics.add(name="numRunningJobs", kind="gauge", number=2)
        dump.groups[0].metrics.add(name="Status.JVM.Threads.Count", kind="gauge", number=9)
        dump.groups.add().metrics.add(name="numRegisteredTaskManagers", kind="gauge", number=3)
        return dump


def test_metrics_of_the_job_manager_are_of_its_process_and_of_the_cluster() -> None:
    server = RestHarness(TestingServices(ClusterMetrics()))
    names = [one["id"] for one in server.call("GET", "/jobmanager/metrics").json()]
    assert "Status.JVM.Threads.Count" in names and names == sorted(names)
    chosen = server.call("GET", "/jobmanager/metrics?get=numRunningJobs,numRegisteredTaskManagers").json()
    assert chosen == [{"id": "numRunningJobs", "value": "2"}, {"id": "numRegisteredTaskManagers", "value": "3"}]


def test_the_last_bytes_of_a_log_are_a_partial_answer(tmp_path: Path) -> None:
    (tmp_path / "jm.log").write_bytes(b"first\nlast")
    server = harness(env_log_dir=str(tmp_path))

    def tail(path: str, range_: str) -> tuple[int, str, str | None]:
        answer = server.call("GET", path, headers={"range": range_})
        return answer.status_code, answer.text, answer.headers.get("content-range")

    assert tail("/jobmanager/logs/jm.log", "bytes=-4") == (206, "last", "bytes 6-9/10")
    whole = (200, "first\nlast", None)
    assert tail("/jobmanager/logs/jm.log", "bytes=-10") == whole
    assert tail("/jobmanager/logs/jm.log", "bytes=-99999") == whole
    assert tail("/jobmanager/logs/jm.log", "bytes=2-3") == (206, "rs", "bytes 2-3/10")
    assert tail("/taskmanagers/te-1/logs/te.log", "bytes=-3") == (206, "b>x", "bytes 1-3/4")
    assert tail("/taskmanagers/te-1/log", "bytes=-9") == (200, "<b>x", None)


def test_options_are_told_with_their_effect() -> None:
    server = harness(parallelism_default="2", s3_secret="hidden", classloader_resolve__order="parent-first", my_own="1")
    found = {one["key"]: one for one in server.call("GET", "/jobmanager/options").json()["options"]}
    assert {key: one["effect"] for key, one in found.items()} == {
        "parallelism.default": "ACTS",
        "s3.secret": "ACTS",
        "classloader.resolve-order": "IGNORED",
        "my.own": "UNKNOWN",
    }
    assert (found["parallelism.default"]["default"], found["s3.secret"]["value"]) == ("1", "****")


def test_the_page_is_offered_what_the_role_of_its_user_may_do() -> None:
    server = harness()
    offered = {role: server.call("GET", "/config", role=role).json()["features"] for role in (Role.READ, Role.SUBMIT)}
    assert (offered[Role.READ]["web-submit"], offered[Role.READ]["web-cancel"]) == (False, False)
    assert (offered[Role.SUBMIT]["web-submit"], offered[Role.SUBMIT]["web-cancel"]) == (True, True)
