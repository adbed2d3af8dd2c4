"""LeaderLatch: the state machine of one contender in an election with ZooKeeper.

Each contender creates an ephemeral sequential node. The contender with the lowest number leads. Each other contender
watches the node before its own, so the end of a leader wakes exactly one contender. A term is one node: a contender
that loses leadership removes its node and creates another one. Writes that are fenced with the former node stay
refused, even if the same process leads again.

```
  IDLE -- Stand --> DISCONNECTED -- Connected --> [CLEARING] --> CREATING --> CHECKING --> WAITING
                        ^                                            ^            |           |
                        |                                            |            |<- before --+  the one before is gone
                        |                                       own node gone     v
                        +----------- Suspended, SessionLost ------------------ LEADING
```

Rules:
- There is one request at a time. It has a number, and answers to older requests are ignored.
- A failed request may have been executed. Therefore a node that may exist is searched by its token and removed.
- While the connection is suspended, a leader keeps leading only if that is tolerated, and until `GraceOver`.
- A `fixed_token` is for one term. When it is revoked, the contender does not enter the election again.

Pure. Source: org.apache.curator.framework.recipes.leader.LeaderLatch, which Flink uses.
Differs: a Flink process has one latch for all its components. Here each component has its own latch, and each term its
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


# --- events ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stand:
    """The contender enters the election."""

    is_connected: bool


@dataclass(frozen=True, slots=True)
class Connected:
    """The connection exists, with a new session or with the former one."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """The connection is lost. The session and its nodes may still exist."""


@dataclass(frozen=True, slots=True)
class GraceOver:
    """The connection has been suspended for as long as it is safe to keep leading."""


@dataclass(frozen=True, slots=True)
class SessionLost:
    """The session has ended. ZooKeeper removes its nodes."""


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
    """The nodes do not exist any more."""

    request: int


@dataclass(frozen=True, slots=True)
class NodeWatched:
    """The answer to WatchNode. If the node exists, its next change is reported with `NodeChanged`."""

    request: int
    exists: bool


@dataclass(frozen=True, slots=True)
class NodeChanged:
    name: str


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A request failed. It may have been executed nevertheless."""

    request: int


@dataclass(frozen=True, slots=True)
class RetryDue:
    request: int


@dataclass(frozen=True, slots=True)
class Close:
    """The contender leaves the election and is not called any more."""


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


# --- effects ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateNode:
    """Create an ephemeral sequential node whose name begins with `prefix`."""

    request: int
    prefix: str


@dataclass(frozen=True, slots=True)
class ListNodes:
    request: int


@dataclass(frozen=True, slots=True)
class RemoveNodes:
    """Remove these nodes if they exist. `request` 0: no answer is expected."""

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
    """Send `GraceOver` when two thirds of the session time-out have passed since the server was last heard."""


@dataclass(frozen=True, slots=True)
class CancelGrace:
    pass


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Send `RetryDue` after a pause."""

    request: int


LatchEffect = CreateNode | ListNodes | RemoveNodes | WatchNode | Grant | Revoke | StartGrace | CancelGrace | RetryLater


def sequence_of(name: str) -> int:
    """Returns the sequence number of a node. Foreign nodes come last, so that they never lead."""
    digits = name[-_SEQUENCE_DIGITS:]
    is_ours = _INFIX in name and len(digits) == _SEQUENCE_DIGITS and digits.isascii() and digits.isdigit()
    return int(digits) if is_ours else 1 << 62


def token_of(name: str) -> str:
    """Returns the token of the contender that created the node."""
    return name.rpartition(_INFIX)[0]


class LeaderLatch:
    """One contender.

    Args:
        new_token: generates the token of a term.
        fixed_token: the token of the only term, if the contender may lead only once; `new_token` is not used then.
        tolerates_suspension: high-availability.zookeeper.client.tolerate-suspended-connections.
    """

    def __init__(
        self, new_token: Callable[[], str], *, fixed_token: str | None = None, tolerates_suspension: bool = False
    ) -> None:
        self._new_token = new_token
        self._fixed_token = fixed_token
        self._tolerates_suspension = tolerates_suspension
        self.state = LatchState.IDLE
        #: The token of the current node, or of the node that is being created.
        self._token = ""
        #: The name of the current node; empty if there is none.
        self._name = ""
        #: The tokens of nodes that may exist and must be removed.
        self._leftover_tokens: set[str] = set()
        self._is_connected = False
        self._request = 0
        #: The request whose answer is expected; 0: none.
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
        """Asserts the invariants."""
        if self.state is LatchState.LEADING:
            assert self._name and token_of(self._name) == self._token, "a leader has a node of its token"
            assert self._is_connected or self._tolerates_suspension, (
                "a suspended leader leads only if that is tolerated"
            )
            assert self._token not in self._leftover_tokens, "a term has one node"
        if self.state in (LatchState.IDLE, LatchState.CLOSED):
            assert not self._awaited, "no answer is expected before the start and after the end"

    # --- getting leadership

    def _stand(self) -> list[LatchEffect]:
        """Creates a node, after removing the nodes of former terms."""
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
            return self._stand()  # its session has ended, or somebody has removed it
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

    # --- losing leadership

    def _node_lost(self) -> list[LatchEffect]:
        """Ends the term, because somebody has removed the leader's node and another contender may lead."""
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
        """Ends the term of a leader that has lost its connection. Another contender keeps its place."""
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
        was_connected = self._is_connected
        self._is_connected = True
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
            return []  # it begins again when the connection is back
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
        self._creating = self._awaited
        self._awaited = 0
        return effects

    def _late(self, event: LatchEvent) -> list[LatchEffect]:
        """Removes a node that was being created when the contender left the election."""
        if isinstance(event, NodeCreated) and event.request == self._creating:
            return [RemoveNodes(0, (event.name,))]
        return []

    _watched_name = ""
    _creating = 0
