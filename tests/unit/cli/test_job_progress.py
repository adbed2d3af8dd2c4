"""Rates, ratios and the remaining time of a job are computed from snapshots of its totals."""

from __future__ import annotations

import pytest

from flinkpy._proto import checkpoint_pb2, common_pb2, job_pb2
from flinkpy.cli.job_progress import JobMeter, JobProgress, VertexProgress, VertexTotals, done_fraction, remaining_ms
from flinkpy.common.states import JobState


def totals(
    records_out: int = 0, *, busy_ms: int = 0, idle_ms: int = 0, back_pressured_ms: int = 0, vertex: str = "v"
) -> VertexTotals:
    return VertexTotals(
        vertex,
        vertex,
        2,
        {"RUNNING": 2},
        records_out=records_out,
        busy_ms=busy_ms,
        idle_ms=idle_ms,
        back_pressured_ms=back_pressured_ms,
    )


def after(meter: JobMeter, *samples: tuple[float, VertexTotals]) -> VertexProgress:
    for now_s, one in samples:
        progress = meter.on_totals(one, now_s)
    return progress


def test_the_first_snapshot_has_no_rates() -> None:
    progress = after(JobMeter(), (0, totals(100, busy_ms=10)))
    assert (progress.records_out_per_s, progress.busy, progress.back_pressured) == (None, None, None)


def test_rates_are_means_over_the_last_seconds() -> None:
    samples = [(float(second), totals(100 * second)) for second in range(20)]
    assert after(JobMeter(), *samples).records_out_per_s == 100
    stopped = [*samples, *((float(second), totals(1900)) for second in range(20, 26))]
    assert after(JobMeter(), *stopped).records_out_per_s == 0


def test_ratios_are_parts_of_the_time_that_tasks_report() -> None:
    progress = after(JobMeter(), (0, totals()), (2, totals(busy_ms=1000, idle_ms=500, back_pressured_ms=2500)))
    assert progress.busy == 0.25
    assert progress.back_pressured == 0.625


def test_a_restart_begins_new_rates() -> None:
    meter = JobMeter()
    after(meter, (0, totals(1000)), (2, totals(5000)))
    assert after(meter, (3, totals(10))).records_out_per_s is None
    assert after(meter, (5, totals(30))).records_out_per_s == 10


def source(num_splits: int | None, num_left: int | None, records_out: int = 0, vertex: str = "s") -> VertexTotals:
    return VertexTotals(
        vertex, vertex, 1, {"RUNNING": 1}, records_out=records_out, num_splits=num_splits, num_splits_left=num_left
    )


def consumer(records_in: int, *inputs: str, vertex: str = "c") -> VertexTotals:
    return VertexTotals(vertex, vertex, 1, {"RUNNING": 1}, records_in=records_in, inputs=inputs)


def test_read_splits_tell_how_much_is_done() -> None:
    assert done_fraction([source(10, 5)]) == 0.5
    assert done_fraction([source(10, 5), source(10, 0, vertex="t")]) == 0.75


@pytest.mark.parametrize("one", [source(None, None), source(1, 1), source(10, 9), source(0, 0)])
def test_nothing_is_estimated_from_unknown_or_too_few_splits(one: VertexTotals) -> None:
    assert done_fraction([one]) is None


def test_a_consumer_that_lags_counts() -> None:
    read = source(10, 0, records_out=1000)
    assert done_fraction([read, consumer(250, "s")]) == 0.25
    assert done_fraction([read, consumer(2000, "s")]) == 1, "a broadcast receives each record several times"
    others = [consumer(250, "s"), consumer(10, "s", vertex="d")]
    assert done_fraction([read, *others]) == 1, "it is not known what each of two consumers is sent"


def test_the_remaining_time_follows_from_the_mean_speed() -> None:
    assert remaining_ms(0.25, 10_000) == 30_000
    assert remaining_ms(None, 10_000) is None
    assert remaining_ms(0.001, 10_000) is None
    assert remaining_ms(1.0, 10_000) is None


def details(*vertices: job_pb2.VertexDetails, is_batch: bool = False) -> job_pb2.JobDetails:
    return job_pb2.JobDetails(
        job_id="a" * 32,
        name="words",
        status=common_pb2.RUNNING,
        start_time_ms=1_000,
        end_time_ms=-1,
        vertices=vertices,
        is_batch=is_batch,
        num_restarts=2,
    )


def vertex(identifier: str, state: str, splits: tuple[int, int] | None = None) -> job_pb2.VertexDetails:
    one = job_pb2.VertexDetails(id=identifier, name=identifier, parallelism=1, tasks_per_state={state: 1})
    if splits is not None:
        one.splits.num_splits, one.splits.num_left = splits
    return one


def measured(job: job_pb2.JobDetails, statistics: checkpoint_pb2.CheckpointStatisticsResponse | None) -> JobProgress:
    return JobMeter().on_details(job, statistics, now_s=0, now_ms=21_000)


def test_the_details_of_a_job_become_its_progress() -> None:
    statistics = checkpoint_pb2.CheckpointStatisticsResponse(num_completed=3, num_failed=1)
    statistics.latest_completed.trigger_timestamp_ms = 5_000
    statistics.latest_completed.end_timestamp_ms = 5_040
    statistics.latest_completed.state_size_bytes = 2048
    progress = measured(details(vertex("s", "RUNNING", (4, 2))), statistics)
    assert (progress.status, progress.elapsed_ms, progress.num_restarts) == (JobState.RUNNING, 20_000, 2)
    assert (progress.fraction, progress.remaining_ms) == (0.5, 20_000)
    assert progress.checkpoints.last_duration_ms == 40
    assert (progress.checkpoints.num_completed, progress.checkpoints.num_failed) == (3, 1)


def test_a_batch_job_has_no_estimate_while_a_stage_waits() -> None:
    stages = vertex("s", "RUNNING", (4, 2)), vertex("c", "CREATED")
    assert measured(details(*stages, is_batch=True), None).fraction is None
    assert measured(details(*stages), None).fraction == 0.5
