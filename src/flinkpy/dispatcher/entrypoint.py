"""The Dispatcher process: from configuration to serving to a clean end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from flinkpy.common.clock import SystemClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.ids import DispatcherId
from flinkpy.common.process import announce_ready
from flinkpy.common.shutdown import ShutdownRequest
from flinkpy.common.working_directory import WorkingDirectory
from flinkpy.dispatcher.blob_server import BlobServer
from flinkpy.dispatcher.blob_store import BlobStore
from flinkpy.dispatcher.checkpoint_cleanup import clean_up_checkpoints
from flinkpy.dispatcher.dispatcher import Dispatcher
from flinkpy.dispatcher.job_graph_store import FileJobGraphStore
from flinkpy.dispatcher.job_master_launcher import JobMasterLauncher
from flinkpy.dispatcher.job_recovery_directories import JobRecoveryDirectories
from flinkpy.dispatcher.job_result_store import FileJobResultStore
from flinkpy.dispatcher.options import DispatcherOptions, dispatcher_options
from flinkpy.dispatcher.recovery import recover
from flinkpy.dispatcher.running_jobs import DispatcherServices
from flinkpy.highavailability.standalone import SingleLeadership, StandaloneLeaderElection
from flinkpy.rpc.client import RpcClient
from flinkpy.rpc.server import RpcServer
from flinkpy.security import SecurityContext

logger = logging.getLogger(__name__)


async def run_dispatcher(configuration: Configuration, *, ready_file: str | None = None) -> int:
    """Run a Dispatcher until SIGTERM, SIGINT or ShutDownCluster; returns the exit status.

    Raises: AddressInUseError, ConfigurationError.
    """
    shutdown = ShutdownRequest()
    shutdown.listen_to_signals()
    options = dispatcher_options(configuration)
    directory = WorkingDirectory.open(options.working_directory, options.temporary_root, "dispatcher")
    try:
        await _serve(configuration, options, directory, shutdown, ready_file)
    finally:
        directory.close()
    return 0


async def _serve(
    configuration: Configuration,
    options: DispatcherOptions,
    directory: WorkingDirectory,
    shutdown: ShutdownRequest,
    ready_file: str | None,
) -> None:
    loop = asyncio.get_running_loop()
    leadership = SingleLeadership()
    election = StandaloneLeaderElection()
    election.start(leadership)
    security = SecurityContext.of_service(configuration)
    server = RpcServer(
        bind_address=options.bind_address,
        port=options.port,
        advertised_host=options.advertised_host,
        security=security,
    )
    gateways = RpcClient(security=security)
    blobs = BlobStore(Path(options.blob_directory or directory.subdirectory("blobs")), options.max_blob_bytes)

    temporary = directory.subdirectory("tmp", empty=True)

    def launcher(on_exited: Callable[[str, str], None]) -> JobMasterLauncher:
        return JobMasterLauncher(configuration.to_dict(), options.bind_address, temporary, on_exited)

    services = DispatcherServices(
        gateways=gateways,
        launcher=launcher,
        job_graphs=FileJobGraphStore(directory.subdirectory("jobgraphs")),
        job_results=FileJobResultStore(directory.subdirectory("results")),
        recovery_directories=JobRecoveryDirectories(directory.subdirectory("recovery")),
        blobs=blobs,
        on_shutdown_requested=shutdown.request,
        dispose_savepoint=lambda path: _dispose_savepoint(path, configuration),
        clean_up_checkpoints=lambda terminated, path: clean_up_checkpoints(terminated, path, configuration.to_dict()),
    )
    endpoint = Dispatcher(
        loop,
        options=options,
        dispatcher_id=DispatcherId(leadership.token),
        services=services,
        configuration=configuration.to_dict(),
    )
    blob_server = BlobServer(blobs)
    server.add_endpoint("Dispatcher", endpoint)
    server.add_endpoint("BlobServer", blob_server)
    try:
        # What is left of a former life is settled before anybody can ask for it.
        recovered = recover(
            services.job_graphs,
            services.job_results,
            services.recovery_directories,
            SystemClock().now_ms(),
            services.clean_up_checkpoints,
        )
        await server.start()
        election.confirm_leadership(leadership.token, server.address)
        endpoint.start(server.address, recovered.ended, recovered.unfinished)
        announce_ready("dispatcher", server.address, ready_file=ready_file)
        logger.info("shutting down: %s", await shutdown.wait())
    finally:
        election.close()
        await endpoint.stop_jobs("the Dispatcher is shutting down")
        await server.stop()
        await endpoint.close()
        await gateways.close()
        blob_server.close()


def _dispose_savepoint(path: str, configuration: Configuration) -> None:
    """Blocking. The file systems are imported here, because a Dispatcher must start fast."""
    from flinkpy.checkpoint.savepoint_loader import dispose_savepoint
    from flinkpy.checkpoint.storage.file_systems import FileSystems

    dispose_savepoint(path, FileSystems(configuration))
