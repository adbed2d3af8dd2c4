"""DispatcherSessions: the session of a JobMaster process with its Dispatcher, and with whichever leads after that one.

A process that has no job belongs to the Dispatcher it was told of, and ends with that session. So does one that leads a
job, unless masters are highly available: then the job goes on, and the process offers itself to every Dispatcher that
leads from then on, until one takes it or tells it to stop.

```
            StartJob                        session lost, another leads
   STANDBY ----------> the job's Dispatcher --------------------------> the next one: hello(job) -> adopted | stop
      |                        |
      +-- stop, session lost --+-- stop (session lost: where masters are not highly available) --> the process ends
```

Thread: the process's loop. Differs: Flink's JobMasters are threads of a Dispatcher's process, and end with it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Protocol

from flinkpy._proto import dispatcher_pb2
from flinkpy.common.errors import FlinkError
from flinkpy.highavailability.leader_election import LeaderInformation, LeaderRetrieval
from flinkpy.rpc.peers import Peers

logger = logging.getLogger(__name__)

#: Pauses before a Dispatcher that did not take the session is asked again, where it leads still; the last is repeated.
FIRST_PAUSE_S = 0.1
LAST_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """Why a process that is not needed, or lost its Dispatcher, ends, and with which status."""

    reason: str
    status: int


class SessionHolder(Protocol):
    """What the process is asked and told."""

    def hello(self) -> dispatcher_pb2.JobMasterHello: ...

    @property
    def is_done(self) -> bool:
        """There was a job, and a Dispatcher has taken its result."""
        ...

    @property
    def outlives_its_dispatcher(self) -> bool:
        """It leads a job that another Dispatcher may go on with."""
        ...

    def start_job(self, command: dispatcher_pb2.StartJob) -> None: ...

    def adopted(self, dispatcher: LeaderInformation) -> None:
        """This Dispatcher is the job's from now on."""
        ...


class DispatcherSessions:
    """Args:
    address: of the first Dispatcher.
    leaders: who leads; None where that is always the first one.
    """

    def __init__(self, peers: Peers, holder: SessionHolder, address: str, leaders: LeaderRetrieval | None) -> None:
        self._peers = peers
        self._holder = holder
        self._leaders = leaders
        #: The one that the session is with, or was last. Its token is not known before it has sent a command.
        self.dispatcher = LeaderInformation(address)
        self._leader: LeaderInformation | None = None
        self._has_changed = asyncio.Event()
        self._lost: LeaderInformation | None = None
        self._stream: asyncio.Task[SessionEnd | None] | None = None

    async def run(self) -> SessionEnd:
        """Until a Dispatcher ends this process, or the one that it belongs to is lost."""
        if self._leaders is not None:
            self._leaders.start(self._leader_changed)
        try:
            pause_s = FIRST_PAUSE_S
            while True:
                opened_to = self.dispatcher
                end = await self._hold_session()
                if end is not None and not (end.status and self._holder.outlives_its_dispatcher):
                    return end
                if self._holder.is_done:
                    return SessionEnd("its job is over", 0)
                pause_s = FIRST_PAUSE_S if self.dispatcher != opened_to else min(2 * pause_s, LAST_PAUSE_S)
                self.dispatcher = await self._next_leader(pause_s)
        finally:
            if self._leaders is not None:
                self._leaders.close()
            if self._stream is not None:
                self._stream.cancel()
                await asyncio.gather(self._stream, return_exceptions=True)

    async def changed(self, timeout_s: float) -> None:
        """Returns when the leader has changed, or after that time."""
        waiting = asyncio.ensure_future(self._has_changed.wait())
        await asyncio.wait({waiting}, timeout=timeout_s)
        waiting.cancel()

    def follow(self) -> None:
        """The process leads a job from now on; another Dispatcher may have come to lead before it did."""
        leader = self._leader
        if leader is None or leader == self.dispatcher or not self._holder.outlives_its_dispatcher:
            return
        if self._stream is not None:
            logger.warning("the Dispatcher at %s leads now, and not the one at %s", leader.address, self._address)
            self._stream.cancel()

    def _leader_changed(self, leader: LeaderInformation | None) -> None:
        self._leader = leader
        self._has_changed.set()
        self._has_changed = asyncio.Event()
        self.follow()

    @property
    def _address(self) -> str:
        return self.dispatcher.address

    async def _hold_session(self) -> SessionEnd | None:
        """None where it was given up because another one leads."""
        self._stream = asyncio.get_running_loop().create_task(self._session(), name="session with the Dispatcher")
        await asyncio.wait({self._stream})
        stream, self._stream = self._stream, None
        return None if stream.cancelled() else stream.result()

    async def _session(self) -> SessionEnd:
        gateway = self._peers.gateway("Dispatcher", self._address)
        try:
            async for command in gateway.open_job_master_session(self._holder.hello()):
                match command.WhichOneof("command"):
                    case "start":
                        self.dispatcher = LeaderInformation(self._address, command.start.dispatcher_id or None)
                        self._holder.start_job(command.start)
                    case "adopted":
                        self.dispatcher = LeaderInformation(self._address, command.adopted.dispatcher_id or None)
                        self._lost = None
                        self._holder.adopted(self.dispatcher)
                    case "stop":
                        return SessionEnd(command.stop.reason or "the Dispatcher asked for it", 0)
        except FlinkError as error:
            self._log_loss(f"the session with the Dispatcher at {self._address} is lost: {error}")
            return SessionEnd(f"the Dispatcher is lost: {error}", 1)
        if self._holder.is_done:
            return SessionEnd("the Dispatcher closed the session", 0)
        self._log_loss(f"the Dispatcher at {self._address} closed the session while the job runs")
        return SessionEnd("the Dispatcher closed the session", 1)

    def _log_loss(self, message: str) -> None:
        """Until another one leads the same is said again and again."""
        level = logging.DEBUG if self._lost == self.dispatcher else logging.WARNING
        if not self._holder.outlives_its_dispatcher:
            level = logging.ERROR
        self._lost = self.dispatcher
        logger.log(level, "%s", message)

    async def _next_leader(self, pause_s: float) -> LeaderInformation:
        """The one that leads, at once where it is another one than before."""
        if self._leader is not None and self._leader == self.dispatcher:
            await self.changed(pause_s)
        while self._leader is None:
            await self._has_changed.wait()
        return self._leader
