from __future__ import annotations

import pytest
from jobmaster_fakes import default_slots, location

from flinkpy.common.errors import NotRegisteredError, TaskManagerLostError
from flinkpy.common.ids import AllocationID, ResourceID
from flinkpy.jobmaster.slotpool import declarative_slot_pool as sp
from flinkpy.jobmaster.slotpool.declarative_slot_pool import DeclarativeSlotPool, SlotPoolOptions
from flinkpy.jobmaster.slotpool.physical_slot import SlotOffer, TaskManagerLocation

TM = location("tm")
OTHER = location("other")
CAUSE = TaskManagerLostError("gone")


class Pool:
    """A pool whose invariants are checked after every call."""

    def __init__(self, *, in_turn=False):
        options = SlotPoolOptions(request_timeout_ms=1_000, idle_timeout_ms=100, are_requests_in_turn=in_turn)
        self.pool = DeclarativeSlotPool(options)
        for where in (TM, OTHER):
            self.pool.register_task_manager(where)

    def checked(self, effects):
        self.pool.validate()
        return effects

    def request(self, *ids, now_ms=0, allocation=None, resource=None):
        preferred = None if allocation is None else AllocationID(allocation)
        where = None if resource is None else resource.resource_id
        return self.send_requests(*(sp.SlotRequest(i, preferred, where) for i in ids), now_ms=now_ms)

    def send_requests(self, *requests, now_ms=0):
        return self.checked(self.pool.request_slots(requests, now_ms))

    def offer(self, *names, where=TM, now_ms=0):
        offers = tuple(SlotOffer(AllocationID(name), index) for index, name in enumerate(names))
        return self.checked(self.pool.offer_slots(where.resource_id, offers, now_ms))

    def accepted(self, *names, where=TM):
        """Offers slots. Returns the accepted ones."""
        self.offer(*names, where=where)
        held = self.pool.allocations_of(where.resource_id)
        return [name for name in names if AllocationID(name) in held]

    def return_slot(self, name, now_ms=0):
        return self.checked(self.pool.return_slot(AllocationID(name), now_ms))

    def check_timeouts(self, now_ms, **options):
        return self.checked(self.pool.check_timeouts(now_ms, **options))

    def lose(self, where):
        return self.checked(self.pool.release_task_manager(where.resource_id, CAUSE))

    def fail(self, name, where=TM):
        return self.checked(self.pool.fail_slot(where.resource_id, AllocationID(name), CAUSE))

    def close(self):
        return self.checked(self.pool.close(CAUSE))

    def free_slots(self, *names, where=TM, now_ms=0):
        """Adds unused slots to the pool."""
        ids = range(1_000, 1_000 + len(names))
        self.request(*ids, now_ms=now_ms)
        self.offer(*names, where=where, now_ms=now_ms)
        for name in names:
            self.return_slot(name, now_ms)


@pytest.fixture
def pool():
    return Pool()


@pytest.fixture
def batch_pool():
    return Pool(in_turn=True)


def fulfilled(effects):
    return {
        effect.request_id: effect.slot.allocation_id.value
        for effect in effects
        if isinstance(effect, sp.SlotRequestFulfilled)
    }


def test_requests_raise_the_declared_requirement(pool):
    assert pool.request(1, 2) == [sp.RequirementsChanged(default_slots(2))]


def test_offers_fulfil_requests_in_order_and_the_requirement_stays(pool):
    pool.request(1, 2)
    effects = pool.offer("a", "b")
    assert fulfilled(effects) == {1: "a", 2: "b"}
    assert pool.pool.allocations_of(TM.resource_id) == [AllocationID("a"), AllocationID("b")]
    assert not [effect for effect in effects if isinstance(effect, sp.RequirementsChanged)]


def test_offers_beyond_the_need_are_rejected(pool):
    pool.request(1)
    assert pool.accepted("a", "b") == ["a"]
    assert pool.pool.num_slots == 1


def test_an_offer_of_a_task_manager_that_is_not_registered_is_an_error(pool):
    with pytest.raises(NotRegisteredError, match="nobody"):
        pool.pool.offer_slots(ResourceID("nobody"), [(AllocationID("a"), 0)], 0)


def test_a_repeated_offer_is_accepted_again_and_changes_nothing(pool):
    pool.request(1)
    pool.offer("a")
    assert pool.offer("a") == []
    assert pool.accepted("a") == ["a"]
    assert pool.pool.num_slots == 1


def test_a_known_allocation_offered_by_another_task_manager_is_rejected(pool):
    pool.request(1, 2)
    pool.offer("a")
    assert pool.accepted("a", where=OTHER) == []


def test_a_returned_slot_serves_the_next_request_at_once(pool):
    pool.free_slots("a")
    assert fulfilled(pool.request(1)) == {1: "a"}


def test_a_returned_slot_lowers_the_requirement(pool):
    pool.request(1)
    pool.offer("a")
    assert pool.return_slot("a") == [sp.RequirementsChanged(default_slots(0))]
    assert pool.pool.num_slots == 1


def test_a_restarted_task_gets_its_previous_slot_back(pool):
    pool.free_slots("a", "b", "c")
    assert fulfilled(pool.request(1, allocation="b", resource=TM)) == {1: "b"}


def test_a_task_whose_slot_is_lost_gets_another_on_the_same_task_manager(pool):
    pool.request(8, 9)
    pool.offer("x", where=OTHER)
    pool.offer("y")
    pool.return_slot("x")
    pool.return_slot("y")
    # both are free, x for longer, but the request prefers TM
    assert fulfilled(pool.request(1, allocation="gone", resource=TM)) == {1: "y"}


def test_no_request_takes_the_previous_slot_of_another(pool):
    pool.free_slots("a", "b")
    requests = (
        sp.SlotRequest(1, AllocationID("gone"), OTHER.resource_id),
        sp.SlotRequest(2, AllocationID("a"), TM.resource_id),
    )
    assert fulfilled(pool.send_requests(*requests)) == {1: "b", 2: "a"}


def test_an_idle_slot_is_returned_after_the_idle_timeout(pool):
    pool.free_slots("a", now_ms=50)
    assert pool.pool.next_deadline_ms == 150
    assert pool.check_timeouts(149) == []
    (effect,) = pool.check_timeouts(150)
    assert isinstance(effect, sp.FreeSlotAtTaskManager)
    assert effect.slot.allocation_id == AllocationID("a")
    assert pool.pool.next_deadline_ms is None


def test_a_request_times_out_with_the_required_and_available_slots(pool):
    pool.request(1, 2, 3)
    pool.offer("a")
    assert pool.check_timeouts(999) == []
    effects = pool.check_timeouts(1_000)
    assert effects == [sp.SlotRequestsTimedOut((2, 3), 3, 1), sp.RequirementsChanged(default_slots(1))]


def test_a_canceled_request_takes_no_slot(pool):
    pool.request(1)
    assert pool.checked(pool.pool.cancel_requests([1])) == [sp.RequirementsChanged(default_slots(0))]
    assert pool.accepted("a") == []


def test_a_lost_task_manager_takes_its_slots_along(pool):
    pool.request(1, 2)
    pool.offer("a")
    pool.offer("b", where=OTHER)
    effects = pool.lose(TM)
    assert [effect.slot.allocation_id.value for effect in effects if isinstance(effect, sp.SlotLost)] == ["a"]
    assert pool.pool.num_slots == 1
    assert pool.pool.location(TM.resource_id) is None


def test_a_lost_free_slot_has_no_effect(pool):
    pool.free_slots("a")
    assert pool.lose(TM) == []


def test_a_task_manager_lost_twice_is_lost_once(pool):
    pool.lose(TM)
    assert pool.lose(TM) == []


def test_a_failed_slot_is_lost_and_a_late_failure_of_it_ignored(pool):
    pool.request(1)
    pool.offer("a")
    assert isinstance(pool.fail("a")[0], sp.SlotLost)
    assert pool.fail("a") == []


def test_a_slot_is_failed_only_by_its_own_task_manager(pool):
    pool.request(1)
    pool.offer("a")
    assert pool.fail("a", where=OTHER) == []


def test_returning_a_slot_that_was_lost_is_ignored(pool):
    assert pool.return_slot("a") == []


def test_a_closed_pool_returns_all_slots_and_accepts_none(pool):
    pool.free_slots("a")
    pool.request(1, 2)
    effects = pool.close()
    assert [e.slot.allocation_id.value for e in effects if isinstance(e, sp.FreeSlotAtTaskManager)] == ["a"]
    assert effects[-1] == sp.RequirementsChanged(default_slots(0))
    assert pool.request(3) == []
    assert pool.accepted("b") == []


def test_a_request_takes_no_slot_of_a_task_manager_that_it_excludes(pool):
    excluding = sp.SlotRequest(1, excluded_resources=frozenset({TM.resource_id}))
    pool.send_requests(excluding)
    assert pool.accepted("a") == []
    assert fulfilled(pool.offer("b", where=OTHER)) == {1: "b"}


def test_requests_behind_an_excluding_one_do_not_wait_for_it(pool):
    excluding = sp.SlotRequest(1, excluded_resources=frozenset({TM.resource_id}))
    pool.send_requests(excluding, sp.SlotRequest(2))
    assert fulfilled(pool.offer("a")) == {2: "a"}


def test_an_exclusion_overrides_a_preferred_slot(pool):
    pool.free_slots("a")
    back = sp.SlotRequest(1, AllocationID("a"), TM.resource_id, excluded_resources=frozenset({TM.resource_id}))
    assert fulfilled(pool.send_requests(back)) == {}
    assert fulfilled(pool.offer("b", where=OTHER)) == {1: "b"}


def test_a_closed_pool_returns_slots_in_use_with_the_reason(pool):
    pool.request(1, 2)
    pool.offer("in use", "free")
    pool.return_slot("free")
    effects = pool.close()
    returned = {e.slot.allocation_id.value: e.cause for e in effects if isinstance(e, sp.FreeSlotAtTaskManager)}
    assert returned == {"in use": CAUSE, "free": CAUSE}
    assert pool.pool.num_slots == 0


def test_a_lost_slot_is_reported_with_its_cause_and_not_required_any_more(pool):
    pool.request(1)
    pool.offer("a")
    lost, requirements = pool.fail("a")
    assert (lost.slot.allocation_id, lost.cause) == (AllocationID("a"), CAUSE)
    assert requirements == sp.RequirementsChanged(default_slots(0))


def test_only_free_slots_that_are_idle_long_enough_are_returned(pool):
    pool.request(1, 2)
    pool.offer("early", "late")
    pool.return_slot("early", 10)
    pool.return_slot("late", 40)
    assert pool.pool.next_deadline_ms == 110
    (effect,) = pool.check_timeouts(110)
    assert effect.slot.allocation_id == AllocationID("early")
    assert "slot.idle.timeout" in str(effect.cause)
    assert pool.pool.next_deadline_ms == 140


def test_the_idle_time_of_a_slot_restarts_after_each_use(pool):
    pool.free_slots("a", now_ms=0)
    pool.request(1, now_ms=90)
    pool.return_slot("a", 95)
    assert pool.check_timeouts(194) == []
    assert len(pool.check_timeouts(195)) == 1


def test_the_pool_lists_the_slots_of_a_task_manager(pool):
    pool.request(1, 2, 3)
    pool.offer("a", "b")
    pool.offer("c", where=OTHER)
    pool.return_slot("b")
    assert set(pool.pool.allocations_of(TM.resource_id)) == {AllocationID("a"), AllocationID("b")}
    assert pool.pool.allocations_of(OTHER.resource_id) == [AllocationID("c")]
    assert pool.pool.task_managers == [TM, OTHER]
    assert pool.pool.location(TM.resource_id) == TM


def test_a_task_manager_that_registers_again_is_at_its_new_address(pool):
    moved = TaskManagerLocation(TM.resource_id, "new:1", "new:2")
    pool.pool.register_task_manager(moved)
    assert pool.pool.location(TM.resource_id) == moved
    pool.request(1)
    (offer,) = (e for e in pool.offer("a") if isinstance(e, sp.SlotRequestFulfilled))
    assert offer.slot.location == moved


# Batch jobs


def test_the_oldest_request_of_a_batch_job_gets_the_next_slot(batch_pool):
    """Otherwise a region that has one of two slots might never get the other."""
    batch_pool.request(1)
    batch_pool.request(2, allocation="a", resource=TM)
    assert fulfilled(batch_pool.offer("a")) == {1: "a"}
    assert fulfilled(batch_pool.offer("b")) == {2: "b"}


def test_requests_of_a_batch_job_get_preferred_slots_if_there_are_enough(batch_pool):
    batch_pool.free_slots("a", "b")
    requests = (sp.SlotRequest(1), sp.SlotRequest(2, AllocationID("a"), TM.resource_id))
    assert fulfilled(batch_pool.send_requests(*requests)) == {1: "b", 2: "a"}


def test_a_batch_request_that_excludes_the_slot_does_not_block_the_next(batch_pool):
    excluding = sp.SlotRequest(1, excluded_resources=frozenset({TM.resource_id}))
    batch_pool.send_requests(excluding, sp.SlotRequest(2))
    assert fulfilled(batch_pool.offer("a")) == {2: "a"}


def test_batch_requests_do_not_time_out_while_slots_of_the_job_are_in_use(batch_pool):
    batch_pool.request(1, 2)
    batch_pool.request(3, now_ms=500)
    assert batch_pool.check_timeouts(1_000, are_slots_coming=True) == []
    assert batch_pool.pool.next_deadline_ms == 1_500, "a request that is not due keeps its deadline"
    assert batch_pool.check_timeouts(1_999) == [
        sp.SlotRequestsTimedOut((3,), 3, 0),
        sp.RequirementsChanged(default_slots(2)),
    ]
    assert batch_pool.check_timeouts(2_000) == [
        sp.SlotRequestsTimedOut((1, 2), 2, 0),
        sp.RequirementsChanged(default_slots(0)),
    ]


def test_streaming_requests_time_out_while_slots_are_in_use(pool):
    pool.request(1)
    effects = pool.check_timeouts(1_000, are_slots_coming=True)
    assert effects == [sp.SlotRequestsTimedOut((1,), 1, 0), sp.RequirementsChanged(default_slots(0))]
