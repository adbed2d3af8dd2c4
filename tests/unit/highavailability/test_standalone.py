from __future__ import annotations

import pytest

from flinkpy.highavailability.leader_election import LeaderInformation
from flinkpy.highavailability.standalone import SingleLeadership, StandaloneLeaderElection, StandaloneLeaderRetrieval


def test_the_only_contender_leads_at_once_under_a_token_of_its_own() -> None:
    tokens = set()
    for _ in range(2):
        election, contender = StandaloneLeaderElection(), SingleLeadership()
        election.start(contender)
        assert election.has_leadership(contender.token)
        tokens.add(contender.token)
    assert len(tokens) == 2


def test_only_the_leader_is_confirmed_and_nobody_leads_after_the_end() -> None:
    election, contender = StandaloneLeaderElection(), SingleLeadership()
    election.start(contender)
    election.confirm_leadership("another token", "host:1")
    assert election.leader is None
    election.confirm_leadership(contender.token, "host:1")
    assert election.leader == LeaderInformation("host:1", contender.token)
    with pytest.raises(RuntimeError, match="one contender"):
        election.start(SingleLeadership())
    election.close()
    assert election.leader is None and not election.has_leadership(contender.token)


def test_a_configured_leader_is_told_at_once() -> None:
    told: list[LeaderInformation | None] = []
    StandaloneLeaderRetrieval("host:1").start(told.append)
    assert told == [LeaderInformation("host:1", None)]
