"""`flinkpy logs` shows records as text and JSON, and tells of those that are missing."""

from __future__ import annotations

import pytest

from flinkpy._proto import common_pb2
from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.cli.logs import _Missing, json_of_record, text_of_record


def log(name: str, times: list[int], *, at_end: bool = True, position: str = "1:5") -> common_pb2.LogRecords:
    records = [common_pb2.LogRecord(timestamp_ms=time, message=f"{name} {time}") for time in times]
    return common_pb2.LogRecords(
        log=name, source=name, host="host-a", has_log=True, is_at_end=at_end, position=position, records=records
    )


def test_missing_logs_and_gaps_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    missing = _Missing()
    silent = common_pb2.LogRecords(source="te-1", host="host-a", is_at_end=True)
    cut = log("c", [1])
    cut.is_cut = True
    for _ in range(2):
        missing.take(pb.JobLogRecords(logs=[silent], unreachable=["te-2"]))
    missing.take(pb.JobLogRecords(logs=[cut]))
    missing.report()
    told = capsys.readouterr().err
    assert told.count("te-1 on host-a has no log file") == 1 and told.count("te-2 does not answer") == 1
    assert told.count("older records of c were removed") == 1


RECORD = common_pb2.LogRecord(
    timestamp_ms=1795416672123,
    level="WARNING",
    logger="my.module",
    thread="Map (1/2)",
    job_id="a" * 32,
    job_name="words",
    task="Map (1/2)#0",
    message="one\n2026-01-01 00:00:00,000 INFO \x1b[2Jtwo",
)


def test_a_record_is_shown_with_its_task_and_acts_on_no_terminal() -> None:
    head, message = text_of_record(log("te-1", []), RECORD)
    assert head.endswith(",123 WARNING [Map (1/2)#0] my.module")
    assert message == "one\n  | 2026-01-01 00:00:00,000 INFO \\x1b[2Jtwo"
    other = common_pb2.LogRecord(timestamp_ms=1, level="INFO", logger="x", thread="MainThread")
    assert " INFO  [te-1 | MainThread] x" in text_of_record(log("te-1", []), other)[0]


def test_a_record_as_json_has_all_parts() -> None:
    found = json_of_record(log("te-1", []), RECORD)
    assert (found["time_ms"], found["job_name"], found["fields"]) == (1795416672123, "words", None)
    assert (found["task"], found["process"], found["host"]) == ("Map (1/2)#0", "te-1", "host-a")
    whole = common_pb2.LogRecord(fields_json='{"message": "as it was"}', task="t")
    assert json_of_record(log("te-1", []), whole)["fields"] == {"message": "as it was"}
