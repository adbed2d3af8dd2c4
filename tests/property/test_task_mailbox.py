"""TaskMailbox behaves like a model of two plain lists."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flinkpy.streaming.mailbox.task_mailbox import Mail, MailPriority, TaskMailbox


class MailboxMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.mailbox = TaskMailbox()
        self.model: dict[MailPriority, list[str]] = {priority: [] for priority in MailPriority}
        self.count = 0

    @rule(priority=st.sampled_from(MailPriority))
    def put(self, priority):
        self.count += 1
        accepted = self.mailbox.put(Mail(str(self.count), lambda: None, priority))
        assert accepted is not self.mailbox.is_closed
        if accepted:
            self.model[priority].append(str(self.count))

    @rule()
    def take(self):
        expected = next(
            (self.model[p].pop(0) for p in (MailPriority.URGENT, MailPriority.DEFAULT) if self.model[p]), None
        )
        taken = self.mailbox.take()
        assert (taken and taken.description) == expected

    @rule()
    def wake_and_wait(self):
        self.mailbox.wake()
        self.mailbox.wait(60.0)

    @rule()
    def close(self):
        held = [mail.description for mail in self.mailbox.close()]
        assert held == self.model[MailPriority.URGENT] + self.model[MailPriority.DEFAULT]
        for names in self.model.values():
            names.clear()

    @invariant()
    def waiting_mail_is_never_hidden(self):
        assert self.mailbox.has_mail or not any(self.model.values())


MailboxMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestMailbox = MailboxMachine.TestCase
