"""Credits are never negative and never exceed the pool, no channel gets stuck, and all credits return at the end.

The test models both sides: senders with queues, the connection as two FIFO lists, and a consuming task. Hypothesis
chooses the next step. At the end all parts move until none can move any more; by then all batches have arrived.
"""

from __future__ import annotations

from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flinkpy.network.buffer_pool import NetworkBufferPool
from flinkpy.network.credit import CreditManager, Grant, SenderCredit

UNIT = 32 * 1024


class Sender:
    """A sender like `SubpartitionSender`, with numbers instead of batches."""

    def __init__(self, index: int, initial: Grant) -> None:
        self.index = index
        self.credit = SenderCredit(initial.credits, initial.window)
        self.queue: deque[int] = deque()
        self.starved_for = 0
        self.sent = 0

    def move(self, wire: deque[tuple[str, int, int, int]]) -> bool:
        if not self.queue or self.starved_for:
            return False
        cost = self.queue.popleft()
        limit = self.credit.largest_buffer
        if self.credit.is_final:
            limit = min(limit, max(1, self.credit.available))
        if cost > limit:
            self.queue.appendleft(cost - limit)
            cost = limit
        if cost > self.credit.available:
            self.queue.appendleft(cost)
            self.starved_for = cost
            self.credit.is_final = False
            wire.append(("BACKLOG", self.index, sum(self.queue), cost))
            return True
        self.credit.spend(cost)
        self.sent += cost
        wire.append(("DATA", self.index, sum(self.queue), cost))
        return True

    def granted(self, grant: Grant) -> None:
        self.credit.grant(grant.credits, grant.window, grant.is_final)
        if grant.is_final or self.credit.available >= self.starved_for:
            self.starved_for = 0


class CreditMachine(RuleBasedStateMachine):
    @initialize(
        segments=st.integers(8, 300), channels=st.integers(1, 4), exclusive=st.integers(1, 2), others=st.booleans()
    )
    def start(self, segments: int, channels: int, exclusive: int, others: bool) -> None:
        self.parent = NetworkBufferPool(segments * UNIT, UNIT)
        self.pool = self.parent.create_local_pool("gate", channels * exclusive)
        self.manager = CreditManager(self.pool, channels, exclusive)
        self.pool.on_quota_change = self.quota_changed
        self.to_receiver: deque[tuple[str, int, int, int]] = deque()
        self.to_senders: deque[Grant | tuple[int, int]] = deque()
        self.received: list[deque[int]] = [deque() for _ in range(channels)]
        self.consumed = [0] * channels
        self.emitted = [0] * channels
        self.other = None
        self.senders = []
        for index in range(channels):
            self.senders.append(Sender(index, self.manager.open_channel(index)))
            self.to_senders.extend(self.manager.resume_channel(index))

    def quota_changed(self) -> None:
        grants, reclaims = self.manager.quota_changed()
        self.to_senders.extend(grants)
        self.to_senders.extend(reclaims)

    @rule(data=st.data(), cost=st.integers(1, 60))
    def emit(self, data: st.DataObject, cost: int) -> None:
        sender = data.draw(st.sampled_from(self.senders))
        sender.queue.append(cost)
        self.emitted[sender.index] += cost

    @rule(data=st.data())
    def send(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.senders)).move(self.to_receiver)

    @rule()
    def deliver_to_receiver(self) -> None:
        if not self.to_receiver:
            return
        kind, index, backlog, amount = self.to_receiver.popleft()
        if kind == "DATA":
            grants = self.manager.received(index, amount, backlog)
            self.received[index].append(amount)
        elif kind == "BACKLOG":
            grants = self.manager.starving(index, backlog, amount)
        else:
            grants = self.manager.returned(index, amount)
        self.to_senders.extend(grants)

    @rule()
    def deliver_to_sender(self) -> None:
        if not self.to_senders:
            return
        message = self.to_senders.popleft()
        if isinstance(message, Grant):
            self.senders[message.channel_index].granted(message)
            return
        index, keep = message
        sender = self.senders[index]
        credits = 0 if sender.starved_for else sender.credit.give_back(keep)
        if credits:
            self.to_receiver.append(("RETURNED", index, 0, credits))

    @rule(data=st.data())
    def consume(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.senders) - 1))
        if self.received[index]:
            cost = self.received[index].popleft()
            self.consumed[index] += cost
            self.to_senders.extend(self.manager.consumed(index, cost))

    @rule()
    def another_pool_comes_or_goes(self) -> None:
        if self.other is None and self.parent.required < self.parent.total:
            self.other = self.parent.create_local_pool("other", 1)
        elif self.other is not None:
            self.other.destroy()
            self.other = None

    @invariant()
    def accounts_agree(self) -> None:
        if not hasattr(self, "manager"):
            return
        self.manager.validate()
        assert self.parent.used <= self.parent.total
        for sender in self.senders:
            assert sender.credit.available >= 0

    def teardown(self) -> None:
        if not hasattr(self, "manager"):
            return
        moved = True
        while moved:
            moved = bool(self.to_receiver or self.to_senders)
            self.deliver_to_receiver()
            self.deliver_to_sender()
            for sender in self.senders:
                moved = sender.move(self.to_receiver) or moved
            for index, queue in enumerate(self.received):
                if queue:
                    cost = queue.popleft()
                    self.consumed[index] += cost
                    self.to_senders.extend(self.manager.consumed(index, cost))
                    moved = True
            self.accounts_agree()
        assert self.consumed == self.emitted, "somebody waits for credit that never comes"
        for index in range(len(self.senders)):
            self.manager.close_channel(index)
        assert self.pool.used == 0


TestCredits = CreditMachine.TestCase
TestCredits.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
