"""RestEndpoint: the listening socket of the REST server.

The web libraries take a tenth of a second and nine megabytes, which a cluster that nobody looks at does not spend: the
socket listens from the start of the process, and the first connection loads the server that accepts it.

Thread: the process's asyncio loop. Modules are imported on another thread, so that calls are answered meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinkpy.common.addresses import LOOPBACK, cannot_listen, is_loopback
from flinkpy.common.errors import AddressInUseError
from flinkpy.rest.options import RestOptions
from flinkpy.rest.tls import check_rest_bind, rest_tls_material
from flinkpy.security import SecurityContext

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration
    from flinkpy.rest.access import RestAccess
    from flinkpy.rest.applications import Applications
    from flinkpy.rest.cluster_gateways import ClusterGateways
    from flinkpy.rest.server import HttpServer

logger = logging.getLogger(__name__)

#: Connections that wait to be accepted, e.g. while the server is loaded.
_BACKLOG = 1_024


class RestEndpoint:
    """Binds the port of the REST server, and starts the server when somebody connects.

    Args:
        security: the credentials of this process; they verify the tokens of callers.
        upload_directory: makes the directory of uploaded programs, if none is configured. Needed for the REST API.

    Raises: ConfigurationError if the address may not be bound, or the TLS files cannot be used.
    """

    def __init__(
        self,
        options: RestOptions,
        configuration: Configuration,
        security: SecurityContext,
        upload_directory: Callable[[], Path] | None = None,
    ) -> None:
        self._tls = rest_tls_material(configuration, security)
        check_rest_bind(options.bind_address, has_tls=self._tls is not None, security=security)
        self._options = options
        self._configuration = configuration
        self._security = security
        self._upload_directory = upload_directory
        self._socket: socket.socket | None = None
        self._starting: asyncio.Task[None] | None = None
        self._server: HttpServer | None = None

    @property
    def url(self) -> str:
        """The URL of this server, without a slash at its end. Available after `bind`."""
        assert self._socket is not None
        scheme = "http" if self._tls is None else "https"
        host = self._options.advertised_host or _reachable(self._options.bind_address)
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self._socket.getsockname()[1]}"

    def bind(self) -> None:
        """Binds the first free port and listens. Raises: AddressInUseError, which names all ports that were tried."""
        options = self._options
        host = options.bind_address.strip("[]")
        for port in options.ports:
            try:
                self._socket = _listen(host, port)
                break
            except OSError as error:
                refused = cannot_listen(host, port, error)
        else:
            if not options.takes_free_port:
                tried = (
                    "" if len(options.ports) == 1 else f" ({len(options.ports)} ports of `rest.bind-port` were tried)"
                )
                raise AddressInUseError(f"REST server: {refused.message}{tried}", details=refused.details)
            self._socket = _listen(host, 0)
            logger.warning("REST server: %s; it uses a free port instead (`rest.port` chooses one)", refused.message)
        if not options.requires_token:
            logger.warning(
                "INSECURE: `rest.authentication` is none: every process and user of this host can run programs as the "
                "user of this cluster through %s",
                self.url,
            )

    def start(self, cluster: ClusterGateways, applications: Applications) -> None:
        """Serves from now on. Called after `bind`, when the process is ready."""
        assert self._socket is not None
        asyncio.get_running_loop().add_reader(self._socket, self._begin, cluster, applications)
        logger.info("REST server at %s", self.url)

    async def serve(self, make_application: Callable[[RestAccess], Any]) -> None:
        """Serves an application from now on, instead of the REST API. Called after `bind`.

        Args:
            make_application: returns the ASGI application.
        """
        from flinkpy.rest.server import HttpServer, rest_access

        assert self._socket is not None
        application = make_application(rest_access(self._options, self._security, self._tls))
        self._server = HttpServer(application, self._socket, self._tls, self._options.max_connections)
        await self._server.start()

    def _begin(self, cluster: ClusterGateways, applications: Applications) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket)  # type: ignore[arg-type]
        self._starting = loop.create_task(self._start_server(cluster, applications), name="start of the REST server")

    async def _start_server(self, cluster: ClusterGateways, applications: Applications) -> None:
        assert self._socket is not None
        try:
            make: Any = await asyncio.to_thread(_load)
            self._server = make(
                self._options,
                self._configuration,
                self._security,
                cluster,
                self._socket,
                self._tls,
                self._upload_directory,
                applications,
            )
            assert self._server is not None
            await self._server.start()
        except Exception:  # the cluster works without it
            logger.exception("the REST server cannot start")
            self._socket.close()

    async def stop(self) -> None:
        """Ends the server. Answers that are being sent are finished, for at most a second. Idempotent."""
        if self._socket is None:
            return
        if self._starting is not None:
            await self._starting
        elif self._server is None:
            asyncio.get_running_loop().remove_reader(self._socket)
        if self._server is not None:
            await self._server.stop()
        self._socket.close()
        self._socket = None


def _load() -> Any:
    from flinkpy.rest.server import RestServer

    return RestServer


def _listen(host: str, port: int) -> socket.socket:
    """Raises: OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is named. Without it the body of an answer, which is sent after its
    # head, waits up to 40 ms for the client's kernel to acknowledge the head.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # A port whose last connections are in TIME_WAIT is free.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening


def _reachable(bind_address: str) -> str:
    host = bind_address.strip("[]")
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return LOOPBACK if host == "localhost" and is_loopback(host) else host
