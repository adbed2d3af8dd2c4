"""The ResourceManager process: from configuration to serving to a clean end."""

from __future__ import annotations

import asyncio
import logging
import os
import socket

from flinkpy.common.configuration import Configuration
from flinkpy.common.ids import ResourceID, ResourceManagerId
from flinkpy.common.process import announce_ready
from flinkpy.common.shutdown import ShutdownRequest
from flinkpy.highavailability.standalone import SingleLeadership, StandaloneLeaderElection
from flinkpy.resourcemanager.driver.local import LocalTaskExecutorDriver
from flinkpy.resourcemanager.driver.resource_manager_driver import ResourceManagerDriver
from flinkpy.resourcemanager.driver.standalone import StandaloneDriver
from flinkpy.resourcemanager.options import resource_manager_options
from flinkpy.resourcemanager.resource_manager import ResourceManager
from flinkpy.rpc.client import RpcClient
from flinkpy.rpc.server import RpcServer
from flinkpy.security import SecurityContext

logger = logging.getLogger(__name__)


async def run_resourcemanager(configuration: Configuration, *, ready_file: str | None = None) -> int:
    """Run a ResourceManager until SIGTERM or SIGINT; returns the exit status.

    Raises: AddressInUseError, ConfigurationError.
    """
    shutdown = ShutdownRequest()
    shutdown.listen_to_signals()
    options = resource_manager_options(configuration)
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
    peers = RpcClient(security=security)
    driver: ResourceManagerDriver = StandaloneDriver()
    if options.has_local_driver:
        driver = LocalTaskExecutorDriver(configuration.to_dict())
    endpoint = ResourceManager(
        asyncio.get_running_loop(),
        options=options,
        resource_id=ResourceID(f"resourcemanager-{socket.gethostname()}-{os.getpid()}"),
        resource_manager_id=ResourceManagerId(leadership.token),
        peers=peers,
        driver=driver,
    )
    server.add_endpoint("ResourceManager", endpoint)
    try:
        await server.start()
        election.confirm_leadership(leadership.token, server.address)
        endpoint.start(server.address)
        announce_ready("resourcemanager", server.address, ready_file=ready_file)
        logger.info("shutting down: %s", await shutdown.wait())
    finally:
        election.close()
        await server.stop()
        await endpoint.close()
        await peers.close()
    return 0
