"""`flinkpy logs` and `flinkpy log-level`: the log records of a job from all its processes, and their levels."""

from __future__ import annotations

import contextlib
import datetime
import json
import sys
import threading
from typing import TYPE_CHECKING, Any

import click

from flinkpy.cli.jobs import connect, find_job, job_argument
from flinkpy.cli.json_output import json_option, print_json
from flinkpy.cli.options import cluster_address_option, configuration_options, load_valid_configuration
from flinkpy.common.clock import SystemClock
from flinkpy.common.error_text import escaped, escaped_line

if TYPE_CHECKING:
    from flinkpy._proto import common_pb2, dispatcher_pb2

#: Interval of -f: short enough for a person, and cheap.
FOLLOW_INTERVAL_S = 0.5
#: The most records that --tail shows.
MAX_TAIL = 10_000
#: The colours of levels, as names of rich.
_COLOURS = {"DEBUG": "dim", "WARNING": "yellow", "WARN": "yellow", "ERROR": "red", "CRITICAL": "bold red"}
#: Begins each further line of a record, as in log files.
_MARK = "  | "
_LEVELS = click.Choice(["DEBUG", "INFO", "WARN", "WARNING", "ERROR", "CRITICAL"], case_sensitive=False)


def _since(text: str | None, now_ms: int) -> int:
    """Returns the time of `10 min` (before now) or `2026-11-23T06:51`, in milliseconds."""
    from flinkpy.configuration.values import parse_duration_ms

    if text is None:
        return 0
    with contextlib.suppress(ValueError):  # it is a time
        return now_ms - parse_duration_ms(text)
    try:
        return int(datetime.datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{text!r} is neither a duration such as `10 min` nor a time such as 2026-11-23T06:51:12",
            param_hint="--since",
        ) from None


@click.command()
@configuration_options
@cluster_address_option
@click.option("-f", "--follow", is_flag=True, help="Continue until the job has ended.")
@click.option("--level", type=_LEVELS, help="Show records of at least this level.")
@click.option("--task", default="", help="Show records of tasks whose name contains this, e.g. `Map` or `Map (2/4)`.")
@click.option("--grep", default="", help="Show records whose message or logger contains this text.")
@click.option("--since", help="Show records since a time: `10 min` ago, or 2026-11-23T06:51:12.")
@click.option("-n", "--tail", type=click.IntRange(1, MAX_TAIL), help="Show only the last records before now.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per record.")
@job_argument
def logs(
    address: str | None,
    follow: bool,
    level: str | None,
    task: str,
    grep: str,
    since: str | None,
    tail: int | None,
    as_json: bool,
    job: str,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> None:
    """Show the log records of JOB, a running or ended one, from all its processes in the order of their times.

    They contain what the functions of the job log and print, and what flinkpy reports about the job.
    """
    from flinkpy._proto import common_pb2
    from flinkpy.logs.merging import MergedLogs

    query = common_pb2.LogQuery(
        min_level=(level or "").upper(),
        task=task,
        text=grep,
        since_ms=_since(since, SystemClock().now_ms()),
    )
    merged, missing = MergedLogs(), _Missing()
    show = _JsonView() if as_json else _TerminalView() if sys.stdout.isatty() else _TextView()
    with connect(load_valid_configuration(config_dir, properties, {}), address) as client:
        query.job_id = find_job(client, job)
        request = common_pb2.LogRecordsRequest(query=query, tail=tail or 0)
        never = threading.Event()
        while True:
            answer = client.request_job_log_records(request)
            records = merged.take(answer)
            for log, record in records[-request.tail :]:
                show(log, record)
            missing.take(answer)
            # Records that were written since the tail follow without a limit.
            request = common_pb2.LogRecordsRequest(query=query, positions=merged.positions, skip=merged.held_logs)
            if merged.is_behind:
                continue
            if answer.is_over or not follow:
                break
            never.wait(FOLLOW_INTERVAL_S)
    missing.report()


class _Missing:
    """Tells of records and processes that are missing, once for each."""

    def __init__(self) -> None:
        self._without_log: dict[str, common_pb2.LogRecords] = {}
        self._unreachable: set[str] = set()

    def take(self, answer: dispatcher_pb2.JobLogRecords) -> None:
        for log in answer.logs:
            if not log.has_log:
                self._without_log[log.source] = log
            elif log.is_cut:
                click.echo(f"flinkpy: older records of {escaped_line(log.log)} were removed or left out", err=True)
        self._unreachable.update(answer.unreachable)

    def report(self) -> None:
        for source in sorted(self._unreachable):
            click.echo(f"flinkpy: {escaped_line(source)} does not answer; its log is missing", err=True)
        for source, log in sorted(self._without_log.items()):
            click.echo(
                f"flinkpy: {escaped_line(source)} on {escaped_line(log.host)} has no log file: its output goes to "
                "standard error (a terminal, `docker logs`, `kubectl logs`)",
                err=True,
            )


def text_of_record(log: common_pb2.LogRecords, record: common_pb2.LogRecord) -> tuple[str, str]:
    """Returns the head and the message of a record, without what all records of a job have in common."""
    shown = datetime.datetime.fromtimestamp(record.timestamp_ms / 1000)
    where = record.task or log.source
    if record.thread and record.thread != record.task.rpartition("#")[0]:
        where = f"{where} | {record.thread}"
    head = f"{shown:%Y-%m-%d %H:%M:%S},{shown.microsecond // 1000:03d} {record.level:<5} [{where}] {record.logger}"
    return escaped_line(head), escaped(record.message).replace("\n", f"\n{_MARK}")


class _TextView:
    def __call__(self, log: common_pb2.LogRecords, record: common_pb2.LogRecord) -> None:
        head, message = text_of_record(log, record)
        click.echo(f"{head} - {message}")


class _TerminalView:
    """Shows records in colours."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False, soft_wrap=True)

    def __call__(self, log: common_pb2.LogRecords, record: common_pb2.LogRecord) -> None:
        from rich.text import Text

        head, message = text_of_record(log, record)
        colour = _COLOURS.get(record.level, "")
        self._console.print(Text.assemble((head, "dim"), (" - ", "dim"), (message, colour)))


class _JsonView:
    def __call__(self, log: common_pb2.LogRecords, record: common_pb2.LogRecord) -> None:
        click.echo(json.dumps(json_of_record(log, record)))


def json_of_record(log: common_pb2.LogRecords, record: common_pb2.LogRecord) -> dict[str, Any]:
    """Returns a record as an object. `fields` has all members of a record that was logged as JSON."""
    return {
        "time_ms": record.timestamp_ms,
        "level": record.level,
        "logger": record.logger,
        "thread": record.thread,
        "job_id": record.job_id,
        "job_name": record.job_name,
        "task": record.task,
        "message": record.message,
        "process": log.source,
        "host": log.host,
        "fields": json.loads(record.fields_json) if record.fields_json else None,
    }


@click.command("log-level")
@configuration_options
@cluster_address_option
@click.option("--job", help="For the records of this job, in all its processes.")
@click.option("--taskmanager", "resource_id", help="In the TaskExecutor with this id.")
@click.option("--for", "duration", help="How long, e.g. `10 min`. Default: until the process ends.")
@json_option
@click.argument("logger", required=False)
@click.argument(
    "level", required=False, type=click.Choice([*_LEVELS.choices[:-1], "OFF", "RESET"], case_sensitive=False)
)
def log_level(
    address: str | None,
    job: str | None,
    resource_id: str | None,
    duration: str | None,
    as_json: bool,
    logger: str | None,
    level: str | None,
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
) -> None:
    """Show the log levels of running processes, or set the LEVEL of LOGGER (`root` is the root logger).

    Without --job and --taskmanager, it applies to the Dispatcher. RESET takes an earlier change back.
    """
    from flinkpy._proto import common_pb2
    from flinkpy.cli.tables import format_duration_ms, print_table
    from flinkpy.configuration.values import parse_duration_ms

    if logger is not None and level is None:
        raise click.UsageError("LOGGER needs a LEVEL")
    if job is not None and resource_id is not None:
        raise click.UsageError("--job and --taskmanager exclude each other")
    try:
        remaining_ms = 0 if duration is None else parse_duration_ms(duration)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--for") from None
    request = common_pb2.LogLevelsRequest(resource_id=resource_id or "")
    if logger is not None and level is not None:
        name = "" if logger == "root" else logger
        word = "" if level.upper() == "RESET" else level.upper()
        request.changes.add(logger=name, level=word, remaining_ms=remaining_ms)
    with connect(load_valid_configuration(config_dir, properties, {}), address) as client:
        if job is not None:
            request.job_id = find_job(client, job)
        answer = client.change_log_levels(request)
    if as_json:
        print_json(
            {
                "processes": [
                    {"process": process.source, "levels": [_level_as_json(one) for one in process.levels]}
                    for process in answer.processes
                ],
                "unreachable": list(answer.unreachable),
            }
        )
        return
    rows = []
    for process in answer.processes:
        for one in process.levels:
            left = format_duration_ms(one.remaining_ms) if one.remaining_ms else "-"
            origin = ("set" if one.is_changed else "configured") + (f" for job {one.job_id}" if one.job_id else "")
            rows.append([process.source, one.logger or "root", one.level, origin, left])
    print_table(["Process", "Logger", "Level", "Origin", "Goes back in"], rows)
    for source in answer.unreachable:
        click.echo(f"flinkpy: {escaped_line(source)} does not answer", err=True)


def _level_as_json(level: common_pb2.LogLevel) -> dict[str, Any]:
    return {
        "logger": level.logger or "root",
        "level": level.level,
        "is_changed": level.is_changed,
        "job_id": level.job_id or None,
        "remaining_ms": level.remaining_ms or None,
    }
