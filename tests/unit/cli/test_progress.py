"""The display of a running job: what is drawn in 80 columns, in colours that suit dark and light terminals."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from flinkpy._proto import common_pb2, job_pb2
from flinkpy.cli import progress as shown
from flinkpy.cli.job_progress import CheckpointProgress, JobProgress, VertexProgress, VertexTotals
from flinkpy.cli.tables import format_clock, format_rate, format_short_count
from flinkpy.common.states import JobState

JOB = "a1" * 16


def vertex(name: str, **rates: float) -> VertexProgress:
    totals = VertexTotals(name, name, 2, {"RUNNING": 1, "FINISHED": 1}, records_in=1_234_567, records_out=999)
    return VertexProgress(totals, **rates)


def job(*vertices: VertexProgress, **fields: object) -> JobProgress:
    return JobProgress(JOB, "words", JobState.RUNNING, 61_000, vertices, **fields)  # type: ignore[arg-type]


def drawn(progress: JobProgress, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, record=True)
    console.print(shown.progress_display(progress, now_ms=100_000))
    return console.export_text().splitlines()


def test_a_job_is_drawn_in_80_columns() -> None:
    lines = drawn(
        job(
            vertex("Source: lines with a long name -> Map -> Filter", records_in_per_s=250_000.0, busy=0.5),
            vertex("Sink", records_out_per_s=0.5, back_pressured=0.97),
            fraction=0.25,
            remaining_ms=183_000,
            num_restarts=1,
            checkpoints=CheckpointProgress(12, 1, 0, 34, 2048, 97_000),
            num_slots_required=4,
            num_slots_held=4,
        )
    )
    assert lines[0].startswith(f"{JOB} RUNNING 1:01  25% done, 3:03 left  words")
    assert lines[1].split() == ["Vertex", "Tasks", "Rows", "in", "in/s", "Rows", "out", "out/s", "Busy", "BackPr"]
    assert lines[2].startswith("Source: lines with a long na") and "…" in lines[2]
    assert lines[2].split()[-7:] == ["2/2", "1.23M", "250k", "999", "-", "50%", "-"]
    assert lines[3].split() == ["Sink", "2/2", "1.23M", "-", "999", "0.5", "-", "97%"]
    assert lines[4] == "12 checkpoints, last 2.0 KB in 34 ms, 0:03 ago, 1 failed   1 restart".ljust(len(lines[4]))
    assert max(map(len, lines)) <= 80


def test_without_an_estimate_no_time_is_shown() -> None:
    assert drawn(job())[0].split() == [JOB, "RUNNING", "1:01", "words"]


def test_missing_slots_are_shown() -> None:
    assert drawn(job(num_slots_required=4, num_slots_held=1))[-1].strip() == "1 of 4 slots"


def test_colours_are_those_of_the_terminal_theme() -> None:
    """Named colours follow the theme of the terminal; fixed ones would be unreadable on either dark or light."""
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="truecolor")
    console.print(shown.progress_display(job(vertex("v", busy=0.9, back_pressured=0.9)), now_ms=0))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "\x1b[1;31m" in text, "high back-pressure is red"
    assert "38;2;" not in text and "48;" not in text


def test_a_job_name_cannot_send_escape_codes() -> None:
    progress = JobProgress(JOB, "\x1b[2Jx", JobState.RUNNING, 0, (vertex("\x1b]0;y"),))
    assert "\x1b" not in "".join(drawn(progress, width=200))


def test_one_line_has_the_progress_for_logs() -> None:
    one = job(vertex("v", records_in_per_s=10.0, back_pressured=0.6), fraction=0.5, remaining_ms=61_000)
    line = shown.progress_line(one)
    assert line == "RUNNING 1:01; 50% done, 1:01 left; v: 1.23M in, 999 out, 10/s back-pressured 60%"


def details(status: int = common_pb2.RUNNING, num_restarts: int = 0) -> job_pb2.JobDetails:
    found = job_pb2.JobDetails(job_id=JOB, name="words", status=status, num_restarts=num_restarts, start_time_ms=1)
    found.vertices.add(id="v", name="v", parallelism=1)
    if num_restarts:
        failure = found.exception_history.add(timestamp_ms=1, task_name="v (1/1)")
        failure.error.message = "broken"
    return found


def test_a_pipe_gets_changes_of_status_only(capsys: pytest.CaptureFixture[str]) -> None:
    observer = shown.observer_factory("auto", is_quiet=False)(JOB, "words")
    for _ in range(3):
        observer.on_details(details())
    observer.on_end(JobState.FINISHED)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[1:] == [f"words ({JOB}): RUNNING", f"words ({JOB}): FINISHED"]


def test_always_prints_a_line_of_progress_at_an_interval(capsys: pytest.CaptureFixture[str]) -> None:
    now_s = [0.0]
    observer = shown.LineProgress(JOB, "words", interval_s=10.0, clock_s=lambda: now_s[0])
    for second in range(21):
        now_s[0] = float(second)
        observer.on_details(details())
    lines = [line for line in capsys.readouterr().err.splitlines() if "in, 0 out" in line]
    assert len(lines) == 2


def test_quiet_shows_restarts_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    observer = shown.observer_factory("auto", is_quiet=True)(JOB, "words")
    observer.on_details(details())
    observer.on_details(details(num_restarts=1))
    observer.on_end(JobState.FINISHED)
    assert capsys.readouterr().err == f"words ({JOB}): restart 1: broken (v (1/1))\n"


def test_a_terminal_gets_a_table_and_the_last_one_stays(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    observer = shown.TerminalProgress(JOB, "words", console)
    observer.on_details(details())
    observer.on_details(details(num_restarts=1))
    observer.on_end(JobState.FINISHED)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "Rows out" in text and f"{JOB} restart 1: broken" in text
    assert capsys.readouterr().err.endswith(f"{JOB} FINISHED\n")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.00k"),
        (99_960, "100k"),
        (999_700, "1.00M"),
        (12_345_678, "12.3M"),
        (5e15, "5.00P"),
    ],
)
def test_counts_are_short(count: float, text: str) -> None:
    assert format_short_count(count) == text


def test_rates_and_clocks_are_short() -> None:
    assert [format_rate(one) for one in (None, 0.0, 0.25, 9.9, 1500.0)] == ["-", "0", "0.2", "9.9", "1.50k"]
    assert [format_clock(one) for one in (-5, 7_900, 61_000, 3_661_000)] == ["0:00", "0:07", "1:01", "1:01:01"]
