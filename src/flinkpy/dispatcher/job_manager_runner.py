"""JobManagerRunner: the life of one job as the Dispatcher sees it.

```
             process assigned          started               terminated
   WAITING ------------------> STARTING -------> RUNNING ---+---------------------------> ARCHIVING --> ARCHIVED
    |   ^                          |                |                                       ^
    |   +------- lost (recovery) --+----------------+                                       |
    +-- canceled, no process ----- lost, and not to be recovered ---------------------------+

   with high availability:
                                      hello
   found, or its session broke --> ADOPTING -----> RUNNING      (a late hello takes WAITING there too)
                                      | no hello
                                      +----------> WAITING
```

Rules:
* What a JobMaster says counts only under the JobMasterId that was drawn for it; a repetition is acknowledged and
  changes nothing.
* The job shows a terminal status only when its result has been stored; a terminal status that a JobMaster merely
  notifies is not believed before its result has come.
* A cancellation is taken in every phase: before the first JobMaster the job is canceled on the spot, while one starts
  it is remembered, later it is handed on (each time: the JobMaster treats a repetition as one). Between two JobMasters
  it is remembered too, because only a JobMaster knows which checkpoints are to be removed.
  What a client was told would be canceled is found with the graph of the job, so it outlives the Dispatcher.
* A JobMaster that is lost before its job's result has come is replaced: the next one has another JobMasterId and finds
  the checkpoints in the job's recovery directory. That is no restart in the sense of the restart strategy. Where they
  are lost again and again, the pauses grow, and after some the job fails; a JobMaster that has lived for a while lets
  the count begin anew. A job without checkpoints whose restart strategy is `none` is not run twice: it fails at once.
* With high availability a JobMaster outlives the Dispatcher, and a broken session. One that may lead the job is waited
  for; its hello, under the JobMasterId it leads with, makes the job RUNNING as it is, without any restart. Where it
  does not come, another is started, which cannot lead before the latch of the former is gone. The hello of any other
  JobMaster is refused.

Pure. Source: org.apache.flink.runtime.dispatcher.Dispatcher,
org.apache.flink.runtime.jobmaster.JobMasterServiceLeadershipRunner.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from flinkpy._proto import dispatcher_pb2, job_pb2
from flinkpy.common.errors import (
    FlinkError,
    InternalError,
    InvalidTransitionError,
    JobMasterLostError,
    StaleFencingTokenError,
)
from flinkpy.common.ids import JobID, JobMasterId
from flinkpy.common.states import JobState
from flinkpy.dispatcher.ended_jobs import (
    check_cancellation_of_ended,
    status_to_proto,
    terminated_without_job_master,
)
from flinkpy.dispatcher.runner_effects import (
    AbandonJobMaster,
    AwaitJobMaster,
    CancelAtJobMaster,
    Effects,
    JobMasterReady,
    PublishStatus,
    RecoverAfter,
    ReleaseJobMaster,
    RequestJobMaster,
    StoreResult,
    WithdrawRequest,
)


class RunnerState(enum.Enum):
    WAITING = 1
    STARTING = 2
    RUNNING = 3
    ARCHIVING = 4
    ARCHIVED = 5
    ADOPTING = 6


_S = RunnerState
RUNNER_TRANSITIONS: frozenset[tuple[RunnerState, RunnerState]] = frozenset(
    {
        (_S.WAITING, _S.STARTING),
        (_S.WAITING, _S.ARCHIVING),
        (_S.STARTING, _S.RUNNING),
        (_S.STARTING, _S.WAITING),
        (_S.RUNNING, _S.WAITING),
        (_S.STARTING, _S.ARCHIVING),
        (_S.RUNNING, _S.ARCHIVING),
        (_S.ARCHIVING, _S.ARCHIVED),
        (_S.WAITING, _S.ADOPTING),
        (_S.STARTING, _S.ADOPTING),
        (_S.RUNNING, _S.ADOPTING),
        (_S.ADOPTING, _S.RUNNING),
        (_S.ADOPTING, _S.WAITING),
        (_S.ADOPTING, _S.ARCHIVING),
        (_S.WAITING, _S.RUNNING),
    }
)


@dataclass(frozen=True, slots=True)
class RecoveryPolicy:
    """What follows when a JobMaster is lost.

    Attributes:
        max_attempts: JobMasters lost one soon after the other before the job fails; 0: the first loss fails it.
        reset_after_ms: a JobMaster that lived for so long was no early death.
    """

    max_attempts: int = 10
    initial_delay_ms: int = 100
    max_delay_ms: int = 10_000
    reset_after_ms: int = 30_000

    def delay_ms(self, attempt: int) -> int:
        """Before the attempt, counted from 1. The first follows at once: most deaths are single."""
        if attempt <= 1:
            return 0
        return min(self.initial_delay_ms << min(attempt - 2, 16), self.max_delay_ms)


class JobManagerRunner:
    """One job.

    Args:
        is_recovered: a former Dispatcher has run the job.
        adoption_timeout_ms: how long a JobMaster that has no session may take to say hello; None where none outlives
            its session.
    """

    def __init__(
        self,
        job_graph: job_pb2.JobGraph,
        submitted_ms: int,
        new_job_master_id: Callable[[], JobMasterId],
        *,
        policy: RecoveryPolicy = RecoveryPolicy(),
        is_recovered: bool = False,
        adoption_timeout_ms: int | None = None,
    ) -> None:
        self.job_graph = job_graph
        self.job_id = JobID(job_graph.job_id)
        self.submitted_ms = submitted_ms
        self._new_job_master_id = new_job_master_id
        self._state = RunnerState.WAITING
        self._is_cancel_requested = is_recovered and job_graph.is_cancel_requested
        self._status = JobState.CANCELLING if self._is_cancel_requested else JobState.INITIALIZING
        self._status_ms: dict[JobState, int] = {JobState.INITIALIZING: submitted_ms}
        self._policy = policy
        self._is_recovered = is_recovered
        self._adoption_timeout_ms = adoption_timeout_ms
        #: the present adoption, which tells a timer of one from that of another
        self._adoption = 0
        #: losses one soon after the other, and of all the number, which tells a timer of one from that of another
        self._losses_in_row = 0
        self._num_losses = 0
        self._led_since_ms = 0
        #: of the present leadership
        self._last_notified_ms = 0
        self.job_master_id: JobMasterId | None = None
        self.job_master_address: str | None = None
        self._terminated: dispatcher_pb2.JobTerminated | None = None
        self._last_details: job_pb2.JobDetails | None = None

    @property
    def state(self) -> RunnerState:
        return self._state

    @property
    def status(self) -> JobState:
        """What clients are shown."""
        return self._status

    @property
    def is_recovery(self) -> bool:
        """Whether another JobMaster has led the job before, so that the next one looks for checkpoints."""
        return self._is_recovered or self.job_master_id is not None

    @property
    def is_over(self) -> bool:
        return self._state in (RunnerState.ARCHIVING, RunnerState.ARCHIVED)

    def submitted(self) -> Effects:
        """The graph is stored and the client told, or it was found in the store."""
        if self._is_recovered and self._adoption_timeout_ms is not None:
            return [PublishStatus(self._status), *self._await_job_master()]
        return [PublishStatus(self._status), RequestJobMaster()]

    def process_assigned(self, now_ms: int) -> JobMasterId:
        """A process takes the job: draws the fencing token of this leadership."""
        self._move_to(RunnerState.STARTING)
        self._led_since_ms = now_ms
        self._last_notified_ms = 0
        self.job_master_id = self._new_job_master_id()
        return self.job_master_id

    def job_master_started(self, job_master_id: JobMasterId, address: str) -> Effects:
        """Raises: StaleFencingTokenError."""
        self.check_job_master(job_master_id)
        if self._state not in (RunnerState.STARTING, RunnerState.ADOPTING):
            return []
        return self._led_by(job_master_id, address)

    def _led_by(self, job_master_id: JobMasterId, address: str) -> Effects:
        if self._state is not RunnerState.RUNNING:
            self._move_to(RunnerState.RUNNING)
        self.job_master_id = job_master_id
        self.job_master_address = address
        effects: Effects = [JobMasterReady(address)]
        return [*effects, CancelAtJobMaster(address, job_master_id)] if self._is_cancel_requested else effects

    # --- JobMasters that outlive their session ----------------------------------------------------------------------

    def hello(self, job_master_id: JobMasterId, address: str, status: JobState | None, now_ms: int) -> Effects:
        """A JobMaster that leads the job opened a session.

        Args:
            status: the job's, as far as it says.

        Raises: StaleFencingTokenError where it is not taken: it has to stop.
        """
        is_known = job_master_id == self.job_master_id
        is_first = self.job_master_id is None and self._is_recovered
        if self._adoption_timeout_ms is None or self.is_over or not (is_known or is_first):
            raise self._stale(job_master_id)
        effects: Effects = [WithdrawRequest()] if self._state is RunnerState.WAITING else []
        if not is_known:
            self._led_since_ms = now_ms
            self._last_notified_ms = 0
        effects += self._led_by(job_master_id, address)
        if status is not None and not status.is_terminal and status is not self._status:
            effects.append(self._set_status(status, now_ms))
        return effects

    def job_master_disconnected(self) -> Effects:
        """The session broke, and nothing tells that the process has ended."""
        if self._adoption_timeout_ms is None or self._state not in (RunnerState.STARTING, RunnerState.RUNNING):
            return []
        return self._await_job_master()

    def adoption_failed(self, adoption: int, reason: str, now_ms: int) -> Effects:
        """The JobMaster that an AwaitJobMaster waits for has not come in time, or does not lead any more."""
        if self._state is not RunnerState.ADOPTING or adoption != self._adoption:
            return []
        if self.job_master_id is None:
            self._move_to(RunnerState.WAITING)
            return [RequestJobMaster()]
        return self.job_master_lost(reason, now_ms)

    def result_found(self, terminated: dispatcher_pb2.JobTerminated) -> Effects:
        """A JobMaster has brought the result to a former Dispatcher, which stored it in its last moments."""
        if self._state not in (RunnerState.WAITING, RunnerState.ADOPTING):
            return []
        return [WithdrawRequest(), *self._end(terminated)]

    def _await_job_master(self) -> Effects:
        assert self._adoption_timeout_ms is not None
        self._move_to(RunnerState.ADOPTING)
        self._adoption += 1
        return [AwaitJobMaster(self._adoption, self._adoption_timeout_ms, self.job_master_id)]

    # --- the rest of its life ---------------------------------------------------------------------------------------

    def status_notified(self, job_master_id: JobMasterId, status: JobState, timestamp_ms: int) -> Effects:
        """Raises: StaleFencingTokenError."""
        self.check_job_master(job_master_id)
        if self.is_over or status.is_terminal or status is self._status:
            return []
        if timestamp_ms < self._last_notified_ms:
            return []  # overtaken by a later one
        self._last_notified_ms = timestamp_ms
        return [self._set_status(status, timestamp_ms)]

    def cancel(self, now_ms: int) -> Effects:
        """Raises: JobTerminatedWithoutCancellationError where the job has ended in another way."""
        if self.is_over:
            assert self._terminated is not None
            check_cancellation_of_ended(self.job_id, JobState(self._terminated.result.status))
            return []
        self._is_cancel_requested = True
        if self._state is RunnerState.WAITING and not self.is_recovery:
            return [WithdrawRequest(), *self._end_with(JobState.CANCELED, None, now_ms)]
        if self._state in (RunnerState.WAITING, RunnerState.STARTING, RunnerState.ADOPTING):
            if self._status is JobState.CANCELLING:
                return []
            return [self._set_status(JobState.CANCELLING, now_ms)]
        assert self.job_master_address is not None and self.job_master_id is not None
        return [CancelAtJobMaster(self.job_master_address, self.job_master_id)]

    def details_reported(self, details: job_pb2.JobDetails) -> None:
        """What the JobMaster tells of its job; kept in case it cannot be asked any more."""
        self._last_details = details

    def job_terminated(self, terminated: dispatcher_pb2.JobTerminated) -> Effects:
        """The JobMaster brought the result. Raises: StaleFencingTokenError."""
        self.check_job_master(JobMasterId(terminated.job_master_id))
        if self.is_over:
            return []
        if not (terminated.result.status and JobState(terminated.result.status).is_terminal):
            raise InternalError(f"the result of job {self.job_id} has the status {terminated.result.status}")
        return self._end(terminated)

    def job_master_lost(self, reason: str, now_ms: int) -> Effects:
        """The process ended, its session broke, or it hangs, before the result had come."""
        if self._state not in (RunnerState.STARTING, RunnerState.RUNNING, RunnerState.ADOPTING):
            return []
        if now_ms - self._led_since_ms >= self._policy.reset_after_ms:
            self._losses_in_row = 0
        abandon = AbandonJobMaster(reason, self.job_master_address)
        return self._recover_or_end(f"the JobMaster of {self._named} was lost: {reason}", now_ms, abandon)

    def failed_to_start(self, reason: str, now_ms: int) -> Effects:
        """No process could be had for the job."""
        if self._state is not RunnerState.WAITING:
            return []
        message = f"no JobMaster could be started for {self._named}: {reason}"
        if not self.is_recovery:
            return self._fail(message, now_ms)
        return self._recover_or_end(message, now_ms)

    def recover(self, recovery: int) -> Effects:
        """The time of a RecoverAfter has come."""
        if self._state is not RunnerState.WAITING or recovery != self._num_losses:
            return []
        return [RequestJobMaster()]

    def _recover_or_end(self, message: str, now_ms: int, abandon: AbandonJobMaster | None = None) -> Effects:
        self._num_losses += 1
        self._losses_in_row += 1
        if self._losses_in_row > self._policy.max_attempts:
            if self._policy.max_attempts:
                message += f" (for the {self._losses_in_row}. time, one soon after the other; no more are started)"
            if self._is_cancel_requested:
                return self._end_with(JobState.CANCELED, None, now_ms)
            return self._fail(message, now_ms)
        if self._state is not RunnerState.WAITING:
            self._move_to(RunnerState.WAITING)
        self.job_master_address = None
        status = JobState.CANCELLING if self._is_cancel_requested else JobState.RESTARTING
        delay_ms = self._policy.delay_ms(self._losses_in_row)
        effects: Effects = [] if abandon is None else [abandon]
        if self._status is not status:
            effects.append(self._set_status(status, now_ms))
        return [*effects, RecoverAfter(delay_ms, self._num_losses)]

    def _fail(self, message: str, now_ms: int) -> Effects:
        error = JobMasterLostError(message, details={"job_id": str(self.job_id)})
        return self._end_with(JobState.FAILED, error, now_ms)

    @property
    def _named(self) -> str:
        return f"job {self.job_id} ('{self.job_graph.name}')"

    def suspend(self, reason: str, now_ms: int) -> Effects:
        """The Dispatcher ends and the job with it, but its graph stays in the store."""
        if self.is_over:
            return []
        error = JobMasterLostError(f"job {self.job_id} was suspended: {reason}", details={"job_id": str(self.job_id)})
        self._end_with(JobState.SUSPENDED, error, now_ms)
        return self.result_stored()

    def result_stored(self) -> Effects:
        """The result is safe: show it, and let the process go."""
        assert self._terminated is not None
        self._move_to(RunnerState.ARCHIVED)
        end_ms = self._terminated.details.end_time_ms
        return [self._set_status(JobState(self._terminated.result.status), end_ms), ReleaseJobMaster()]

    @property
    def terminated(self) -> dispatcher_pb2.JobTerminated | None:
        """Result and archived details, from ARCHIVING on."""
        return self._terminated

    def details(self) -> job_pb2.JobDetails:
        """What can be told of the job without its JobMaster."""
        if self._terminated is not None and self._state is RunnerState.ARCHIVED:
            return self._terminated.details
        if self._last_details is not None:
            details = job_pb2.JobDetails()
            details.CopyFrom(self._last_details)
            if self._state is RunnerState.WAITING:  # what the lost JobMaster said last is not true any more
                details.status = status_to_proto(self._status)
            return details
        details = job_pb2.JobDetails(
            job_id=str(self.job_id),
            name=self.job_graph.name,
            status=status_to_proto(self._status),
            start_time_ms=self.submitted_ms,
            end_time_ms=-1,
            status_timestamps={status.name: at_ms for status, at_ms in self._status_ms.items()},
            configuration=self.job_graph.configuration,
        )
        for vertex in self.job_graph.vertices:
            details.vertices.add(
                id=vertex.id,
                name=vertex.name,
                parallelism=vertex.parallelism,
                max_parallelism=vertex.max_parallelism,
                tasks_per_state={"CREATED": max(0, vertex.parallelism)},
            )
        return details

    def check_job_master(self, job_master_id: JobMasterId) -> None:
        """Raises: StaleFencingTokenError where another leadership of the job is, or was, the last, or none is."""
        if job_master_id != self.job_master_id or self._state is RunnerState.WAITING:
            raise self._stale(job_master_id)

    def _stale(self, job_master_id: JobMasterId) -> StaleFencingTokenError:
        return StaleFencingTokenError(
            f"JobMaster {job_master_id} does not lead job {self.job_id}",
            details={"expected": str(self.job_master_id), "got": str(job_master_id)},
        )

    def _end_with(self, status: JobState, error: FlinkError | None, now_ms: int) -> Effects:
        self._status_ms.setdefault(status, now_ms)
        return self._end(
            terminated_without_job_master(self.details(), status, error, now_ms, str(self.job_master_id or ""))
        )

    def _end(self, terminated: dispatcher_pb2.JobTerminated) -> Effects:
        self._move_to(RunnerState.ARCHIVING)
        self._terminated = terminated
        return [StoreResult(terminated)]

    def _set_status(self, status: JobState, at_ms: int) -> PublishStatus:
        self._status = status
        self._status_ms[status] = at_ms
        return PublishStatus(status)

    def _move_to(self, state: RunnerState) -> None:
        if (self._state, state) not in RUNNER_TRANSITIONS:
            raise InvalidTransitionError(f"job {self.job_id} cannot go from {self._state.name} to {state.name}")
        self._state = state
