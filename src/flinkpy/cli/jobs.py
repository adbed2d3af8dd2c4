"""`flinkpy run | list | info | metrics | cancel`: the jobs of a cluster. Also finds the cluster and job for a verb."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flinkpy.cli.json_output import (
    accumulator_document,
    finding_document,
    job_document,
    job_overview_document,
    json_option,
    metric_document,
    metric_value,
    print_json,
)
from flinkpy.cli.options import (
    cluster_address_option,
    configuration_options,
    load_valid_configuration,
    split_address,
)
from flinkpy.cli.program import (
    ProgramCommand,
    ProgramType,
    program_environment,
    program_options,
    program_overrides,
    run_program,
)
from flinkpy.common.error_text import escaped, escaped_line
from flinkpy.common.errors import JobNotFoundError, UserError
from flinkpy.common.states import JobState

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from flinkpy._proto import dispatcher_pb2, job_pb2, metrics_pb2
    from flinkpy.cli.progress import ProgressMode
    from flinkpy.client.cluster_client import ClusterClient
    from flinkpy.common.configuration import Configuration

F = TypeVar("F", bound=Callable[..., Any])

#: The kinds of metrics that a job has.
EVERY_KIND = ("job", "coordinator", "task")
#: Number of failures that `info` shows. The REST API has the whole history.
MAX_SHOWN_FAILURES = 3
#: Number of jobs that the error about an ambiguous argument lists.
MAX_LISTED = 5

#: The metrics of tasks in Spark that tell how long they have waited, and for what.
_SPARK_WAITS = {
    "sparkWaitingForExecutorsMs": "executors of Spark: its master has given the job none yet",
    "sparkWaitingForSessionMs": "a Spark session: it starts, or all that the TaskExecutor may have are in use",
}

#: Metrics of a region in Spark with texts.
_SPARK_WEB_URL, _SPARK_OPERATORS = "sparkWebUrl", "sparkOperators"

_WHOLE_ID = re.compile(r"[0-9a-f]{32}")


def dispatcher_address(configuration: Configuration, address: str | None) -> str | None:
    """Returns the address of the Dispatcher to use, or None if ZooKeeper names the leader.

    It looks at `-m`, then Kubernetes if `execution.target` is `kubernetes-session`, then ZooKeeper, then
    `jobmanager.rpc.address`, then the cluster started by `flinkpy cluster start`. The result may hold several
    addresses, separated by commas. It also adds to `configuration` the credentials of a cluster on Kubernetes, and the
    file of the secret of a cluster of this host, unless the configuration names one.

    Raises:
        UserError: there is no cluster.
    """
    from flinkpy.cli.cluster import running_cluster, use_secret_of
    from flinkpy.client.cluster_client import configured_addresses, is_elected
    from flinkpy.configuration import read_option
    from flinkpy.configuration.core_options import EXECUTION_TARGET, KUBERNETES_SESSION
    from flinkpy.configuration.security_options import SECRET_FILE

    if address is not None:
        for part in address.split(","):
            split_address(part.strip(), "-m")
        return address
    if read_option(configuration, EXECUTION_TARGET) == KUBERNETES_SESSION:
        from flinkpy.cli.kubernetes import use_kubernetes_cluster

        return use_kubernetes_cluster(configuration)
    if is_elected(configuration):
        return None
    configured = configured_addresses(configuration)
    if configured:
        return configured
    entries = configuration.to_dict()
    local = running_cluster(entries)
    if local is None:
        raise UserError("no cluster is running: start one with `flinkpy cluster start`, or name one with -m HOST:PORT")
    use_secret_of(local, entries)
    if SECRET_FILE.key in entries:
        configuration.set_string(SECRET_FILE.key, entries[SECRET_FILE.key])
    return local.dispatcher_address


def connect(configuration: Configuration, address: str | None) -> ClusterClient:
    """Connects to the Dispatcher that `dispatcher_address` returns."""
    from flinkpy.client import cluster_client

    return cluster_client.connect(configuration, dispatcher_address(configuration, address))


def job_argument(command: F) -> F:
    """Adds the argument JOB. The command gets `job`, which `find_job` resolves."""
    return click.argument("job", shell_complete=complete_job)(command)


def complete_job(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes the argument JOB in a shell."""
    from flinkpy.cli import completion

    return completion.complete_job(context, parameter, incomplete)


def find_job(client: ClusterClient, job: str) -> str:
    """Returns the id of a job given by its id, the unique beginning of its id, or its name.

    A whole id is not checked. If several jobs have the same name, the one that has not ended is meant.

    Raises:
        JobNotFoundError: no job matches.
        UserError: several jobs match.
    """
    if _WHOLE_ID.fullmatch(job):
        return job
    jobs = client.list_jobs()
    found = [one for one in jobs if one.name == job] or [one for one in jobs if job and one.job_id.startswith(job)]
    if not found:
        raise JobNotFoundError(f"there is no job with the id or name `{job}` (`flinkpy list -a` shows all jobs)")
    if len(found) > 1:
        found = [one for one in found if not JobState(one.status).is_terminal] or found
    if len(found) > 1:
        listed = ", ".join(map(_summary, found[:MAX_LISTED]))
        more = f" and {len(found) - MAX_LISTED} more" if len(found) > MAX_LISTED else ""
        raise UserError(f"`{job}` matches several jobs: {listed}{more}")
    return found[0].job_id


def _summary(job: dispatcher_pb2.JobOverview) -> str:
    return f"{job.job_id} ({job.name}, {JobState(job.status).name})"


@click.command(cls=ProgramCommand)
@configuration_options
@cluster_address_option
@click.option("-d", "--detached", is_flag=True, help="Return when the job is submitted.")
@click.option("-q", "--quiet", is_flag=True, help="Show nothing of the job but restarts, missing slots and errors.")
@click.option(
    "--progress",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Progress of the job on standard error. `auto`: if it is a terminal; `always`: elsewhere a line every 10 s; "
    "`never`: changes of status only.",
)
@click.option(
    "-t",
    "--target",
    metavar="TARGET",
    help="Cluster to use. `remote` (default): a running cluster. `local`: a cluster started by the program. "
    "`local-threads`: threads of the program, for debugging. `kubernetes-session`: the one of "
    "kubernetes.cluster-id. `local-application`: a cluster that runs the program, too "
    "(see `flinkpy run-application`). `spark`: no cluster; Spark runs the jobs (see `flinkpy spark-submit`).",
)
@program_options
@click.argument("program", type=ProgramType())
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    address: str | None,
    detached: bool,
    quiet: bool,
    progress: ProgressMode,
    target: str | None,
    program: str,
    arguments: tuple[str, ...],
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
    **settings: Any,
) -> int:
    """Run PROGRAM with ARGUMENTS. Each `execute()` in it submits a job to the cluster.

    Ctrl-C cancels the running job; a second Ctrl-C leaves the program without waiting for its end.
    """
    from flinkpy.cli.applications import LOCAL_APPLICATION, check_target, start_application
    from flinkpy.configuration import core_options, read_option

    check_target(target)
    overrides = {**program_overrides(settings), core_options.EXECUTION_TARGET.key: target}
    configuration = load_valid_configuration(config_dir, properties, overrides)
    target = read_option(configuration, core_options.EXECUTION_TARGET)
    if detached or not configuration.contains_key(core_options.EXECUTION_ATTACHED.key):
        configuration.set_string(core_options.EXECUTION_ATTACHED.key, "false" if detached else "true")
    if target == core_options.KUBERNETES_APPLICATION:
        raise UserError(f"target `{target}` needs `flinkpy run-application`: the program runs beside the Dispatcher")
    if target == LOCAL_APPLICATION and address is None:
        return start_application(configuration, program, arguments)
    if target not in ("local", "embedded", core_options.LOCAL_THREADS, "spark") or address is not None:
        addresses = dispatcher_address(configuration, address)
        configuration.set_string(core_options.EXECUTION_TARGET.key, "remote")
        if addresses is not None:
            configuration.set_string("jobmanager.rpc.address", addresses)
            configuration.set_string("high-availability.type", "NONE")
    from flinkpy.cli.progress import observer_factory, show_submitted
    from flinkpy.client.job_watch import observe_jobs

    observer = observer_factory(progress, is_quiet=quiet)
    on_detached = None if quiet else show_submitted
    with program_environment(configuration, program, arguments), observe_jobs(observer, on_detached):
        return run_program(program, verbose)


def warn_if_insecure(overview: dispatcher_pb2.ClusterOverview) -> None:
    if overview.is_insecure:
        click.echo("INSECURE: this cluster serves other hosts without mutual TLS (security.insecure).", err=True)


@click.command(name="list")
@configuration_options
@cluster_address_option
@click.option("-r", "--running", is_flag=True, help="Only jobs that are running, failing or restarting.")
@click.option("-s", "--scheduled", is_flag=True, help="Only jobs that have not started.")
@click.option("-a", "--all", "everything", is_flag=True, help="Include jobs that have ended.")
@json_option
def list_jobs(
    address: str | None,
    running: bool,
    scheduled: bool,
    everything: bool,
    as_json: bool,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> None:
    """List the jobs that have not ended; with -a, all jobs."""
    from flinkpy.cli.tables import format_timestamp, print_table

    with connect(load_valid_configuration(config_dir, properties, {}), address) as client:
        jobs = client.list_jobs()
        warn_if_insecure(client.request_cluster_overview())
    shown = [job for job in jobs if _is_shown(job, running, scheduled, everything)]
    shown.sort(key=lambda job: (-job.start_time_ms, job.job_id))
    if as_json:
        print_json({"jobs": [job_overview_document(job) for job in shown]})
        return
    rows = [[format_timestamp(job.start_time_ms), job.job_id, job.name, JobState(job.status).name] for job in shown]
    if rows:
        print_table(["Started", "Job", "Name", "Status"], rows, whole=(1, 3))
    else:
        click.echo("No jobs.", err=True)


_SCHEDULED = (JobState.INITIALIZING, JobState.CREATED)


def _is_shown(job: dispatcher_pb2.JobOverview, running: bool, scheduled: bool, everything: bool) -> bool:
    state = JobState(job.status)
    if everything:
        return True
    if state.is_terminal:
        return False
    if running == scheduled:  # both options or none
        return True
    return (state in _SCHEDULED) == scheduled


@click.command()
@configuration_options
@cluster_address_option
@json_option
@job_argument
def info(
    address: str | None, as_json: bool, job: str, config_dir: str | None, properties: tuple[str, ...], verbose: bool
) -> None:
    """Show the vertices, metrics, failures and accumulators of JOB, and why it has no output."""
    from flinkpy.cli.tables import print_table
    from flinkpy.client.job_watch import describe_shortage, lacks_slots

    with connect(load_valid_configuration(config_dir, properties, {}), address) as client:
        job_id = find_job(client, job)
        details, accumulators = client.request_job(job_id), client.request_accumulators(job_id)
        shortage = describe_shortage(details, client.request_cluster_overview() if lacks_slots(details) else None)
        runs_in_spark = details.end_time_ms <= 0 and any(vertex.spark_description for vertex in details.vertices)
        groups = client.request_metrics(job_id) if runs_in_spark else []
        diagnosis = client.request_diagnosis(job_id)
    if as_json:
        shown = {**job_document(details), "accumulators": [accumulator_document(one) for one in accumulators]}
        print_json(
            {
                **shown,
                "waits": [
                    *([] if shortage is None else [f"The job {shortage}."]),
                    *describe_spark_waits(details, groups),
                ],
                "findings": [finding_document(one) for one in diagnosis.findings],
            }
        )
        return
    _print_details(details, shortage, describe_spark_waits(details, groups), describe_spark_regions(groups))
    for line in describe_diagnosis(diagnosis, has_shortage=shortage is not None):
        click.echo(line)
    if accumulators:
        print_table(["Accumulator", "Type", "Value"], [[one.name, one.type, one.value] for one in accumulators])


def describe_diagnosis(diagnosis: job_pb2.JobDiagnosis, *, has_shortage: bool) -> list[str]:
    """Returns the lines that say why a job has no output. `has_shortage`: missing slots have been shown already."""
    lines = []
    for finding in diagnosis.findings:
        if finding.kind != "SLOTS" or not has_shortage:
            lines.append(escaped_line(f"- {finding.sentence}"))
            lines += [escaped_line(f"  {finding.advice}")] if finding.advice else []
    return ["", "What may keep output back:", *lines] if lines else []


def describe_spark_waits(details: job_pb2.JobDetails, groups: Iterable[metrics_pb2.MetricGroupDump]) -> list[str]:
    """Returns a sentence for each vertex that waits for Spark."""
    names = {vertex.id: vertex.name for vertex in details.vertices}
    found = []
    for group in groups:
        for metric in group.metrics:
            waited_ms = metric_value(metric) if metric.name in _SPARK_WAITS else 0
            if waited_ms:
                name = escaped_line(names.get(group.vertex_id, group.vertex_id))
                found.append(f"{name} has waited {waited_ms / 1000:.0f} s for {_SPARK_WAITS[metric.name]}.")
    return found


def describe_spark_regions(groups: Iterable[metrics_pb2.MetricGroupDump]) -> dict[str, list[str]]:
    """Returns what the running regions in Spark say of themselves: lines by the id of their vertex.

    They name Spark's web page, and the place of each operator with the reason.
    """
    found: dict[str, list[str]] = {}
    for group in groups:
        texts = {metric.name: metric.text for metric in group.metrics if metric.text}
        page = texts.get(_SPARK_WEB_URL)
        lines = [] if page is None else [f"  Spark's web page: {page}"]
        lines += [f"  {line}" for line in texts.get(_SPARK_OPERATORS, "").splitlines()]
        if lines:
            found[group.vertex_id] = lines
    return found


def _print_details(
    details: job_pb2.JobDetails,
    shortage: str | None,
    spark_waits: Iterable[str] = (),
    spark_regions: Mapping[str, Iterable[str]] = MappingProxyType({}),
) -> None:
    from flinkpy.cli.tables import format_bytes, format_count, format_timestamp, print_table

    click.echo(f"{escaped_line(details.name)} ({details.job_id})")
    ended = f", ended {format_timestamp(details.end_time_ms)}" if details.end_time_ms > 0 else ""
    restarts = f", {details.num_restarts} restarts" if details.num_restarts else ""
    click.echo(f"{JobState(details.status).name}, started {format_timestamp(details.start_time_ms)}{ended}{restarts}")
    if shortage is not None:
        click.echo(f"The job {shortage}.")
    for wait in spark_waits:
        click.echo(wait)
    rows = []
    for vertex in details.vertices:
        states = ", ".join(f"{count} {state}" for state, count in sorted(vertex.tasks_per_state.items()) if count)
        metrics = vertex.metrics
        rows.append(
            [
                vertex.name,
                str(vertex.parallelism) if vertex.parallelism > 0 else "open",
                states,
                format_count(metrics.num_records_in),
                format_count(metrics.num_records_out),
                format_bytes(metrics.num_bytes_in),
                format_bytes(metrics.num_bytes_out),
            ]
        )
    headers = ["Vertex", "Parallelism", "Subtasks", "Records in", "Records out", "Bytes in", "Bytes out"]
    print_table(headers, rows, right=(1, 3, 4, 5, 6))
    for vertex in details.vertices:
        if vertex.parallelism_reason:
            parallelism = vertex.parallelism if vertex.parallelism > 0 else "open"
            click.echo(f"Parallelism of {vertex.name}: {parallelism}: {vertex.parallelism_reason}")
        if vertex.spark_description:
            click.echo(f"In {vertex.spark_description}")
            for line in spark_regions.get(vertex.id, ()):
                click.echo(escaped_line(line))
    for failure in list(details.exception_history)[:MAX_SHOWN_FAILURES]:
        where = f" in {failure.task_name} on {failure.resource_id}" if failure.task_name else ""
        click.echo(f"\nFailure at {format_timestamp(failure.timestamp_ms)}{where}:")
        click.echo(escaped((failure.error.traceback or failure.error.message).rstrip()))
        if failure.concurrent:
            others = ", ".join(dict.fromkeys(one.task_name or "the job" for one in failure.concurrent))
            click.echo(escaped_line(f"Failed with it: {others}"))


@click.command()
@configuration_options
@cluster_address_option
@json_option
@job_argument
def cancel(
    address: str | None, as_json: bool, job: str, config_dir: str | None, properties: tuple[str, ...], verbose: bool
) -> int:
    """Cancel JOB and wait until it has ended. Exits with 1 if it ended in another way."""
    with connect(load_valid_configuration(config_dir, properties, {}), address) as client:
        job_id = find_job(client, job)
        client.cancel_job(job_id)
        result = client.wait_for_result(job_id)
    status = JobState(result.status)
    if as_json:
        print_json({"job_id": job_id, "state": status.name})
    else:
        click.echo(f"Job {job_id}: {status.name}.")
    return 0 if status is JobState.CANCELED else 1


@click.command()
@configuration_options
@cluster_address_option
@click.option("-f", "--filter", "pattern", default="*", metavar="GLOB", help="Show only metrics whose name matches.")
@json_option
@click.option("--cluster", "of_cluster", is_flag=True, help="Show the metrics of the cluster and of its Dispatcher.")
@click.option("--taskmanager", metavar="ID", help="Show the metrics of the process of this TaskExecutor.")
@click.argument("job", required=False)
def metrics(
    address: str | None,
    pattern: str,
    as_json: bool,
    of_cluster: bool,
    taskmanager: str | None,
    job: str | None,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> None:
    """Show the current metrics of JOB, per operator and subtask, including those of user functions.

    With `--taskmanager` or `--cluster` it shows the metrics of processes instead.
    """
    from flinkpy.cli.tables import print_table

    if (job is not None) + of_cluster + (taskmanager is not None) != 1:
        raise click.UsageError("expected one of JOB, --taskmanager ID and --cluster")
    names: dict[str, str] = {}
    job_id = ""
    with connect(load_valid_configuration(config_dir, properties, {}), address) as client:
        if job is None:
            groups = client.request_process_metrics(taskmanager or "")
        else:
            job_id = find_job(client, job)
            names = {vertex.id: vertex.name for vertex in client.request_job(job_id).vertices}
            groups = client.request_metrics(job_id, EVERY_KIND)
    found = list(_matching(groups, pattern))
    found.sort(key=lambda entry: (entry[0].vertex_id, entry[0].subtask_index, entry[0].operator_name, entry[1].name))
    if as_json:
        documents = [metric_document(group, metric, names) for group, metric in found]
        print_json({"job_id": job_id or None, "metrics": documents})
        return
    rows = [
        [
            group.operator_name or names.get(group.vertex_id) or group.vertex_id or _owner(group),
            str(group.subtask_index) if group.vertex_id and group.subtask_index >= 0 else "",
            metric.name,
            str(metric_value(metric)),
            " ".join(f"{name}={value:g}" for name, value in sorted(metric.statistics.items())),
        ]
        for group, metric in found
    ]
    if rows:
        print_table(["Operator", "Subtask", "Metric", "Value", "Statistics"], rows, right=(1, 3))
    else:
        click.echo("No metrics.", err=True)


def _owner(group: metrics_pb2.MetricGroupDump) -> str:
    """Returns what has the metrics of a group without an operator and a vertex."""
    return "job" if group.job_id else "process"


def _matching(
    groups: list[metrics_pb2.MetricGroupDump], pattern: str
) -> Iterator[tuple[metrics_pb2.MetricGroupDump, metrics_pb2.MetricDump]]:
    for group in groups:
        for metric in group.metrics:
            if fnmatch.fnmatchcase(metric.name, pattern):
                yield group, metric
