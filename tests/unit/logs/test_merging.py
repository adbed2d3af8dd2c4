"""Records of several logs are merged by their times."""

from __future__ import annotations

from flinkpy._proto import common_pb2
from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.logs.merging import MergedLogs


def log(name: str, times: list[int], *, at_end: bool = True, position: str = "1:5") -> common_pb2.LogRecords:
    records = [common_pb2.LogRecord(timestamp_ms=time, message=f"{name} {time}") for time in times]
    return common_pb2.LogRecords(
        log=name, source=name, host="host-a", has_log=True, is_at_end=at_end, position=position, records=records
    )


def shown(merged: MergedLogs, *logs: common_pb2.LogRecords) -> list[str]:
    answer = pb.JobLogRecords(logs=logs)
    return [record.message for _, record in merged.take(answer)]


def test_records_of_all_logs_are_shown_in_the_order_of_their_times() -> None:
    merged = MergedLogs()
    assert shown(merged, log("a", [1, 4]), log("b", [2, 3, 5])) == ["a 1", "b 2", "b 3", "a 4", "b 5"]
    assert not merged.is_behind and merged.positions == {"a": "1:5", "b": "1:5"}
    assert shown(merged, log("a", [6], position="1:9"), log("b", [])) == ["a 6"]
    assert merged.positions["a"] == "1:9"


def test_records_wait_for_a_log_that_may_have_earlier_ones() -> None:
    merged = MergedLogs()
    assert shown(merged, log("a", [1, 9]), log("b", [2, 3], at_end=False)) == ["a 1", "b 2", "b 3"]
    assert merged.is_behind and merged.held_logs == []
    assert shown(merged, log("a", []), log("b", [7, 8], at_end=False)) == ["b 7", "b 8"]
    assert shown(merged, log("a", []), log("b", [10])) == ["a 9", "b 10"]


def test_a_log_that_is_ahead_is_not_read_until_the_others_have_caught_up() -> None:
    merged = MergedLogs()
    assert shown(merged, log("a", [50, 60], at_end=False), log("b", [1], at_end=False)) == ["b 1"]
    assert merged.held_logs == ["a"]
    # The answer repeats nothing of a log that was skipped.
    assert shown(merged, log("a", [], at_end=False), log("b", [2], at_end=False)) == ["b 2"]
    assert shown(merged, log("a", [], at_end=False), log("b", [55])) == ["a 50", "b 55", "a 60"]


def test_a_log_without_a_match_so_far_holds_the_others_back() -> None:
    merged = MergedLogs()
    assert shown(merged, log("a", [5]), log("b", [], at_end=False)) == []
    assert shown(merged, log("a", []), log("b", [4])) == ["b 4", "a 5"]


def test_a_process_that_ends_does_not_hold_the_others_back() -> None:
    merged = MergedLogs()
    assert shown(merged, log("a", [5]), log("b", [1], at_end=False)) == ["b 1"]
    assert shown(merged, log("a", [])) == ["a 5"] and not merged.is_behind
