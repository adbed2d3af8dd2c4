"""`flinkpy top`: the live view of snapshots, driven by keys."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from flinkpy.cli import main
from flinkpy.cli.job_progress import JobProgress, VertexProgress, VertexTotals
from flinkpy.cli.top import command
from flinkpy.cli.top.app import TopApp
from flinkpy.cli.top.snapshot import ClusterSnapshot, TaskExecutorUse, ordered, records_in_per_s
from flinkpy.common.errors import RpcUnavailableError
from flinkpy.common.states import JobState

#: Longer than a test takes: snapshots are collected when the test says so.
NEVER_S = 3600.0


def vertex(name: str, *inputs: str, rate: float = 0.0, **ratios: float) -> VertexProgress:
    totals = VertexTotals(name, name, 2, {"RUNNING": 2}, inputs=inputs)
    return VertexProgress(totals, records_in_per_s=rate, records_out_per_s=rate, **ratios)


def job(letter: str, state: JobState = JobState.RUNNING, rate: float = 0.0, **fields: Any) -> JobProgress:
    vertices = (
        vertex("Source: a source with quite a long name", rate=rate, busy=0.2, back_pressured=0.8),
        vertex("sink", "Source: a source with quite a long name", rate=rate * 2, busy=1.0, back_pressured=0.0),
    )
    return JobProgress(letter * 32, f"job {letter}", state, 61_000, vertices, **fields)


def snapshot(*jobs: JobProgress) -> ClusterSnapshot:
    executors = tuple(
        TaskExecutorUse(f"taskexecutor-127.0.0.1-{n}", f"127.0.0.1:4000{n}", 2, 1, 0.95, 200 << 20) for n in (1, 2)
    )
    return ClusterSnapshot("127.0.0.1:6123", 1_000, 4, 2, 2, jobs, executors)


JOBS = (job("a", rate=10.0), job("b", rate=30.0), job("c", JobState.FINISHED))


class Cluster:
    """Gives the next snapshot, or raises the error that is set."""

    def __init__(self, *jobs: JobProgress) -> None:
        self.jobs = jobs
        self.error: RpcUnavailableError | None = None

    def collect(self) -> ClusterSnapshot:
        if self.error is not None:
            raise self.error
        return snapshot(*self.jobs)


def drive(cluster: Cluster, test: Callable[[TopApp, Pilot[None]], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        app = TopApp(cluster.collect, NEVER_S)
        async with app.run_test(size=(80, 24)) as pilot:
            await app.workers.wait_for_complete()
            await pilot.pause()
            await test(app, pilot)

    asyncio.run(run())


async def refresh(app: TopApp, pilot: Pilot[None]) -> None:
    app._refresh()
    await app.workers.wait_for_complete()
    await pilot.pause()


def keys(app: TopApp, table: str) -> list[str]:
    return [str(key.value) for key in app.query_one(f"#{table}", DataTable).rows]


def shown(app: TopApp) -> str:
    return "\n".join("".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips())


def test_jobs_and_task_executors_are_shown_in_80_columns() -> None:
    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        text = shown(app)
        assert "127.0.0.1:6123: 2 running jobs, 2 TaskExecutors, 2 of 4 slots used" in text
        row = next(line for line in text.splitlines() if "bbbbbbbb" in line)
        assert row.split() == ["bbbbbbbb", "job", "b", "RUNNING", "1:01", "30", "100%", "80%", "0", "0"]
        assert "95%" in text and "200.0 MB" in text

    drive(Cluster(*JOBS), test)


def test_s_sorts_the_jobs_by_the_next_column() -> None:
    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        assert [key[0] for key in keys(app, "jobs")] == ["a", "b", "c"]
        await pilot.press("s")
        assert app.order == "rows/s"
        assert [key[0] for key in keys(app, "jobs")] == ["b", "a", "c"]

    drive(Cluster(*JOBS), test)


def test_enter_shows_the_vertices_of_the_selected_job_and_escape_goes_back() -> None:
    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("down", "enter")
        assert "b" * 32 in shown(app)
        vertices = app.query_one("#vertices", DataTable)
        assert vertices.row_count == 2 and vertices.display
        header = next(line for line in shown(app).splitlines() if "BackPr" in line)
        assert "Rows out" in header, "all columns fit into 80"
        await pilot.press("escape")
        assert app.query_one("#jobs", DataTable).display and not vertices.display

    drive(Cluster(*JOBS), test)


def test_the_cursor_stays_at_its_job_when_others_come() -> None:
    cluster = Cluster(*JOBS)

    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("down")
        cluster.jobs = (job("0"), *JOBS, job("z"))
        await refresh(app, pilot)
        await pilot.press("enter")
        assert "b" * 32 in shown(app)

    drive(cluster, test)


def test_a_cluster_that_does_not_answer_is_said_and_the_last_view_stays() -> None:
    cluster = Cluster(*JOBS)

    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        cluster.error = RpcUnavailableError("connection [refused]")
        await refresh(app, pilot)
        assert "The cluster does not answer: connection [refused]" in shown(app)
        assert len(keys(app, "jobs")) == 3
        cluster.error = None
        await refresh(app, pilot)
        assert not app.query_one("#problem", Static).display

    drive(cluster, test)


def test_an_open_job_that_is_forgotten_leads_back_to_the_list() -> None:
    cluster = Cluster(*JOBS)

    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("enter")
        cluster.jobs = ()
        await refresh(app, pilot)
        assert app.query_one("#jobs", DataTable).display

    drive(cluster, test)


def test_p_pauses_and_d_changes_the_theme_and_q_quits() -> None:
    cluster = Cluster(*JOBS)

    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("p")
        cluster.jobs = ()
        await refresh(app, pilot)
        assert len(keys(app, "jobs")) == 3 and "PAUSED" in shown(app)
        before = app.theme
        await pilot.press("d")
        assert app.theme != before
        await pilot.press("q")
        assert app.return_code == 0

    drive(cluster, test)


def test_jobs_are_ordered_by_what_they_do() -> None:
    back_pressured = JobProgress("d" * 32, "d", JobState.RUNNING, 0, (vertex("v", back_pressured=1.0),), num_restarts=3)
    jobs = (*JOBS, back_pressured)
    assert ordered(jobs, "rows/s")[0].job_id[0] == "b"
    assert ordered(jobs, "restarts")[0].job_id[0] == "d"
    assert ordered(jobs, "back-pressure")[0].job_id[0] == "d"
    assert ordered(jobs, "state")[-1].job_id[0] == "c"


def test_the_rate_of_a_job_is_that_of_its_sources() -> None:
    assert records_in_per_s(job("a", rate=10.0)) == 10.0
    assert records_in_per_s(JobProgress("a", "a", JobState.RUNNING, 0, ())) is None


def test_without_textual_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without_textual(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "textual":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_textual)
    monkeypatch.setattr(command.sys.stdout, "isatty", lambda: True, raising=False)
    assert main.run(["top"]) == 2
    assert "pip install 'flinkpy[top]'" in capsys.readouterr().err
