"""Entry point of the ResourceManager process."""

from __future__ import annotations

import asyncio
import logging
import os
import socket

from flinkpy.common.configuration import Configuration
from flinkpy.common.ids import ResourceID, ResourceManagerId
from flinkpy.common.process import ShutdownRequest
from flinkpy.common.service_host import ServiceHost
from flinkpy.highavailability.leader_election import Leadership
from flinkpy.highavailability.services import HighAvailabilityServices, create_high_availability_services
from flinkpy.metrics.metric_registry import MetricRegistry
from flinkpy.metrics.scope_formats import GroupKind
from flinkpy.metrics.service_metrics import ServiceMetrics
from flinkpy.resourcemanager.cluster_metrics import PROCESS_GROUP, register_cluster_metrics
from flinkpy.resourcemanager.driver.local import LocalTaskExecutorDriver
from flinkpy.resourcemanager.driver.resource_manager_driver import ResourceManagerDriver, StandaloneDriver
from flinkpy.resourcemanager.options import ResourceManagerOptions, resource_manager_options
from flinkpy.resourcemanager.resource_manager import ResourceManager
from flinkpy.rpc.client import RpcClient
from flinkpy.rpc.leader_endpoint import LeaderEndpoint
from flinkpy.rpc.leader_runner import LeaderRunner
from flinkpy.rpc.server import RpcServer
from flinkpy.security import SecurityContext

logger = logging.getLogger(__name__)

#: EX_SOFTWARE of sysexits.h: the process was elected and could not become the leader.
EXIT_STATUS_FAILED = 70


async def run_resourcemanager(
    configuration: Configuration, *, ready_file: str | None = None, host: ServiceHost | None = None
) -> int:
    """Runs a ResourceManager until SIGTERM or SIGINT, and returns the exit status.

    With high availability the process takes part in the leader election for as long as it runs. It may lead several
    times, or never.

    Raises: AddressInUseError, ConfigurationError, HighAvailabilityError.
    """
    shutdown = ShutdownRequest()
    host = host or ServiceHost(ready_file)
    host.listen(shutdown)
    options = resource_manager_options(configuration)
    security = SecurityContext.of_service(configuration)
    services = await asyncio.to_thread(
        create_high_availability_services,
        configuration,
        security,
        asyncio.get_running_loop(),
        process="resourcemanager",
    )
    try:
        return await _serve(configuration, options, security, services, shutdown, host)
    finally:
        await asyncio.to_thread(services.close)


async def _serve(
    configuration: Configuration,
    options: ResourceManagerOptions,
    security: SecurityContext,
    services: HighAvailabilityServices,
    shutdown: ShutdownRequest,
    host: ServiceHost,
) -> int:
    server = RpcServer(
        bind_address=options.bind_address,
        port=options.port,
        advertised_host=options.advertised_host,
        security=security,
        on_end=host.on_server_end(),
    )
    peers = RpcClient(security=security)
    served = LeaderEndpoint("ResourceManager")
    metrics = ServiceMetrics(
        configuration,
        GroupKind.JOB_MANAGER,
        {"<host>": options.advertised_host},
        group=PROCESS_GROUP,
    )
    terms = ResourceManagerTerms(configuration, options, peers, metrics.registry)
    register_cluster_metrics(metrics.group, lambda: terms.leading)
    metrics.start()
    retrieval = services.resource_manager_retrieval() if services.is_highly_available else None
    runner = LeaderRunner("ResourceManager", terms, services.resource_manager_election(), served, server, retrieval)
    server.add_endpoint("ResourceManager", served)
    try:
        runner.start()
        if not services.is_highly_available:
            await runner.wait_until_made()
        await server.start()
        runner.serve(server.address)
        host.announce_ready("resourcemanager", server.address)
        logger.info("shutting down: %s", await runner.wait_for(shutdown))
        return EXIT_STATUS_FAILED if runner.failed.done() else 0
    finally:
        await runner.close()
        await server.stop()
        await terms.close()
        await peers.close()
        await asyncio.to_thread(metrics.close)


class ResourceManagerTerms:
    """Makes a new ResourceManager for each term in which this process leads.

    A new ResourceManager learns the state of the cluster from the TaskExecutors and JobMasters that register.
    TaskExecutors that a local driver has started end with the term.

    Source: org.apache.flink.runtime.resourcemanager.ResourceManagerServiceImpl. Thread: the process's loop.
    """

    def __init__(
        self,
        configuration: Configuration,
        options: ResourceManagerOptions,
        peers: RpcClient,
        metrics: MetricRegistry | None = None,
    ) -> None:
        self._configuration = configuration
        self._options = options
        self._peers = peers
        self._metrics = metrics
        self._last: ResourceManager | None = None

    @property
    def leading(self) -> ResourceManager | None:
        """The ResourceManager of the present term; None if this process does not lead. Any thread."""
        return self._last

    async def make(self, leadership: Leadership) -> ResourceManager:
        self._last = ResourceManager(
            asyncio.get_running_loop(),
            options=self._options,
            resource_id=ResourceID(f"resourcemanager-{socket.gethostname()}-{os.getpid()}"),
            resource_manager_id=ResourceManagerId(leadership.token),
            peers=self._peers,
            driver=make_driver(self._options.driver, self._configuration),
            metrics=self._metrics,
        )
        return self._last

    def activate(self, endpoint: ResourceManager, address: str) -> None:
        endpoint.start(address)

    async def revoked(self, endpoint: ResourceManager) -> None:
        await endpoint.close()
        if self._last is endpoint:
            self._last = None

    async def ended(self, endpoint: ResourceManager) -> None:
        """Does nothing: the endpoint is closed by `close`, when no call is served any more."""

    async def close(self) -> None:
        if self._last is not None:
            await self._last.close()


def make_driver(name: str, configuration: Configuration) -> ResourceManagerDriver:
    """Returns the driver of `flinkpy.resourcemanager.driver`. Raises: ConfigurationError."""
    if name == "local":
        return LocalTaskExecutorDriver(configuration.to_dict())
    if name == "kubernetes":
        # Only clusters on Kubernetes pay for its import.
        from flinkpy.resourcemanager.driver.kubernetes import make_kubernetes_driver

        return make_kubernetes_driver(configuration)
    return StandaloneDriver()
