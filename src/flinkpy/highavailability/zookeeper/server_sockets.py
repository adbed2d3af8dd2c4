"""ServerSockets: sockets to the servers of ZooKeeper, in plaintext or with mutual TLS."""

from __future__ import annotations

import socket
import ssl
from contextlib import ExitStack

from flinkpy.highavailability.zookeeper.settings import ZooKeeperSettings
from flinkpy.security.tls_material import verification_failure

_PROBE_TIMEOUT_S = 1.0


class ServerSockets:
    def __init__(self, settings: ZooKeeperSettings) -> None:
        self._context = None if settings.tls is None else settings.tls.client_context()
        self._server_name = settings.server_name

    def secure(self, connected: socket.socket, host: str) -> socket.socket:
        """Returns the socket, with TLS if that is enabled. Raises: ssl.SSLError if the certificate is refused."""
        if self._context is None:
            return connected
        return self._context.wrap_socket(connected, server_hostname=self._server_name or host)

    def probe(self, host: str, port: int) -> str:
        """Returns a clause that says what the server does instead of answering."""
        expects_tls = ", or expects TLS" if self._context is None else ""
        try:
            answer = self._ask(host, port)
        except ssl.SSLCertVerificationError as error:
            cause = verification_failure(error.verify_message, self._server_name or host)
            return f"the certificate of {host}:{port} is refused: {cause}"
        except ssl.SSLError as error:
            return f"{host}:{port} and this process do not agree on TLS ({error.reason or error})"
        except TimeoutError:
            return f"{host}:{port} does not answer{expects_tls}"
        except OSError as error:
            return f"{host}:{port} cannot be reached ({error.strerror or error})"
        if "read-only" in answer.lower():
            return f"{host}:{port} is read-only, because it has no quorum"
        if "not currently serving" in answer:
            return f"{host}:{port} does not serve requests, because it has no quorum"
        if "Zookeeper version" in answer:
            return f"{host}:{port} is running, but did not accept the connection in time"
        return f"{host}:{port} is not a ZooKeeper server, or has no `srvr` in its whitelist{expects_tls}"

    def _ask(self, host: str, port: int) -> str:
        with ExitStack() as stack:
            connection = stack.enter_context(socket.create_connection((host, port), _PROBE_TIMEOUT_S))
            connection.settimeout(_PROBE_TIMEOUT_S)
            connection = stack.enter_context(self.secure(connection, host))
            connection.sendall(b"srvr")
            answer = b""
            while received := connection.recv(4096):
                answer += received
        return answer.decode(errors="replace")
