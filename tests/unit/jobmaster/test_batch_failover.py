"""Failover of batch jobs: the subtasks that run again."""

from __future__ import annotations

import pytest
from jobmaster_fakes import E, batch_vertex, job_graph, running

from flinkpy.common.errors import (
    FunctionError,
    PartitionConnectionError,
    PartitionCorruptedError,
    PartitionNotFoundError,
    TaskManagerLostError,
)
from flinkpy.common.states import JobState
from flinkpy.jobmaster.failover.restart_strategy import FixedDelayRestartStrategy
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler.default_scheduler import PARTITION_DETAIL, SchedulerOptions
from flinkpy.jobmaster.slotpool.declarative_slot_pool import SlotPoolOptions

BOOM = FunctionError("map (1/2): ValueError: boom")
DELAY_MS = 100
KEEPS_RESULTS = SchedulerOptions(
    slot_pool=SlotPoolOptions(are_requests_in_turn=True), releases_partitions_during_execution=False
)


def batch(*vertices, slots=(("tm1", 8),), attempts=5, **arguments):
    return running(
        job_graph(*vertices),
        slots=slots,
        restart_strategy=FixedDelayRestartStrategy(attempts, DELAY_MS),
        options=arguments.pop("options", SchedulerOptions(slot_pool=SlotPoolOptions(are_requests_in_turn=True))),
        **arguments,
    )


def two_stages(partitioner):
    """a -> b with two subtasks each, and c, another consumer of the same result."""
    return (
        batch_vertex("a", 2, results=["ab", "ac"], partitioner=partitioner),
        batch_vertex("b", 2, inputs=["ab"]),
        batch_vertex("c", 2, inputs=["ac"]),
    )


def restarted(cluster):
    """Waits for the restart. Returns the subtasks that are not at their first attempt."""
    cluster.acknowledge_submissions()
    cluster.obey_cancels()
    cluster.advance(DELAY_MS)
    return {
        f"{vertex.job_vertex.name}{vertex.subtask_index}"
        for vertex in cluster.scheduler.graph.vertices
        if vertex.current.attempt_id.attempt_number > 0
    }


def ends(cluster):
    """Finishes all tasks until the job ends. Returns the state of the job."""
    while cluster.state is JobState.RUNNING and cluster.attempts(E.RUNNING):
        for attempt in cluster.attempts(E.RUNNING):
            cluster.update(attempt, E.FINISHED)
        cluster.run_all()
    return cluster.state


def lost(kind, cluster, name, data_set, subtask=0):
    partition = f"{data_set}#{subtask}@{cluster.attempt(name, subtask)}"
    return kind("it cannot be read", details={PARTITION_DETAIL: partition})


# The four cases


@pytest.mark.parametrize("partitioner", ["HASH", "REBALANCE", "FORWARD", "BROADCAST"])
def test_a_failed_task_restarts_alone_and_reads_the_kept_results(partitioner):
    cluster = batch(*two_stages(partitioner))
    cluster.finish("a")
    cluster.update(cluster.attempt("b", 0), E.FAILED, BOOM)
    assert restarted(cluster) == {"b0"}
    assert cluster.take(fx.CancelTasks) == []
    cluster.run_all()
    assert ends(cluster) is JobState.FINISHED


def test_a_failed_producer_does_not_restart_consumers_that_have_not_started():
    cluster = batch(*two_stages("HASH"))
    cluster.finish("a1")
    cluster.update(cluster.attempt("a", 0), E.FAILED, BOOM)
    assert restarted(cluster) == {"a0"}


@pytest.mark.parametrize("kind", [PartitionNotFoundError, PartitionConnectionError, PartitionCorruptedError])
def test_a_result_that_cannot_be_read_is_produced_again(kind):
    cluster = batch(batch_vertex("a", 2, results=["ab"]), batch_vertex("b", 2, inputs=["ab"]))
    cluster.finish("a")
    cluster.update(cluster.attempt("b", 0), E.FAILED, lost(kind, cluster, "a", "ab", 1))
    # b1 reads the same file, or will read it
    assert restarted(cluster) == {"a1", "b0", "b1"}
    (release,) = cluster.take(fx.ReleasePartitions)
    assert release.partition_ids == ("ab#1@g_a_1_0",)
    cluster.finish("a1")
    cluster.finish("b")
    assert cluster.state is JobState.FINISHED


@pytest.mark.parametrize("partitioner", ["HASH", "BROADCAST", "GLOBAL"])
def test_finished_consumers_behind_a_deterministic_partitioner_stay_finished(partitioner):
    cluster = batch(*two_stages(partitioner))
    cluster.finish("a", "b")
    cluster.finish("b", "c0")
    cluster.update(cluster.attempt("c", 1), E.FAILED, lost(PartitionNotFoundError, cluster, "a", "ac", 0))
    assert restarted(cluster) == {"a0", "c1"}
    cluster.finish("a0")
    cluster.finish("c1")
    assert cluster.state is JobState.FINISHED


@pytest.mark.parametrize("partitioner", ["REBALANCE", "SHUFFLE", "CUSTOM"])
def test_finished_consumers_behind_a_nondeterministic_partitioner_run_again(partitioner):
    cluster = batch(*two_stages(partitioner))
    cluster.finish("a")
    cluster.finish("b", "c0")
    cluster.update(cluster.attempt("c", 1), E.FAILED, lost(PartitionNotFoundError, cluster, "a", "ac", 0))
    # a1's results for b have been released, so a1 must run again, too
    assert restarted(cluster) == {"a0", "a1", "b0", "b1", "c0", "c1"}
    cluster.run_all()
    assert ends(cluster) is JobState.FINISHED


def test_a_restarted_consumer_reads_results_that_still_exist():
    cluster = batch(*two_stages("REBALANCE"), options=KEEPS_RESULTS)
    cluster.finish("a")
    cluster.finish("b", "c0")
    cluster.update(cluster.attempt("c", 1), E.FAILED, lost(PartitionNotFoundError, cluster, "a", "ac", 0))
    assert restarted(cluster) == {"a0", "b0", "b1", "c0", "c1"}


def test_only_the_consumers_of_the_lost_part_of_a_rescaled_result_run_again():
    cluster = batch(batch_vertex("a", 2, results=["ab"], partitioner="RESCALE"), batch_vertex("b", 4, inputs=["ab"]))
    cluster.finish("a")
    cluster.finish("b0")
    cluster.update(cluster.attempt("b", 1), E.FAILED, lost(PartitionNotFoundError, cluster, "a", "ab", 0))
    assert restarted(cluster) == {"a0", "b0", "b1"}


# Consequences of the four cases


def test_nondeterminism_of_an_input_propagates_over_a_forward_edge():
    """b0 has finished and its input changes, so c0, which read the old output of b0, runs again."""
    cluster = batch(
        batch_vertex("a", 2, results=["ab"], partitioner="REBALANCE"),
        batch_vertex("b", 2, inputs=["ab"], results=["bc", "bd"], partitioner="FORWARD"),
        batch_vertex("c", 2, inputs=["bc"]),
        batch_vertex("d", 2, inputs=["bd"]),
        options=KEEPS_RESULTS,
    )
    cluster.finish("a")
    cluster.finish("b0")
    cluster.finish("c0")
    cluster.update(cluster.attempt("b", 1), E.FAILED, lost(PartitionNotFoundError, cluster, "a", "ab", 0))
    assert restarted(cluster) == {"a0", "b0", "b1", "c0", "d0"}


def test_nondeterminism_of_an_input_does_not_propagate_over_a_hash_edge():
    cluster = batch(
        batch_vertex("a", 2, results=["ab"], partitioner="REBALANCE"),
        batch_vertex("b", 2, inputs=["ab"], results=["bc", "bd"], partitioner="HASH"),
        batch_vertex("c", 2, inputs=["bc"]),
        batch_vertex("d", 2, inputs=["bd"]),
        options=KEEPS_RESULTS,
    )
    cluster.finish("a")
    cluster.finish("b")
    cluster.finish("c")
    cluster.scheduler.partitions.discard(cluster.scheduler.graph.vertex(cluster.attempt("a", 0).vertex))
    cluster.update(cluster.attempt("d", 0), E.FAILED, lost(PartitionNotFoundError, cluster, "b", "bd", 0))
    # a0's result is lost: a0 and b run again; c has all it needs
    assert restarted(cluster) == {"a0", "b0", "b1", "d0", "d1"}


def test_released_inputs_of_a_lost_producer_are_produced_again():
    cluster = batch(
        batch_vertex("a", 2, results=["ab"]),
        batch_vertex("b", 2, inputs=["ab"], results=["bc"]),
        batch_vertex("c", 2, inputs=["bc"]),
    )
    cluster.finish("a")
    cluster.finish("b")
    assert len(cluster.take(fx.ReleasePartitions)) == 1
    cluster.update(cluster.attempt("c", 0), E.FAILED, lost(PartitionNotFoundError, cluster, "b", "bc", 0))
    assert restarted(cluster) == {"a0", "a1", "b0", "c0", "c1"}
    cluster.finish("a")
    assert cluster.states()["b0"] == "RUNNING"
    cluster.finish("b0")
    cluster.finish("c")
    assert cluster.state is JobState.FINISHED


def test_a_source_whose_splits_may_move_restarts_its_finished_forward_consumers():
    cluster = batch(
        batch_vertex("a", 2, results=["ab", "ac"], partitioner="FORWARD", coordinator=b"x"),
        batch_vertex("b", 2, inputs=["ab"]),
        batch_vertex("c", 2, inputs=["ac"]),
    )
    cluster.finish("a0")
    cluster.finish("b0")
    cluster.update(cluster.attempt("c", 0), E.FAILED, lost(PartitionNotFoundError, cluster, "a", "ac", 0))
    assert restarted(cluster) == {"a0", "b0", "c0"}  # a1 still runs


def test_a_source_whose_subtasks_have_all_finished_does_not_restart_forward_consumers():
    cluster = batch(
        batch_vertex("a", 2, results=["ab", "ac"], partitioner="FORWARD", coordinator=b"x"),
        batch_vertex("b", 2, inputs=["ab"]),
        batch_vertex("c", 2, inputs=["ac"]),
    )
    cluster.finish("a")
    cluster.finish("b0")
    cluster.update(cluster.attempt("c", 0), E.FAILED, lost(PartitionNotFoundError, cluster, "a", "ac", 0))
    assert restarted(cluster) == {"a0", "c0"}


def test_a_late_report_about_an_old_result_does_not_affect_the_new_one():
    cluster = batch(batch_vertex("a", 1, results=["ab"]), batch_vertex("b", 2, inputs=["ab"]))
    cluster.finish("a")
    old = lost(PartitionNotFoundError, cluster, "a", "ab")
    cluster.update(cluster.attempt("b", 0), E.FAILED, old)
    assert restarted(cluster) == {"a0", "b0", "b1"}
    cluster.finish("a")
    cluster.update(cluster.attempt("b", 1), E.FAILED, old)
    cluster.advance(DELAY_MS)
    assert cluster.attempt("a").attempt_number == 1
    assert cluster.attempt("b", 0).attempt_number == 1
    assert cluster.attempt("b", 1).attempt_number == 2


# Lost TaskExecutors


def test_awaited_results_of_a_lost_task_executor_are_produced_again():
    cluster = batch(
        batch_vertex("a", 2, results=["ab"]), batch_vertex("b", 1, inputs=["ab"]), slots=[("tm1", 1), ("tm2", 1)]
    )
    cluster.finish("a0")
    cluster.lose("tm1")
    assert restarted(cluster) == {"a0"}
    assert cluster.scheduler.num_restarts == 1
    cluster.add_task_manager("tm3", 1)
    cluster.finish("a")
    cluster.finish("b")
    assert cluster.state is JobState.FINISHED


def test_the_loss_of_a_task_executor_is_one_failure():
    cluster = batch(
        batch_vertex("a", 4, results=["ab"]),
        batch_vertex("b", 1, inputs=["ab"]),
        slots=[("tm1", 2), ("tm2", 2)],
        attempts=1,
    )
    cluster.finish("a0", "a2")
    cluster.lose("tm1")
    assert restarted(cluster) == {"a0", "a1"}
    assert cluster.scheduler.num_restarts == 1
    assert cluster.state is JobState.RUNNING


def test_the_loss_of_results_that_nobody_needs_restarts_nothing():
    cluster = batch(
        batch_vertex("a", 1, results=["ab"]),
        batch_vertex("b", 1, inputs=["ab"]),
        slots=[("tm1", 1)],
        options=KEEPS_RESULTS,
    )
    cluster.finish("a")
    where = cluster.execution("a").slot
    cluster.finish("b")
    assert cluster.state is JobState.FINISHED
    assert where is not None
    cluster.lose("tm1")
    assert cluster.state is JobState.FINISHED


def test_a_running_consumer_continues_until_it_reports_a_lost_input():
    """The consumer may have read all it needs."""
    cluster = batch(
        batch_vertex("a", 2, results=["ab"]), batch_vertex("b", 1, inputs=["ab"]), slots=[("tm1", 1), ("tm2", 1)]
    )
    cluster.finish("a")
    (other,) = {"tm1", "tm2"} - {str(cluster.execution("b").slot.location.resource_id)}
    cluster.lose(other)
    assert cluster.state is JobState.RUNNING
    number = next(i for i in range(2) if str(cluster.execution("a", i).slot.location.resource_id) == other)
    cluster.update(cluster.attempt("b"), E.FAILED, lost(PartitionConnectionError, cluster, "a", "ab", number))
    assert restarted(cluster) == {f"a{number}", "b0"}


def test_without_a_restart_strategy_a_lost_result_that_is_needed_fails_the_job():
    cluster = batch(
        batch_vertex("a", 2, results=["ab"]),
        batch_vertex("b", 1, inputs=["ab"]),
        slots=[("tm1", 1), ("tm2", 1)],
        attempts=0,
    )
    cluster.finish("a0")
    cluster.lose("tm1")
    cluster.obey_cancels()
    assert cluster.state is JobState.FAILED
    assert isinstance(cluster.failure, TaskManagerLostError)


def test_a_consumer_waits_for_inputs_that_will_be_produced_again():
    """x finishes while the restart of a is pending. b reads both, so it waits for the new attempt of a."""
    cluster = batch(
        batch_vertex("a", 1, results=["ab"]),
        batch_vertex("x", 1, results=["xb"]),
        batch_vertex("b", 1, inputs=["ab", "xb"]),
        slots=[("tm1", 1), ("tm2", 1)],
    )
    cluster.finish("a")
    cluster.lose(str(cluster.execution("a").slot.location.resource_id))
    cluster.finish("x")
    assert cluster.states()["b0"] == "CREATED"
    assert restarted(cluster) == {"a0"}
    cluster.finish("a")
    assert cluster.states()["b0"] == "RUNNING"


def test_a_result_with_a_pending_restart_of_its_consumer_is_not_released():
    """b has finished but will run again. c, which reads the same result, finishes in the meantime."""
    cluster = batch(
        batch_vertex("q", 1, results=["qb"], partitioner="REBALANCE"),
        batch_vertex("a", 1, results=["data"]),
        batch_vertex("b", 1, inputs=["qb", "data"]),
        batch_vertex("e", 1, inputs=["qb"]),
        batch_vertex("c", 1, inputs=["data"]),
    )
    cluster.finish("q", "a")
    cluster.finish("b")
    cluster.update(cluster.attempt("e"), E.FAILED, lost(PartitionNotFoundError, cluster, "q", "qb"))
    cluster.finish("c")
    released = [p for effect in cluster.take(fx.ReleasePartitions) for p in effect.partition_ids]
    assert "data#0@g_a_0_0" not in released
    assert restarted(cluster) == {"q0", "b0", "e0"}
    cluster.finish("q")
    cluster.finish("b", "e")
    assert cluster.state is JobState.FINISHED


def test_full_failover_restarts_all_tasks():
    options = SchedulerOptions(failover_strategy="full")
    cluster = batch(*two_stages("HASH"), options=options)
    cluster.finish("a")
    cluster.update(cluster.attempt("b", 0), E.FAILED, BOOM)
    assert restarted(cluster) == {"a0", "a1", "b0", "b1", "c0", "c1"}
    cluster.run_all()
    assert ends(cluster) is JobState.FINISHED
