"""A signal ends a wait of the main thread even if nothing wakes the thread."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flinkpy.client.executor import CANCEL_WAIT_S, await_result
from flinkpy.common.completable_future import CompletableFuture
from flinkpy.common.interruptible import AwaitedSignals, wait_for, wait_for_exit
from flinkpy.datastream.collected_results import CollectedResults

WAIT_S = 30.0


@pytest.fixture(autouse=True)
def _ctrl_c_is_an_interrupt() -> Iterator[None]:
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


def sleeps(thread_id: int) -> bool:
    return Path(f"/proc/self/task/{thread_id}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def interrupted(wait: Callable[[], Any]) -> None:
    with pytest.raises(KeyboardInterrupt):
        signaled(wait, signal.SIGINT)


def signaled(wait: Callable[[], Any], number: signal.Signals) -> None:
    """Runs `wait` and lets another thread receive the signal while this one sleeps in it.

    So the sleep is not ended by the signal, as it is not where the signal comes a moment before the sleep.
    """
    main, began = threading.get_native_id(), threading.Event()

    def receive() -> None:
        began.wait()
        looks = 0  # more than one, because it also sleeps before it gets the interpreter lock
        while looks < 20:
            time.sleep(0.001)
            looks = looks + 1 if sleeps(main) else 0
        signal.pthread_kill(threading.get_ident(), number)

    thread = threading.Thread(target=receive)
    thread.start()
    began.set()
    try:
        wait()
    finally:
        thread.join(WAIT_S)


def test_waiting_for_a_future_is_interrupted() -> None:
    interrupted(lambda: wait_for(Future()))
    interrupted(lambda: CompletableFuture(Future()).result())
    interrupted(lambda: CompletableFuture(Future()).exception())


def test_waiting_for_a_child_is_interrupted() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    try:
        interrupted(lambda: wait_for_exit(child))
    finally:
        child.kill()
    assert wait_for_exit(child) == -signal.SIGKILL
    assert wait_for_exit(child) == -signal.SIGKILL, "a child that was reaped before"


class Client:
    """A client of a job that runs until it is canceled."""

    def __init__(self) -> None:
        self.end: Future[Any] = Future()
        self.canceled: list[tuple[str, Any]] = []
        self.told: list[str] = []
        self.cluster_client = SimpleNamespace(cancel_job=self._cancel)

    def _cancel(self, job_id: str, timeout_s: float | None = None) -> None:
        self.canceled.append((job_id, timeout_s))
        self.end.set_result("canceled")

    def tell(self, message: str) -> None:
        self.told.append(message)

    def job_result(self) -> Future[Any]:
        return self.end

    def get_job_id(self) -> str:
        return "job"

    def reporting_restarts(self) -> Any:
        return open(os.devnull)  # any context manager


def test_waiting_for_a_job_is_interrupted_and_cancels_it() -> None:
    client = Client()
    interrupted(lambda: await_result(client))  # type: ignore[arg-type]
    assert client.canceled == [("job", CANCEL_WAIT_S)]
    assert client.told == ["interrupted: canceling the job (interrupt again to leave without waiting for its end)"]


def test_waiting_for_the_end_of_a_job_without_reading_its_results_is_interrupted() -> None:
    results = CollectedResults(Client(), "sink")
    interrupted(results._raise_unless_finished)


def test_a_process_that_waits_for_a_signal_stops() -> None:
    previous = signal.getsignal(signal.SIGTERM)
    try:
        stop_signals = AwaitedSignals(signal.SIGTERM, signal.SIGINT)
        signaled(stop_signals.wait, signal.SIGTERM)
        for _ in range(2):  # before somebody waits, and more than one
            signal.raise_signal(signal.SIGINT)
        stop_signals.wait()
    finally:
        signal.signal(signal.SIGTERM, previous)


def test_a_wait_ends_with_the_future_or_the_timeout() -> None:
    future: Future[int] = Future()
    assert not wait_for(future, 0.0)
    assert not wait_for(future, 0.02)
    threading.Timer(0.02, future.set_result, (1,)).start()
    assert wait_for(future, WAIT_S)
    assert wait_for(future)
    assert wait_for(future, -1.0), "it is done, however late somebody asks"
