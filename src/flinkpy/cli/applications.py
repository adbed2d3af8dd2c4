"""`flinkpy run-application | standalone-job`: programs that run in a cluster of their own.

`run-application` starts everything that the program needs on this host; `standalone-job` is the one process that a
container runs, and TaskExecutors join from elsewhere. In both the program runs beside the Dispatcher, and its end is
the end of the cluster.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from flinkpy.cli.options import configuration_options, load_valid_configuration
from flinkpy.cli.program import (
    ProgramCommand,
    ProgramType,
    absolute_program,
    from_program_on,
    program_environment,
    program_options,
    program_overrides,
    run_program,
)
from flinkpy.cli.services import dispatcher_overrides, importing, job_master_template, serve, service_options
from flinkpy.common.errors import ExternalError, FlinkError, JobCancelledError, UserError

if TYPE_CHECKING:
    from flinkpy.client.application_cluster import ApplicationCluster
    from flinkpy.common.application_report import ProgramEnded
    from flinkpy.common.configuration import Configuration

LOCAL_APPLICATION = "local-application"

#: A program gets its own options, also those that look like ours.
_SCRIPT = {"ignore_unknown_options": True, "allow_interspersed_args": False}
#: Targets of Flink whose processes are started by something that flinkpy does not talk to, or that are no more.
_FOREIGN_TARGETS = ("yarn", "kubernetes", "local-per-job")
#: Slots of each TaskExecutor of a local application, at least, where none are configured.
_SLOTS_EACH = 4
#: How long Ctrl-C waits for the jobs to be canceled before the cluster ends without it.
_CANCEL_WAIT_S = 15.0
#: A local application is on the loopback, at ports that are free.
_ADDRESSES = tuple(
    f"{service}.{option}"
    for service in ("jobmanager", "resourcemanager", "taskmanager")
    for option in ("rpc.address", "rpc.port", "rpc.bind-port", "bind-host", "host", "data.port", "data.bind-port")
)
_EXIT_TERMINATED = 128 + signal.SIGTERM


def check_target(target: str | None) -> None:
    """Raises: UserError that says what to do instead."""
    if target is None or not target.startswith(_FOREIGN_TARGETS):
        return
    is_per_job = target.endswith("per-job")
    reason = "per-job clusters are no more, as in Flink 2" if is_per_job else "flinkpy asks nobody for containers"
    raise UserError(
        f"target `{target}`: {reason}. A cluster for one program is an application: use `flinkpy run-application` on "
        "this host, or run `flinkpy standalone-job PROGRAM` as the command of a container, with `flinkpy taskexecutor` "
        "in others"
    )


# --- run-application ------------------------------------------------------------------------------------------------


@click.command(cls=ProgramCommand)
@configuration_options
@click.option("-t", "--target", help="Only `local-application`: all processes on this host.")
@click.option("-d", "--detached", is_flag=True, help="Return once the application runs, in the background.")
@click.option("--taskmanagers", type=click.IntRange(1, 256), help="TaskExecutor processes; one per core if not given.")
@click.option("--ready-file", hidden=True)
@program_options
@click.argument("program", type=ProgramType())
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run_application(
    target: str | None,
    detached: bool,
    taskmanagers: int | None,
    ready_file: str | None,
    program: str,
    arguments: tuple[str, ...],
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
    **settings: Any,
) -> int:
    """Run PROGRAM with ARGUMENTS in a cluster of its own, which ends with it.

    Exits with 0 where the application has finished or was canceled, else with the status of the program's `sys.exit`,
    or 1. Ctrl-C cancels its jobs.
    """
    check_target(target)
    if target not in (None, LOCAL_APPLICATION):
        raise UserError(f"target `{target}` is for `flinkpy run`: an application has a cluster of its own")
    configuration = load_valid_configuration(config_dir, properties, program_overrides(settings))
    if detached:
        configuration.set_string("execution.attached", "false")
    return start_application(configuration, program, arguments, taskmanagers=taskmanagers, ready_file=ready_file)


def start_application(
    configuration: Configuration,
    program: str,
    arguments: tuple[str, ...],
    *,
    taskmanagers: int | None = None,
    ready_file: str | None = None,
) -> int:
    """Where `execution.attached` is said to be false, in the background; returns the exit status.

    Raises: UserError, ExternalError where it cannot be started.
    """
    from flinkpy.configuration import application_options, core_options, read_option
    from flinkpy.configuration.options import is_set
    from flinkpy.dispatcher.application_terms import local_application_id

    attached = core_options.EXECUTION_ATTACHED
    is_detached = is_set(configuration, attached) and not read_option(configuration, attached)
    for key in (*attached.keys, *core_options.EXECUTION_TARGET.keys):
        configuration.remove_config(key)
    application_id = local_application_id(configuration)
    configuration.set_string(application_options.CLUSTER_ID.key, application_id)
    if is_detached:
        return _start_in_background(configuration, application_id, program, arguments, taskmanagers)
    signal.signal(signal.SIGTERM, _exit_terminated)
    with _local_cluster(configuration, program, arguments, taskmanagers) as local:
        if ready_file is not None:
            from flinkpy.common.process import announce_ready

            announce_ready("application", local.dispatcher_address, ready_file=ready_file)
        try:
            return local.wait()
        except KeyboardInterrupt:
            _cancel(local)
            raise


def _exit_terminated(number: int, frame: FrameType | None) -> NoReturn:
    """The services are ended on the way out, each in order: jobs are suspended."""
    raise SystemExit(_EXIT_TERMINATED)


@contextmanager
def _local_cluster(
    configuration: Configuration, program: str, arguments: tuple[str, ...], taskmanagers: int | None
) -> Iterator[ApplicationCluster]:
    from flinkpy.client.application_cluster import ApplicationCluster
    from flinkpy.client.local_cluster import LocalClusterOptions, log_directory, set_shared_output_defaults
    from flinkpy.configuration import (
        client_options,
        core_options,
        read_option,
        taskmanager_options,
    )

    entries = configuration.to_dict()
    for key in _ADDRESSES:  # those of a cluster that runs already, in a config.yaml that is used for both
        entries.pop(key, None)
    set_shared_output_defaults(entries)
    num_task_executors = taskmanagers or max(
        read_option(entries, client_options.LOCAL_NUMBER_TASKMANAGER), os.cpu_count() or 1
    )
    # Nobody knows before the program runs how many slots its jobs need; one too many costs a share of memory.
    parallelism = read_option(entries, core_options.PARALLELISM)
    slots = max(_SLOTS_EACH, -(-parallelism // num_task_executors))
    entries.setdefault(taskmanager_options.NUM_TASK_SLOTS.key, str(slots))
    log_dir = log_directory(entries, Path()) if entries.get(core_options.LOG_DIR.key) else None
    with tempfile.TemporaryDirectory(prefix="flinkpy-application-", ignore_cleanup_errors=True) as temporary:
        local = ApplicationCluster(
            LocalClusterOptions(
                num_task_executors=num_task_executors,
                properties=entries,
                log_dir=log_dir,
                temporary_dir=Path(temporary) / "cluster",
                inherit_output=True,
                restart_services=True,
            ),
            absolute_program(program),
            arguments,
        )
        try:
            local.start()
            yield local
        finally:
            local.stop()


def _cancel(local: ApplicationCluster) -> None:
    """Cancel the jobs and wait for the application, which ends with them."""
    from flinkpy.client.cluster_client import ClusterClient
    from flinkpy.common.states import JobState

    try:
        with ClusterClient(local.dispatcher_address, timeout_s=5.0, security=local.security) as client:
            for job in client.list_jobs():
                if not JobState(job.status).is_terminal:
                    client.cancel_job(job.job_id)
        local.processes[0].popen.wait(_CANCEL_WAIT_S)
    except (FlinkError, subprocess.TimeoutExpired) as error:
        click.echo(f"flinkpy: the jobs were not canceled in time: {error}", err=True)


def _start_in_background(
    configuration: Configuration,
    application_id: str,
    program: str,
    arguments: tuple[str, ...],
    taskmanagers: int | None,
) -> int:
    from flinkpy.cli.run_directory import RunDirectory
    from flinkpy.client.local_cluster import START_TIMEOUT_S, log_directory
    from flinkpy.client.service_process import ServiceProcess, ServiceSpec, wait_until_ready

    entries = configuration.to_dict()
    log_dir = log_directory(entries, RunDirectory.of(entries).log_dir)
    log = log_dir / f"application-{application_id}.log"
    options = () if taskmanagers is None else ("--taskmanagers", str(taskmanagers))
    process = ServiceProcess(
        ServiceSpec(
            "application",
            "run-application",
            options,
            properties=entries,
            log=log,
            dies_with_parent=False,
            trailing=("--", absolute_program(program), *arguments),
        )
    )
    try:
        wait_until_ready([process], START_TIMEOUT_S)
    except ExternalError:
        process.popen.terminate()
        raise ExternalError(process.reason_of_death()) from None
    finally:
        process.close()
    process.popen.returncode = 0  # it outlives this command, and nobody here waits for it
    click.echo(f"Application {application_id} runs (pid {process.identity.pid}): Dispatcher at {process.address}.")
    click.echo(f"Log: {log}")
    return 0


# --- standalone-job -------------------------------------------------------------------------------------------------


@click.command(cls=ProgramCommand)
@service_options
@click.option("--resourcemanager", metavar="HOST:PORT", help="Where the ResourceManager is reached.")
@click.option(
    "--resourcemanager-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Run a ResourceManager too, at this port of --host; for clusters that have none of their own.",
)
@click.option("--job-id", help="Id of the program's first job; made of the id of the cluster if not given.")
@program_options
@click.argument("program", type=ProgramType(is_checked=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def standalone_job(
    host: str | None,
    port: int | None,
    ready_file: str | None,
    insecure: bool,
    resourcemanager: str | None,
    resourcemanager_port: int | None,
    job_id: str | None,
    program: str,
    arguments: tuple[str, ...],
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
    **settings: Any,
) -> int:
    """Run a Dispatcher process and, beside it, PROGRAM; both end with the program and its jobs.

    The command of a container: TaskExecutors run in others, and a ResourceManager unless this has one. With high
    availability any number of these processes may be started; the one whose Dispatcher leads runs the program.
    """
    if resourcemanager is not None and resourcemanager_port is not None:
        raise click.UsageError("--resourcemanager and --resourcemanager-port exclude each other")
    overrides = dispatcher_overrides(host, port, insecure, resourcemanager)
    overrides |= {**program_overrides(settings), "$internal.pipeline.job-id": job_id}
    configuration = load_valid_configuration(config_dir, properties, overrides)

    with importing():
        from flinkpy.dispatcher.application_terms import describe_application, earlier_result
        from flinkpy.dispatcher.entrypoint import run_dispatcher

    application = describe_application(program, arguments, configuration)
    if (earlier := earlier_result(application, configuration)) is not None:
        result, path = earlier
        click.echo(
            f"flinkpy: application {application.name} ({application.application_id}) has ended before, as "
            f"{result.state.value}, and is not run again: take another cluster id, or remove {path}",
            err=True,
        )
    template = job_master_template()
    with _resource_manager(configuration, host, resourcemanager_port):
        service = run_dispatcher(configuration, ready_file=ready_file, application=application, template=template)
        return serve(service, configuration)


@contextmanager
def _resource_manager(configuration: Configuration, host: str | None, port: int | None) -> Iterator[None]:
    """Where there is a port: one that runs beside this process, and is told to the Dispatcher."""
    if port is None:
        yield
        return
    from flinkpy.client.local_cluster import START_TIMEOUT_S, STOP_GRACE_S
    from flinkpy.client.service_process import ServiceProcess, ServiceSpec, wait_until_ready
    from flinkpy.client.service_supervisor import ServiceSupervisor
    from flinkpy.common.process import stop_children

    arguments = ("--port", str(port)) if host is None else ("--host", host, "--port", str(port))
    entries = configuration.to_dict()
    spec = ServiceSpec("resourcemanager", "resourcemanager", arguments, properties=entries, inherit_output=True)
    processes = [ServiceProcess(spec)]

    def respawn(dead: ServiceProcess) -> ServiceProcess:
        dead.close()
        processes[:] = [ServiceProcess(dead.spec)]
        return processes[0]

    supervisor = None
    try:
        wait_until_ready(processes, START_TIMEOUT_S)
        address, _, known_port = (processes[0].address or "").rpartition(":")
        configuration.set_string("resourcemanager.rpc.address", address)
        configuration.set_string("resourcemanager.rpc.port", known_port)
        if port:  # one that has had any port cannot be found again at another
            supervisor = ServiceSupervisor(respawn, lambda _: None, START_TIMEOUT_S)
            supervisor.watch(list(processes))
        yield
    finally:
        if supervisor is not None:
            supervisor.pause()
        stop_children([process.popen for process in processes], STOP_GRACE_S)
        if supervisor is not None:
            supervisor.close()
        for process in processes:
            process.close()


# --- the process of the program ---------------------------------------------------------------------------------------


@click.command(context_settings=_SCRIPT, hidden=True)
@configuration_options
@click.option("--report-fd", type=int, required=True)
@click.option("--application-id", required=True)
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def application_main(
    report_fd: int,
    application_id: str,
    program: str,
    arguments: tuple[str, ...],
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> int:
    """Run the program of an application, and tell the Dispatcher that started this process how it goes."""
    from flinkpy.client.application import ApplicationContext, enter_application
    from flinkpy.common.application_report import encode
    from flinkpy.common.file_permissions import restore_umask
    from flinkpy.configuration import jobmanager_options, read_option

    restore_umask()
    configuration = load_valid_configuration(config_dir, properties, {})
    os.set_inheritable(report_fd, False)
    host = read_option(configuration, jobmanager_options.ADDRESS)
    address = f"{host}:{read_option(configuration, jobmanager_options.PORT)}"
    enter_application(ApplicationContext(application_id, address, lambda job: _write(report_fd, encode(job))))
    with program_environment(configuration, program, arguments):
        ended = _run_to_end(program)
    sys.stdout.flush()
    _write(report_fd, encode(ended))
    return ended.status


def _run_to_end(program: str) -> ProgramEnded:
    """What it raised has been shown as `flinkpy run` shows it."""
    from flinkpy.cli.main import describe_error
    from flinkpy.common.application_report import ProgramEnded
    from flinkpy.common.error_text import format_user_traceback

    try:
        run_program(program, verbose=True)
    except SystemExit as stopped:
        if stopped.code is None or stopped.code == 0:
            return ProgramEnded()
        if isinstance(stopped.code, int):
            return ProgramEnded(status=stopped.code & 0xFF or 1)
        click.echo(str(stopped.code), err=True)  # as Python does
        return ProgramEnded(status=1)
    except KeyboardInterrupt:
        return ProgramEnded(status=130)
    except FlinkError as error:
        text = describe_error(error)
        click.echo(text, err=True)
        canceled = isinstance(error, JobCancelledError)
        # The message of a job's error begins with the user's traceback, which has been shown.
        return ProgramEnded(1, (str(error).strip().splitlines() or [type(error).__name__])[-1], text, canceled)
    except Exception as error:  # noqa: BLE001 - the program's own, whatever it is
        text = format_user_traceback(from_program_on(error))
        click.echo(text.rstrip(), err=True)
        return ProgramEnded(1, f"{type(error).__name__}: {error}", text)
    return ProgramEnded()


def _write(descriptor: int, line: bytes) -> None:
    """A line is shorter than a pipe's buffer but for tracebacks; whoever reads is waiting for it."""
    while line:
        line = line[os.write(descriptor, line) :]
