"""HostsCluster: a cluster on the hosts of a simulated `Network`. Tests can lose hosts and break the network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import psutil
import yaml
from job_support import leads, num_free_slots, wait_until
from namespaces import Host, HostProcess, Network, flinkpy
from requirements import require
from zookeeper_server import ZooKeeperServer

from flinkpy.client.cluster_client import ClusterClient
from flinkpy.security import ClusterSecret, Role, SecurityContext

PORTS = {"dispatcher": 6123, "resourcemanager": 6124, "taskexecutor": 6122}
ZOOKEEPER_PORT = 2181
CLIENT_TIMEOUT_S = 5.0
#: Debian's package `faketime`.
LIBFAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
#: Short timeouts: losses are noticed and retried within seconds.
FAST = {
    "heartbeat.interval": "500 ms",
    "heartbeat.timeout": "4 s",
    "slot.request.timeout": "1 min",
    "taskmanager.data.port": "6121",
}


def require_clocks() -> None:
    """Skips the calling test with a warning if hosts cannot have their own clocks."""
    require(
        "faketime", Path(LIBFAKETIME).exists(), "NOT TESTED: hosts with wrong clocks (Debian: apt-get install faketime)"
    )


class HostsCluster:
    """A cluster with masters on one host, or on two hosts and ZooKeeper on a third, and a TaskExecutor on each worker.

    The test process is a host of the network too. Jobs run on the cluster as on a `clusters.RunningCluster`. All
    services share one `config.yaml` and one secret. The cluster is a context manager.

    Args:
        has_clocks: `set_clock` can set the wall clocks of the hosts. It affects only processes of the cluster.
    """

    def __init__(
        self,
        network: Network,
        *,
        workers: int = 2,
        slots: int = 1,
        is_highly_available: bool = False,
        properties: Mapping[str, str] | None = None,
        session_timeout: str = "4 s",
        has_clocks: bool = False,
    ) -> None:
        self.network = network
        self._has_clocks = has_clocks
        self.client_host = network.add_own_host()
        self.zookeeper: ZooKeeperServer | None = None
        self.masters = [network.add_host(f"master-{number + 1}") for number in range(1 + is_highly_available)]
        self.workers = [network.add_host(f"worker-{number + 1}") for number in range(workers)]
        self.services: dict[str, HostProcess] = {}
        self._slots = slots
        secret_file = network.directory / "secret"
        self._secret = ClusterSecret.load_or_create(secret_file)
        self.security = SecurityContext.of_secret(self._secret, Role.CLUSTER, is_insecure=True)
        configuration = {
            **FAST,
            "jobmanager.rpc.address": self.masters[0].address,
            "resourcemanager.rpc.address": self.masters[0].address,
            "taskmanager.numberOfTaskSlots": str(slots),
            "taskmanager.rpc.port": str(PORTS["taskexecutor"]),
            "jobmanager.rpc.port": str(PORTS["dispatcher"]),
            "resourcemanager.rpc.port": str(PORTS["resourcemanager"]),
            "security.secret-file": str(secret_file),
            "security.insecure": "true",
        }
        if is_highly_available:
            self.zookeeper_host = network.add_host("zookeeper")
            self.zookeeper = ZooKeeperServer(
                network.directory / "zookeeper",
                host=self.zookeeper_host.address,
                port=ZOOKEEPER_PORT,
                prefix=self.zookeeper_host.command_line([]),
            )
            configuration |= {
                "high-availability.type": "zookeeper",
                "high-availability.storageDir": str(network.directory / "ha"),
                "high-availability.zookeeper.quorum": self.zookeeper.quorum,
                "high-availability.zookeeper.client.session-timeout": session_timeout,
                "high-availability.zookeeper.client.connection-timeout": "3 s",
            }
        self.properties = {**configuration, **(properties or {}), "execution.target": "remote"}
        self.config_file = network.directory / "config.yaml"
        self.config_file.write_text(yaml.safe_dump(self.properties))

    # --- Start and stop

    def start(self) -> None:
        if self.zookeeper is not None:
            self.zookeeper.start()
        for master in self.masters:
            self.start_service("resourcemanager", master)
            self.start_service("dispatcher", master)
        for worker in self.workers:
            self.start_service("taskexecutor", worker)
        for service in self.services.values():
            service.wait_until_ready()
        self.leader("dispatcher")
        self.client = self._make_client()
        wait_until(lambda: num_free_slots(self) == self._slots * len(self.workers), "all workers are registered")

    def start_service(self, verb: str, host: Host) -> HostProcess:
        """Starts a service with the common configuration file and the options of its host, as in a container."""
        name = f"{verb}-{host.name}"
        own = {"dispatcher": "jobmanager", "resourcemanager": "resourcemanager", "taskexecutor": "taskmanager"}[verb]
        arguments = [f"-D{own}.bind-host={host.address}"]
        if verb != "taskexecutor":
            arguments.append(f"-D{own}.rpc.address={host.address}")
        environment = {"FLINKPY_CONF_DIR": str(self.config_file), **self._clock(host)}
        self.services[name] = host.start(name, flinkpy(verb, *arguments), environment=environment)
        return self.services[name]

    def _clock(self, host: Host) -> dict[str, str]:
        if not self._has_clocks:
            return {}
        if not self._clock_file(host).exists():
            self.set_clock(host, 0)
        return {
            "LD_PRELOAD": LIBFAKETIME,
            "FAKETIME_TIMESTAMP_FILE": str(self._clock_file(host)),
            # Seconds until the file is read again.
            "FAKETIME_CACHE_DURATION": "1",
            # Only the wall clock is set. The monotonic clock stays true.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            # Avoids a workaround for old versions of glibc that makes waiting Python threads spin.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        }

    def _clock_file(self, host: Host) -> Path:
        return self.network.directory / f"clock-{host.name}"

    def set_clock(self, host: Host, seconds: float) -> None:
        """Sets the wall clock of the host ahead of the true time by `seconds`, or behind it if negative."""
        unfinished = self._clock_file(host).with_suffix(".unfinished")
        unfinished.write_text(f"{seconds:+g}\n")
        unfinished.rename(self._clock_file(host))

    def restart_what_died(self) -> list[str]:
        """Restarts ended services, as a container engine does, and returns their names."""
        died = [name for name, service in self.services.items() if not service.is_alive]
        for name in died:
            self.start_service(name.partition("-")[0], self.services[name].host)
        return died

    def __enter__(self) -> HostsCluster:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.client.close()
        if self.zookeeper is not None:
            self.zookeeper.kill()

    def _make_client(self) -> ClusterClient:
        return ClusterClient(
            ",".join(f"{master.address}:{PORTS['dispatcher']}" for master in self.masters),
            # Tests repeat a call that times out.
            timeout_s=CLIENT_TIMEOUT_S,
            security=self.security,
        )

    def pause_zookeeper(self) -> None:
        """Suspends ZooKeeper (SIGSTOP). It keeps its connections and answers no request."""
        for process in self._zookeeper_processes():
            process.suspend()

    def resume_zookeeper(self) -> None:
        for process in self._zookeeper_processes():
            process.resume()

    def _zookeeper_processes(self) -> list[psutil.Process]:
        assert self.zookeeper is not None
        return psutil.Process(self.zookeeper.pid).children(recursive=True)

    # --- State

    @property
    def hosts(self) -> list[Host]:
        """The hosts whose network may be broken: all except the client's."""
        return [host for host in self.network.hosts.values() if host is not self.client_host]

    def leader(self, verb: str) -> Host:
        """Waits for the leading `dispatcher` or `resourcemanager` and returns its host."""
        leader: Host = wait_until(lambda: self._leader(verb), f"a {verb} leads")
        return leader

    def _leader(self, verb: str) -> Host | None:
        for master in self.masters:
            if leads(verb, f"{master.address}:{PORTS[verb]}", self.security):
                return master
        return None

    def other_master(self, master: Host) -> Host:
        return next(host for host in self.masters if host is not master)

    @property
    def resource_manager_address(self) -> str:
        return f"{self.leader('resourcemanager').address}:{PORTS['resourcemanager']}"

    def log(self, name: str) -> str:
        return self.services[name].log
