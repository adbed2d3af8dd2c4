from __future__ import annotations

import pytest

from flinkpy.common.errors import NotRegisteredError, StaleFencingTokenError
from flinkpy.common.ids import JobID, JobMasterId, ResourceID
from flinkpy.resourcemanager.job_leader_service import ConnectionState, JobLeaderService

JOB = JobID("job")
OLD, NEW = JobMasterId("old"), JobMasterId("new")


def register(service: JobLeaderService, job_master_id: JobMasterId) -> object:
    return service.register(JOB, job_master_id, ResourceID(f"{job_master_id}-process"), "jm:1")


def test_a_repeated_registration_replaces_no_leader() -> None:
    service = JobLeaderService(1_000)
    assert register(service, OLD) is None
    assert register(service, OLD) is None


def test_a_new_leader_replaces_the_former_one_permanently() -> None:
    service = JobLeaderService(1_000)
    register(service, OLD)
    former = register(service, NEW)
    assert former is not None and former.job_master_id == OLD  # type: ignore[attr-defined]
    with pytest.raises(StaleFencingTokenError, match="was replaced"):
        register(service, OLD)
    with pytest.raises(StaleFencingTokenError):
        service.check(JOB, OLD)
    assert service.check(JOB, NEW).job_master_id == NEW
    assert service.find_by_resource(JOB, ResourceID("old-process")) is None


def test_a_leader_replaced_by_a_message_of_its_dead_predecessor_returns_when_the_predecessor_is_lost() -> None:
    service = JobLeaderService(1_000)
    register(service, NEW)
    register(service, OLD)  # sent before it died, and late
    with pytest.raises(StaleFencingTokenError):
        register(service, NEW)
    service.contact_lost(JOB, OLD, 10)
    register(service, NEW)
    assert service.check(JOB, NEW).state is ConnectionState.CONNECTED
    with pytest.raises(StaleFencingTokenError):
        register(service, OLD)


def test_a_leader_can_register_again_after_its_predecessor_timed_out() -> None:
    service = JobLeaderService(1_000)
    register(service, NEW)
    register(service, OLD)
    service.contact_lost(JOB, OLD, 10)
    assert service.timed_out(1_010) == [JOB]
    register(service, NEW)
    assert service.check(JOB, NEW)


def test_an_unregistered_job_master_is_told_to_register() -> None:
    with pytest.raises(NotRegisteredError):
        JobLeaderService(1_000).check(JOB, OLD)


def test_a_lost_leader_that_registers_again_is_connected_again() -> None:
    service = JobLeaderService(1_000)
    register(service, OLD)
    assert service.contact_lost(JOB, OLD, 10)
    assert not service.contact_lost(JOB, OLD, 20)
    register(service, OLD)
    leader = service.find(JOB)
    assert leader is not None and leader.state is ConnectionState.CONNECTED
    assert service.timed_out(99_999) == []


def test_the_loss_of_a_former_leader_does_not_affect_the_current_one() -> None:
    service = JobLeaderService(1_000)
    register(service, OLD)
    register(service, NEW)
    assert not service.contact_lost(JOB, OLD, 10)


def test_a_job_without_a_leader_is_given_up_after_the_timeout_and_may_return() -> None:
    service = JobLeaderService(1_000)
    register(service, OLD)
    service.contact_lost(JOB, OLD, 10)
    assert service.timed_out(1_009) == []
    assert service.timed_out(1_010) == [JOB]
    assert service.timed_out(1_011) == []
    register(service, OLD)
    assert service.check(JOB, OLD)


def test_a_disconnect_ends_the_leadership() -> None:
    service = JobLeaderService(1_000)
    register(service, OLD)
    assert service.disconnected(JOB) is not None
    assert service.disconnected(JOB) is None
    with pytest.raises(StaleFencingTokenError):
        register(service, OLD)
