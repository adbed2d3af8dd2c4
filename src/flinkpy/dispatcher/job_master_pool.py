"""JobMasterPool: JobMaster processes from their start to their end, and which job each has.

```
              hello                 job                     result stored
   STARTING ---------> STANDBY ------------> BUSY(job) ---------------------> ENDING --> gone
       |                  |                      |                              ^
       +-- exit, late ----+--- exit, session ----+--- exit, session broke ------+   (BUSY: the job is lost)
```

* A job takes a standby, which is imported already; another is started in its place a little later, so that its start
  does not compete with the job's.
* Without a standby the job waits in line, and the next process to say hello gets it.
* A process may also come from outside (started by hand, on another host): it says hello like a child does.
* Processes that end before they say hello are start failures. After `MAX_START_FAILURES` in a row the jobs in line
  fail with the reason, and the next start waits, longer each time.
* One process runs one job: it is never used again.
* With high availability a process outlives its session: one that has a job is missed, not lost, when its session
  breaks; it may say hello again, to this Dispatcher or the next, and brings its job along.

Pure. Differs: Flink runs its JobMasters as threads of the Dispatcher's process.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from dataclasses import dataclass

from flinkpy.common.ids import JobID

#: Start failures in a row after which waiting is pointless.
MAX_START_FAILURES = 3

#: Starting a Python process takes about a second of a core: no more than two at a time.
MAX_STARTING = 2

#: Pause after a job took a standby before the next one starts, so that it does not slow that job's start.
REPLACEMENT_DELAY_MS = 1_500

#: Pauses after start failures: doubled each time, up to the second.
FIRST_RETRY_DELAY_MS = 1_000
MAX_RETRY_DELAY_MS = 30_000


class ProcessState(enum.Enum):
    STARTING = 1
    STANDBY = 2
    BUSY = 3
    ENDING = 4


@dataclass(frozen=True, slots=True)
class SpawnProcess:
    """Start a child under this name; answer with `process_exited` when it ended or could not start."""

    process_id: str


@dataclass(frozen=True, slots=True)
class AssignJob:
    """Hand the job to the process at the other end of this session."""

    process_id: str
    job_id: JobID


@dataclass(frozen=True, slots=True)
class EndProcess:
    """Tell the process to stop; where it is a child see to it that it ends."""

    process_id: str
    reason: str
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class JobMasterLost:
    job_id: JobID
    reason: str


@dataclass(frozen=True, slots=True)
class JobMasterDisconnected:
    """The session of the job's JobMaster broke; it may live, and say hello again."""

    job_id: JobID


@dataclass(frozen=True, slots=True)
class JobMasterGone:
    """The job's JobMaster was released and has ended, or there was none: nobody touches what it left any more.

    A process that is no child of ours only has been told so; when it ends is not known.
    """

    job_id: JobID
    is_certain: bool = True


@dataclass(frozen=True, slots=True)
class CannotStart:
    """No process for this job."""

    job_id: JobID
    reason: str


@dataclass(frozen=True, slots=True)
class ReplenishAfter:
    """Call `replenish` after that time."""

    delay_ms: int


PoolEffect = (
    SpawnProcess
    | AssignJob
    | EndProcess
    | JobMasterLost
    | JobMasterDisconnected
    | JobMasterGone
    | CannotStart
    | ReplenishAfter
)
Effects = list[PoolEffect]


@dataclass(slots=True)
class _Process:
    state: ProcessState
    is_child: bool
    job_id: JobID | None = None
    has_session: bool = False
    #: the job it had, where that is over and this process may still be clearing up
    released_job: JobID | None = None
    #: what is known of its end before it ended
    prelude: str = ""


class JobMasterPool:
    """
    Args:
        name: what the names of processes begin with.
        outlive_sessions: see the last rule.
    """

    def __init__(self, num_standbys: int, name: str = "jobmaster", *, outlive_sessions: bool = False) -> None:
        self._num_standbys = num_standbys
        self._name = name
        self._outlive_sessions = outlive_sessions
        self._processes: dict[str, _Process] = {}
        self._waiting: OrderedDict[JobID, None] = OrderedDict()
        self._num_started = 0
        self._failures_in_row = 0
        #: while set, standbys are not replaced; jobs in line are served all the same
        self._is_replenish_scheduled = False
        self._is_closed = False

    @property
    def num_standbys(self) -> int:
        return self._count(ProcessState.STANDBY)

    @property
    def num_processes(self) -> int:
        return len(self._processes)

    def start(self) -> Effects:
        """Get the standbys ready."""
        return self._replenish()

    def request(self, job_id: JobID) -> Effects:
        """The job needs a process: now, or as soon as there is one."""
        for process_id, process in self._processes.items():
            if process.state is ProcessState.STANDBY:
                return [self._assign(process_id, job_id), *self._replenish_later(REPLACEMENT_DELAY_MS)]
        self._waiting[job_id] = None
        return self._replenish()

    def withdraw(self, job_id: JobID) -> None:
        """The job needs no process any more."""
        self._waiting.pop(job_id, None)

    def session_opened(self, process_id: str, *, is_child: bool, wanted_job: JobID | None = None) -> Effects:
        """A process said hello: a child of ours under the name it was started with, or one from outside.

        `wanted_job` is set where it was started for one job and takes no other.
        """
        process = self._processes.get(process_id)
        if process is None:
            if self._is_closed or is_child:  # a child we gave up already
                return [EndProcess(process_id, "it is not wanted any more", at_once=True)]
            process = self._processes[process_id] = _Process(ProcessState.STARTING, is_child=False)
        if process.state is not ProcessState.STARTING:
            return [EndProcess(process_id, "it said hello twice", at_once=True)]
        process.has_session = True
        self._failures_in_row = 0
        process.state = ProcessState.STANDBY
        if wanted_job is not None:
            if wanted_job not in self._waiting:
                return [self._end(process_id, f"job {wanted_job} does not wait for a JobMaster")]
            del self._waiting[wanted_job]
            return [self._assign(process_id, wanted_job)]
        if self._waiting:
            job_id, _ = self._waiting.popitem(last=False)
            return [self._assign(process_id, job_id), *self._replenish()]
        return []

    def session_adopted(self, process_id: str, job_id: JobID, *, is_child: bool) -> Effects:
        """A process that leads the job said hello, and is taken. Its former session, if there was one, is over."""
        effects: Effects = []
        for former, process in list(self._processes.items()):
            if process.job_id == job_id and former != process_id:
                if process.is_child:
                    effects.append(self._end(former, f"{process_id} leads its job", at_once=True))
                else:
                    del self._processes[former]
        process = self._processes.setdefault(process_id, _Process(ProcessState.BUSY, is_child=is_child))
        process.state, process.job_id, process.has_session, process.prelude = ProcessState.BUSY, job_id, True, ""
        return effects + self._replenish()

    def session_closed(self, process_id: str) -> Effects:
        """The stream to the process broke: it is dead, or must not go on. A child's exit tells more of it."""
        process = self._processes.get(process_id)
        if process is None or not process.has_session:
            return []
        process.has_session = False
        if self._outlive_sessions and process.job_id is not None:
            if not process.is_child:
                del self._processes[process_id]
            return [JobMasterDisconnected(process.job_id)]
        if process.is_child:
            if process.state is ProcessState.ENDING:
                return []
            process.prelude = "its session with the Dispatcher broke; "
            if process.state is ProcessState.STANDBY:
                process.state = ProcessState.ENDING  # no job may be handed to it between this and its exit
            return [EndProcess(process_id, "its session broke", at_once=True)]
        del self._processes[process_id]
        return self._lost(process, "its session with the Dispatcher broke") + self._replenish()

    def process_exited(self, process_id: str, ending: str) -> Effects:
        """The child ended, or could not be started at all."""
        process = self._processes.pop(process_id, None)
        if process is None:
            return []
        if process.state is ProcessState.STARTING:
            return self._start_failed(ending)
        gone: Effects = [] if process.released_job is None else [JobMasterGone(process.released_job)]
        lost = self._lost(process, f"{process.prelude}its process ended: {ending}")
        return gone + lost + self._replenish_later(REPLACEMENT_DELAY_MS)

    def start_timed_out(self, process_id: str) -> Effects:
        """The child has not said hello in time."""
        process = self._processes.get(process_id)
        if process is None or process.state is not ProcessState.STARTING:
            return []
        return [EndProcess(process_id, "it did not become ready in time", at_once=True)]

    def release(self, job_id: JobID) -> Effects:
        """The job is over: its process may go. A JobMasterGone follows."""
        self._waiting.pop(job_id, None)
        for process_id, process in self._processes.items():
            if process.job_id == job_id:
                process.released_job = job_id
                effects: Effects = [self._end(process_id, "its job is over")]
                return effects if process.is_child else [*effects, JobMasterGone(job_id, is_certain=False)]
        return [JobMasterGone(job_id)]

    def abandon(self, job_id: JobID, reason: str) -> Effects:
        """The job goes on with another process: where this one only hangs, it is ended at once."""
        for process_id, process in self._processes.items():
            if process.job_id == job_id:
                return [self._end(process_id, reason, at_once=True)]
        return []

    def replenish(self) -> Effects:
        """The time of a ReplenishAfter has come."""
        self._is_replenish_scheduled = False
        return self._replenish()

    def close(self) -> Effects:
        """Start nothing more and end everything."""
        self._is_closed = True
        self._waiting.clear()
        return [self._end(process_id, "shutting down") for process_id in list(self._processes)]

    def leave(self) -> Effects:
        """Start nothing more; what has a job, or clears up after one, goes on; the standbys end."""
        self._is_closed = True
        self._waiting.clear()
        unused = (ProcessState.STARTING, ProcessState.STANDBY)
        idle = [name for name, process in self._processes.items() if process.state in unused]
        return [self._end(process_id, "this Dispatcher does not lead any more", at_once=True) for process_id in idle]

    def job_of(self, process_id: str) -> JobID | None:
        process = self._processes.get(process_id)
        return None if process is None else process.job_id

    def validate(self) -> None:
        """Asserts every invariant."""
        jobs = [process.job_id for process in self._processes.values() if process.job_id is not None]
        assert len(jobs) == len(set(jobs)), "two processes for one job"
        assert not set(jobs) & set(self._waiting)
        assert not (self._waiting and self.num_standbys), "a job waits beside a standby"
        for process in self._processes.values():
            assert process.state is not ProcessState.BUSY or process.job_id is not None
            assert process.state is not ProcessState.STANDBY or process.has_session
            assert process.state not in (ProcessState.STARTING, ProcessState.STANDBY) or process.job_id is None

    def _count(self, state: ProcessState) -> int:
        return sum(1 for process in self._processes.values() if process.state is state)

    def _assign(self, process_id: str, job_id: JobID) -> AssignJob:
        process = self._processes[process_id]
        process.state = ProcessState.BUSY
        process.job_id = job_id
        return AssignJob(process_id, job_id)

    def _end(self, process_id: str, reason: str, *, at_once: bool = False) -> EndProcess:
        process = self._processes[process_id]
        process.job_id = None
        process.state = ProcessState.ENDING
        if not process.is_child:
            del self._processes[process_id]
        return EndProcess(process_id, reason, at_once)

    def _lost(self, process: _Process, reason: str) -> Effects:
        return [] if process.job_id is None else [JobMasterLost(process.job_id, reason)]

    def _start_failed(self, ending: str) -> Effects:
        self._failures_in_row += 1
        effects: Effects = []
        if self._failures_in_row < MAX_START_FAILURES and self._waiting:
            return self._replenish()
        if self._failures_in_row >= MAX_START_FAILURES:
            reason = f"its process ended before it was ready: {ending}"
            effects += [CannotStart(job_id, reason) for job_id in self._waiting]
            self._waiting.clear()
        delay_ms = FIRST_RETRY_DELAY_MS << min(self._failures_in_row - 1, 16)
        return effects + self._replenish_later(min(delay_ms, MAX_RETRY_DELAY_MS))

    def _replenish_later(self, delay_ms: int) -> Effects:
        if self._is_closed:
            return []
        if self._waiting:
            return self._replenish()
        if self._is_replenish_scheduled:
            return []
        self._is_replenish_scheduled = True
        return [ReplenishAfter(delay_ms)]

    def _replenish(self) -> Effects:
        if self._is_closed:
            return []
        num_starting = self._count(ProcessState.STARTING)
        num_wanted = len(self._waiting)
        if not self._is_replenish_scheduled:
            num_wanted += self._num_standbys
        num_missing = num_wanted - num_starting - self.num_standbys
        effects: Effects = []
        for _ in range(min(num_missing, MAX_STARTING - num_starting)):
            self._num_started += 1
            process_id = f"{self._name}-{self._num_started}"
            self._processes[process_id] = _Process(ProcessState.STARTING, is_child=True)
            effects.append(SpawnProcess(process_id))
        return effects
