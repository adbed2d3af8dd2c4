"""Shows the progress of a running job: its status and the work of each vertex so far.

A terminal shows a table that is redrawn. Other outputs get one line per change of status. Both get a line for each
restart, with its cause, and a line when the job waits for slots.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from flinkpy.cli.tables import format_bytes, format_count, format_duration_ms
from flinkpy.client.job_watch import JobNotices
from flinkpy.common.states import JobState

if TYPE_CHECKING:
    from rich.live import Live

    from flinkpy._proto import job_pb2


class TerminalProgress:
    """Redraws a table of the job's vertices on standard error. Standard output belongs to the program.

    The id of the job comes first, so that a narrow terminal does not cut it off.
    """

    def __init__(self, job_id: str, name: str) -> None:
        self._job_id = job_id
        self._name = name
        self._notices = JobNotices()
        self._live: Live | None = None
        show_submitted(job_id, name)

    def on_details(self, details: job_pb2.JobDetails) -> None:
        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=False)
            self._live.start()
        for line in self._notices.restarts(details):
            self.on_notice(line)
        self._live.update(self._display(details), refresh=True)

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

    def _display(self, details: job_pb2.JobDetails) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        status = JobState(details.status) if details.status else JobState.INITIALIZING
        title = Text(f"{self._job_id} {status.name}  {self._name}", style="italic", no_wrap=True, overflow="ellipsis")
        table = Table(box=None, header_style="bold")
        table.add_column("Vertex", overflow="ellipsis", no_wrap=True)
        for header in ("Tasks", "Records in", "Records out", "Bytes out", "Busy"):
            table.add_column(header, justify="right", no_wrap=True)
        for vertex in details.vertices:
            table.add_row(vertex.name, *_numbers(vertex))
        return Group(title, table)


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
    """Prints a line on standard error when the status of the job changes, when it restarts, or when it waits."""

    def __init__(self, job_id: str, name: str) -> None:
        self._title = f"{name} ({job_id})"
        self._status: JobState | None = None
        self._notices = JobNotices()
        show_submitted(job_id, name)

    def on_details(self, details: job_pb2.JobDetails) -> None:
        for line in self._notices.restarts(details):
            self.on_notice(line)
        if details.status:
            self._show(JobState(details.status))

    def on_notice(self, text: str) -> None:
        click.echo(f"{self._title}: {text}", err=True)

    def on_end(self, status: JobState) -> None:
        self._show(status)

    def _show(self, status: JobState) -> None:
        if status is not self._status:
            self._status = status
            click.echo(f"{self._title}: {status.name}", err=True)


def show_submitted(job_id: str, name: str) -> None:
    """Prints the id of the job and the command that shows the output of its functions."""
    click.echo(f"{name} ({job_id}): submitted; `flinkpy logs {job_id}` shows the output of its functions", err=True)


def terminal_observer(job_id: str, name: str) -> TerminalProgress | LineProgress:
    """Returns a display for one job: a table if standard error is a terminal, else lines."""
    return (TerminalProgress if sys.stderr.isatty() else LineProgress)(job_id, name)
