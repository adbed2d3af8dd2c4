"""A client of several Dispatchers calls the leader."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from flinkpy._proto import dispatcher_pb2, job_pb2
from flinkpy.client.cluster_client import ClusterClient, LeadingDispatcher, configured_addresses
from flinkpy.common.errors import (
    DuplicateJobSubmissionError,
    ExternalError,
    NotLeaderError,
    RpcTimeoutError,
    RpcUnavailableError,
)
from flinkpy.security import SecurityContext

JOB = "a" * 32
GRAPH = job_pb2.JobGraph(job_id=JOB, name="job")
INSECURE = SecurityContext.insecure()


def not_leader(leader: str | None = None) -> NotLeaderError:
    return NotLeaderError("it does not lead", details={} if leader is None else {"leader_address": leader})


class TestTurning:
    @pytest.mark.parametrize(
        ("error", "following"),
        [
            (RpcUnavailableError("gone"), "b:2"),
            (RpcTimeoutError("hangs"), "b:2"),
            (not_leader(), "b:2"),
            (not_leader("c:3"), "c:3"),
            (not_leader("elsewhere:9"), "elsewhere:9"),
        ],
    )
    def test_the_next_attempt_goes_to_the_leader_or_the_next_one(self, error: Any, following: str) -> None:
        dispatcher = LeadingDispatcher(["a:1", "b:2", "c:3"], security=INSECURE)
        dispatcher.turn_from("a:1", error)
        assert dispatcher.address == following

    def test_after_the_last_comes_the_first_and_one_it_was_not_told_of_is_forgotten(self) -> None:
        dispatcher = LeadingDispatcher(["a:1", "b:2"], security=INSECURE)
        for address, following in (("a:1", "b:2"), ("b:2", "a:1")):
            dispatcher.turn_from(address, RpcUnavailableError("gone"))
            assert dispatcher.address == following
        dispatcher.turn_from("a:1", not_leader("elsewhere:9"))
        dispatcher.turn_from("elsewhere:9", RpcUnavailableError("gone"))
        assert dispatcher.address == "a:1"

    def test_two_calls_that_fail_at_once_change_the_address_once(self) -> None:
        dispatcher = LeadingDispatcher(["a:1", "b:2", "c:3"], security=INSECURE)
        dispatcher.turn_from("a:1", RpcUnavailableError("gone"))
        dispatcher.turn_from("a:1", RpcUnavailableError("gone"))
        assert dispatcher.address == "b:2"

    def test_the_leader_is_looked_up_and_a_known_address_is_kept_without_one(self) -> None:
        leaders: list[str | Exception] = ["b:2", ExternalError("nobody leads")]

        def find() -> str:
            leader = leaders.pop(0)
            if isinstance(leader, Exception):
                raise leader
            return leader

        dispatcher = LeadingDispatcher(["a:1"], security=INSECURE, find_leader=find)
        dispatcher.turn_from("a:1", RpcUnavailableError("gone"))
        assert dispatcher.address == "b:2"
        dispatcher.turn_from("b:2", RpcUnavailableError("gone"))
        assert dispatcher.address in ("a:1", "b:2")

    def test_an_unknown_call_is_refused(self) -> None:
        with pytest.raises(AttributeError, match="no call 'fly'"):
            LeadingDispatcher(["a:1"], security=INSECURE).fly  # noqa: B018


class FakeDispatcher:
    """A LeadingDispatcher that answers or raises from a list, in order."""

    address = "a:1"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.timeouts: list[float | None] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(request: Any, timeout_s: float | None = None) -> Any:
            self.timeouts.append(timeout_s)
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def close(self) -> None:
        return


def client_of(*answers: Any, address: str = "a:1,b:2", timeout_s: float = 60.0) -> tuple[ClusterClient, FakeDispatcher]:
    client = ClusterClient(address, timeout_s, security=INSECURE)
    client._dispatcher.close()
    dispatcher = FakeDispatcher(*answers)
    client._dispatcher = dispatcher  # type: ignore[assignment]
    return client, dispatcher


class TestCalls:
    @pytest.mark.parametrize("error", [not_leader(), RpcUnavailableError("gone"), RpcTimeoutError("hangs")])
    def test_every_call_outlives_a_change_of_leader(self, error: Exception) -> None:
        client, dispatcher = client_of(error, error, dispatcher_pb2.ListJobsResponse())
        assert client.list_jobs() == []
        assert dispatcher.answers == []
        assert max(timeout or 0 for timeout in dispatcher.timeouts) <= 10, "one that hangs is not waited for"

    def test_a_call_fails_at_once_if_the_only_known_dispatcher_is_unavailable(self) -> None:
        client, _ = client_of(RpcUnavailableError("gone"), address="a:1")
        with pytest.raises(RpcUnavailableError, match="gone"):
            client.list_jobs()

    def test_a_dispatcher_that_does_not_lead_yet_is_asked_again(self) -> None:
        client, _ = client_of(not_leader(), dispatcher_pb2.ListJobsResponse(), address="a:1")
        assert client.list_jobs() == []

    def test_patience_ends(self) -> None:
        client, _ = client_of(not_leader(), timeout_s=0)
        with pytest.raises(NotLeaderError):
            client.list_jobs()

    def test_a_job_whose_acceptance_was_not_heard_of_is_submitted_once(self) -> None:
        duplicate = DuplicateJobSubmissionError("a job with the id is RUNNING")
        client, dispatcher = client_of(RpcUnavailableError("gone"), not_leader("b:2"), duplicate)
        assert client.submit_job(GRAPH) == JOB
        assert dispatcher.answers == []

    def test_an_id_that_is_used_twice_is_refused(self) -> None:
        client, _ = client_of(DuplicateJobSubmissionError("a job with the id has ended"))
        with pytest.raises(DuplicateJobSubmissionError):
            client.submit_job(GRAPH)

    def test_closing_a_client_twice_calls_on_close_once(self) -> None:
        closed: list[int] = []
        client = ClusterClient("a:1", security=INSECURE, on_close=lambda: closed.append(1))
        client.close()
        client.close()
        assert closed == [1]


@pytest.mark.parametrize(
    ("entries", "addresses"),
    [
        ({}, None),
        ({"jobmanager.rpc.address": "host"}, "host:6123"),
        ({"jobmanager.rpc.address": "host", "jobmanager.rpc.port": "7"}, "host:7"),
        ({"jobmanager.rpc.address": "host:9"}, "host:9"),
        ({"jobmanager.rpc.address": "one:1,two:2", "jobmanager.rpc.port": "7"}, "one:1,two:2"),
        ({"jobmanager.rpc.address": "[::1]"}, "[::1]:6123"),
        ({"jobmanager.rpc.address": "[::1]:9"}, "[::1]:9"),
    ],
)
def test_the_addresses_of_a_configuration(entries: dict[str, str], addresses: str | None) -> None:
    assert configured_addresses(entries) == addresses


def test_an_unreferenced_client_is_freed_at_once_with_its_connection() -> None:
    """A program may run many jobs, each with its own client, before the garbage collector runs."""
    gc.collect()
    gc.disable()
    try:
        client = ClusterClient("127.0.0.1:1", 0.1, security=INSECURE)
        with pytest.raises((RpcUnavailableError, RpcTimeoutError)):
            client.list_jobs()
        _, gateway = client._dispatcher._gateway()
        parts = [weakref.ref(part) for part in (client, gateway, gateway._channel)]
        del client, gateway
        assert [part() for part in parts] == [None, None, None]
    finally:
        gc.enable()
