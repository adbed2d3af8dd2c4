"""SparkSessions: the Spark sessions of this process, which its regions share.

Regions with equal settings share a session, even one after the other, so only the first waits for its start. Regions
with other settings get a session of their own. Sessions that nobody uses end (`flinkpy.spark.session_pool`).
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator

from flinkpy.common.errors import SparkError
from flinkpy.logs.context import in_no_context
from flinkpy.spark.errors import cause_of
from flinkpy.spark.session_handles import SessionHandle, Startup, start
from flinkpy.spark.session_pool import PooledSession, SessionPool, Start, Use, Wait
from flinkpy.spark.settings import SparkSettings

_LOG = logging.getLogger(__name__)

#: How often a waiting region checks whether it was canceled.
_LOOK_S = 0.2
#: How often unused sessions are looked at.
_KEEP_S = 1.0


class StartAbandonedError(Exception):
    """Raised if the region was canceled while it waited for Spark."""


class SparkSessions:
    """The running sessions of this process. Thread: any; `use` blocks."""

    def __init__(
        self,
        start_session: Callable[[SparkSettings, Startup], SessionHandle] = start,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start = start_session
        self._now_s = now_s
        self._changed = threading.Condition()
        self._pool: SessionPool[SessionHandle] = SessionPool()
        self._keeper: threading.Thread | None = None

    @contextlib.contextmanager
    def use(
        self,
        settings: SparkSettings,
        is_cancelled: Callable[[], bool],
        on_wait: Callable[[str], None] = lambda reason: None,
    ) -> Iterator[SessionHandle]:
        """Returns a context in which a session with these settings runs. Starts it if necessary.

        Args:
            on_wait: called with the reason when the region begins to wait for another reason.

        Raises:
            SparkUnavailableError, SparkError: as `start` does.
            StartAbandonedError: `is_cancelled` returned True.
        """
        session = self._acquire(settings, is_cancelled, on_wait)
        assert session.running is not None
        try:
            yield session.running
        finally:
            with self._changed:
                self._pool.release(session, self._now_s())
                self._changed.notify_all()

    def close(self) -> None:
        """Stops all sessions, even those in use. Others may be started afterwards."""
        with self._changed:
            sessions, self._pool = self._pool.sessions, SessionPool()
            self._changed.notify_all()
        for session in sessions:
            if session.running is not None:
                session.running.stop()

    def keep(self) -> None:
        """Ends and tidies the sessions whose time has come. Called by a thread of this object, and by tests."""
        with self._changed:
            due = self._pool.due(self._now_s())
        for session in due.to_end:
            assert session.running is not None
            _LOG.info(
                "ends the session of Spark at %s, which no job has used for %d s (%s)",
                session.settings.redacted_master,
                session.settings.idle_timeout_ms // 1000,
                "execution.batch.spark.session.idle-timeout",
            )
            self._end(session)
        for session in due.to_tidy:
            assert session.running is not None
            try:
                session.running.tidy()
            except Exception as error:  # noqa: BLE001 - the next region notices that Spark is gone
                _LOG.warning("Spark does not forget the results of earlier jobs: %s", cause_of(str(error)))
            finally:
                with self._changed:
                    self._pool.on_tidied(session)
                    self._changed.notify_all()

    def _acquire(
        self, settings: SparkSettings, is_cancelled: Callable[[], bool], on_wait: Callable[[str], None]
    ) -> PooledSession[SessionHandle]:
        told = ""
        while True:
            if is_cancelled():
                raise StartAbandonedError
            with self._changed:
                decision = self._pool.acquire(settings)
                if isinstance(decision, Wait) and decision.reason == told:
                    self._changed.wait(_LOOK_S)
                    continue
            if isinstance(decision, Wait):
                told = decision.reason
                on_wait(told)
            elif isinstance(decision, Start):
                on_wait("its Spark session starts")
                return self._start_for(decision, settings, is_cancelled, on_wait)
            elif self._is_usable(decision):
                return decision.session

    def _is_usable(self, decision: Use[SessionHandle]) -> bool:
        """Returns True if the session answers. Removes it otherwise; its other users fail by themselves."""
        session = decision.session
        assert session.running is not None
        if session.running.is_alive:
            return True
        with self._changed:
            self._pool.release(session, self._now_s())
            is_known = session in self._pool.sessions
            self._pool.remove(session)
        if is_known:
            session.running.stop()
        return False

    def _start_for(
        self,
        decision: Start[SessionHandle],
        settings: SparkSettings,
        is_cancelled: Callable[[], bool],
        on_wait: Callable[[str], None],
    ) -> PooledSession[SessionHandle]:
        if decision.first is not None:
            assert decision.first.running is not None
            _LOG.info(
                "ends the unused session of Spark at %s, because a job needs one with other settings",
                decision.first.settings.redacted_master,
            )
            self._end(decision.first)
        try:
            started = self._start_in_time(settings, is_cancelled, on_wait)
        except BaseException:
            self._forget(decision.new)
            raise
        with self._changed:
            self._pool.on_started(decision.new, started)
            self._start_keeper()
            self._changed.notify_all()
        return decision.new

    def _end(self, session: PooledSession[SessionHandle]) -> None:
        assert session.running is not None
        try:
            session.running.stop()
        finally:
            self._forget(session)

    def _forget(self, session: PooledSession[SessionHandle]) -> None:
        with self._changed:
            self._pool.remove(session)
            self._changed.notify_all()

    def _start_keeper(self) -> None:
        if self._keeper is None:
            self._keeper = threading.Thread(target=in_no_context(self._keep_always), name="spark-sessions", daemon=True)
            self._keeper.start()

    def _keep_always(self) -> None:
        while True:
            with self._changed:
                if not self._pool.sessions:
                    self._keeper = None
                    return
                self._changed.wait(_KEEP_S)
            self.keep()

    def _start_in_time(
        self, settings: SparkSettings, is_cancelled: Callable[[], bool], on_wait: Callable[[str], None]
    ) -> SessionHandle:
        result: list[SessionHandle | BaseException] = []
        startup = Startup()

        def run() -> None:
            try:
                started = self._start(settings, startup)
                if startup.is_abandoned:
                    started.stop()
                result.append(started)
            except BaseException as error:  # noqa: BLE001 - raised by the waiting thread
                result.append(error)

        thread = threading.Thread(target=in_no_context(run), name="spark-start", daemon=True)
        thread.start()
        waited_s = 0.0
        while thread.is_alive():
            thread.join(_LOOK_S)
            waited_s += _LOOK_S
            if is_cancelled():
                startup.abandon()
                raise StartAbandonedError
            if waited_s * 1000 > settings.start_timeout_ms:
                if startup.waits_for_resources:
                    on_wait(f"{settings.redacted_master} has accepted the application, but has no resources for it yet")
                    waited_s = 0.0
                    continue
                startup.abandon()
                raise SparkError(
                    f"Spark at {settings.redacted_master} has not started within {settings.start_timeout_ms // 1000} s "
                    "(execution.batch.spark.start-timeout)"
                )
        outcome = result[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


#: The sessions of this process.
SESSIONS = SparkSessions()
atexit.register(SESSIONS.close)
