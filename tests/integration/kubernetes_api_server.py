"""The control plane of Kubernetes for tests: etcd, kube-apiserver and kube-controller-manager, of Go modules.

`python kubernetes_api_server.py` builds the program, and exits with 0 if that is possible. It takes minutes, so
the program is kept in the user's cache directory, for all checkouts.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

_SOURCES = Path(__file__).parent / "kubernetes_control_plane"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "flinkpy-tests"
#: The time limits of the first build, and of the start of the servers.
_BUILD_S, _START_S = 3600, 120
#: A user with all rights.
ADMINISTRATOR_TOKEN = "token-of-the-administrator"


def build_control_plane() -> tuple[Path, str | None]:
    """Builds the program, unless it is there. Safe for concurrent processes.

    Returns:
        The program, and the reason if it cannot be built.
    """
    sources = b"".join((_SOURCES / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))
    program = _CACHE / f"control-plane-{hashlib.sha256(sources).hexdigest()[:16]}"
    if program.exists():
        return program, None
    if shutil.which("go") is None:
        return program, "go is not installed"
    _CACHE.mkdir(parents=True, exist_ok=True)
    with open(_CACHE / "control-plane.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            made = program.with_suffix(".made")
            completed = subprocess.run(
                ["go", "build", "-ldflags=-s -w", "-o", str(made), "."],
                cwd=_SOURCES,
                capture_output=True,
                text=True,
                check=False,
                timeout=_BUILD_S,
            )
            if completed.returncode:
                return program, completed.stderr[-1000:]
            made.rename(program)
    return program, None


@dataclass
class ApiServer:
    """A running control plane.

    Attributes:
        url: the address of the API server.
        authority: the file of the certificate that it shows.
    """

    url: str
    authority: Path
    directory: Path

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def kubeconfig(self, token: str = ADMINISTRATOR_TOKEN, *, port: int | None = None) -> Path:
        """Writes a kubeconfig file with which the holder of a token calls the server, or a proxy of it at `port`."""
        url = f"https://127.0.0.1:{port or self.port}"
        file = self.directory / f"kubeconfig-{hashlib.sha256(f'{url} {token}'.encode()).hexdigest()[:8]}.yaml"
        authority = base64.b64encode(self.authority.read_bytes()).decode()
        file.write_text(
            f"""apiVersion: v1
kind: Config
current-context: test
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
clusters: [{{name: test, cluster: {{server: '{url}', certificate-authority-data: {authority}}}}}]
users: [{{name: test, user: {{token: '{token}'}}}}]
"""
        )
        return file


@contextmanager
def api_server(directory: Path) -> Iterator[ApiServer]:
    """Runs a control plane with its files in `directory`."""
    from requirements import require

    program, reason = build_control_plane()
    require("kube apiserver", reason is None, str(reason))
    directory.mkdir(parents=True, exist_ok=True)
    certificates = directory / "certificates"
    etcd_port, peer_port, port = free_port(), free_port(), free_port()
    key = _service_account_key(directory)
    (directory / "tokens.csv").write_text(f'{ADMINISTRATOR_TOKEN},administrator,1,"system:masters"\n')
    url = f"https://127.0.0.1:{port}"

    def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (directory / f"{name}.log").open("ab") as log:
            return subprocess.Popen([str(program), name, *arguments], stdin=subprocess.PIPE, stdout=log, stderr=log)

    def start_api_server() -> subprocess.Popen[bytes]:
        process = start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{etcd_port}",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--cert-dir={certificates}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--token-auth-file={directory / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--endpoint-reconciler-type=none",
            "--profiling=false",
        )
        _wait_until_ready(url, process, directory / "kube-apiserver.log")
        return process

    with ExitStack() as stack:
        etcd = start(
            "etcd",
            f"--data-dir={directory / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{etcd_port}",
            f"--advertise-client-urls=http://127.0.0.1:{etcd_port}",
            f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer_port}",
            f"--initial-cluster=default=http://127.0.0.1:{peer_port}",
            "--unsafe-no-fsync",
        )
        stack.callback(_end, etcd)
        stack.callback(_end, start_api_server())
        server = ApiServer(url, certificates / "apiserver.crt", directory)
        controllers = start(
            "kube-controller-manager",
            f"--kubeconfig={server.kubeconfig()}",
            "--controllers=garbagecollector,namespace,serviceaccount,serviceaccount-token,resourcequota,deployment,replicaset,"
            "root-ca-cert-publisher",
            f"--service-account-private-key-file={key}",
            f"--root-ca-file={server.authority}",
            "--leader-elect=false",
            "--secure-port=0",
        )
        stack.callback(_end, controllers)
        yield server


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    import httpx

    deadline = time.monotonic() + _START_S
    wake = threading.Event()
    headers = {"Authorization": f"Bearer {ADMINISTRATOR_TOKEN}"}
    while True:
        try:
            if httpx.get(f"{url}/readyz", verify=False, headers=headers, timeout=5.0).status_code == 200:
                return
        except httpx.TransportError:
            pass  # it does not listen yet
        assert process.poll() is None and time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
        wake.wait(0.1)


def _service_account_key(directory: Path) -> Path:
    """Returns a file with a new key, with which tokens of service accounts are signed."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    file = directory / "service-accounts.pem"
    file.write_bytes(pem)
    return file


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


if __name__ == "__main__":
    sys.exit(build_control_plane()[1])
