"""Breaks the network between the hosts of a cluster while the verifying job runs, and waits until it runs again.

The promise (R6): the job runs again within 30 s of the end of a fault, and its committed output is that of a run
without faults.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from hosts_cluster import HostsCluster
from job_support import wait_until
from namespaces import Host
from network_switch import Rule
from verifying.harness import Run

#: The job must run again within this time after the end of a fault. Flink's own tests allow six times as much.
RUNNING_AGAIN_S = 30.0
#: The options of the job: it retries after every failure, and calls that hang time out soon.
PERSISTENT = {
    "restart-strategy.fixed-delay.attempts": "100000",
    "restart-strategy.fixed-delay.delay": "200 ms",
    "execution.checkpointing.tolerable-failed-checkpoints": "100000",
    "execution.checkpointing.timeout": "10 s",
    "execution.checkpointing.interval": "300 ms",
}

Fault = Callable[[], None]


class NetworkNemesis:
    """Causes faults. `strike` causes and ends one fault, and checks that the job has survived it."""

    def __init__(self, cluster: HostsCluster, run: Run) -> None:
        self._cluster = cluster
        self._run = run
        self._begun_s = time.monotonic()
        self.log: list[str] = []

    def strike(self, name: str, fault: Fault, seconds: float, end: Fault | None = None) -> None:
        """Causes a fault, ends it after `seconds`, and waits for the job. `end` undoes effects beyond the network."""
        before = self._completed()
        fault()
        time.sleep(seconds)  # the duration of the fault
        self._cluster.network.heal()
        if end is not None:
            end()
        healed_s = time.monotonic()
        restarted = self._cluster.restart_what_died()
        first = self._completed()
        meanwhile = max(0, first - before)
        try:
            # The first checkpoint may have been in progress already. For the second one, every task must run.
            wait_until(lambda: self._is_running(first), f"the job runs again after {name}\n{self}", RUNNING_AGAIN_S)
        finally:
            self.log.append(
                f"{healed_s - self._begun_s:7.1f} s: {name} for {seconds:g} s, {meanwhile} checkpoints in it, "
                f"running again {time.monotonic() - healed_s:.1f} s later"
                + (f"; started again: {', '.join(restarted)}" if restarted else "")
            )

    @property
    def seconds(self) -> float:
        """The seconds since the start of the faults."""
        return time.monotonic() - self._begun_s

    def _is_running(self, first: int) -> bool:
        self._cluster.restart_what_died()
        return self._completed() >= first + 2

    def _completed(self) -> int:
        return self._run._completed()

    def __str__(self) -> str:
        return "\n".join(self.log)


def faults_of_pairs(cluster: HostsCluster, chooser: random.Random) -> list[tuple[str, Fault]]:
    """Returns every fault between every two hosts of the cluster, in an order drawn from the seed."""
    network = cluster.network
    hosts = cluster.hosts
    faults: list[tuple[str, Fault]] = []
    for position, one in enumerate(hosts):
        for other in hosts[position + 1 :]:
            faults += _faults_between(network.rule, one, other, chooser)
    for host in hosts:
        faults.append((f"{host.name} is cut off", lambda host=host: network.isolate(host)))
    chooser.shuffle(faults)
    return faults


def _faults_between(
    rule: Callable[[Host, Host, Rule], None], one: Host, other: Host, chooser: random.Random
) -> list[tuple[str, Fault]]:
    def both(wanted: Rule) -> Fault:
        def break_both() -> None:
            rule(one, other, wanted)
            rule(other, one, wanted)

        return break_both

    cut = Rule(is_cut=True)
    delay = Rule(delay_ms=chooser.choice([50, 300, 1000]), jitter_ms=50)
    loss = Rule(loss=chooser.choice([0.05, 0.2, 0.4]))
    pair = f"{one.name} and {other.name}"
    return [
        (f"cut between {pair}", both(cut)),
        (f"cut from {one.name} to {other.name}", lambda: rule(one, other, cut)),
        (f"cut from {other.name} to {one.name}", lambda: rule(other, one, cut)),
        (f"{delay.delay_ms:g} ms between {pair}", both(delay)),
        (f"loss of {loss.loss:.0%} between {pair}", both(loss)),
    ]
