"""The topology of docker-compose.yml without a container engine: each container runs on its own host of a `Network`.

A container gets exactly the command, environment, configuration files and volumes of the file, its user, and a
read-only root. This machine's Python replaces the image. Only ZooKeeper's own image is imitated: the classes in pyspark
run its configuration file.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from urllib.parse import urlencode

import yaml
from compose_file import ROOT, ComposeService, services
from job_support import wait_until
from namespaces import Container, Host, HostProcess, Network
from zookeeper_server import jars_of_zookeeper

#: The user of each image, who owns the files of a new volume.
OWNERS = {"zookeeper": 1000}
OWNER = 9999
ZOOKEEPER_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
PASSWD = "root:x:0:0::/root:/bin/sh\nflinkpy:x:9999:9999::/tmp:/bin/false\nzookeeper:x:1000:1000::/tmp:/bin/false\n"
HEALTHY_S = 120.0


class ComposeCluster:
    """A running topology, as after `docker compose up`. The end of its network ends it.

    Args:
        network: the network in which the hosts are created.
        without: services of the file that are not started.
        scale: the number of replicas of a service if it differs from the file.
        properties: options that every service gets in addition, for example shorter timeouts.
    """

    def __init__(
        self,
        network: Network,
        *,
        without: tuple[str, ...] = ("spark-master", "spark-worker"),
        scale: Mapping[str, int] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.network = network
        self._services = {name: service for name, service in services().items() if name not in without}
        self._scale = scale or {}
        self._properties = "\n".join(f"{key}={value}" for key, value in (properties or {}).items())
        self._volumes = network.directory / "volumes"
        #: The users of the images.
        self._passwd = network.directory / "passwd"
        self._passwd.write_text(PASSWD)
        #: The containers by service name and number, e.g. `taskexecutor-2`.
        self.containers: dict[str, HostProcess] = {}

    def up(self) -> None:
        """Starts everything in the order of the dependencies, and waits until all containers are healthy."""
        waiting = [service for service in self._services.values() if service.is_default]
        while waiting:
            due = [service for service in waiting if not self._dependencies(service) & {each.name for each in waiting}]
            assert due, f"these wait for each other: {[service.name for service in waiting]}"
            for service in due:
                for number in range(self._scale.get(service.name, service.replicas)):
                    self._start(service, number + 1)
            for service in due:
                self._wait(service, [other for other in waiting if service.name in self._dependencies(other)])
            waiting = [service for service in waiting if service not in due]
        for name in self.containers:
            wait_until(lambda name=name: self.is_healthy(name), f"{name} is healthy", HEALTHY_S)

    def _dependencies(self, service: ComposeService) -> set[str]:
        return set(service.settings.get("depends_on", ())) & set(self._services)

    def _start(self, service: ComposeService, number: int) -> None:
        name = service.name if service.replicas == 1 else f"{service.name}-{number}"
        hostname = service.settings.get("hostname") or secrets.token_hex(6)
        host = self.network.add_host(hostname)
        self._run(name, service, host)

    def _run(self, name: str, service: ComposeService, host: Host) -> None:
        self.containers[name] = host.start(
            name, self.command(service), environment=self.environment(service), container=self.container(service, name)
        )

    def restart(self, name: str) -> None:
        """Restarts a container that has ended, as the engine does."""
        self._run(name, self.service_of(name), self.containers[name].host)

    def service_of(self, name: str) -> ComposeService:
        return self._services.get(name) or self._services[name.rpartition("-")[0]]

    def _wait(self, service: ComposeService, dependants: list[ComposeService]) -> None:
        conditions = {each.settings["depends_on"][service.name]["condition"] for each in dependants}
        process = self.containers.get(service.name)
        if "service_completed_successfully" in conditions:
            assert process is not None
            status = process.popen.wait(HEALTHY_S)
            assert status == 0, f"{service.name} ended with status {status}:\n{process.log}"
            del self.containers[service.name]
        elif "service_healthy" in conditions:
            wait_until(lambda: self.is_healthy(service.name), f"{service.name} is healthy", HEALTHY_S)

    # --- Parts of a container

    def command(self, service: ComposeService) -> list[str]:
        if not service.is_ours:
            assert service.name == "zookeeper"
            java = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
            return [*java, "-cp", os.pathsep.join(jars_of_zookeeper()), ZOOKEEPER_MAIN, "/conf/zoo.cfg"]
        words = service.command
        return words[2:] if words[:2] == ["tini", "--"] else words

    def environment(self, service: ComposeService) -> dict[str, str]:
        extra = {"FLINKPY_DYNAMIC_PROPERTIES": self._properties} if self._properties else {}
        return {**service.environment, **extra}

    def container(self, service: ComposeService, name: str) -> Container:
        user, _, group = service.settings["user"].partition(":")
        volumes: list[tuple[Path, str, bool]] = [(self._passwd, "/etc/passwd", False)]
        for number, mount in enumerate(service.mounts):
            if mount.source is not None and not mount.is_named:
                source = ROOT / mount.source
            else:
                source = self._volume(mount.source or f"{name}-{number}", int(user))
            volumes.append((source, mount.target, mount.is_writable))
        return Container(volumes=volumes, scratch=service.scratch, user=int(user), group=int(group))

    def _volume(self, name: str, user: int) -> Path:
        path = self._volumes / name
        if not path.exists():
            path.mkdir(parents=True, mode=0o700)
            os.chown(path, user, user)
        return path

    # --- Operations of users

    def is_healthy(self, name: str) -> bool:
        """Runs the health check of the file, or that of the image, and returns its verdict."""
        service, process = self.service_of(name), self.containers[name]
        assert process.is_alive, f"{name} ended with status {process.popen.returncode}:\n{process.log[-4000:]}"
        check = service.settings.get("healthcheck", {})
        if check.get("disable"):
            return True
        if service.name == "zookeeper":
            probe = "import socket, sys; c = socket.create_connection(('127.0.0.1', 2181), 2); c.sendall(b'ruok'); "
            command = ["python", "-c", f"{probe}sys.exit(c.recv(4) != b'imok')"]
        else:
            command = check["test"][1:] if check else ["flinkpy", "health"]
        done = process.host.run(command, environment=self.environment(service), container=self.container(service, name))
        return done.returncode == 0

    def client(self, *arguments: str, timeout_s: float = 100.0) -> CompletedProcess[str]:
        """Runs `docker compose run --rm client ARGUMENTS`."""
        service = self._services["client"]
        return self._client_host().run(
            ["flinkpy", *arguments],
            environment=self.environment(service),
            container=self.container(service, "client"),
            timeout_s=timeout_s,
        )

    @contextmanager
    def running_client(self, verb: str, program: str) -> Iterator[HostProcess]:
        """Runs `docker compose run --volume PROGRAM:/program.py client VERB /program.py` until the end of the block."""
        service = self._services["client"]
        path = self.network.directory / "program.py"
        path.write_text(program)
        container = self.container(service, "client")
        with_program = replace(container, volumes=[*container.volumes, (path, "/program.py", False)])
        process = self._client_host().start(
            "client",
            ["flinkpy", verb, "/program.py"],
            environment=self.environment(service),
            container=with_program,
        )
        try:
            yield process
        finally:
            process.terminate()

    def client_code(self, code: str) -> CompletedProcess[str]:
        """Runs Python code in the container of a client."""
        service = self._services["client"]
        return self._client_host().run(
            ["python", "-c", code], environment=self.environment(service), container=self.container(service, "client")
        )

    @contextmanager
    def prometheus(self, hosts: Sequence[str]) -> Iterator[Callable[[str], float | None]]:
        """Runs `docker compose --profile monitoring up prometheus` until the end of the block.

        The networks of the tests have no name service, so the first port of the given hosts is scraped instead of the
        addresses in the configuration. Yields a function that returns the value of an expression, or None.
        """
        service = self._services["prometheus"]
        settings = yaml.safe_load((ROOT / "deploy/monitoring/prometheus-compose.yml").read_text())
        job = settings["scrape_configs"][0]
        port = job.pop("dns_sd_configs")[0]["port"]
        settings["scrape_configs"] = [{**job, "static_configs": [{"targets": [f"{host}:{port}" for host in hosts]}]}]
        settings["global"]["scrape_interval"] = settings["global"]["scrape_timeout"] = "1s"
        path = self.network.directory / "prometheus.yml"
        path.write_text(yaml.safe_dump(settings))
        path.chmod(0o644)
        container = self.container(service, "prometheus")
        volumes = [
            (path, target, is_writable) if target.endswith("/prometheus.yml") else (source, target, is_writable)
            for source, target, is_writable in container.volumes
        ]
        host = self.network.add_host("prometheus")
        process = host.start(
            "prometheus",
            ["prometheus", *service.settings["command"]],
            environment={},
            container=replace(container, volumes=volumes),
        )

        def ask(expression: str) -> float | None:
            url = f"http://127.0.0.1:9090/api/v1/query?{urlencode({'query': expression})}"
            code = f"import urllib.request; print(urllib.request.urlopen({url!r}, timeout=20).read().decode())"
            done = host.run(["python", "-c", code], environment={}, container=container)
            assert process.is_alive, process.log[-4000:]
            result = json.loads(done.stdout)["data"]["result"] if done.returncode == 0 else []
            return float(result[0]["value"][1]) if result else None

        try:
            yield ask
        finally:
            process.terminate()

    def _client_host(self) -> Host:
        return self.network.hosts.get("client") or self.network.add_host("client")

    def leader(self, kind: str) -> str:
        """Waits for the container whose `dispatcher` or `resourcemanager` leads, and returns its name."""

        def leading() -> str | None:
            for name, process in self.containers.items():
                if not name.startswith(kind) or not process.is_alive:
                    continue
                service = self.service_of(name)
                done = process.host.run(
                    ["flinkpy", "health", "--expect", "leading"],
                    environment=self.environment(service),
                    container=self.container(service, name),
                )
                if done.returncode == 0:
                    return name
            return None

        leader: str = wait_until(leading, f"a {kind} leads", HEALTHY_S)
        return leader
