"""Helpers for tests of elections and stores on real ZooKeeper servers."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from job_support import wait_until

from flinkpy.common.ids import JobID
from flinkpy.highavailability.leader_election import LeaderElection, LeaderInformation, Leadership
from flinkpy.highavailability.zookeeper.services import ZooKeeperHaServices
from flinkpy.security import SecurityContext

JOB = JobID("5f" * 16)
WAIT_S = 60.0


def ha_configuration(quorum: str, storage: Path, **client: str) -> dict[str, str]:
    """Returns the high-availability options of a cluster.

    Args:
        client: options below `high-availability.zookeeper.client.`, with `_` for `-`.
    """
    entries = {"session-timeout": "4 s", "connection-timeout": "10 s", "retry-wait": "100 ms", "max-retry-wait": "1 s"}
    entries.update({key.replace("_", "-"): value for key, value in client.items()})
    return {
        "high-availability.type": "zookeeper",
        "high-availability.cluster-id": f"/{storage.name}",
        "high-availability.storageDir": str(storage),
        "high-availability.zookeeper.quorum": quorum,
        **{f"high-availability.zookeeper.client.{key}": value for key, value in entries.items()},
    }


class RecordingContender:
    """A contender that records its leadership events, for which tests can wait."""

    def __init__(self, election: LeaderElection) -> None:
        self.election = election
        self.events: list[str] = []
        self.leaderships: list[Leadership] = []
        self._changed = asyncio.Event()

    def grant_leadership(self, fencing_token: str) -> None:
        leadership = self.election.leadership
        assert leadership is not None and leadership.token == fencing_token
        self.leaderships.append(leadership)
        self._note("granted")

    def revoke_leadership(self) -> None:
        assert self.election.leadership is None
        self._note("revoked")

    def _note(self, event: str) -> None:
        self.events.append(event)
        self._changed.set()

    async def wait_for(self, *events: str) -> Leadership:
        """Waits until exactly these events have arrived, and returns the last leadership."""
        async with asyncio.timeout(WAIT_S):
            while self.events != list(events):
                assert self.events == list(events[: len(self.events)]), self.events
                self._changed.clear()
                await self._changed.wait()
        return self.leaderships[-1]


def stand(election: LeaderElection) -> RecordingContender:
    contender = RecordingContender(election)
    election.start(contender)
    return contender


class RecordingListener:
    """A listener of a leader retrieval that records all leaders."""

    def __init__(self) -> None:
        self.leaders: list[LeaderInformation | None] = []
        self._changed = asyncio.Event()

    def __call__(self, leader: LeaderInformation | None) -> None:
        self.leaders.append(leader)
        self._changed.set()

    async def wait_for(self, condition: Callable[[LeaderInformation | None], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not self.leaders or not condition(self.leaders[-1]):
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def ha_services(
    configuration: dict[str, str], security: SecurityContext, process: str = "dispatcher"
) -> AsyncIterator[ZooKeeperHaServices]:
    services = await asyncio.to_thread(
        ZooKeeperHaServices.connect, configuration, security, asyncio.get_running_loop(), process=process
    )
    try:
        yield services
    finally:
        await asyncio.to_thread(services.close)


class ContenderProcess:
    """A process that stands for election and, while it leads, draws checkpoint ids as fast as it can.

    It writes its actions to a file, one JSON object per line: `{"granted": token}`, `{"revoked": true}`, `{"drawn": id,
    "token": token}`, `{"refused": type, "token": token}`.
    """

    def __init__(self, name: str, directory: Path, configuration: dict[str, str], secret_file: Path) -> None:
        self.name = name
        self._journal = directory / f"{name}.journal"
        self._log = directory / f"{name}.log"
        program = Path(__file__).with_name("zookeeper_contender.py")
        arguments = [json.dumps({**configuration, "security.secret-file": str(secret_file)}), str(self._journal)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([sys.executable, str(program), *arguments], stdout=log, stderr=log)

    @property
    def journal(self) -> list[dict[str, Any]]:
        if not self._journal.exists():
            return []
        lines = self._journal.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def entries(self, kind: str) -> list[dict[str, Any]]:
        return [entry for entry in self.journal if kind in entry]

    @property
    def last_drawn(self) -> int:
        """The highest id that it has drawn, or 0 before the first."""
        return max((entry["drawn"] for entry in self.entries("drawn")), default=0)

    def wait_until_drawing(self, but_not: str = "") -> str:
        """Waits until it has drawn an id with a token other than `but_not`, and returns the token."""

        def token() -> str:
            self.check_running()
            drawn = self.entries("drawn")
            return drawn[-1]["token"] if drawn and drawn[-1]["token"] != but_not else ""

        try:
            found: str = wait_until(token, f"{self.name} leads and draws", WAIT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.report}") from None
        return found

    def check_running(self) -> None:
        assert self._process.poll() is None, f"{self.name} has ended: {self.report}"

    @property
    def report(self) -> str:
        """A summary of its last actions for error messages."""
        return f"{self.name}: journal: {self.journal[-5:]}; log: {self._log.read_text()[-3000:]}"

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)
