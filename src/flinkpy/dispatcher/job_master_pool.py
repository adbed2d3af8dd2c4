"""JobMasterPool: the JobMaster processes, and the job that each of them leads.

```
              hello                 job                     result stored
   STARTING ---------> STANDBY ------------> BUSY(job) ---------------------> ENDING --> gone
       |                  |                      |                              ^
       +-- exit, late ----+--- exit, session ----+--- exit, session broke ------+   (BUSY: the job is lost)
```

* A job gets a standby process, which has imported its modules already. A replacement is started a little later, so that
  it does not compete with the start of the job.
* If there is no standby, the job waits in a queue. The next process that says hello gets it.
* A process may also be started by other means, e.g. on another host. It says hello like a child.
* A process that ends before it says hello is a start failure. After `MAX_START_FAILURES` in a row the waiting
  jobs fail, and the pause before the next start grows.
* A process runs one job only.
* With high availability a process outlives its session. If the session of a process with a job breaks, the process may
  say hello again, to this Dispatcher or the next one, and keeps its job.

Pure. Differs: Flink runs its JobMasters as threads of the Dispatcher's process.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from dataclasses import dataclass

from flinkpy.common.ids import JobID

#: After this number of start failures in a row, waiting jobs fail.
MAX_START_FAILURES = 3

#: The maximum number of processes that start at the same time; each start takes about one CPU second.
MAX_STARTING = 2

#: Pause before a standby is replaced, so that its start does not slow down the start of the job.
REPLACEMENT_DELAY_MS = 1_500

#: The first and the maximum pause after start failures; it doubles each time.
FIRST_RETRY_DELAY_MS = 1_000
MAX_RETRY_DELAY_MS = 30_000


class ProcessState(enum.Enum):
    STARTING = 1
    STANDBY = 2
    BUSY = 3
    ENDING = 4


@dataclass(frozen=True, slots=True)
class SpawnProcess:
    """Start a child with this name. Call `process_exited` when it has ended or could not be started."""

    process_id: str


@dataclass(frozen=True, slots=True)
class AssignJob:
    """Send the job to the process."""

    process_id: str
    job_id: JobID


@dataclass(frozen=True, slots=True)
class EndProcess:
    """Tell the process to stop, and end it if it is a child."""

    process_id: str
    reason: str
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class JobMasterLost:
    """The JobMaster of the job is lost."""

    job_id: JobID
    reason: str


@dataclass(frozen=True, slots=True)
class JobMasterDisconnected:
    """The session of the job's JobMaster broke. The process may still run and say hello again."""

    job_id: JobID


@dataclass(frozen=True, slots=True)
class JobMasterGone:
    """The job's JobMaster was released and has ended, or there was none: its files are not used any more.

    `is_certain` is False if the process is not a child. It has been told to stop, but its end is not known.
    """

    job_id: JobID
    is_certain: bool = True


@dataclass(frozen=True, slots=True)
class CannotStart:
    """No process could be started for the job."""

    job_id: JobID
    reason: str


@dataclass(frozen=True, slots=True)
class ReplenishAfter:
    """Call `replenish` after `delay_ms`."""

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
    #: the ended job whose files this process may still be removing
    released_job: JobID | None = None
    #: the reason why it has to end, set before it ends
    prelude: str = ""


class JobMasterPool:
    """Decides which processes to start and end, and assigns jobs to them.

    Args:
        name: the prefix of process names.
        outlive_sessions: with high availability, see the last rule.
    """

    def __init__(self, num_standbys: int, name: str = "jobmaster", *, outlive_sessions: bool = False) -> None:
        self._num_standbys = num_standbys
        self._name = name
        self._outlive_sessions = outlive_sessions
        self._processes: dict[str, _Process] = {}
        self._waiting: OrderedDict[JobID, None] = OrderedDict()
        self._num_started = 0
        self._failures_in_row = 0
        #: while set, standbys are not replaced; processes for waiting jobs are started all the same
        self._is_replenish_scheduled = False
        self._is_closed = False

    @property
    def num_standbys(self) -> int:
        return self._count(ProcessState.STANDBY)

    @property
    def num_processes(self) -> int:
        return len(self._processes)

    def start(self) -> Effects:
        """Starts the standbys."""
        return self._replenish()

    def request(self, job_id: JobID) -> Effects:
        """Assigns a process to the job, or queues the job until there is one."""
        for process_id, process in self._processes.items():
            if process.state is ProcessState.STANDBY:
                return [self._assign(process_id, job_id), *self._replenish_later(REPLACEMENT_DELAY_MS)]
        self._waiting[job_id] = None
        return self._replenish()

    def withdraw(self, job_id: JobID) -> None:
        """Drops the request of a job that needs no process any more."""
        self._waiting.pop(job_id, None)

    def session_opened(self, process_id: str, *, is_child: bool, wanted_job: JobID | None = None) -> Effects:
        """Handles the hello of a child, or of a process that was started by other means.

        Args:
            wanted_job: the only job that the process takes; None: any.
        """
        process = self._processes.get(process_id)
        if process is None:
            if self._is_closed or is_child:  # a child that was given up
                return [EndProcess(process_id, "it is not needed any more", at_once=True)]
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
        """Handles the hello of a process that leads the job. Ends the former session of that process."""
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
        """Handles the end of a stream: the process has ended or has to end. The exit of a child tells more."""
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
                process.state = ProcessState.ENDING  # it must not get a job before its exit is noticed
            return [EndProcess(process_id, "its session broke", at_once=True)]
        del self._processes[process_id]
        return self._lost(process, "its session with the Dispatcher broke") + self._replenish()

    def process_exited(self, process_id: str, ending: str) -> Effects:
        """Handles a child that has ended or could not be started."""
        process = self._processes.pop(process_id, None)
        if process is None:
            return []
        if process.state is ProcessState.STARTING:
            return self._start_failed(ending)
        gone: Effects = [] if process.released_job is None else [JobMasterGone(process.released_job)]
        lost = self._lost(process, f"{process.prelude}its process ended: {ending}")
        return gone + lost + self._replenish_later(REPLACEMENT_DELAY_MS)

    def start_timed_out(self, process_id: str) -> Effects:
        """Handles a child that has not said hello in time."""
        process = self._processes.get(process_id)
        if process is None or process.state is not ProcessState.STARTING:
            return []
        return [EndProcess(process_id, "it did not become ready in time", at_once=True)]

    def release(self, job_id: JobID) -> Effects:
        """Ends the process of an ended job. A JobMasterGone follows."""
        self._waiting.pop(job_id, None)
        for process_id, process in self._processes.items():
            if process.job_id == job_id:
                process.released_job = job_id
                effects: Effects = [self._end(process_id, "its job has ended")]
                return effects if process.is_child else [*effects, JobMasterGone(job_id, is_certain=False)]
        return [JobMasterGone(job_id)]

    def abandon(self, job_id: JobID, reason: str) -> Effects:
        """Kills the process of the job, which continues in another process."""
        for process_id, process in self._processes.items():
            if process.job_id == job_id:
                return [self._end(process_id, reason, at_once=True)]
        return []

    def replenish(self) -> Effects:
        """Handles the timer of a ReplenishAfter."""
        self._is_replenish_scheduled = False
        return self._replenish()

    def close(self) -> Effects:
        """Ends all processes. None is started any more."""
        self._is_closed = True
        self._waiting.clear()
        return [self._end(process_id, "shutting down") for process_id in list(self._processes)]

    def leave(self) -> Effects:
        """Ends the standbys and starts none any more. Processes that have, or clean up, a job keep running."""
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
