"""The status of an application for every order in which its program and its jobs end."""

from __future__ import annotations

from itertools import permutations

import pytest

from flinkpy.common.application_report import JobSubmitted, ProgramEnded, decode, encode
from flinkpy.common.states import JobState
from flinkpy.dispatcher.application_status import ApplicationState, ApplicationStatus

A, B = "a" * 32, "b" * 32
RETURNED = ProgramEnded()
RAISED = ProgramEnded(1, "ValueError: no", "Traceback ...")
CANCELED = ProgramEnded(1, "job was canceled", "", is_canceled=True)


def status(*, terminates: bool = True, jobs: tuple[str, ...] = (A, B)) -> ApplicationStatus:
    made = ApplicationStatus(terminates_on_any_exception=terminates)
    for job_id in jobs:
        assert made.job_submitted(job_id, f"job {job_id[0]}")
    return made


def state_of(made: ApplicationStatus) -> ApplicationState:
    return ApplicationState.RUNNING if made.result is None else made.result.state


@pytest.mark.parametrize("order", list(permutations(("program", A, B))))
def test_an_application_is_finished_when_its_program_and_all_its_jobs_are(order: tuple[str, ...]) -> None:
    made = status()
    for event in order:
        assert made.result is None
        made.program_ended(RETURNED) if event == "program" else made.job_ended(event, JobState.FINISHED)
    assert made.result is not None
    assert (made.result.state, made.result.exit_status) == (ApplicationState.FINISHED, 0)


def test_an_application_waits_for_a_job_submitted_while_another_ends() -> None:
    made = status(jobs=(A,))
    made.job_ended(A, JobState.FINISHED)
    made.job_submitted(B, "job b")
    made.program_ended(RETURNED)
    assert made.unfinished_jobs == [B] and made.result is None
    made.job_ended(B, JobState.FINISHED)
    assert state_of(made) is ApplicationState.FINISHED


def test_an_unfinished_application_fails_if_it_cannot_be_watched() -> None:
    made = status()
    made.is_broken("reports of the program: ValueError")
    assert made.result is not None and made.result.exit_status == 1
    other = status(jobs=(A,))
    other.program_ended(RETURNED)
    other.job_ended(A, JobState.FINISHED)
    other.is_broken("too late")
    assert state_of(other) is ApplicationState.FINISHED


def test_a_job_reported_twice_counts_once() -> None:
    made = status(jobs=(A,))
    assert not made.job_submitted(A, "job a")
    assert made.jobs == [A]


def test_a_program_without_a_job_fails() -> None:
    made = status(jobs=())
    made.program_ended(RETURNED)
    assert made.result is not None and made.result.exit_status == 1
    assert "did not call execute()" in made.result.message


@pytest.mark.parametrize(
    ("ended", "exit_status", "message"),
    [(RAISED, 1, "ValueError: no"), (ProgramEnded(status=3), 3, "exit status 3")],
)
@pytest.mark.parametrize("terminates", [True, False])
def test_a_program_that_fails_fails_the_application_whatever_its_jobs_do(
    ended: ProgramEnded, exit_status: int, message: str, terminates: bool
) -> None:
    made = status(terminates=terminates)
    made.program_ended(ended)
    assert made.result is not None
    assert (made.result.state, made.result.exit_status) == (ApplicationState.FAILED, exit_status)
    assert message in made.result.message
    assert made.unfinished_jobs == [A, B]
    # The later cancellation of its jobs has no effect.
    made.job_ended(A, JobState.CANCELED)
    assert state_of(made) is ApplicationState.FAILED


def test_a_program_that_dies_without_a_report_fails() -> None:
    made = status()
    made.program_died("killed by SIGKILL")
    assert made.result is not None and "killed by SIGKILL" in made.result.message
    other = status(jobs=(A,))
    other.program_ended(RETURNED)
    other.program_died("exit code 0")
    assert other.result is None


@pytest.mark.parametrize(
    ("ended", "expected"), [(JobState.FAILED, ApplicationState.FAILED), (JobState.CANCELED, ApplicationState.CANCELED)]
)
def test_a_failed_or_canceled_job_ends_the_application_after_a_grace_period(
    ended: JobState, expected: ApplicationState
) -> None:
    made = status()
    made.job_ended(A, ended, "it broke")
    assert made.result is None and made.is_waiting_for_program
    made.program_is_overdue()
    assert made.result is not None and made.result.state is expected
    assert "job 'job a'" in made.result.message
    assert made.result.exit_status == (1 if expected is ApplicationState.FAILED else 0)


def test_a_program_that_ignores_a_failed_job_fails() -> None:
    made = status()
    made.job_ended(A, JobState.FAILED, "it broke")
    made.program_ended(RETURNED)
    assert state_of(made) is ApplicationState.FAILED


def test_the_error_of_the_program_is_preferred_to_the_error_of_its_job() -> None:
    made = status()
    made.job_ended(A, JobState.FAILED, "it broke")
    made.program_ended(RAISED)
    assert made.result is not None and made.result.message == "ValueError: no"


def test_a_program_that_waited_for_a_canceled_job_is_canceled() -> None:
    made = status(jobs=(A,))
    made.program_ended(CANCELED)
    assert made.result is not None and made.result.exit_status == 0
    assert state_of(made) is ApplicationState.CANCELED


@pytest.mark.parametrize("ended", [JobState.FAILED, JobState.CANCELED])
def test_an_application_whose_jobs_may_fail_finishes_when_all_have_ended(ended: JobState) -> None:
    made = status(terminates=False)
    made.job_ended(A, ended)
    assert not made.is_waiting_for_program
    made.program_ended(RETURNED)
    assert made.result is None
    made.job_ended(B, JobState.FINISHED)
    assert state_of(made) is ApplicationState.FINISHED


@pytest.mark.parametrize("report", [JobSubmitted(A, "näme\n2"), RETURNED, ProgramEnded(status=7), RAISED, CANCELED])
def test_a_report_survives_a_round_trip_through_one_line(report: JobSubmitted | ProgramEnded) -> None:
    line = encode(report)
    assert line.count(b"\n") == 1
    assert decode(line) == report


@pytest.mark.parametrize("line", [b"x\n", b"[]\n", b"{}\n", b"\xff\n", b'{"end": "raised", "status": "x"}\n'])
def test_an_invalid_report_is_an_error(line: bytes) -> None:
    with pytest.raises(ValueError):
        decode(line)
