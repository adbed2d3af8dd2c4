"""Elections over a simulated ZooKeeper end with a leader, in whatever order answers and events arrive."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from simulated_zookeeper import SimulatedZooKeeper
from simulated_zookeeper_client import SimulatedZooKeeperClient
from virtual_time import VirtualTimeLoop

from flinkpy.highavailability.zookeeper import client as zookeeper_client
from flinkpy.highavailability.zookeeper.client import ZooKeeperClient
from flinkpy.highavailability.zookeeper.leader_election import ZooKeeperLeaderElection
from flinkpy.highavailability.zookeeper.settings import ZooKeeperSettings
from flinkpy.security import ClusterSecret, SecurityContext

CONFIGURATION = {
    "high-availability.type": "zookeeper",
    "high-availability.zookeeper.quorum": "simulated:2181",
    "high-availability.zookeeper.client.session-timeout": "4 s",
}
SECURITY = SecurityContext.of_secret(ClusterSecret(bytes(range(32))))
SEEDS = 200
CHANGES = 6
CONTENDERS = 4
#: Longer than the session timeout, a reconnection and the pause before a failed request is repeated.
SETTLING_S = 15.0


class Contender:
    """A process with one election."""

    def __init__(self) -> None:
        self.client = ZooKeeperClient(ZooKeeperSettings.of(CONFIGURATION, SECURITY), asyncio.get_running_loop())
        self.client.connect()
        self._election = ZooKeeperLeaderElection(asyncio.get_running_loop(), self.client, "/flink/leader/dispatcher")
        self.leads = False
        self._election.start(self)

    def grant_leadership(self, fencing_token: str) -> None:
        self.leads = True
        self._election.confirm_leadership(fencing_token, "host:1")

    def revoke_leadership(self) -> None:
        self.leads = False

    def leave(self) -> None:
        self._election.close()

    def die(self) -> None:
        kazoo = self.client._kazoo
        kazoo.stop()
        kazoo.die()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_one_of_the_remaining_contenders_leads_after_others_left_in_quick_succession(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        zookeeper = SimulatedZooKeeper(loop, random)

        def kazoo_client(*_: object, timeout: float, **__: object) -> SimulatedZooKeeperClient:
            return SimulatedZooKeeperClient(zookeeper, loop, random, timeout)

        monkeypatch.setattr(zookeeper_client, "KazooClient", kazoo_client)
        contenders = [Contender() for _ in range(CONTENDERS)]
        for _ in range(CHANGES):
            # The changes come while the contenders still handle the one before.
            await asyncio.sleep(random.choice([0.002, 0.004, 0.006, 0.008, 0.012, 0.016]))
            leaving = contenders.pop(random.randrange(len(contenders)))
            random.choice([leaving.leave, leaving.die])()
            contenders.append(Contender())
        await asyncio.sleep(SETTLING_S)
        assert [contender.leads for contender in contenders].count(True) == 1

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(scenario())
