"""Elections of several contenders over an in-memory tree of nodes. Connections break at any point."""

from __future__ import annotations

from collections import deque
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flinkpy.highavailability import leader_latch as latch
from flinkpy.highavailability.leader_latch import LatchState, LeaderLatch

CONTENDERS = 3
contenders = st.integers(0, CONTENDERS - 1)


class Tree:
    """The nodes with their sessions, and the watches of the sessions."""

    def __init__(self) -> None:
        self.nodes: dict[str, int] = {}
        self.watches: list[tuple[Contender, str]] = []
        self._numbers = count()

    def create(self, prefix: str, session: int) -> str:
        name = f"{prefix}{next(self._numbers):010d}"
        self.nodes[name] = session
        return name

    def remove(self, name: str) -> None:
        if self.nodes.pop(name, None) is None:
            return
        for watch in [watch for watch in self.watches if watch[1] == name]:
            self.watches.remove(watch)
            watch[0].inbox.append(latch.NodeChanged(name))

    def expire(self, session: int) -> None:
        for name in [name for name, owner in self.nodes.items() if owner == session]:
            self.remove(name)


class Contender:
    """A contending process. Requests wait in `outbox` for the tree, and answers wait in `inbox` for the process."""

    sessions = count(1)

    def __init__(self, number: int, tree: Tree, *, tolerates: bool) -> None:
        tokens = count()
        self.machine = LeaderLatch(lambda: f"c{number}-{next(tokens)}", tolerates_suspension=tolerates)
        self.tree = tree
        self.outbox: deque[latch.LatchEffect] = deque()
        self.inbox: deque[latch.LatchEvent] = deque()
        self.retries: list[int] = []
        self.session = next(self.sessions)
        self.is_connected = True
        self.is_expired = False
        self.has_grace = False
        self.granted: list[str] = []

    def handle(self, event: latch.LatchEvent) -> None:
        for effect in self.machine.handle(event):
            match effect:
                case latch.Grant(token, name):
                    assert token not in self.granted, "a token is of one term"
                    self.granted.append(token)
                    if name in self.tree.nodes:
                        assert name == min(self.tree.nodes, key=latch.sequence_of), "the lowest node leads"
                case latch.RetryLater(request):
                    self.retries.append(request)
                case latch.StartGrace():
                    self.has_grace = True
                case latch.CancelGrace():
                    self.has_grace = False
                case latch.Revoke():
                    pass
                case _:
                    self.outbox.append(effect)
        self.machine.validate()

    def serve(self) -> None:
        """Carries out the next request and answers it."""
        effect = self.outbox.popleft()
        match effect:
            case latch.CreateNode(request, prefix):
                self.inbox.append(latch.NodeCreated(request, self.tree.create(prefix, self.session)))
            case latch.ListNodes(request):
                self.inbox.append(latch.NodesListed(request, tuple(self.tree.nodes)))
            case latch.RemoveNodes(request, names):
                for name in names:
                    self.tree.remove(name)
                if request:
                    self.inbox.append(latch.NodesRemoved(request))
            case latch.WatchNode(request, name):
                exists = name in self.tree.nodes
                self.tree.watches.append((self, name))
                self.inbox.append(latch.NodeWatched(request, exists))

    def cut(self) -> None:
        """Breaks the connection: unsent requests are not carried out, and unread answers are lost."""
        unanswered = [event for event in self.inbox if hasattr(event, "request")]
        requests = [event.request for event in (*unanswered, *self.outbox) if getattr(event, "request", 0)]
        self.inbox.clear()
        self.outbox.clear()
        self.tree.watches = [watch for watch in self.tree.watches if watch[0] is not self]
        self.is_connected = False
        for request in requests:
            self.handle(latch.RequestFailed(request))
        self.handle(latch.Suspended())

    def reconnect(self) -> None:
        if self.is_expired:
            self.is_expired = False
            self.session = next(self.sessions)
            self.handle(latch.SessionLost())
        self.is_connected = True
        self.handle(latch.Connected())


class Elections(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.tree = Tree()
        self.contenders = [Contender(i, self.tree, tolerates=i > 0) for i in range(CONTENDERS)]
        self.taken_away: set[str] = set()

    @rule(who=contenders)
    def stand(self, who: int) -> None:
        contender = self.contenders[who]
        if contender.machine.state is LatchState.IDLE:
            contender.handle(latch.Stand(contender.is_connected))

    @rule(who=contenders)
    def serve(self, who: int) -> None:
        contender = self.contenders[who]
        if contender.is_connected and contender.outbox:
            contender.serve()

    @rule(who=contenders)
    def read(self, who: int) -> None:
        contender = self.contenders[who]
        if contender.inbox:
            contender.handle(contender.inbox.popleft())

    @rule(who=contenders, steps=st.integers(1, 8))
    def work(self, who: int, steps: int) -> None:
        """Runs several steps without faults, which is enough to become the leader."""
        self.stand(who)
        for _ in range(steps):
            self.serve(who)
            self.read(who)

    @rule(who=contenders)
    def fail_request(self, who: int) -> None:
        """Fails a request: the server returns an error, or the answer is lost after the request was carried out."""
        contender = self.contenders[who]
        if contender.is_connected and contender.inbox and (request := getattr(contender.inbox[0], "request", 0)):
            contender.inbox[0] = latch.RequestFailed(request)

    @rule(who=contenders)
    def retry(self, who: int) -> None:
        contender = self.contenders[who]
        if contender.retries:
            contender.handle(latch.RetryDue(contender.retries.pop(0)))

    @rule(who=contenders)
    def cut(self, who: int) -> None:
        if self.contenders[who].is_connected:
            self.contenders[who].cut()

    @rule(who=contenders)
    def reconnect(self, who: int) -> None:
        if not self.contenders[who].is_connected:
            self.contenders[who].reconnect()

    @rule(who=contenders)
    def expire(self, who: int) -> None:
        """Expires the session of a silent contender, which learns it when it connects again."""
        contender = self.contenders[who]
        if not contender.is_connected and not contender.is_expired:
            contender.is_expired = True
            self.tree.expire(contender.session)

    @rule(who=contenders)
    def end_grace(self, who: int) -> None:
        contender = self.contenders[who]
        if contender.has_grace:
            contender.has_grace = False
            contender.handle(latch.GraceOver())

    @rule(who=contenders)
    def remove_node(self, who: int) -> None:
        """Removes the node of a contender, as a process does that takes it for dead."""
        node = self.contenders[who].machine.node_name
        if node is not None:
            self.taken_away.add(node)
            self.tree.remove(node)

    @invariant()
    def writes_of_one_leader_at_most_are_done(self) -> None:
        able = [c for c in self.contenders if c.machine.leading_token and c.machine.node_name in self.tree.nodes]
        assert len(able) <= 1
        for contender in able:
            assert contender.machine.node_name == min(self.tree.nodes, key=latch.sequence_of)

    def settle(self) -> str:
        """Stops all faults, and checks that one contender leads and the others wait. Returns the node of the leader."""
        for _ in range(1000):
            if not any(c.outbox or c.inbox or c.retries for c in self.contenders):
                break
            for i in range(CONTENDERS):
                self.retry(i)
                self.serve(i)
                self.read(i)
        states = sorted(contender.machine.state.name for contender in self.contenders)
        assert states == ["LEADING", "WAITING", "WAITING"], states
        (leader,) = (c.machine.node_name for c in self.contenders if c.machine.state is LatchState.LEADING)
        assert leader is not None
        assert leader == min(self.tree.nodes, key=latch.sequence_of)
        return leader

    def teardown(self) -> None:
        """Checks at the end that every contender has a node. A contender taken for dead learns it when the leader
        leaves.
        """
        for i, contender in enumerate(self.contenders):
            self.stand(i)
            if not contender.is_connected:
                contender.reconnect()
        leader = self.settle()
        names = {contender.machine.node_name or "" for contender in self.contenders}
        assert set(self.tree.nodes) <= names
        assert names - set(self.tree.nodes) <= self.taken_away
        self.tree.remove(leader)
        assert self.settle() != leader


Elections.TestCase.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
TestElections = Elections.TestCase
