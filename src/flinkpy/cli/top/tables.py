"""The rows that `flinkpy top` shows, as rich texts, for the live view and for one print."""

from __future__ import annotations

from rich.text import Text

from flinkpy.cli.job_progress import JobProgress, VertexProgress
from flinkpy.cli.progress import STATUS_STYLES, checkpoint_text, ratio_text
from flinkpy.cli.tables import format_bytes, format_clock, format_rate, format_short_count
from flinkpy.cli.top.snapshot import (
    ClusterSnapshot,
    TaskExecutorUse,
    busiest,
    most_back_pressured,
    records_in_per_s,
)
from flinkpy.common.error_text import escaped_line

#: Longest name of a job or vertex, so that all columns fit into 80.
MAX_NAME_CHARS = 20
#: First characters of a job's id: enough to name it to other commands.
ID_CHARS = 8

JOB_COLUMNS = ("Job", "Name", "State", "Time", "Rows/s", "Busy", "BackPr", "Ckpt", "Rst")
VERTEX_COLUMNS = ("Vertex", "Tasks", "Rows in", "in/s", "Rows out", "out/s", "Busy", "BackPr")
EXECUTOR_COLUMNS = ("TaskExecutor", "Address", "Slots", "CPU", "Memory")
#: Columns with text. The others have numbers, which are right-aligned.
TEXT_COLUMNS = frozenset({"Job", "Name", "State", "Vertex", "TaskExecutor", "Address"})


def _cut(text: str, length: int = MAX_NAME_CHARS) -> str:
    line = escaped_line(text)
    return line if len(line) <= length else f"{line[: length - 1]}…"


def _number(text: str) -> Text:
    return Text(text, justify="right")


def _ratio(ratio: float | None, *, is_bad: bool) -> Text:
    text: Text = ratio_text(ratio, is_bad=is_bad)
    text.justify = "right"
    return text


def job_row(job: JobProgress) -> list[Text]:
    checkpoints = job.checkpoints
    return [
        Text(job.job_id[:ID_CHARS], style="bold"),
        Text(_cut(job.name)),
        Text(job.status.name, style=STATUS_STYLES.get(job.status, "")),
        _number(format_clock(job.elapsed_ms)),
        _number("-" if job.status.is_terminal else format_rate(records_in_per_s(job))),
        _ratio(None if job.status.is_terminal else busiest(job), is_bad=False),
        _ratio(None if job.status.is_terminal else most_back_pressured(job), is_bad=True),
        Text(f"{checkpoints.num_completed}", style="yellow" if checkpoints.num_failed else "", justify="right"),
        Text(f"{job.num_restarts}", style="yellow" if job.num_restarts else "", justify="right"),
    ]


def vertex_row(vertex: VertexProgress) -> list[Text]:
    totals = vertex.totals
    return [
        Text(_cut(totals.name, 23)),
        _number(f"{totals.num_started}/{totals.parallelism if totals.parallelism > 0 else '?'}"),
        _number(format_short_count(totals.records_in)),
        _number(format_rate(vertex.records_in_per_s)),
        _number(format_short_count(totals.records_out)),
        _number(format_rate(vertex.records_out_per_s)),
        _ratio(vertex.busy, is_bad=False),
        _ratio(vertex.back_pressured, is_bad=True),
    ]


def executor_row(use: TaskExecutorUse) -> list[Text]:
    return [
        Text(_cut(use.id, 28)),
        Text(_cut(use.address, 22)),
        _number(f"{use.num_slots - use.num_slots_free}/{use.num_slots}"),
        _number("-" if use.cores is None else f"{use.cores:.0%}"),
        _number("-" if use.memory_bytes is None else format_bytes(use.memory_bytes)),
    ]


def cluster_line(snapshot: ClusterSnapshot) -> str:
    running = sum(not job.status.is_terminal for job in snapshot.jobs)
    used = snapshot.num_slots - snapshot.num_slots_free
    return (
        f"{snapshot.address}: {running} running {'job' if running == 1 else 'jobs'}, "
        f"{snapshot.num_task_executors} TaskExecutor{'' if snapshot.num_task_executors == 1 else 's'}, "
        f"{used} of {snapshot.num_slots} slots used"
    )


def job_lines(job: JobProgress, *, now_ms: int) -> str:
    """Returns the text about a job above the table of its vertices."""
    done = "" if job.fraction is None else f"  {job.fraction:.0%} done"
    left = "" if job.remaining_ms is None else f", {format_clock(job.remaining_ms)} left"
    slots = f"  {job.num_slots_held} of {job.num_slots_required} slots" if not job.status.is_terminal else ""
    first = f"{escaped_line(job.name)}  {job.status.name} {format_clock(job.elapsed_ms)}{done}{left}{slots}"
    return f"{job.job_id}\n{first}\n{checkpoint_text(job.checkpoints, now_ms=now_ms)}, {job.num_restarts} restarts"
