"""Real ZooKeeper servers for tests, single or as an ensemble. Their classes come with pyspark.

The fixture `zookeeper` is shared by the tests of a module, which leave it healthy. All tests of a pytest worker share
`zookeeper_ensemble`.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import util
from pathlib import Path

import pytest
from job_support import wait_until
from ports import own_port
from requirements import has_java, require

#: The jars of pyspark that a server needs.
_JARS = (
    "zookeeper-",
    "slf4j-api",
    "log4j-",
    "netty-",
    "metrics-core",
    "snappy-java",
    "commons-io",
    "commons-cli",
    "audience-annotations",
)
#: The tick in milliseconds. The minimum session timeout is twice this.
TICK_TIME_MS = 500
#: The maximum session timeout in milliseconds: longer than a server needs to start on a very busy machine.
MAX_SESSION_TIMEOUT_MS = 300_000
START_TIMEOUT_S = 60.0

_LOGGING = """status = error
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %-5p %c{1}: %m%n
"""


@cache
def jars_of_zookeeper() -> tuple[str, ...]:
    """Returns the class path of a server. It is empty without pyspark."""
    spec = util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return ()
    directory = Path(spec.origin).parent / "jars"
    return tuple(str(path) for path in sorted(directory.glob("*.jar")) if path.name.startswith(_JARS))


def require_zookeeper() -> None:
    """Skips the calling test if Java or pyspark is missing."""
    require("java", has_java(), "a ZooKeeper server is started (Debian: apt-get install default-jre-headless)")
    is_there = any("zookeeper-3" in jar for jar in jars_of_zookeeper())
    require("zookeeper", is_there, "its classes come with pyspark (pip install pyspark)")


class ZooKeeperServer:
    """A ZooKeeper server. It keeps its data below `directory` when it is killed and restarted.

    Args:
        settings: additional lines of its configuration file.
        host: the address that it listens on, for example that of a network namespace.
        prefix: words before the command, for example `("ip", "netns", "exec", "zk1")`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        my_id: int | None = None,
        settings: Sequence[str] = (),
        prefix: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self.host = host
        self.port = own_port(host) if port is None else port
        self._prefix = tuple(prefix)
        self._process: subprocess.Popen[bytes] | None = None
        data = directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        if my_id is not None:
            (data / "myid").write_text(f"{my_id}\n")
        (directory / "log4j2.properties").write_text(_LOGGING)
        lines = [
            f"dataDir={data}",
            f"clientPort={self.port}",
            f"clientPortAddress={host}",
            f"tickTime={TICK_TIME_MS}",
            f"maxSessionTimeout={MAX_SESSION_TIMEOUT_MS}",
            "initLimit=20",
            "syncLimit=6",
            "admin.enableServer=false",
            "4lw.commands.whitelist=srvr,ruok,cons,wchp,dump",
            "maxClientCnxns=0",
            *settings,
        ]
        self._configuration = directory / "zoo.cfg"
        self._configuration.write_text("\n".join(lines) + "\n")

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def quorum(self) -> str:
        """The value of `high-availability.zookeeper.quorum`."""
        return self.address

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        path = self.directory / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self, *, wait: bool = True) -> None:
        """Starts the server with its previous data.

        Args:
            wait: wait until it serves. A member of an ensemble cannot serve before the others start.
        """
        assert not self.is_running
        java = shutil.which("java")
        assert java is not None
        command = [
            *self._prefix,
            java,
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData",
            "-Xshare:auto",
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}",
            "-Dreadonlymode.enabled=true",
            # The data of a test need not survive a crash of the host.
            "-Dzookeeper.forceSync=no",
            "-cp",
            os.pathsep.join(jars_of_zookeeper()),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(self._configuration),
        ]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory)
        if wait:
            self.wait_until_serving()

    def wait_until_serving(self) -> None:
        wait_until(self._serves, f"ZooKeeper serves at {self.address}", START_TIMEOUT_S)

    def mode(self) -> str:
        """Returns `standalone`, `leader`, `follower`, `read-only`, or an empty string if it does not serve."""
        for line in self._ask("srvr").splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ").strip()
        return ""

    def kill(self) -> None:
        """Kills the server, like a crash of its host. Does nothing if it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)

    def pause(self) -> None:
        """Suspends the server. It keeps its connections and answers no request."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def restart(self) -> None:
        self.kill()
        self.start()

    def _serves(self) -> bool:
        assert self.is_running, f"the ZooKeeper server ended:\n{self.log[-3000:]}"
        return self.mode() not in ("", "read-only")

    def _ask(self, word: str) -> str:
        answer = b""
        try:
            with socket.create_connection((self.host, self.port), 1) as connection:
                connection.settimeout(2)
                connection.sendall(word.encode())
                while received := connection.recv(4096):
                    answer += received
        except OSError:
            return ""
        return answer.decode(errors="replace")


class ZooKeeperEnsemble:
    """ZooKeeper servers that elect a leader. They serve while a majority runs."""

    def __init__(self, directory: Path, size: int = 3) -> None:
        ports = [(own_port(), own_port()) for _ in range(size)]
        members = [f"server.{i + 1}=127.0.0.1:{peer}:{election}" for i, (peer, election) in enumerate(ports)]
        self.servers = [
            ZooKeeperServer(directory / f"server-{i + 1}", my_id=i + 1, settings=members) for i in range(size)
        ]

    @property
    def quorum(self) -> str:
        return ",".join(server.address for server in self.servers)

    @property
    def leader(self) -> ZooKeeperServer:
        """Waits for the leading member and returns it."""
        leader: ZooKeeperServer = wait_until(
            lambda: next((s for s in self.servers if s.is_running and s.mode() in ("leader", "standalone")), None),
            "a member of the ensemble leads",
            START_TIMEOUT_S,
        )
        return leader

    def start(self) -> None:
        """Starts all servers that do not run, and waits until all serve."""
        for server in self.servers:
            if not server.is_running:
                server.start(wait=False)
        for server in self.servers:
            server.wait_until_serving()

    def kill(self) -> None:
        for server in self.servers:
            server.kill()


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    require_zookeeper()
    server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"))
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="session")
def _zookeeper_ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    require_zookeeper()
    ensemble = ZooKeeperEnsemble(tmp_path_factory.mktemp("zookeeper-ensemble"))
    try:
        ensemble.start()
        yield ensemble
    finally:
        ensemble.kill()


@pytest.fixture
def zookeeper_ensemble(_zookeeper_ensemble: ZooKeeperEnsemble) -> ZooKeeperEnsemble:
    """All its members run, even if a former test has killed some."""
    _zookeeper_ensemble.start()
    return _zookeeper_ensemble
