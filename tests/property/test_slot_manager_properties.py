"""SlotManager with TaskExecutors that crash and return, and messages that are lost, repeated, delayed and reordered.

No invariant is violated in between. Once all messages have arrived and the TaskExecutors have reported twice, the view
of the manager is correct, and no job waits while a slot for it is free. A process serves one resource profile in its
life. It is replaced for another profile only when no job uses it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from flinkpy.common.ids import AllocationID, InstanceID, JobID, JobMasterId, ResourceID
from flinkpy.resourcemanager.slot_manager import (
    FreeSlot,
    JobRequirements,
    RenewTaskExecutor,
    RequestSlot,
    ResourceRequirement,
    ScheduleRequirementsCheck,
    SlotManager,
    SlotManagerEffect,
    SlotManagerOptions,
)
from flinkpy.resourcemanager.task_executor_tracker import SlotState, SlotStatus, TaskExecutorDescription

JOBS = [JobID("job-1"), JobID("job-2"), JobID("job-3")]
#: The last profile has its own Python packages.
PROFILES = dict(zip(JOBS, ["", "", "blue"], strict=True))
NAMES = ["te-1", "te-2", "te-3"]
SLOTS = 2
#: The number of report rounds after which the state must be settled.
ROUNDS = 6
#: The most messages until the state is settled.
MAX_MESSAGES = 2_000


@dataclass
class Executor:
    """A TaskExecutor with its true state: the allocation and job of each slot."""

    name: str
    pid: int
    instance: InstanceID
    slots: list[tuple[AllocationID, JobID] | None] = field(default_factory=lambda: [None] * SLOTS)
    #: The profile of the process for its whole life.
    profile: str | None = None

    def report(self) -> list[SlotStatus]:
        return [
            SlotStatus(index) if held is None else SlotStatus(index, *held) for index, held in enumerate(self.slots)
        ]


class SlotManagerAgainstUnreliablePeers(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ids = itertools.count(1)
        self.manager = SlotManager(
            SlotManagerOptions(requirements_check_delay_ms=0), lambda: AllocationID(f"alloc-{next(self.ids)}")
        )
        self.executors: dict[str, Executor] = {}
        self.required: dict[JobID, int] = {}
        self.sequence = itertools.count(1)
        #: Messages in flight: the action on arrival, and True for an answer that must arrive or fail.
        self.under_way: list[Callable[[], None]] = []
        #: Processes to check after a pause.
        self.later: list[Callable[[], None]] = []

    def run(self, effects: list[SlotManagerEffect]) -> None:
        for effect in effects:
            match effect:
                case RequestSlot():
                    self.under_way.append(lambda e=effect: self.request_arrives(e))  # type: ignore[misc]
                case FreeSlot():
                    self.under_way.append(lambda e=effect: self.free_arrives(e))  # type: ignore[misc]
                case RenewTaskExecutor():
                    self.under_way.append(lambda e=effect: self.renewal_arrives(e))  # type: ignore[misc]
                case ScheduleRequirementsCheck(delay_ms) if delay_ms:
                    self.later.append(lambda: self.run(self.manager.check_requirements(0)))
                case ScheduleRequirementsCheck():
                    self.run(self.manager.check_requirements(0))

    def executor_of(self, instance: InstanceID) -> Executor | None:
        return next((e for e in self.executors.values() if e.instance == instance), None)

    def request_arrives(self, request: RequestSlot) -> None:
        executor = self.executor_of(request.instance_id)
        key = (request.instance_id, request.slot_index, request.allocation_id)
        if executor is None:
            return  # the loss of the TaskExecutor is the answer
        held = executor.slots[request.slot_index]
        is_taken = held is None and executor.profile in (None, request.environment_profile)
        if is_taken:
            executor.profile = request.environment_profile
            executor.slots[request.slot_index] = (request.allocation_id, request.job_id)
        if is_taken or (held is not None and held[0] == request.allocation_id):
            self.under_way.append(lambda: self.run(self.manager.slot_request_acknowledged(*key)))
        else:
            self.under_way.append(lambda: self.run(self.manager.slot_request_failed(*key, 0)))

    def renewal_arrives(self, renewal: RenewTaskExecutor) -> None:
        executor = self.executor_of(renewal.instance_id)
        if executor is None:
            return
        if any(executor.slots):
            self.under_way.append(lambda: self.run(self.manager.renewal_failed(renewal.instance_id)))
            return
        self.run(self.manager.remove_task_executor(executor.instance, "begins anew", 0))
        self.register(executor.name, next(self.ids), [None] * SLOTS)

    def free_arrives(self, effect: FreeSlot) -> None:
        executor = self.executor_of(effect.instance_id)
        if executor is not None:
            for index, held in enumerate(executor.slots):
                if held is not None and held[0] == effect.allocation_id:
                    self.free(executor, index)

    def free(self, executor: Executor, index: int) -> None:
        held = executor.slots[index]
        assert held is not None
        executor.slots[index] = None
        instance = executor.instance
        self.under_way.append(lambda: self.run(self.manager.notify_slot_available(instance, index, held[0], 0)))

    def send_report(self, executor: Executor) -> None:
        instance, report = executor.instance, executor.report()
        self.under_way.append(lambda: self.run(self.manager.process_slot_report(instance, report, 0)))

    def register(
        self, name: str, pid: int, slots: list[tuple[AllocationID, JobID] | None], profile: str | None = None
    ) -> None:
        executor = Executor(name, pid, InstanceID(f"inst-{next(self.ids)}"), slots, profile)
        self.executors[name] = executor
        description = TaskExecutorDescription(
            ResourceID(name), f"{name}:{pid}", "", pid, "host", SLOTS, profile=profile
        )
        self.run(self.manager.register_task_executor(executor.instance, description, 0))
        self.send_report(executor)

    @rule(name=st.sampled_from(NAMES))
    def a_process_starts(self, name: str) -> None:
        self.register(name, next(self.ids), [None] * SLOTS)

    @precondition(lambda self: self.executors)
    @rule(data=st.data())
    def a_process_registers_again(self, data: st.DataObject) -> None:
        executor = data.draw(st.sampled_from(sorted(self.executors.values(), key=lambda e: e.name)))
        self.register(executor.name, executor.pid, executor.slots, executor.profile)

    @precondition(lambda self: self.executors)
    @rule(data=st.data())
    def a_process_dies(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.executors)))
        executor = self.executors.pop(name)
        self.run(self.manager.remove_task_executor(executor.instance, "died", 0))

    @precondition(lambda self: self.executors)
    @rule(data=st.data())
    def a_report_is_sent(self, data: st.DataObject) -> None:
        self.send_report(self.executors[data.draw(st.sampled_from(sorted(self.executors)))])

    @rule(job=st.sampled_from(JOBS), num_slots=st.integers(0, 5))
    def a_job_declares(self, job: JobID, num_slots: int) -> None:
        leader = JobMasterId(f"leader-of-{job}")
        self.required[job] = num_slots
        self.run(self.manager.job_master_connected(job, leader, 0))
        needed = (ResourceRequirement(num_slots, PROFILES[job]),) if num_slots else ()
        declared = JobRequirements(job, leader, "jm:1", needed, next(self.sequence))
        self.run(self.manager.declare_requirements(declared, 0))
        self.under_way.append(lambda: self.run(self.manager.declare_requirements(declared, 0)))

    @rule(job=st.sampled_from(JOBS))
    def a_job_ends(self, job: JobID) -> None:
        self.required.pop(job, None)
        self.run(self.manager.job_terminated(job, 0))

    @precondition(lambda self: self.executors)
    @rule(data=st.data())
    def a_job_master_gives_a_slot_back(self, data: st.DataObject) -> None:
        held = [(e, i) for e in self.executors.values() for i, slot in enumerate(e.slots) if slot is not None]
        if held:
            self.free(*data.draw(st.sampled_from(held)))

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), repeat=st.booleans())
    def a_message_arrives(self, data: st.DataObject, repeat: bool) -> None:
        """Delivers any message in flight. With `repeat` it is delivered again later."""
        position = data.draw(st.integers(0, len(self.under_way) - 1))
        message = self.under_way[position] if repeat else self.under_way.pop(position)
        message()

    @precondition(lambda self: self.under_way)
    @rule()
    def a_quiet_moment_comes(self) -> None:
        """Lets time pass without events. Otherwise few runs would reach a process that is idle after a job."""
        self.deliver_everything()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def a_message_is_lost(self, data: st.DataObject) -> None:
        """Loses a message. The only effect is that a request without an answer times out."""
        self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))

    @precondition(lambda self: self.later)
    @rule()
    def a_pause_ends(self) -> None:
        self.later.pop(0)()

    @invariant()
    def a_process_serves_one_profile(self) -> None:
        for executor in self.executors.values():
            assert all(held is None or PROFILES[held[1]] == executor.profile for held in executor.slots)

    @invariant()
    def nothing_illegal_is_believed(self) -> None:
        self.manager.validate()

    def teardown(self) -> None:
        for _ in range(ROUNDS):
            self.deliver_everything()
            self.time_out_requests()
            for executor in list(self.executors.values()):
                self.send_report(executor)
            self.deliver_everything()
            while self.later:
                self.later.pop()()
            self.deliver_everything()
            self.give_surplus_back()
        self.deliver_everything()
        believed = {
            info.instance_id: [(s.allocation_id, s.job_id) if s.allocation_id else None for s in info.slots]
            for info in self.manager.task_executors
        }
        assert believed == {executor.instance: executor.slots for executor in self.executors.values()}
        held = {job: self.num_held(job) for job in JOBS}
        for job in JOBS:
            needed = self.required.get(job, 0)
            assert held[job] <= needed
            assert held[job] == needed or not self.usable(job), f"{job} waits although a slot is free for it"

    def deliver_everything(self) -> None:
        for _ in range(MAX_MESSAGES):
            if not self.under_way:
                return
            self.under_way.pop(0)()
        raise AssertionError("messages go to and fro without end")

    def time_out_requests(self) -> None:
        for info in self.manager.task_executors:
            if info.is_being_renewed:
                self.run(self.manager.renewal_failed(info.instance_id))
            for slot in info.slots:
                if slot.state is SlotState.PENDING:
                    assert slot.allocation_id is not None
                    effects = self.manager.slot_request_failed(info.instance_id, slot.index, slot.allocation_id, 0)
                    self.run(effects)

    def usable(self, job: JobID) -> list[Executor]:
        """Returns processes that have a slot for the job, or would have one after a renewal."""
        return [
            executor
            for executor in self.executors.values()
            if not any(executor.slots) or (None in executor.slots and executor.profile == PROFILES[job])
        ]

    def num_held(self, job: JobID) -> int:
        return sum(
            slot is not None and slot[1] == job for executor in self.executors.values() for slot in executor.slots
        )

    def give_surplus_back(self) -> None:
        """Returns offered slots that exceed the requirement, as a JobMaster does."""
        for executor in self.executors.values():
            for index, slot in enumerate(executor.slots):
                if slot is not None and self.num_held(slot[1]) > self.required.get(slot[1], 0):
                    self.free(executor, index)


TestSlotManagerAgainstUnreliablePeers = SlotManagerAgainstUnreliablePeers.TestCase
TestSlotManagerAgainstUnreliablePeers.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
