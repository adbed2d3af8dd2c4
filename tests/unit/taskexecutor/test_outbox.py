from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flinkpy.taskexecutor.outbox import MAX_ENTRIES_PER_CALL, Outbox, Report, ReportKind


def report(number: int, kind: ReportKind = ReportKind.STATE) -> Report:
    return Report(kind, f"attempt-{number}", number)


def test_only_a_single_call_is_in_flight_at_a_time() -> None:
    box = Outbox()
    box.put(report(1))
    assert [r.message for r in box.next_call()] == [1]
    box.put(report(2))
    assert box.next_call() == ()
    box.answered()
    assert [r.message for r in box.next_call()] == [2]


def test_a_call_that_may_not_have_arrived_is_repeated_first() -> None:
    box = Outbox()
    box.put(report(1))
    box.put(report(2))
    box.next_call()
    box.put(report(3))
    box.undelivered()
    assert [r.message for r in box.next_call()] == [1, 2, 3]


def test_a_call_is_bounded() -> None:
    box = Outbox()
    for number in range(MAX_ENTRIES_PER_CALL + 1):
        box.put(report(number))
    assert len(box.next_call()) == MAX_ENTRIES_PER_CALL


def test_a_closed_outbox_is_silent() -> None:
    box = Outbox()
    box.put(report(1))
    box.close()
    box.put(report(2))
    assert box.next_call() == () and box.is_idle


def test_the_outbox_lists_the_attempts_it_has_reports_of() -> None:
    box = Outbox()
    box.put(report(1))
    box.next_call()
    box.put(report(2))
    assert box.execution_attempt_ids == {"attempt-1", "attempt-2"}


@given(st.lists(st.tuples(st.sampled_from(ReportKind), st.booleans()), max_size=40))
def test_entries_arrive_in_order_and_calls_have_one_kind(entries: list[tuple[ReportKind, bool]]) -> None:
    box = Outbox()
    for number, (kind, _) in enumerate(entries):
        box.put(report(number, kind))
    fails = [fail for _, fail in entries]
    received = []
    while call := box.next_call():
        assert len({r.kind for r in call}) == 1
        if fails and fails.pop():
            box.undelivered()
        else:
            received += [r.message for r in call]
            box.answered()
    assert received == list(range(len(entries)))
