"""The slot pool agrees with a simple record of all requests and slots."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from flinkpy.common.errors import TaskManagerLostError
from flinkpy.common.ids import AllocationID, ResourceID
from flinkpy.jobmaster.slotpool import declarative_slot_pool as sp
from flinkpy.jobmaster.slotpool.declarative_slot_pool import DeclarativeSlotPool, SlotPoolOptions
from flinkpy.jobmaster.slotpool.physical_slot import SlotOffer, TaskManagerLocation

CAUSE = TaskManagerLostError("gone")
NAMES = st.sampled_from(["tm1", "tm2", "tm3"])


class SlotPoolMachine(RuleBasedStateMachine):
    """The oracle records the waiting requests, the used slots and the free slots."""

    def __init__(self):
        super().__init__()
        self.pool = DeclarativeSlotPool(SlotPoolOptions(request_timeout_ms=1_000, idle_timeout_ms=300))
        self.now_ms = 0
        self.waiting = {}  # request -> since
        self.used = {}  # allocation -> task manager
        self.free = {}  # allocation -> (task manager, since)
        self.registered = set()
        self.declared = 0
        self.num_requests = 0
        self.num_allocations = 0

    def check(self, effects):
        self.pool.validate()
        for effect in effects:
            match effect:
                case sp.SlotRequestFulfilled(request_id, slot):
                    del self.waiting[request_id]
                    self.free.pop(slot.allocation_id, None)
                    self.used[slot.allocation_id] = slot.location.resource_id.value
                case sp.RequirementsChanged(requirements):
                    self.declared = requirements.total
        assert self.declared == len(self.waiting) + len(self.used)
        assert self.pool.num_slots == len(self.used) + len(self.free)
        assert self.pool.reserved_allocations == self.used.keys()
        assert self.pool.waiting_requests == self.waiting.keys()
        return effects

    @rule(name=NAMES)
    def register(self, name):
        self.registered.add(name)
        self.pool.register_task_manager(TaskManagerLocation(ResourceID(name), f"{name}:1", f"{name}:2"))
        self.check([])

    @rule(number=st.integers(1, 4), data=st.data())
    def request(self, number, data):
        allocations = st.sampled_from([None, *self.used, *self.free])
        requests = []
        for _ in range(number):
            self.num_requests += 1
            requests.append(sp.SlotRequest(self.num_requests, data.draw(allocations), ResourceID(data.draw(NAMES))))
            self.waiting[self.num_requests] = self.now_ms
        free_before = set(self.free)
        effects = self.check(self.pool.request_slots(requests, self.now_ms))
        given = {e.request_id: e.slot.allocation_id for e in effects if isinstance(e, sp.SlotRequestFulfilled)}
        # a preferred slot was assigned if it was free and no other request wanted it
        wishes = [request.preferred_allocation for request in requests]
        for request in requests:
            wish = request.preferred_allocation
            if wish in free_before and wishes.count(wish) == 1:
                assert given[request.request_id] == wish

    @precondition(lambda self: self.registered)
    @rule(data=st.data(), number=st.integers(1, 3))
    def offer(self, data, number):
        name = data.draw(st.sampled_from(sorted(self.registered)))
        offers = []
        for index in range(number):
            self.num_allocations += 1
            offers.append(SlotOffer(AllocationID(f"a{self.num_allocations}"), index))
        num_waiting = len(self.waiting)
        self.check(self.pool.offer_slots(ResourceID(name), offers, self.now_ms))
        held = self.pool.allocations_of(ResourceID(name))
        assert sum(offer.allocation_id in held for offer in offers) == min(number, num_waiting)

    @precondition(lambda self: self.used)
    @rule(data=st.data())
    def offer_again(self, data):
        allocation, name = data.draw(st.sampled_from(sorted(self.used.items())))
        assert self.check(self.pool.offer_slots(ResourceID(name), [SlotOffer(allocation, 0)], self.now_ms)) == []
        assert allocation in self.pool.allocations_of(ResourceID(name))

    @precondition(lambda self: self.used)
    @rule(data=st.data())
    def return_slot(self, data):
        allocation = data.draw(st.sampled_from(sorted(self.used)))
        self.free[allocation] = (self.used.pop(allocation), self.now_ms)
        self.check(self.pool.return_slot(allocation, self.now_ms))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel(self, data):
        request_id = data.draw(st.sampled_from(sorted(self.waiting)))
        del self.waiting[request_id]
        self.check(self.pool.cancel_requests([request_id]))

    @rule(name=NAMES)
    def lose(self, name):
        lost = {allocation for allocation, where in self.used.items() if where == name}
        self.registered.discard(name)
        self.used = {allocation: where for allocation, where in self.used.items() if where != name}
        self.free = {allocation: entry for allocation, entry in self.free.items() if entry[0] != name}
        effects = self.check(self.pool.release_task_manager(ResourceID(name), CAUSE))
        assert {e.slot.allocation_id for e in effects if isinstance(e, sp.SlotLost)} == lost

    @rule(by_ms=st.sampled_from([1, 299, 300, 1_000]))
    def time_passes(self, by_ms):
        self.now_ms += by_ms
        late = {request_id for request_id, since in self.waiting.items() if self.now_ms - since >= 1_000}
        idle = {allocation for allocation, (_, since) in self.free.items() if self.now_ms - since >= 300}
        for request_id in late:
            del self.waiting[request_id]
        for allocation in idle:
            del self.free[allocation]
        effects = self.check(self.pool.check_timeouts(self.now_ms))
        assert {i for e in effects if isinstance(e, sp.SlotRequestsTimedOut) for i in e.request_ids} == late
        assert {e.slot.allocation_id for e in effects if isinstance(e, sp.FreeSlotAtTaskManager)} == idle
        deadline_ms = self.pool.next_deadline_ms
        assert deadline_ms is None or deadline_ms > self.now_ms


SlotPoolMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestSlotPool = SlotPoolMachine.TestCase
