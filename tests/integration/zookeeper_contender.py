"""The program of `ContenderProcess`: CONFIGURATION JOURNAL."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
import time

from flinkpy.common.errors import HighAvailabilityError, LeadershipLostError
from flinkpy.common.ids import JobID
from flinkpy.common.process import die_with_parent
from flinkpy.highavailability.leader_election import Leadership
from flinkpy.highavailability.zookeeper.services import ZooKeeperHaServices
from flinkpy.security import SecurityContext

JOB = JobID("5f" * 16)


class Contender:
    """Draws ids in each leadership until a draw is refused, even after a revocation."""

    def __init__(self, services: ZooKeeperHaServices, journal: str) -> None:
        self._services = services
        self._journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.election = services.dispatcher_election()

    def start(self) -> None:
        self.election.start(self)

    def grant_leadership(self, fencing_token: str) -> None:
        self._note(granted=fencing_token)
        leadership = self.election.leadership
        assert leadership is not None
        self.election.confirm_leadership(fencing_token, f"{os.getpid()}:1")
        threading.Thread(target=self._draw, args=(leadership,), daemon=True).start()

    def revoke_leadership(self) -> None:
        self._note(revoked=True)

    def _draw(self, leadership: Leadership) -> None:
        try:
            counter = self._services.checkpoint_id_counter(JOB, leadership)
            while True:
                self._note(drawn=counter.get_and_increment(), token=leadership.token)
                time.sleep(0.002)
        except (LeadershipLostError, HighAvailabilityError) as error:
            self._note(refused=type(error).__name__, token=leadership.token)

    def _note(self, **entry: object) -> None:
        os.write(self._journal, json.dumps(entry).encode() + b"\n")


async def main(configuration: dict[str, str], journal: str) -> None:
    security = SecurityContext.of_service(configuration)
    loop = asyncio.get_running_loop()
    services = await asyncio.to_thread(ZooKeeperHaServices.connect, configuration, security, loop, process="dispatcher")
    Contender(services, journal).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    # Each attempt to connect is in the report of a failed test.
    logging.getLogger("flinkpy.highavailability.zookeeper.kazoo").setLevel(logging.INFO)
    die_with_parent()
    asyncio.run(main(json.loads(sys.argv[1]), sys.argv[2]))
