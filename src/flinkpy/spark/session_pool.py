"""SessionPool: decides which Spark session a region uses, and when sessions start and end. Pure.

```
   acquire            session with the same settings -> USE
                      none, and fewer than the maximum -> START
                      none, and an unused one -> END the one that was unused longest, then START
                      otherwise -> WAIT
   STARTING -> READY <-> TIDYING
                 |
                 +----> ENDING -> (gone)
```

A session that no region uses ends after its idle time-out. Shortly after its last region it is tidied: the driver then
forgets shuffles and stored frames, so that Spark gives back executors that hold nothing else. A region that comes
meanwhile waits, because its own shuffles and frames would be forgotten too.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from flinkpy.spark.settings import SparkSettings

S = TypeVar("S")

#: A job that follows at once must not wait for the tidying, which stops the driver for some 0.1 s.
TIDY_AFTER_S = 5.0


class SessionState(enum.Enum):
    STARTING = "STARTING"
    READY = "READY"
    TIDYING = "TIDYING"
    ENDING = "ENDING"


#: The reasons to wait for a session that a region will be able to use.
_REASONS = {
    SessionState.STARTING: "its Spark session starts",
    SessionState.TIDYING: "a Spark session forgets the results of earlier jobs",
}


@dataclass(eq=False, slots=True)
class PooledSession(Generic[S]):
    """One session.

    Attributes:
        running: the session; None while it starts.
        num_users: the number of regions that use it.
        unused_since_s: the time when the last region left it. Has a meaning only while there are no users.
    """

    settings: SparkSettings
    state: SessionState = SessionState.STARTING
    running: S | None = None
    num_users: int = 0
    unused_since_s: float = 0.0
    is_tidy: bool = True

    @property
    def is_unused(self) -> bool:
        return self.state is SessionState.READY and not self.num_users


@dataclass(frozen=True, slots=True)
class Use(Generic[S]):
    """The region uses this session, which counts it as a user."""

    session: PooledSession[S]


@dataclass(frozen=True, slots=True)
class Start(Generic[S]):
    """The caller ends the session `first`, if there is one, then starts the session `new`."""

    new: PooledSession[S]
    first: PooledSession[S] | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """The region waits for a change, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Due(Generic[S]):
    """Sessions to end and sessions to tidy."""

    to_end: tuple[PooledSession[S], ...] = ()
    to_tidy: tuple[PooledSession[S], ...] = ()


@dataclass(slots=True)
class SessionPool(Generic[S]):
    """The sessions of a process. Thread: one at a time.

    Invariant: no two sessions that start or are ready have the same `session_key`.
    """

    sessions: list[PooledSession[S]] = field(default_factory=list)

    def acquire(self, settings: SparkSettings) -> Use[S] | Start[S] | Wait:
        """Decides for a region with these settings."""
        found = self._find(settings)
        if found is not None:
            if found.state in _REASONS:
                return Wait(_REASONS[found.state])
            found.num_users += 1
            return Use(found)
        first = None
        if len(self.sessions) >= settings.max_sessions:
            if any(session.state is SessionState.ENDING for session in self.sessions):
                return Wait("another Spark session ends")
            if any(session.state is SessionState.TIDYING for session in self.sessions):
                return Wait(_REASONS[SessionState.TIDYING])
            unused = [session for session in self.sessions if session.is_unused]
            if not unused:
                return Wait(
                    f"all {len(self.sessions)} Spark sessions of the TaskExecutor are in use with other settings "
                    "(execution.batch.spark.session.max-number)"
                )
            first = min(unused, key=lambda session: session.unused_since_s)
            first.state = SessionState.ENDING
        new: PooledSession[S] = PooledSession(settings)
        self.sessions.append(new)
        return Start(new, first)

    def on_started(self, session: PooledSession[S], running: S) -> None:
        """The session has started, and the region that started it uses it."""
        session.running = running
        session.state = SessionState.READY
        session.num_users = 1

    def release(self, session: PooledSession[S], now_s: float) -> None:
        """A region has left the session."""
        session.num_users -= 1
        if not session.num_users:
            session.unused_since_s = now_s
            session.is_tidy = False

    def on_tidied(self, session: PooledSession[S]) -> None:
        """The session has been tidied, or cannot be."""
        session.is_tidy = True
        if session.state is SessionState.TIDYING:
            session.state = SessionState.READY

    def remove(self, session: PooledSession[S]) -> None:
        """The session has ended, or has not started. Idempotent."""
        if session in self.sessions:
            self.sessions.remove(session)

    def due(self, now_s: float) -> Due[S]:
        """Returns the sessions whose time has come. They are marked, so each is returned once."""
        to_end, to_tidy = [], []
        for session in self.sessions:
            if not session.is_unused:
                continue
            unused_s = now_s - session.unused_since_s
            if unused_s >= session.settings.idle_timeout_ms / 1000:
                session.state = SessionState.ENDING
                to_end.append(session)
            elif not session.is_tidy and unused_s >= TIDY_AFTER_S:
                session.state = SessionState.TIDYING
                to_tidy.append(session)
        return Due(tuple(to_end), tuple(to_tidy))

    def _find(self, settings: SparkSettings) -> PooledSession[S] | None:
        for session in self.sessions:
            if session.state is not SessionState.ENDING and session.settings.session_key == settings.session_key:
                return session
        return None
