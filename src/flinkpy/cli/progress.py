"""What a person sees while a job runs: its status and what every vertex has done so far.

On a terminal a table that is redrawn; anywhere else one line per change of status.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from flinkpy.cli.tables import format_bytes, format_count, format_duration_ms
from flinkpy.common.states import JobState

if TYPE_CHECKING:
    from rich.live import Live

    from flinkpy._proto import job_pb2


class TerminalProgress:
    """Redraws a table of the job's vertices on standard error, so that standard output stays the program's."""

    def __init__(self, job_id: str, name: str) -> None:
        self._title = f"{name} ({job_id})"
        self._live: Live | None = None

    def on_details(self, details: job_pb2.JobDetails) -> None:
        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=False)
            self._live.start()
        self._live.update(self._table(details), refresh=True)

    def on_end(self, status: JobState) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        click.echo(f"{self._title}: {status.name}", err=True)

    def _table(self, details: job_pb2.JobDetails) -> Any:
        from rich.table import Table

        status = JobState(details.status) if details.status else JobState.INITIALIZING
        table = Table(title=f"{self._title}: {status.name}", title_justify="left", box=None, header_style="bold")
        table.add_column("Vertex", overflow="ellipsis", no_wrap=True)
        for header in ("Tasks", "Records in", "Records out", "Bytes out", "Busy"):
            table.add_column(header, justify="right", no_wrap=True)
        for vertex in details.vertices:
            table.add_row(vertex.name, *_numbers(vertex))
        return table


def _numbers(vertex: job_pb2.VertexDetails) -> list[str]:
    running = vertex.tasks_per_state.get("RUNNING", 0)
    finished = vertex.tasks_per_state.get("FINISHED", 0)
    metrics = vertex.metrics
    return [
        f"{running + finished}/{vertex.parallelism if vertex.parallelism > 0 else '?'}",
        format_count(metrics.num_records_in),
        format_count(metrics.num_records_out),
        format_bytes(metrics.num_bytes_out),
        format_duration_ms(metrics.busy_time_ms),
    ]


class LineProgress:
    """A line on standard error whenever the job's status changes."""

    def __init__(self, job_id: str, name: str) -> None:
        self._title = f"{name} ({job_id})"
        self._status: JobState | None = None

    def on_details(self, details: job_pb2.JobDetails) -> None:
        if details.status:
            self._show(JobState(details.status))

    def on_end(self, status: JobState) -> None:
        self._show(status)

    def _show(self, status: JobState) -> None:
        if status is not self._status:
            self._status = status
            click.echo(f"{self._title}: {status.name}", err=True)


def show_submitted(job_id: str, name: str) -> None:
    """Of a job that nobody waits for: what other commands call it."""
    click.echo(f"{name} ({job_id}): submitted", err=True)


def terminal_observer(job_id: str, name: str) -> TerminalProgress | LineProgress:
    """The display for one job that suits where standard error goes."""
    return (TerminalProgress if sys.stderr.isatty() else LineProgress)(job_id, name)
