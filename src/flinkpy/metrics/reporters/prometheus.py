"""PrometheusReporter: an HTTP server that Prometheus scrapes.

Every process has one, on the first free port of a range. It binds the loopback address unless `host` says otherwise.
Other addresses need TLS, as for the ports of services (docs/security.md).

Source: org.apache.flink.metrics.prometheus.PrometheusReporter.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from flinkpy.common.addresses import LOOPBACK, is_loopback, parse_port_range
from flinkpy.common.errors import AddressInUseError, ConfigurationError
from flinkpy.configuration import read_option, security_options
from flinkpy.configuration.options import AnyConfiguration, bool_option, string_option
from flinkpy.metrics.reporters.metric_reporter import PulledReporter, ReportedMetric
from flinkpy.metrics.reporters.prometheus_families import FAMILY_OPTIONS, MetricFamilies
from flinkpy.security import TlsMaterial

__all__ = ["PrometheusReporter"]

logger = logging.getLogger(__name__)

PORT = string_option(
    "port",
    "9249-9348",
    "Port, or range such as `9250-9260`, of the server. Each process on a host needs its own port, JobMasters too: the "
    "first free one is taken.",
)
HOST = string_option(
    "host",
    LOOPBACK,
    "Address to bind. Addresses that other hosts reach need `security.ssl.internal.enabled`, or `security.insecure`.",
)
SSL_ENABLED = bool_option(
    "ssl.enabled",
    False,
    "Serve HTTPS on the loopback address too. Prometheus shows a certificate of the cluster's authority "
    "(`security.ssl.internal.*`). On other addresses this is always so with `security.ssl.internal.enabled`.",
)

#: Maximum number of concurrent connections. Two Prometheus servers need two.
MAX_CONNECTIONS = 8
#: Time for each read and write of a connection, and for the TLS handshake. Prometheus gives up after 10 s by default.
CONNECTION_TIMEOUT_S = 10.0
#: Time before the next attempt to accept a connection after one has failed.
ACCEPT_PAUSE_S = 0.1
#: Time that a scrape waits for another one that reads the metrics.
READ_TIMEOUT_S = 5.0


class PrometheusReporter(PulledReporter):
    """Serves the metrics of this process in the text format of Prometheus, at any path.

    Thread: the server's own, and one for each connection.
    """

    OPTIONS = (PORT, HOST, SSL_ENABLED, *FAMILY_OPTIONS)

    def open(self, options: Mapping[str, str]) -> None:
        self._families = MetricFamilies(options)
        self._host = read_option(options, HOST)
        self._wants_tls = read_option(options, SSL_ENABLED)
        self._ports = parse_port_range(read_option(options, PORT), PORT.key)
        self._server: _Server | None = None

    def serve(self, read: Callable[[], list[ReportedMetric]], configuration: AnyConfiguration) -> None:
        tls = _tls(self._host, self._wants_tls, configuration)
        application = _Application(read, self._families, accepts_names=not is_loopback(self._host))
        self._server = _listen(self._host, self._ports, application, tls)
        threading.Thread(target=self._server.accept_until_closed, name="prometheus metrics", daemon=True).start()
        scheme = "http" if tls is None else "https"
        logger.info("Serves metrics to Prometheus at %s://%s:%d/metrics", scheme, self._host, self.port)

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        assert self._server is not None
        return self._server.server_port

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


def _tls(host: str, is_wanted: bool, configuration: AnyConfiguration) -> TlsMaterial | None:
    """Returns the keys of the server; None: plain HTTP.

    Raises: ConfigurationError if other hosts reach the address and TLS is not configured.
    """
    is_local = is_loopback(host.strip("[]"))
    material = None if is_local and not is_wanted else TlsMaterial.of_configuration(configuration)
    if material is not None:
        return material
    if is_wanted:
        raise ConfigurationError("`ssl.enabled` needs `security.ssl.internal.enabled`")
    if is_local:
        return None
    if not read_option(configuration, security_options.INSECURE):
        raise ConfigurationError(
            f"cannot bind {host}: other hosts could read the metrics. Either set up mutual TLS (`flinkpy certs`, then "
            "`security.ssl.internal.enabled: true`), or bind a loopback address such as 127.0.0.1, or accept this on a "
            "network you trust with `security.insecure: true`",
            details={"address": host},
        )
    logger.warning("INSECURE: other hosts can read the metrics of this process at %s", host)
    return None


def _listen(host: str, ports: Iterable[int], application: _Application, tls: TlsMaterial | None) -> _Server:
    """Returns a server on the first port that is free. Raises: AddressInUseError, ConfigurationError."""
    address = host.strip("[]")
    for port in ports:
        try:
            return _Server(address, port, application, tls)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise ConfigurationError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    raise AddressInUseError(
        f"no port of the option `port` is free on {host}. Each process on a host needs a port of its own: give a "
        "range such as `9249-9348`",
        details={"address": host},
    )


class _Application:
    """The WSGI application: reads the metrics and writes them in the format that the request asks for."""

    def __init__(
        self, read: Callable[[], list[ReportedMetric]], families: MetricFamilies, *, accepts_names: bool
    ) -> None:
        self._read = read
        self._families = families
        self._accepts_names = accepts_names
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if not self._accepts_names and not _is_address(environ.get("HTTP_HOST", "")):
            # A page in a browser on this host could read the metrics through a name that leads here (DNS rebinding).
            return _refuse(start_response, "403 Forbidden", "the Host header must be localhost or an address")
        # A gauge of the user may hang. Then this scrape hangs, and the others end here instead of piling up.
        if not self._lock.acquire(timeout=READ_TIMEOUT_S):
            return _refuse(start_response, "503 Service Unavailable", "an earlier scrape still reads the metrics")
        try:
            registry = CollectorRegistry()
            registry.register(self._families.collected(self._read()))
        finally:
            self._lock.release()
        answer: Iterable[bytes] = make_wsgi_app(registry)(environ, start_response)
        return answer


def _refuse(start_response: Callable[..., Any], status: str, reason: str) -> Iterable[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{reason}\n".encode()]


def _is_address(host_header: str) -> bool:
    host = host_header.rpartition("]")[0][1:] if host_header.startswith("[") else host_header.partition(":")[0]
    if host in ("", "localhost"):
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class _Handler(WSGIRequestHandler):
    """Handles one connection. It does not log requests."""

    timeout = CONNECTION_TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug(format, *args)


class _Server(ThreadingMixIn, WSGIServer):
    """A server with a thread for each connection, of which there are at most `MAX_CONNECTIONS`."""

    daemon_threads = True
    #: Connections that wait in the kernel. With the 5 of TCPServer a short burst waits a second for a retransmission.
    request_queue_size = 4 * MAX_CONNECTIONS

    def __init__(self, host: str, port: int, application: _Application, tls: TlsMaterial | None) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._is_closed = threading.Event()
        self._tls = tls
        self._context = None if tls is None else tls.server_context()
        super().__init__((host, port), _Handler)
        self.set_app(application)

    def server_bind(self) -> None:
        # Not that of HTTPServer, which asks the name service for the name of this host.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]
        self.setup_environ()

    def accept_until_closed(self) -> None:
        """Starts a thread for each connection. Unlike `serve_forever` it does not poll."""
        while not self._is_closed.is_set():
            try:
                request, address = self.get_request()
            except OSError as error:
                # The server is closed, or the process has no descriptor left.
                logger.debug("Cannot accept a connection: %s", error)
                self._is_closed.wait(ACCEPT_PAUSE_S)
            else:
                self.process_request(request, address)

    def close(self) -> None:
        """Stops accepting connections. Does not wait for those that are open."""
        self._is_closed.set()
        # Wakes the thread that accepts.
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            request.settimeout(CONNECTION_TIMEOUT_S)
            # The handshake is part of the connection's thread, so that a silent client does not keep others waiting.
            super().process_request_thread(self._secured(request), client_address)
        except OSError as error:
            logger.debug("A connection of %s failed: %s", client_address, error)
            self.shutdown_request(request)
        finally:
            self._free.release()

    def _secured(self, request: socket.socket) -> socket.socket:
        if self._tls is None or self._context is None:
            return request
        secure = self._context.wrap_socket(request, server_side=True)
        if self._tls.is_pinned_out(secure.getpeercert(binary_form=True) or b""):
            secure.close()
            raise ConnectionError("the certificate has none of the configured fingerprints")
        return secure

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("A request of %s failed", client_address, exc_info=True)
