"""Buffer pools: the quota of each pool, and the limit for all together."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import InsufficientNetworkBuffersError
from flinkpy.network.buffer_pool import NetworkBufferPool, PauseLevel

UNIT = 32 * 1024


def network_pool(segments: int) -> NetworkBufferPool:
    return NetworkBufferPool(segments * UNIT, UNIT)


def test_memory_below_one_segment_is_refused() -> None:
    with pytest.raises(InsufficientNetworkBuffersError, match=r"taskmanager\.memory\.network\.min"):
        NetworkBufferPool(UNIT - 1, UNIT)


def test_a_single_pool_gets_everything_up_to_its_maximum() -> None:
    parent = network_pool(100)

    assert parent.create_local_pool("a", 2).quota == 100
    assert network_pool(100).create_local_pool("b", 2, 10).quota == 10


def test_spare_segments_are_redistributed_when_pools_are_created_or_destroyed() -> None:
    parent = network_pool(100)
    first = parent.create_local_pool("first", 2)
    second = parent.create_local_pool("second", 2)

    assert first.quota == second.quota == 50

    second.destroy()

    assert first.quota == 100


def test_an_error_about_too_few_segments_names_the_pool_and_the_option() -> None:
    parent = network_pool(10)
    parent.create_local_pool("first", 8)

    with pytest.raises(InsufficientNetworkBuffersError, match=r"gate of b requires 3 .* only 2 of 10"):
        parent.create_local_pool("gate of b", 3)
    assert parent.required == 8


def test_segments_in_use_are_not_handed_out_twice() -> None:
    parent = network_pool(100)
    first = parent.create_local_pool("first", 2)
    assert first.try_acquire(90) == 90

    second = parent.create_local_pool("second", 2)

    assert first.quota == 50
    assert second.quota == 10, "the 40 that the first holds beyond its quota are not there yet"
    first.recycle(50)
    assert second.quota == 50


def test_a_pool_always_gets_its_required_segments() -> None:
    parent = network_pool(100)
    first = parent.create_local_pool("first", 2)
    first.reserve(300)

    second = parent.create_local_pool("second", 3)

    assert second.quota == 3
    first.recycle(300)
    assert second.quota == 50


def test_a_destroyed_pool_counts_until_its_segments_are_recycled() -> None:
    parent = network_pool(100)
    first = parent.create_local_pool("first", 2)
    second = parent.create_local_pool("second", 2)
    assert first.try_acquire(50) == 50

    first.destroy()

    assert second.quota == 50
    assert first.try_acquire(1) == 0
    first.recycle(50)
    assert second.quota == 100
    assert parent.used == 0


def test_a_pool_turns_unavailable_before_it_is_full_and_available_when_half_is_free() -> None:
    pool = network_pool(100).create_local_pool("partition", 2)
    calls: list[int] = []
    pool.on_available = lambda: calls.append(pool.used)

    pool.reserve(75)
    assert pool.is_available, "one more buffer of the headroom's size still fits"
    pool.reserve(25)
    assert not pool.is_available
    assert pool.used <= pool.quota

    pool.recycle(49)
    assert not pool.is_available
    pool.recycle(1)
    assert pool.is_available
    assert calls == [50], "notified once, on the transition"


def test_a_pool_with_a_larger_quota_turns_available() -> None:
    parent = network_pool(100)
    first = parent.create_local_pool("first", 2)
    second = parent.create_local_pool("second", 2)
    calls: list[str] = []
    first.on_available = lambda: calls.append("available")
    first.reserve(50)
    assert not first.is_available

    second.destroy()

    assert first.is_available
    assert calls == ["available"]


def test_an_emptied_pool_is_available_however_small_its_quota() -> None:
    pool = network_pool(1).create_local_pool("tiny", 1)

    pool.reserve(3)
    assert not pool.is_available
    pool.recycle(3)

    assert pool.is_available


def test_recycling_more_segments_than_taken_raises() -> None:
    pool = network_pool(10).create_local_pool("a", 2)

    with pytest.raises(AssertionError, match="more segments were recycled"):
        pool.recycle(1)


def test_a_producer_of_small_buffers_stops_before_the_quota_is_used() -> None:
    pool = network_pool(100).create_local_pool("a", 2, pause_level=PauseLevel(12, 4))

    for _ in range(12):
        pool.reserve(1)
        assert pool.is_available
    pool.reserve(1)

    assert not pool.is_available
    pool.recycle(4)
    assert not pool.is_available
    pool.recycle(1)
    assert pool.is_available


def test_a_producer_of_large_buffers_has_room_for_several_of_them() -> None:
    pool = network_pool(100).create_local_pool("a", 2, pause_level=PauseLevel(12, 4))

    for _ in range(4):
        pool.reserve(10)
        assert pool.is_available
    pool.reserve(10)

    assert not pool.is_available


def test_the_fill_level_of_a_paused_producer_is_limited_by_the_quota() -> None:
    pool = network_pool(100).create_local_pool("a", 2, pause_level=PauseLevel(12, 4))

    pool.reserve(70)
    assert pool.is_available
    pool.reserve(70)

    assert not pool.is_available
    pool.recycle(89)
    assert not pool.is_available
    pool.recycle(1)
    assert pool.is_available
