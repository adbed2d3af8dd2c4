"""Nemesis: causes faults in all surroundings of a simulated cluster, one or several at a time."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable

from simulated_processes import SimulatedProcess
from simulated_services import ServiceCluster
from simulated_world import ZOOKEEPER


class Nemesis:
    def __init__(self, cluster: ServiceCluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._network = cluster.network
        self._random = cluster.random
        self._tasks: set[asyncio.Task[None]] = set()
        self._disk_until_s = 0.0
        cluster.loop.disk_of = self._disk

    async def disturb(self, for_s: float) -> None:
        """Causes faults for a while. The cluster's `heal` ends those that remain."""
        faults: list[tuple[float, Callable[[], None]]] = [
            (3, self._fail_task),
            (2, self._kill_executor),
            (2, self._kill_job_master),
            (2, self._kill_service),
            (2, self._cut_pair),
            (1, self._isolate),
            (1, self._clog),
            (1, self._bad_disk),
            (1, self._dies_in_fsync),
            (1, self._move_clock),
        ]
        if self._cluster.is_highly_available:
            faults += [
                (2, self._kill_leader_host),
                (2, self._cut_from_zookeeper),
                (1, self._expire_session),
                (1, self._stop_zookeeper),
                (2, self._flicker),
            ]
        weights, kinds = zip(*faults, strict=True)
        until_s = self._cluster.loop.time() + for_s
        while self._cluster.loop.time() < until_s:
            await asyncio.sleep(self._random.uniform(0.2, 3.0))
            self._cluster.raise_errors()
            fault = self._random.choices(kinds, weights)[0]
            self._network.trace.note("fault", fault.__name__)
            self._network.num_faults += 1
            fault()
        for task in self._tasks:
            task.cancel()

    def _after(self, delay_s: float, action: Callable[[], None]) -> None:
        async def later() -> None:
            await asyncio.sleep(delay_s)
            action()

        task = self._cluster.loop.create_task(later())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def _duration_s(self) -> float:
        """Returns a random duration, from shorter than all timeouts of the cluster to longer than all of them."""
        return self._random.choice([0.3, 1.0, 3.0, 5.0, 8.0]) * self._random.uniform(0.8, 1.2)

    # Processes

    def _fail_task(self) -> None:
        tasks = self._cluster.plane.living()
        if tasks:
            self._random.choice(tasks).fail()

    def _kill_executor(self) -> None:
        self._cluster.kill(self._random.choice(self._cluster.executors))

    def _kill_job_master(self) -> None:
        job_masters = self._cluster.job_masters()
        if job_masters:
            self._random.choice(job_masters).kill()

    def _kill_service(self) -> None:
        self._cluster.kill(self._random.choice([*self._cluster.dispatchers, *self._cluster.resource_managers]))

    def _kill_leader_host(self) -> None:
        """Kills a Dispatcher and its JobMasters at once."""
        host = self._random.choice(self._cluster.dispatchers)
        for process in self._cluster.job_masters():
            if process.host == host:
                process.kill()
        self._cluster.kill(host)

    def _dies_in_fsync(self) -> None:
        self._world.fsync_death = 0.02
        self._after(2.0, self._no_death)

    def _no_death(self) -> None:
        self._world.fsync_death = 0.0

    # The network

    def _cut(self, pairs: Iterable[tuple[str, str]], for_s: float) -> None:
        pairs = [pair for pair in pairs if pair[0] != pair[1]]
        self._network.cut.update(pairs)
        self._world.connect_zookeeper()

        def join() -> None:
            self._network.cut.difference_update(pairs)
            self._world.connect_zookeeper()

        self._after(for_s, join)

    def _cut_pair(self) -> None:
        one, other = self._random.sample(self._cluster.hosts, 2)
        both = [(one, other), (other, one)]
        self._cut(both if self._random.random() < 0.6 else both[:1], self._duration_s)

    def _pairs_of(self, host: str) -> list[tuple[str, str]]:
        others = [*self._cluster.hosts, ZOOKEEPER, "client"]
        return [pair for other in others for pair in ((host, other), (other, host))]

    def _isolate(self) -> None:
        self._cut(self._pairs_of(self._random.choice(self._cluster.hosts)), self._duration_s)

    def _clog(self) -> None:
        """Disconnects some hosts one after the other, and reconnects them in another order."""
        hosts = self._random.sample(self._cluster.hosts, self._random.randint(2, 4))
        at_s = 0.0
        for host in hosts:
            at_s += self._random.uniform(0.0, 1.0)
            self._after(at_s, lambda host=host: self._network.cut.update(self._pairs_of(host)))
            self._after(at_s, self._world.connect_zookeeper)
        self._random.shuffle(hosts)
        at_s += self._duration_s
        for host in hosts:
            at_s += self._random.uniform(0.0, 1.0)
            self._after(at_s, lambda host=host: self._network.cut.difference_update(self._pairs_of(host)))
            self._after(at_s, self._world.connect_zookeeper)

    # ZooKeeper

    def _cut_from_zookeeper(self) -> None:
        host = self._random.choice([*self._cluster.dispatchers, *self._cluster.resource_managers])
        self._cut([(host, ZOOKEEPER), (ZOOKEEPER, host)], self._duration_s)

    def _expire_session(self) -> None:
        """Expires the session of a process that notices it."""
        clients = [made for of, made in self._world.clients if not of.is_dead and made.connected and not made.is_cut]
        if clients and self._world.zookeeper.is_up:
            client = self._random.choice(clients)
            client.is_slow_to_notice = True  # a session expires this early only if nothing depends on its timeout
            self._world.zookeeper.expire(client.client_id[0])

    def _stop_zookeeper(self) -> None:
        if self._world.zookeeper.is_up:
            self._world.zookeeper.stop()
            self._after(self._duration_s, self._world.zookeeper.start)

    def _flicker(self) -> None:
        """Breaks the connection during some requests of one process, before or after they were carried out."""
        living = [made for of, made in self._world.clients if not of.is_dead]
        if living:
            client = self._random.choice(living)
            client.fault_probability = 0.3
            self._after(3.0, lambda: setattr(client, "fault_probability", 0.0))

    # The machine

    def _bad_disk(self) -> None:
        self._disk_until_s = self._cluster.loop.time() + self._duration_s

    def _disk(self, process: SimulatedProcess) -> None:
        if "/" in process.name and process.name not in self._cluster.checks.has_begun:
            return  # a job that cannot be started has failed, and its cleanup follows
        if self._network.is_faulty and self._cluster.loop.time() < self._disk_until_s and self._random.random() < 0.1:
            raise OSError(errno.ENOSPC, "No space left on device")

    def _move_clock(self) -> None:
        host = self._random.choice(self._cluster.hosts)
        self._world.clock_offset_s[host] = self._random.choice([-3600.0, -5.0, 5.0, 3600.0])
