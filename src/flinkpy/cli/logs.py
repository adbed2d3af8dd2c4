"""`flinkpy logs`: what the functions of a job have printed and logged, on whatever TaskExecutors."""

from __future__ import annotations

import re
import sys
import threading
from typing import TYPE_CHECKING

import click

from flinkpy.cli.job_argument import find_job, job_argument
from flinkpy.cli.jobs import connect
from flinkpy.cli.options import cluster_address_option, configuration_options, load_valid_configuration

if TYPE_CHECKING:
    from flinkpy._proto import common_pb2, dispatcher_pb2

#: How often the logs are looked at with -f: soon enough for a person, and cheap.
FOLLOW_INTERVAL_S = 0.5

#: A line longer than this is shown in pieces rather than kept back until it ends.
MAX_HELD_BYTES = 64 * 1024

#: Control characters that would act on a terminal. Tabs and newlines stay.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@click.command()
@configuration_options
@cluster_address_option
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@job_argument
def logs(
    address: str | None, follow: bool, job: str, config_dir: str | None, properties: tuple[str, ...], verbose: bool
) -> None:
    """Show what the TaskExecutors of JOB have written to their logs since they began to work for it.

    That is what its functions print and log, and what flinkpy says about its tasks. Where jobs share a TaskExecutor,
    what the others write is among it. The log of a TaskExecutor process that has ended is not shown.
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
    """Writes the logs of several processes to standard output, whole lines of one after those of another.

    Args:
        is_terminal: control characters are shown as `?`, so that what a function prints cannot act on the terminal.
    """

    def __init__(self, *, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        #: By resource id: up to where each log has been read.
        self.positions: dict[str, int] = {}
        #: True where there is more to read at once.
        self.is_behind = False
        self._unfinished: dict[str, bytes] = {}
        self._without_log: set[str] = set()
        self._unreachable: set[str] = set()
        self._current: str | None = None

    def take(self, answer: dispatcher_pb2.JobLogs) -> None:
        """Show what is new in it."""
        self.is_behind = False
        for chunk in answer.chunks:
            if not chunk.has_log:
                self._tell_without_log(chunk)
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
        """Show lines that have no end, and say so where there was nothing."""
        for resource_id, rest in self._unfinished.items():
            self._write(resource_id, rest + b"\n", len(self.positions) > 1)
        if not self.positions and not self._without_log:
            click.echo("flinkpy: no registered TaskExecutor has worked for this job", err=True)

    def _write(self, resource_id: str, data: bytes, are_several: bool) -> None:
        if not data:
            return
        if are_several and self._current != resource_id:
            click.echo(f"==> {resource_id} <==")
        self._current = resource_id
        text = data.decode(errors="replace")
        # Without `color` click takes escape sequences out of what goes to a pipe.
        click.echo(_CONTROL.sub("?", text) if self._is_terminal else text, nl=False, color=True)

    def _tell_without_log(self, chunk: common_pb2.JobLogChunk) -> None:
        if chunk.resource_id not in self._without_log:
            self._without_log.add(chunk.resource_id)
            click.echo(
                f"flinkpy: TaskExecutor {chunk.resource_id} on {chunk.host} writes to no log file: its output is where "
                "its standard error goes (a terminal, `docker logs`, `kubectl logs`)",
                err=True,
            )
