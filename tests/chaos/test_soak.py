"""An hour of faults in a cluster with standby masters: the output is exact, and no resource of a service grows.

One service of each kind is never killed, only suspended for a while, so that its resources can be watched all the time.
All other processes are killed, ZooKeeper included.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import psutil
import pytest
from ha_cluster import HaCluster
from nemesis import PLACES
from resource_log import Growth, ResourceLog
from test_exactly_once import INCREMENTAL
from verifying.harness import Run, VerifyingRuns, Workload
from zookeeper_server import ZooKeeperServer

#: The duration of this test in `make chaos`: one hour by default.
SECONDS = float(os.environ.get("CHAOS_SOAK_SECONDS") or os.environ.get("CHAOS_SECONDS") or 3600)
PAUSE_S = (10.0, 60.0)
#: Every TaskExecutor has a task, so the load of watched processes is constant.
PARALLELISM = 3
KEYS = 20
RATE = 100
#: The warm-up time. Afterwards all pools, caches and modules have been created.
WARM_UP_S = min(300.0, SECONDS / 4)
SETTINGS = {
    "execution.checkpointing.interval": "500 ms",
    "execution.checkpointing.num-retained": "2",
    "execution.checkpointing.tolerable-failed-checkpoints": "1000",
    "restart-strategy.fixed-delay.attempts": "1000000",
}
#: The permitted rise of a fitted line over the whole watched time.
MAX_GROWTH = {"KiB": 30 * 1024, "descriptors": 15.0, "threads": 12.0, "files": 60.0}
SURVIVORS = ("dispatcher-1", "resourcemanager-1", "taskexecutor-1")


class SoakNemesis:
    """Causes one fault after the other, each drawn from the seed."""

    def __init__(self, cluster: HaCluster, zookeeper: ZooKeeperServer, run: Run, chooser: random.Random) -> None:
        self._cluster = cluster
        self._zookeeper = zookeeper
        self._run = run
        self._random = chooser
        self._begun_s = time.monotonic()
        self.log: list[str] = []

    def __str__(self) -> str:
        return "\n".join(self.log)

    def disturb(self, seconds: float) -> None:
        """Causes faults. After each of them a checkpoint must complete before the next fault."""
        while (now_s := time.monotonic() - self._begun_s) < seconds:
            pause_s = min(self._random.uniform(*PAUSE_S), max(seconds - now_s, 1.0))
            time.sleep(pause_s)
            faults = [
                self._kill_service,
                self._kill_service,
                self._kill_leading_host,
                self._kill_job_master,
                self._stop_service,
                self._restart_zookeeper,
                self._raise,
                self._raise,
            ]
            begun_s = time.monotonic()
            what = self._random.choice(faults)()
            self._run.wait_for_checkpoints(2)
            took_s = time.monotonic() - begun_s
            self.log.append(f"{begun_s - self._begun_s:8.1f} s: {what}; checkpoints again after {took_s:.1f} s")

    def _mortal(self) -> list[str]:
        kinds = ("dispatcher", "resourcemanager", "taskexecutor")
        return [name for kind in kinds for name in self._cluster.names(kind) if name not in SURVIVORS]

    def _kill_service(self) -> str:
        name = self._random.choice(self._mortal())
        self._cluster.kill(name)
        time.sleep(self._random.uniform(0.0, 8.0))
        self._cluster.start(name)
        return f"kill -9 of {name}"

    def _kill_leading_host(self) -> str:
        """Kills a Dispatcher, leading or not, and its JobMasters."""
        self._cluster.kill_host("dispatcher-2")
        time.sleep(self._random.uniform(0.0, 8.0))
        self._cluster.start("dispatcher-2")
        return "kill -9 of dispatcher-2 and its JobMasters"

    def _kill_job_master(self) -> str:
        job_masters = self._cluster.job_masters()
        if not job_masters:
            return "there is no JobMaster to kill"
        victim = self._random.choice(job_masters)
        try:
            victim.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            return "a JobMaster ended by itself"
        return f"kill -9 of a JobMaster ({victim.pid})"

    def _stop_service(self) -> str:
        """Suspends a service for a shorter or longer time than the heartbeat or session timeout."""
        name = self._random.choice([*self._mortal(), *SURVIVORS])
        seconds = self._random.choice([0.5, 2.0, 8.0])
        self._cluster.stop_process(name)
        time.sleep(seconds)
        self._cluster.continue_process(name)
        return f"{name} stands still for {seconds} s"

    def _restart_zookeeper(self) -> str:
        seconds = self._random.choice([0.0, 2.0, 6.0])
        self._zookeeper.kill()
        time.sleep(seconds)
        self._zookeeper.start()
        return f"ZooKeeper is gone for {seconds} s"

    def _raise(self) -> str:
        place = self._random.choice(sorted(PLACES))
        nth = self._random.randint(1, PLACES[place])
        self._run.faults.arm(place, "raise", nth, self._run.faults.fired(place) + 1)
        return f"an exception at hit {nth} of {place}"


@pytest.mark.timeout(0)
def test_an_hour_of_faults_costs_no_record_and_no_memory(zookeeper: ZooKeeperServer, tmp_path: Path, seed: int) -> None:
    with HaCluster(zookeeper, tmp_path, task_executors=PARALLELISM) as cluster:
        workload = Workload(KEYS, max(20, int(RATE * SECONDS / KEYS)), RATE, waits_for_hurry=True)
        runs = VerifyingRuns(cluster, tmp_path, workload)  # type: ignore[arg-type]
        with runs.started(PARALLELISM, **{**SETTINGS, **INCREMENTAL}) as run:
            run.wait_for_first_checkpoint()
            pids = {name: (lambda name=name: cluster.pid(name)) for name in SURVIVORS}
            directories = {"tmp": tmp_path / "ha-cluster" / "tmp", "storage": tmp_path / "ha-cluster" / "storage"}
            nemesis = SoakNemesis(cluster, zookeeper, run, random.Random(f"{seed} soak"))
            with ResourceLog(pids, directories, WARM_UP_S) as resources:
                try:
                    nemesis.disturb(SECONDS)
                finally:
                    print(f"\n{nemesis}")  # noqa: T201 - shown where the test fails, or with -s
            run.hurry()
            run.wait_for_end()
        runs.assert_exactly_once(run)
        growths = resources.growths()
        for (name, kind), growth in growths.items():
            print(f"{name} {kind}: {growth}")  # noqa: T201 - the figures
        assert {name for name, _ in growths} >= set(SURVIVORS)
        assert not (grown := _grown(growths)), grown


def _grown(growths: dict[tuple[str, str], Growth]) -> list[str]:
    """Returns the resources whose fitted line rises too much and whose last value is above the first."""
    return [
        f"{name}: {kind} {growth}"
        for (name, kind), growth in growths.items()
        if growth.by > MAX_GROWTH[kind] and growth.at_last - growth.at_first > MAX_GROWTH[kind]
    ]
