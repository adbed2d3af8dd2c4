"""Scheduling of batch jobs: regions run one after the other in the available slots. Release of results."""

from __future__ import annotations

import pytest
from jobmaster_fakes import Cluster, E, batch_vertex, job_graph, running, vertex

from flinkpy.common.errors import JobSubmissionError, NoResourceAvailableError
from flinkpy.common.states import JobState
from flinkpy.jobmaster.failover.restart_strategy import FixedDelayRestartStrategy
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.default_scheduler import SchedulerOptions
from flinkpy.jobmaster.slotpool.declarative_slot_pool import SlotPoolOptions

TIMEOUT_MS = 1_000
BATCH = SchedulerOptions(slot_pool=SlotPoolOptions(request_timeout_ms=TIMEOUT_MS, are_requests_in_turn=True))


def batch(graph, *, slots=(("tm1", 1),), options=BATCH, **arguments):
    return running(graph, slots=slots, options=options, **arguments)


def chain(parallelism=2, partitioner="HASH"):
    """a -> b -> c."""
    return job_graph(
        batch_vertex("a", parallelism, results=["ab"], partitioner=partitioner),
        batch_vertex("b", parallelism, inputs=["ab"], results=["bc"], partitioner=partitioner),
        batch_vertex("c", parallelism, inputs=["bc"]),
    )


def released(cluster):
    return sorted(partition for effect in cluster.take(fx.ReleasePartitions) for partition in effect.partition_ids)


def deployed(cluster):
    return {f"{a.vertex.job_vertex_id.value}{a.vertex.subtask_index}" for a in cluster.attempts(E.RUNNING)}


def test_a_job_of_many_tasks_runs_in_one_slot_one_after_the_other():
    cluster = batch(chain(2))
    order = []
    while cluster.state is JobState.RUNNING:
        (task,) = deployed(cluster)
        order.append(task)
        cluster.finish(task)
    assert order == ["a0", "a1", "b0", "b1", "c0", "c1"]
    assert cluster.state is JobState.FINISHED


def test_the_slot_of_a_finished_task_is_used_at_once():
    cluster = batch(chain(2), slots=[("tm1", 2)])
    slots = {cluster.execution("a", i).slot for i in range(2)}
    cluster.finish("a0")
    assert deployed(cluster) == {"a1"}
    effects = cluster.update(cluster.attempt("a", 1), E.FINISHED)
    submitted = [attempt for effect in effects if isinstance(effect, fx.SubmitTasks) for attempt in effect.attempts]
    assert len(submitted) == 2
    assert {cluster.execution("b", i).slot for i in range(2)} == slots


def test_an_all_to_all_consumer_waits_for_all_its_producers():
    cluster = batch(chain(2), slots=[("tm1", 4)])
    cluster.finish("a0")
    assert deployed(cluster) == {"a1"}
    cluster.finish("a1")
    assert deployed(cluster) == {"b0", "b1"}


def test_a_consumer_over_a_forward_edge_waits_for_its_own_producer_only():
    cluster = batch(chain(2, "FORWARD"), slots=[("tm1", 4)])
    cluster.finish("a0")
    assert deployed(cluster) == {"a1", "b0"}


def test_a_request_waits_for_longer_than_the_time_out_while_tasks_of_the_job_run():
    cluster = batch(chain(2))
    cluster.advance(10 * TIMEOUT_MS)
    assert cluster.state is JobState.RUNNING
    cluster.finish("a0")
    assert deployed(cluster) == {"a1"}


def test_a_request_times_out_if_the_job_has_no_slot():
    cluster = Cluster(chain(1), options=BATCH)
    cluster.start()
    cluster.advance(TIMEOUT_MS - 1)
    assert cluster.state is JobState.RUNNING
    cluster.advance(1)
    assert cluster.state is JobState.FAILED
    assert isinstance(cluster.failure, NoResourceAvailableError)


def wide_region(width, name="w"):
    """Returns vertices whose tasks must run at the same time, because they exchange records while they run."""
    return [
        vertex(f"{name}-from", width, results=[f"{name}-data"], group=f"{name}-group"),
        vertex(f"{name}-to", width, inputs=[f"{name}-data"], group=f"{name}-group"),
    ]


def test_a_region_wider_than_the_cluster_fails_with_one_clear_error():
    cluster = batch(job_graph(*wide_region(3)), slots=[("tm1", 2)])
    cluster.advance(TIMEOUT_MS)
    assert cluster.state is JobState.FAILED
    assert isinstance(cluster.failure, NoResourceAvailableError)
    assert cluster.failure.details == {"required": "3", "available": "2"}
    assert len(cluster.scheduler.exception_history.entries) == 1


@pytest.mark.parametrize("width", [1, 2, 3])
def test_regions_of_any_width_that_fits_never_wait_for_each_other(width):
    """There are three regions and slots for one. Each gets all its slots before another gets any."""
    graph = job_graph(*(v for number in range(3) for v in wide_region(width, f"w{number}")))
    cluster = Cluster(graph, options=BATCH)
    cluster.start()
    for number in range(width):
        cluster.add_task_manager(f"tm{number}", 1)
    for number in range(3):
        cluster.run_all()
        expected = {f"w{number}-{end}{i}" for end in ("from", "to") for i in range(width)}
        assert deployed(cluster) == expected
        cluster.finish(f"w{number}-from", f"w{number}-to")
    assert cluster.state is JobState.FINISHED


def test_a_preferred_slot_does_not_let_a_later_region_overtake_an_earlier_one():
    graph = job_graph(*wide_region(2, "w0"), *wide_region(2, "w1"))
    cluster = batch(graph, slots=[("tm1", 2)], restart_strategy=FixedDelayRestartStrategy(5, 0))
    assert deployed(cluster) == {"w0-from0", "w0-from1", "w0-to0", "w0-to1"}
    cluster.update(cluster.attempt("w0-to", 0), E.FAILED)
    cluster.obey_cancels()
    cluster.advance(1)
    cluster.run_all()
    # w1 has waited longer, although w0 prefers these slots
    assert deployed(cluster) == {"w1-from0", "w1-from1", "w1-to0", "w1-to1"}
    cluster.finish("w1-from", "w1-to")
    assert deployed(cluster) == {"w0-from0", "w0-from1", "w0-to0", "w0-to1"}


def test_a_result_is_released_when_its_last_consumer_has_finished():
    cluster = batch(chain(2), slots=[("tm1", 2)])
    cluster.finish("a")
    cluster.finish("b0")
    assert released(cluster) == []
    cluster.finish("b1")
    assert released(cluster) == ["ab#0@g_a_0_0", "ab#1@g_a_1_0"]


def test_a_result_of_several_consumers_is_written_once_and_released_after_the_last_of_them():
    graph = job_graph(
        batch_vertex("a", 1, results=["data"]),
        batch_vertex("b", 1, inputs=["data"]),
        batch_vertex("c", 1, inputs=["data"]),
    )
    cluster = batch(graph)
    (producer,) = cluster.scheduler.graph.vertex(cluster.attempt("a").vertex).produced
    cluster.finish("a")
    assert deployed(cluster) == {"b0"}
    gates = [cluster.scheduler.graph.vertex(cluster.attempt(name).vertex).consumed[0] for name in "bc"]
    assert [gate.partitions for gate in gates] == [(producer,), (producer,)]
    cluster.finish("b")
    assert released(cluster) == []
    cluster.finish("c")
    assert released(cluster) == ["data#0@g_a_0_0"]


def test_over_a_forward_edge_each_partition_is_released_by_its_own_consumer():
    cluster = batch(chain(2, "FORWARD"), slots=[("tm1", 4)])
    cluster.finish("a", "b0")
    assert released(cluster) == ["ab#0@g_a_0_0"]


def test_results_can_be_kept_until_the_end_of_the_job():
    options = SchedulerOptions(slot_pool=BATCH.slot_pool, releases_partitions_during_execution=False)
    cluster = batch(chain(1), options=options)
    cluster.finish("a")
    cluster.finish("b")
    cluster.finish("c")
    assert cluster.state is JobState.FINISHED
    assert released(cluster) == []  # the TaskExecutors release them at the end of the job


def test_results_are_not_tracked_after_a_cancellation():
    cluster = batch(chain(1))
    cluster.finish("a")
    assert cluster.scheduler.partitions.tracked
    cluster.send(ev.CancelJob())
    cluster.obey_cancels()
    assert cluster.state is JobState.CANCELED
    assert cluster.scheduler.partitions.tracked == []


def test_a_pipelined_result_with_several_consumers_is_rejected():
    graph = job_graph(vertex("a", 1, results=["d"]), vertex("b", 1, inputs=["d"]), vertex("c", 1, inputs=["d"]))
    with pytest.raises(JobSubmissionError, match="more than one consumer"):
        Cluster(graph)
