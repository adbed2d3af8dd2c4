"""The machine of one contender, event by event."""

from __future__ import annotations

from itertools import count

import pytest

from flinkpy.highavailability import leader_latch as latch
from flinkpy.highavailability.leader_latch import LatchState, LeaderLatch


def numbered() -> LeaderLatch:
    tokens = count(1)
    return LeaderLatch(lambda: f"t{next(tokens)}")


def name(token: str, number: int) -> str:
    return f"{token}-latch-{number:010d}"


def leading(machine: LeaderLatch, token: str = "t1", number: int = 7) -> LeaderLatch:
    own = name(token, number)
    assert machine.handle(latch.Stand(is_connected=True)) == [latch.CreateNode(1, f"{token}-latch-")]
    assert machine.handle(latch.NodeCreated(1, own)) == [latch.ListNodes(2)]
    assert machine.handle(latch.NodesListed(2, (own,))) == [latch.WatchNode(3, own)]
    assert machine.handle(latch.NodeWatched(3, True)) == [latch.Grant(token, own)]
    machine.validate()
    return machine


def test_the_lowest_number_leads_once_its_own_node_is_watched() -> None:
    machine = leading(numbered())
    assert machine.leading_token == "t1" and machine.node_name == name("t1", 7)


def test_any_other_watches_the_one_before_it_and_no_other() -> None:
    machine = numbered()
    machine.handle(latch.Stand(is_connected=True))
    machine.handle(latch.NodeCreated(1, name("t1", 7)))
    others = (name("b", 9), name("a", 3), name("c", 5), name("t1", 7))
    assert machine.handle(latch.NodesListed(2, others)) == [latch.WatchNode(3, name("c", 5))]
    assert machine.handle(latch.NodeWatched(3, True)) == []
    assert machine.handle(latch.NodeChanged(name("a", 3))) == []
    assert machine.handle(latch.NodeChanged(name("c", 5))) == [latch.ListNodes(4)]
    assert machine.handle(latch.NodesListed(4, (name("t1", 7), name("b", 9)))) == [latch.WatchNode(5, name("t1", 7))]
    assert machine.handle(latch.NodeWatched(5, True)) == [latch.Grant("t1", name("t1", 7))]


def test_a_contender_does_not_wait_for_a_node_that_vanished_before_its_watch() -> None:
    machine = numbered()
    machine.handle(latch.Stand(is_connected=True))
    machine.handle(latch.NodeCreated(1, name("t1", 7)))
    machine.handle(latch.NodesListed(2, (name("a", 3), name("t1", 7))))
    assert machine.handle(latch.NodeWatched(3, False)) == [latch.ListNodes(4)]


def test_numbers_and_not_names_decide_and_foreign_nodes_come_last() -> None:
    assert latch.sequence_of(name("zzz", 2)) < latch.sequence_of(name("aaa", 10)) < latch.sequence_of("lock-0000000001")
    assert latch.sequence_of("x-latch-" + "\u0661" * 10) == latch.sequence_of("x-latch-1")
    assert latch.token_of(name("a-latch-b", 3)) == "a-latch-b"


def test_a_suspended_leader_does_not_lead_and_removes_its_node_before_it_makes_another() -> None:
    machine = leading(numbered())
    assert machine.handle(latch.Suspended()) == [latch.Revoke("t1")]
    assert machine.leading_token is None
    assert machine.handle(latch.Connected()) == [latch.ListNodes(4)]
    assert machine.handle(latch.NodesListed(4, (name("t1", 7), name("x", 9)))) == [
        latch.RemoveNodes(5, (name("t1", 7),))
    ]
    assert machine.handle(latch.NodesRemoved(5)) == [latch.CreateNode(6, "t2-latch-")]


def test_a_tolerated_suspension_ends_with_the_connection_or_with_the_grace() -> None:
    machine = leading(LeaderLatch(lambda: "t1", tolerates_suspension=True))
    assert machine.handle(latch.Suspended()) == [latch.StartGrace()]
    assert machine.leading_token == "t1"
    machine.validate()
    # When the connection is back, the latch checks that its node still exists.
    assert machine.handle(latch.Connected()) == [latch.CancelGrace(), latch.WatchNode(4, name("t1", 7))]
    assert machine.handle(latch.NodeWatched(4, True)) == []
    assert machine.handle(latch.GraceOver()) == []  # it was sent before
    assert machine.handle(latch.Suspended()) == [latch.StartGrace()]
    assert machine.handle(latch.GraceOver()) == [latch.Revoke("t1")]


def test_a_tolerated_suspension_in_which_the_node_went_ends_the_term() -> None:
    machine = leading(LeaderLatch(iter(["t1", "t2"]).__next__, tolerates_suspension=True))
    machine.handle(latch.Suspended())
    machine.handle(latch.Connected())
    assert machine.handle(latch.NodeWatched(4, False)) == [latch.Revoke("t1"), latch.CreateNode(5, "t2-latch-")]


def test_a_request_from_before_a_tolerated_suspension_is_repeated_after_it() -> None:
    """No node is created while the connection is suspended, because its creation could go unnoticed."""
    machine = leading(LeaderLatch(iter(["t1", "t2"]).__next__, tolerates_suspension=True))
    assert machine.handle(latch.NodeChanged(name("t1", 7))) == [latch.WatchNode(4, name("t1", 7))]
    machine.handle(latch.Suspended())
    assert machine.handle(latch.NodeWatched(4, False)) == []
    assert machine.handle(latch.Connected()) == [latch.CancelGrace(), latch.WatchNode(5, name("t1", 7))]
    assert machine.handle(latch.NodeWatched(5, False)) == [latch.Revoke("t1"), latch.CreateNode(6, "t2-latch-")]


def test_an_ended_session_takes_its_nodes_with_it() -> None:
    machine = leading(numbered())
    assert machine.handle(latch.SessionLost()) == [latch.CancelGrace(), latch.Revoke("t1")]
    assert machine.handle(latch.Connected()) == [latch.CreateNode(4, "t2-latch-")]


def test_a_contender_that_waits_keeps_its_place_over_a_suspension() -> None:
    machine = numbered()
    machine.handle(latch.Stand(is_connected=True))
    machine.handle(latch.NodeCreated(1, name("t1", 7)))
    machine.handle(latch.NodesListed(2, (name("a", 3), name("t1", 7))))
    machine.handle(latch.NodeWatched(3, True))
    assert machine.handle(latch.Suspended()) == []
    assert machine.handle(latch.Connected()) == [latch.ListNodes(4)]
    assert machine.handle(latch.NodesListed(4, (name("a", 3), name("t1", 7)))) == [latch.WatchNode(5, name("a", 3))]


def test_a_contender_keeps_its_place_if_the_connection_goes_before_it_knows_who_leads() -> None:
    machine = numbered()
    machine.handle(latch.Stand(is_connected=True))
    machine.handle(latch.NodeCreated(1, name("t1", 7)))
    assert machine.handle(latch.Suspended()) == []
    assert machine.handle(latch.NodesListed(2, ())) == [], "an answer from before the connection broke"
    assert machine.handle(latch.Connected()) == [latch.ListNodes(3)]
    assert machine.handle(latch.NodesListed(3, (name("t1", 7),))) == [latch.WatchNode(4, name("t1", 7))]
    assert machine.handle(latch.NodeWatched(4, True)) == [latch.Grant("t1", name("t1", 7))]
    machine.validate()


def test_a_contender_whose_node_is_gone_when_it_looks_again_makes_another() -> None:
    machine = numbered()
    machine.handle(latch.Stand(is_connected=True))
    machine.handle(latch.NodeCreated(1, name("t1", 7)))
    machine.handle(latch.NodesListed(2, (name("a", 3), name("t1", 7))))
    machine.handle(latch.NodeWatched(3, True))
    assert machine.handle(latch.NodeChanged(name("a", 3))) == [latch.ListNodes(4)]
    assert machine.handle(latch.NodesListed(4, (name("b", 8),))) == [latch.CreateNode(5, "t2-latch-")]
    assert machine.node_name is None


def test_a_node_of_an_ended_session_is_not_taken_up_though_it_may_still_be_listed() -> None:
    """The node is about to disappear, and another contender would lead from then on."""
    machine = numbered()
    machine.handle(latch.Stand(is_connected=True))
    machine.handle(latch.NodeCreated(1, name("t1", 7)))
    machine.handle(latch.NodesListed(2, (name("a", 3), name("t1", 7))))
    machine.handle(latch.NodeWatched(3, True))
    assert machine.handle(latch.SessionLost()) == []
    assert machine.node_name is None
    assert machine.handle(latch.Connected()) == [latch.CreateNode(4, "t2-latch-")]


def test_nodes_of_an_ended_session_need_not_be_looked_for() -> None:
    machine = leading(numbered())
    machine.handle(latch.Suspended())
    machine.handle(latch.SessionLost())
    assert machine.handle(latch.Connected()) == [latch.CreateNode(4, "t2-latch-")]


def test_a_node_whose_creation_was_not_answered_is_looked_for() -> None:
    machine = numbered()
    machine.handle(latch.Stand(is_connected=True))
    assert machine.handle(latch.RequestFailed(1)) == [latch.RetryLater(2)]
    assert machine.handle(latch.RetryDue(2)) == [latch.ListNodes(3)]
    assert machine.handle(latch.NodesListed(3, (name("t1", 7), name("a", 8)))) == [
        latch.RemoveNodes(4, (name("t1", 7),))
    ]
    assert machine.handle(latch.RequestFailed(4)) == [latch.RetryLater(5)]
    assert machine.handle(latch.RetryDue(5)) == [latch.ListNodes(6)]
    assert machine.handle(latch.NodesListed(6, (name("a", 8),))) == [latch.CreateNode(7, "t2-latch-")]


def test_answers_to_earlier_requests_change_nothing() -> None:
    machine = numbered()
    machine.handle(latch.Stand(is_connected=True))
    machine.handle(latch.Suspended())
    for late in (latch.NodeCreated(1, name("t1", 7)), latch.RequestFailed(1), latch.RetryDue(1)):
        assert machine.handle(late) == []
    assert machine.state is LatchState.DISCONNECTED
    # The node was created nevertheless. It is removed, although its name was never recorded.
    assert machine.handle(latch.Connected()) == [latch.ListNodes(2)]


def test_a_pause_that_began_before_the_connection_broke_repeats_nothing() -> None:
    machine = numbered()
    machine.handle(latch.Stand(is_connected=True))
    assert machine.handle(latch.RequestFailed(1)) == [latch.RetryLater(2)]
    machine.handle(latch.Suspended())
    assert machine.handle(latch.RetryDue(2)) == []
    assert machine.handle(latch.Connected()) == [latch.ListNodes(3)]
    assert machine.handle(latch.RetryDue(2)) == [], "the answer to the request that is under way counts"
    assert machine.handle(latch.NodesListed(3, ())) == [latch.CreateNode(4, "t2-latch-")]


def test_a_leader_whose_node_is_removed_is_told_and_stands_again() -> None:
    machine = leading(numbered())
    own = name("t1", 7)
    assert machine.handle(latch.NodeChanged(own)) == [latch.WatchNode(4, own)]
    assert machine.handle(latch.RequestFailed(4)) == [latch.RetryLater(5)]
    assert machine.handle(latch.RetryDue(5)) == [latch.WatchNode(6, own)]
    assert machine.handle(latch.NodeWatched(6, False)) == [latch.Revoke("t1"), latch.CreateNode(7, "t2-latch-")]


@pytest.mark.parametrize("loss", [latch.SessionLost(), latch.Suspended()])
def test_a_token_of_its_own_is_for_one_term(loss: latch.LatchEvent) -> None:
    machine = leading(LeaderLatch(lambda: "unused", fixed_token="job-master-1"), "job-master-1")
    assert latch.Revoke("job-master-1") in machine.handle(loss)
    effects = machine.handle(latch.Connected())
    if effects:
        assert effects == [latch.ListNodes(4)]
        removal = machine.handle(latch.NodesListed(4, (name("job-master-1", 7),)))
        assert removal == [latch.RemoveNodes(5, (name("job-master-1", 7),))]
        assert machine.handle(latch.NodesRemoved(5)) == []
    assert machine.state is LatchState.CLOSED
    machine.validate()


def test_a_token_of_its_own_ends_with_the_node_that_somebody_removed() -> None:
    machine = leading(LeaderLatch(lambda: "unused", fixed_token="job-master-1"), "job-master-1")
    own = name("job-master-1", 7)
    machine.handle(latch.NodeChanged(own))
    assert machine.handle(latch.NodeWatched(4, False)) == [latch.Revoke("job-master-1")]
    assert machine.state is LatchState.CLOSED
    assert machine.node_name is None
    machine.validate()


def test_a_withdrawn_contender_is_not_called_and_leaves_no_node() -> None:
    machine = leading(numbered())
    assert machine.handle(latch.Close()) == [latch.CancelGrace(), latch.RemoveNodes(0, (name("t1", 7),))]
    for late in (latch.Suspended(), latch.Connected(), latch.NodeChanged(name("t1", 7)), latch.Close()):
        assert machine.handle(late) == []
    assert machine.leading_token is None


def test_a_node_that_was_being_made_when_its_contender_stood_back_is_removed() -> None:
    machine = numbered()
    machine.handle(latch.Stand(is_connected=True))
    machine.handle(latch.Close())
    assert machine.handle(latch.NodeCreated(1, name("t1", 7))) == [latch.RemoveNodes(0, (name("t1", 7),))]


def test_news_of_the_connection_mean_nothing_to_one_that_does_not_stand_yet() -> None:
    machine = numbered()
    for news in (latch.Connected(), latch.Suspended(), latch.Connected(), latch.SessionLost()):
        assert machine.handle(news) == []
        assert machine.state is LatchState.IDLE
    assert machine.handle(latch.Stand(is_connected=False)) == []
    assert machine.handle(latch.Connected()) == [latch.CreateNode(1, "t1-latch-")]


def test_a_contender_without_a_connection_begins_when_it_connects() -> None:
    machine = numbered()
    assert machine.handle(latch.Stand(is_connected=False)) == []
    assert machine.handle(latch.Connected()) == [latch.CreateNode(1, "t1-latch-")]
    assert machine.handle(latch.Connected()) == []
