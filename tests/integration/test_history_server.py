"""The history server shows the jobs of clusters that are gone."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from browser import chromium_program, open_page, screenshot
from clusters import RunningCluster, StartCluster, run_flinkpy
from flinks_page import browser, flinks_page, require_chromium
from forked_processes import ForkingPopen
from job_support import environment, wait_until
from maven_jars import require_jars
from moto_server import moto_server
from test_rest_jobs import Counting, Failing, RestClient
from test_rest_server import PROGRAM as UPLOADED_PROGRAM
from test_rest_server import rest_client

from flinkpy.common import Types, WatermarkStrategy
from flinkpy.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flinkpy.rest.page_files import PAGE_DIRECTORY
from flinkpy.security import Audience, SecurityContext

SECRET = "a password of the cluster"
APPLICATION = "ab" * 16
OWN_PROGRAM = """
from flinkpy.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
for name in ("one", "two"):
    env.from_collection([1]).print()
    env.execute(name)
"""


@pytest.fixture
def _chromium_first(request: pytest.FixtureRequest) -> None:
    """Starts Chromium, if it is there, before the cluster: what starts later counts as left over."""
    if chromium_program() is not None and (PAGE_DIRECTORY / "index.html").exists():
        request.getfixturevalue("_chromium")


@contextmanager
def history_server(
    directory: Path, archives: str, security: SecurityContext, secret_file: str, **properties: str
) -> Iterator[httpx.Client]:
    """Runs `flinkpy historyserver` and yields a client with a token of the cluster."""
    ready = directory / "ready"
    settings = {
        "historyserver.archive.fs.dir": archives,
        "historyserver.archive.fs.refresh-interval": "100 ms",
        "historyserver.web.port": "0",
        "historyserver.web.tmpdir": str(directory / "web"),
        "env.pid.dir": str(directory / "run"),
        "security.secret-file": secret_file,
        **properties,
    }
    arguments = [f"-D{key}={value}" for key, value in settings.items()]
    with open(directory / "historyserver.log", "wb") as log:
        process = ForkingPopen(
            [sys.executable, "-m", "flinkpy.cli.main", "historyserver", "--ready-file", str(ready), *arguments],
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(ready.exists, "the history server serves")
        headers = {"authorization": f"Bearer {security.token_for(Audience.DISPATCHER)}"}
        with httpx.Client(base_url=ready.read_text().strip(), headers=headers, timeout=30) as client:
            yield client
    finally:
        process.terminate()
        assert process.wait(30) == 0
    assert list((directory / "web").iterdir()) == [] and list((directory / "run").iterdir()) == []


def test_jobs_outlive_their_cluster_and_a_dispatcher_that_dies_while_archiving(
    _chromium_first: None,
    start_cluster: StartCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    archives = tmp_path / "archives"
    tokens = tmp_path / "tokens"
    tokens.mkdir()
    (tokens / "archive.before_rename").touch()
    monkeypatch.setenv("FLINKPY_FAILPOINTS", "archive.before_rename=crash")
    monkeypatch.setenv("FLINKPY_FAILPOINT_TOKENS", str(tokens))
    properties = {"jobmanager.archive.fs.dir": archives.as_uri(), "s3.secret-key": SECRET}
    cluster = start_cluster(properties=properties, restart_services=True)
    failed = submit_failing_job(cluster)
    wait_until(lambda: archived(archives, failed), "the next Dispatcher has archived the job")
    assert list(tokens.iterdir()) == [], "the first one died while it did"
    finished = submit_finishing_job(cluster, tmp_path / "checkpoints")
    shown = cluster.flinkpy("list", "-a")
    assert failed in shown.stdout and finished in shown.stdout
    with RestClient(cluster) as rest:
        before = {path: rest.get(path) for path in paths_of(rest, finished)}
    security, secret_file = cluster.security, tmp_path / "secret"
    shutil.copy2(cluster.properties["security.secret-file"], secret_file)
    cluster.stop()

    with history_server(tmp_path, archives.as_uri(), security, str(secret_file)) as history:
        wait_until(lambda: len(history.get("/jobs/overview").json()["jobs"]) == 2, "both jobs are shown")
        states = {one["jid"]: one["state"] for one in history.get("/v1/jobs/overview").json()["jobs"]}
        assert states == {failed: "FAILED", finished: "FINISHED"}
        for path, told in before.items():
            assert without_times(history.get(path).json()) == without_times(told), path
        exceptions = history.get(f"/jobs/{failed}/exceptions").json()["exceptionHistory"]["entries"]
        assert "ValueError: no 1" in exceptions[0]["stacktrace"]
        assert history.get("/config").json()["features"]["web-history"] is True
        assert history.get("/jobs/" + "0" * 32).status_code == 404
        assert httpx.get(history.base_url.join("/jobs/overview")).status_code == 401
        settings = (f"-Denv.pid.dir={tmp_path / 'run'}", f"-Dsecurity.secret-file={secret_file}")
        printed = run_flinkpy("dashboard", "--history", "--no-browser", *settings)
        with httpx.Client(follow_redirects=True, timeout=30) as browser:
            assert browser.get(printed.stdout.strip()).status_code == 200, printed.stderr
            assert browser.get(history.base_url.join("/jobs/overview")).status_code == 200
        (single,) = (one for one in history.get("/applications/overview").json()["applications"] if one["id"] == failed)
        assert (single["status"], single["jobs"]) == ("FAILED", {"FAILED": 1})
        check_page(request, run_flinkpy("dashboard", "--history", "--no-browser", *settings).stdout, failed, finished)
    assert list(archives.rglob("*.unfinished")) == []
    written = "".join(path.read_text() for path in archives.rglob("*") if path.is_file())
    assert "s3.secret-key" in written and SECRET not in written


def check_page(request: pytest.FixtureRequest, link: str, failed: str, finished: str) -> None:
    """Looks at all pages of archived jobs in a browser. They ask for nothing that a history server does not have."""
    with open_page(request.getfixturevalue("_chromium")) as (page, _):
        page.goto(link.strip())
        ended = page.get_by_role("table", name="Ended jobs")
        page.get_by_text("This is a history server.").wait_for()
        ended.get_by_role("link", name="failing").wait_for()
        navigation = page.get_by_role("navigation", name="Main")
        assert navigation.get_by_role("link").all_inner_texts() == ["Overview", "Jobs"]
        screenshot(page, "history_overview")

        ended.get_by_role("link", name="finishing").click()
        page.get_by_role("heading", level=1, name="finishing").wait_for()
        vertices = page.get_by_role("table", name="Vertices")
        vertices.get_by_text("400", exact=True).first.wait_for()
        tabs = page.get_by_role("navigation", name="Parts of the job")
        shown = ["Graph", "Checkpoints", "Exceptions", "Timeline", "Configuration"]
        assert tabs.get_by_role("link").all_inner_texts() == shown
        assert page.get_by_role("button", name="Cancel").count() == 0
        screenshot(page, "history_graph")
        tabs.get_by_role("link", name="Checkpoints").click()
        # The last one may have failed at the end of the job.
        page.get_by_role("table", name="Subtasks of the checkpoint").get_by_text("1", exact=True).first.wait_for()
        tabs.get_by_role("link", name="Timeline").click()
        page.get_by_role("img", name="finished at").nth(3).wait_for()
        tabs.get_by_role("link", name="Configuration").click()
        page.get_by_role("table", name="Options").get_by_text("execution.checkpointing.dir").wait_for()
        tabs.get_by_role("link", name="Graph").click()
        vertices.get_by_role("link").first.click()
        page.get_by_role("table", name="Subtasks").get_by_text("FINISHED").first.wait_for()
        page.get_by_role("link", name="Accumulators").click()
        page.get_by_text("records").first.wait_for()

        page.evaluate("path => { location.hash = path }", f"/jobs/{failed}/exceptions")
        page.get_by_text("ValueError: no 1").first.wait_for()
        for path in (f"/jobs/{finished}/logs", "/taskmanagers"):
            page.evaluate("path => { location.hash = path }", path)
            page.get_by_role("heading", name="Not in the history").wait_for()


def test_applications_are_archived_on_s3(start_cluster: StartCluster, tmp_path: Path) -> None:
    with moto_server(tmp_path) as endpoint:
        httpx.put(f"{endpoint}/history").raise_for_status()
        s3 = {"s3.endpoint": endpoint, "s3.access-key": "key", "s3.secret-key": SECRET, "s3.path.style.access": "true"}
        settings = {"jobmanager.archive.fs.dir": "s3://history/jobs", **s3}
        cluster = start_cluster(num_task_executors=1, properties=settings)
        with rest_client(cluster) as client:
            uploaded = client.post("/jars/upload", files={"jarfile": ("numbers.py", UPLOADED_PROGRAM)})
            program = Path(uploaded.json()["filename"]).name
            started = client.post(f"/jars/{program}/run", json={"programArgsList": ["1"], "parallelism": 1})
            assert started.status_code == 200, started.text
        application, job = started.json()["applicationId"], started.json()["jobid"]
        own = tmp_path / "own.py"
        own.write_text(OWN_PROGRAM)
        flags = [part for key, value in settings.items() for part in ("-D", f"{key}={value}")]
        done = run_flinkpy("run-application", *flags, "-D", f"cluster.id={APPLICATION}", str(own), timeout_s=100)
        assert done.returncode == 0, done.stderr

        secret_file = cluster.properties["security.secret-file"]
        with history_server(tmp_path, "s3://history/jobs", cluster.security, secret_file, **s3) as history:
            wait_until(lambda: len(applications(history)) == 2, "both applications are in the history")
            wait_until(lambda: len(history.get("/jobs/overview").json()["jobs"]) == 3, "all their jobs are, too")
            shown = applications(history)
            assert (shown[application]["status"], shown[application]["jobs"]) == ("FINISHED", {"FINISHED": 1})
            assert (shown[APPLICATION]["status"], shown[APPLICATION]["jobs"]) == ("FINISHED", {"FINISHED": 2})
            assert shown[APPLICATION]["name"] == "own.py"
            (listed,) = history.get(f"/applications/{application}").json()["jobs"]
            assert (listed["jid"], listed["state"]) == (job, "FINISHED")
            assert history.get(f"/jobs/{job}").json()["state"] == "FINISHED"


def applications(history: httpx.Client) -> dict[str, Any]:
    return {one["id"]: one for one in history.get("/applications/overview").json()["applications"]}


@pytest.mark.differential
def test_flinks_own_page_shows_the_history(start_cluster: StartCluster, tmp_path: Path) -> None:
    jars = require_jars("flink_web_page")
    require_chromium()
    archives = tmp_path / "archives"
    cluster = start_cluster(properties={"jobmanager.archive.fs.dir": archives.as_uri()})
    failed, finished = submit_failing_job(cluster), submit_finishing_job(cluster, tmp_path / "checkpoints")
    security, secret_file = cluster.security, tmp_path / "secret"
    shutil.copy2(cluster.properties["security.secret-file"], secret_file)
    cluster.stop()
    assert archived(archives, failed) and archived(archives, finished), "a Dispatcher archives before it ends"
    logs = {
        "historyserver.log.jobmanager.url-pattern": "https://logs.example/<jobid>",
        "historyserver.log.taskmanager.url-pattern": "https://logs.example/<jobid>/<tmid>",
    }
    with history_server(tmp_path, archives.as_uri(), security, str(secret_file), **logs) as history:
        wait_until(lambda: len(history.get("/jobs/overview").json()["jobs"]) == 2, "both jobs are shown")
        source = history.get(f"/jobs/{finished}").json()["vertices"][0]
        token = security.token_for(Audience.DISPATCHER)
        with flinks_page(jars, str(history.base_url), token) as page_url, browser(page_url) as tab:
            tab.show("/overview", "finishing", "failing", "FINISHED", "FAILED")
            tab.show(f"/job/completed/{failed}/exceptions", "ValueError: no 1")
            path = f"/job/completed/{finished}"
            tab.show(f"{path}/overview/{source['id']}/subtasks", source["name"], "127.0.0.1:")
            tab.show(f"{path}/overview/{source['id']}/accumulators", "records")
            tab.show(f"{path}/checkpoints", "Latest Completed Checkpoint")
            tab.show(f"{path}/timeline", "Vertex TimeLine")
            tab.show(f"{path}/configuration", "Object reuse mode")
            tab.show(f"{path}/cluster_configuration", "jobmanager.archive.fs.dir")
            assert not tab.problems, "\n".join(tab.problems)


def submit_failing_job(cluster: RunningCluster) -> str:
    env = environment(cluster, 1)
    env.from_collection([1, 2, 3]).map(Failing()).name("with <b>").print()
    return str(env.execute_async("failing").get_job_id())


def submit_finishing_job(cluster: RunningCluster, checkpoints: Path) -> str:
    env = environment(
        cluster,
        2,
        **{"execution.checkpointing.interval": "50 ms", "execution.checkpointing.dir": checkpoints.as_uri()},
    )
    source = DataGeneratorSource(int, 400, RateLimiterStrategy.per_second(400))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    numbers.map(Counting(), output_type=Types.LONG()).key_by(lambda number: number % 7).reduce(max).print()
    client = env.execute_async("finishing")
    client.get_job_execution_result().result()
    return str(client.get_job_id())


def archived(archives: Path, job_id: str) -> bool:
    return (archives / ("0" * 32) / "applications" / job_id / "application-summary").exists()


def paths_of(rest: RestClient, job_id: str) -> list[str]:
    """Returns paths that the pages of an ended job ask for."""
    job = f"/jobs/{job_id}"
    vertices = [f"{job}/vertices/{one['id']}" for one in rest.get(job)["vertices"]]
    checkpoints = rest.get(f"{job}/checkpoints")
    assert checkpoints["counts"]["completed"] > 0
    checkpoint = f"{job}/checkpoints/details/{checkpoints['latest']['completed']['id']}"
    return [
        job,
        f"{job}/plan",
        f"{job}/exceptions",
        f"{job}/accumulators",
        f"{job}/checkpoints",
        f"{job}/checkpoints/config",
        checkpoint,
        *(f"{checkpoint}/subtasks/{vertex.rpartition('/')[2]}" for vertex in vertices),
        *vertices,
        *(
            f"{vertex}/{part}"
            for vertex in vertices
            for part in ("subtasktimes", "taskmanagers", "subtasks/accumulators")
        ),
        *(f"{vertex}/subtasks/1/attempts/0" for vertex in vertices),
    ]


def without_times(told: Any) -> Any:
    """Returns an answer without the time at which it was given."""
    return {key: value for key, value in told.items() if key != "now"}
