"""Says in words why a job has no output, or less than it could have: `diagnose`. Pure.

Each kind of finding has a function that gets the JobSnapshot. A finding is a CAUSE if it explains missing output, and a
NOTE if it only may. Shares and rates are over the last minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from flinkpy.common.states import ExecutionState, JobState
from flinkpy.jobmaster.diagnosis.snapshot import (
    JobSnapshot,
    OperatorReading,
    OperatorSnapshot,
    SubtaskSnapshot,
    VertexSnapshot,
)
from flinkpy.jobmaster.diagnosis.watermarks import Holder, Place, find_holder

CAUSE, NOTE = "CAUSE", "NOTE"

#: Above this share of its time, a subtask counts as back-pressured or busy. Source: Flink's "high" back-pressure.
HIGH_SHARE = 0.5
#: Up to this share a vertex is not back-pressured. Source: Flink's "ok".
LOW_SHARE = 0.1
#: A split or subtask holds the watermark back if it is further behind the others.
WATERMARK_LAG_MS = 10_000
#: A subtask has more than its part of the records if it has this many times the mean.
SKEW_FACTOR = 1.5
#: A share of late records that explains missing output.
MANY_LATE = 0.1
#: Rates cover this time, so that a source cannot be called silent before.
RATE_SPAN_MS = 60_000
#: A task normally starts, and a source normally emits its first records, within this time.
PATIENCE_MS = 5_000
#: A checkpoint takes long if it is in progress for this time and for this many intervals.
LONG_CHECKPOINT_MS, LONG_CHECKPOINT_INTERVALS = 30_000, 3
#: A failure is worth telling of this long after its restart.
RECENT_FAILURE_MS = 300_000
#: Number of places that a sentence lists.
MAX_LISTED = 3
#: The longest name and reason in a sentence.
_MAX_NAME_CHARS, _MAX_REASON_CHARS = 80, 300


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason, in words.

    Attributes:
        kind: STATE, SLOTS, TASKS, WATERMARK, EVENT_TIME, SOURCE, BACK_PRESSURE, LATE_RECORDS, SKIPPED_RECORDS,
            NO_RECORDS_OUT, CHECKPOINTS or METRICS.
        severity: CAUSE or NOTE.
        advice: what the user can do; may be empty.
        vertex_id: empty for the whole job.
        subtask_index: -1 for the whole vertex.
    """

    kind: str
    severity: str
    sentence: str
    advice: str = ""
    vertex_id: str = ""
    subtask_index: int = -1
    operator_id: str = ""
    split_id: str = ""


def diagnose(job: JobSnapshot) -> list[Finding]:
    """Returns why the job has no output, causes first. A job that has ended, or runs as it should, has no findings."""
    if job.state.is_terminal:
        return []
    kinds: Sequence[Callable[[JobSnapshot], Iterable[Finding]]] = (_state, _slots, _tasks)
    if job.state is JobState.RUNNING:
        kinds = (*kinds, _watermarks, _sources, _back_pressure, _late_records, _checkpoints, _swallowed, _skipped)
    found = [finding for kind in kinds for finding in kind(job)]
    found += _unanswered(job)
    return sorted(found, key=lambda finding: finding.severity != CAUSE)


# -- the state of the job and its tasks --------------------------------------------------------------------------------

_STATES = {
    JobState.INITIALIZING: "The JobMaster has been loading the job for {age}.",
    JobState.CREATED: "The job was created {age} ago and has not started.",
    JobState.FAILING: "The job is failing: its tasks have been ending for {age}.",
    JobState.CANCELLING: "The job is being canceled: its tasks have been ending for {age}.",
    JobState.RESTARTING: "The job has been restarting for {age}.",
    JobState.RECONCILING: "The JobMaster has been looking for the tasks of the job for {age}.",
}


def _state(job: JobSnapshot) -> Iterator[Finding]:
    text = _STATES.get(job.state)
    restarts = _count(job.num_restarts, "restart")
    reason = f" The last failure: {_reason(job.last_failure)}" if job.last_failure else ""
    if text is not None:
        after = f" It had {restarts} before." if job.num_restarts and job.state is JobState.RESTARTING else ""
        yield Finding("STATE", CAUSE, text.format(age=_age(job.now_ms - job.since_ms)) + after + reason)
    elif job.num_restarts and job.now_ms - job.since_ms < RECENT_FAILURE_MS:
        since = _age(job.now_ms - job.since_ms)
        yield Finding("STATE", NOTE, f"The job restarted {since} ago. It has had {restarts}.{reason}")


def _slots(job: JobSnapshot) -> Iterator[Finding]:
    if job.num_slots_held < job.num_slots_required:
        yield Finding(
            "SLOTS",
            CAUSE,
            f"The job waits for slots: it needs {job.num_slots_required} and has {job.num_slots_held}.",
            "Start more TaskExecutors, give them more slots (taskmanager.numberOfTaskSlots), or lower the parallelism.",
        )


_STARTING = {
    ExecutionState.SCHEDULED: "waits for a slot",
    ExecutionState.DEPLOYING: "is being sent to its TaskExecutor",
    ExecutionState.INITIALIZING: "is restoring its state or opening its functions",
}


def _tasks(job: JobSnapshot) -> Iterator[Finding]:
    for vertex in job.vertices:
        for state, doing in _STARTING.items():
            starting = [one for one in vertex.subtasks if one.state is state]
            if not starting:
                continue
            first = min(starting, key=lambda one: one.since_ms)
            age_ms = job.now_ms - first.since_ms
            if age_ms < PATIENCE_MS:
                continue
            names = _listed([_name(vertex, one) for one in starting])
            text = f"{names} {doing}" if len(starting) == 1 else f"{names} are {state.name}: each {doing}"
            where = f" on TaskExecutor {first.resource_id}" if len(starting) == 1 and first.resource_id else ""
            yield Finding(
                "TASKS",
                CAUSE,
                f"{text}{where}, for {_age(age_ms)}.",
                vertex_id=vertex.vertex_id,
                subtask_index=first.index if len(starting) == 1 else -1,
            )


def _unanswered(job: JobSnapshot) -> Iterator[Finding]:
    if job.num_unanswered:
        many = _count(job.num_unanswered, "TaskExecutor")
        yield Finding("METRICS", NOTE, f"{many} of the job did not tell the metrics of their tasks in time.")


# -- event time --------------------------------------------------------------------------------------------------------


def _watermarks(job: JobSnapshot) -> Iterator[Finding]:
    """Yields what holds back the watermark of operators whose windows or timers wait for it."""
    found: dict[tuple[str, int, str], tuple[Holder, Finding, list[str]]] = {}
    for place in _waiting(job):
        name = _short(place.operator.name)
        holder = find_holder(job, place)
        finding = None if holder is None else _held_back(job, place, holder)
        if finding is None or holder is None:
            yield from _next_timer(place)
            continue
        key = (finding.vertex_id, finding.subtask_index, finding.split_id)
        found.setdefault(key, (holder, finding, []))[2].append(name)
    for holder, finding, names in found.values():
        waits = "its windows and timers wait" if len(names) == 1 else "their windows and timers wait"
        state = "has no watermark" if len(names) == 1 else "have no watermark"
        if holder.watermark is not None:
            state = f"{'is' if len(names) == 1 else 'are'} at {_time(holder.watermark)}"
        yield replace(finding, sentence=f"{finding.sentence} So {_listed(names)} {state}, and {waits}.")


def _waiting(job: JobSnapshot) -> Iterator[Place]:
    """Yields each operator with windows or timers that wait, in the subtask with the lowest watermark."""
    for vertex in job.vertices:
        for operator in vertex.operators:
            waiting = [one for one in vertex.running if one.reading(operator.operator_id).next_event_time is not None]
            if waiting:
                yield Place(vertex, operator, min(waiting, key=lambda one: _input_order(one, operator)))


def _input_order(subtask: SubtaskSnapshot, operator: OperatorSnapshot) -> tuple[bool, int]:
    watermark = subtask.reading(operator.operator_id).input_watermark
    return watermark is not None, watermark or 0


_IDLENESS = "If it may stay silent, call with_idleness on the watermark strategy."


def _held_back(job: JobSnapshot, waiting: Place, holder: Holder) -> Finding | None:
    """Returns the finding about what holds a watermark back, without the operators that wait. None: nothing does."""
    place = holder.place
    if place is None:
        return Finding(
            "WATERMARK",
            CAUSE,
            "All inputs are marked as idle, so that the watermark does not advance until records come.",
            vertex_id=waiting.vertex.vertex_id,
            operator_id=waiting.operator.operator_id,
        )
    found = Finding(
        "WATERMARK",
        CAUSE,
        "",
        _IDLENESS,
        vertex_id=place.vertex.vertex_id,
        subtask_index=place.subtask.index,
        operator_id=place.operator.operator_id,
        split_id="" if holder.split is None else holder.split.split_id,
    )
    if holder.makes_none:
        return replace(
            found,
            sentence=f"{_short(place.operator.name)} emits records but makes no watermarks.",
            advice="Use a watermark strategy that makes watermarks: in from_source, or with "
            "assign_timestamps_and_watermarks before the operators that need them. If there is one, see that its "
            "timestamp assigner sets timestamps.",
            subtask_index=-1,
            split_id="",
        )
    others = "" if holder.ahead is None else f", while others are at up to {_time(holder.ahead)}"
    if holder.watermark is not None:
        if holder.gap_ms <= WATERMARK_LAG_MS:
            return None
        why = f"it is at {_time(holder.watermark)}{others}, {_age(holder.gap_ms)} of event time ahead of it"
    elif holder.split is not None:
        why = f"no record with a timestamp has come from it yet, and it is not idle{others}"
    elif holder.lacks_split:
        why = f"it has no split to read, and is not idle{others}"
    elif place.subtask.reading(place.operator.operator_id).records_out:
        why = f"it has no watermark yet{others}"
    else:
        why = f"it has had no record yet, and is not idle{others}"
    what = _operator_name(place)
    paused = ""
    if holder.split is not None:
        what = f"Split {_short(holder.split.split_id)} of {what}"
        paused = " Watermark alignment has paused it." if holder.split.is_paused else ""
    return replace(found, sentence=f"{what} holds the watermark back: {why}.{paused}")


def _next_timer(place: Place) -> Iterator[Finding]:
    """Yields the time that an operator without output waits for, although its watermark advances."""
    operator_id = place.operator.operator_id
    readings = [one.reading(operator_id) for one in place.vertex.running]
    if any(reading.records_out for reading in readings):
        return
    times = [one.next_event_time for one in readings if one.next_event_time is not None]
    watermark = place.subtask.reading(operator_id).input_watermark
    if not times or watermark is None or watermark >= min(times):
        return
    yield Finding(
        "EVENT_TIME",
        CAUSE,
        f"{_short(place.operator.name)} has emitted nothing yet: its first window or timer is due at "
        f"{_time(min(times))}, and its watermark is at {_time(watermark)}, {_age(min(times) - watermark)} of event "
        "time before that.",
        vertex_id=place.vertex.vertex_id,
        operator_id=operator_id,
    )


def _late_records(job: JobSnapshot) -> Iterator[Finding]:
    for vertex, operator, readings in _operators(job):
        late = {one.index: reading.late_records for one, reading in readings if reading.late_records}
        total = sum(late.values())
        if not total:
            continue
        records_in = sum(reading.records_in or 0 for _, reading in readings)
        of_all = f" of {records_in:,}" if records_in >= total else ""
        index, most = max(late.items(), key=lambda item: item[1])
        where = (
            f", {most:,} of them in subtask {index + 1} of {len(vertex.subtasks)}" if len(vertex.subtasks) > 1 else ""
        )
        yield Finding(
            "LATE_RECORDS",
            CAUSE if not records_in or total / records_in >= MANY_LATE else NOTE,
            f"{_short(operator.name)} has dropped {total:,}{of_all} records because they came too late{where}: the "
            "watermark had passed the end of their windows.",
            "Let watermarks wait longer (for_bounded_out_of_orderness), or call allowed_lateness or "
            "side_output_late_data on the window.",
            vertex_id=vertex.vertex_id,
            subtask_index=index if len(late) == 1 else -1,
            operator_id=operator.operator_id,
        )


# -- records -----------------------------------------------------------------------------------------------------------


def _sources(job: JobSnapshot) -> Iterator[Finding]:
    """Yields the sources that emit nothing, or that watermark alignment holds back."""
    for vertex in job.vertices:
        running = vertex.running
        if not vertex.is_source or not running or len(running) < len(vertex.subtasks):
            continue
        source = vertex.operators[0]
        readings = [one.reading(source.operator_id) for one in running]
        if any((one.back_pressured or 0) > HIGH_SHARE for one in running):
            continue  # it would emit if it could
        counts = [_first(reading.records_out, one.records_out) for one, reading in zip(running, readings, strict=True)]
        if any(count is None for count in counts):
            continue  # not measured
        age_ms = job.now_ms - max(one.since_ms for one in running)
        total = sum(count or 0 for count in counts)
        rates = [_first(reading.records_out_per_s, one.records_out_per_s) for one, reading in zip(running, readings)]
        rate = sum(one or 0.0 for one in rates)
        if age_ms < (PATIENCE_MS if not total else RATE_SPAN_MS) or (total and rate > 0):
            continue
        name = _short(source.name)
        when = "in the last minute" if total else f"in the {_age(age_ms)} that it has run"
        found = Finding("SOURCE", CAUSE, "", vertex_id=vertex.vertex_id, operator_id=source.operator_id)
        drifts = [one.alignment_drift_ms for one in readings if one.alignment_drift_ms is not None]
        if drifts and min(drifts) > 0:
            yield replace(
                found,
                sentence=f"Watermark alignment holds {name} back: it is {_age(min(drifts))} of event time ahead of "
                f"what the slowest source of its group allows. It has emitted no record {when}.",
            )
            continue
        pending = sum(one.pending_records or 0 for one in readings)
        still = f", although {pending:,} records are there to be read" if pending else ""
        yield replace(found, sentence=f"{name} has emitted no record {when}{still}.")


def _swallowed(job: JobSnapshot) -> Iterator[Finding]:
    """Yields operators that get records and emit none. Of a chain of operators only the first one gets records."""
    for vertex, operator, readings in _operators(job):
        if not operator.inputs or any(reading.records_out is None for _, reading in readings):
            continue
        if any(one.next_event_time is not None or one.pending_committables is not None for _, one in readings):
            continue
        records_in = sum(reading.records_in or 0 for _, reading in readings)
        if records_in and not any(reading.records_out for _, reading in readings):
            yield Finding(
                "NO_RECORDS_OUT",
                NOTE,
                f"{_short(operator.name)} has got {_count(records_in, 'record')} and has emitted none.",
                vertex_id=vertex.vertex_id,
                operator_id=operator.operator_id,
            )


def _skipped(job: JobSnapshot) -> Iterator[Finding]:
    for vertex, operator, readings in _operators(job):
        total = sum(reading.skipped_records for _, reading in readings)
        if total:
            yield Finding(
                "SKIPPED_RECORDS",
                NOTE,
                f"{_short(operator.name)} has skipped {_count(total, 'record')} that could not be parsed.",
                vertex_id=vertex.vertex_id,
                operator_id=operator.operator_id,
            )


# -- back-pressure -----------------------------------------------------------------------------------------------------


def _back_pressure(job: JobSnapshot) -> Iterator[Finding]:
    """Yields each busy vertex that others wait for, and back-pressure that no busy vertex explains.

    A vertex that is mostly idle is never blamed: it takes all that it gets.
    """
    consumers: dict[str, list[VertexSnapshot]] = {}
    for vertex in job.vertices:
        for vertex_id in dict.fromkeys(one.vertex_id for one in vertex.inputs()):
            consumers.setdefault(vertex_id, []).append(vertex)
    slow: dict[str, list[VertexSnapshot]] = {}
    aligning: dict[tuple[str, str], list[VertexSnapshot]] = {}
    unexplained = []
    for vertex in job.vertices:
        below = consumers.get(vertex.vertex_id, [])
        if _most(vertex, "back_pressured") <= HIGH_SHARE:
            continue
        if not below:
            yield _slow_system(vertex)
            continue
        slowest = _busiest_below(below, consumers)
        if slowest is not None and slowest in below:
            slow.setdefault(slowest.vertex_id, []).append(vertex)
        elif any(_most(one, "back_pressured") > HIGH_SHARE for one in below):
            continue  # the cause is further down
        elif slowest is not None:
            slow.setdefault(slowest.vertex_id, []).append(vertex)
        elif late := _late_barriers(job, vertex, below):
            aligning.setdefault(late, []).append(vertex)
        else:
            unexplained.append(vertex)
    found = {vertex_id: _slow_vertex(job.vertex(vertex_id), waiting) for vertex_id, waiting in slow.items()}
    for (vertex_id, late_id), waiting in aligning.items():
        late_barriers = _alignment(job, job.vertex(vertex_id), waiting)
        if late_id in found:
            sentence = f"{found[late_id].sentence} Barriers of checkpoints pass it late, too: {late_barriers}"
            found[late_id] = replace(found[late_id], sentence=sentence)
        else:
            found[late_id] = _slow_barriers(job.vertex(late_id), late_barriers)
    yield from found.values()
    for vertex in unexplained:
        yield Finding(
            "BACK_PRESSURE",
            NOTE,
            f"{_short(vertex.name)} cannot send {_percent(_most(vertex, 'back_pressured'))} of the time "
            "(back-pressure), but no vertex after it is busy.",
            "See what it or the vertices after it wait for: an external system (asynchronous functions and sinks), the "
            "network, or barriers of checkpoints.",
            vertex_id=vertex.vertex_id,
        )


def _slow_system(vertex: VertexSnapshot) -> Finding:
    share = _percent(_most(vertex, "back_pressured"))
    return Finding(
        "BACK_PRESSURE",
        CAUSE,
        f"{_short(vertex.name)} takes no records {share} of the time (back-pressure): its sink or asynchronous "
        "function waits for an external system or for the client that reads the results.",
        "Make that system faster, or let it take more requests at once.",
        vertex_id=vertex.vertex_id,
    )


def _busiest_below(
    below: Sequence[VertexSnapshot], consumers: Mapping[str, Sequence[VertexSnapshot]]
) -> VertexSnapshot | None:
    """Returns the busiest of the busy vertices that are reached through back-pressured ones; the nearest of equals."""
    reached = {one.vertex_id: one for one in below}
    queue = list(below)
    for one in queue:
        if _most(one, "back_pressured") > LOW_SHARE:
            further = [each for each in consumers.get(one.vertex_id, ()) if each.vertex_id not in reached]
            reached |= {each.vertex_id: each for each in further}
            queue += further
    busiest = max(queue, key=lambda one: _most(one, "busy"))
    return busiest if _most(busiest, "busy") > HIGH_SHARE else None


def _late_barriers(
    job: JobSnapshot, waiting: VertexSnapshot, below: Sequence[VertexSnapshot]
) -> tuple[str, str] | None:
    """Returns the consumer that aligns barriers of checkpoints, and its busy producer that sends them late."""
    told = job.checkpoints
    has_completed = told.last_completed_ms is not None and job.now_ms - told.last_completed_ms <= RATE_SPAN_MS
    if told.pending is None and not told.num_failed_since and not has_completed:
        return None  # nothing was aligned in the time that the shares cover
    for consumer in below:
        inputs = dict.fromkeys(one.vertex_id for one in consumer.inputs())
        # Barriers come late through a busy subtask of the waiting vertex too.
        producers = [job.vertex(one) for one in inputs if one != waiting.vertex_id or len(waiting.subtasks) > 1]
        late = max(producers, key=lambda one: _most(one, "busy"), default=None)
        if late is not None and _most(late, "busy") > HIGH_SHARE:
            return consumer.vertex_id, late.vertex_id
    return None


def _alignment(job: JobSnapshot, consumer: VertexSnapshot, waiting: list[VertexSnapshot]) -> str:
    pending = job.checkpoints.pending
    checkpoint = "checkpoints" if pending is None else f"checkpoint {pending.checkpoint_id}"
    return (
        f"{_short(consumer.name)} waits for the barrier of {checkpoint} from it (alignment), and meanwhile "
        f"{_listed([_short(one.name) for one in waiting])} cannot send {_percent(_most(waiting[0], 'back_pressured'))} "
        "of the time (back-pressure)."
    )


def _slow_barriers(late: VertexSnapshot, alignment: str) -> Finding:
    return Finding(
        "BACK_PRESSURE",
        CAUSE,
        f"{_short(late.name)} slows the job down: it is busy {_percent(_most(late, 'busy'))} of the time, so that "
        f"barriers of checkpoints pass it late. {alignment}",
        "Make its functions faster, raise its parallelism, or take checkpoints less often.",
        vertex_id=late.vertex_id,
    )


def _slow_vertex(vertex: VertexSnapshot, waiting: list[VertexSnapshot]) -> Finding:
    busiest = max(vertex.running, key=lambda one: one.busy or 0.0)
    share = _most(waiting[0], "back_pressured")
    producers = {one.vertex_id for one in vertex.inputs()}
    to_it = " to it" if all(one.vertex_id in producers for one in waiting) else ""
    text = (
        f"{_short(vertex.name)} slows the job down: it is busy {_percent(busiest.busy or 0.0)} of the time, and "
        f"{_listed([_short(one.name) for one in waiting])} cannot send{to_it} {_percent(share)} of the time "
        "(back-pressure)."
    )
    advice = f"Make its functions faster, or raise its parallelism from {len(vertex.subtasks)}."
    index = -1
    counts = {one.index: one.records_in or 0 for one in vertex.running}
    total = sum(counts.values())
    if len(counts) > 1 and total:
        most, records = max(counts.items(), key=lambda item: item[1])
        if records >= SKEW_FACTOR * total / len(counts):
            index = most
            text += (
                f" Its subtask {most + 1} of {len(vertex.subtasks)} gets {_percent(records / total)} of the records, "
                f"where {_percent(1 / len(counts))} would be even."
            )
            advice = "Choose keys that spread the records evenly: more parallelism does not help a single hot key."
    return Finding("BACK_PRESSURE", CAUSE, text, advice, vertex_id=vertex.vertex_id, subtask_index=index)


def _most(vertex: VertexSnapshot, share: str) -> float:
    return max((getattr(one, share) or 0.0 for one in vertex.running), default=0.0)


# -- checkpoints -------------------------------------------------------------------------------------------------------


def _checkpoints(job: JobSnapshot) -> Iterator[Finding]:
    told = job.checkpoints
    sinks = list(
        dict.fromkeys(
            _short(operator.name)
            for _, operator, readings in _operators(job)
            if any(reading.pending_committables is not None for _, reading in readings)
        )
    )
    severity = CAUSE if sinks else NOTE
    shows = f"{_listed(sinks)} {'makes its' if len(sinks) == 1 else 'make their'} results visible only when a "
    shows += "checkpoint completes"
    if told.last_completed_ms is None:
        visible = f" {shows}, so that there are none yet." if sinks else ""
    else:
        visible = f" {shows}, the last one {_age(job.now_ms - told.last_completed_ms)} ago." if sinks else ""
    if job.is_batch:
        return
    if not told.interval_ms:
        if sinks:
            yield Finding(
                "CHECKPOINTS",
                CAUSE,
                f"{shows}, but the job takes no checkpoints.",
                "Set execution.checkpointing.interval.",
            )
        return
    if told.num_failed_since:
        reason = f": {_reason(told.last_failure)}" if told.last_failure else "."
        many = "The last checkpoint" if told.num_failed_since == 1 else f"The last {told.num_failed_since} checkpoints"
        yield Finding("CHECKPOINTS", severity, f"{many} failed{reason}{visible}")
    pending = told.pending
    age_ms = 0 if pending is None else job.now_ms - pending.since_ms
    if pending is not None and age_ms > max(LONG_CHECKPOINT_MS, LONG_CHECKPOINT_INTERVALS * told.interval_ms):
        missing = [
            f"{_short(job.vertex(vertex_id).name)} ({index + 1}/{len(job.vertex(vertex_id).subtasks)})"
            for vertex_id, indexes in pending.missing.items()
            for index in indexes
        ]
        waits = f": it waits for {_listed(missing)}" if missing else ""
        first = next(iter(pending.missing), "")
        yield Finding(
            "CHECKPOINTS",
            severity,
            f"Checkpoint {pending.checkpoint_id} has been in progress for {_age(age_ms)}{waits}.{visible}",
            vertex_id=first,
            subtask_index=pending.missing[first][0] if len(missing) == 1 else -1,
        )
    elif sinks and not told.num_completed and not told.num_failed_since:
        yield Finding(
            "CHECKPOINTS",
            CAUSE,
            f"{shows}, and none has completed yet. The interval is {_age(told.interval_ms)}.",
        )


# -- words -------------------------------------------------------------------------------------------------------------


def _operators(
    job: JobSnapshot,
) -> Iterator[tuple[VertexSnapshot, OperatorSnapshot, list[tuple[SubtaskSnapshot, OperatorReading]]]]:
    """Yields each operator with its metrics in the subtasks that have told them."""
    for vertex in job.vertices:
        for operator in vertex.operators:
            readings = [
                (one, one.operators[operator.operator_id])
                for one in vertex.subtasks
                if operator.operator_id in one.operators
            ]
            if readings:
                yield vertex, operator, readings


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _short(name: str) -> str:
    return name if len(name) <= _MAX_NAME_CHARS else f"{name[: _MAX_NAME_CHARS - 3]}..."


def _reason(text: str) -> str:
    line = " ".join(text.split())
    line = line if len(line) <= _MAX_REASON_CHARS else f"{line[: _MAX_REASON_CHARS - 3]}..."
    return line if line.endswith((".", "!", "?")) else f"{line}."


def _name(vertex: VertexSnapshot, subtask: SubtaskSnapshot) -> str:
    return f"{_short(vertex.name)} ({subtask.index + 1}/{len(vertex.subtasks)})"


def _operator_name(place: Place) -> str:
    return f"{_short(place.operator.name)} ({place.subtask.index + 1}/{len(place.vertex.subtasks)})"


def _listed(names: Sequence[str]) -> str:
    """Returns `a`, `a and b`, or `a, b, c and 4 more`."""
    if len(names) > MAX_LISTED:
        return f"{', '.join(names[:MAX_LISTED])} and {len(names) - MAX_LISTED} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _age(duration_ms: int) -> str:
    """Returns a duration with its largest unit, or the two largest: `420 ms`, `12 s`, `3 min 5 s`, `2 h 10 min`."""
    seconds = duration_ms // 1000
    if seconds < 1:
        return f"{max(duration_ms, 0)} ms"
    for size, unit, below, smaller in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // below
            return f"{seconds // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{seconds} s"


def _time(timestamp_ms: int) -> str:
    """Returns a time of records in UTC, or as a number if it is no date."""
    try:
        at = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    ms = timestamp_ms % 1000
    return f"{at:%Y-%m-%d %H:%M:%S}{f'.{ms:03d}' if ms else ''} UTC"
