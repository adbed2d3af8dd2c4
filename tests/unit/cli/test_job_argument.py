"""The argument JOB is an id, the beginning of an id, or a name."""

from __future__ import annotations

from typing import Any

import pytest

from flinkpy._proto import common_pb2
from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.cli.jobs import find_job
from flinkpy.common.errors import JobNotFoundError, UserError

WORDS = "ab" + "0" * 30
OTHER = "ac" + "1" * 30


class Client:
    """A client whose jobs are given as (id, name, status)."""

    def __init__(self, *jobs: tuple[str, str, int]) -> None:
        self._jobs = jobs

    def list_jobs(self) -> list[pb.JobOverview]:
        return [pb.JobOverview(job_id=job_id, name=name, status=status) for job_id, name, status in self._jobs]  # type: ignore[arg-type]


def find(text: str, *jobs: tuple[str, str, int]) -> str:
    client: Any = Client(*jobs)
    return find_job(client, text)


def test_a_whole_id_is_used_without_a_call_to_the_cluster() -> None:
    client: Any = None
    assert find_job(client, WORDS) == WORDS


def test_a_job_is_found_by_the_unique_beginning_of_its_id_or_by_its_name() -> None:
    jobs = ((WORDS, "words", common_pb2.RUNNING), (OTHER, "other", common_pb2.RUNNING))
    assert find("ab", *jobs) == WORDS
    assert find("other", *jobs) == OTHER


def test_a_name_takes_precedence_over_the_beginning_of_an_id() -> None:
    assert find("ab", (WORDS, "x", common_pb2.RUNNING), (OTHER, "ab", common_pb2.RUNNING)) == OTHER


def test_the_running_job_is_chosen_among_jobs_of_one_name() -> None:
    assert find("w", (WORDS, "w", common_pb2.FINISHED), (OTHER, "w", common_pb2.RUNNING)) == OTHER


@pytest.mark.parametrize("status", [common_pb2.RUNNING, common_pb2.FINISHED])
def test_an_ambiguous_argument_is_refused_with_the_ids_it_matches(status: int) -> None:
    with pytest.raises(UserError, match="several jobs") as caught:
        find("a", (WORDS, "x", status), (OTHER, "y", status))
    assert WORDS in str(caught.value) and OTHER in str(caught.value)


@pytest.mark.parametrize("text", ["nosuch", "", "ff"])
def test_an_unknown_job_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(JobNotFoundError, match=f"`{text}`"):
        find(text, (WORDS, "words", common_pb2.RUNNING))
