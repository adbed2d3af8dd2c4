"""Hosts on one machine, each with a network namespace, an address and a name. Tests can break the network between them.

`Network` is the network with its faults, `Host` is one host, and `HostProcess` is a process on a host. A `Container`
gives a process the file system of a container: a read-only root, volumes, and a user without privileges. Nothing is
registered on this machine, so even `kill -9` leaves nothing behind: see `network_switch`.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
import pytest
from job_support import wait_until
from network_switch import Rule
from requirements import require

_HERE = Path(__file__).resolve().parent
ROOT = _HERE.parents[1]
#: The time that a process has to end after SIGTERM.
GRACE_S = 15.0


@cache
def _why_not() -> str:
    """Returns why hosts cannot be created on this machine, or an empty string if they can."""
    if os.geteuid() != 0:
        return "network namespaces are made by root"
    if not os.path.exists("/dev/net/tun"):
        return "there is no /dev/net/tun"
    try:
        with Network(seed=0) as network:
            network.add_host("probe")
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return str(error)
    return ""


def require_namespaces() -> None:
    """Skips the calling test if this machine cannot create hosts, or fails it with FLINKPY_REQUIRE_NETNS=1."""
    why_not = _why_not()
    require("netns", not why_not, f"NOT TESTED: hosts as network namespaces: {why_not}")


@dataclass(frozen=True)
class Container:
    """The file system that a process sees: a read-only root with the files that it needs to run, and mounts.

    Attributes:
        volumes: (path on this machine, path in the container, writable).
        scratch: directories that are empty at the start and removed at the end, with their sizes.
        user: the numeric user id. It has no rights beyond those of its files.
        group: the numeric group id. The default is that of the user.
    """

    volumes: Sequence[tuple[Path, str, bool]] = ()
    scratch: Mapping[str, str] = field(default_factory=lambda: {"/tmp": "256m"})
    user: int | None = None
    group: int | None = None


class HostProcess:
    """A process on a host, with its child processes."""

    def __init__(self, host: Host, name: str, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.host = host
        self.name = name
        self.popen = popen
        self.log_path = log

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    @property
    def is_alive(self) -> bool:
        return self.popen.poll() is None

    def wait_until_ready(self, text: str = " ready ") -> None:
        """Waits until the process has written `text`, as services do. Raises AssertionError if it ends before."""

        def is_ready() -> bool:
            assert self.is_alive, f"{self} ended with status {self.popen.returncode}:\n{self.log[-4000:]}"
            return text in self.log

        wait_until(is_ready, f"{self} is ready")

    def kill(self) -> None:
        """Sends SIGKILL to the process and all its children."""
        self.popen.kill()
        self.popen.wait()

    def terminate(self) -> int:
        """Sends SIGTERM, and SIGKILL if the process does not end. Returns the exit status."""
        if self.is_alive:
            self.popen.terminate()
        try:
            return self.popen.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    def pause(self) -> None:
        """Suspends the process and its children (SIGSTOP). They keep their connections."""
        for process in psutil.Process(self.popen.pid).children(recursive=True):
            process.suspend()

    def resume(self) -> None:
        for process in psutil.Process(self.popen.pid).children(recursive=True):
            process.resume()

    def __str__(self) -> str:
        return f"{self.name} on {self.host.name}"


class Host:
    """A host with an address, a name and processes. `Network.__exit__` ends its processes."""

    def __init__(self, network: Network, name: str, address: str, namespace: str) -> None:
        self.network = network
        self.name = name
        self.address = address
        self._namespace = namespace
        self.processes: list[HostProcess] = []

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        container: Container | None = None,
        hostname: str | None = None,
    ) -> HostProcess:
        """Starts a command on this host. Its output is appended to `<directory of the network>/<name>.log`."""
        log = self.network.directory / f"{name}.log"
        with log.open("ab") as output:
            popen = subprocess.Popen(
                self.command_line(command, container=container, hostname=hostname),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment_of(environment, container),
                start_new_session=True,
            )
        process = HostProcess(self, name, popen, log)
        self.processes.append(process)
        return process

    def run(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        container: Container | None = None,
        timeout_s: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        return subprocess.run(
            self.command_line(command, container=container),
            env=environment_of(environment, container),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def command_line(
        self, command: Sequence[str], *, container: Container | None = None, hostname: str | None = None
    ) -> list[str]:
        """Returns the command line that runs `command` on this host. With an empty command it is a prefix."""
        mounts: list[tuple[str, str, str]] = []
        if container is not None:
            for target, size in container.scratch.items():
                mounts.append((f"size={size},mode=1777", target, "tmpfs"))
            for source, target, is_writable in container.volumes:
                mounts.append((str(source), target, "rw" if is_writable else "ro"))
        spec = {
            "network": self._namespace,
            "hostname": hostname or self.name,
            "hosts_file": str(self.network.hosts_file),
            "mounts": mounts,
            "root": None if container is None else str(self.network.root_directory),
            "shown": shown_paths(),
            "user": None if container is None else container.user,
            "group": None if container is None else container.user if container.group is None else container.group,
            "command": list(command),
        }
        return [sys.executable, "-I", "-S", str(_HERE / "host_process.py"), json.dumps(spec)]

    def kill(self) -> None:
        """Simulates the loss of the host: sends SIGKILL to all its processes."""
        for process in self.processes:
            if process.is_alive:
                process.kill()


class Network:
    """Hosts that reach each other unless a rule prevents it. The network is a context manager.

    The test process can be a host too: after `add_own_host` it reaches the others by their addresses.

    Faults affect packets and not connections: a disconnected host receives nothing, not even a reset.
    """

    def __init__(self, directory: Path | None = None, *, seed: int | None = None) -> None:
        self.seed = secrets.randbelow(1 << 32) if seed is None else seed
        self.hosts: dict[str, Host] = {}
        self._directory = directory
        self._own: str | None = None
        self._lock = threading.Lock()
        # An address range that differs from other networks of this machine, and from those of containers and clouds.
        chooser = random.SystemRandom()
        self._subnet = f"10.{chooser.randrange(100, 240)}.{chooser.randrange(1, 255)}"

    @property
    def directory(self) -> Path:
        assert self._directory is not None, "this network has no directory for logs"
        return self._directory

    @property
    def hosts_file(self) -> Path:
        return self.directory / "hosts"

    @property
    def root_directory(self) -> Path:
        """An empty directory on which containers mount their root."""
        return self.directory / "root"

    def __enter__(self) -> Self:
        if self._directory is not None:
            self._directory.mkdir(parents=True, exist_ok=True)
            self.root_directory.mkdir(exist_ok=True)
            self._write_hosts_file()
        self._switch = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_HERE / "network_switch.py"), str(self.seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        running = [process for host in self.hosts.values() for process in host.processes if process.is_alive]
        # Kills them at once: processes that hang because of a fault must not delay the end.
        for process in running:
            process.kill()
        assert self._switch.stdin is not None
        assert self._switch.stdout is not None
        self._switch.stdin.close()
        self._switch.wait(GRACE_S)
        self._switch.stdout.close()

    # --- hosts

    def add_host(self, name: str) -> Host:
        """Adds a host with the next address."""
        return self._add(name, is_own=False)

    def add_own_host(self, name: str = "client") -> Host:
        """Adds this process as a host of the network."""
        host = self._add(name, is_own=True)
        self._own = name
        return host

    def _add(self, name: str, *, is_own: bool) -> Host:
        address = f"{self._subnet}.{len(self.hosts) + 1}"
        device = f"fp{secrets.token_hex(5)}" if is_own else "eth0"
        number = self._order("host", name=name, address=address, prefix=24, device=device, is_own=is_own)
        host = Host(self, name, address, f"/proc/{self._switch.pid}/fd/{number}")
        self.hosts[name] = host
        if self._directory is not None:
            self._write_hosts_file()
        return host

    def alias(self, name: str, host: Host) -> None:
        """Adds another name for a host."""
        self.hosts[name] = host
        self._write_hosts_file()

    def _write_hosts_file(self) -> None:
        """Rewrites the file in place, so running hosts see the change."""
        lines = ["127.0.0.1 localhost", *(f"{host.address} {name}" for name, host in self.hosts.items())]
        self.hosts_file.write_text("\n".join(lines) + "\n")

    # --- faults

    def rule(self, source: Host, destination: Host, rule: Rule) -> None:
        """Sets the fate of packets from `source` to `destination` from now on."""
        self._order("rule", source=source.name, destination=destination.name, **asdict(rule))

    def between(self, one: Host, other: Host, rule: Rule) -> None:
        """Sets the same rule in both directions."""
        self.rule(one, other, rule)
        self.rule(other, one, rule)

    def cut(self, one: Host, other: Host) -> None:
        self.between(one, other, Rule(is_cut=True))

    def cut_one_way(self, source: Host, destination: Host) -> None:
        """Drops all packets from `source` to `destination`. The other direction stays open."""
        self.rule(source, destination, Rule(is_cut=True))

    def isolate(self, host: Host) -> None:
        """Disconnects a host from all others except the one that runs the test."""
        for other in self.others(host):
            self.cut(host, other)

    def others(self, host: Host) -> list[Host]:
        hosts = {other.name: other for other in self.hosts.values()}
        return [other for other in hosts.values() if other is not host and other.name != self._own]

    def heal(self) -> None:
        """Removes all rules: every packet arrives without delay."""
        self._order("heal")

    @contextmanager
    def healed_afterwards(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.heal()

    def counts(self) -> dict[str, dict[str, int]]:
        """Returns the numbers of packets that rules `dropped` and `delayed`, by "from to"."""
        counts: dict[str, dict[str, int]] = self._order("counts")
        return counts

    def num_dropped(self) -> int:
        return sum(counts.get("dropped", 0) for counts in self.counts().values())

    def _order(self, do: str, **arguments: Any) -> Any:
        assert self._switch.stdin is not None
        assert self._switch.stdout is not None
        with self._lock:
            self._switch.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            self._switch.stdin.flush()
            line = self._switch.stdout.readline()
        if not line:
            raise RuntimeError(f"the network has ended with status {self._switch.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{do} {arguments}: {answer['error']}")
        return answer["result"]


@cache
def shown_paths() -> tuple[str, ...]:
    """Returns the paths that a container needs to run this Python, flinkpy and Java. They exclude /tmp and home
    directories.
    """
    system = ["/usr", "/bin", "/sbin", "/lib", "/lib64"]
    settings = ["passwd", "group", "nsswitch.conf", "ld.so.cache", "localtime", "alternatives", "ssl"]
    java = sorted(path.name for path in Path("/etc").glob("java*"))
    return (
        *system,
        *(f"/etc/{name}" for name in (*settings, *java)),
        str(ROOT / "src"),
        str(ROOT / "tests"),
        *_outside((sys.prefix, sys.base_prefix), system),
    )


def _outside(directories: Sequence[str], of: Sequence[str]) -> list[str]:
    return [path for path in directories if not any(path.startswith(f"{parent}/") for parent in of)]


def environment_of(environment: Mapping[str, str] | None, container: Container | None) -> dict[str, str]:
    """Returns the environment of a process. A host inherits that of this process, a container only the needed part."""
    if container is None:
        return {**os.environ, **(environment or {})}
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        **(environment or {}),
    }


def flinkpy(*arguments: str) -> list[str]:
    """Returns the command `flinkpy ARGUMENTS` as the image's entrypoint runs it."""
    return [sys.executable, "-m", "flinkpy.cli.main", *arguments]


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """A network without hosts. The end of the test ends everything that runs in it."""
    require_namespaces()
    with Network(tmp_path / "network") as network:
        yield network
