from __future__ import annotations

from flinkpy.taskexecutor.task_canceler import CancelStep, TaskCanceler


def steps(canceler: TaskCanceler, until_ms: int) -> list[tuple[int, CancelStep]]:
    """Asks the canceler as the task does: again after the returned time."""
    now, seen = canceler.started_ms, []
    while now <= until_ms:
        step, again_ms = canceler.next_step(now)
        if step is not CancelStep.WAIT:
            seen.append((now, step))
        if step is CancelStep.GIVE_UP:
            break
        now += again_ms
    return seen


def test_the_first_interrupt_has_a_grace_and_spares_the_runtime() -> None:
    assert steps(TaskCanceler(0, 30_000, 180_000), 40_000) == [
        (1_000, CancelStep.INTERRUPT_USER_CODE),
        (31_000, CancelStep.INTERRUPT),
    ]


def test_the_canceler_gives_up_exactly_at_the_timeout() -> None:
    seen = steps(TaskCanceler(5, 400, 1_000), 10_000)
    assert seen == [
        (405, CancelStep.INTERRUPT_USER_CODE),
        (805, CancelStep.INTERRUPT),
        (1_005, CancelStep.GIVE_UP),
    ]


def test_a_timeout_of_zero_never_gives_up() -> None:
    seen = steps(TaskCanceler(0, 1_000, 0), 1_000_000)
    assert {step for _, step in seen} == {CancelStep.INTERRUPT_USER_CODE, CancelStep.INTERRUPT}
    assert len(seen) == 1_000
