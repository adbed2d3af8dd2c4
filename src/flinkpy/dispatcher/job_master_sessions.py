"""JobMasterSessions: runs the effects of the JobMasterPool on child processes and the streams to them.

A JobMaster process opens a stream when it starts. The Dispatcher sends commands on it. When the stream ends, on either
side, the process has to stop.

Thread: the Dispatcher's loop.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.ids import JobID
from flinkpy.dispatcher import job_master_pool as pools
from flinkpy.dispatcher.job_master_pool import JobMasterPool

logger = logging.getLogger(__name__)

#: A JobMaster imports its modules in a second, on a busy machine in many.
START_TIMEOUT_MS = 60_000

#: How long a JobMaster on another host may take to remove its checkpoints after its job has ended.
CLEANUP_TIME_MS = 15_000


class JobMasterProcesses(Protocol):
    """The interface of JobMasterLauncher; tests use a fake."""

    def spawn(self, process_id: str, dispatcher_address: str) -> None: ...

    def process_id_of(self, pid: int) -> str | None: ...

    def stop(self, process_id: str, *, at_once: bool) -> None: ...

    def leave(self) -> None:
        """Leaves the children running. Their exits are not reported any more."""
        ...

    async def close(self) -> None: ...


class JobMasterEvents(Protocol):
    """The events that JobMasterSessions reports."""

    def start_command(self, job_id: JobID) -> pb.StartJob | None:
        """Returns the command for the process that gets the job; None if the job needs none any more."""
        ...

    def job_master_hello(self, hello: pb.JobMasterHello) -> bool:
        """Handles the hello of a process that leads a job. Returns whether it is accepted."""
        ...

    def job_master_disconnected(self, job_id: JobID) -> None:
        """Handles a broken session. With high availability the JobMaster may open another one."""
        ...

    def job_master_exited(self, job_id: JobID, job_master_id: str) -> None:
        """Handles the end of the process that was given this leadership."""
        ...

    def job_master_lost(self, job_id: JobID, reason: str) -> None: ...

    def job_master_gone(self, job_id: JobID) -> None:
        """Handles the end of a released job's process."""
        ...

    def job_master_cannot_start(self, job_id: JobID, reason: str) -> None: ...


@dataclass(slots=True, eq=False)
class JobMasterSession:
    """The session of a process. At most a start or adoption, a stop and the end mark are queued."""

    process_id: str
    pid: int
    commands: asyncio.Queue[pb.JobMasterCommand | None] = field(default_factory=asyncio.Queue)

    def stop(self, reason: str) -> None:
        self.commands.put_nowait(pb.JobMasterCommand(stop=pb.StopJobMaster(reason=reason)))
        self.end()

    def end(self) -> None:
        """Ends the stream without a command."""
        self.commands.put_nowait(None)


class JobMasterSessions:
    def __init__(
        self,
        *,
        num_standbys: int,
        events: JobMasterEvents,
        make_launcher: Callable[[Callable[[str, str], None]], JobMasterProcesses],
        schedule: Callable[[float, Callable[[], None]], object],
        dispatcher_id: str = "",
        is_highly_available: bool = False,
    ) -> None:
        # Processes of a former term may still run, so the names of different terms must differ.
        name = f"jobmaster-{dispatcher_id[:8]}" if is_highly_available else "jobmaster"
        self.pool = JobMasterPool(num_standbys, name, outlive_sessions=is_highly_available)
        self._dispatcher_id = dispatcher_id
        #: the leadership that each process was given last
        self._leaderships: dict[str, tuple[JobID, str]] = {}
        self._events = events
        self._launcher = make_launcher(self._process_exited)
        self._schedule = schedule
        self._sessions: dict[str, JobMasterSession] = {}
        self._num_opened = 0
        self._is_left = False
        self._dispatcher_address = ""

    def start(self, dispatcher_address: str) -> None:
        """Starts the standbys, which report to `dispatcher_address`."""
        self._dispatcher_address = dispatcher_address
        self._run(self.pool.start())

    def request(self, job_id: JobID) -> None:
        self._run(self.pool.request(job_id))

    def withdraw(self, job_id: JobID) -> None:
        self.pool.withdraw(job_id)

    def release(self, job_id: JobID) -> None:
        self._run(self.pool.release(job_id))

    def abandon(self, job_id: JobID, reason: str) -> None:
        self._run(self.pool.abandon(job_id, reason))

    def open(self, hello: pb.JobMasterHello) -> JobMasterSession:
        """Opens the session of a process."""
        child = self._launcher.process_id_of(hello.pid)
        # A process on another host may have the same pid, but only a child knows the name that it was given.
        is_child = child is not None and (child == hello.resource_id or hello.host in (socket.gethostname(), ""))
        self._num_opened += 1
        process_id = child if child is not None and is_child else f"{hello.resource_id}#{self._num_opened}"
        session = JobMasterSession(process_id, hello.pid)
        if hello.job_master_id:
            self._adopt(session, hello, is_child=is_child)
            return session
        if process_id in self._sessions:
            session.stop("this process has another session")
            return session
        self._sessions[process_id] = session
        wanted = JobID(hello.job_id) if hello.job_id else None
        logger.info("JobMaster process %s (pid %d on %s) is ready", process_id, hello.pid, hello.host)
        self._run(self.pool.session_opened(process_id, is_child=is_child, wanted_job=wanted))
        return session

    def _adopt(self, session: JobMasterSession, hello: pb.JobMasterHello, *, is_child: bool) -> None:
        if not self._events.job_master_hello(hello):
            session.stop(f"job {hello.job_id} has ended, or another JobMaster leads it")
            return
        logger.info("job %s is led by %s (pid %d on %s)", hello.job_id, session.process_id, hello.pid, hello.host)
        job_id = JobID(hello.job_id)
        former = [name for name in self._sessions if name == session.process_id or self.pool.job_of(name) == job_id]
        for process_id in former:
            self._sessions.pop(process_id).end()
        self._sessions[session.process_id] = session
        session.commands.put_nowait(pb.JobMasterCommand(adopted=pb.JobMasterAdopted(dispatcher_id=self._dispatcher_id)))
        self._run(self.pool.session_adopted(session.process_id, job_id, is_child=is_child))

    def closed(self, session: JobMasterSession) -> None:
        """Handles the end of a stream."""
        if self._sessions.get(session.process_id) is session:
            del self._sessions[session.process_id]
            self._run(self.pool.session_closed(session.process_id))

    async def close(self, reason: str) -> None:
        """Ends every process and stream, and returns when all children have ended."""
        self._run(self.pool.close())
        for session in self._sessions.values():
            session.stop(reason)
        self._sessions.clear()
        await self._launcher.close()

    def leave(self) -> None:
        """Stops because another Dispatcher leads. JobMasters with a job keep running, the others end."""
        self._run(self.pool.leave())
        for session in self._sessions.values():
            session.end()
        self._sessions.clear()
        self._is_left = True
        self._launcher.leave()

    def _process_exited(self, process_id: str, ending: str) -> None:
        leadership = self._leaderships.pop(process_id, None)
        if leadership is not None:
            self._events.job_master_exited(*leadership)
        if self._is_left:
            return
        self._run(self.pool.process_exited(process_id, ending))

    def _run(self, effects: Iterable[pools.PoolEffect]) -> None:
        for effect in effects:
            match effect:
                case pools.SpawnProcess():
                    self._spawn(effect.process_id)
                case pools.AssignJob():
                    self._assign(effect.process_id, effect.job_id)
                case pools.EndProcess():
                    session = self._sessions.pop(effect.process_id, None)
                    if session is not None:
                        session.stop(effect.reason)
                    self._launcher.stop(effect.process_id, at_once=effect.at_once)
                case pools.JobMasterDisconnected():
                    self._events.job_master_disconnected(effect.job_id)
                case pools.JobMasterLost():
                    self._events.job_master_lost(effect.job_id, effect.reason)
                case pools.JobMasterGone():
                    self._gone(effect)
                case pools.CannotStart():
                    self._events.job_master_cannot_start(effect.job_id, effect.reason)
                case pools.ReplenishAfter():
                    self._schedule(effect.delay_ms, lambda: self._run(self.pool.replenish()))

    def _gone(self, effect: pools.JobMasterGone) -> None:
        if effect.is_certain:
            self._events.job_master_gone(effect.job_id)
        else:
            self._schedule(CLEANUP_TIME_MS, lambda: self._events.job_master_gone(effect.job_id))

    def _spawn(self, process_id: str) -> None:
        self._launcher.spawn(process_id, self._dispatcher_address)
        self._schedule(START_TIMEOUT_MS, lambda: self._run(self.pool.start_timed_out(process_id)))

    def _assign(self, process_id: str, job_id: JobID) -> None:
        session = self._sessions.get(process_id)
        command = None if session is None else self._events.start_command(job_id)
        if session is None or command is None:
            self._run(self.pool.release(job_id))
        else:
            logger.info("job %s is led by %s (pid %d)", job_id, process_id, session.pid)
            self._leaderships[process_id] = (job_id, command.job_master_id)
            session.commands.put_nowait(pb.JobMasterCommand(start=command))
