"""`flinkpy rescale`: changes the parallelism that a running job may have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from flinkpy.cli.jobs import connect, find_job, job_argument
from flinkpy.cli.json_output import json_option, print_json
from flinkpy.cli.options import cluster_address_option, configuration_options, load_valid_configuration
from flinkpy.common.errors import UserError

if TYPE_CHECKING:
    from flinkpy._proto import job_pb2

_WANTED = re.compile(r"(?:(?P<vertex>.+)=)?(?:(?P<lower>\d+)-)?(?P<upper>\d+)", re.DOTALL)


@click.command()
@configuration_options
@cluster_address_option
@json_option
@job_argument
@click.argument("wanted", nargs=-1, required=True, metavar="[VERTEX=][LEAST-]P...")
def rescale(
    address: str | None,
    as_json: bool,
    job: str,
    wanted: tuple[str, ...],
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> None:
    """Set the parallelism that the vertices of JOB may have, while it runs.

    P is for all vertices, or for one VERTEX, given by its id or name. With LEAST-P, the job waits for slots rather than
    run with less than LEAST. The job needs the scheduler Adaptive. It changes its parallelism when it has the slots and
    its cooldown is over.
    """
    with connect(load_valid_configuration(config_dir, properties, {}), address) as client:
        job_id = find_job(client, job)
        bounds = wanted_bounds(client.request_job(job_id).vertices, wanted)
        client.update_resource_requirements(job_id, bounds)
        details = client.request_job(job_id)
    if as_json:
        print_json(
            {
                "job_id": job_id,
                "vertices": {one.vertex_id: {"lower": one.lower_bound, "upper": one.upper_bound} for one in bounds},
                "slots_held": details.num_slots_held,
            }
        )
        return
    names = {vertex.id: vertex.name for vertex in details.vertices}
    for one in bounds:
        click.echo(f"{names[one.vertex_id]}: parallelism {one.lower_bound} to {one.upper_bound}")
    click.echo(f"Job {job_id} holds {details.num_slots_held} slots.")


def wanted_bounds(
    vertices: Iterable[job_pb2.VertexDetails], wanted: Iterable[str]
) -> list[job_pb2.VertexParallelismBounds]:
    """Returns the bounds of all vertices: the present ones, changed by the arguments in their order.

    A parallelism for all vertices is not for those that can have only one subtask.

    Raises: UserError if an argument is malformed or names no vertex, or several.
    """
    from flinkpy._proto import job_pb2

    vertices = list(vertices)
    bounds = {
        vertex.id: (
            vertex.parallelism_lower_bound or vertex.parallelism,
            vertex.parallelism_upper_bound or vertex.parallelism,
        )
        for vertex in vertices
    }
    for argument in wanted:
        match = _WANTED.fullmatch(argument)
        if match is None:
            raise UserError(f"`{argument}` is not a parallelism; write P, LEAST-P, VERTEX=P or VERTEX=LEAST-P")
        if match["vertex"] is None:
            named = [vertex.id for vertex in vertices if not vertex.is_non_parallel]
        else:
            named = [_vertex_named(vertices, match["vertex"])]
        for vertex_id in named:
            bounds[vertex_id] = (int(match["lower"] or 1), int(match["upper"]))
    return [
        job_pb2.VertexParallelismBounds(vertex_id=vertex_id, lower_bound=lower, upper_bound=upper)
        for vertex_id, (lower, upper) in bounds.items()
    ]


def _vertex_named(vertices: list[job_pb2.VertexDetails], text: str) -> str:
    found = [vertex.id for vertex in vertices if vertex.id == text]
    found = found or [vertex.id for vertex in vertices if vertex.name == text]
    found = found or [vertex.id for vertex in vertices if text and text in vertex.name]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(f"{vertex.name} ({vertex.id})" for vertex in vertices)
    what = "several vertices" if found else "no vertex"
    raise UserError(f"{what} of the job match `{text}`; its vertices are {listed}")
