"""A cluster whose services run on hosts of a `Network`; and the verifying job on it while the network is broken."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from job_support import wait_until
from namespaces import Host, HostProcess, Network, flinkpy

from flinkpy._proto import resourcemanager_pb2
from flinkpy.client.cluster_client import ClusterClient
from flinkpy.rpc.sync_client import SyncGateway

DISPATCHER_PORT, RESOURCE_MANAGER_PORT = 6123, 6124
#: Losses are noticed within a test's patience.
FAST = {
    "heartbeat.interval": "500 ms",
    "heartbeat.timeout": "4 s",
    "slot.request.timeout": "1 min",
}


class HostsCluster:
    """Masters on one host, a TaskExecutor on each other one; this process is a host of the network too.

    It offers what `clusters.RunningCluster` offers to those who run jobs on it.
    """

    def __init__(self, network: Network, *, workers: int = 2, slots: int = 1, properties: Mapping[str, str]) -> None:
        self.network = network
        self.client_host = network.add_own_host()
        self.master = network.add_host("master")
        self.workers = [network.add_host(f"worker-{number + 1}") for number in range(workers)]
        self._slots = slots
        self._configuration = {**FAST, **properties}
        self.services: dict[str, HostProcess] = {}

    def start(self) -> None:
        manager = f"--resourcemanager={self.master.address}:{RESOURCE_MANAGER_PORT}"
        self._start("resourcemanager", self.master, f"--port={RESOURCE_MANAGER_PORT}")
        self._start("dispatcher", self.master, f"--port={DISPATCHER_PORT}", manager)
        for worker in self.workers:
            self._start("taskexecutor", worker, manager, f"--slots={self._slots}")
        for service in self.services.values():
            service.wait_until_ready()
        self.client = ClusterClient(f"{self.master.address}:{DISPATCHER_PORT}")
        wait_until(lambda: self.num_free_slots() == self._slots * len(self.workers), "all workers are registered")

    def _start(self, verb: str, host: Host, *arguments: str) -> None:
        properties = [f"-D{key}={value}" for key, value in self._configuration.items()]
        name = f"{verb}-{host.name}"
        self.services[name] = host.start(name, flinkpy(verb, f"--host={host.address}", *arguments, *properties))

    @property
    def properties(self) -> dict[str, str]:
        return {
            "jobmanager.rpc.address": self.master.address,
            "jobmanager.rpc.port": str(DISPATCHER_PORT),
            "execution.target": "remote",
        }

    def num_free_slots(self) -> int:
        with SyncGateway("ResourceManager", f"{self.master.address}:{RESOURCE_MANAGER_PORT}") as gateway:
            request = resourcemanager_pb2.ResourceOverviewRequest()
            return int(gateway.request_resource_overview(request, timeout_s=10).num_slots_free)

    def close(self) -> None:
        self.client.close()
