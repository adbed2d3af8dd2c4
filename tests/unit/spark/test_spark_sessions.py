"""The regions of a process share, start and end its Spark sessions."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinkpy.common.errors import SparkError
from flinkpy.spark.session_handles import Attachment, Startup, attachment_address, start
from flinkpy.spark.session_pool import TIDY_AFTER_S
from flinkpy.spark.sessions import SparkSessions, StartAbandonedError
from flinkpy.spark.settings import SparkSettings


class FakeSpark:
    def __init__(self, settings: SparkSettings) -> None:
        self.settings = settings
        self.is_alive = True
        self.is_stopped = False
        self.num_tidied = 0

    def tidy(self) -> None:
        self.num_tidied += 1

    def stop(self) -> None:
        self.is_stopped = True


class FakeStarts:
    """Records the sessions that were started, in order."""

    def __init__(self) -> None:
        self.all: list[FakeSpark] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.has_begun = threading.Event()

    def __call__(self, settings: SparkSettings, startup: Startup) -> Any:
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


def test_other_settings_get_a_session_of_their_own_at_the_same_time() -> None:
    starts = FakeStarts()
    sessions = SparkSessions(starts)
    with sessions.use(LOCAL, never) as one, sessions.use(OTHER, never) as other:
        assert (one.settings, other.settings) == (LOCAL, OTHER)
    assert [spark.is_stopped for spark in starts.all] == [False, False]


def test_other_settings_end_an_unused_session_at_the_maximum() -> None:
    starts = FakeStarts()
    sessions = SparkSessions(starts)
    with sessions.use(replace(LOCAL, max_sessions=1), never):
        pass
    with sessions.use(replace(OTHER, max_sessions=1), never):
        assert [spark.is_stopped for spark in starts.all] == [True, False]


def test_other_settings_wait_for_the_last_user_at_the_maximum() -> None:
    starts = FakeStarts()
    sessions = SparkSessions(starts)
    seen: list[bool] = []
    reasons: list[str] = []
    waits = threading.Event()

    def on_wait(reason: str) -> None:
        reasons.append(reason)
        waits.set()

    def use_other() -> None:
        with sessions.use(replace(OTHER, max_sessions=1), never, on_wait):
            seen.append(starts.all[0].is_stopped)

    with sessions.use(LOCAL, never):
        waiting = threading.Thread(target=use_other)
        waiting.start()
        assert waits.wait(30) and seen == []
    waiting.join(30)
    assert seen == [True]
    assert "are in use with other settings" in reasons[0]


def test_an_unused_session_is_tidied_and_ends_at_its_time() -> None:
    now = [0.0]
    starts = FakeStarts()
    sessions = SparkSessions(starts, lambda: now[0])
    with sessions.use(LOCAL, never):
        now[0] = 1_000.0
        sessions.keep()
    (spark,) = starts.all
    now[0] += TIDY_AFTER_S
    sessions.keep()
    assert (spark.num_tidied, spark.is_stopped) == (1, False)
    now[0] += LOCAL.idle_timeout_ms / 1000
    sessions.keep()
    assert (spark.num_tidied, spark.is_stopped) == (1, True)


@pytest.mark.parametrize(
    ("master", "address"),
    [
        ("sc://host", "sc://host/;session_id=7"),
        ("sc://host:15002/", "sc://host:15002/;session_id=7"),
        ("sc://host:15002/;token=t;use_ssl=true", "sc://host:15002/;token=t;use_ssl=true;session_id=7"),
    ],
)
def test_a_region_attaches_to_a_session_of_a_server_by_its_id(master: str, address: str) -> None:
    assert attachment_address(Attachment(SparkSettings(master), Path(), session_id="7")) == address


def test_a_waiting_task_can_be_canceled() -> None:
    sessions = SparkSessions(FakeStarts())
    other = replace(OTHER, max_sessions=1)
    with sessions.use(LOCAL, never), pytest.raises(StartAbandonedError), sessions.use(other, lambda: True):
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


class FakeDriver:
    """A driver that starts only when it has ended the wait for resources."""

    def __init__(self) -> None:
        self.waits_for_resources = True
        self.is_stopped = threading.Event()

    def stop(self) -> None:
        self.is_stopped.set()


def test_an_application_that_waits_for_resources_outlives_the_time_out() -> None:
    driver: Any = FakeDriver()
    may_go_on = threading.Event()

    def start_later(settings: SparkSettings, startup: Startup) -> Any:
        startup.on_driver(driver)
        may_go_on.wait(30)
        return FakeSpark(settings)

    reasons: list[str] = []

    def on_wait(reason: str) -> None:
        reasons.append(reason)
        if "has accepted" in reason:
            may_go_on.set()

    settings = SparkSettings("yarn", start_timeout_ms=1)
    with SparkSessions(start_later).use(settings, never, on_wait) as running:
        assert running.is_alive
    assert reasons[-1] == "yarn has accepted the application, but has no resources for it yet"


def test_the_driver_of_a_start_that_takes_too_long_ends() -> None:
    driver: Any = FakeDriver()
    driver.waits_for_resources = False

    def start_never(settings: SparkSettings, startup: Startup) -> Any:
        startup.on_driver(driver)
        driver.is_stopped.wait(30)
        raise SparkError("ended")

    settings = SparkSettings("yarn", start_timeout_ms=1)
    with pytest.raises(SparkError, match="has not started within"), SparkSessions(start_never).use(settings, never):
        pass
    assert driver.is_stopped.is_set()


def test_a_start_succeeds_after_a_failed_one() -> None:
    calls = []

    def fail_once(settings: SparkSettings, startup: Startup) -> Any:
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
                start(SparkSettings(f"{scheme}://127.0.0.1:{port}"), Startup())
