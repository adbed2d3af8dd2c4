"""gRPC over mutual TLS: members of the cluster are accepted. All others are refused with a reason."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="TLS material is made with the package cryptography: NOT tested")

from flinkpy._proto import resourcemanager_pb2
from flinkpy.common.errors import AuthenticationError, RpcUnavailableError, TlsError
from flinkpy.rpc.client import RpcClient
from flinkpy.rpc.endpoint import RpcEndpoint
from flinkpy.rpc.peer_connection import PeerConnection, PeerOptions
from flinkpy.rpc.server import RpcServer
from flinkpy.rpc.services import service_methods
from flinkpy.rpc.sync_client import SyncGateway
from flinkpy.security import PEER_NAME, Audience, ClusterSecret, Role, SecurityContext, TlsMaterial
from flinkpy.security.access_token import with_authority
from flinkpy.security.certificates import CLIENT_NAME, Identity, make_authority, make_certificate

NOW_MS = int(time.time() * 1000)
#: The lifetime of tokens: longer than any run of the tests, because the modules are imported when it begins.
LIFETIME_S = 24 * 3600
SECRET, OTHER_SECRET = ClusterSecret.generate(), ClusterSecret.generate()
AUTHORITY, OTHER_AUTHORITY = make_authority(NOW_MS), make_authority(NOW_MS)
YEAR, YESTERDAY = timedelta(days=365), timedelta(days=-1)
SERVICE = make_certificate(AUTHORITY, PEER_NAME, NOW_MS, YEAR)
CLIENT = make_certificate(AUTHORITY, CLIENT_NAME, NOW_MS, YEAR)
EXPIRED = make_certificate(AUTHORITY, PEER_NAME, NOW_MS, YESTERDAY)
FOREIGN = make_certificate(OTHER_AUTHORITY, PEER_NAME, NOW_MS, YEAR)


PLAINTEXT = SecurityContext.insecure()


def context(
    identity: Identity | None, authority: Identity = AUTHORITY, *, secret: ClusterSecret = SECRET, **fields: Any
) -> SecurityContext:
    """Returns a context with this certificate, or with the one derived from the secret if it is None."""
    if identity is None:
        return SecurityContext.of_secret(secret)
    pem = identity.key_pem, identity.certificate_pem, authority.certificate_pem
    return SecurityContext.of_secret(secret, tls=TlsMaterial(*pem, source="key store K", **fields))


class ResourceManager:
    def __getattr__(self, name: str) -> Any:
        method = service_methods("ResourceManager").get(name)
        if method is None:
            raise AttributeError(name)
        return lambda request, context: method.response_class()


Ask = Callable[[RpcServer, SecurityContext], Awaitable[None]]


async def ask(server: RpcServer, security: SecurityContext) -> None:
    client = RpcClient(security=security)
    try:
        gateway = client.gateway("ResourceManager", server.address)
        await gateway.request_resource_overview(resourcemanager_pb2.ResourceOverviewRequest())
    finally:
        await client.close()


async def ask_from_a_program(server: RpcServer, security: SecurityContext) -> None:
    def call() -> None:
        with SyncGateway("ResourceManager", server.address, security=security) as gateway:
            gateway.request_resource_overview(resourcemanager_pb2.ResourceOverviewRequest(), timeout_s=10)

    await asyncio.to_thread(call)


def run(server_side: SecurityContext, client_side: SecurityContext, how: Ask = ask) -> None:
    async def main() -> None:
        server = RpcServer(bind_address="127.0.0.1", port=0, security=server_side)
        server.add_endpoint("ResourceManager", ResourceManager())
        await server.start()
        try:
            await asyncio.wait_for(how(server, client_side), 30)
        finally:
            await server.stop()

    asyncio.run(main())


@pytest.mark.parametrize("how", [ask, ask_from_a_program])
@pytest.mark.parametrize("identity", [SERVICE, CLIENT])
def test_members_of_the_cluster_can_call_each_other(identity: Identity, how: Ask) -> None:
    run(context(SERVICE), context(identity), how)


@pytest.mark.parametrize("how", [ask, ask_from_a_program])
def test_members_that_share_only_the_secret_can_call_each_other(how: Ask) -> None:
    run(context(None), context(None), how)
    token = SECRET.token(Role.READ, Audience.RESOURCE_MANAGER, NOW_MS // 1000 + LIFETIME_S)
    authority = context(None).derived_tls
    assert authority is not None
    run(context(None), SecurityContext.of_token(with_authority(token, authority.trusted_certificates)), how)


@pytest.mark.parametrize("how", [ask, ask_from_a_program])
@pytest.mark.parametrize(
    ("server_side", "client_side", "said"),
    [
        (
            context(FOREIGN, OTHER_AUTHORITY),
            context(SERVICE),
            r"this process refuses the peer.*not signed by an authority in the trust store.*key store K",
        ),
        (context(SERVICE), context(FOREIGN), r"the peer refuses this process's certificate.*key store K"),
        (context(EXPIRED), context(SERVICE), r"this process refuses the peer.*has expired"),
        (context(SERVICE), context(EXPIRED), r"the peer refuses this process's certificate.*expired"),
        (context(CLIENT), context(SERVICE), r"this process refuses the peer.*for clients"),
        (context(SERVICE), context(None), r"the process that listens there has not proved"),
        (
            context(None),
            context(SERVICE),
            r"this process refuses the peer.*not signed by an authority in the trust store",
        ),
        (PLAINTEXT, context(SERVICE), r"the peer speaks plaintext"),
        (context(SERVICE), PLAINTEXT, r"the peer speaks TLS.*security\.ssl\.internal\.enabled"),
        (context(SERVICE, secret=OTHER_SECRET), context(None), r"the process that listens there has not proved"),
        (context(None, secret=OTHER_SECRET), context(None), r"the process that listens there has not proved"),
    ],
    ids=[
        "server of another CA",
        "client of another CA",
        "expired server",
        "expired client",
        "client as server",
        "client with the secret only",
        "server with the secret only",
        "plaintext server",
        "plaintext client",
        "server with another secret and TLS",
        "server with another secret",
    ],
)
def test_non_members_are_refused_and_the_error_names_peer_and_cause(
    server_side: SecurityContext, client_side: SecurityContext, said: str, how: Ask
) -> None:
    with pytest.raises(TlsError, match=rf"no connection to 127\.0\.0\.1:[0-9]+: {said}"):
        run(server_side, client_side, how)


def test_a_caller_with_a_signed_but_not_pinned_certificate_is_refused() -> None:
    pinned = context(SERVICE, fingerprints=(SERVICE.fingerprint,))
    run(pinned, context(SERVICE))
    with pytest.raises(AuthenticationError, match="fingerprint"):
        run(pinned, context(CLIENT))


def test_tls_does_not_replace_a_token() -> None:
    other = SecurityContext.of_secret(ClusterSecret.generate(), tls=context(SERVICE).tls)
    with pytest.raises(AuthenticationError, match="not of this cluster"):
        run(context(SERVICE), other)


class CountedRegistration(PeerConnection):
    """Sets an event when it tries to register for the second time."""

    def __init__(self, endpoint: RpcEndpoint, client: RpcClient, address: str) -> None:
        super().__init__(
            endpoint, client, PeerOptions(), service="ResourceManager", name="the ResourceManager", address=address
        )
        self.tried_again = asyncio.Event()
        self._is_first = True

    async def _register(self, timeout_s: float) -> Any:
        if not self._is_first:
            self.tried_again.set()
        self._is_first = False
        return await self._gateway.request_resource_overview(resourcemanager_pb2.ResourceOverviewRequest())


def test_a_service_whose_registration_fails_because_of_tls_logs_it_and_retries(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def register(server: RpcServer, security: SecurityContext) -> None:
        endpoint, client = RpcEndpoint(asyncio.get_running_loop()), RpcClient(security=security)
        connection = CountedRegistration(endpoint, client, server.address)
        connection.register()
        await connection.tried_again.wait()
        await endpoint.close()
        await client.close()

    with caplog.at_level("WARNING"):
        run(context(SERVICE), context(FOREIGN), register)
    assert "the ResourceManager: no connection to 127.0.0.1:" in caplog.text
    assert "the peer refuses this process's certificate" in caplog.text


def test_the_error_about_an_unreachable_peer_does_not_mention_tls() -> None:
    async def main() -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            client = RpcClient(security=context(SERVICE))
            gateway = client.gateway("ResourceManager", f"127.0.0.1:{bound.getsockname()[1]}")
            with pytest.raises(RpcUnavailableError) as raised:
                await gateway.request_resource_overview(resourcemanager_pb2.ResourceOverviewRequest())
            assert type(raised.value) is RpcUnavailableError
            await client.close()

    asyncio.run(main())


def test_the_token_is_not_sent_to_an_unauthenticated_peer() -> None:
    """An impostor at the address of a service receives only the start of a handshake."""

    async def main() -> None:
        received = bytearray()
        done = asyncio.Event()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            received.extend(await reader.read(65536))
            writer.close()
            done.set()

        listener = await asyncio.start_server(listen, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        client = RpcClient(security=context(SERVICE))
        with pytest.raises(RpcUnavailableError):
            await client.gateway("ResourceManager", f"127.0.0.1:{port}").request_resource_overview(
                resourcemanager_pb2.ResourceOverviewRequest(), timeout_s=5
            )
        await done.wait()
        assert received[:1] == b"\x16"  # a record of a TLS handshake
        assert b"fp1." not in received
        await client.close()
        listener.close()
        await listener.wait_closed()

    asyncio.run(main())
