"""Credits: the amount that each sender gets, and that no sender waits for ever."""

from __future__ import annotations

import pytest

from flinkpy.network.buffer_pool import LocalBufferPool, NetworkBufferPool
from flinkpy.network.credit import MAX_WINDOW_SEGMENTS, CreditManager, Grant, SenderCredit

UNIT = 32 * 1024


def gate_pool(segments: int, required: int = 2) -> LocalBufferPool:
    return NetworkBufferPool(segments * UNIT, UNIT).create_local_pool("gate", required)


def opened(pool: LocalBufferPool, channels: int = 1, exclusive: int = 2) -> CreditManager:
    manager = CreditManager(pool, channels, exclusive)
    for index in range(channels):
        manager.open_channel(index)
        manager.resume_channel(index)
    return manager


def test_a_channel_begins_with_its_fair_share_of_half_of_the_pool() -> None:
    manager = CreditManager(gate_pool(80), 4, 2)

    assert manager.open_channel(0) == Grant(0, 10, 10)
    manager.validate()


def test_a_window_is_never_less_than_the_exclusive_buffers_nor_more_than_the_maximum() -> None:
    assert CreditManager(gate_pool(8, 8), 4, 2).open_channel(0).credits == 2
    assert CreditManager(gate_pool(6), 1, 2).open_channel(0) == Grant(0, 3, 3)
    assert CreditManager(gate_pool(10_000), 1, 2).open_channel(0).credits == MAX_WINDOW_SEGMENTS


def test_freed_segments_are_announced_in_parcels() -> None:
    manager = opened(gate_pool(80))  # a window of 40
    for _ in range(20):
        assert manager.received(0, 1, backlog=0) == []

    announced = [grant for _ in range(20) for grant in manager.consumed(0, 1)]

    assert announced == [Grant(0, 10, 40), Grant(0, 10, 40)]
    manager.validate()


def test_a_sender_that_exceeds_its_credit_is_detected() -> None:
    manager = opened(gate_pool(8))  # a window of 4

    with pytest.raises(ValueError, match="5 segments arrived on 4 credits"):
        manager.received(0, 5, backlog=0)


def test_a_channel_with_a_backlog_takes_free_segments() -> None:
    manager = opened(gate_pool(100), channels=10)  # windows of 5

    assert manager.received(0, 5, backlog=30) == [Grant(0, 30, 5)]
    manager.validate()


def test_a_channel_gets_only_the_credit_that_its_backlog_lacks() -> None:
    manager = opened(gate_pool(100), channels=10)  # windows of 5

    assert manager.received(0, 2, backlog=30) == [Grant(0, 27, 5)]

    manager = opened(gate_pool(100), channels=10)
    manager.received(0, 1, backlog=0)
    assert manager.consumed(0, 1) == [], "one is no parcel"
    assert manager.received(0, 1, backlog=30) == [Grant(0, 27, 5)]
    manager.validate()


def test_a_backlog_slightly_above_the_credit_sends_no_grant() -> None:
    manager = opened(gate_pool(80))  # a window of 40

    assert manager.received(0, 1, backlog=41) == []
    manager.validate()


def test_a_channel_grows_to_the_full_window_and_no_further() -> None:
    pool = gate_pool(1_000)
    manager = opened(pool, channels=10)  # windows of 50

    assert manager.received(0, 10, backlog=500) == [Grant(0, MAX_WINDOW_SEGMENTS - 50, 50)]
    manager.validate()


def test_a_channel_without_a_backlog_shrinks_to_its_window() -> None:
    pool = gate_pool(100)
    manager = opened(pool, channels=10)  # windows of 5
    manager.received(0, 5, backlog=30)
    manager.received(0, 15, backlog=15)
    manager.received(0, 15, backlog=0)
    assert pool.used == 80

    manager.consumed(0, 20)
    assert pool.used == 60, "15 are queued, which is more than the window"
    manager.consumed(0, 15)
    assert pool.used == 50
    manager.validate()


def test_a_channel_with_a_backlog_keeps_its_segments_if_no_other_waits() -> None:
    pool = gate_pool(100)
    manager = opened(pool, channels=10)  # windows of 5
    manager.received(0, 5, backlog=10)  # gets the whole backlog
    manager.received(1, 5, backlog=30)
    manager.received(1, 20, backlog=10)

    assert manager.consumed(1, 25) == [Grant(1, 25, 5)]
    manager.validate()


def test_a_starving_sender_is_answered_by_a_gate_of_a_single_segment() -> None:
    manager = opened(gate_pool(1, 1), exclusive=1)

    assert manager.starving(0, backlog=5, next_cost=5) == [Grant(0, 0, 1, is_final=True)]


def test_a_starving_sender_gets_the_one_segment_that_it_lacks() -> None:
    manager = opened(gate_pool(8))  # a window of 4 of 8

    assert manager.starving(0, backlog=5, next_cost=5) == [Grant(0, 1, 4)]


def test_a_sender_gets_parcels_again_after_it_was_answered() -> None:
    manager = opened(gate_pool(8))  # a window of 4 of 8
    assert manager.starving(0, backlog=5, next_cost=5) == [Grant(0, 1, 4)]
    manager.received(0, 5, backlog=0)

    assert manager.consumed(0, 1) == [], "the channel had one segment more than its window"
    assert manager.consumed(0, 1) == [Grant(0, 1, 4)]


def test_a_sender_that_was_answered_is_told_of_parcels_only() -> None:
    manager = opened(gate_pool(80))  # a window of 40 of 80
    assert manager.starving(0, backlog=40, next_cost=40) == [Grant(0, 0, 40)]
    manager.received(0, 5, backlog=0)

    assert manager.consumed(0, 5) == []


def test_a_starving_sender_is_told_of_a_parcel_though_the_task_has_more_to_free() -> None:
    manager = opened(gate_pool(80))  # a window of 40 of 80
    manager.received(0, 30, backlog=0)
    assert manager.starving(0, backlog=20, next_cost=20) == [Grant(0, 10, 40)]
    manager.received(0, 10, backlog=10)

    assert [manager.consumed(0, 1) for _ in range(9)] == [[]] * 9
    assert manager.consumed(0, 1) == [Grant(0, 10, 40)]


def test_a_channel_counts_what_it_has_not_announced_towards_its_window() -> None:
    pool = gate_pool(200)
    manager = opened(pool, channels=2)  # windows of 50
    manager.received(0, 50, backlog=40)  # grows by 40
    assert manager.consumed(0, 8) == [], "less than a quarter of the window"
    manager.received(0, 40, backlog=0)

    manager.consumed(0, 42)
    assert pool.used == 100
    manager.validate()


def test_a_starving_sender_gets_a_final_grant_when_the_task_can_free_nothing() -> None:
    manager = opened(gate_pool(8))  # a window of 4 of 8

    assert manager.starving(0, backlog=50, next_cost=50) == [Grant(0, 4, 4, is_final=True)]


def test_a_starving_sender_waits_while_the_task_can_free_segments() -> None:
    manager = opened(gate_pool(8))  # a window of 4 of 8
    assert manager.received(0, 2, backlog=50) == [Grant(0, 4, 4)]
    manager.received(0, 1, backlog=49)

    assert manager.starving(0, backlog=49, next_cost=49) == [], "3 are queued: more may become free"
    assert manager.consumed(0, 2) == []
    assert manager.consumed(0, 1) == [Grant(0, 3, 4, is_final=True)]
    manager.validate()


def test_freed_segments_go_to_the_channel_that_waits() -> None:
    pool = gate_pool(8, 4)
    manager = opened(pool, channels=2)  # windows of 2, 4 are free
    assert sum(grant.credits for grant in manager.starving(0, backlog=6, next_cost=6)) == 4
    manager.received(0, 6, backlog=0)
    assert manager.starving(1, backlog=4, next_cost=4) == [Grant(1, 0, 2, is_final=True)]

    grants = manager.consumed(0, 6)

    assert {grant.channel_index for grant in grants} == {0, 1}
    manager.validate()


def test_a_channel_that_got_only_a_part_keeps_waiting() -> None:
    pool = gate_pool(12, 6)
    manager = opened(pool, channels=3)  # windows of 2
    manager.starving(0, backlog=8, next_cost=8)
    manager.received(0, 8, backlog=0)
    assert pool.free == 0
    assert manager.starving(1, backlog=8, next_cost=8) == [Grant(1, 0, 2, is_final=True)]

    assert manager.consumed(0, 2) == [Grant(1, 2, 2)]
    assert manager.consumed(0, 2) == [Grant(1, 2, 2)]
    manager.validate()


def test_a_channel_that_is_closed_while_it_waits_gets_nothing() -> None:
    pool = gate_pool(4, 4)
    manager = opened(pool, channels=2)
    manager.starving(0, backlog=4, next_cost=4)

    assert manager.close_channel(0) == []
    assert pool.used == 2
    assert manager.close_channel(1) == []
    assert pool.used == 0


def test_the_credit_of_a_sender_is_known_before_its_buffer_is_read() -> None:
    manager = opened(gate_pool(8))  # a window of 4

    assert manager.has_credit(0, 4)
    assert not manager.has_credit(0, 5)
    manager.close_channel(0)
    assert manager.has_credit(0, MAX_WINDOW_SEGMENTS), "the message may have been sent before the sender knew"
    assert not manager.has_credit(0, MAX_WINDOW_SEGMENTS + 1)


def test_messages_for_a_channel_that_is_closed_change_nothing() -> None:
    pool = gate_pool(8)
    manager = opened(pool)
    manager.close_channel(0)

    assert manager.received(0, 1, backlog=50) == []
    assert manager.consumed(0, 1) == []
    assert manager.starving(0, backlog=50, next_cost=50) == []
    assert manager.returned(0, 1) == []
    assert manager.resume_channel(0) == []
    manager.suspend_channel(0)
    assert pool.used == 0
    manager.validate()


def test_a_closed_channel_returns_its_segments_to_waiting_channels() -> None:
    pool = gate_pool(4, 4)
    manager = opened(pool, channels=2)
    manager.received(0, 2, backlog=0)
    manager.starving(1, backlog=4, next_cost=4)

    grants = manager.close_channel(0)

    assert grants == [Grant(1, 2, 2)]
    assert manager.close_channel(0) == []
    manager.validate()
    manager.close_channel(1)
    assert pool.used == 0


def test_no_credit_is_announced_before_the_request_is_sent() -> None:
    pool = gate_pool(8)
    hog = pool.try_acquire(8)
    manager = CreditManager(pool, 1, 1)
    assert manager.open_channel(0).credits == 1
    pool.recycle(hog)

    assert manager.quota_changed() == ([], [])
    assert manager.resume_channel(0) == [Grant(0, 3, 4)]


def test_a_channel_gets_its_exclusive_segments_even_if_others_hold_all() -> None:
    """The others may hold all segments while they are blocked: until this channel has delivered its barrier."""
    pool = gate_pool(8)
    manager = CreditManager(pool, 2, 2)
    manager.open_channel(0)
    manager.resume_channel(0)
    manager.starving(0, backlog=8, next_cost=8)
    assert pool.free == 0

    assert manager.open_channel(1).credits == 2
    manager.validate()


def test_a_repeated_request_grants_the_segments_still_held() -> None:
    pool = gate_pool(8)
    manager = opened(pool)

    manager.suspend_channel(0)

    assert manager.open_channel(0) == Grant(0, 4, 4)
    assert pool.used == 4


def test_no_credit_is_announced_while_the_partition_does_not_exist() -> None:
    parent = NetworkBufferPool(80 * UNIT, UNIT)
    other = parent.create_local_pool("other", 2)
    manager = opened(parent.create_local_pool("gate", 2))  # a window of 20

    manager.suspend_channel(0)
    other.destroy()

    assert manager.quota_changed() == ([], [])
    assert manager.open_channel(0) == Grant(0, 40, 40), "the next request grants the segments added in between"


def test_no_credit_is_announced_before_a_repeated_request_is_sent() -> None:
    parent = NetworkBufferPool(80 * UNIT, UNIT)
    other = parent.create_local_pool("other", 2)
    manager = opened(parent.create_local_pool("gate", 2))

    manager.open_channel(0)
    other.destroy()

    assert manager.quota_changed() == ([], [])
    assert manager.resume_channel(0) == [Grant(0, 20, 40)]


def test_a_repeated_request_forgets_the_backlog_of_the_former_one() -> None:
    manager = opened(gate_pool(8))  # a window of 4 of 8
    manager.received(0, 3, backlog=0)
    assert manager.starving(0, backlog=50, next_cost=50) == []

    manager.suspend_channel(0)
    promised = manager.open_channel(0)
    assert manager.resume_channel(0) == []
    assert promised.credits == 5, "the earlier grant"
    assert manager.consumed(0, 3) == [], "without a backlog, segments beyond the window are returned"
    manager.validate()


def test_a_shrinking_pool_takes_unused_credit_back() -> None:
    parent = NetworkBufferPool(80 * UNIT, UNIT)
    pool = parent.create_local_pool("gate", 2)
    manager = opened(pool)  # 40 of 80
    others = [parent.create_local_pool(f"other {i}", 2) for i in range(3)]
    assert pool.quota == 20

    grants, reclaims = manager.quota_changed()
    assert (grants, reclaims) == ([], [(0, 10)])
    manager.returned(0, 30)

    manager.validate()
    assert pool.used == 10
    assert [other.quota for other in others] == [20, 20, 20]


def test_a_shrinking_pool_takes_unannounced_credit_back_at_once() -> None:
    parent = NetworkBufferPool(80 * UNIT, UNIT)
    pool = parent.create_local_pool("gate", 2)
    manager = opened(pool)  # 40 of 80
    manager.received(0, 30, backlog=0)
    assert manager.consumed(0, 5) == [], "less than a quarter of the window"
    for i in range(3):
        parent.create_local_pool(f"other {i}", 2)

    assert manager.quota_changed() == ([], []), "the sender has no more than its new window"
    assert pool.used == 35
    manager.validate()


def test_a_shrinking_pool_leaves_a_channel_its_exclusive_segments() -> None:
    parent = NetworkBufferPool(16 * UNIT, UNIT)
    pool = parent.create_local_pool("gate", 2)
    manager = opened(pool)  # 8 of 16
    manager.received(0, 8, backlog=0)
    manager.suspend_channel(0)
    assert manager.consumed(0, 8) == []
    for i in range(7):
        parent.create_local_pool(f"other {i}", 2)
    assert pool.quota == 2

    manager.quota_changed()

    assert pool.used == 2
    manager.validate()


def test_an_exactly_full_pool_takes_nothing_back() -> None:
    pool = gate_pool(8)
    manager = opened(pool)
    manager.starving(0, backlog=8, next_cost=8)
    assert pool.used == pool.quota == 8

    assert manager.quota_changed() == ([], [])


def test_a_sender_cannot_give_back_more_than_it_has() -> None:
    pool = gate_pool(8)
    manager = opened(pool)
    manager.received(0, 3, backlog=0)

    manager.returned(0, 100)

    assert pool.used == 3
    manager.validate()


def test_a_sender_that_gave_all_credit_back_is_answered_when_segments_are_free() -> None:
    pool = gate_pool(8)
    manager = opened(pool)
    manager.returned(0, 4)
    hog = pool.try_acquire(8)

    assert manager.starving(0, backlog=2, next_cost=2) == [], (
        "the sender could send nothing and would ask again at once"
    )
    pool.recycle(hog)
    grants, _ = manager.quota_changed()
    assert sum(grant.credits for grant in grants) == 4
    assert not any(grant.is_final for grant in grants)
    manager.validate()


def test_a_growing_pool_widens_the_windows() -> None:
    parent = NetworkBufferPool(80 * UNIT, UNIT)
    other = parent.create_local_pool("other", 2)
    manager = opened(pool := parent.create_local_pool("gate", 2))
    assert manager.window == 20

    other.destroy()
    grants, _ = manager.quota_changed()

    assert grants == [Grant(0, 20, 40)]
    assert pool.used == 40


def test_a_window_that_grows_by_a_single_segment_is_filled() -> None:
    parent = NetworkBufferPool(4 * UNIT, UNIT)
    other = parent.create_local_pool("other", 1)
    manager = opened(pool := parent.create_local_pool("gate", 1), exclusive=1)
    assert (manager.window, pool.used) == (1, 1)

    other.destroy()
    manager.quota_changed()

    assert (manager.window, pool.used) == (2, 2)


def test_the_sender_counts_its_credit() -> None:
    credit = SenderCredit(4, 4)

    credit.spend(3)
    assert credit.available == 1
    credit.grant(5, 8, False)
    assert credit.available == 6
    assert credit.largest_buffer == 4
    assert credit.give_back(2) == 4
    assert credit.give_back(2) == 0
    with pytest.raises(AssertionError, match="sending 3 segments with 2 credits"):
        credit.spend(3)


def test_a_sender_cuts_one_buffer_for_one_final_grant() -> None:
    credit = SenderCredit(4, 8)
    assert not credit.is_final

    credit.grant(2, 8, True)
    assert credit.is_final
    credit.spend(6)
    assert not credit.is_final
    credit.grant(1, 8, True)
    credit.grant(1, 8, False)
    assert not credit.is_final, "more is coming after all"


def test_a_buffer_that_fits_is_charged_at_once() -> None:
    credit = SenderCredit(6, 8)
    credit.is_final = True

    assert not credit.try_spend(5)  # more than half of the window
    assert credit.is_final
    assert credit.try_spend(4)
    assert not credit.is_final
    assert not credit.try_spend(3)  # more than the credit
    assert credit.try_spend(2)  # all of the credit
    assert credit.available == 0


def test_a_sender_may_always_send_one_segment_at_a_time() -> None:
    for window in (0, 1, 2, 3):
        credit = SenderCredit(1, window)
        assert (credit.window, credit.largest_buffer) == (max(window, 1), 1)
        assert credit.try_spend(1)
