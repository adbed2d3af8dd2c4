"""JobNotices reports restarts and missing slots once."""

from __future__ import annotations

from flinkpy._proto import common_pb2, dispatcher_pb2, job_pb2
from flinkpy.client.job_watch import MAX_CAUSE_CHARS, JobNotices, describe_shortage, root_cause

TRACEBACK = """Traceback (most recent call last):
  File "/home/me/job.py", line 4, in outer
    return parse(x)
  File "/home/me/job.py", line 7, in parse
    return 10 // (x - 5)
           ~~~^^~~~~~~~~
ZeroDivisionError: integer division or modulo by zero
"""


def failure(timestamp_ms: int, message: str, task: str = "Map (1/2)", traceback: str = "") -> dict[str, object]:
    error = common_pb2.ErrorInfo(type="FunctionError", message=message, traceback=traceback, domain="USER")
    return {"timestamp_ms": timestamp_ms, "task_name": task, "error": error}


def details(restarts: int, *failures: dict[str, object], **fields: int) -> job_pb2.JobDetails:
    history = [job_pb2.ExceptionHistoryEntry(**each) for each in failures]  # type: ignore[arg-type]
    return job_pb2.JobDetails(status=common_pb2.RUNNING, num_restarts=restarts, exception_history=history, **fields)


def test_the_root_cause_is_the_last_frame_of_user_code_and_its_error() -> None:
    error = common_pb2.ErrorInfo(type="FunctionError", message="Map: ...", traceback=TRACEBACK, domain="USER")
    assert root_cause(error) == "job.py:7 in parse: ZeroDivisionError: integer division or modulo by zero"


def test_the_root_cause_of_a_wrapped_user_error_is_the_user_error() -> None:
    inner = common_pb2.ErrorInfo(type="FunctionError", message="m", traceback=TRACEBACK, domain="USER")
    outer = common_pb2.ErrorInfo(type="ExternalError", message="the sink failed", domain="EXTERNAL", cause=inner)
    assert root_cause(outer).startswith("job.py:7 in parse: ZeroDivisionError")


def test_the_root_cause_of_an_error_without_a_traceback_is_one_bounded_line() -> None:
    error = common_pb2.ErrorInfo(type="TaskManagerLostError", message="gone\nmore", domain="EXTERNAL")
    assert root_cause(error) == "gone"
    error.message = "x" * 10_000
    assert len(root_cause(error)) == MAX_CAUSE_CHARS


def test_each_restart_is_reported_once_with_its_own_cause() -> None:
    notices = JobNotices()
    first, second, third = failure(10, "one"), failure(20, "two"), failure(30, "three")
    assert notices.restarts(details(0)) == []
    assert notices.restarts(details(1, first)) == ["restart 1: one (Map (1/2))"]
    assert notices.restarts(details(1, first)) == []
    assert notices.restarts(details(3, third, first, second)) == [
        "restart 2: two (Map (1/2))",
        "restart 3: three (Map (1/2))",
    ]


def test_the_failure_that_ends_a_job_is_not_reported_as_a_restart() -> None:
    notices = JobNotices()
    assert notices.restarts(details(1, failure(10, "one"), failure(20, "last"))) == ["restart 1: one (Map (1/2))"]
    assert notices.restarts(details(1, failure(10, "one"), failure(20, "last"))) == []


def test_missing_slots_are_reported_after_five_seconds_and_once_per_period() -> None:
    notices = JobNotices()
    lacking = details(0, num_slots_required=8, num_slots_held=2)
    assert [notices.is_shortage_due(lacking, now_s) for now_s in (0.0, 4.9, 5.0, 60.0)] == [False, False, True, False]
    enough = details(0, num_slots_required=8, num_slots_held=8)
    assert not notices.is_shortage_due(enough, 61.0)
    assert [notices.is_shortage_due(lacking, now_s) for now_s in (62.0, 66.0, 67.0)] == [False, False, True]


def test_the_message_about_missing_slots_has_needed_and_available_slots() -> None:
    lacking = details(0, num_slots_required=8, num_slots_held=2)
    overview = dispatcher_pb2.ClusterOverview(num_task_managers=1, num_slots_total=2, num_slots_available=0)
    text = describe_shortage(lacking, overview)
    assert text is not None
    assert text.startswith(
        "waits for slots: it needs 8 and has 2; the cluster has 2 slots on 1 TaskExecutor, 0 free. Start"
    )
    assert describe_shortage(lacking, None) == "waits for slots: it needs 8 and has 2"
    lacking.status = common_pb2.CANCELED
    assert describe_shortage(lacking, overview) is None
