"""LeaderEndpoint: one server object, many leaderships."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.errors import NotLeaderError, StaleFencingTokenError
from flinkpy.rpc.leader_endpoint import LeaderEndpoint
from flinkpy.rpc.server import CallContext, unfenced
from flinkpy.rpc.services import service_methods

ANYBODY = CallContext(fencing_token=None, client_version=None, peer="")


class FakeDispatcher:
    """Has every method of the service; `list_jobs` waits to be released, `watch_job_status` never ends."""

    def __init__(self, token: str = "token") -> None:
        self.fencing_token = token
        self.release = asyncio.Event()
        self.has_ended = asyncio.Event()
        for name in service_methods("Dispatcher"):
            if not hasattr(type(self), name):
                setattr(self, name, self._refuse)

    def _refuse(self, request: Any, context: CallContext) -> Any:
        raise AssertionError("not called here")

    @unfenced
    def request_job_status(self, request: Any, context: CallContext) -> pb.JobStatusResponse:
        return pb.JobStatusResponse(job_id=self.fencing_token)

    def notify_job_status(self, request: Any, context: CallContext) -> str:
        return "noted"

    @unfenced
    async def list_jobs(self, request: Any, context: CallContext) -> str:
        try:
            await self.release.wait()
        finally:
            self.has_ended.set()
        return "jobs"

    @unfenced
    async def watch_job_status(self, request: Any, context: CallContext) -> AsyncIterator[int]:
        try:
            yield 1
            await self.release.wait()
            yield 2
        finally:
            self.has_ended.set()


def test_every_call_without_leadership_is_refused_with_the_leaders_address() -> None:
    endpoint: Any = LeaderEndpoint("Dispatcher")
    assert not endpoint.is_serving
    with pytest.raises(NotLeaderError) as caught:
        endpoint.request_job_status(None, ANYBODY)
    assert caught.value.details == {}
    endpoint.leader_address = "other:1"
    with pytest.raises(NotLeaderError, match="other:1") as caught:
        endpoint.notify_job_status(None, ANYBODY)
    assert caught.value.details == {"leader_address": "other:1"}


def test_calls_go_to_the_endpoint_of_the_current_leadership() -> None:
    async def scenario() -> None:
        endpoint: Any = LeaderEndpoint("Dispatcher")
        for token in ("first", "second"):
            endpoint.attach(FakeDispatcher(token))
            assert endpoint.request_job_status(None, ANYBODY).job_id == token
        endpoint.detach()
        endpoint.detach()
        with pytest.raises(NotLeaderError):
            endpoint.request_job_status(None, ANYBODY)

    asyncio.run(scenario())


def test_fenced_calls_are_checked_against_the_attached_endpoint() -> None:
    async def scenario() -> None:
        endpoint: Any = LeaderEndpoint("Dispatcher")
        endpoint.attach(FakeDispatcher("now"))
        with pytest.raises(StaleFencingTokenError):
            endpoint.notify_job_status(None, CallContext("before", None, ""))
        assert endpoint.notify_job_status(None, CallContext("now", None, "")) == "noted"

    asyncio.run(scenario())


def test_a_running_call_ends_with_the_leadership() -> None:
    async def scenario() -> None:
        endpoint: Any = LeaderEndpoint("Dispatcher")
        dispatcher = FakeDispatcher()
        endpoint.attach(dispatcher)
        call = asyncio.ensure_future(endpoint.list_jobs(None, ANYBODY))
        await asyncio.sleep(0)
        endpoint.detach()
        with pytest.raises(NotLeaderError):
            await call
        await dispatcher.has_ended.wait()

    asyncio.run(scenario())


def test_a_completed_answer_is_returned_even_if_the_leadership_has_ended() -> None:
    async def scenario() -> None:
        endpoint: Any = LeaderEndpoint("Dispatcher")
        dispatcher = FakeDispatcher()
        endpoint.attach(dispatcher)
        call = asyncio.ensure_future(endpoint.list_jobs(None, ANYBODY))
        await asyncio.sleep(0)
        dispatcher.release.set()
        assert await call == "jobs"

    asyncio.run(scenario())


def test_a_call_is_cancelled_when_its_caller_gives_up() -> None:
    async def scenario() -> None:
        endpoint: Any = LeaderEndpoint("Dispatcher")
        dispatcher = FakeDispatcher()
        endpoint.attach(dispatcher)
        call = asyncio.ensure_future(endpoint.list_jobs(None, ANYBODY))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        call.cancel()
        await dispatcher.has_ended.wait()

    asyncio.run(scenario())


def test_a_stream_ends_with_the_leadership_and_is_closed() -> None:
    async def scenario() -> None:
        endpoint: Any = LeaderEndpoint("Dispatcher")
        dispatcher = FakeDispatcher()
        endpoint.attach(dispatcher)
        stream = endpoint.watch_job_status(None, ANYBODY)
        assert await anext(stream) == 1
        following = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        endpoint.detach()
        with pytest.raises(NotLeaderError):
            await following
        assert dispatcher.has_ended.is_set()

    asyncio.run(scenario())


def test_a_stream_may_end_by_itself() -> None:
    async def scenario() -> None:
        endpoint: Any = LeaderEndpoint("Dispatcher")
        dispatcher = FakeDispatcher()
        dispatcher.release.set()
        endpoint.attach(dispatcher)
        assert [item async for item in endpoint.watch_job_status(None, ANYBODY)] == [1, 2]

    asyncio.run(scenario())


def test_an_endpoint_that_lacks_a_method_is_refused() -> None:
    with pytest.raises(TypeError, match="SubmitJob"):
        LeaderEndpoint("Dispatcher").attach(object())
