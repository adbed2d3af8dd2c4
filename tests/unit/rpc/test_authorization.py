"""Every call of every service is refused without a token, with a wrong one, and with one of too low a role."""

from __future__ import annotations

import asyncio
import os
import pickle
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from flinkpy._proto import dispatcher_pb2
from flinkpy.common.errors import AuthenticationError, AuthorizationError, ConfigurationError
from flinkpy.rpc.authorization import REQUIRED_ROLES, check_call, required_role, token_metadata
from flinkpy.rpc.client import RpcClient
from flinkpy.rpc.security import open_aio_channel
from flinkpy.rpc.server import RpcServer
from flinkpy.rpc.services import Method, service_methods
from flinkpy.security import Audience, ClusterSecret, Role, SecurityContext
from flinkpy.security.access_token import CLOCK_SKEW_S

SERVICES = ("Dispatcher", "BlobServer", "ResourceManager", "JobMaster", "TaskExecutor")
METHODS = [method for service in SERVICES for method in service_methods(service).values()]
SECRET = ClusterSecret(bytes(range(32)))
CLUSTER = SecurityContext.of_secret(SECRET)
NOW_S = int(time.time())
#: Longer than any run of the tests, because the modules are imported when it begins.
LIFETIME_S = 24 * 3600
ALL = frozenset(Audience)

#: Calls for services only, of services that clients call too. A new call must be added here or to the table.
CLUSTER_ONLY = {
    "/flinkpy.Dispatcher/OpenJobMasterSession",
    "/flinkpy.Dispatcher/NotifyJobMasterStarted",
    "/flinkpy.Dispatcher/NotifyJobStatus",
    "/flinkpy.Dispatcher/NotifyJobTerminated",
}


class Endpoint:
    """Answers every call of a service, and records the calls."""

    def __init__(self, service: str, calls: list[str]) -> None:
        for method in service_methods(service).values():
            setattr(self, method.name, self._answer(method, calls))

    def _answer(self, method: Method, calls: list[str]) -> Callable[..., Any]:
        async def unary(request: Any, context: Any) -> Any:
            calls.append(method.path)
            return method.response_class()

        async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
            calls.append(method.path)
            yield method.response_class()

        return stream if method.server_streaming else unary


def run(scenario: Callable[[RpcServer, list[str]], Awaitable[None]], security: SecurityContext = CLUSTER) -> None:
    async def main() -> None:
        calls: list[str] = []
        server = RpcServer(bind_address="127.0.0.1", port=0, security=security)
        for service in SERVICES:
            server.add_endpoint(service, Endpoint(service, calls))
        await server.start()
        try:
            await asyncio.wait_for(scenario(server, calls), 30)
        finally:
            await server.stop()

    asyncio.run(main())


async def call_raw(
    channel: grpc.aio.Channel, path: str, content: bytes, metadata: tuple[tuple[str, str], ...]
) -> grpc.StatusCode:
    """Returns the status of a call with the given bytes as its only message. Every method counts as streaming."""
    call = channel.unary_stream(path)(content, metadata=metadata, timeout=10)
    try:
        async for _ in call:
            pass
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),)


def token(role: Role, secret: ClusterSecret = SECRET, expires_s: int = NOW_S + LIFETIME_S) -> str:
    return secret.token(role, Audience.DISPATCHER, expires_s)


WRONG = {
    "expired": bearer(token(Role.CLUSTER, expires_s=NOW_S - CLOCK_SKEW_S - 60)),
    "of the time before tokens expired": bearer("fe79a45527524ff026171fd489e220d47367d39fc031294f65ab750fe21003d3"),
    "none": (),
    "empty": (("authorization", ""),),
    "no token": (("authorization", "Bearer "),),
    "another cluster's": bearer(token(Role.CLUSTER, ClusterSecret.generate())),
    "cut": bearer(token(Role.CLUSTER)[:-1]),
    "longer": bearer(token(Role.CLUSTER) + "0"),
    "upper case": bearer(token(Role.CLUSTER).upper()),
    "another scheme": (("authorization", f"Basic {token(Role.CLUSTER)}"),),
    "another key": (("token", token(Role.CLUSTER)),),
    "the secret itself": bearer(bytes(range(32)).hex()),
}


def test_every_call_of_every_service_needs_a_token_of_the_cluster() -> None:
    async def scenario(server: RpcServer, calls: list[str]) -> None:
        paths = [method.path for method in METHODS]
        paths += ["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch", "/flinkpy.Dispatcher/NoSuchCall"]
        paths += ["/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "/no.Service/Call"]
        async with open_aio_channel(server.address, [], CLUSTER) as channel:
            for name, metadata in WRONG.items():
                for path in paths if name in ("none", "another cluster's") else paths[:3]:
                    status = await call_raw(channel, path, b"", metadata)
                    assert status is grpc.StatusCode.UNAUTHENTICATED, (name, path)
        assert calls == []

    run(scenario)


def test_every_call_needs_exactly_its_role() -> None:
    async def scenario(server: RpcServer, calls: list[str]) -> None:
        for role in Role:
            client = RpcClient(security=CLUSTER.with_role(role))
            for service in SERVICES:
                gateway = client.gateway(service, server.address)
                for method in service_methods(service).values():
                    calls.clear()
                    if role >= required_role(method.path):
                        await _call(gateway, method)
                        assert calls == [method.path]
                        continue
                    with pytest.raises(AuthorizationError) as raised:
                        await _call(gateway, method)
                    assert calls == []
                    assert raised.value.details == {"role": role.label, "required": required_role(method.path).label}
            await client.close()

    run(scenario)


async def _call(gateway: Any, method: Method) -> None:
    request: Any = method.request_class()
    answer = getattr(gateway, method.name)(iter([request]) if method.client_streaming else request)
    if method.server_streaming:
        async for _ in answer:
            pass
    else:
        await answer


def test_the_role_table_lists_existing_calls_and_all_calls_of_clients() -> None:
    ours = {path for path in REQUIRED_ROLES if path.startswith("/flinkpy.")}
    assert ours <= {method.path for method in METHODS}
    of_clients = {
        method.path for service in ("Dispatcher", "BlobServer") for method in service_methods(service).values()
    }
    assert of_clients - ours == CLUSTER_ONLY
    assert {path for path in ours if "TaskExecutor" in path or "JobMaster/" in path} == set()


def test_a_read_token_cannot_make_changes() -> None:
    reading = {path.rpartition("/")[2] for path, role in REQUIRED_ROLES.items() if role is Role.READ}
    words = ("Request", "List", "Watch", "Check", "ServerReflectionInfo")
    assert all(name.startswith(words) for name in reading), reading
    for name in ("SubmitJob", "CancelJob", "ShutDownCluster", "TriggerSavepoint", "DisposeSavepoint"):
        assert required_role(f"/flinkpy.Dispatcher/{name}") is Role.SUBMIT
    assert required_role("/flinkpy.BlobServer/PutBlob") is Role.SUBMIT


def test_health_and_reflection_accept_a_read_token() -> None:
    async def scenario(server: RpcServer, calls: list[str]) -> None:
        metadata = token_metadata(CLUSTER.with_role(Role.READ), "Dispatcher")
        async with open_aio_channel(server.address, [], CLUSTER) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            answer = await health.Check(health_pb2.HealthCheckRequest(service="flinkpy.Dispatcher"), metadata=metadata)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
            reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
            listing = reflection_pb2.ServerReflectionRequest(list_services="")
            async for response in reflection.ServerReflectionInfo(iter([listing]), metadata=metadata):
                names = {service.name for service in response.list_services_response.service}
                assert {f"flinkpy.{service}" for service in SERVICES} <= names

    run(scenario)


class _Bomb:
    def __init__(self, canary: Path) -> None:
        self.canary = str(canary)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.canary,)


def test_the_message_of_a_refused_call_is_not_parsed_or_unpickled(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    bomb = dispatcher_pb2.CoordinationRequest(job_id="0" * 32, payload=pickle.dumps(_Bomb(canary))).SerializeToString()

    async def scenario(server: RpcServer, calls: list[str]) -> None:
        async with open_aio_channel(server.address, [], CLUSTER) as channel:
            for method in METHODS:
                # The second is not a message. A server that parsed it would answer INTERNAL.
                for content in (bomb, b"\xff" * 100):
                    status = await call_raw(channel, method.path, content, bearer("0" * 64))
                    assert status is grpc.StatusCode.UNAUTHENTICATED
        assert calls == [] and not canary.exists()

    run(scenario)


def test_a_message_nested_too_deeply_is_refused_and_the_server_continues() -> None:
    async def scenario(server: RpcServer, calls: list[str]) -> None:
        nested = b""
        for _ in range(500):  # field 1, which is a message in a message
            nested = b"\x0a" + _varint(len(nested)) + nested
        async with open_aio_channel(server.address, [], CLUSTER) as channel:
            metadata = token_metadata(CLUSTER, "Dispatcher")
            for path in ("/flinkpy.Dispatcher/SubmitJob", "/flinkpy.Dispatcher/NotifyJobTerminated"):
                await call_raw(channel, path, nested, metadata)
            assert await call_raw(channel, "/flinkpy.Dispatcher/ListJobs", b"", metadata) is grpc.StatusCode.OK

    run(scenario)


def _varint(value: int) -> bytes:
    encoded = b""
    while value > 127:
        encoded += bytes([value & 127 | 128])
        value >>= 7
    return encoded + bytes([value])


def test_the_size_of_messages_and_metadata_is_limited() -> None:
    async def scenario(server: RpcServer, calls: list[str]) -> None:
        async with open_aio_channel(
            server.address, [("grpc.max_send_message_length", -1), ("grpc.max_metadata_size", 1 << 22)], CLUSTER
        ) as channel:
            path = "/flinkpy.Dispatcher/ListJobs"
            metadata = token_metadata(CLUSTER, "Dispatcher")
            status = await call_raw(channel, path, bytes(33 << 20), metadata)
            assert status is grpc.StatusCode.RESOURCE_EXHAUSTED
            large = (*metadata, ("x", "y" * (1 << 20)))
            assert await call_raw(channel, path, b"", large) is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert await call_raw(channel, path, b"", metadata) is grpc.StatusCode.OK

    run(scenario)


def test_a_refused_call_does_not_wait_for_its_message() -> None:
    async def scenario(server: RpcServer, calls: list[str]) -> None:
        async with open_aio_channel(server.address, [], CLUSTER) as channel:
            call = channel.stream_stream("/flinkpy.BlobServer/PutBlob")(metadata=())
            assert await call.code() is grpc.StatusCode.UNAUTHENTICATED  # nothing was sent, the stream is open
        assert calls == []

    run(scenario)


def test_refusals_say_what_to_do_and_show_no_token() -> None:
    shown = token(Role.READ)
    with pytest.raises(AuthenticationError, match=r"no token.*security.secret-file.*flinkpy token.*Bearer"):
        check_call(CLUSTER, "/a/B", None, ALL, NOW_S)
    with pytest.raises(AuthenticationError, match="not of this cluster") as wrong:
        check_call(CLUSTER, "/a/B", "Bearer " + "5" * 64, ALL, NOW_S)
    with pytest.raises(AuthorizationError, match=r"role read.* requires cluster") as low:
        check_call(CLUSTER, "/a/B", f"Bearer {shown}", ALL, NOW_S)
    assert "5" * 64 not in str(wrong.value) and shown not in str(low.value) + str(low.value.details)


def test_refusals_are_logged_with_the_peer_but_cannot_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(server: RpcServer, calls: list[str]) -> None:
        async with open_aio_channel(server.address, [], CLUSTER) as channel:
            for _ in range(50):
                await call_raw(channel, "/flinkpy.Dispatcher/ListJobs", b"", ())

    with caplog.at_level("WARNING"):
        run(scenario)
    lines = [record.getMessage() for record in caplog.records if "refused a call" in record.getMessage()]
    assert len(lines) == 1 and "ipv4:127.0.0.1:" in lines[0]


def test_a_server_that_cannot_check_tokens_is_not_created() -> None:
    with pytest.raises(ConfigurationError, match="cluster secret"):
        RpcServer(bind_address="127.0.0.1", port=0, security=SecurityContext.of_token("token"))
    with pytest.raises(ConfigurationError, match=r"cannot bind 0\.0\.0\.0"):
        RpcServer(bind_address="0.0.0.0", port=0, security=CLUSTER)


def test_a_token_for_one_service_is_refused_by_the_others() -> None:
    async def main() -> None:
        server = RpcServer(bind_address="127.0.0.1", port=0, security=CLUSTER)
        server.add_endpoint("ResourceManager", Endpoint("ResourceManager", []))
        await server.start()
        path = "/flinkpy.ResourceManager/RequestResourceOverview"
        async with open_aio_channel(server.address, [], CLUSTER) as channel:
            for audience in Audience:
                status = await call_raw(
                    channel, path, b"", bearer(SECRET.token(Role.CLUSTER, audience, NOW_S + LIFETIME_S))
                )
                expected = audience is Audience.RESOURCE_MANAGER
                assert status is (grpc.StatusCode.OK if expected else grpc.StatusCode.UNAUTHENTICATED)
        await server.stop()

    asyncio.run(main())


def test_a_process_that_cannot_verify_the_cluster_sends_no_token() -> None:
    for text in ("0" * 64, token(Role.SUBMIT)):
        with pytest.raises(AuthenticationError, match="any process that listens there would receive it") as refused:
            open_aio_channel("192.0.2.1:6123", [], SecurityContext.of_token(text))
        assert text not in str(refused.value)
    with pytest.raises(AuthenticationError, match=r"security.secret-file.*flinkpy token"):
        open_aio_channel("127.0.0.1:6123", [], SecurityContext(None, None))
