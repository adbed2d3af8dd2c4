"""These tests use real threads, because they test Python's own behaviour."""

from __future__ import annotations

import threading

import pytest

from flinkpy.taskexecutor.task_thread import TaskInterrupted, TaskThread, is_user_file

TIMEOUT_S = 10


class Exit:
    def __init__(self) -> None:
        self.errors: list[BaseException | None] = []
        self.called = threading.Event()

    def __call__(self, error: BaseException | None) -> None:
        self.errors.append(error)
        self.called.set()


def test_the_exit_callback_receives_success_and_any_exception() -> None:
    def fail() -> None:
        raise SystemExit(3)

    for body, kind in ((lambda: None, type(None)), (fail, SystemExit)):
        leave = Exit()
        thread = TaskThread("t", body, leave)
        thread.start()
        assert thread.join(TIMEOUT_S)
        assert [type(error) for error in leave.errors] == [kind]


def test_an_interrupt_ends_an_endless_loop_of_user_code() -> None:
    running = threading.Event()

    def body() -> None:
        while True:
            running.set()

    leave = Exit()
    thread = TaskThread("t", body, leave)
    thread.start()
    assert running.wait(TIMEOUT_S)
    assert thread.is_in_user_code
    assert "test_task_thread" in thread.stack
    assert thread.interrupt()
    assert thread.join(TIMEOUT_S)
    assert isinstance(leave.errors[0], TaskInterrupted)


def test_an_interrupt_passes_a_handler_for_exceptions() -> None:
    running = threading.Event()

    def body() -> None:
        while True:
            try:
                while True:
                    running.set()
            except Exception:  # noqa: BLE001 - what users write
                continue

    thread = TaskThread("t", body, Exit())
    thread.start()
    assert running.wait(TIMEOUT_S)
    thread.interrupt()
    assert thread.join(TIMEOUT_S)


def test_a_thread_that_is_exiting_or_gone_is_not_interrupted() -> None:
    exiting, go_on = threading.Event(), threading.Event()

    def leave(error: BaseException | None) -> None:
        exiting.set()
        assert go_on.wait(TIMEOUT_S)

    thread = TaskThread("t", lambda: None, leave)
    assert not thread.interrupt()
    thread.start()
    assert exiting.wait(TIMEOUT_S)
    assert not thread.interrupt()
    go_on.set()
    assert thread.join(TIMEOUT_S)
    assert not thread.interrupt()


def test_many_interrupts_at_the_end_still_give_one_exit() -> None:
    for _ in range(50):
        leave = Exit()
        thread = TaskThread("t", lambda: [i * i for i in range(200)], leave)
        thread.start()
        while thread.is_alive:
            thread.interrupt()
        assert len(leave.errors) == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (__file__, True),
        ("<stdin>", True),
        (threading.__file__, False),
        (pytest.__file__, False),
        ("<frozen importlib._bootstrap>", False),
        ("<flinkpy fused map>", False),
    ],
)
def test_files_are_classified_as_user_code_or_not(name: str, expected: bool) -> None:
    assert is_user_file(name) is expected


def test_files_of_flinkpy_are_not_user_code() -> None:
    import flinkpy.taskexecutor.task as module

    assert not is_user_file(str(module.__file__))
