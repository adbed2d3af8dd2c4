"""Decides, on virtual time, which Spark session a region uses, and when sessions start and end."""

from __future__ import annotations

from dataclasses import replace

from flinkpy.spark.session_pool import TIDY_AFTER_S, PooledSession, SessionPool, Start, Use, Wait
from flinkpy.spark.settings import SparkSettings

ONE = SparkSettings("local[2]", max_sessions=2, idle_timeout_ms=60_000)
TWO = replace(ONE, conf={"spark.executor.memory": "2g"})
THREE = replace(ONE, conf={"spark.executor.memory": "3g"})

Pool = SessionPool[str]


def started(pool: Pool, settings: SparkSettings) -> PooledSession[str]:
    decision = pool.acquire(settings)
    assert isinstance(decision, Start) and decision.first is None
    pool.on_started(decision.new, "running")
    return decision.new


def test_regions_with_equal_settings_share_a_session() -> None:
    pool = Pool()
    session = started(pool, ONE)
    assert pool.acquire(replace(ONE, progress_interval_ms=7)) == Use(session)
    assert session.num_users == 2


def test_a_region_waits_for_the_start_of_its_session() -> None:
    pool = Pool()
    assert isinstance(pool.acquire(ONE), Start)
    assert pool.acquire(ONE) == Wait("its Spark session starts")


def test_other_settings_get_a_session_of_their_own_at_the_same_time() -> None:
    pool = Pool()
    one, two = started(pool, ONE), started(pool, TWO)
    assert one is not two
    assert pool.acquire(ONE) == Use(one) and pool.acquire(TWO) == Use(two)


def test_at_the_maximum_the_session_that_was_unused_longest_ends_first() -> None:
    pool = Pool()
    one, two = started(pool, ONE), started(pool, TWO)
    pool.release(two, 1.0)
    pool.release(one, 2.0)
    decision = pool.acquire(THREE)
    assert isinstance(decision, Start) and decision.first is two
    assert isinstance(pool.acquire(TWO), Wait), "it ends, so it counts, but cannot be used"
    pool.remove(two)
    pool.on_started(decision.new, "running")
    assert pool.acquire(ONE) == Use(one)


def test_a_region_waits_while_all_sessions_are_in_use() -> None:
    pool = Pool()
    one = started(pool, ONE)
    started(pool, TWO)
    decision = pool.acquire(THREE)
    assert isinstance(decision, Wait)
    assert "all 2 Spark sessions" in decision.reason and "session.max-number" in decision.reason
    pool.release(one, 5.0)
    assert isinstance(pool.acquire(THREE), Start)


def test_a_session_ends_when_nobody_has_used_it_for_the_idle_time_out() -> None:
    pool = Pool()
    session = started(pool, ONE)
    assert pool.due(1e6).to_end == (), "it is in use"
    pool.release(session, 100.0)
    assert pool.due(159.9).to_end == ()
    pool.on_tidied(session)
    assert pool.due(160.0).to_end == (session,)
    assert pool.due(161.0).to_end == (), "it is returned once"
    assert isinstance(pool.acquire(ONE), Start), "the next region gets a new one"


def test_a_region_in_time_keeps_the_session() -> None:
    pool = Pool()
    session = started(pool, ONE)
    pool.release(session, 100.0)
    assert pool.acquire(ONE) == Use(session)
    assert pool.due(1_000.0).to_end == ()
    pool.release(session, 1_000.0)
    assert pool.due(1_059.0).to_end == ()


def test_a_session_is_tidied_once_after_its_last_region() -> None:
    pool = Pool()
    session = started(pool, ONE)
    pool.release(session, 100.0)
    assert pool.due(100.0).to_tidy == ()
    assert pool.due(100.0 + TIDY_AFTER_S).to_tidy == (session,)
    pool.on_tidied(session)
    assert pool.due(101.0 + TIDY_AFTER_S).to_tidy == ()
    assert pool.due(160.0).to_end == (session,)


def test_a_region_waits_while_its_session_is_tidied() -> None:
    pool = Pool()
    session = started(pool, ONE)
    pool.release(session, 100.0)
    assert pool.due(100.0 + TIDY_AFTER_S).to_tidy == (session,)
    assert pool.acquire(ONE) == Wait("a Spark session forgets the results of earlier jobs")
    assert pool.due(200.0).to_end == (), "it ends after it was tidied"
    pool.on_tidied(session)
    assert pool.acquire(ONE) == Use(session)


def test_a_region_with_other_settings_does_not_end_a_session_that_is_tidied() -> None:
    pool = Pool()
    session = started(pool, replace(ONE, max_sessions=1))
    pool.release(session, 100.0)
    assert pool.due(100.0 + TIDY_AFTER_S).to_tidy == (session,)
    other = replace(TWO, max_sessions=1)
    assert isinstance(pool.acquire(other), Wait)
    pool.on_tidied(session)
    decision = pool.acquire(other)
    assert isinstance(decision, Start) and decision.first is session


def test_a_session_that_has_not_started_leaves_its_place() -> None:
    pool = Pool()
    started(pool, ONE)
    decision = pool.acquire(TWO)
    assert isinstance(decision, Start)
    pool.remove(decision.new)
    pool.remove(decision.new)
    assert isinstance(pool.acquire(TWO), Start)
