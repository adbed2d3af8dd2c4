"""JobManagerRunner: the state machine of one job in the Dispatcher.

```
             process assigned          started               terminated
   WAITING ------------------> STARTING -------> RUNNING ---+---------------------------> ARCHIVING --> ARCHIVED
    |   ^                          |                |                                       ^
    |   +------- lost (recovery) --+----------------+                                       |
    +-- canceled, no process ----- lost, and not to be recovered ---------------------------+

   with high availability:
                                      hello
   recovered, or session broken -> ADOPTING -----> RUNNING      (a late hello moves WAITING to RUNNING, too)
                                      | no hello
                                      +----------> WAITING
```

Rules:
* Messages of a JobMaster are valid only with the current JobMasterId. Repeated messages have no effect.
* The job shows a terminal status only when its result has been stored. A terminal status that a JobMaster notifies is
  ignored until its result arrives.
* A job can be canceled in every state. Before the first JobMaster it is canceled at once. While a JobMaster starts, or
  between two JobMasters, the cancellation is kept, because only a JobMaster knows which checkpoints to remove. A
  running JobMaster gets the cancellation each time; it ignores repetitions. The cancellation is stored with the graph
  of the job, so the next Dispatcher finds it.
* A JobMaster that is lost before it reported the job's result is replaced. The new one has another JobMasterId and
  finds the checkpoints in the job's recovery directory. This does not count as a restart of the restart strategy. The
  pauses between replacements grow, and after a number of losses in a row the job fails. The count starts again after a
  JobMaster has lived for a while. A job without checkpoints whose restart strategy is `none` is not run twice: it fails
  at once.
* With high availability a JobMaster outlives the Dispatcher and a broken session. The runner waits for the hello of a
  JobMaster that may lead the job. A hello with the current JobMasterId makes the job RUNNING again without a restart.
  If it does not arrive, another JobMaster is started, which cannot lead before the latch of the former one has gone.
  The hello of any other JobMaster is refused.

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
from flinkpy.dispatcher.job_archive import (
    check_cancellation_of_ended,
    status_to_proto,
    terminated_without_job_master,
)


@dataclass(frozen=True, slots=True)
class RequestJobMaster:
    """Get a JobMaster process for the job, then call `process_assigned` or `failed_to_start`."""


@dataclass(frozen=True, slots=True)
class AbandonJobMaster:
    """End the current JobMaster, which may be dead or only seem so."""

    reason: str
    address: str | None


@dataclass(frozen=True, slots=True)
class RecoverAfter:
    """Call `recover` with the number `recovery` after `delay_ms`."""

    delay_ms: int
    recovery: int


@dataclass(frozen=True, slots=True)
class AwaitJobMaster:
    """Wait for the hello of a JobMaster that may lead the job. Call `adoption_failed` if it does not arrive.

    Attributes:
        adoption: the number to pass to `adoption_failed`.
        job_master_id: the id of that JobMaster, if it is known.
    """

    adoption: int
    timeout_ms: int
    job_master_id: JobMasterId | None


@dataclass(frozen=True, slots=True)
class JobMasterReady:
    """The JobMaster leads the job and can be called at `address`."""

    address: str


@dataclass(frozen=True, slots=True)
class WithdrawRequest:
    """Drop a RequestJobMaster."""


@dataclass(frozen=True, slots=True)
class CancelAtJobMaster:
    """Call JobMaster.Cancel."""

    address: str
    job_master_id: JobMasterId


@dataclass(frozen=True, slots=True)
class StoreResult:
    """Store the result durably, then call `result_stored`."""

    terminated: dispatcher_pb2.JobTerminated


@dataclass(frozen=True, slots=True)
class PublishStatus:
    """Publish the status to the clients that watch the job."""

    status: JobState


@dataclass(frozen=True, slots=True)
class ReleaseJobMaster:
    """Release the JobMaster process: its job has ended."""


RunnerEffect = (
    RequestJobMaster
    | AbandonJobMaster
    | RecoverAfter
    | AwaitJobMaster
    | JobMasterReady
    | WithdrawRequest
    | CancelAtJobMaster
    | StoreResult
    | PublishStatus
    | ReleaseJobMaster
)
Effects = list[RunnerEffect]


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
    """Rules for the loss of a JobMaster.

    Attributes:
        max_attempts: how many JobMasters in a row may be lost early before the job fails; 0: the first loss fails it.
        reset_after_ms: a JobMaster that lived for this time was not lost early.
    """

    max_attempts: int = 10
    initial_delay_ms: int = 100
    max_delay_ms: int = 10_000
    reset_after_ms: int = 30_000

    def delay_ms(self, attempt: int) -> int:
        """Returns the pause before the attempt, counted from 1. The first one has none: most losses are single."""
        if attempt <= 1:
            return 0
        return min(self.initial_delay_ms << min(attempt - 2, 16), self.max_delay_ms)


class JobManagerRunner:
    """Runs one job.

    Args:
        is_recovered: a former Dispatcher has run the job.
        adoption_timeout_ms: how long to wait for the hello of a JobMaster without a session; None if JobMasters do not
            outlive their sessions.
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
        #: the number of the current adoption, by which timers of former ones are recognised
        self._adoption = 0
        #: early losses in a row; and the number of all losses, by which timers of former ones are recognised
        self._losses_in_row = 0
        self._num_losses = 0
        self._led_since_ms = 0
        #: the time of the last status of the current JobMaster
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
        """The status that clients see."""
        return self._status

    @property
    def is_recovery(self) -> bool:
        """True if a JobMaster has led the job before, so that the next one looks for checkpoints."""
        return self._is_recovered or self.job_master_id is not None

    @property
    def is_over(self) -> bool:
        return self._state in (RunnerState.ARCHIVING, RunnerState.ARCHIVED)

    def submitted(self) -> Effects:
        """Starts the job, whose graph has been stored."""
        if self._is_recovered and self._adoption_timeout_ms is not None:
            return [PublishStatus(self._status), *self._await_job_master()]
        return [PublishStatus(self._status), RequestJobMaster()]

    def process_assigned(self, now_ms: int) -> JobMasterId:
        """Assigns the job to a JobMaster process, and returns the new fencing token."""
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
        """Handles the hello of a JobMaster that claims to lead the job.

        Args:
            status: the status of the job, if the JobMaster sent it.

        Raises: StaleFencingTokenError if the JobMaster is refused. It has to stop then.
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
        """Handles a broken session of a JobMaster whose process may still run."""
        if self._adoption_timeout_ms is None or self._state not in (RunnerState.STARTING, RunnerState.RUNNING):
            return []
        return self._await_job_master()

    def adoption_failed(self, adoption: int, reason: str, now_ms: int) -> Effects:
        """Handles an AwaitJobMaster whose JobMaster did not say hello in time, or does not lead any more."""
        if self._state is not RunnerState.ADOPTING or adoption != self._adoption:
            return []
        if self.job_master_id is None:
            self._move_to(RunnerState.WAITING)
            return [RequestJobMaster()]
        return self.job_master_lost(reason, now_ms)

    def result_found(self, terminated: dispatcher_pb2.JobTerminated) -> Effects:
        """Handles a result that a former Dispatcher stored just before it ended."""
        if self._state not in (RunnerState.WAITING, RunnerState.ADOPTING):
            return []
        return [WithdrawRequest(), *self._end(terminated)]

    def _await_job_master(self) -> Effects:
        assert self._adoption_timeout_ms is not None
        self._move_to(RunnerState.ADOPTING)
        self._adoption += 1
        return [AwaitJobMaster(self._adoption, self._adoption_timeout_ms, self.job_master_id)]

    # --- status and end ---------------------------------------------------------------------------------------------

    def status_notified(self, job_master_id: JobMasterId, status: JobState, timestamp_ms: int) -> Effects:
        """Raises: StaleFencingTokenError."""
        self.check_job_master(job_master_id)
        if self.is_over or status.is_terminal or status is self._status:
            return []
        if timestamp_ms < self._last_notified_ms:
            return []  # a later status has arrived before
        self._last_notified_ms = timestamp_ms
        return [self._set_status(status, timestamp_ms)]

    def cancel(self, now_ms: int) -> Effects:
        """Cancels the job. Raises: JobTerminatedWithoutCancellationError if it has ended in another way."""
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
        """Keeps the details that the JobMaster reported, for the case that it is lost."""
        self._last_details = details

    def job_terminated(self, terminated: dispatcher_pb2.JobTerminated) -> Effects:
        """Handles the result of the job. Raises: StaleFencingTokenError."""
        self.check_job_master(JobMasterId(terminated.job_master_id))
        if self.is_over:
            return []
        if not (terminated.result.status and JobState(terminated.result.status).is_terminal):
            raise InternalError(f"the result of job {self.job_id} has the status {terminated.result.status}")
        return self._end(terminated)

    def job_master_lost(self, reason: str, now_ms: int) -> Effects:
        """Handles a JobMaster that ended, hangs or lost its session before it reported the result."""
        if self._state not in (RunnerState.STARTING, RunnerState.RUNNING, RunnerState.ADOPTING):
            return []
        if now_ms - self._led_since_ms >= self._policy.reset_after_ms:
            self._losses_in_row = 0
        abandon = AbandonJobMaster(reason, self.job_master_address)
        return self._recover_or_end(f"the JobMaster of {self._named} was lost: {reason}", now_ms, abandon)

    def failed_to_start(self, reason: str, now_ms: int) -> Effects:
        """Handles the failure to start a JobMaster process for the job."""
        if self._state is not RunnerState.WAITING:
            return []
        message = f"no JobMaster could be started for {self._named}: {reason}"
        if not self.is_recovery:
            return self._fail(message, now_ms)
        return self._recover_or_end(message, now_ms)

    def recover(self, recovery: int) -> Effects:
        """Handles the timer of a RecoverAfter."""
        if self._state is not RunnerState.WAITING or recovery != self._num_losses:
            return []
        return [RequestJobMaster()]

    def _recover_or_end(self, message: str, now_ms: int, abandon: AbandonJobMaster | None = None) -> Effects:
        self._num_losses += 1
        self._losses_in_row += 1
        if self._losses_in_row > self._policy.max_attempts:
            if self._policy.max_attempts:
                message += f" (loss {self._losses_in_row} in a row; no other JobMaster is started)"
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
        """Suspends the job because the Dispatcher ends. Its graph stays in the store."""
        if self.is_over:
            return []
        error = JobMasterLostError(f"job {self.job_id} was suspended: {reason}", details={"job_id": str(self.job_id)})
        self._end_with(JobState.SUSPENDED, error, now_ms)
        return self.result_stored()

    def result_stored(self) -> Effects:
        """Publishes the status of a stored result and releases the JobMaster."""
        assert self._terminated is not None
        self._move_to(RunnerState.ARCHIVED)
        end_ms = self._terminated.details.end_time_ms
        return [self._set_status(JobState(self._terminated.result.status), end_ms), ReleaseJobMaster()]

    @property
    def terminated(self) -> dispatcher_pb2.JobTerminated | None:
        """The result and the details of the ended job; None before ARCHIVING."""
        return self._terminated

    def details(self) -> job_pb2.JobDetails:
        """Returns the details of the job that are known without its JobMaster."""
        if self._terminated is not None and self._state is RunnerState.ARCHIVED:
            return self._terminated.details
        if self._last_details is not None:
            details = job_pb2.JobDetails()
            details.CopyFrom(self._last_details)
            if self._state is RunnerState.WAITING:  # the lost JobMaster reported an outdated status
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
        """Checks that this JobMaster leads the job. Raises: StaleFencingTokenError."""
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
