"""`flinkpy metrics`: what the metrics of a running job say, those of user functions included."""

from __future__ import annotations

import fnmatch
import json
from typing import TYPE_CHECKING, Any

import click

from flinkpy.cli.job_argument import find_job, job_argument
from flinkpy.cli.jobs import connect
from flinkpy.cli.options import cluster_address_option, configuration_options, load_valid_configuration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flinkpy._proto import metrics_pb2


@click.command()
@configuration_options
@cluster_address_option
@click.option("-f", "--filter", "pattern", default="*", metavar="GLOB", help="Only metrics whose name matches.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@job_argument
def metrics(
    address: str | None,
    pattern: str,
    as_json: bool,
    job: str,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> None:
    """Show the metrics of JOB, of each subtask and operator."""
    from flinkpy.cli.tables import print_table

    with connect(load_valid_configuration(config_dir, properties, {}), address) as client:
        job_id = find_job(client, job)
        names = {vertex.id: vertex.name for vertex in client.request_job(job_id).vertices}
        found = list(_matching(client.request_metrics(job_id), pattern))
    found.sort(key=lambda entry: (entry[0].vertex_id, entry[0].subtask_index, entry[0].operator_name, entry[1].name))
    if as_json:
        for group, metric in found:
            click.echo(json.dumps(_described(group, metric, names)))
        return
    rows = [
        [
            group.operator_name or names.get(group.vertex_id, group.vertex_id),
            str(group.subtask_index),
            metric.name,
            str(_value(metric)),
            " ".join(f"{name}={value:g}" for name, value in sorted(metric.statistics.items())),
        ]
        for group, metric in found
    ]
    if rows:
        print_table(["Operator", "Subtask", "Metric", "Value", "Statistics"], rows, right=(1, 3))
    else:
        click.echo("No metrics.", err=True)


def _matching(
    groups: list[metrics_pb2.MetricGroupDump], pattern: str
) -> Iterator[tuple[metrics_pb2.MetricGroupDump, metrics_pb2.MetricDump]]:
    for group in groups:
        for metric in group.metrics:
            if fnmatch.fnmatchcase(metric.name, pattern):
                yield group, metric


def _value(metric: metrics_pb2.MetricDump) -> Any:
    kind = metric.WhichOneof("value")
    return None if kind is None else getattr(metric, kind)


def _described(
    group: metrics_pb2.MetricGroupDump, metric: metrics_pb2.MetricDump, names: dict[str, str]
) -> dict[str, Any]:
    return {
        "vertex_id": group.vertex_id,
        "vertex": names.get(group.vertex_id, ""),
        "subtask": group.subtask_index,
        "attempt": group.attempt_number,
        "operator": group.operator_name,
        "taskmanager": group.resource_id,
        "metric": metric.name,
        "kind": metric.kind,
        "value": _value(metric),
        **dict(metric.statistics),
    }
