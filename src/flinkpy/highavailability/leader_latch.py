"""LeaderLatch: how one contender gets to lead, as a pure machine over a tree of nodes that only ZooKeeper can keep.

Each contender makes an ephemeral node with a running number; the lowest number leads, and each of the others watches
the one before it, so that the end of a leader wakes exactly one. A *term* is one node: whoever loses leadership, for
whatever reason, removes its node and stands again with another, so that what was fenced with the former node stays
refused, also where the same process leads again.

```
  IDLE -- Stand --> DISCONNECTED -- Connected --> [CLEARING] --> CREATING --> CHECKING --> WAITING
                        ^                                            ^            |           |
                        |                                            |            |<- before --+  the one before is gone
                        |                                       own node gone     v
                        +----------- Suspended, SessionLost ------------------ LEADING
```

Rules:
- One request at a time. It has a number; an answer to an older one changes nothing.
- A request that failed may have been done. So a node that may exist is looked for by its token, and removed.
- While the connection is suspended a leader leads on only where that is tolerated, and until `GraceOver`.
- An own `token` is for one term: revoked, the contender does not stand again.

Source: org.apache.curator.framework.recipes.leader.LeaderLatch, which Flink uses.
Differs: Flink's processes have one latch for all their components; here each component has its own, and each term its
own node.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_SEQUENCE_DIGITS = 10
_INFIX = "-latch-"


class LatchState(enum.Enum):
    IDLE = enum.auto()
    DISCONNECTED = enum.auto()
    CLEARING = enum.auto()
    CREATING = enum.auto()
    CHECKING = enum.auto()
    WAITING = enum.auto()
    LEADING = enum.auto()
    CLOSED = enum.auto()


# --- what happens ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stand:
    """The contender wants to lead."""

    is_connected: bool


@dataclass(frozen=True, slots=True)
class Connected:
    """There is a connection, of a new session or again of the one before."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """The connection is lost; the session, and with it the nodes, may live on."""


@dataclass(frozen=True, slots=True)
class GraceOver:
    """A suspended connection has been tolerated as long as is safe."""


@dataclass(frozen=True, slots=True)
class SessionLost:
    """The session has ended, and its nodes are gone or going."""


@dataclass(frozen=True, slots=True)
class NodeCreated:
    request: int
    name: str


@dataclass(frozen=True, slots=True)
class NodesListed:
    request: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodesRemoved:
    """They are gone, whoever removed them."""

    request: int


@dataclass(frozen=True, slots=True)
class NodeWatched:
    """The next change of the node will be told by `NodeChanged`, where it exists."""

    request: int
    exists: bool


@dataclass(frozen=True, slots=True)
class NodeChanged:
    name: str


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """It may have been done all the same."""

    request: int


@dataclass(frozen=True, slots=True)
class RetryDue:
    request: int


@dataclass(frozen=True, slots=True)
class Close:
    """The contender stands back; nothing is to be told to it any more."""


LatchEvent = (
    Stand
    | Connected
    | Suspended
    | GraceOver
    | SessionLost
    | NodeCreated
    | NodesListed
    | NodesRemoved
    | NodeWatched
    | NodeChanged
    | RequestFailed
    | RetryDue
    | Close
)


# --- what is to be done ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateNode:
    """Ephemeral and sequential, its name beginning with `prefix`."""

    request: int
    prefix: str


@dataclass(frozen=True, slots=True)
class ListNodes:
    request: int


@dataclass(frozen=True, slots=True)
class RemoveNodes:
    """Those that are there. `request` 0: nobody waits for the answer."""

    request: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WatchNode:
    request: int
    name: str


@dataclass(frozen=True, slots=True)
class Grant:
    token: str
    name: str


@dataclass(frozen=True, slots=True)
class Revoke:
    token: str


@dataclass(frozen=True, slots=True)
class StartGrace:
    """Send `GraceOver` when two thirds of the session's time-out have passed since the last sign of the server."""


@dataclass(frozen=True, slots=True)
class CancelGrace:
    pass


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Send `RetryDue` after a pause."""

    request: int


LatchEffect = CreateNode | ListNodes | RemoveNodes | WatchNode | Grant | Revoke | StartGrace | CancelGrace | RetryLater


def sequence_of(name: str) -> int:
    """The running number of a node; one that is foreign comes last, so that it never leads."""
    digits = name[-_SEQUENCE_DIGITS:]
    is_ours = _INFIX in name and len(digits) == _SEQUENCE_DIGITS and digits.isascii() and digits.isdigit()
    return int(digits) if is_ours else 1 << 62


def token_of(name: str) -> str:
    """The token of the contender that made the node."""
    return name.rpartition(_INFIX)[0]


class LeaderLatch:
    """One contender.

    Args:
        new_token: draws the token of a term.
        fixed_token: the token of the only term there may be; then `new_token` is not asked.
        tolerates_suspension: high-availability.zookeeper.client.tolerate-suspended-connections.
    """

    def __init__(
        self, new_token: Callable[[], str], *, fixed_token: str | None = None, tolerates_suspension: bool = False
    ) -> None:
        self._new_token = new_token
        self._fixed_token = fixed_token
        self._tolerates_suspension = tolerates_suspension
        self.state = LatchState.IDLE
        #: Of the present node, or of the one that is being made.
        self._token = ""
        #: The present node; empty where there is none.
        self._name = ""
        #: Of nodes that may exist and are not wanted.
        self._leftover_tokens: set[str] = set()
        self._is_connected = False
        self._request = 0
        #: The request whose answer counts; 0: none is awaited.
        self._awaited = 0
        self._is_spent = False

    @property
    def leading_token(self) -> str | None:
        return self._token if self.state is LatchState.LEADING else None

    @property
    def node_name(self) -> str | None:
        return self._name or None

    def handle(self, event: LatchEvent) -> list[LatchEffect]:
        if self.state is LatchState.CLOSED:
            return self._late(event)
        match event:
            case Stand(is_connected):
                self._is_connected = is_connected
                self.state = LatchState.DISCONNECTED
                return self._stand() if is_connected else []
            case Close():
                return self._close()
            case Connected():
                return self._connected()
            case Suspended():
                return self._suspended()
            case GraceOver():
                return [] if self._is_connected else self._give_up()
            case SessionLost():
                return self._session_lost()
            case NodeChanged(name):
                return self._node_changed(name)
            case RetryDue(request):
                return self._resume() if request == self._awaited and self._is_connected else []
        if event.request != self._awaited:
            return []
        self._awaited = 0
        match event:
            case RequestFailed():
                return self._failed()
            case NodeCreated(_, name):
                self._name = name
                return self._check()
            case NodesListed(_, names):
                return self._clear(names) if self.state is LatchState.CLEARING else self._decide(names)
            case NodesRemoved():
                self._leftover_tokens.clear()
                return self._stand()
            case NodeWatched(_, exists):
                return self._watched(exists)

    def validate(self) -> None:
        """Raises: AssertionError where an invariant is broken."""
        if self.state is LatchState.LEADING:
            assert self._name and token_of(self._name) == self._token, "a leader has a node of its token"
            assert self._is_connected or self._tolerates_suspension, "a suspended leader leads on where that is allowed"
            assert self._token not in self._leftover_tokens, "a term has one node"
        if self.state in (LatchState.IDLE, LatchState.CLOSED):
            assert not self._awaited, "nothing is awaited before and after"

    # --- standing

    def _stand(self) -> list[LatchEffect]:
        """Make a node, once none of former terms can be there."""
        if self._leftover_tokens:
            self.state = LatchState.CLEARING
            return [ListNodes(self._ask())]
        if self._is_spent:
            self.state = LatchState.CLOSED
            return []
        self.state = LatchState.CREATING
        self._name = ""
        self._token = self._fixed_token or self._new_token()
        return [CreateNode(self._ask(), f"{self._token}{_INFIX}")]

    def _clear(self, names: Sequence[str]) -> list[LatchEffect]:
        unwanted = tuple(name for name in names if token_of(name) in self._leftover_tokens)
        if not unwanted:
            self._leftover_tokens.clear()
            return self._stand()
        return [RemoveNodes(self._ask(), unwanted)]

    def _check(self) -> list[LatchEffect]:
        self.state = LatchState.CHECKING
        return [ListNodes(self._ask())]

    def _decide(self, names: Sequence[str]) -> list[LatchEffect]:
        own = sequence_of(self._name)
        if self._name not in names:
            return self._stand()  # the session it was made in has ended, or somebody has removed it
        before = [name for name in names if sequence_of(name) < own]
        self._watched_name = max(before, key=sequence_of) if before else self._name
        return [WatchNode(self._ask(), self._watched_name)]

    def _watched(self, exists: bool) -> list[LatchEffect]:
        if self.state is LatchState.LEADING:
            return [] if exists else self._node_lost()
        if not exists:
            return self._check()
        if self._watched_name != self._name:
            self.state = LatchState.WAITING
            return []
        self.state = LatchState.LEADING
        return [Grant(self._token, self._name)]

    def _node_changed(self, name: str) -> list[LatchEffect]:
        if self.state is LatchState.LEADING and name == self._name and self._is_connected:
            return [WatchNode(self._ask(), name)]
        if self.state is LatchState.WAITING and name == self._watched_name:
            return self._check()
        return []

    # --- losing

    def _node_lost(self) -> list[LatchEffect]:
        """Somebody has removed the leader's node: its term has ended, and another may lead."""
        revoke = Revoke(self._token)
        self._name = ""
        self._is_spent = self._fixed_token is not None
        return [revoke, *self._stand()]

    def _suspended(self) -> list[LatchEffect]:
        self._is_connected = False
        if self.state is LatchState.LEADING and self._tolerates_suspension:
            self._awaited = 0
            return [StartGrace()]
        return self._give_up()

    def _give_up(self) -> list[LatchEffect]:
        """The connection is gone: a leader does not lead any more, another contender keeps its place."""
        self._awaited = 0
        effects: list[LatchEffect] = []
        if self.state is LatchState.LEADING:
            effects.append(Revoke(self._token))
            self._is_spent = self._fixed_token is not None
            self._leftover_tokens.add(self._token)
            self._name = ""
        elif self.state is LatchState.CREATING:
            self._leftover_tokens.add(self._token)
        if self.state is not LatchState.IDLE:
            self.state = LatchState.DISCONNECTED
        return effects

    def _session_lost(self) -> list[LatchEffect]:
        self._is_connected = False
        effects = self._give_up()
        self._name = ""
        self._leftover_tokens.clear()
        return [CancelGrace(), *effects] if effects else effects

    def _connected(self) -> list[LatchEffect]:
        was_connected, self._is_connected = self._is_connected, True
        if was_connected or self.state is LatchState.IDLE:
            return []
        if self.state is LatchState.LEADING:
            return [CancelGrace(), WatchNode(self._ask(), self._name)]
        return self._check() if self._name else self._stand()

    # --- requests

    def _ask(self) -> int:
        self._request += 1
        self._awaited = self._request
        return self._request

    def _failed(self) -> list[LatchEffect]:
        if not self._is_connected:
            return []  # it begins again when there is a connection
        if self.state is LatchState.CREATING:
            self._leftover_tokens.add(self._token)
        return [RetryLater(self._ask())]

    def _resume(self) -> list[LatchEffect]:
        if self.state is LatchState.LEADING:
            return [WatchNode(self._ask(), self._name)]
        return self._check() if self._name else self._stand()

    def _close(self) -> list[LatchEffect]:
        effects: list[LatchEffect] = [CancelGrace()]
        if self._name:
            effects.append(RemoveNodes(0, (self._name,)))
        self.state = LatchState.CLOSED
        self._creating, self._awaited = self._awaited, 0
        return effects

    def _late(self, event: LatchEvent) -> list[LatchEffect]:
        """A node that was being made when the contender stood back is not wanted any more."""
        if isinstance(event, NodeCreated) and event.request == self._creating:
            return [RemoveNodes(0, (event.name,))]
        return []

    _watched_name = ""
    _creating = 0
