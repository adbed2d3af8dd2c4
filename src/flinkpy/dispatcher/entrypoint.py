"""Entry point of the Dispatcher process."""

from __future__ import annotations

import asyncio
import logging
import os

from flinkpy.common.clock import SystemClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.process import EXIT_CLUSTER_SHUT_DOWN, SUPERVISED_VARIABLE, ShutdownRequest
from flinkpy.common.process_template import ProcessTemplate
from flinkpy.common.service_host import ServiceHost
from flinkpy.common.working_directory import WorkingDirectory
from flinkpy.configuration.options import entries_of
from flinkpy.dispatcher.application_store import ApplicationDescription
from flinkpy.dispatcher.application_terms import ApplicationTerms, application_runner
from flinkpy.dispatcher.archivist import read_archivist
from flinkpy.dispatcher.blob_server import BlobServer, BlobStore
from flinkpy.dispatcher.dispatcher import Dispatcher
from flinkpy.dispatcher.dispatcher_terms import DispatcherTerms
from flinkpy.dispatcher.hosted_job_masters import RunJobMaster
from flinkpy.dispatcher.options import DispatcherOptions, dispatcher_options
from flinkpy.dispatcher.session_applications import SessionApplications
from flinkpy.highavailability.services import HighAvailabilityServices, create_high_availability_services
from flinkpy.metrics.scope_formats import GroupKind
from flinkpy.metrics.service_metrics import ServiceMetrics
from flinkpy.rest.applications import Application
from flinkpy.rest.cluster_gateways import LeaderGateways
from flinkpy.rest.endpoint import RestEndpoint
from flinkpy.rest.options import read_rest_options
from flinkpy.rpc.client import RpcClient
from flinkpy.rpc.leader_endpoint import LeaderEndpoint
from flinkpy.rpc.leader_runner import LeaderRunner, Terms
from flinkpy.rpc.server import RpcServer
from flinkpy.security import SecurityContext

logger = logging.getLogger(__name__)

#: EX_SOFTWARE of sysexits.h: the process was elected and could not become the leader.
EXIT_STATUS_FAILED = 70


async def run_dispatcher(
    configuration: Configuration,
    *,
    ready_file: str | None = None,
    application: ApplicationDescription | None = None,
    template: ProcessTemplate | None = None,
    host: ServiceHost | None = None,
    run_job_master: RunJobMaster | None = None,
) -> int:
    """Runs a Dispatcher until SIGTERM, SIGINT or ShutDownCluster, and returns the exit status.

    With high availability the process takes part in the leader election for as long as it runs. It may lead several
    times, or never. The program of an application runs while this process leads, and the exit status is that of the
    application. JobMaster processes are forked from `template`, which ends with this process. With `run_job_master`,
    JobMasters run on the loop of the Dispatcher instead.

    Raises: AddressInUseError, ConfigurationError, HighAvailabilityError.
    """
    shutdown = ShutdownRequest()
    host = host or ServiceHost(ready_file)
    host.listen(shutdown)
    options = dispatcher_options(configuration)
    security = SecurityContext.of_service(configuration)
    directory = WorkingDirectory.open(options.working_directory, options.temporary_root, "dispatcher")
    try:
        services = await asyncio.to_thread(
            create_high_availability_services,
            configuration,
            security,
            asyncio.get_running_loop(),
            process="dispatcher",
            resource_manager_address=options.resource_manager_address,
            directory=directory.path,
        )
        try:
            return await _serve(
                configuration,
                options,
                security,
                services,
                directory,
                shutdown,
                host,
                application,
                template,
                run_job_master,
            )
        finally:
            await asyncio.to_thread(services.close)
    finally:
        directory.close()
        if template is not None:
            template.close()


async def _serve(
    configuration: Configuration,
    options: DispatcherOptions,
    security: SecurityContext,
    services: HighAvailabilityServices,
    directory: WorkingDirectory,
    shutdown: ShutdownRequest,
    host: ServiceHost,
    application: ApplicationDescription | None,
    template: ProcessTemplate | None,
    run_job_master: RunJobMaster | None,
) -> int:
    server = RpcServer(
        bind_address=options.bind_address,
        port=options.port,
        advertised_host=options.advertised_host,
        security=security,
        on_end=host.on_server_end(),
    )
    gateways = RpcClient(security=security)
    blobs = BlobStore(services.blob_directory(), options.max_blob_bytes, is_shared=services.is_highly_available)
    blob_server = BlobServer(blobs)
    served = LeaderEndpoint("Dispatcher")
    rest_options = read_rest_options(configuration)
    rest = None
    applications = None
    if rest_options is not None:
        rest = RestEndpoint(
            rest_options, configuration, security, lambda: directory.subdirectory("web-upload", empty=True)
        )
        rest.bind()
    metrics = ServiceMetrics(configuration, GroupKind.JOB_MANAGER, {"<host>": options.advertised_host})
    archivist = read_archivist(configuration)
    dispatcher_terms = DispatcherTerms(
        configuration=configuration,
        options=options,
        services=services,
        served=served,
        gateways=gateways,
        blobs=blobs,
        temporary=None if services.is_highly_available else directory.subdirectory("tmp", empty=True),
        on_shutdown_requested=shutdown.request,
        template=template,
        run_job_master=run_job_master,
        rest_url="" if rest is None else rest.url,
        metrics=metrics.registry,
        archivist=archivist,
    )
    metrics.group.gauge("numRunningJobs", lambda: dispatcher_terms.num_running_jobs)
    metrics.start()
    terms: Terms[Dispatcher] = dispatcher_terms
    program, own = None, None
    if application is not None:
        clock = SystemClock()
        shown = Application(application.application_id, application.name, entries_of(configuration), clock.now_ms())
        program = application_runner(application, configuration, gateways, shutdown.request, shown, clock, archivist)
        own = (shown, program)
        terms = ApplicationTerms(terms, program)
    retrieval = services.dispatcher_retrieval() if services.is_highly_available else None
    runner = LeaderRunner("Dispatcher", terms, services.dispatcher_election(), served, server, retrieval)
    server.add_endpoint("Dispatcher", served)
    server.add_endpoint("BlobServer", blob_server)
    try:
        runner.start()
        if not services.is_highly_available:
            await runner.wait_until_made()
        await server.start()
        runner.serve(server.address)
        host.announce_ready("dispatcher", server.address)
        if rest is not None:
            find = dispatcher_terms.resource_manager_address
            cluster = LeaderGateways(served, gateways, find, server.address)
            applications = SessionApplications(cluster, SystemClock(), archivist, own)
            rest.start(cluster, applications)
        reason = await runner.wait_for(shutdown)
        logger.info("shutting down: %s", reason)
        has_failed = runner.failed.done()
    finally:
        if rest is not None:
            await rest.stop()
        if applications is not None:
            await applications.close()
        await runner.close()
        await server.stop()
        await dispatcher_terms.close()
        if program is not None:
            await program.close()
        await gateways.close()
        blob_server.close()
        await asyncio.to_thread(metrics.close)
    if has_failed:
        return EXIT_STATUS_FAILED
    if program is None:
        is_told = SUPERVISED_VARIABLE in os.environ and not shutdown.is_by_signal
        return EXIT_CLUSTER_SHUT_DOWN if is_told else 0
    # Read at the end, because an application that was just ending may have finished meanwhile.
    return program.exit_status
