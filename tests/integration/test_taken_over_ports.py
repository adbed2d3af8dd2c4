"""A local user who reaches or takes over the port of a service can neither close it nor learn a token."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from clusters import StartCluster, run_flinkpy
from job_support import wait_until

from flinkpy.client.cluster_client import ClusterClient
from flinkpy.common.errors import TlsError
from flinkpy.rpc.server import EXIT_STATUS_SERVER_ENDED
from flinkpy.security import PEER_NAME
from flinkpy.security.certificates import make_authority, make_certificate

_SERVER_THAT_BREAKS = """
import asyncio, grpc.aio
from flinkpy.rpc.server import RpcServer
from flinkpy.security import SecurityContext

async def main():
    server = RpcServer(bind_address="127.0.0.1", port=0, security=SecurityContext.insecure())
    await server.start()
    server._server._server.interceptors = "no tuple"
    async with grpc.aio.insecure_channel(server.address) as channel:
        await channel.unary_unary("/no.Service/Call")(b"", timeout=60)

asyncio.run(main())
"""


def test_a_process_ends_and_logs_why_when_its_server_has_ended() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _SERVER_THAT_BREAKS], check=False, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == EXIT_STATUS_SERVER_ENDED
    assert "FATAL: the server at 127.0.0.1:" in ended.stderr


class Impostor:
    """Listens on the former port of a service and records what it receives. With `context` it uses TLS itself."""

    def __init__(self, address: str, context: ssl.SSLContext | None) -> None:
        host, _, port = address.rpartition(":")
        self._context = context
        #: The bytes that each connection sent, before and inside TLS.
        self.heard: list[bytes] = []
        self._listener = socket.create_server((host, int(port)), reuse_port=True)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(5)
            try:
                self.heard.append(self._hear(connection))
            except OSError:
                self.heard.append(b"")
            finally:
                connection.close()

    def _hear(self, connection: socket.socket) -> bytes:
        if self._context is None:
            # The first bytes of HTTP/2 servers, so that a plaintext client continues.
            connection.sendall(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            return connection.recv(65_536)
        with self._context.wrap_socket(connection, server_side=True) as secured:
            secured.sendall(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            return secured.recv(65_536)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._thread.join()
        self._listener.close()


def certificate_of_a_stranger(directory: Path) -> ssl.SSLContext:
    """A certificate with the right names that is signed by the impostor's own authority."""
    from datetime import timedelta

    now_ms = int(time.time() * 1000)
    identity = make_certificate(make_authority(now_ms), PEER_NAME, now_ms, timedelta(days=1))
    file = directory / "stranger.pem"
    file.write_bytes(identity.key_pem + identity.certificate_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    context.set_alpn_protocols(["h2"])
    return context


def nothing_is_revealed_to(impostor: Impostor, *, speaks_tls: bool) -> None:
    for heard in impostor.heard:
        if speaks_tls:
            assert heard == b"", "the handshake succeeded, and the caller went on"
        else:
            assert heard[:1] == b"\x16", "more was said than the first message of a TLS handshake"


@pytest.mark.parametrize("speaks_tls", [False, True], ids=["plaintext", "tls"])
def test_no_token_is_sent_to_a_stranger_on_the_port_of_a_service(
    start_cluster: StartCluster, tmp_path: Path, speaks_tls: bool
) -> None:
    """A service has died, and a process outside of the cluster has bound its port."""
    cluster = start_cluster(1)
    printed = run_flinkpy("token", "-D", f"security.secret-file={cluster.properties['security.secret-file']}")
    context = certificate_of_a_stranger(tmp_path) if speaks_tls else None
    for name in ("resourcemanager", "dispatcher"):
        process = cluster.service(name)
        assert process.address is not None
        process.popen.kill()
        process.popen.wait()
        impostor = Impostor(process.address, context)
        try:
            if name == "resourcemanager":
                # The TaskExecutor looks for its ResourceManager, and the Dispatcher asks it.
                wait_until(lambda impostor=impostor: len(impostor.heard) >= 3, "services call the impostor")
            else:
                with ClusterClient(process.address, security=cluster.security) as client, pytest.raises(TlsError):
                    client.list_jobs()
                told = run_flinkpy("list", "-m", process.address, environment={"FLINKPY_TOKEN": printed.stdout.strip()})
                assert told.returncode == 1
                assert "has not proved that it belongs to this cluster, so no token was sent to it" in told.stderr
            assert impostor.heard
            nothing_is_revealed_to(impostor, speaks_tls=speaks_tls)
        finally:
            impostor.close()
