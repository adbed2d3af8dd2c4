"""RestServer: the HTTP server of the REST API. Importing this module loads the web libraries.

Thread: the process's asyncio loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from starlette.types import ASGIApp

from flinkpy.common.clock import SystemClock
from flinkpy.rest.access import RestAccess
from flinkpy.rest.application import rest_application
from flinkpy.rest.applications import Applications
from flinkpy.rest.asynchronous_operations import AsynchronousOperations
from flinkpy.rest.cluster_gateways import ClusterGateways
from flinkpy.rest.context import RestContext
from flinkpy.rest.http_protocol import protocol_class
from flinkpy.rest.options import RestOptions
from flinkpy.rest.programs import Programs, upload_directory
from flinkpy.security import SecurityContext, TlsMaterial

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration

logger = logging.getLogger(__name__)

#: How long answers that are being sent may take when the server ends.
_GRACE_S = 1
#: Connections of clients that poll stay open between two polls.
_KEEP_ALIVE_S = 30
#: The largest request line with headers. A session and a token fit many times.
_MAX_HEAD_BYTES = 64 * 1024


def rest_access(options: RestOptions, security: SecurityContext, tls: TlsMaterial | None) -> RestAccess:
    """Returns what decides who may use a server."""
    return RestAccess(
        security.secret if options.requires_token else None,
        _names(options),
        "http" if tls is None else "https",
        SystemClock(),
    )


class HttpServer:
    """Serves an ASGI application on a listening socket."""

    def __init__(
        self, application: ASGIApp, listening: socket.socket, tls: TlsMaterial | None, max_connections: int
    ) -> None:
        self._socket = listening
        config = uvicorn.Config(
            application,
            http=protocol_class(tls),
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=max_connections,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_GRACE_S,
            h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
        )
        config.load()
        if tls is not None:
            config.ssl = tls.server_context()
        # It announces every start and end of a server; this process has said so already.
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        self._server = _Server(config)
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Serves until `stop`."""
        self._running = asyncio.get_running_loop().create_task(
            self._server.serve(sockets=[self._socket]), name="HTTP server"
        )

    async def stop(self) -> None:
        """Ends all connections. Answers that are being sent are finished within a second."""
        self._server.should_exit = True
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)


class RestServer(HttpServer):
    """Serves the REST API on a listening socket."""

    def __init__(
        self,
        options: RestOptions,
        configuration: Configuration,
        security: SecurityContext,
        cluster: ClusterGateways,
        listening: socket.socket,
        tls: TlsMaterial | None,
        make_upload_directory: Callable[[], Path],
        applications: Applications,
    ) -> None:
        clock = SystemClock()
        self._operations = AsynchronousOperations(options.async_store_duration_ms, clock)
        configured = options.upload_directory
        context = RestContext(
            cluster=cluster,
            options=options,
            configuration=configuration,
            access=rest_access(options, security, tls),
            operations=self._operations,
            programs=Programs(
                make_upload_directory if configured is None else lambda: upload_directory(configured),
                options.max_uploaded_bytes,
            ),
            applications=applications,
            clock=clock,
        )
        super().__init__(rest_application(context), listening, tls, options.max_connections)

    async def stop(self) -> None:
        """Ends all connections and operations. Answers that are being sent are finished within a second."""
        await super().stop()
        await self._operations.close()


class _Server(uvicorn.Server):
    """A server whose process handles signals itself."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _names(options: RestOptions) -> frozenset[str]:
    """Returns the names under which browsers may reach the server, beside those of the loopback address."""
    names = {*options.allowed_hosts, options.advertised_host or "", options.bind_address.strip("[]")}
    if options.bind_address.strip("[]") in ("0.0.0.0", "::"):
        names |= {socket.gethostname(), socket.getfqdn()}
    return frozenset(name.lower() for name in names if name)
