"""Why a job has no output: the findings in words, and the snapshot that they are made from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from jobmaster_fakes import running, source_and_sink

from flinkpy._proto import checkpoint_pb2, common_pb2, metrics_pb2
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.jobmaster.diagnosis.collection import job_diagnosis, job_snapshot
from flinkpy.jobmaster.diagnosis.findings import CAUSE, NOTE, Finding, diagnose
from flinkpy.jobmaster.diagnosis.snapshot import (
    NO_READING,
    CheckpointsSnapshot,
    InputSnapshot,
    JobSnapshot,
    OperatorReading,
    OperatorSnapshot,
    PendingCheckpoint,
    SplitSnapshot,
    SubtaskSnapshot,
    VertexSnapshot,
)
from flinkpy.jobmaster.job_details import job_details

NOW_MS = 1_700_000_000_000
#: The time of records in these tests: 2024-05-01 12:00:00 UTC.
NOON = 1_714_564_800_000
MINUTE = 60_000


def subtask(index=0, *, operator="", reading=NO_READING, state=ExecutionState.RUNNING, age_ms=600_000, **values):
    operators = {operator: reading} if operator else {}
    values = {"busy": 0.1, "back_pressured": 0.0, "records_out_per_s": 10.0, **values}
    return SubtaskSnapshot(index, state, NOW_MS - age_ms, f"tm{index}", operators=operators, **values)


def source(*subtasks, name="Source: clicks"):
    return VertexSnapshot("source", name, (OperatorSnapshot("source", name),), subtasks)


def window(*subtasks, name="windows", ship_strategy="HASH", producers=("source",)):
    inputs = tuple(InputSnapshot(one, one, ship_strategy) for one in producers)
    return VertexSnapshot("window", name, (OperatorSnapshot("window", name, inputs),), subtasks)


def emitting(index=0, watermark=NOON, **values):
    """Returns a subtask of the source with this watermark."""
    reading = OperatorReading(output_watermark=watermark, records_out=100, records_out_per_s=5.0)
    return subtask(index, operator="source", reading=replace(reading, **values))


def waiting(watermark=None, next_event_time=NOON + MINUTE, **values):
    """Returns a subtask of the window operator that waits for the watermark."""
    reading = OperatorReading(input_watermark=watermark, next_event_time=next_event_time, records_in=100, records_out=0)
    return subtask(operator="window", reading=replace(reading, **values), records_in=100)


def job(*vertices, **values):
    values = {"since_ms": NOW_MS - 600_000, **values}
    return JobSnapshot(NOW_MS, vertices=vertices, **values)


def sentences(snapshot, kind=None):
    return [one.sentence for one in diagnose(snapshot) if kind in (None, one.kind)]


def only(snapshot) -> Finding:
    (finding,) = diagnose(snapshot)
    return finding


def test_a_job_that_runs_as_it_should_has_no_findings():
    through = waiting(watermark=NOON, next_event_time=NOON + 1_000, records_out=50)
    assert diagnose(job(source(emitting(0), emitting(1, NOON + 3_000)), window(through))) == []


@pytest.mark.parametrize("state", [JobState.FINISHED, JobState.FAILED, JobState.CANCELED, JobState.SUSPENDED])
def test_an_ended_job_has_no_findings(state):
    assert diagnose(job(source(emitting()), state=state, num_slots_required=4)) == []


# -- watermarks --------------------------------------------------------------------------------------------------------


def test_the_split_without_records_holds_the_watermark_back():
    splits = (SplitSnapshot("clicks-0", NOON), SplitSnapshot("clicks-1"), SplitSnapshot("clicks-2", is_idle=True))
    finding = only(job(source(emitting(0, None, splits=splits), emitting(1)), window(waiting())))
    assert finding.sentence == (
        "Split clicks-1 of Source: clicks (1/2) holds the watermark back: no record with a timestamp has come from it "
        "yet, and it is not idle, while others are at up to 2024-05-01 12:00:00 UTC. So windows has no "
        "watermark, and its windows and timers wait."
    )
    assert (finding.kind, finding.severity, finding.vertex_id, finding.subtask_index, finding.split_id) == (
        "WATERMARK",
        CAUSE,
        "source",
        0,
        "clicks-1",
    )
    assert "with_idleness" in finding.advice


def test_the_split_that_is_behind_holds_the_watermark_back():
    splits = (SplitSnapshot("a", NOON - 3 * MINUTE, is_paused=True), SplitSnapshot("b", NOON))
    finding = only(job(source(emitting(0, NOON - 3 * MINUTE, splits=splits)), window(waiting(NOON - 3 * MINUTE))))
    assert finding.sentence == (
        "Split a of Source: clicks (1/1) holds the watermark back: it is at 2024-05-01 11:57:00 UTC, while others are "
        "at up to 2024-05-01 12:00:00 UTC, 3 min of event time ahead of it. Watermark alignment has paused it. So "
        "windows is at 2024-05-01 11:57:00 UTC, and its windows and timers wait."
    )


def test_a_subtask_without_a_split_holds_the_watermark_back():
    with_split = emitting(0, NOON, splits=(SplitSnapshot("a", NOON),))
    without = emitting(1, None, records_out=0)
    text = only(job(source(with_split, without), window(waiting()))).sentence
    assert text.startswith("Source: clicks (2/2) holds the watermark back: it has no split to read, and is not idle")


def test_a_subtask_without_records_holds_the_watermark_back():
    text = only(job(source(emitting(0), emitting(1, None, records_out=0)), window(waiting()))).sentence
    assert text.startswith("Source: clicks (2/2) holds the watermark back: it has had no record yet, and is not idle")


def test_idle_subtasks_hold_nothing_back():
    idle = emitting(1, None, is_output_idle=True, records_out=0)
    through = waiting(NOON, records_out=9)
    assert diagnose(job(source(emitting(0), idle), window(through))) == []


def test_finished_subtasks_hold_nothing_back():
    ended = replace(emitting(1, None), state=ExecutionState.FINISHED)
    assert diagnose(job(source(emitting(0), ended), window(waiting(NOON, records_out=9)))) == []


def test_idle_inputs_keep_the_watermark_where_it_is():
    idle = emitting(0, NOON, is_output_idle=True)
    assert sentences(job(source(idle), window(waiting(NOON)))) == [
        (
            "All inputs are marked as idle, so that the watermark does not advance until records come. So windows is "
            "at 2024-05-01 12:00:00 UTC, and its windows and timers wait."
        )
    ]


def test_a_source_without_a_watermark_strategy_is_named():
    finding = only(job(source(emitting(0, None), emitting(1, None)), window(waiting())))
    assert finding.sentence.startswith("Source: clicks emits records but makes no watermarks. So windows has no")
    assert finding.subtask_index == -1 and "assign_timestamps_and_watermarks" in finding.advice


def test_the_slower_one_of_two_inputs_is_named():
    fast = source(emitting(0, NOON))
    slow = VertexSnapshot(
        "slow",
        "Source: slow",
        (OperatorSnapshot("slow", "Source: slow"),),
        (subtask(operator="slow", reading=OperatorReading(output_watermark=NOON - MINUTE, records_out=1)),),
    )
    joined = window(waiting(NOON - MINUTE), producers=("source", "slow"))
    assert sentences(job(fast, slow, joined))[0].startswith("Source: slow (1/1) holds the watermark back: it is at")


def chain(through):
    """Returns a source, a vertex of a chain of two operators behind it, and windows behind that."""
    first = OperatorSnapshot("map", "map", (InputSnapshot("source", "source", "FORWARD"),))
    second = OperatorSnapshot("last", "Timestamps/Watermarks", (InputSnapshot("map"),))
    return VertexSnapshot("chain", "map -> Timestamps/Watermarks", (first, second), through)


def in_chain(index, **of_last):
    operators = {"map": OperatorReading(records_out=10), "last": OperatorReading(records_out=10, **of_last)}
    return replace(subtask(index), operators=operators)


def test_an_assigner_in_the_middle_of_the_job_is_named_and_not_its_source():
    behind = InputSnapshot("last", "chain", "HASH")
    windows = VertexSnapshot("window", "windows", (OperatorSnapshot("window", "windows", (behind,)),), (waiting(),))
    through = chain((in_chain(0, output_watermark=NOON), in_chain(1)))
    (text,) = sentences(job(source(emitting(0, None), emitting(1, None)), through, windows))
    assert text.startswith("Timestamps/Watermarks (2/2) holds the watermark back: it has no watermark yet")


def test_a_forward_edge_is_followed_to_its_own_subtask():
    behind = InputSnapshot("map", "chain", "HASH")
    windows = VertexSnapshot("window", "windows", (OperatorSnapshot("window", "windows", (behind,)),), (waiting(),))
    readings = [
        replace(subtask(index), operators={"map": OperatorReading(watermark, watermark, records_out=9)})
        for index, watermark in enumerate((NOON, None))
    ]
    forward = OperatorSnapshot("map", "map", (InputSnapshot("source", "source", "FORWARD"),))
    middle = VertexSnapshot("chain", "map", (forward,), tuple(readings))
    (text,) = sentences(job(source(emitting(0), emitting(1, None, records_out=0)), middle, windows))
    assert text.startswith("Source: clicks (2/2) holds the watermark back")


def test_a_watermark_on_its_way_is_not_held_back():
    assert sentences(job(source(emitting(0, NOON)), window(waiting(NOON - MINUTE, NOON - 1)))) == [
        (
            "windows has emitted nothing yet: its first window or timer is due at 2024-05-01 11:59:59.999 UTC, and its "
            "watermark is at 2024-05-01 11:59:00 UTC, 59 s of event time before that."
        )
    ]


def test_operators_that_wait_for_the_same_split_share_a_sentence():
    other = VertexSnapshot(
        "timers",
        "timers",
        (OperatorSnapshot("timers", "timers", (InputSnapshot("source", "source", "HASH"),)),),
        (subtask(operator="timers", reading=OperatorReading(next_event_time=5, records_in=1, records_out=0)),),
    )
    splits = (SplitSnapshot("a", NOON), SplitSnapshot("b"))
    (text,) = sentences(job(source(emitting(0, None, splits=splits)), window(waiting()), other))
    assert text.endswith("So windows and timers have no watermark, and their windows and timers wait.")


# -- back-pressure -----------------------------------------------------------------------------------------------------


def pressed(share):
    return replace(emitting(), back_pressured=share)


def test_the_first_busy_vertex_behind_back_pressured_ones_is_named_with_its_skew():
    middle = window(subtask(operator="window", back_pressured=0.7, busy=0.3), name="parse")
    sink = VertexSnapshot(
        "sink",
        "write",
        (OperatorSnapshot("sink", "write", (InputSnapshot("window", "window", "HASH"),)),),
        (subtask(0, busy=0.98, records_in=900), subtask(1, busy=0.2, records_in=100)),
    )
    finding = only(job(source(pressed(0.9)), middle, sink))
    assert finding.sentence == (
        "write slows the job down: it is busy 98 % of the time, and parse cannot send to it 70 % of the time "
        "(back-pressure). Its subtask 1 of 2 gets 90 % of the records, where 50 % would be even."
    )
    assert (finding.kind, finding.vertex_id, finding.subtask_index) == ("BACK_PRESSURE", "sink", 0)
    assert "keys" in finding.advice


def test_a_slow_vertex_without_skew_may_get_a_higher_parallelism():
    slow = window(subtask(0, busy=1.0, records_in=10), subtask(1, busy=0.9, records_in=11))
    finding = only(job(source(pressed(0.8)), slow))
    assert (finding.subtask_index, finding.advice) == (
        -1,
        "Make its functions faster, or raise its parallelism from 2.",
    )


def vertex(name, producers, *subtasks):
    inputs = tuple(InputSnapshot(one, one, "HASH") for one in producers)
    return VertexSnapshot(name, name, (OperatorSnapshot(name, name, inputs),), subtasks)


def pair(first, second=None):
    """Returns two subtasks with these shares: busy, back-pressured."""
    shares = (first, first if second is None else second)
    return [
        subtask(index, busy=busy, back_pressured=pressed, idle=1 - busy - pressed, records_in=100)
        for index, (busy, pressed) in enumerate(shares)
    ]


def test_a_busy_vertex_that_is_sometimes_back_pressured_is_named():
    # One subtask was back-pressured while the sink aligned the barriers of a checkpoint.
    score = vertex("score", ("orders", "payments"), *pair((0.75, 0.23), (0.98, 0.0)))
    snapshot = job(
        vertex("orders", (), *pair((0.03, 0.95))),
        vertex("payments", (), *pair((0.03, 0.94))),
        score,
        vertex("alerts", ("score",), *pair((0.02, 0.0))),
        checkpoints=CheckpointsSnapshot(5_000, 9, 0, "", NOW_MS - 2_000),
    )
    finding = only(snapshot)
    assert (finding.vertex_id, finding.severity) == ("score", CAUSE)
    assert finding.sentence == (
        "score slows the job down: it is busy 98 % of the time, and orders and payments cannot send to it 95 % of the "
        "time (back-pressure)."
    )


@pytest.mark.parametrize(
    ("pending", "checkpoint"), [(None, "checkpoints"), (PendingCheckpoint(7, NOW_MS - 900), "checkpoint 7")]
)
def test_the_slow_input_is_named_if_its_barriers_hold_the_fast_input_back(pending, checkpoint):
    snapshot = job(
        vertex("slow", (), *pair((0.97, 0.0))),
        vertex("fast", (), *pair((0.05, 0.8))),
        vertex("union", ("slow", "fast"), *pair((0.01, 0.0))),
        checkpoints=CheckpointsSnapshot(1_000, 9, 0, "", NOW_MS - 2_000, pending),
    )
    finding = only(snapshot)
    assert (finding.vertex_id, finding.severity) == ("slow", CAUSE)
    assert finding.sentence == (
        "slow slows the job down: it is busy 97 % of the time, so that barriers of checkpoints pass it late. union "
        f"waits for the barrier of {checkpoint} from it (alignment), and meanwhile fast cannot send 80 % of the time "
        "(back-pressure)."
    )


def test_one_sentence_says_whom_a_slow_vertex_and_its_late_barriers_hold_back():
    snapshot = job(
        vertex("numbers", (), *pair((0.03, 0.94))),
        vertex("flood", (), *pair((0.03, 0.96))),
        vertex("slow", ("numbers",), *pair((0.98, 0.0))),
        vertex("union", ("slow", "flood"), *pair((0.05, 0.0))),
        checkpoints=CheckpointsSnapshot(2_000, 9, 0, "", NOW_MS - 2_000, PendingCheckpoint(7, NOW_MS - 900)),
    )
    assert only(snapshot).sentence == (
        "slow slows the job down: it is busy 98 % of the time, and numbers cannot send to it 94 % of the time "
        "(back-pressure). Barriers of checkpoints pass it late, too: union waits for the barrier of checkpoint 7 from "
        "it (alignment), and meanwhile flood cannot send 96 % of the time (back-pressure)."
    )


@pytest.mark.parametrize("last_completed_ms", [None, NOW_MS - 5 * MINUTE])
def test_no_barrier_is_blamed_if_no_checkpoint_was_taken(last_completed_ms):
    snapshot = job(
        vertex("slow", (), *pair((0.97, 0.0))),
        vertex("fast", (), *pair((0.05, 0.8))),
        vertex("union", ("slow", "fast"), *pair((0.01, 0.0))),
        checkpoints=CheckpointsSnapshot(10 * MINUTE, 1, 0, "", last_completed_ms),
    )
    assert [(one.kind, one.severity, one.vertex_id) for one in diagnose(snapshot)] == [("BACK_PRESSURE", NOTE, "fast")]


def test_the_slowest_vertex_below_a_partly_back_pressured_one_is_named():
    snapshot = job(
        vertex("numbers", (), *pair((0.1, 0.9))),
        vertex("parse", ("numbers",), *pair((0.55, 0.45))),
        vertex("write", ("parse",), *pair((1.0, 0.0))),
    )
    finding = only(snapshot)
    assert (finding.vertex_id, "numbers cannot send 90 % of the time" in finding.sentence) == ("write", True)


@pytest.mark.parametrize("busy", [0.0, 0.1, 0.5])
def test_a_vertex_that_is_not_busy_is_never_blamed(busy):
    finding = only(job(source(pressed(0.8)), window(subtask(busy=busy)), checkpoints=CheckpointsSnapshot(1_000, 9)))
    assert (finding.severity, finding.vertex_id) == (NOTE, "source")
    assert finding.sentence == (
        "Source: clicks cannot send 80 % of the time (back-pressure), but no vertex after it is busy."
    )


def test_a_sink_that_waits_for_its_system_is_named():
    finding = only(job(source(pressed(0.8)), window(subtask(busy=0.05, back_pressured=0.9), name="Sink: table")))
    assert (finding.vertex_id, finding.severity) == ("window", CAUSE)
    assert finding.sentence.startswith("Sink: table takes no records 90 % of the time (back-pressure)")


def test_the_busy_one_of_two_consumers_is_named():
    quick = window(subtask(busy=0.05, records_in=5), name="quick")
    slow = VertexSnapshot(
        "slow",
        "slow",
        (OperatorSnapshot("slow", "slow", (InputSnapshot("source", "source", "HASH"),)),),
        (subtask(busy=0.95, records_in=5),),
    )
    assert [one.vertex_id for one in diagnose(job(source(pressed(0.9)), quick, slow))] == ["slow"]


# -- records -----------------------------------------------------------------------------------------------------------


def test_late_records_are_counted_where_they_are_dropped():
    readings = [OperatorReading(records_in=500, records_out=9, late_records=late) for late in (300, 20)]
    windows = window(*(subtask(index, operator="window", reading=one) for index, one in enumerate(readings)))
    finding = only(job(source(emitting()), windows))
    assert finding.sentence == (
        "windows has dropped 320 of 1,000 records because they came too late, 300 of them in subtask 1 of 2: the "
        "watermark had passed the end of their windows."
    )
    assert (finding.kind, finding.severity) == ("LATE_RECORDS", CAUSE)


def test_few_late_records_are_a_note_behind_the_causes():
    reading = OperatorReading(records_in=1_000, records_out=9, late_records=1)
    found = diagnose(job(source(emitting()), window(subtask(operator="window", reading=reading)), num_slots_required=1))
    assert [(one.kind, one.severity) for one in found] == [("SLOTS", CAUSE), ("LATE_RECORDS", NOTE)]


def silent(records_out=0, age_ms=180_000, **values):
    reading = OperatorReading(records_out=records_out, records_out_per_s=0.0, **values)
    return source(replace(subtask(operator="source", reading=reading, age_ms=age_ms), records_out_per_s=0.0))


@pytest.mark.parametrize(
    ("vertex", "expected"),
    [
        (silent(), ["Source: clicks has emitted no record in the 3 min that it has run."]),
        (silent(age_ms=1_000), []),
        (silent(7), ["Source: clicks has emitted no record in the last minute."]),
        (silent(7, age_ms=30_000), []),
        (
            silent(7, pending_records=12_000),
            ["Source: clicks has emitted no record in the last minute, although 12,000 records are there to be read."],
        ),
        (
            silent(7, alignment_drift_ms=90_000),
            [
                (
                    "Watermark alignment holds Source: clicks back: it is 1 min 30 s of event time ahead of what the "
                    "slowest source of its group allows. It has emitted no record in the last minute."
                )
            ],
        ),
    ],
)
def test_a_source_that_emits_nothing_is_named(vertex, expected):
    assert sentences(job(vertex)) == expected


def test_a_back_pressured_source_is_not_called_silent():
    vertex = silent(7)
    stuck = replace(vertex, subtasks=(replace(vertex.subtasks[0], back_pressured=1.0),))
    assert sentences(job(stuck), "SOURCE") == []


def test_an_operator_that_emits_none_of_its_records_is_noted():
    reading = OperatorReading(records_in=5_000, records_out=0)
    finding = only(job(source(emitting()), window(subtask(operator="window", reading=reading), name="filter")))
    assert (finding.severity, finding.sentence) == (NOTE, "filter has got 5,000 records and has emitted none.")


def test_records_that_could_not_be_parsed_are_counted():
    assert sentences(job(source(emitting(skipped_records=1)))) == [
        "Source: clicks has skipped 1 record that could not be parsed."
    ]


# -- states ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"state": JobState.INITIALIZING}, "The JobMaster has been loading the job for 10 min."),
        (
            {"state": JobState.RESTARTING, "num_restarts": 3, "last_failure": "map (1/2): ValueError:\n no"},
            (
                "The job has been restarting for 10 min. It had 3 restarts before. The last failure: map (1/2): "
                "ValueError: no."
            ),
        ),
        (
            {"since_ms": NOW_MS - 8_000, "num_restarts": 12, "last_failure": "boom"},
            "The job restarted 8 s ago. It has had 12 restarts. The last failure: boom.",
        ),
        (
            {"num_slots_required": 4, "num_slots_held": 1},
            "The job waits for slots: it needs 4 and has 1.",
        ),
        ({"num_unanswered": 1}, "1 TaskExecutor of the job did not tell the metrics of their tasks in time."),
    ],
)
def test_the_state_of_the_job_is_explained(values, expected):
    assert sentences(job(source(emitting()), **values)) == [expected]


def test_tasks_that_do_not_run_are_named_after_some_time():
    opening = subtask(0, state=ExecutionState.INITIALIZING, age_ms=30_000, busy=None)
    fresh = subtask(1, state=ExecutionState.DEPLOYING, age_ms=100, busy=None)
    finding = only(job(window(opening, fresh, producers=())))
    assert finding.sentence == (
        "windows (1/2) is restoring its state or opening its functions on TaskExecutor tm0, for 30 s."
    )
    assert (finding.kind, finding.subtask_index) == ("TASKS", 0)
    waits = [subtask(index, state=ExecutionState.SCHEDULED, age_ms=9_000) for index in range(5)]
    assert sentences(job(window(*waits, producers=()))) == [
        "windows (1/5), windows (2/5), windows (3/5) and 2 more are SCHEDULED: each waits for a slot, for 9 s."
    ]


# -- checkpoints -------------------------------------------------------------------------------------------------------


def committing(checkpoints, **values):
    reading = OperatorReading(records_in=10, pending_committables=2)
    sink = window(subtask(operator="window", reading=reading), name="Sink: files")
    return job(source(emitting()), sink, checkpoints=checkpoints, **values)


@pytest.mark.parametrize(
    ("checkpoints", "expected"),
    [
        (
            CheckpointsSnapshot(),
            [
                (
                    "Sink: files makes its results visible only when a checkpoint completes, but the job takes no "
                    "checkpoints."
                )
            ],
        ),
        (
            CheckpointsSnapshot(600_000),
            [
                (
                    "Sink: files makes its results visible only when a checkpoint completes, and none has completed "
                    "yet. The interval is 10 min."
                )
            ],
        ),
        (
            CheckpointsSnapshot(60_000, 4, 3, "no space left on device", NOW_MS - 200_000),
            [
                (
                    "The last 3 checkpoints failed: no space left on device. Sink: files makes its results visible "
                    "only when a checkpoint completes, the last one 3 min 20 s ago."
                )
            ],
        ),
        (
            CheckpointsSnapshot(
                1_000, 1, 0, "", NOW_MS - 100_000, PendingCheckpoint(7, NOW_MS - 90_000, {"window": (0,)})
            ),
            [
                (
                    "Checkpoint 7 has been in progress for 1 min 30 s: it waits for Sink: files (1/1). Sink: files "
                    "makes its results visible only when a checkpoint completes, the last one 1 min 40 s ago."
                )
            ],
        ),
        (CheckpointsSnapshot(1_000, 5, 0, "", NOW_MS - 500), []),
    ],
)
def test_a_sink_that_commits_shows_nothing_without_checkpoints(checkpoints, expected):
    assert sentences(committing(checkpoints)) == expected
    assert sentences(committing(checkpoints, is_batch=True)) == []


def test_failing_checkpoints_are_a_note_if_no_sink_commits():
    finding = only(job(source(emitting()), checkpoints=CheckpointsSnapshot(1_000, 0, 1, "timeout")))
    assert (finding.severity, finding.sentence) == (NOTE, "The last checkpoint failed: timeout.")


# -- from messages to the snapshot -------------------------------------------------------------------------------------


def dumped(vertex_id, attempt=0, operator_id="", **values):
    group = metrics_pb2.MetricGroupDump(vertex_id=vertex_id, attempt_number=attempt, operator_id=operator_id)
    for name, value in values.items():
        group.metrics.add(name=name, kind="gauge", **{"real" if isinstance(value, float) else "number": value})
    return group


def test_the_snapshot_has_the_metrics_of_the_current_attempts():
    cluster = running(source_and_sink(1))
    details = job_details(cluster.scheduler, common_pb2.Configuration())
    for vertex in details.vertices:
        vertex.operators.add(id=f"operator of {vertex.name}", name=vertex.name)
    source_id = details.vertices[0].id
    names = {
        "split.a.b.watermark.currentWatermark": NOON,
        "split.a.b.watermark.pausedTimeMsPerSecond": 990,
        "split.silent.watermark.currentWatermark": -(1 << 63),
        "split.silent.watermark.idleTimeMsPerSecond": 0,
        "my.currentWatermark": 5,
    }
    operator_id = details.vertices[0].operators[0].id
    metrics = [
        dumped(source_id, busyTimeMsPerSecond=250, numRecordsOutPerSecond=1.5, numRecordsOut=7),
        dumped(source_id, operator_id=operator_id, currentOutputWatermark=NOON, isOutputIdle=1, **names),
        dumped(source_id, attempt=3, numRecordsOut=99),
    ]
    told = job_snapshot(details, checkpoint_pb2.CheckpointStatisticsResponse(), metrics, cluster.now_ms, 500)
    (of_source,) = told.vertices[0].subtasks
    assert (of_source.busy, of_source.records_out, of_source.records_out_per_s) == (0.25, 7, 1.5)
    reading = of_source.reading(operator_id)
    assert (reading.output_watermark, reading.input_watermark, reading.is_output_idle) == (NOON, None, True)
    assert reading.splits == (SplitSnapshot("a.b", NOON, is_paused=True), SplitSnapshot("silent"))
    assert (told.state, told.checkpoints.interval_ms) == (JobState.RUNNING, 500)
    # Both tasks run on one TaskExecutor, which has told the metrics of one of them.
    assert told.num_unanswered == 0
    assert job_diagnosis(details, told).job_id == details.job_id


def test_a_failed_checkpoint_counts_until_a_later_one_completes():
    cluster = running(source_and_sink(1))
    details = job_details(cluster.scheduler, common_pb2.Configuration())
    statistics = checkpoint_pb2.CheckpointStatisticsResponse(num_completed=1, num_failed=2)
    statistics.latest_completed.MergeFrom(
        checkpoint_pb2.CheckpointStatistics(checkpoint_id=2, status="COMPLETED", end_timestamp_ms=50)
    )
    pending = statistics.history.add(checkpoint_id=4, status="IN_PROGRESS", trigger_timestamp_ms=70)
    vertex = pending.vertices.add(vertex_id="v", num_subtasks=3)
    vertex.subtasks.add(subtask_index=1)
    statistics.history.add(checkpoint_id=3, status="FAILED").failure.message = "disk full"
    statistics.history.add(checkpoint_id=1, status="FAILED").failure.message = "earlier"
    told = job_snapshot(details, statistics, [], 100, 1_000).checkpoints
    assert told == CheckpointsSnapshot(1_000, 1, 1, "disk full", 50, PendingCheckpoint(4, 70, {"v": (0, 2)}))
