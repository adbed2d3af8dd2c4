"""A JobMaster follows leader changes of the ResourceManager and the Dispatcher."""

from __future__ import annotations

import asyncio
import functools

from fake_leaders import FakeRetrieval
from jobmaster_fakes import source_and_sink
from testing_gateways import Process

from flinkpy._proto import common_pb2, resourcemanager_pb2
from flinkpy.common.errors import LeadershipLostError, NotLeaderError, StaleFencingTokenError
from flinkpy.common.states import JobState
from flinkpy.highavailability.leader_election import LeaderInformation


def with_job(**environment):
    """Runs a test with a JobMaster whose job runs on one TaskExecutor."""

    def decorate(test):
        @functools.wraps(test)
        def run(tmp_path):
            async def body():
                made = {key: make() for key, make in environment.items()}
                job = Process(source_and_sink(), tmp_path, **made)
                try:
                    await test(job, **made)
                finally:
                    await job.job_master.close()

            asyncio.run(body())

        del run.__wrapped__
        return run

    return decorate


def registered_as(token):
    return resourcemanager_pb2.RegisterJobMasterResponse(resource_manager_id=token, resource_id="rm")


def addresses_of(job, method):
    return [call.address for call in job.peers.calls_of(method)]


# The ResourceManager


def one_leads():
    return FakeRetrieval(LeaderInformation("rm:1", "one"))


@with_job(resource_manager=one_leads)
async def test_a_job_declares_what_it_needs_to_the_next_resource_manager_and_its_tasks_run_on(job, resource_manager):
    job.peers.answers["register_job_master"] = lambda _: registered_as(resource_manager.leader.fencing_token)
    await job.start()
    await job.add_task_manager()
    await job.run_everything()
    resource_manager.lead("rm:2", "two")
    await job.settle()
    assert addresses_of(job, "register_job_master") == ["rm:1", "rm:2"]
    assert addresses_of(job, "declare_required_resources")[-1] == "rm:2"
    assert job.peers.tokens("declare_required_resources")[-1] == "two"
    assert job.job_master.state is JobState.RUNNING
    assert job.peers.requests("cancel_tasks") == []


@with_job(resource_manager=one_leads)
async def test_a_repeated_report_of_the_same_leader_has_no_effect(job, resource_manager):
    job.peers.answers["register_job_master"] = lambda _: registered_as("one")
    await job.start()
    resource_manager.lead("rm:1", "one")
    await job.settle()
    assert addresses_of(job, "register_job_master") == ["rm:1"]


@with_job(resource_manager=one_leads)
async def test_a_late_answer_of_a_former_resource_manager_is_ignored(job, resource_manager):
    late = asyncio.get_running_loop().create_future()
    answers = [late, registered_as("two")]
    job.peers.answers["register_job_master"] = lambda _: answers.pop(0)
    job.job_master.start()
    await job.settle()
    late.set_result(registered_as("one"))
    resource_manager.lead("rm:2", "two")
    await job.settle()
    await job.until(lambda: job.job_master.state is JobState.RUNNING)
    assert set(addresses_of(job, "declare_required_resources")) == {"rm:2"}


@with_job(resource_manager=one_leads)
async def test_a_registration_at_a_resource_manager_that_does_not_lead_is_repeated(job, resource_manager):
    answers = [NotLeaderError("not yet"), registered_as("an earlier life"), registered_as("one")]
    job.peers.answers["register_job_master"] = lambda _: answers.pop(0)
    await job.start()
    await job.until(lambda: answers == [])
    await job.settle()
    assert set(job.peers.tokens("declare_required_resources")) == {"one"}


@with_job(resource_manager=one_leads)
async def test_a_job_runs_on_while_no_resource_manager_leads(job, resource_manager):
    job.peers.answers["register_job_master"] = lambda _: registered_as(resource_manager.leader.fencing_token)
    await job.start()
    await job.add_task_manager()
    await job.run_everything()
    resource_manager.nobody_leads()
    await job.settle()
    job.job_master._resource_manager.send_heartbeat()
    await job.settle()
    assert "rm:1" not in addresses_of(job, "heartbeat_from_job_master")
    assert job.job_master.state is JobState.RUNNING
    resource_manager.lead("rm:1", "one")
    await job.settle()
    assert addresses_of(job, "register_job_master") == ["rm:1", "rm:1"]


@with_job(resource_manager=one_leads)
async def test_leader_changes_after_the_end_of_the_job_are_ignored(job, resource_manager):
    job.peers.answers["register_job_master"] = lambda _: registered_as("one")
    await job.start()
    job.job_master.cancel()
    await job.until(job.job_master.terminated.is_set)
    assert resource_manager.is_closed


# The Dispatcher


def dispatcher(job, address, token):
    return job.peers.gateway("Dispatcher", address, token), address


def outlives():
    return True


@with_job(outlives_dispatcher=outlives)
async def test_the_next_dispatcher_receives_the_current_status(job, outlives_dispatcher):
    await job.start()
    job.job_master.dispatcher_moved(*dispatcher(job, "dispatcher:2", "next"))
    await job.settle()
    assert addresses_of(job, "notify_job_status")[-1] == "dispatcher:2"
    assert job.peers.tokens("notify_job_status")[-1] == "next"
    assert JobState(job.peers.requests("notify_job_status")[-1].status) is JobState.RUNNING


@with_job(outlives_dispatcher=outlives)
async def test_tasks_fetch_the_files_of_the_job_from_the_dispatcher_that_leads(job, outlives_dispatcher):
    await job.start()
    job.job_master.dispatcher_moved(*dispatcher(job, "dispatcher:2", "next"))
    await job.add_task_manager()
    assert {request.job.blob_server_address for request in job.peers.requests("submit_tasks")} == {"dispatcher:2"}


@with_job(outlives_dispatcher=outlives)
async def test_a_result_waits_until_a_dispatcher_takes_it(job, outlives_dispatcher):
    taken = []

    def answer(request):
        if len(taken) == 0:
            taken.append(request)
            return StaleFencingTokenError("it leads no more")
        taken.append(request)
        return common_pb2.Acknowledge()

    job.peers.answers["notify_job_terminated"] = answer
    await job.start()
    job.job_master.cancel()
    await job.until(lambda: len(taken) == 1)
    assert not job.job_master.terminated.is_set()
    job.job_master.dispatcher_moved(*dispatcher(job, "dispatcher:2", "next"))
    await job.until(job.job_master.terminated.is_set)
    assert addresses_of(job, "notify_job_terminated") == ["dispatcher:1", "dispatcher:2"]
    assert JobState(job.result.status) is JobState.CANCELED


@with_job(outlives_dispatcher=outlives)
async def test_a_report_to_a_hanging_dispatcher_moves_to_the_next_leader(job, outlives_dispatcher):
    never = asyncio.get_running_loop().create_future()
    answers = [never]
    await job.start()

    def answer(request):
        return answers.pop() if answers else common_pb2.Acknowledge()

    job.peers.answers["notify_job_terminated"] = answer
    job.job_master.cancel()
    await job.until(lambda: answers == [])
    job.job_master.dispatcher_moved(*dispatcher(job, "dispatcher:2", "next"))
    await job.until(job.job_master.terminated.is_set)
    assert addresses_of(job, "notify_job_terminated") == ["dispatcher:1", "dispatcher:2"]


# The leadership of the JobMaster


class NoLongerLeading:
    """A CheckpointRecovery of a JobMaster that has lost its leadership."""

    def pointers(self):
        raise LeadershipLostError("the latch is gone")

    def counter(self, at_least):
        raise LeadershipLostError("the latch is gone")


@with_job(checkpoint_recovery=NoLongerLeading)
async def test_a_job_master_that_lost_its_leadership_does_not_fail_the_job(job, checkpoint_recovery):
    await job.start(until_state="SUSPENDED")
    (error,) = job.lost_leaderships
    assert "latch" in str(error)
    assert job.peers.requests("notify_job_terminated") == []
