"""ApplicationTerms: runs the program of an application while its Dispatcher leads, and only then.

Source: org.apache.flink.runtime.dispatcher.runner.ApplicationDispatcherLeaderProcessFactoryFactory.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable
from pathlib import Path

from flinkpy.common.clock import Clock
from flinkpy.common.errors import ApplicationError, ConfigurationError, FlinkError
from flinkpy.common.ids import JobID
from flinkpy.configuration import client_options, high_availability_options, jobmanager_options
from flinkpy.configuration.options import AnyConfiguration, entries_of, read_option
from flinkpy.dispatcher.application_runner import ApplicationRunner
from flinkpy.dispatcher.application_status import ApplicationResult
from flinkpy.dispatcher.application_store import ApplicationDescription, ApplicationStore
from flinkpy.dispatcher.archivist import Archivist
from flinkpy.dispatcher.dispatcher import Dispatcher
from flinkpy.highavailability.leader_election import Leadership
from flinkpy.rest.applications import Application
from flinkpy.rpc.client import RpcClient
from flinkpy.rpc.leader_runner import Terms

_ID = re.compile(r"[0-9a-fA-F]{32}")


def application_id(configuration: AnyConfiguration) -> str:
    """Returns `cluster.id`, or derives an id if that is not set.

    The id is derived from `high-availability.cluster-id`, or without high availability from the path of the configured
    working directory, so that the next Dispatcher gets the same id. Without both it is random.
    Raises: ConfigurationError.
    """
    configured = read_option(configuration, client_options.CLUSTER_ID)
    if not _ID.fullmatch(configured):
        raise ConfigurationError(
            f"option `cluster.id`: {configured!r} is not 32 hex digits",
            details={"option": client_options.CLUSTER_ID.key},
        )
    if configured != client_options.NO_CLUSTER_ID:
        return configured.lower()
    if _is_highly_available(configuration):
        name = f"cluster {read_option(configuration, high_availability_options.HA_CLUSTER_ID)}"
    elif directory := read_option(configuration, jobmanager_options.WORKING_DIR):
        name = f"directory {Path(directory).absolute()}"
    else:
        return secrets.token_hex(16)
    return hashlib.sha256(f"application of {name}".encode()).hexdigest()[:32]


def local_application_id(configuration: AnyConfiguration) -> str:
    """Returns the application id for a cluster that ends with the command that started it. Raises: ConfigurationError.

    Ignores the working directory, because the next cluster there runs another application.
    """
    if not _is_highly_available(configuration):
        configuration = dict(entries_of(configuration))
        for key in jobmanager_options.WORKING_DIR.keys:
            configuration.pop(key, None)
    return application_id(configuration)


def application_store(configuration: AnyConfiguration) -> ApplicationStore | None:
    """Returns the store of the application; None if neither a store, high availability nor a directory is configured.

    Raises: ConfigurationError.
    """
    configured = read_option(configuration, client_options.APPLICATION_RESULT_STORE_PATH)
    if configured:
        return ApplicationStore(Path(configured))
    if _is_highly_available(configuration):
        storage = read_option(configuration, high_availability_options.HA_STORAGE_PATH)
        if not storage:
            raise ConfigurationError("high availability needs the option `high-availability.storageDir`")
        cluster = read_option(configuration, high_availability_options.HA_CLUSTER_ID).strip("/").replace("/", "-")
        return ApplicationStore(Path(storage.removeprefix("file://")) / "application-result-store" / cluster)
    directory = read_option(configuration, jobmanager_options.WORKING_DIR)
    return None if directory is None else ApplicationStore(Path(directory) / "application")


def describe_application(
    program: str, arguments: tuple[str, ...], configuration: AnyConfiguration
) -> ApplicationDescription:
    """Raises: ApplicationError if the program does not exist, or the cluster id belongs to another application."""
    is_module = program.startswith("module:")  # a module is looked up when it runs
    if not is_module and not Path(program).is_file():
        raise ApplicationError(f"the program {program} does not exist on this host, or is no file")
    path = program if is_module else str(Path(program).absolute())
    application = ApplicationDescription(application_id(configuration), path, arguments)
    earlier_result(application, configuration)
    return application


def earlier_result(
    application: ApplicationDescription, configuration: AnyConfiguration
) -> tuple[ApplicationResult, Path] | None:
    """Claims the cluster id. If the application has ended, returns its result and the file that holds it.

    The application does not run again while that file exists.
    """
    store = application_store(configuration)
    result = None if store is None else store.claim(application)
    return None if store is None or result is None else (result, store.path_of(application))


class ApplicationTerms(Terms[Dispatcher]):
    """Wraps `terms` and runs the application in each of them."""

    def __init__(self, terms: Terms[Dispatcher], runner: ApplicationRunner) -> None:
        self._terms = terms
        self._runner = runner

    async def make(self, leadership: Leadership) -> Dispatcher:
        return await self._terms.make(leadership)

    def activate(self, endpoint: Dispatcher, address: str) -> None:
        self._terms.activate(endpoint, address)

        def show_failed(job_id: str, error: FlinkError) -> None:
            endpoint.jobs.show_failed(JobID(job_id), self._runner.name, error)

        self._runner.leads(address, show_failed)

    async def revoked(self, endpoint: Dispatcher) -> None:
        await self._runner.leads_no_more()
        await self._terms.revoked(endpoint)

    async def ended(self, endpoint: Dispatcher) -> None:
        await self._runner.leads_no_more(may_finish=True)
        await self._terms.ended(endpoint)


def application_runner(
    application: ApplicationDescription,
    configuration: AnyConfiguration,
    gateways: RpcClient,
    on_shutdown_requested: Callable[[str], None],
    shown: Application,
    clock: Clock,
    archivist: Archivist | None = None,
) -> ApplicationRunner:
    """Makes the runner. It requests the shutdown of this process at the end of the application, if so configured.

    Args:
        shown: what the REST server tells of the application; the runner keeps it up to date.
    """

    def ended(result: ApplicationResult) -> None:
        shown.end(result.state.value, result.message, result.traceback, clock.now_ms())
        if read_option(configuration, client_options.SHUTDOWN_ON_APPLICATION_FINISH):
            on_shutdown_requested(f"the application has ended: {result.state.value}")

    return ApplicationRunner(
        application,
        entries_of(configuration),
        application_store(configuration),
        lambda address: gateways.gateway("Dispatcher", address),
        ended,
        shown.job_submitted,
        to_archive=None if archivist is None else (shown, archivist),
    )


def _is_highly_available(configuration: AnyConfiguration) -> bool:
    return read_option(configuration, high_availability_options.HA_MODE) != "NONE"
