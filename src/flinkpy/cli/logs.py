"""`flinkpy logs`: the output and logs of a job's functions, from all its TaskExecutors."""

from __future__ import annotations

import re
import sys
import threading
from typing import TYPE_CHECKING

import click

from flinkpy.cli.jobs import connect, find_job, job_argument
from flinkpy.cli.options import cluster_address_option, configuration_options, load_valid_configuration

if TYPE_CHECKING:
    from flinkpy._proto import common_pb2, dispatcher_pb2

#: Interval of -f: short enough for a person, and cheap.
FOLLOW_INTERVAL_S = 0.5

#: A longer line is shown in pieces and not held back until it ends.
MAX_HELD_BYTES = 64 * 1024

#: Control characters that a terminal would act on. Tabs and newlines stay.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@click.command()
@configuration_options
@cluster_address_option
@click.option("-f", "--follow", is_flag=True, help="Continue until the job has ended.")
@job_argument
def logs(
    address: str | None, follow: bool, job: str, config_dir: str | None, properties: tuple[str, ...], verbose: bool
) -> None:
    """Show the logs of the TaskExecutors of JOB since they began to work for it.

    The logs contain the output of the job's functions and flinkpy's messages about its tasks. If other jobs share a
    TaskExecutor, their output is included. The log of a TaskExecutor process that has ended is not shown.
    """
    with connect(load_valid_configuration(config_dir, properties, {}), address) as client:
        job_id = find_job(client, job)
        shown, never = LogView(is_terminal=sys.stdout.isatty()), threading.Event()
        while True:
            answer = client.request_job_logs(job_id, shown.positions)
            shown.take(answer)
            if shown.is_behind:
                continue
            if answer.is_over or not follow:
                break
            never.wait(FOLLOW_INTERVAL_S)
        shown.finish()


class LogView:
    """Writes the logs of several processes to standard output, in whole lines and one process after another.

    Args:
        is_terminal: show control characters as `?`, so that the output of a function cannot act on the terminal.
    """

    def __init__(self, *, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        #: Position up to which each log has been read, by resource id.
        self.positions: dict[str, int] = {}
        #: True if a log has more data that can be read at once.
        self.is_behind = False
        self._unfinished: dict[str, bytes] = {}
        self._without_log: set[str] = set()
        self._unreachable: set[str] = set()
        self._current: str | None = None

    def take(self, answer: dispatcher_pb2.JobLogs) -> None:
        """Shows the new parts of the logs in `answer`."""
        self.is_behind = False
        for chunk in answer.chunks:
            if not chunk.has_log:
                self._report_missing_log(chunk)
                continue
            self.positions[chunk.resource_id] = chunk.next_position
            self.is_behind |= bool(chunk.data) and chunk.next_position < chunk.end_position
            text = self._unfinished.pop(chunk.resource_id, b"") + chunk.data
            whole, newline, rest = text.rpartition(b"\n")
            if len(rest) > MAX_HELD_BYTES:
                whole, newline, rest = text, b"", b""
            if rest:
                self._unfinished[chunk.resource_id] = rest
            self._write(chunk.resource_id, whole + newline, len(answer.chunks) > 1)
        for resource_id in sorted(set(answer.unreachable) - self._unreachable):
            click.echo(f"flinkpy: TaskExecutor {resource_id} does not answer; its log is missing", err=True)
        self._unreachable.update(answer.unreachable)

    def finish(self) -> None:
        """Shows unfinished last lines. Prints a message if there was no log at all."""
        for resource_id, rest in self._unfinished.items():
            self._write(resource_id, rest + b"\n", len(self.positions) > 1)
        if not self.positions and not self._without_log:
            click.echo("flinkpy: no registered TaskExecutor has run tasks of this job", err=True)

    def _write(self, resource_id: str, data: bytes, are_several: bool) -> None:
        if not data:
            return
        if are_several and self._current != resource_id:
            click.echo(f"==> {resource_id} <==")
        self._current = resource_id
        text = data.decode(errors="replace")
        # Without `color`, click removes escape sequences from the output to a pipe.
        click.echo(_CONTROL.sub("?", text) if self._is_terminal else text, nl=False, color=True)

    def _report_missing_log(self, chunk: common_pb2.JobLogChunk) -> None:
        if chunk.resource_id not in self._without_log:
            self._without_log.add(chunk.resource_id)
            click.echo(
                f"flinkpy: TaskExecutor {chunk.resource_id} on {chunk.host} has no log file: its output goes to "
                "standard error (a terminal, `docker logs`, `kubectl logs`)",
                err=True,
            )
