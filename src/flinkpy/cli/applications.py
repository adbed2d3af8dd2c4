"""`flinkpy run-application | standalone-job`: programs that run in a cluster of their own.

`run-application` starts all services on this host. `standalone-job` is the process that a container runs; its
TaskExecutors run elsewhere. In both cases the program runs beside the Dispatcher, and the cluster ends with it.
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
    from flinkpy.client.local_cluster import ApplicationCluster
    from flinkpy.common.application_report import ProgramEnded
    from flinkpy.common.configuration import Configuration

LOCAL_APPLICATION = "local-application"

#: All options after the program belong to the program, even those with the names of ours.
_SCRIPT = {"ignore_unknown_options": True, "allow_interspersed_args": False}
#: Targets of Flink that flinkpy does not support: others start their processes, or Flink 2 has removed them.
_FOREIGN_TARGETS = ("yarn", "kubernetes-per-job", "local-per-job")
#: Least number of slots per TaskExecutor of a local application, unless the number is configured.
_SLOTS_EACH = 4
#: How long Ctrl-C waits for the jobs to be canceled before it stops the cluster.
_CANCEL_WAIT_S = 15.0
#: Options that a local application ignores: it uses the loopback address and free ports.
_ADDRESSES = tuple(
    f"{service}.{option}"
    for service in ("jobmanager", "resourcemanager", "taskmanager")
    for option in ("rpc.address", "rpc.port", "rpc.bind-port", "bind-host", "host", "data.port", "data.bind-port")
)
_EXIT_TERMINATED = 128 + signal.SIGTERM


def check_target(target: str | None) -> None:
    """Refuses targets that flinkpy does not support. Raises: UserError that says what to do instead."""
    if target is None or not target.startswith(_FOREIGN_TARGETS):
        return
    is_per_job = target.endswith("per-job")
    reason = "Flink 2 has removed per-job clusters" if is_per_job else "flinkpy does not start containers itself"
    raise UserError(
        f"target `{target}`: {reason}. To run a program in a cluster of its own, use `flinkpy run-application` on this "
        "host. In containers, run `flinkpy standalone-job PROGRAM` in one and `flinkpy taskexecutor` in the others"
    )


# --- run-application ------------------------------------------------------------------------------------------------


@click.command(cls=ProgramCommand)
@configuration_options
@click.option(
    "-t",
    "--target",
    help="`local-application` (default): all processes run on this host. `kubernetes-application`: they are pods, and "
    "PROGRAM is a file of their image.",
)
@click.option("-d", "--detached", is_flag=True, help="Run in the background; return when the application runs.")
@click.option("--taskmanagers", type=click.IntRange(1, 256), help="TaskExecutor processes. Default: one per CPU core.")
@click.option("--ready-file", hidden=True)
@program_options
@click.argument("program", type=ProgramType(is_checked=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run_application(
    context: click.Context,
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
    """Run PROGRAM with ARGUMENTS in a cluster of its own, which ends with the program.

    Exits with 0 if the application finished or was canceled, else with the status the program gave to `sys.exit`, or
    1. Ctrl-C cancels the jobs.
    """
    from flinkpy.configuration.core_options import EXECUTION_TARGET, KUBERNETES_APPLICATION

    check_target(target)
    if target not in (None, LOCAL_APPLICATION, KUBERNETES_APPLICATION):
        raise UserError(f"target `{target}` needs `flinkpy run`: an application always has a cluster of its own")
    configuration = load_valid_configuration(config_dir, properties, program_overrides(settings))
    if (target or configuration.get_string(EXECUTION_TARGET.key, "")) == KUBERNETES_APPLICATION:
        from flinkpy.cli.kubernetes import deploy_application

        deploy_application(configuration, program, arguments)
        return 0
    program = ProgramType().convert(program, None, context)
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
    """Starts a local application and returns its exit status. If `execution.attached` is false, it does not wait.

    Raises:
        UserError: a setting is wrong.
        ExternalError: a process could not start.
    """
    from flinkpy.configuration import client_options, core_options, read_option
    from flinkpy.configuration.options import is_set
    from flinkpy.dispatcher.application_terms import local_application_id

    attached = core_options.EXECUTION_ATTACHED
    is_detached = is_set(configuration, attached) and not read_option(configuration, attached)
    for key in (*attached.keys, *core_options.EXECUTION_TARGET.keys):
        configuration.remove_config(key)
    application_id = local_application_id(configuration)
    configuration.set_string(client_options.CLUSTER_ID.key, application_id)
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
    """Raises SystemExit, so that the services are stopped in order and jobs are suspended."""
    raise SystemExit(_EXIT_TERMINATED)


@contextmanager
def _local_cluster(
    configuration: Configuration, program: str, arguments: tuple[str, ...], taskmanagers: int | None
) -> Iterator[ApplicationCluster]:
    from flinkpy.client.local_cluster import (
        ApplicationCluster,
        LocalClusterOptions,
        log_directory,
        set_shared_output_defaults,
    )
    from flinkpy.configuration import (
        client_options,
        core_options,
        read_option,
        taskmanager_options,
    )

    entries = configuration.to_dict()
    for key in _ADDRESSES:  # a shared config.yaml may have the addresses of another cluster
        entries.pop(key, None)
    set_shared_output_defaults(entries)
    num_task_executors = taskmanagers or max(
        read_option(entries, client_options.LOCAL_NUMBER_TASKMANAGER), os.cpu_count() or 1
    )
    # The number of slots that the jobs need is unknown before the program runs. A spare slot costs a share of memory.
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
    """Cancels the jobs and waits for the application, which ends with them."""
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
    process.popen.returncode = 0  # it outlives this command; Popen must not warn about it
    click.echo(f"Application {application_id} runs (pid {process.identity.pid}): Dispatcher at {process.address}.")
    click.echo(f"Log: {log}")
    return 0


# --- standalone-job -------------------------------------------------------------------------------------------------


@click.command(cls=ProgramCommand)
@service_options
@click.option("--resourcemanager", metavar="HOST:PORT", help="Address of the ResourceManager.")
@click.option(
    "--resourcemanager-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Run a ResourceManager too, at this port of --host, for a cluster that has none.",
)
@click.option("--job-id", help="Id of the program's first job. Default: derived from the cluster id.")
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
    """Run a Dispatcher process together with PROGRAM. Both end when the program and its jobs have ended.

    This is the command of a container. TaskExecutors run in other containers, and so does the ResourceManager unless
    --resourcemanager-port is given. With high availability, start any number of these processes: only the one whose
    Dispatcher is the leader runs the program.
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
    earlier = earlier_result(application, configuration)
    if earlier is not None:
        result, path = earlier
        click.echo(
            f"flinkpy: application {application.name} ({application.application_id}) has already ended as "
            f"{result.state.value} and does not run again: use another cluster id, or remove {path}",
            err=True,
        )
    template = job_master_template()
    with _resource_manager(configuration, host, resourcemanager_port):
        service = run_dispatcher(configuration, ready_file=ready_file, application=application, template=template)
        status = serve(service, configuration, name="standalone-job")
    if status != _EXIT_TERMINATED and has_own_deployment(configuration):
        from flinkpy.cli.kubernetes import delete_own_cluster

        delete_own_cluster(configuration)
    return status


def has_own_deployment(configuration: Configuration) -> bool:
    """True if this process runs in the Deployment of `flinkpy run-application -t kubernetes-application`."""
    from flinkpy.configuration import core_options, read_option

    return read_option(configuration, core_options.EXECUTION_TARGET) == core_options.KUBERNETES_APPLICATION


@contextmanager
def _resource_manager(configuration: Configuration, host: str | None, port: int | None) -> Iterator[None]:
    """Runs a ResourceManager process beside this one if `port` is given, and configures the Dispatcher to use it."""
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
        if port:  # without a fixed port, the others could not find its replacement
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
    """Run the program of an application and report its progress to the Dispatcher that started this process."""
    from flinkpy.client.application import ApplicationContext, enter_application
    from flinkpy.common.application_report import encode
    from flinkpy.common.cpu_scheduling import DEFAULT_SLICE_NS, request_time_slice
    from flinkpy.common.file_permissions import restore_umask
    from flinkpy.configuration import jobmanager_options, read_option

    restore_umask()
    request_time_slice(DEFAULT_SLICE_NS)
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
    """Runs the program and returns its outcome. Errors have been printed as `flinkpy run` prints them."""
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
        # The message of a job's error begins with the user's traceback, which has been printed.
        return ProgramEnded(1, (str(error).strip().splitlines() or [type(error).__name__])[-1], text, canceled)
    except Exception as error:  # noqa: BLE001 - the program may raise anything
        text = format_user_traceback(from_program_on(error))
        click.echo(text.rstrip(), err=True)
        return ProgramEnded(1, f"{type(error).__name__}: {error}", text)
    return ProgramEnded()


def _write(descriptor: int, line: bytes) -> None:
    """Writes the whole line. It blocks if the pipe is full; the Dispatcher reads it at once."""
    while line:
        line = line[os.write(descriptor, line) :]
