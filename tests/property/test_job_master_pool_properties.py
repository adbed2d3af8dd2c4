"""JobMasterPool while processes start, fail, hang, lose their session and end at any time.

A job has at most one process. Once processes start without faults, every waiting job gets one.
"""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from flinkpy.common.ids import JobID
from flinkpy.dispatcher.job_master_pool import (
    MAX_STARTING,
    AssignJob,
    CannotStart,
    EndProcess,
    JobMasterGone,
    JobMasterLost,
    JobMasterPool,
    PoolEffect,
    ReplenishAfter,
    SpawnProcess,
)

STANDBYS = 2


class JobMasterPoolAgainstProcesses(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pool = JobMasterPool(STANDBYS)
        self.names = itertools.count(1)
        #: Living children, with True if they have registered.
        self.alive: dict[str, bool] = {}
        self.outside: set[str] = set()
        self.waiting: set[JobID] = set()
        self.process_of: dict[JobID, str] = {}
        #: Ended jobs whose processes may still live.
        self.released: set[JobID] = set()
        self.num_timers = 0
        self.run(self.pool.start())

    def run(self, effects: list[PoolEffect]) -> None:
        for effect in effects:
            match effect:
                case SpawnProcess(name):
                    assert name not in self.alive
                    self.alive[name] = False
                case AssignJob(name, job):
                    assert job in self.waiting, "a job is handed out once"
                    assert name not in self.process_of.values(), "a process has one job"
                    self.waiting.discard(job)
                    self.process_of[job] = name
                case EndProcess(name, _, at_once):
                    if name in self.outside:
                        self.outside.discard(name)
                    elif at_once and name in self.alive:
                        self.exit(name)
                case JobMasterLost(job, _):
                    assert job in self.process_of
                    del self.process_of[job]
                case JobMasterGone(job):
                    assert job in self.released, "reported once"
                    self.released.discard(job)
                case CannotStart(job, _):
                    self.waiting.remove(job)
                case ReplenishAfter():
                    self.num_timers += 1

    def exit(self, name: str) -> None:
        del self.alive[name]
        self.run(self.pool.process_exited(name, "killed by SIGKILL"))

    def hello(self, name: str) -> None:
        self.alive[name] = True
        self.run(self.pool.session_opened(name, is_child=True))

    @rule()
    def a_job_is_submitted(self) -> None:
        job = JobID(f"job-{next(self.names)}")
        self.waiting.add(job)
        self.run(self.pool.request(job))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def a_waiting_job_is_canceled(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(sorted(self.waiting)))
        self.waiting.discard(job)
        self.pool.withdraw(job)

    @precondition(lambda self: self.process_of)
    @rule(data=st.data())
    def a_job_ends(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(sorted(self.process_of)))
        del self.process_of[job]
        self.released.add(job)
        self.run(self.pool.release(job))

    @precondition(lambda self: self.process_of)
    @rule(data=st.data())
    def a_job_goes_on_with_another_process(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(sorted(self.process_of)))
        del self.process_of[job]
        self.run(self.pool.abandon(job, "it hangs"))
        self.waiting.add(job)
        self.run(self.pool.request(job))

    @precondition(lambda self: not all(self.alive.values()))
    @rule(data=st.data())
    def a_child_becomes_ready(self, data: st.DataObject) -> None:
        self.hello(data.draw(st.sampled_from(sorted(name for name, ready in self.alive.items() if not ready))))

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def a_child_dies(self, data: st.DataObject) -> None:
        self.exit(data.draw(st.sampled_from(sorted(self.alive))))

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def a_session_breaks(self, data: st.DataObject) -> None:
        self.run(self.pool.session_closed(data.draw(st.sampled_from(sorted(self.alive)))))

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def a_start_takes_too_long(self, data: st.DataObject) -> None:
        self.run(self.pool.start_timed_out(data.draw(st.sampled_from(sorted(self.alive)))))

    @rule()
    def a_process_comes_from_outside(self) -> None:
        name = f"outside-{next(self.names)}"
        self.outside.add(name)
        self.run(self.pool.session_opened(name, is_child=False))

    @precondition(lambda self: self.outside)
    @rule(data=st.data())
    def a_process_from_outside_leaves(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.outside)))
        self.outside.discard(name)
        self.run(self.pool.session_closed(name))

    @precondition(lambda self: self.num_timers)
    @rule()
    def the_timer_fires(self) -> None:
        self.num_timers -= 1
        self.run(self.pool.replenish())

    @invariant()
    def the_pool_is_sound(self) -> None:
        self.pool.validate()
        assert sum(not ready for ready in self.alive.values()) <= MAX_STARTING
        assert not self.waiting or not all(self.alive.values()), "a job waits and nothing starts"

    def teardown(self) -> None:
        for _ in range(10 + len(self.waiting)):
            while self.num_timers:
                self.the_timer_fires()
            for name in [name for name, ready in self.alive.items() if not ready]:
                self.hello(name)
        assert not self.waiting
        assert self.pool.num_standbys >= STANDBYS
        self.run(self.pool.close())
        for name in list(self.alive):
            self.exit(name)
        assert self.pool.num_processes == 0 and self.alive == {} and not self.released


TestJobMasterPoolAgainstProcesses = JobMasterPoolAgainstProcesses.TestCase
TestJobMasterPoolAgainstProcesses.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
