from __future__ import annotations

import threading
import time
from collections import deque

import pytest

from flinkpy.common.clock import ManualClock
from flinkpy.common.errors import InternalError
from flinkpy.streaming.mailbox import task_mailbox
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus, MailboxProcessor, TaskTimes
from flinkpy.streaming.mailbox.task_mailbox import Mail, MailPriority, TaskMailbox


def mail(name: str, log: list[str], priority: MailPriority = MailPriority.DEFAULT) -> Mail:
    return Mail(name, lambda: log.append(name), priority)


class SteppingMailbox(TaskMailbox):
    """A mailbox whose waits return at once. The script says how far they advance the clock."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.clock = clock
        self.passes_ms = 0
        self.waited_s: list[float] = []

    def wait(self, timeout_s: float) -> None:
        self.waited_s.append(timeout_s)
        self.clock.advance(self.passes_ms)


class Loop:
    """A processor whose default action returns a script of statuses."""

    def __init__(self, script: list) -> None:
        self.clock = ManualClock()
        self.mailbox = SteppingMailbox(self.clock)
        self.times = TaskTimes(self.clock)
        self.log: list[str] = []
        self.deadline_ns: int | None = None
        self.script = list(script)
        self.processor = MailboxProcessor(
            self.mailbox,
            self.times,
            self.clock,
            default_action=self._action,
            on_idle=lambda: self.log.append("idle"),
            next_deadline_ns=lambda: self.deadline_ns,
            on_deadline=self._on_deadline,
        )

    def _action(self) -> ActionStatus:
        step = self.script.pop(0)
        self.log.append("action")
        return step() if callable(step) else step

    def _on_deadline(self, now_ns: int) -> None:
        self.log.append("deadline")
        self.deadline_ns = None


def test_urgent_mail_overtakes_and_each_priority_keeps_its_order():
    mailbox, log = TaskMailbox(), []
    for name, priority in [("a", 0), ("b", 0), ("X", 1), ("c", 0), ("Y", 1)]:
        mailbox.put(mail(name, log, MailPriority(priority)))

    while (taken := mailbox.take()) is not None:
        taken.action()

    assert log == ["X", "Y", "a", "b", "c"]
    assert not mailbox.has_mail


def test_closed_mailbox_refuses_mail_and_returns_its_mail():
    mailbox, log = TaskMailbox(), []
    assert mailbox.put(mail("held", log))

    dropped = mailbox.close()

    assert [d.description for d in dropped] == ["held"]
    assert not mailbox.put(mail("late", log))
    assert mailbox.take() is None


def test_full_mailbox_names_the_refused_mail(monkeypatch):
    monkeypatch.setattr(task_mailbox, "MAX_MAILS", 2)
    mailbox, log = TaskMailbox(), []
    mailbox.put(mail("a", log))
    mailbox.put(mail("b", log))

    with pytest.raises(InternalError, match="'one too many'"):
        mailbox.put(mail("one too many", log))


def test_wait_returns_at_once_after_mail_or_a_wake_up():
    mailbox, log = TaskMailbox(), []
    mailbox.wake()
    mailbox.wake()
    mailbox.wait(60)  # would hang the test otherwise
    mailbox.put(mail("a", log))
    mailbox.wait(60)


def test_mail_runs_before_the_next_batch():
    loop = Loop([])
    loop.script = [
        lambda: loop.mailbox.put(mail("mail", loop.log)) and ActionStatus.MORE,
        ActionStatus.END,
    ]

    loop.processor.run()

    assert loop.log == ["action", "mail", "action"]


def test_idle_task_flushes_and_its_sleep_counts_as_idle_time():
    loop = Loop([ActionStatus.NOTHING_AVAILABLE, ActionStatus.END])
    loop.times.start()
    loop.mailbox.passes_ms = 70

    loop.processor.run()
    loop.clock.advance(30)

    assert loop.log == ["action", "idle", "action"]
    assert loop.times.read_ms() == (70, 30, 0)


def test_blocked_task_does_not_flush_and_counts_back_pressured_time():
    loop = Loop([ActionStatus.BLOCKED, ActionStatus.END])
    loop.times.start()
    loop.mailbox.passes_ms = 40

    loop.processor.run()

    assert loop.log == ["action", "action"]
    assert loop.times.read_ms() == (0, 0, 40)


def test_times_include_a_wait_in_progress():
    clock = ManualClock()
    times = TaskTimes(clock)
    times.start()
    clock.advance(5)
    times.begin_wait(ActionStatus.BLOCKED, clock.monotonic_ns())
    clock.advance(15)

    assert times.read_ms() == (0, 5, 15)


def test_task_sleeps_at_most_until_the_next_deadline():
    loop = Loop([ActionStatus.NOTHING_AVAILABLE, ActionStatus.END])
    loop.clock.advance(100)
    loop.deadline_ns = 125_000_000
    loop.mailbox.passes_ms = 25

    loop.processor.run()

    assert loop.mailbox.waited_s == [0.025]
    assert loop.log == ["action", "idle", "deadline", "action"]


def test_busy_task_meets_its_deadlines():
    loop = Loop([])
    loop.script = [lambda: loop.clock.advance(30) or ActionStatus.MORE, ActionStatus.END]
    loop.deadline_ns = 10_000_000

    loop.processor.run()

    assert loop.log == ["action", "deadline", "action"]


def test_run_until_processes_mail_but_no_input():
    loop = Loop([])
    done: list[bool] = []
    loop.mailbox.put(Mail("finish", lambda: done.append(True)))

    loop.processor.run_until(lambda: bool(done))

    assert loop.log == []


def test_a_task_that_has_input_does_not_sleep():
    loop = Loop([ActionStatus.MORE, ActionStatus.MORE, ActionStatus.END])

    loop.processor.run()

    assert loop.mailbox.waited_s == []
    assert loop.log == ["action"] * 3


def test_run_until_fires_timers_and_sleeps_at_most_until_the_next_one():
    loop = Loop([])
    loop.times.start()
    loop.deadline_ns = 25_000_000
    loop.mailbox.passes_ms = 25

    loop.processor.run_until(lambda: "deadline" in loop.log)

    assert loop.log == ["deadline"]
    assert loop.mailbox.waited_s == [0.025]
    assert loop.times.read_ms() == (0, 0, 25), "a task that waits to end takes no input and is blocked"


def test_run_until_processes_mail_that_arrives_while_it_sleeps():
    loop = Loop([])
    done: list[bool] = []
    loop.mailbox.wait = lambda timeout_s: loop.mailbox.put(Mail("finish", lambda: done.append(True)))

    loop.processor.run_until(lambda: bool(done))

    assert done == [True]


@pytest.mark.parametrize("status", [ActionStatus.NOTHING_AVAILABLE, ActionStatus.BLOCKED])
def test_without_a_deadline_the_task_sleeps_until_it_is_woken(status):
    loop = Loop([status, ActionStatus.END])

    loop.processor.run()

    assert loop.mailbox.waited_s == [task_mailbox.MAX_WAIT_S]


def test_stopped_loop_takes_no_input_but_processes_its_mail():
    loop = Loop([])

    def stop() -> ActionStatus:
        loop.processor.stop()
        loop.mailbox.put(mail("mail", loop.log))
        return ActionStatus.MORE

    loop.script = [stop]

    loop.processor.run()

    assert loop.log == ["action", "mail"]


def test_mail_can_stop_the_loop_before_any_input():
    loop = Loop([])
    loop.mailbox.put(Mail("stop", loop.processor.stop))

    loop.processor.run()

    assert loop.log == []


def test_times_do_not_change_before_the_start_and_after_the_stop():
    clock = ManualClock()
    times = TaskTimes(clock)
    clock.advance(10)
    assert times.read_ms() == (0, 0, 0)
    times.start()
    clock.advance(30)
    times.stop()
    clock.advance(500)

    assert times.read_ms() == (0, 30, 0)


def test_waits_add_up_per_status():
    loop = Loop([])
    wait_ms = {ActionStatus.NOTHING_AVAILABLE: 10, ActionStatus.BLOCKED: 100}

    def found(status: ActionStatus) -> ActionStatus:
        loop.mailbox.passes_ms = wait_ms[status]
        loop.clock.advance(1)
        return status

    statuses = [ActionStatus.NOTHING_AVAILABLE, ActionStatus.BLOCKED] * 2
    loop.script = [*(lambda status=status: found(status) for status in statuses), ActionStatus.END]
    loop.times.start()

    loop.processor.run()

    assert loop.times.read_ms() == (20, 4, 200)


def test_wait_that_raises_has_ended():
    loop = Loop([ActionStatus.BLOCKED])
    loop.times.start()

    def interrupted(timeout_s: float) -> None:
        loop.clock.advance(40)
        raise KeyboardInterrupt

    loop.mailbox.wait = interrupted
    with pytest.raises(KeyboardInterrupt):
        loop.processor.run()
    loop.clock.advance(5)

    assert loop.times.read_ms() == (0, 5, 40)


def test_idle_time_includes_a_wait_in_progress():
    clock = ManualClock()
    times = TaskTimes(clock)
    times.start()
    clock.advance(5)
    times.begin_wait(ActionStatus.NOTHING_AVAILABLE, clock.monotonic_ns())
    clock.advance(15)

    assert times.read_ms() == (15, 5, 0)


#: The timeout of a wait that nothing ends, and the maximum time of one that ends at once, on a loaded machine.
LONG_S, SOON_S = 40.0, 20.0


def slept_s(mailbox: TaskMailbox, timeout_s: float) -> float:
    """Returns how long a `wait` took."""
    start_s = time.monotonic()
    mailbox.wait(timeout_s)
    return time.monotonic() - start_s


def test_wait_sleeps_until_the_timeout():
    mailbox = TaskMailbox()
    assert slept_s(mailbox, 0.02) >= 0.015
    assert slept_s(mailbox, 0.0) < SOON_S
    assert slept_s(mailbox, -1.0) < SOON_S


def test_mail_wakes_the_task_even_if_it_is_taken_first():
    """A task checks its condition before it sleeps. A signal between the two must not be lost."""
    mailbox, log = TaskMailbox(), []
    mailbox.put(mail("a", log))
    mailbox.take()
    assert mailbox.take() is None and not mailbox.has_mail
    assert slept_s(mailbox, LONG_S) < SOON_S
    assert slept_s(mailbox, 0.02) >= 0.015, "one signal ends one wait"


def test_another_thread_wakes_a_sleeping_task():
    mailbox = TaskMailbox()
    slept: list[float] = []
    task = threading.Thread(target=lambda: slept.append(slept_s(mailbox, LONG_S)))
    task.start()
    mailbox.wake()
    task.join()
    assert slept[0] < SOON_S


def test_urgent_mail_can_be_taken_alone():
    mailbox, log = TaskMailbox(), []
    ordinary, urgent = mail("ordinary", log), mail("urgent", log, MailPriority.URGENT)
    mailbox.put(ordinary)
    assert mailbox.take_urgent() is None
    mailbox.put(urgent)
    assert mailbox.take_urgent() is urgent
    assert mailbox.take() is ordinary


def test_closed_mailbox_is_empty():
    mailbox, log = TaskMailbox(), []
    assert not mailbox.is_closed
    for priority in MailPriority:
        mailbox.put(mail(priority.name, log, priority))
    mailbox.close()
    assert mailbox.is_closed
    assert not mailbox.has_mail
    assert mailbox.take() is None and mailbox.close() == []


@pytest.mark.parametrize("priority", MailPriority)
def test_mail_put_during_an_empty_take_is_not_lost(priority):
    """Another thread puts the mail after the task has found none and before the task clears `has_mail`."""
    mailbox, log = TaskMailbox(), []
    late = mail("late", log, priority)

    class PutBehindTheLook(deque):
        is_put = False

        def __bool__(self) -> bool:
            found = len(self) > 0
            if not self.is_put:
                self.is_put = True
                mailbox.put(late)
            return found

    mailbox._ordinary = PutBehindTheLook()
    assert mailbox.take() is late
    assert mailbox.has_mail, "there may be more: the next look tells"
    assert mailbox.take() is None and not mailbox.has_mail


def test_a_paused_task_takes_mail_but_no_input_and_counts_as_back_pressured():
    loop = Loop([ActionStatus.END])
    loop.times.start()
    loop.mailbox.passes_ms = 40
    loop.processor.set_paused(True)
    loop.mailbox.put(mail("mail", loop.log))
    loop.deadline_ns = 20_000_000

    def resume(_: float) -> None:
        loop.clock.advance(40)
        if "deadline" in loop.log:
            loop.processor.set_paused(False)

    loop.mailbox.wait = resume  # type: ignore[method-assign]
    loop.processor.run()

    assert loop.log == ["mail", "deadline", "action"]
    assert loop.times.read_ms() == (0, 0, 80)
