"""DispatcherSessions: the session of a JobMaster process with its Dispatcher, and with each later leader.

A process without a job belongs to its first Dispatcher and ends with that session. So does a process with a job, unless
high availability is enabled. Then the job continues, and the process sends a hello to each new leading Dispatcher until
one adopts it or tells it to stop.

```
            StartJob                        session lost, another leads
   STANDBY ----------> the job's Dispatcher --------------------------> the next one: hello(job) -> adopted | stop
      |                        |
      +-- stop, session lost --+-- stop (session lost: without high availability) --> the process ends
```

Thread: the event loop of the process. Differs: a JobMaster of Flink is a thread in the process of the Dispatcher and
ends with it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Protocol

from flinkpy._proto import dispatcher_pb2
from flinkpy.common.errors import FlinkError
from flinkpy.highavailability.leader_election import LeaderInformation, LeaderRetrieval
from flinkpy.rpc.peer_connection import Peers

logger = logging.getLogger(__name__)

#: The first and the longest pause before the session is opened again at a Dispatcher that still leads.
FIRST_PAUSE_S = 0.1
LAST_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """The reason why the process ends, and its exit status."""

    reason: str
    status: int


class SessionHolder(Protocol):
    """The callbacks to the process."""

    def hello(self) -> dispatcher_pb2.JobMasterHello: ...

    @property
    def is_done(self) -> bool:
        """True if the process needs no Dispatcher any more: it has no job, or the result of its job was delivered."""
        ...

    @property
    def outlives_its_dispatcher(self) -> bool:
        """True if the process leads a job that can continue under another Dispatcher."""
        ...

    def start_job(self, command: dispatcher_pb2.StartJob) -> None: ...

    def adopted(self, dispatcher: LeaderInformation) -> None:
        """Handles the adoption of the job by this Dispatcher."""
        ...


class DispatcherSessions:
    """Keeps a session with the leading Dispatcher.

    Args:
        address: the address of the first Dispatcher.
        leaders: finds the leading Dispatcher; None: it is always the first one.
    """

    def __init__(self, peers: Peers, holder: SessionHolder, address: str, leaders: LeaderRetrieval | None) -> None:
        self._peers = peers
        self._holder = holder
        self._leaders = leaders
        #: The Dispatcher of the current or last session. Its token is known after its first command.
        self.dispatcher = LeaderInformation(address)
        self._leader: LeaderInformation | None = None
        self._has_changed = asyncio.Event()
        self._lost: LeaderInformation | None = None
        self._stream: asyncio.Task[SessionEnd | None] | None = None

    async def run(self) -> SessionEnd:
        """Runs until a Dispatcher ends this process, or the Dispatcher that it belongs to is lost."""
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
                    return SessionEnd("its job has ended", 0)
                pause_s = FIRST_PAUSE_S if self.dispatcher != opened_to else min(2 * pause_s, LAST_PAUSE_S)
                self.dispatcher = await self._next_leader(pause_s)
        finally:
            if self._leaders is not None:
                self._leaders.close()
            if self._stream is not None:
                self._stream.cancel()
                await asyncio.gather(self._stream, return_exceptions=True)

    async def changed(self, timeout_s: float) -> None:
        """Waits until the leader changes, or for `timeout_s`."""
        waiting = asyncio.ensure_future(self._has_changed.wait())
        await asyncio.wait({waiting}, timeout=timeout_s)
        waiting.cancel()

    def follow(self) -> None:
        """Switches to the current leader if the process leads a job and the session is with another Dispatcher."""
        leader = self._leader
        if leader is None or leader == self.dispatcher or not self._holder.outlives_its_dispatcher:
            return
        if self._stream is not None:
            logger.warning("the Dispatcher at %s leads now, instead of the one at %s", leader.address, self._address)
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
        """Holds one session. Returns None if it was canceled because another Dispatcher leads."""
        self._stream = asyncio.get_running_loop().create_task(self._session(), name="session with the Dispatcher")
        await asyncio.wait({self._stream})
        stream = self._stream
        self._stream = None
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
                        return SessionEnd(command.stop.reason or "the Dispatcher told it to stop", 0)
        except FlinkError as error:
            self._log_loss(f"the session with the Dispatcher at {self._address} is lost: {error}")
            return SessionEnd(f"the Dispatcher is lost: {error}", 1)
        if self._holder.is_done:
            return SessionEnd("the Dispatcher closed the session", 0)
        self._log_loss(f"the Dispatcher at {self._address} closed the session while the job runs")
        return SessionEnd("the Dispatcher closed the session", 1)

    def _log_loss(self, message: str) -> None:
        """Logs the loss of a session. Repetitions for the same leader are logged at debug level."""
        level = logging.DEBUG if self._lost == self.dispatcher else logging.WARNING
        if not self._holder.outlives_its_dispatcher:
            level = logging.ERROR
        self._lost = self.dispatcher
        logger.log(level, "%s", message)

    async def _next_leader(self, pause_s: float) -> LeaderInformation:
        """Waits for a leader and returns it. Waits up to `pause_s` if it is the same as before."""
        if self._leader is not None and self._leader == self.dispatcher:
            await self.changed(pause_s)
        while self._leader is None:
            await self._has_changed.wait()
        return self._leader
