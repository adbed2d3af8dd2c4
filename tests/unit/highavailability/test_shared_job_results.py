"""Results of jobs in a directory that several Dispatchers share, with a leadership that ends at a chosen check."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from flinkpy._proto import dispatcher_pb2
from flinkpy.common.errors import LeadershipLostError
from flinkpy.common.ids import JobID
from flinkpy.highavailability.zookeeper.fenced_writes import FencedWrites
from flinkpy.highavailability.zookeeper.job_result_store import SharedJobResultStore

JOB = JobID("ab" * 16)


class Checks:
    """A fake of FencedWrites: the leadership ends before the check with the given number."""

    def __init__(self, ends_at: int = 1000) -> None:
        self._left = ends_at

    def check(self, what: str) -> None:
        self._left -= 1
        if self._left < 0:
            raise LeadershipLostError(what)


def store(directory: Path, ends_at: int = 1000) -> SharedJobResultStore:
    return SharedJobResultStore(directory, cast(FencedWrites, Checks(ends_at)))


def result(error: str = "") -> dispatcher_pb2.JobTerminated:
    terminated = dispatcher_pb2.JobTerminated(job_id=str(JOB))
    terminated.details.name = error
    return terminated


@pytest.mark.parametrize("ends_at", [1, 2])
def test_a_leader_whose_term_ends_before_or_after_its_write_leaves_no_result(tmp_path: Path, ends_at: int) -> None:
    with pytest.raises(LeadershipLostError):
        store(tmp_path, ends_at).create_dirty(result("of a former leader"))
    assert list(tmp_path.iterdir()) == []


def test_the_first_result_stays_dirty_or_clean(tmp_path: Path) -> None:
    results = store(tmp_path)
    results.create_dirty(result("first"))
    results.create_dirty(result("second"))
    results.mark_clean(JOB)
    results.create_dirty(result("third"))
    assert results.dirty_job_ids() == [] and results.clean_job_ids() == [JOB]
    found = results.load(JOB)
    assert found is not None and found.details.name == "first"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_store_of_a_former_leader_removes_nothing(tmp_path: Path) -> None:
    unfinished = tmp_path / "x.unfinished"
    unfinished.touch()
    with pytest.raises(LeadershipLostError):
        store(tmp_path, 0)
    assert unfinished.exists()
    store(tmp_path)
    assert not unfinished.exists()
