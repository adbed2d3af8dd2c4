"""Shows the progress of a running job on standard error. Standard output belongs to the program.

A terminal shows a table that is redrawn: work and rates of each vertex, back-pressure, checkpoints and the remaining
time. Other outputs get one line per change of status. Both get a line for each restart, with its cause, and a line when
the job waits for slots.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import click

from flinkpy.cli.job_progress import CheckpointProgress, JobMeter, JobProgress, VertexProgress
from flinkpy.cli.tables import format_bytes, format_clock, format_duration_ms, format_rate, format_short_count
from flinkpy.client.job_watch import JobNotices
from flinkpy.common.clock import SystemClock
from flinkpy.common.error_text import escaped_line
from flinkpy.common.states import JobState

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from flinkpy._proto import checkpoint_pb2, job_pb2

ProgressMode = Literal["auto", "always", "never"]
PROGRESS_MODES: tuple[ProgressMode, ...] = ("auto", "always", "never")

#: Interval of lines of progress where there is no terminal and `--progress always` asks for them: a log of an hour
#: has 360 of them.
LINE_INTERVAL_S = 10.0
#: Parts of the time of tasks from which on a number is shown as a warning or as critical. Flink's page uses the same
#: limits for its words `low` and `high`.
WARNING_RATIO, CRITICAL_RATIO = 0.1, 0.5

STATUS_STYLES = {
    JobState.RUNNING: "green",
    JobState.FINISHED: "green",
    JobState.FAILED: "red",
    JobState.FAILING: "red",
    JobState.RESTARTING: "yellow",
    JobState.CANCELLING: "yellow",
    JobState.CANCELED: "yellow",
    JobState.SUSPENDED: "yellow",
}


class TerminalProgress:
    """Redraws a table of the job's vertices. The id of the job comes first, so that no terminal cuts it off.

    Args:
        job_id: id of the job.
        name: name of the job.
        console: where to draw; None means standard error.
    """

    shows_checkpoints = True

    def __init__(self, job_id: str, name: str, console: Console | None = None) -> None:
        self._job_id = job_id
        self._console = console
        self._notices = JobNotices()
        self._meter = JobMeter()
        self._live: Live | None = None
        show_submitted(job_id, name)

    def on_details(
        self, details: job_pb2.JobDetails, statistics: checkpoint_pb2.CheckpointStatisticsResponse | None = None
    ) -> None:
        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            console = self._console or Console(stderr=True)
            # Output of the program appears above the table if both go to the terminal. A redirected standard output
            # stays where it goes.
            self._live = Live(console=console, auto_refresh=False, transient=False, redirect_stdout=sys.stdout.isatty())
            self._live.start()
        for line in self._notices.restarts(details):
            self.on_notice(line)
        progress = self._meter.on_details(details, statistics, now_s=time.monotonic(), now_ms=_now_ms())
        self._live.update(progress_display(progress, now_ms=_now_ms()), refresh=True)

    def on_notice(self, text: str) -> None:
        """Prints a line above the table, where it stays."""
        line = f"{self._job_id} {text}"
        if self._live is None:
            click.echo(line, err=True)
        else:
            self._live.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def on_end(self, status: JobState) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        click.echo(f"{self._job_id} {status.name}", err=True)


def _now_ms() -> int:
    return SystemClock().now_ms()


# --- rendering --------------------------------------------------------------------------------------------------------


def progress_display(progress: JobProgress, *, now_ms: int) -> Any:
    """Returns what rich draws for the progress of a job: a title, a table of the vertices and a line below it."""
    from rich.console import Group
    from rich.text import Text

    title = Text(no_wrap=True, overflow="ellipsis")
    title.append(f"{progress.job_id} ", style="bold")
    title.append(progress.status.name, style=STATUS_STYLES.get(progress.status, ""))
    title.append(f" {format_clock(progress.elapsed_ms)}")
    if progress.fraction is not None:
        title.append(f"  {progress.fraction:.0%} done", style="bold")
    if progress.remaining_ms is not None:
        title.append(f", {format_clock(progress.remaining_ms)} left", style="bold")
    title.append(f"  {escaped_line(progress.name)}", style="italic")
    lines: list[Any] = [title, vertex_table(progress.vertices)]
    below = below_table(progress, now_ms=now_ms)
    if below:
        lines.append(Text(below, style="dim", no_wrap=True, overflow="ellipsis"))
    return Group(*lines)


def vertex_table(vertices: tuple[VertexProgress, ...]) -> Any:
    """Returns a table of the vertices that fits into 80 columns. Long names of vertices are cut."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    # rich narrows columns that may wrap before the others. The cells themselves do not wrap.
    table.add_column("Vertex", min_width=12)
    for header in ("Tasks", "Rows in", "in/s", "Rows out", "out/s", "Busy", "BackPr"):
        table.add_column(header, justify="right", no_wrap=True)
    for vertex in vertices:
        totals = vertex.totals
        parallelism = totals.parallelism if totals.parallelism > 0 else "?"
        table.add_row(
            Text(escaped_line(totals.name), no_wrap=True, overflow="ellipsis"),
            f"{totals.num_started}/{parallelism}",
            format_short_count(totals.records_in),
            format_rate(vertex.records_in_per_s),
            format_short_count(totals.records_out),
            format_rate(vertex.records_out_per_s),
            ratio_text(vertex.busy, is_bad=False),
            ratio_text(vertex.back_pressured, is_bad=True),
        )
    return table


def ratio_text(ratio: float | None, *, is_bad: bool) -> Any:
    """Returns a percentage; `is_bad`: a high one has the colour of a warning."""
    from rich.text import Text

    if ratio is None:
        return Text("-", style="dim")
    style = ""
    if is_bad and ratio >= WARNING_RATIO:
        style = "bold red" if ratio >= CRITICAL_RATIO else "yellow"
    return Text(f"{ratio:.0%}", style=style)


def below_table(progress: JobProgress, *, now_ms: int) -> str:
    """Returns the line about checkpoints, restarts and missing slots; empty if there is nothing to tell."""
    parts = []
    checkpoints = progress.checkpoints
    if checkpoints.num_completed or checkpoints.num_failed or checkpoints.num_in_progress:
        parts.append(checkpoint_text(checkpoints, now_ms=now_ms))
    if progress.num_restarts:
        parts.append(f"{progress.num_restarts} restarts" if progress.num_restarts > 1 else "1 restart")
    if progress.num_slots_held < progress.num_slots_required and not progress.status.is_terminal:
        parts.append(f"{progress.num_slots_held} of {progress.num_slots_required} slots")
    return "   ".join(parts)


def checkpoint_text(checkpoints: CheckpointProgress, *, now_ms: int) -> str:
    text = "1 checkpoint" if checkpoints.num_completed == 1 else f"{checkpoints.num_completed} checkpoints"
    if checkpoints.last_end_ms is not None:
        assert checkpoints.last_duration_ms is not None and checkpoints.last_size_bytes is not None
        ago_ms = max(0, now_ms - checkpoints.last_end_ms)
        text += (
            f", last {format_bytes(checkpoints.last_size_bytes)} in "
            f"{format_duration_ms(checkpoints.last_duration_ms)}, {format_clock(ago_ms)} ago"
        )
    if checkpoints.num_failed:
        text += f", {checkpoints.num_failed} failed"
    if checkpoints.num_in_progress:
        text += f", {checkpoints.num_in_progress} in progress"
    return text


def progress_line(progress: JobProgress) -> str:
    """Returns the progress in one line, for logs."""
    parts = [f"{progress.status.name} {format_clock(progress.elapsed_ms)}"]
    if progress.fraction is not None:
        left = "" if progress.remaining_ms is None else f", {format_clock(progress.remaining_ms)} left"
        parts.append(f"{progress.fraction:.0%} done{left}")
    for vertex in progress.vertices:
        totals = vertex.totals
        rate = format_rate(vertex.records_in_per_s if totals.records_in else vertex.records_out_per_s)
        pressed = "" if (vertex.back_pressured or 0) < WARNING_RATIO else f" back-pressured {vertex.back_pressured:.0%}"
        parts.append(
            f"{escaped_line(totals.name)}: {format_short_count(totals.records_in)} in, "
            f"{format_short_count(totals.records_out)} out, {rate}/s{pressed}"
        )
    return "; ".join(parts)


# --- lines ------------------------------------------------------------------------------------------------------------


class LineProgress:
    """Prints a line when the status of the job changes, when it restarts, or when it waits.

    Args:
        job_id: id of the job.
        name: name of the job.
        interval_s: also print the progress in this interval; None: do not.
        clock_s: a monotonic clock.
    """

    def __init__(
        self,
        job_id: str,
        name: str,
        *,
        interval_s: float | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title = f"{name} ({job_id})"
        self._status: JobState | None = None
        self._notices = JobNotices()
        self._meter = JobMeter()
        self._interval_s = interval_s
        self._clock_s = clock_s
        self._next_s = clock_s() + (interval_s or 0)
        self.shows_checkpoints = False
        show_submitted(job_id, name)

    def on_details(
        self, details: job_pb2.JobDetails, statistics: checkpoint_pb2.CheckpointStatisticsResponse | None = None
    ) -> None:
        for line in self._notices.restarts(details):
            self.on_notice(line)
        if details.status:
            self._show(JobState(details.status))
        if self._interval_s is None:
            return
        now_s = self._clock_s()
        progress = self._meter.on_details(details, statistics, now_s=now_s, now_ms=_now_ms())
        if now_s >= self._next_s and not progress.status.is_terminal:
            self._next_s = now_s + self._interval_s
            self.on_notice(progress_line(progress))

    def on_notice(self, text: str) -> None:
        click.echo(f"{self._title}: {text}", err=True)

    def on_end(self, status: JobState) -> None:
        self._show(status)

    def _show(self, status: JobState) -> None:
        if status is not self._status:
            self._status = status
            click.echo(f"{self._title}: {status.name}", err=True)


class QuietProgress:
    """Shows only what needs attention: restarts, missing slots, and what Ctrl-C does to the job."""

    shows_checkpoints = False

    def __init__(self, job_id: str, name: str) -> None:
        self._title = f"{name} ({job_id})"
        self._notices = JobNotices()

    def on_details(
        self, details: job_pb2.JobDetails, statistics: checkpoint_pb2.CheckpointStatisticsResponse | None = None
    ) -> None:
        for line in self._notices.restarts(details):
            self.on_notice(line)

    def on_notice(self, text: str) -> None:
        click.echo(f"{self._title}: {text}", err=True)

    def on_end(self, status: JobState) -> None:
        return


def show_submitted(job_id: str, name: str) -> None:
    """Prints the id of the job and the command that shows the output of its functions."""
    click.echo(f"{name} ({job_id}): submitted; `flinkpy logs {job_id}` shows the output of its functions", err=True)


def observer_factory(
    mode: ProgressMode, *, is_quiet: bool
) -> Callable[[str, str], TerminalProgress | LineProgress | QuietProgress]:
    """Returns a function that makes the display for one job: a table on a terminal, else lines.

    Args:
        mode: `auto`: progress on a terminal only; `always`: elsewhere a line every LINE_INTERVAL_S; `never`: lines of
            status only.
        is_quiet: show only what needs attention.
    """

    def make(job_id: str, name: str) -> TerminalProgress | LineProgress | QuietProgress:
        if is_quiet:
            return QuietProgress(job_id, name)
        if mode != "never" and sys.stderr.isatty():
            return TerminalProgress(job_id, name)
        return LineProgress(job_id, name, interval_s=LINE_INTERVAL_S if mode == "always" else None)

    return make
