"""The REST API tells of a running, a finished and a failed job what the other clients know, and operates jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
from clusters import RunningCluster
from job_support import FIXED_DELAY, environment, wait_until

from flinkpy.common import Duration, Types, WatermarkStrategy
from flinkpy.common.watermark_strategy import TimestampAssigner
from flinkpy.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flinkpy.datastream.functions import MapFunction, RuntimeContext
from flinkpy.security import Audience

#: Records per second of the running job, per subtask half of them.
RATE = 400


class RestClient:
    """Calls the REST server of a cluster."""

    def __init__(self, cluster: RunningCluster) -> None:
        overview = cluster.client.request_cluster_overview()
        token = cluster.security.token_for(Audience.DISPATCHER)
        self._client = httpx.Client(
            base_url=f"{overview.rest_url}/v1", headers={"authorization": f"Bearer {token}"}, timeout=30
        )

    def __enter__(self) -> RestClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, path: str, expected: int = 200) -> Any:
        answer = self._client.get(path)
        assert answer.status_code == expected, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def send(self, verb: str, path: str, body: Any = None) -> httpx.Response:
        return self._client.request(verb, path, json=body)

    def metrics(self, path: str, *names: str) -> dict[str, str]:
        return {one["id"]: one["value"] for one in self.get(f"{path}?get={','.join(names)}")}


class Counting(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.records = runtime_context.get_int_counter("records")

    def map(self, value: int) -> int:
        self.records.add(1)
        return value


class Failing(MapFunction):
    def map(self, value: int) -> int:
        raise ValueError(f"no {value}")


class NumberIsTime(TimestampAssigner):
    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value % 1_000_000 * 1_000  # the second subtask begins in the middle of all numbers


def start_endless_job(cluster: RunningCluster, checkpoints: Path) -> str:
    """Starts a job of two vertices with two subtasks each, watermarks, checkpoints and a restart behind it."""
    env = environment(
        cluster,
        2,
        **FIXED_DELAY,
        **{"execution.checkpointing.interval": "200 ms", "execution.checkpointing.dir": checkpoints.as_uri()},
    )
    source = DataGeneratorSource(int, None, RateLimiterStrategy.per_second(RATE))
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
        NumberIsTime()
    )
    numbers = env.from_source(source, watermarks, "numbers", Types.LONG()).map(Counting(), output_type=Types.LONG())
    numbers.key_by(lambda number: number % 7).reduce(max).name("largest").filter(lambda _: False).print()
    return str(env.execute_async("endless <job>").get_job_id())


def test_a_running_job_is_told_measured_checkpointed_and_stopped(
    shared_cluster: RunningCluster, tmp_path: Path
) -> None:
    job_id = start_endless_job(shared_cluster, tmp_path / "checkpoints")
    job = f"/jobs/{job_id}"
    with RestClient(shared_cluster) as rest:
        wait_until(lambda: rest.get(job)["status-counts"]["RUNNING"] == 2, "the vertices run")
        told = rest.get(job)
        details = shared_cluster.client.request_job(job_id)
        assert (told["name"], told["start-time"]) == ("endless <job>", details.start_time_ms)
        source, sink = told["vertices"]
        assert [node["id"] for node in told["plan"]["nodes"]] == [source["id"], sink["id"]]
        (edge,) = told["plan"]["nodes"][1]["inputs"]
        assert (edge["id"], edge["ship_strategy"], edge["exchange"]) == (source["id"], "HASH", "pipelined_bounded")

        vertex = rest.get(f"{job}/vertices/{source['id']}")
        by_cli = {one.subtask_index: one for one in details.vertices[0].subtasks}
        assert {one["subtask"]: one["taskmanager-id"] for one in vertex["subtasks"]} == {
            index: one.resource_id for index, one in by_cli.items()
        }
        managers = rest.get(f"{job}/vertices/{source['id']}/taskmanagers")["taskmanagers"]
        assert sum(one["status-counts"]["RUNNING"] for one in managers) == 2

        check_rates(shared_cluster, rest, job_id, source["id"])
        check_watermarks(rest, f"{job}/vertices/{sink['id']}")
        wait_until(lambda: rest.get(f"{job}/accumulators")["user-task-accumulators"], "a snapshot of the accumulators")
        subtasks = rest.get(f"{job}/vertices/{source['id']}/subtasks/accumulators")["subtasks"]
        assert {one["name"] for each in subtasks for one in each["user-accumulators"]} == {"records"}

        check_checkpoints(rest, job, source["id"])
        check_stop(rest, job, tmp_path / "savepoint")
        wait_until(lambda: rest.get(job)["state"] == "FINISHED", "the job has ended")
        # The archive keeps everything but the metrics of the tasks. Answers may be as old as web.refresh-interval.
        vertex_path = f"{job}/vertices/{source['id']}"
        wait_until(lambda: rest.get(vertex_path)["subtasks"][0]["status"] == "FINISHED", "the answer is fresh")
        assert rest.get(f"{job}/checkpoints")["counts"]["completed"] >= 2
        kept = rest.get(f"{job}/vertices/{source['id']}/subtasks/accumulators")["subtasks"]
        assert all(int(one["value"]) > 0 for each in kept for one in each["user-accumulators"])
        assert rest.get(f"{job}/execution-result")["job-execution-result"]["application-status"] == "SUCCEEDED"


def check_rates(cluster: RunningCluster, rest: RestClient, job_id: str, source_id: str) -> None:
    """Rates are rates, times are from 0 to 1000, and the CLI shows the values of REST."""
    path = f"/jobs/{job_id}/vertices/{source_id}"
    names = ("numRecordsOutPerSecond", "busyTimeMsPerSecond", "idleTimeMsPerSecond", "backPressuredTimeMsPerSecond")
    wanted = [f"{index}.{name}" for index in range(2) for name in names]

    def measured() -> dict[str, str] | None:
        found = rest.metrics(f"{path}/metrics", *wanted)
        total = sum(float(found.get(f"{index}.numRecordsOutPerSecond", 0)) for index in range(2))
        # The time in which a task is opened is none of the three. The longer it runs, the less this counts.
        is_measured = RATE * 0.5 < total < RATE * 1.5 and all(sum(shares(found, index)) >= 700 for index in range(2))
        return found if is_measured else None

    def shares(found: dict[str, str], index: int) -> list[float]:
        return [float(found[f"{index}.{name}"]) for name in names[1:]]

    found = wait_until(measured, "the rate is that of the source, and a task is either busy, idle or back-pressured")
    for index in range(2):
        assert all(0 <= share <= 1000 for share in shares(found, index))
        assert sum(shares(found, index)) <= 1_050, f"a task is in one of three states at a time: {found}"
    shown = json.loads(cluster.flinkpy("metrics", "--json", "-f", "*TimeMsPerSecond", job_id).stdout)["metrics"]
    assert {one["kind"] for one in shown} == {"gauge"} and {one["name"] for one in shown} >= set(names[1:])
    assert all(0 <= one["value"] <= 1000 for one in shown)
    (skew,) = rest.get(f"{path}/subtasks/metrics?get=numRecordsOut&agg=min,sum")
    assert 0 < skew["min"] <= skew["sum"]
    pressure = rest.get(f"{path}/backpressure")
    assert (pressure["status"], pressure["backpressureLevel"], len(pressure["subtasks"])) == ("ok", "ok", 2)


def check_watermarks(rest: RestClient, vertex: str) -> None:
    def positive() -> bool:
        found = {one["id"]: int(one["value"]) for one in rest.get(f"{vertex}/watermarks")}
        return set(found) == {"0.currentInputWatermark", "1.currentInputWatermark"} and min(found.values()) > 0

    wait_until(positive, "watermarks arrive")
    names = [one["id"] for one in rest.get(f"{vertex}/subtasks/0/metrics")]
    assert any(name.endswith(".currentOutputWatermark") for name in names)


def check_checkpoints(rest: RestClient, job: str, source_id: str) -> None:
    def completed() -> Any:
        told = rest.get(f"{job}/checkpoints")
        return told if told["counts"]["completed"] >= 2 else None

    told = wait_until(completed, "checkpoints complete")
    last = told["latest"]["completed"]
    assert (last["className"], last["num_acknowledged_subtasks"]) == ("completed", 4)
    assert told["summary"]["end_to_end_duration"]["max"] >= told["summary"]["end_to_end_duration"]["min"] > 0
    details = rest.get(f"{job}/checkpoints/details/{last['id']}")
    assert details["tasks"][source_id]["num_acknowledged_subtasks"] == 2
    task = rest.get(f"{job}/checkpoints/details/{last['id']}/subtasks/{source_id}")
    assert [one["className"] for one in task["subtasks"]] == ["completed", "completed"]
    config = rest.get(f"{job}/checkpoints/config")
    assert (config["interval"], config["checkpoint_storage"]) == (200, "FileSystemCheckpointStorage")


def check_stop(rest: RestClient, job: str, directory: Path) -> None:
    """Stops the job with a savepoint, once, although the trigger is sent twice."""
    body = {"targetDirectory": directory.as_uri(), "drain": False, "triggerId": "5" * 32}
    answers = [rest.send("POST", f"{job}/stop", body) for _ in range(2)]
    assert [(one.status_code, one.json()) for one in answers] == [(202, {"request-id": "5" * 32})] * 2

    def ended() -> Any:
        status = rest.get(f"{job}/savepoints/{'5' * 32}")
        return status if status["status"]["id"] == "COMPLETED" else None

    location = wait_until(ended, "the savepoint is complete")["operation"]["location"]
    assert Path(location).parent == directory
    assert len(list(directory.iterdir())) == 1


def test_a_failed_job_tells_the_users_error_and_cannot_be_canceled(shared_cluster: RunningCluster) -> None:
    env = environment(shared_cluster, 2)
    env.from_sequence(1, 60).map(Failing()).print()
    job_id = str(env.execute_async("failing").get_job_id())
    with RestClient(shared_cluster) as rest:
        wait_until(lambda: rest.get(f"/jobs/{job_id}/status")["status"] == "FAILED", "the job fails")
        wait_until(lambda: rest.get(f"/jobs/{job_id}")["state"] == "FAILED", "the answer is fresh")
        history = rest.get(f"/jobs/{job_id}/exceptions")["exceptionHistory"]
        root = history["entries"][0]
        assert root["exceptionName"] == "FunctionError" and "ValueError: no " in root["stacktrace"]
        assert "raise ValueError" in root["stacktrace"]
        vertices = shared_cluster.client.request_job(job_id).vertices
        assert root["taskManagerId"] in {one.resource_id for vertex in vertices for one in vertex.subtasks}
        result = rest.get(f"/jobs/{job_id}/execution-result")["job-execution-result"]
        assert result["application-status"] == "FAILED" and "ValueError" in result["failure-cause"]["stack-trace"]
        refused = rest.send("PATCH", f"/jobs/{job_id}")
        assert refused.status_code == 409 and "(FAILED)" in refused.json()["errors"][0]


def test_a_job_is_canceled_through_rest(shared_cluster: RunningCluster, tmp_path: Path) -> None:
    job_id = start_endless_job(shared_cluster, tmp_path / "checkpoints")
    with RestClient(shared_cluster) as rest:
        wait_until(lambda: rest.get(f"/jobs/{job_id}/status")["status"] == "RUNNING", "the job runs")
        assert rest.send("PATCH", f"/jobs/{job_id}?mode=cancel").status_code == 202
        wait_until(lambda: rest.get(f"/jobs/{job_id}/status")["status"] == "CANCELED", "the job is canceled")
