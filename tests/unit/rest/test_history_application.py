"""The history server answers with archives, under the access rules of the REST server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from rest_harness import HOST, NOW_MS

from flinkpy.common.clock import ManualClock
from flinkpy.rest.access import RestAccess
from flinkpy.rest.history import HistoryOptions, history_application
from flinkpy.security import Audience, ClusterSecret, Role

SECRET = ClusterSecret(bytes(range(32)))
JOB = "a" * 32


class TestingArchives:
    __test__ = False

    def find(self, path: str) -> bytes | None:
        overview = {"jobs": [{"jid": JOB, "state": "FAILED"}]}
        options = [{"key": "parallelism.default", "value": "3"}]
        answers = {
            "/jobs/overview": json.dumps(overview).encode(),
            f"/jobs/{JOB}": b'{"state": "FAILED"}',
            f"/jobs/{JOB}/jobmanager/config": json.dumps(options).encode(),
        }
        return answers.get(path)


def call(verb: str, path: str, options: HistoryOptions | None = None, **arguments: Any) -> httpx.Response:
    access = RestAccess(SECRET, frozenset(), "http", ManualClock(NOW_MS))
    application = history_application(TestingArchives(), access, options or HistoryOptions())
    token = SECRET.token(Role.READ, Audience.DISPATCHER, NOW_MS // 1000 + 60)
    headers = arguments.pop("headers", {"authorization": f"Bearer {token}"})

    async def request() -> httpx.Response:
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            return await client.request(verb, path, headers=headers, **arguments)

    return asyncio.run(request())


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_archived_answers_are_served_with_and_without_version(prefix: str) -> None:
    assert call("GET", f"{prefix}/jobs/{JOB}").json() == {"state": "FAILED"}
    assert call("GET", f"{prefix}/jobs").json() == {"jobs": [{"id": JOB, "status": "FAILED"}]}
    overview = call("GET", f"{prefix}/overview").json()
    assert (overview["jobs-failed"], overview["jobs-finished"]) == (1, 0)


def test_paths_that_no_archive_has_are_404_in_flinks_words() -> None:
    answer = call("GET", f"/jobs/{'b' * 32}")
    assert answer.status_code == 404
    assert answer.json() == {"errors": [f"Unable to load requested file /jobs/{'b' * 32}."]}


def test_metrics_of_an_archived_job_are_empty() -> None:
    for path in ("metrics", f"vertices/{'c' * 32}/metrics?get=x", f"vertices/{'c' * 32}/watermarks"):
        assert call("GET", f"/v1/jobs/{JOB}/{path}").json() == []
    assert call("GET", f"/jobs/{'b' * 32}/metrics").status_code == 404


def test_options_are_explained_for_archives_that_flink_has_written() -> None:
    (option,) = call("GET", f"/v1/jobs/{JOB}/options").json()["options"]
    assert (option["key"], option["value"], option["source"], option["effect"]) == (
        "parallelism.default", "3", "CLUSTER", "ACTS",
    )  # fmt: skip
    assert call("GET", f"/jobs/{'b' * 32}/options").status_code == 404


def test_nothing_can_be_changed_and_nobody_gets_in_without_a_token() -> None:
    assert call("PATCH", f"/jobs/{JOB}").status_code == 405
    assert call("GET", f"/jobs/{JOB}", headers={}).status_code == 401
    assert call("GET", f"/jobs/{JOB}", headers={"host": "evil.example"}).status_code == 403
    assert call("GET", f"/jobs/{JOB}").headers["x-frame-options"] == "DENY"


def test_a_browser_gets_a_ticket() -> None:
    assert call("POST", "/v1/dashboard/ticket").json()["path"].startswith("/login?ticket=")


def test_the_page_knows_that_it_shows_history() -> None:
    told = call("GET", "/config").json()
    assert told["refresh-interval"] == 10_000
    assert told["features"] == {
        "web-submit": False, "web-cancel": False, "web-rescale": False, "web-history": True,
    }  # fmt: skip


def test_urls_of_logs_follow_the_patterns() -> None:
    options = HistoryOptions(job_manager_log="https://logs/<jobid>", task_manager_log="https://logs/<jobid>/<tmid>")
    assert call("GET", f"/jobs/{JOB}/jobmanager/log-url", options).json() == {"url": f"https://logs/{JOB}"}
    told = call("GET", f"/jobs/{JOB}/taskmanagers/tm-1/log-url", options).json()
    assert told == {"url": f"https://logs/{JOB}/tm-1"}
    assert call("GET", f"/jobs/{JOB}/jobmanager/log-url").status_code == 404
