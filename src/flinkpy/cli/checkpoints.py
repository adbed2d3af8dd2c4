"""`flinkpy savepoint | checkpoint | stop | checkpoints`: checkpoints and savepoints of running jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flinkpy.cli.jobs import complete_job, connect, find_job, job_argument
from flinkpy.cli.json_output import checkpoints_document, json_option, print_json
from flinkpy.cli.options import absolute, cluster_address_option, configuration_options, load_valid_configuration
from flinkpy.common.states import JobState

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

_FORMAT = click.option(
    "-type",
    "--type",
    "format_type",
    type=click.Choice(["canonical", "native"], case_sensitive=False),
    default="canonical",
    show_default=True,
    help="Format of the savepoint. canonical: every state backend can read it. native: the backend's own, faster.",
)


@click.command()
@configuration_options
@cluster_address_option
@click.argument("job", required=False, shell_complete=complete_job)
@click.argument("target_directory", required=False)
@_FORMAT
@click.option("-d", "--dispose", metavar="PATH", help="Delete the savepoint at PATH instead of taking one.")
@json_option
def savepoint(
    address: str | None,
    job: str | None,
    target_directory: str | None,
    format_type: str,
    dispose: str | None,
    as_json: bool,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> None:
    """Take a savepoint of JOB in TARGET_DIRECTORY. The job continues.

    TARGET_DIRECTORY is a directory or URI that all processes of the cluster can reach. Default:
    execution.checkpointing.savepoint-dir. Use `flinkpy run -s PATH` to start a job from the savepoint.
    """
    if dispose is not None:
        if job is not None:
            raise click.UsageError("--dispose takes only the path of a savepoint: omit JOB")
    elif job is None:
        raise click.UsageError("name the job: flinkpy savepoint JOB [TARGET_DIRECTORY], or --dispose PATH")
    with connect(load_valid_configuration(config_dir, properties, {}), address) as client:
        if dispose is not None:
            path = absolute(dispose)
            client.dispose_savepoint(path)
            if as_json:
                print_json({"path": path, "is_deleted": True})
            else:
                click.echo(f"Savepoint {path} deleted.")
            return
        assert job is not None
        job_id = find_job(client, job)
        target = None if target_directory is None else absolute(target_directory)
        click.echo(f"Taking a savepoint of job {job_id}.", err=True)
        path = client.trigger_savepoint(job_id, target, native=format_type == "native")
    if as_json:
        print_json({"job_id": job_id, "path": path})
    else:
        click.echo(f"Savepoint completed. Path: {path}")


@click.command()
@configuration_options
@cluster_address_option
@job_argument
@click.option("-full", "--full", is_flag=True, help="Do not share files with earlier checkpoints.")
@json_option
def checkpoint(
    address: str | None,
    job: str,
    full: bool,
    as_json: bool,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> None:
    """Take a checkpoint of JOB now, in addition to the periodic ones."""
    with connect(load_valid_configuration(config_dir, properties, {}), address) as client:
        job_id = find_job(client, job)
        click.echo(f"Taking a checkpoint of job {job_id}.", err=True)
        result = client.trigger_checkpoint(job_id, full=full)
    if as_json:
        print_json({"job_id": job_id, "checkpoint_id": result.checkpoint_id, "path": result.path or None})
        return
    where = f" Path: {result.path}" if result.path else ""
    click.echo(f"Checkpoint {result.checkpoint_id} completed.{where}")


@click.command()
@configuration_options
@cluster_address_option
@job_argument
@click.option("-p", "--savepointPath", "target_directory", metavar="DIRECTORY", help="Directory for the savepoint.")
@click.option(
    "-d",
    "--drain",
    is_flag=True,
    help="First advance event time to its end, so that all windows and timers fire. Do not use it if the job will be "
    "resumed from the savepoint.",
)
@_FORMAT
@json_option
def stop(
    address: str | None,
    job: str,
    target_directory: str | None,
    drain: bool,
    format_type: str,
    as_json: bool,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> int:
    """Stop JOB with a savepoint. The job processes no record after the savepoint, and finishes.

    Default directory of the savepoint: execution.checkpointing.savepoint-dir. Waits until the job has ended.
    """
    target = None if target_directory is None else absolute(target_directory)
    with connect(load_valid_configuration(config_dir, properties, {}), address) as client:
        job_id = find_job(client, job)
        click.echo(f"Stopping job {job_id} with a savepoint.", err=True)
        path = client.stop_with_savepoint(job_id, target, drain=drain, native=format_type == "native")
        if not as_json:
            click.echo(f"Savepoint completed. Path: {path}")
        status = JobState(client.wait_for_result(job_id).status)
    if as_json:
        print_json({"job_id": job_id, "path": path, "state": status.name})
    else:
        click.echo(f"Job {job_id}: {status.name}.", err=True)
    return 0 if status is JobState.FINISHED else 1


@click.command()
@configuration_options
@cluster_address_option
@json_option
@job_argument
def checkpoints(
    address: str | None, as_json: bool, job: str, config_dir: str | None, properties: tuple[str, ...], verbose: bool
) -> None:
    """Show the checkpoints of JOB: their number, durations, sizes and failures."""
    with connect(load_valid_configuration(config_dir, properties, {}), address) as client:
        job_id = find_job(client, job)
        statistics = client.request_checkpoint_statistics(job_id)
    if as_json:
        print_json({"job_id": job_id, **checkpoints_document(statistics)})
        return
    _print_statistics(statistics)


def _print_statistics(statistics: checkpoint_pb2.CheckpointStatisticsResponse) -> None:
    from flinkpy.cli.tables import format_timestamp, print_table

    click.echo(
        f"{statistics.num_total} checkpoints: {statistics.num_completed} completed, {statistics.num_failed} failed, "
        f"{statistics.num_in_progress} in progress; restored {statistics.num_restored} times"
    )
    if statistics.HasField("latest_restored"):
        restored = statistics.latest_restored
        kind = "savepoint" if restored.is_savepoint else "checkpoint"
        where = f" from {restored.external_path}" if restored.external_path else ""
        click.echo(
            f"Restored {kind} {restored.checkpoint_id}{where} at {format_timestamp(restored.restore_timestamp_ms)}"
        )
    if statistics.history:
        headers = ["Id", "Status", "Kind", "Started", "Duration", "State size", "Written", "In flight", "Tasks", "Path"]
        print_table(headers, [_row(one) for one in statistics.history], right=(0, 4, 5, 6, 7, 8))


def _row(one: checkpoint_pb2.CheckpointStatistics) -> list[str]:
    from flinkpy.cli.tables import format_bytes, format_duration_ms, format_timestamp

    duration = format_duration_ms(one.end_timestamp_ms - one.trigger_timestamp_ms) if one.end_timestamp_ms > 0 else "-"
    return [
        str(one.checkpoint_id),
        one.status,
        _kind(one),
        format_timestamp(one.trigger_timestamp_ms),
        duration,
        format_bytes(one.state_size_bytes),
        format_bytes(one.persisted_bytes),
        format_bytes(one.persisted_in_flight_bytes),
        f"{one.num_acknowledged_subtasks}/{one.num_subtasks}",
        _outcome(one),
    ]


def _kind(one: checkpoint_pb2.CheckpointStatistics) -> str:
    from flinkpy._proto import checkpoint_pb2 as pb

    names = {
        pb.CHECKPOINT: "checkpoint",
        pb.FULL_CHECKPOINT: "full checkpoint",
        pb.SAVEPOINT: "savepoint",
        pb.SYNC_SAVEPOINT_SUSPEND: "stop",
        pb.SYNC_SAVEPOINT_TERMINATE: "drain",
    }
    kind = names.get(one.kind, "-")
    return f"{kind}, unaligned" if one.is_unaligned else kind


def _outcome(one: checkpoint_pb2.CheckpointStatistics) -> str:
    if one.HasField("failure"):
        return one.failure.message.splitlines()[0] if one.failure.message else one.failure.type
    if not one.external_path:
        return "-"
    return f"{one.external_path} (discarded)" if one.discarded else one.external_path
