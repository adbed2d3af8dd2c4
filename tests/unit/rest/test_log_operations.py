"""Log records, log levels and parts of log files over REST."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rest_harness import RestHarness, TestingServices

from flinkpy._proto import common_pb2, resourcemanager_pb2
from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.errors import JobNotFoundError
from flinkpy.rest.errors import RestError
from flinkpy.rest.log_parts import ByteRange, last_lines, parse_range
from flinkpy.security import Role

JOB_ID = "a" * 32


def log(name: str, times: list[int], *, at_end: bool = True, position: str = "1:9") -> common_pb2.LogRecords:
    records = [common_pb2.LogRecord(timestamp_ms=time, level="INFO", message=f"{name} {time}") for time in times]
    return common_pb2.LogRecords(
        log=f"host:/{name}", source=name, has_log=True, is_at_end=at_end, position=position, records=records
    )


class Processes:
    """A Dispatcher, a ResourceManager and a TaskExecutor that answer about logs."""

    def __init__(self) -> None:
        self.logs = [log("te-1", [1, 3]), log("jm", [2])]
        self.asked: list[common_pb2.LogRecordsRequest] = []
        self.changes: list[common_pb2.LogLevelsRequest] = []

    async def request_job_log_records(self, request: common_pb2.LogRecordsRequest, timeout_s: float) -> Any:
        self.asked.append(request)
        if request.query.job_id != JOB_ID:
            raise JobNotFoundError("no such job")
        return pb.JobLogRecords(logs=self.logs, unreachable=["te-2"])

    async def request_log_records(self, request: common_pb2.LogRecordsRequest, timeout_s: float) -> Any:
        self.asked.append(request)
        return log("te-1", [7])

    async def change_log_levels(self, request: common_pb2.LogLevelsRequest, timeout_s: float) -> Any:
        self.changes.append(request)
        one = common_pb2.LogLevels(source="te-1")
        one.levels.add(logger="my", level="DEBUG", job_id=request.job_id, remaining_ms=5, is_changed=True)
        return pb.JobLogLevels(processes=[one]) if request.job_id else one

    async def request_task_manager_info(self, request: Any, timeout_s: float) -> Any:
        found = [resourcemanager_pb2.TaskManagerInfo(resource_id="te-1", address="host:1")]
        return resourcemanager_pb2.TaskManagerInfoResponse(
            task_managers=[one for one in found if request.resource_id in ("", one.resource_id)]
        )


@pytest.fixture
def processes() -> Processes:
    return Processes()


@pytest.fixture
def server(processes: Processes) -> RestHarness:
    return RestHarness(TestingServices(processes, processes, {"host:1": processes}))


def test_records_of_a_job_are_in_the_order_of_their_times(server: RestHarness, processes: Processes) -> None:
    path = f"/jobs/{JOB_ID}/log-records?level=warn&task=Map&search=bad&since=5&tail=2"
    found = server.call("GET", path).json()
    assert [one["message"] for one in found["records"]] == ["jm 2", "te-1 3"]
    assert (found["is-complete"], found["unreachable"]) == (True, ["te-2"])
    (asked,) = processes.asked
    assert asked.query == common_pb2.LogQuery(job_id=JOB_ID, min_level="WARN", task="Map", text="bad", since_ms=5)
    assert asked.tail == 2


def test_a_position_continues_without_loss_where_records_were_held_back(
    server: RestHarness, processes: Processes
) -> None:
    processes.logs = [log("te-1", [1, 9]), log("jm", [2], at_end=False)]
    found = server.call("GET", f"/jobs/{JOB_ID}/log-records").json()
    assert [one["message"] for one in found["records"]] == ["te-1 1", "jm 2"] and not found["is-complete"]
    server.call("GET", f"/jobs/{JOB_ID}/log-records", params={"position": found["position"]})
    # The record at 9 was not shown, so its log is read again.
    assert dict(processes.asked[-1].positions) == {"host:/jm": "1:9"}


@pytest.mark.parametrize("position", ["x", "e30", "eJyLNowFAAH9AM8=", "eJyrVkpUsjKsBQAIfgIH", "A" * 50_000])
def test_a_position_of_nobody_is_refused(server: RestHarness, position: str) -> None:
    answer = server.call("GET", f"/jobs/{JOB_ID}/log-records", params={"position": position})
    assert answer.status_code == 400 and "position" in answer.json()["errors"][0]


def test_reading_records_needs_the_role_submit(server: RestHarness) -> None:
    for path in (f"/jobs/{JOB_ID}", "/taskmanagers/te-1", "/jobmanager"):
        assert server.call("GET", f"{path}/log-records", role=Role.READ).status_code == 403
        assert server.call("PATCH", f"{path}/log-levels", role=Role.READ, json={"levels": []}).status_code == 403
        assert server.call("GET", f"{path}/log-levels", role=Role.READ).status_code == 200


def test_bad_parameters_and_unknown_jobs_are_refused(server: RestHarness) -> None:
    assert server.call("GET", f"/jobs/{'b' * 32}/log-records").status_code == 404
    for wrong in ("level=loud", "tail=0", "tail=100000000", "since=-1"):
        assert server.call("GET", f"/jobs/{JOB_ID}/log-records?{wrong}").status_code == 400


def test_records_of_one_process(server: RestHarness, processes: Processes) -> None:
    found = server.call("GET", f"/taskmanagers/te-1/log-records?job={JOB_ID}").json()
    assert [one["message"] for one in found["records"]] == ["te-1 7"] and processes.asked[0].query.job_id == JOB_ID
    assert server.call("GET", "/taskmanagers/te-9/log-records").status_code == 404
    # Tests are no service, so their process has no log of its own.
    assert server.call("GET", "/jobmanager/log-records?search=no-such-text").status_code == 200


def test_levels_are_changed_for_a_time(server: RestHarness, processes: Processes) -> None:
    body = {"levels": [{"logger": "my", "level": "DEBUG"}, {"logger": "", "level": None}], "duration": 60_000}
    found = server.call("PATCH", f"/jobs/{JOB_ID}/log-levels", json=body).json()
    assert found["processes"][0] == {
        "process": "te-1",
        "levels": [{"logger": "my", "level": "DEBUG", "job-id": JOB_ID, "is-changed": True, "remaining": 5}],
    }
    (asked,) = processes.changes
    assert [(one.logger, one.level, one.remaining_ms) for one in asked.changes] == [
        ("my", "DEBUG", 60_000),
        ("", "", 60_000),
    ]
    assert server.call("PATCH", "/taskmanagers/te-1/log-levels", json=body).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"levels": [{"logger": "my"}]},
        {"levels": [{"logger": "my", "level": ""}]},
        {"levels": [{"logger": "x" * 501, "level": "INFO"}]},
        {"levels": [{"logger": "my", "level": "INFO"}], "duration": -1},
        {"levels": [{"logger": "my", "level": "INFO"}] * 101},
    ],
)
def test_bad_levels_are_refused(server: RestHarness, body: Any) -> None:
    assert server.call("PATCH", f"/jobs/{JOB_ID}/log-levels", json=body).status_code == 400


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("bytes=0-", None),
        ("bytes=2-3", ByteRange(2, 4)),
        ("bytes=2-99", ByteRange(2, 10)),
        ("bytes=-3", ByteRange(7, 10)),
        ("bytes=-99", None),
        ("bytes=3-2", None),
        ("bytes=-", None),
        ("lines=1-2", None),
        ("bytes=1-2,4-5", None),
    ],
)
def test_ranges_of_bytes(header: str | None, expected: ByteRange | None) -> None:
    assert parse_range(header, 10) == expected


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=-0"])
def test_a_range_behind_the_end_is_refused(header: str) -> None:
    with pytest.raises(RestError) as refused:
        parse_range(header, 10)
    assert refused.value.status == 416 and refused.value.headers == {"content-range": "bytes */10"}


def test_the_last_lines_of_a_text() -> None:
    assert last_lines(b"a\nb\nc\n", 2, is_cut=False) == b"b\nc\n"
    assert last_lines(b"a\nb\nc", 5, is_cut=True) == b"b\nc"
    assert last_lines(b"", 5, is_cut=False) == b""


def test_parts_of_a_file_of_the_job_manager(tmp_path: Path) -> None:
    (tmp_path / "x.log.1").write_bytes(b"one\ntwo\nthree\n")
    (tmp_path / "empty.log").write_bytes(b"")
    server = RestHarness(configuration={"env.log.dir": str(tmp_path)})
    path = "/jobmanager/logs/x.log.1"
    assert server.call("GET", f"{path}?tail=2").text == "two\nthree\n"
    part = server.call("GET", path, headers={"range": "bytes=4-6"})
    assert (part.status_code, part.text, part.headers["content-range"]) == (206, "two", "bytes 4-6/14")
    assert server.call("GET", path, headers={"range": "bytes=14-"}).status_code == 416
    assert server.call("GET", path).text == "one\ntwo\nthree\n"
    assert server.call("GET", "/jobmanager/logs/empty.log?tail=2").text == ""
    assert server.call("GET", "/jobmanager/logs/empty.log").text == ""
