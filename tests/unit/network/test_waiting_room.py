"""How many peers may be connected without having said who they are."""

from __future__ import annotations

from flinkpy.common.errors import ExternalError
from flinkpy.network.transport.waiting_room import WaitingRoom


class Stranger:
    def __init__(self, peer: str = "10.0.0.1") -> None:
        self.peer = peer
        self.failures: list[ExternalError] = []

    def fail(self, error: ExternalError) -> None:
        self.failures.append(error)


def test_there_is_a_place_for_everybody_while_the_room_is_not_full() -> None:
    room = WaitingRoom(2)
    room.enter(Stranger(), 0)

    assert room.has_place(0)


def test_a_full_room_takes_nobody_as_long_as_all_in_it_may_be_honest() -> None:
    room, first = WaitingRoom(1), Stranger()
    room.enter(first, 0)

    assert not room.has_place(1_999)
    assert not first.failures


def test_who_has_said_nothing_for_long_makes_room() -> None:
    room, first, second = WaitingRoom(2), Stranger("10.6.6.6"), Stranger()
    room.enter(first, 0)
    room.enter(second, 1)

    assert room.has_place(2_000)
    assert "10.6.6.6 connected and did not say who it is" in str(first.failures[0])
    assert not second.failures
    assert len(room) == 1


def test_who_has_shown_who_it_is_needs_no_place() -> None:
    room, first = WaitingRoom(1), Stranger()
    room.enter(first, 0)
    room.leave(first)
    room.leave(first)

    assert room.has_place(0)


def test_many_refusals_make_few_lines_in_the_log() -> None:
    room = WaitingRoom(1)

    assert [room.may_report(now_ms) for now_ms in (0, 1, 2, 4_999, 5_000)] == [True, False, False, False, True]
    assert room.take_unreported() == 3
    assert room.take_unreported() == 0
