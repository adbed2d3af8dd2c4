"""How the REST server of a standby reaches the leading Dispatcher."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flinkpy.common.errors import FlinkError, NotLeaderError, RpcTimeoutError, RpcUnavailableError
from flinkpy.rest.cluster_gateways import LeaderGateways
from flinkpy.rest.errors import as_rest_error
from flinkpy.rpc.leader_endpoint import LeaderEndpoint


class Leader:
    """The gateway of another Dispatcher, which answers with its error, or with the request."""

    def __init__(self, error: FlinkError | None = None) -> None:
        self._error = error
        self.num_calls = 0

    def gateway(self, service: str, address: str) -> Leader:
        assert (service, address) == ("Dispatcher", "leader:1")
        return self

    async def cancel_job(self, request: Any, timeout_s: float | None) -> Any:
        self.num_calls += 1
        if self._error is not None:
            raise self._error
        return request


def standby(leader: Leader, address: str | None = "leader:1") -> LeaderGateways:
    served = LeaderEndpoint("Dispatcher")
    served.leader_address = address
    return LeaderGateways(served, leader, lambda: None, "own:1")  # type: ignore[arg-type]


def test_a_standby_passes_a_call_on_to_the_leader() -> None:
    leader = Leader()
    assert asyncio.run(standby(leader).dispatcher().cancel_job("a request")) == "a request"


@pytest.mark.parametrize("error", [NotLeaderError("I do not lead"), RpcUnavailableError("connection refused")])
def test_a_leader_that_has_gone_is_called_once_and_the_answer_is_503_in_words(error: FlinkError) -> None:
    leader = Leader(error)
    with pytest.raises(NotLeaderError) as caught:
        asyncio.run(standby(leader).dispatcher().cancel_job("a request"))
    answer = as_rest_error(caught.value, "PATCH /jobs/:jobid")
    assert answer.status == 503
    assert "ongoing leader election" in answer.message and "leader:1" in answer.message
    assert leader.num_calls == 1


def test_without_a_known_leader_the_answer_is_503_in_words() -> None:
    with pytest.raises(NotLeaderError, match="ongoing leader election"):
        standby(Leader(), None).dispatcher()


def test_a_leader_that_is_slow_leads_nevertheless() -> None:
    with pytest.raises(RpcTimeoutError):
        asyncio.run(standby(Leader(RpcTimeoutError("60 s"))).dispatcher().cancel_job("a request"))
