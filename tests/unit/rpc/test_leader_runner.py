"""LeaderRunner: each leadership has a separate endpoint from the grant to the revocation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flinkpy.common.errors import ExternalError, LeadershipLostError
from flinkpy.common.process import ShutdownRequest
from flinkpy.highavailability.leader_election import LeaderContender, LeaderInformation, Leadership
from flinkpy.rpc import leader_runner
from flinkpy.rpc.leader_endpoint import LeaderEndpoint
from flinkpy.rpc.leader_runner import LeaderRunner
from flinkpy.rpc.services import service_methods


class FakeElection:
    """Grants and revokes leadership when the test calls it."""

    def __init__(self) -> None:
        self.contender: LeaderContender | None = None
        self.leadership: Leadership | None = None
        self.confirmed: list[tuple[str, str]] = []
        self.is_closed = False

    def start(self, contender: LeaderContender) -> None:
        self.contender = contender

    def grant(self, token: str) -> None:
        assert self.contender is not None
        self.leadership = Leadership(token, f"/latch/{token}")
        self.contender.grant_leadership(token)

    def revoke(self) -> None:
        assert self.contender is not None
        self.leadership = None
        self.contender.revoke_leadership()

    def confirm_leadership(self, fencing_token: str, address: str) -> None:
        self.confirmed.append((fencing_token, address))

    def has_leadership(self, fencing_token: str) -> bool:
        return self.leadership is not None and self.leadership.token == fencing_token

    def close(self) -> None:
        self.is_closed = True


class FakeRetrieval:
    def start(self, on_leader_changed: Callable[[LeaderInformation | None], None]) -> None:
        self.tell = on_leader_changed

    def close(self) -> None:
        self.tell = lambda leader: None


class FakeServer:
    """A fake RpcServer that records changes of its health."""

    def __init__(self) -> None:
        self.refreshed: list[str] = []

    async def refresh_health(self, service: str) -> None:
        self.refreshed.append(service)


class FakeEndpoint:
    def __init__(self, token: str) -> None:
        self.token = token
        for name in service_methods("ResourceManager"):
            setattr(self, name, lambda request, context: None)


class RecordingTerms:
    """Records the calls to each endpoint. The test may delay or fail the creation of one."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.errors: list[Exception] = []
        self.gate: asyncio.Event | None = None

    async def make(self, leadership: Leadership) -> FakeEndpoint:
        self.events.append(f"make {leadership.token}")
        if self.gate is not None:
            await self.gate.wait()
        if self.errors:
            raise self.errors.pop()
        return FakeEndpoint(leadership.token)

    def activate(self, endpoint: FakeEndpoint, address: str) -> None:
        self.events.append(f"activate {endpoint.token} at {address}")

    async def revoked(self, endpoint: FakeEndpoint) -> None:
        self.events.append(f"revoked {endpoint.token}")

    async def ended(self, endpoint: FakeEndpoint) -> None:
        self.events.append(f"ended {endpoint.token}")


class World:
    def __init__(self) -> None:
        self.election, self.terms, self.server = FakeElection(), RecordingTerms(), FakeServer()
        self.retrieval = FakeRetrieval()
        self.served = LeaderEndpoint("ResourceManager")
        server: Any = self.server
        self.runner: LeaderRunner[FakeEndpoint] = LeaderRunner(
            "ResourceManager", self.terms, self.election, self.served, server, self.retrieval
        )

    @property
    def serving(self) -> str | None:
        return None if self.served.endpoint is None else str(self.served.endpoint.token)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def scenario(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    def wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(leader_runner, "RETRY_DELAYS_S", (0.0, 0.0))

        async def body() -> None:
            world = World()
            try:
                await test(world)
            finally:
                await world.runner.close()
                assert world.election.is_closed

        asyncio.run(body())

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


@scenario
async def test_an_endpoint_serves_from_the_grant_to_the_revocation(world: World) -> None:
    world.runner.start()
    world.runner.serve("host:1")
    assert world.serving is None
    world.election.grant("one")
    await settle()
    assert world.serving == "one"
    assert world.election.confirmed == [("one", "host:1")]
    world.election.revoke()
    assert world.serving is None, "at once, not when the endpoint has stopped"
    await settle()
    world.election.grant("two")
    await settle()
    assert world.serving == "two"
    assert world.terms.events == [
        "make one",
        "activate one at host:1",
        "revoked one",
        "make two",
        "activate two at host:1",
    ]
    assert set(world.server.refreshed) == {"ResourceManager"}


@scenario
async def test_an_endpoint_created_too_late_never_serves(world: World) -> None:
    world.runner.start()
    world.runner.serve("host:1")
    world.terms.gate = asyncio.Event()
    world.election.grant("one")
    await settle()
    world.election.revoke()
    world.terms.gate.set()
    await settle()
    assert world.serving is None
    assert world.terms.events == ["make one", "revoked one"]
    assert world.election.confirmed == []


@scenario
async def test_a_grant_during_the_creation_of_the_former_endpoint_gets_its_own_endpoint(world: World) -> None:
    world.runner.start()
    world.runner.serve("host:1")
    world.terms.gate = asyncio.Event()
    world.election.grant("one")
    await settle()
    world.election.revoke()
    world.election.grant("two")
    world.terms.gate.set()
    await settle()
    assert world.serving == "two"
    assert world.terms.events == ["make one", "revoked one", "make two", "activate two at host:1"]


@scenario
async def test_an_endpoint_acts_only_once_the_server_listens(world: World) -> None:
    world.runner.start()
    world.election.grant("one")
    await world.runner.wait_until_made()
    assert world.serving == "one" and world.terms.events == ["make one"]
    world.runner.serve("host:1")
    assert world.terms.events == ["make one", "activate one at host:1"]


@scenario
async def test_a_recovery_that_fails_temporarily_is_retried(world: World) -> None:
    world.terms.errors = [ExternalError("away"), ExternalError("away")]
    world.runner.start()
    world.runner.serve("host:1")
    world.election.grant("one")
    await settle()
    assert world.serving == "one"
    assert world.terms.events[:3] == ["make one"] * 3


@scenario
async def test_a_leadership_that_cannot_begin_ends_the_process(world: World) -> None:
    world.terms.errors = [ExternalError("away") for _ in range(3)]
    world.runner.start()
    world.runner.serve("host:1")
    world.election.grant("one")
    shutdown = ShutdownRequest()
    assert await world.runner.wait_for(shutdown) == "the ResourceManager cannot lead: away"
    assert world.serving is None
    with pytest.raises(ExternalError, match="away"):
        await world.runner.wait_until_made()


@scenario
async def test_a_leadership_that_is_lost_before_it_began_is_no_failure(world: World) -> None:
    world.terms.gate = asyncio.Event()
    world.terms.errors = [LeadershipLostError("gone")]
    world.runner.start()
    world.runner.serve("host:1")
    world.election.grant("one")
    await settle()
    world.election.revoke()
    world.terms.gate.set()
    await settle()
    assert not world.runner.failed.done()
    world.election.grant("two")
    await settle()
    assert world.serving == "two"


@scenario
async def test_an_orderly_end_is_distinguished_from_a_revocation(world: World) -> None:
    world.runner.start()
    world.runner.serve("host:1")
    world.election.grant("one")
    await settle()
    await world.runner.close()
    assert world.terms.events[-1] == "ended one"
    await world.runner.close()
    assert world.terms.events.count("ended one") == 1


@scenario
async def test_refused_callers_learn_the_current_leader(world: World) -> None:
    world.runner.start()
    world.retrieval.tell(LeaderInformation("other:1", "token"))
    assert world.served.leader_address == "other:1"
    world.retrieval.tell(None)
    assert world.served.leader_address is None
