"""The tasks of a process share, replace and stop its Spark."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from flinkpy.common.errors import SparkError
from flinkpy.spark.session import SparkSessions, StartAbandonedError, start
from flinkpy.spark.settings import SparkSettings


class FakeSpark:
    def __init__(self, settings: SparkSettings) -> None:
        self.settings = settings
        self.sent: set[str] = set()
        self.is_alive = True
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True


class FakeStarts:
    """Records the sessions that were started, in order."""

    def __init__(self) -> None:
        self.all: list[FakeSpark] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.has_begun = threading.Event()

    def __call__(self, settings: SparkSettings) -> Any:
        self.has_begun.set()
        self.may_go_on.wait(30)
        self.all.append(FakeSpark(settings))
        return self.all[-1]


LOCAL = SparkSettings("local[2]")
OTHER = SparkSettings("local[3]")


def never() -> bool:
    return False


def test_tasks_with_equal_settings_share_a_session_even_one_after_the_other() -> None:
    starts = FakeStarts()
    sessions = SparkSessions(starts)
    with sessions.use(LOCAL, never) as one, sessions.use(LOCAL, never) as two:
        assert one is two
    with sessions.use(LOCAL, never) as three:
        assert three is one
    assert len(starts.all) == 1


def test_other_settings_replace_an_unused_session() -> None:
    starts = FakeStarts()
    sessions = SparkSessions(starts)
    with sessions.use(LOCAL, never):
        pass
    with sessions.use(OTHER, never) as other:
        assert other.settings is OTHER
    assert [spark.is_stopped for spark in starts.all] == [True, False]


def test_other_settings_wait_for_the_last_user() -> None:
    starts = FakeStarts()
    sessions = SparkSessions(starts)
    seen: list[bool] = []

    def use_other() -> None:
        with sessions.use(OTHER, never):
            seen.append(starts.all[0].is_stopped)

    with sessions.use(LOCAL, never):
        waiting = threading.Thread(target=use_other)
        waiting.start()
        assert starts.has_begun.is_set() and seen == []
    waiting.join(30)
    assert seen == [True]


def test_a_waiting_task_can_be_canceled() -> None:
    sessions = SparkSessions(FakeStarts())
    with sessions.use(LOCAL, never), pytest.raises(StartAbandonedError), sessions.use(OTHER, lambda: True):
        pass


def test_an_abandoned_start_is_stopped() -> None:
    starts = FakeStarts()
    starts.may_go_on.clear()
    sessions = SparkSessions(starts)
    with pytest.raises(StartAbandonedError), sessions.use(LOCAL, starts.has_begun.is_set):
        pass
    starts.may_go_on.set()
    with sessions.use(LOCAL, never) as running:
        assert not running.is_stopped  # type: ignore[attr-defined]


def test_a_dead_session_is_replaced() -> None:
    starts = FakeStarts()
    sessions = SparkSessions(starts)
    with sessions.use(LOCAL, never):
        starts.all[0].is_alive = False
    with sessions.use(LOCAL, never) as second:
        assert second is starts.all[1]


def test_a_start_that_takes_too_long_is_an_error() -> None:
    starts = FakeStarts()
    starts.may_go_on.clear()
    settings = SparkSettings("local[2]", start_timeout_ms=1)
    with pytest.raises(SparkError, match="has not started within"), SparkSessions(starts).use(settings, never):
        pass
    starts.may_go_on.set()


def test_a_start_succeeds_after_a_failed_one() -> None:
    calls = []

    def fail_once(settings: SparkSettings) -> Any:
        calls.append(settings)
        if len(calls) == 1:
            raise SparkError("no")
        return FakeSpark(settings)

    sessions = SparkSessions(fail_once)
    with pytest.raises(SparkError, match="no"), sessions.use(LOCAL, never):
        pass
    with sessions.use(LOCAL, never) as running:
        assert running.is_alive


def test_a_master_that_does_not_answer_is_an_error_at_once() -> None:
    pytest.importorskip("pyspark")
    import socket

    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        for scheme in ("sc", "spark"):
            with pytest.raises(SparkError, match=f"the master of Spark does not answer: 127.0.0.1:{port}"):
                start(SparkSettings(f"{scheme}://127.0.0.1:{port}"))
