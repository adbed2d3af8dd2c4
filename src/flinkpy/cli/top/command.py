"""The verb `top`."""

from __future__ import annotations

import sys
from concurrent.futures import Future
from typing import TYPE_CHECKING

import click

from flinkpy.cli.jobs import connect
from flinkpy.cli.json_output import json_option, print_json
from flinkpy.cli.options import cluster_address_option, configuration_options, load_valid_configuration
from flinkpy.common.errors import UserError
from flinkpy.common.interruptible import wait_for

if TYPE_CHECKING:
    from flinkpy.cli.top.snapshot import ClusterSnapshot

#: Time between the two snapshots that rates need. TaskExecutors report once a second.
RATE_WAIT_S = 1.5


@click.command()
@configuration_options
@cluster_address_option
@click.option(
    "-i",
    "--interval",
    "interval_s",
    type=click.FloatRange(0.2, 3600),
    default=1.0,
    show_default=True,
    help="Seconds between two updates.",
)
@click.option("--once", is_flag=True, help="Print the cluster once, as it is also done without a terminal.")
@json_option
def top(
    address: str | None,
    interval_s: float,
    once: bool,
    as_json: bool,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> None:
    """Show the jobs and TaskExecutors of a cluster live: rates, busy time, back-pressure, CPU and memory.

    Keys: Up and Down select a job, Enter shows its vertices, Escape goes back, s sorts, p pauses, d changes between
    dark and light, q quits.
    """
    from flinkpy.cli.top.collector import SnapshotCollector
    from flinkpy.security import SecurityContext

    configuration = load_valid_configuration(config_dir, properties, {})
    is_live = not (once or as_json) and sys.stdout.isatty()
    if is_live:
        _check_textual()
    with connect(configuration, address) as client:
        collector = SnapshotCollector(client, configuration, SecurityContext.of_client(configuration))
        try:
            if is_live:
                from flinkpy.cli.top.app import TopApp

                TopApp(collector.collect, interval_s).run()
                return
            collector.collect()
            wait_for(Future(), RATE_WAIT_S)
            _print(collector.collect(), as_json)
        finally:
            collector.close()


def _check_textual() -> None:
    """Raises: UserError if textual is not installed."""
    try:
        import textual  # noqa: F401
    except ImportError:
        raise UserError(
            "`flinkpy top` needs textual: pip install 'flinkpy[top]'. `flinkpy top --once` does without it"
        ) from None


def _print(snapshot: ClusterSnapshot, as_json: bool) -> None:
    from flinkpy.cli.tables import print_table
    from flinkpy.cli.top import tables
    from flinkpy.cli.top.snapshot import snapshot_document

    if as_json:
        print_json(snapshot_document(snapshot))
        return
    click.echo(tables.cluster_line(snapshot))
    jobs = [[cell.plain for cell in tables.job_row(job)] for job in snapshot.jobs]
    if jobs:
        print_table(list(tables.JOB_COLUMNS), jobs, right=(3, 4, 5, 6, 7, 8), whole=(0, 2))
    for job in snapshot.jobs:
        if job.vertices and not job.status.is_terminal:
            click.echo(f"\n{tables.job_lines(job, now_ms=snapshot.now_ms)}")
            vertices = [[cell.plain for cell in tables.vertex_row(one)] for one in job.vertices]
            print_table(list(tables.VERTEX_COLUMNS), vertices, right=tuple(range(1, 8)))
    if snapshot.task_executors:
        click.echo()
        rows = [[cell.plain for cell in tables.executor_row(one)] for one in snapshot.task_executors]
        print_table(list(tables.EXECUTOR_COLUMNS), rows, right=(2, 3, 4))
