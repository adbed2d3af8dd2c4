"""Nemesis: causes faults in a running cluster again and again, drawn from a seed.

The seed determines each fault and the number of checkpoints before it. The exact moment of a fault depends on the
machine. So a seed repeats the faults of a run, but not its every step.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import defaultdict

import psutil
from clusters import RunningCluster
from verifying.harness import Run

#: The places of the verifying job that can raise an exception, each with the highest hit at which it is raised.
PLACES = {
    "process": 200,
    "timer": 20,
    "notify": 3,
    "snapshot": 3,
    "sink_snapshot": 3,
    "prepare_commit": 3,
    "restore": 1,
}

#: The most deaths of a service within a minute. After more of them, the supervisor would not restart it any more.
MAX_KILLS = 4
KILLS_WINDOW_S = 60.0

#: A checkpoint must complete within this time after a fault, even on a loaded machine.
PATIENCE_S = 60.0
#: The time between two faults.
MAX_PAUSE_S = 2.0


class Nemesis:
    """Causes faults, one per call of `strike`. It is a context manager whose end resumes suspended processes."""

    def __init__(self, cluster: RunningCluster, run: Run, chooser: random.Random) -> None:
        self._cluster = cluster
        self._run = run
        self._random = chooser
        self._kills: dict[str, list[float]] = defaultdict(list)
        self._stopped: list[tuple[float, psutil.Process]] = []
        self._begun_s = time.monotonic()
        self._latest = 0
        self.log: list[str] = []

    def __enter__(self) -> Nemesis:
        return self

    def __exit__(self, *exception: object) -> None:
        for _, process in self._stopped:
            _signal(process, signal.SIGCONT)

    def disturb(self, seconds: float) -> None:
        """Causes a fault every 2 to 10 checkpoints, or after some seconds if checkpoints take long."""
        while time.monotonic() - self._begun_s < seconds:
            self.wait_for_checkpoints(self._random.randint(2, 10), MAX_PAUSE_S)
            self.strike()

    def wait_for_checkpoints(self, more: int, pause_s: float = PATIENCE_S) -> None:
        """Waits for `more` checkpoints. After `pause_s` seconds, one checkpoint is enough."""
        begun_s, first = time.monotonic(), self._completed()
        while (done := self._completed() - first) < more:
            waited_s = time.monotonic() - begun_s
            if done and waited_s > pause_s:
                return
            assert waited_s < PATIENCE_S, f"{done} checkpoints in {PATIENCE_S} s\n{self}"
            self._let_go_on()
            time.sleep(0.02)

    def strike(self) -> None:
        faults = [
            self._raise,
            self._kill_task_executor,
            self._kill_job_master,
            self._kill_service,
            self._stop_task_executor,
            self._stop_job_master,
        ]
        what = self._random.choice(faults)()
        self.log.append(f"{time.monotonic() - self._begun_s:7.2f} s, after checkpoint {self._latest}: {what}")

    def __str__(self) -> str:
        return "\n".join(self.log)

    def _raise(self) -> str:
        place = self._random.choice(sorted(PLACES))
        nth = self._random.randint(1, PLACES[place])
        self._run.faults.arm(place, "raise", nth, self._run.faults.fired(place) + 1)
        return f"an exception at hit {nth} of {place}"

    def _kill_task_executor(self) -> str:
        return self._kill(self._random.choice([one.spec.name for one in self._cluster.task_executors]))

    def _kill_service(self) -> str:
        return self._kill(self._random.choice(["dispatcher", "resourcemanager"]))

    def _kill(self, name: str) -> str:
        now_s = time.monotonic()
        recent = [at_s for at_s in self._kills[name] if now_s - at_s < KILLS_WINDOW_S]
        if len(recent) >= MAX_KILLS:
            return f"{name} is spared"
        self._kills[name] = [*recent, now_s]
        popen = self._cluster.service(name).popen
        popen.send_signal(signal.SIGKILL)
        return f"kill -9 of {name} ({popen.pid})"

    def _kill_job_master(self) -> str:
        process = self._some_job_master()
        if process is None:
            return "there is no JobMaster to kill"
        _signal(process, signal.SIGKILL)
        return f"kill -9 of a JobMaster ({process.pid})"

    def _stop_task_executor(self) -> str:
        service = self._random.choice(self._cluster.task_executors)
        return f"{service.spec.name} {self._stop(service.popen.pid)}"

    def _stop_job_master(self) -> str:
        process = self._some_job_master()
        return "there is no JobMaster to stop" if process is None else f"a JobMaster {self._stop(process.pid)}"

    def _stop(self, pid: int) -> str:
        """Suspends a process for a shorter or longer time than the heartbeat timeout."""
        seconds = self._random.choice([0.3, 1.0, 4.0])
        try:
            process = psutil.Process(pid)
        except psutil.NoSuchProcess:
            return "has gone"
        _signal(process, signal.SIGSTOP)
        self._stopped.append((time.monotonic() + seconds, process))
        return f"({pid}) stands still for {seconds} s"

    def _let_go_on(self) -> None:
        now_s = time.monotonic()
        for entry in list(self._stopped):
            if entry[0] <= now_s:
                self._stopped.remove(entry)
                _signal(entry[1], signal.SIGCONT)

    def _some_job_master(self) -> psutil.Process | None:
        try:
            pids = self._cluster.job_master_pids()
            return psutil.Process(self._random.choice(pids)) if pids else None
        except psutil.NoSuchProcess:
            return None

    def _completed(self) -> int:
        """Returns the newest completed checkpoint that was ever reported. A JobMaster that starts reports none."""
        try:
            self._latest = max(self._latest, self._run.statistics().latest_completed.checkpoint_id)
        except Exception:  # noqa: BLE001 - whatever a client may hear while services come back
            pass
        return self._latest


def _signal(process: psutil.Process, number: int) -> None:
    """Sends a signal to the intended process, and not to a later one with the same id."""
    try:
        if process.is_running():
            os.kill(process.pid, number)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return
