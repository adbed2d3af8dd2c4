"""JobManagerRunner and JobMasterPool with high availability, while JobMasters die, hang and come back.

The test models the latch of the job: only one of its JobMasters at a time may run its tasks. Only the result of that
JobMaster may count. Once faults stop, the job has a leader or has ended.
"""

from __future__ import annotations

import itertools
import platform
from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flinkpy import __version__
from flinkpy._proto import common_pb2, job_pb2
from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.errors import StaleFencingTokenError
from flinkpy.common.ids import JobMasterId
from flinkpy.common.states import JobState
from flinkpy.dispatcher import job_manager_runner as wanted
from flinkpy.dispatcher import job_master_pool as pools
from flinkpy.dispatcher.job_manager_runner import JobManagerRunner, RecoveryPolicy, RunnerState
from flinkpy.dispatcher.job_master_pool import JobMasterPool

GRAPH = job_pb2.JobGraph(
    job_id="a" * 32, name="job", client_version=__version__, python_version=platform.python_version(), created_ms=7
)


@dataclass(eq=False)
class JobMaster:
    """A process that leads the job or waits for its latch."""

    job_master_id: JobMasterId
    process_id: str
    is_child: bool
    has_session: bool = False
    is_alive: bool = True
    is_told_to_stop: bool = False


class OneJobOfManyDispatchers(RuleBasedStateMachine):
    """One job, a sequence of Dispatchers, and JobMasters that outlive them."""

    def __init__(self) -> None:
        super().__init__()
        self.names = itertools.count(1)
        self.now_ms = 0
        self.job_masters: list[JobMaster] = []
        #: The stored result. Once it is set, no task of the job may run.
        self.stored: pb.JobTerminated | None = None
        self.begin(is_recovered=False)

    # --- the shell of both machines

    def begin(self, *, is_recovered: bool) -> None:
        self.pool = JobMasterPool(1, f"term{next(self.names)}", outlive_sessions=True)
        self.children: dict[str, bool] = {}
        self.runner = JobManagerRunner(
            GRAPH,
            self.now_ms,
            lambda: JobMasterId(f"leader-{next(self.names)}"),
            policy=RecoveryPolicy(max_attempts=10_000),
            is_recovered=is_recovered,
            adoption_timeout_ms=10_000,
        )
        self.waits: list[wanted.AwaitJobMaster] = []
        self.recoveries: list[int] = []
        self.run_pool(self.pool.start())
        self.run_runner(self.runner.submitted())

    def run_runner(self, effects: list[wanted.RunnerEffect]) -> None:
        job_id = self.runner.job_id
        for effect in effects:
            match effect:
                case wanted.RequestJobMaster():
                    if self.stored is not None:
                        self.run_runner(self.runner.result_found(self.stored))
                    elif self.runner.state is RunnerState.WAITING:
                        self.run_pool(self.pool.request(job_id))
                case wanted.WithdrawRequest():
                    self.pool.withdraw(job_id)
                case wanted.AbandonJobMaster():
                    self.run_pool(self.pool.abandon(job_id, "lost"))
                case wanted.RecoverAfter(_, number):
                    self.recoveries.append(number)
                case wanted.AwaitJobMaster():
                    self.waits.append(effect)
                case wanted.StoreResult(terminated):
                    self.stored = terminated
                    self.run_runner(self.runner.result_stored())
                case wanted.ReleaseJobMaster():
                    self.run_pool(self.pool.release(job_id))

    def run_pool(self, effects: list[pools.PoolEffect]) -> None:
        for effect in effects:
            match effect:
                case pools.SpawnProcess(name):
                    self.children[name] = False
                case pools.AssignJob(name, _):
                    if self.runner.state is not RunnerState.WAITING:
                        self.run_pool(self.pool.release(self.runner.job_id))
                        continue
                    token = self.runner.process_assigned(self.now_ms)
                    self.job_masters.append(JobMaster(token, name, is_child=True, has_session=True))
                case pools.EndProcess(name, _, at_once):
                    self.end(name, at_once=at_once)
                case pools.JobMasterLost(_, reason):
                    self.run_runner(self.runner.job_master_lost(reason, self.now_ms))
                case pools.JobMasterDisconnected():
                    self.run_runner(self.runner.job_master_disconnected())
                case pools.CannotStart(_, reason):
                    self.run_runner(self.runner.failed_to_start(reason, self.now_ms))

    def end(self, name: str, *, at_once: bool) -> None:
        for master in self.job_masters:
            if master.process_id == name and master.is_alive:
                master.is_told_to_stop = True
                if master.is_child and at_once:
                    master.is_alive = False
        if name in self.children and at_once:
            del self.children[name]
            self.run_pool(self.pool.process_exited(name, "killed"))

    @property
    def leader(self) -> JobMaster | None:
        """Returns the holder of the latch: the first living process that was started."""
        return next((master for master in self.job_masters if master.is_alive), None)

    # --- events

    @initialize()
    def first_process(self) -> None:
        self.child_is_ready(0)

    @rule(pick=st.integers(0, 5))
    def child_is_ready(self, pick: int) -> None:
        starting = sorted(name for name, is_ready in self.children.items() if not is_ready)
        if starting:
            name = starting[pick % len(starting)]
            self.children[name] = True
            self.run_pool(self.pool.session_opened(name, is_child=True))

    @rule()
    def job_master_starts(self) -> None:
        leader = self.leader
        if leader is not None and leader.has_session:
            try:
                self.run_runner(self.runner.job_master_started(leader.job_master_id, "address"))
            except StaleFencingTokenError:
                assert leader.job_master_id != self.runner.job_master_id or self.runner.state is RunnerState.WAITING

    @rule(pick=st.integers(0, 5))
    def session_breaks(self, pick: int) -> None:
        connected = [master for master in self.job_masters if master.has_session and master.is_alive]
        if connected:
            master = connected[pick % len(connected)]
            master.has_session = False
            self.run_pool(self.pool.session_closed(master.process_id))

    @rule(pick=st.integers(0, 5))
    def says_hello(self, pick: int) -> None:
        """A leading JobMaster registers. It may have been paused in between."""
        living = [master for master in self.job_masters if master.is_alive and not master.is_told_to_stop]
        if living:
            self.hello(living[pick % len(living)])

    def hello(self, master: JobMaster) -> None:
        believed = self.runner.job_master_id
        name = master.process_id if master.is_child else f"{master.process_id}#{next(self.names)}"
        try:
            effects = self.runner.hello(master.job_master_id, "address", JobState.RUNNING, self.now_ms)
        except StaleFencingTokenError:
            master.is_told_to_stop = True
            return
        assert not self.runner.is_over, "a job that has ended takes no JobMaster"
        assert believed in (None, master.job_master_id), "the job is led by another"
        self.run_runner(effects)
        master.has_session, master.process_id = True, name
        self.run_pool(self.pool.session_adopted(name, self.runner.job_id, is_child=master.is_child))
        assert self.runner.job_master_id == master.job_master_id

    @rule(pick=st.integers(0, 5))
    def dies(self, pick: int) -> None:
        living = [master for master in self.job_masters if master.is_alive]
        if living:
            master = living[pick % len(living)]
            master.is_alive = False
            if master.has_session:
                master.has_session = False
                self.run_pool(self.pool.session_closed(master.process_id))
            if master.is_child and master.process_id in self.children:
                del self.children[master.process_id]
                self.run_pool(self.pool.process_exited(master.process_id, "exit code 1"))

    @rule(pick=st.integers(0, 5))
    def stops_as_told(self, pick: int) -> None:
        living = [master for master in self.job_masters if master.is_alive]
        told = [index for index, master in enumerate(living) if master.is_told_to_stop]
        if told:
            self.dies(told[pick % len(told)])

    @precondition(lambda self: self.waits)
    @rule(pick=st.integers(0, 5))
    def is_waited_for_no_longer(self, pick: int) -> None:
        """Ends the wait for a JobMaster: by a timeout, even of an earlier wait, or by a sign that it will not come."""
        wait = self.waits[pick % len(self.waits)]
        self.run_runner(self.runner.adoption_failed(wait.adoption, "late", self.now_ms))

    @precondition(lambda self: self.recoveries)
    @rule(pick=st.integers(0, 5))
    def recovers(self, pick: int) -> None:
        self.run_runner(self.runner.recover(self.recoveries[pick % len(self.recoveries)]))

    @rule()
    def cancels(self) -> None:
        if not self.runner.is_over:
            self.run_runner(self.runner.cancel(self.now_ms))

    @rule(pick=st.integers(0, 5), status=st.sampled_from([JobState.FINISHED, JobState.FAILED]))
    def brings_the_result(self, pick: int, status: JobState) -> None:
        """The holder of the latch sometimes reports the result. Afterwards nothing happens to the job."""
        leader = self.leader
        if leader is None or self.stored is not None or pick:
            return
        terminated = pb.JobTerminated(
            job_id=GRAPH.job_id,
            job_master_id=str(leader.job_master_id),
            result=job_pb2.JobResult(job_id=GRAPH.job_id, status=common_pb2.JobStatus.Name(status.value)),
        )
        try:
            self.run_runner(self.runner.job_terminated(terminated))
        except StaleFencingTokenError:
            assert leader.job_master_id != self.runner.job_master_id or self.runner.state is RunnerState.WAITING

    @rule(is_killed=st.booleans())
    def another_dispatcher_leads(self, is_killed: bool) -> None:
        if not is_killed:
            self.pool.leave()
        for master in self.job_masters:
            master.has_session = False
            master.is_child = False
        self.begin(is_recovered=True)
        if self.stored is not None:  # a new JobMaster finds it at once, and does not run the job
            self.run_runner(self.runner.result_found(self.stored))

    # --- invariants

    @invariant()
    def machines_are_sound(self) -> None:
        self.pool.validate()
        if self.runner.state is RunnerState.RUNNING:
            assert self.runner.job_master_id is not None and self.runner.job_master_address is not None
        if self.stored is not None:
            assert self.runner.is_over, "a job that has ended is not run"

    @invariant()
    def who_is_believed_is_no_other_than_who_was_started_or_adopted(self) -> None:
        known = {master.job_master_id for master in self.job_masters}
        assert self.runner.job_master_id is None or self.runner.job_master_id in known

    def teardown(self) -> None:
        """Stops all faults: processes told to stop do so, the others register, and timeouts pass."""
        for _ in range(40):
            if self.runner.is_over or self._is_led():
                return
            for master in self.job_masters:
                if master.is_alive and master.is_told_to_stop:
                    living = [m for m in self.job_masters if m.is_alive]
                    self.dies(living.index(master))
            leader = self.leader
            if leader is not None:
                if not leader.has_session:
                    self.hello(leader)
                self.job_master_starts()
            if self.waits:
                self.is_waited_for_no_longer(len(self.waits) - 1)
            if self.recoveries:
                self.recovers(len(self.recoveries) - 1)
            self.run_pool(self.pool.replenish())
            self.child_is_ready(0)
        raise AssertionError(f"no JobMaster leads: {self.runner.state}, {self.job_masters}")

    def _is_led(self) -> bool:
        leader = self.leader
        is_running = self.runner.state is RunnerState.RUNNING
        return is_running and leader is not None and leader.job_master_id == self.runner.job_master_id


TestAdoption = OneJobOfManyDispatchers.TestCase
TestAdoption.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
