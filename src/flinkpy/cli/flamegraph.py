"""`flinkpy flamegraph`: what the Python code of a job is doing, as a file for viewers of flame graphs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flinkpy import __version__
from flinkpy.cli.jobs import connect, find_job, job_argument
from flinkpy.cli.options import cluster_address_option, configuration_options, load_valid_configuration
from flinkpy.common.errors import JobNotFoundError, UserError

if TYPE_CHECKING:
    from flinkpy._proto import job_pb2, thread_samples_pb2

#: The samples are taken in rounds: between two, the progress is shown, and tasks that have restarted are found.
ROUND_S = 2.0

#: The frames of a stack, the outermost first.
Stack = tuple[str, ...]


@click.command()
@configuration_options
@cluster_address_option
@click.option("--vertex", metavar="NAME", help="Only this vertex: its id, or a part of its name. Default: all.")
@click.option("--subtask", type=click.IntRange(min=0), metavar="N", help="Only this subtask of the vertex.")
@click.option("--seconds", type=click.FloatRange(0.1, 3_600), default=10.0, show_default=True, help="Time to sample.")
@click.option(
    "--type",
    "kind",
    type=click.Choice(["full", "on_cpu", "off_cpu"]),
    default="full",
    show_default=True,
    help="Show all samples, or only those of code that runs, or that waits.",
)
@click.option(
    "--delay",
    "delay_ms",
    type=click.IntRange(1, 1_000),
    default=20,
    show_default=True,
    help="ms between two samples.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file: `.json` for https://www.speedscope.app, else one line per stack for flamegraph.pl. "
    "Default: standard output.",
)
@job_argument
def flamegraph(
    address: str | None,
    vertex: str | None,
    subtask: int | None,
    seconds: float,
    kind: str,
    delay_ms: int,
    output: Path | None,
    job: str,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> int:
    """Sample the Python stacks of JOB's tasks. The dashboard shows the same as a picture."""
    if subtask is not None and vertex is None:
        raise click.UsageError("--subtask needs --vertex")
    with connect(load_valid_configuration(config_dir, properties, {}), address) as client:
        job_id = find_job(client, job)
        vertices = client.request_job(job_id).vertices
        vertex_id = "" if vertex is None else find_vertex(vertices, vertex).id
        names = {one.id: one.name for one in vertices}
        counts: Counter[Stack] = Counter()
        unreachable: set[str] = set()
        left = max(1, round(seconds * 1000 / delay_ms))
        while left > 0:
            num_samples = min(left, max(1, round(ROUND_S * 1000 / delay_ms)))
            try:
                samples = client.request_thread_samples(
                    job_id, vertex_id, subtask, num_samples=num_samples, delay_ms=delay_ms
                )
            except JobNotFoundError:
                if not counts:
                    raise
                click.echo("flinkpy: the job has ended; the file has the samples until then", err=True)
                break
            counts.update(count_stacks(samples.task_executors, names, kind))
            unreachable |= set(samples.unreachable)
            left -= num_samples
    for resource_id in sorted(unreachable):
        click.echo(f"flinkpy: TaskExecutor {resource_id} does not answer; its tasks are missing", err=True)
    if not counts:
        click.echo("flinkpy: no stacks were seen: no such task was running", err=True)
        return 1
    if output is None:
        click.echo(folded(counts), nl=False)
        return 0
    is_json = output.suffix == ".json"
    output.write_text(speedscope(counts, f"job {job_id}") if is_json else folded(counts), encoding="utf-8")
    click.echo(f"{counts.total()} samples of {len(counts)} stacks: {output}", err=True)
    return 0


def find_vertex(vertices: Iterable[job_pb2.VertexDetails], text: str) -> job_pb2.VertexDetails:
    """Returns the vertex with this id, or with this text in its name. Raises: UserError unless there is one."""
    vertices = list(vertices)
    found = [one for one in vertices if one.id == text or one.name == text]
    found = found or [one for one in vertices if text.lower() in one.name.lower()]
    if len(found) != 1:
        reason = "several vertices match" if found else "no vertex matches"
        raise UserError(f"{reason} `{text}`; the job has {', '.join(one.name for one in vertices)}")
    return found[0]


def count_stacks(
    answers: Iterable[thread_samples_pb2.ThreadSamples], vertices: Mapping[str, str], kind: str
) -> Counter[Stack]:
    """Returns how often each stack was seen. The outermost frame is the name of the vertex."""
    counts: Counter[Stack] = Counter()
    for answer in answers:
        names = [f"{one.name}:{one.line}" if one.line else one.name for one in answer.frames]
        for stack in answer.stacks:
            count = (stack.on_cpu if kind != "off_cpu" else 0) + (stack.off_cpu if kind != "on_cpu" else 0)
            if count:
                vertex = vertices.get(stack.vertex_id, stack.vertex_id)
                counts[vertex, *(names[index] for index in stack.frames)] += count
    return counts


def folded(counts: Mapping[Stack, int]) -> str:
    """Returns one line per stack: the frames, separated by semicolons, and the count."""
    lines = [
        f"{';'.join(frame.replace(';', ',').replace(chr(10), ' ') for frame in stack)} {count}\n"
        for stack, count in counts.items()
    ]
    return "".join(sorted(lines))


def speedscope(counts: Mapping[Stack, int], name: str) -> str:
    """Returns a profile in the file format of speedscope (https://www.speedscope.app/file-format-schema.json)."""
    frames: dict[str, int] = {}
    stacks = sorted(counts.items())
    indexes = [[frames.setdefault(frame, len(frames)) for frame in stack] for stack, _ in stacks]
    weights = [count for _, count in stacks]
    document: dict[str, Any] = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": f"flinkpy {__version__}",
        "name": name,
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": frame} for frame in frames]},
        "profiles": [
            {
                "type": "sampled",
                "name": name,
                "unit": "none",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": indexes,
                "weights": weights,
            }
        ],
    }
    return json.dumps(document)
