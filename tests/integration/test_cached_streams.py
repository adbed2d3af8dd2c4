"""Cached streams on a real cluster are computed once and read by later jobs, despite failures in between."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster, running_cluster
from job_support import FIXED_DELAY, environment

from flinkpy.common import Types
from flinkpy.common.errors import JobExecutionError
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.data_stream import CachedDataStream
from flinkpy.datastream.functions import MapFunction, RuntimeContext


class Work(MapFunction):
    """Creates a mark for each record that it computes, and fails once at `fails_at`."""

    def __init__(self, marks: Path, fails_at: int | None = None) -> None:
        self.marks = marks
        self.fails_at = fails_at

    def open(self, runtime_context: RuntimeContext) -> None:
        self.attempt = runtime_context.get_attempt_number()

    def map(self, value: int) -> Any:
        if value == self.fails_at and self.attempt == 0:
            raise RuntimeError("the first attempt fails")
        with self.marks.open("a") as marks:
            marks.write("x")
        return value * 2


def collected(stream: Any) -> list[Any]:
    with stream.execute_and_collect() as results:
        return sorted(results)


def made(env: StreamExecutionEnvironment, work: Work, typed: bool = True) -> CachedDataStream:
    return env.from_sequence(1, 100).map(work, Types.LONG() if typed else None).cache()


DOUBLES = [2 * value for value in range(1, 101)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), slots=2) as running:
        yield running


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    return tmp_path / "marks"


@pytest.mark.parametrize(("typed", "mode"), [(True, "STREAMING"), (False, "STREAMING"), (True, "BATCH")])
def test_later_jobs_read_the_results_of_the_first(
    cluster: RunningCluster, marks: Path, tmp_path: Path, typed: bool, mode: str
) -> None:
    properties = {"execution.cached-stream.dir": str(tmp_path / "cached"), "execution.runtime-mode": mode}
    env = environment(cluster, **properties)
    stream = made(env, Work(marks), typed)
    assert collected(stream.map(lambda value: value + 1)) == [value + 1 for value in DOUBLES]
    assert marks.stat().st_size == 100
    assert collected(stream) == DOUBLES
    counts = stream.key_by(lambda value: value % 3).map(lambda value: value % 3)
    assert Counter(collected(counts)) == Counter(value % 3 for value in DOUBLES)
    assert marks.stat().st_size == 100
    stream.invalidate()
    assert list((tmp_path / "cached").iterdir()) == []
    assert collected(stream) == DOUBLES
    assert marks.stat().st_size == 200
    env.close()
    assert list((tmp_path / "cached").iterdir()) == []


@pytest.mark.parametrize("checkpoints", [False, True])
def test_a_job_that_fails_once_writes_every_record_once(
    cluster: RunningCluster, marks: Path, tmp_path: Path, checkpoints: bool
) -> None:
    properties = {**FIXED_DELAY, "execution.cached-stream.dir": str(tmp_path / "cached")}
    if checkpoints:
        properties["execution.checkpointing.interval"] = "20 ms"
    env = environment(cluster, **properties)
    stream = made(env, Work(marks, fails_at=99))
    if checkpoints:
        assert collected(stream) == DOUBLES
    else:  # results collected before the failure would be an error
        stream.filter(lambda value: False).print()
        env.execute()
    computed = marks.stat().st_size
    assert computed >= 100
    assert collected(stream) == DOUBLES
    assert marks.stat().st_size == computed


def test_results_of_a_failed_job_are_not_used(cluster: RunningCluster, marks: Path, tmp_path: Path) -> None:
    env = environment(cluster, **{"execution.cached-stream.dir": str(tmp_path / "cached")})
    stream = made(env, Work(marks, fails_at=50))
    with pytest.raises(JobExecutionError, match="the first attempt fails"):
        collected(stream)
    healthy = made(env, Work(marks))
    healthy.filter(lambda value: False).print()
    env.execute()
    before = marks.stat().st_size
    assert collected(healthy) == DOUBLES
    assert marks.stat().st_size == before


def test_missing_cached_records_are_an_error(cluster: RunningCluster, marks: Path, tmp_path: Path) -> None:
    env = environment(cluster, **{"execution.cached-stream.dir": str(tmp_path / "cached")})
    stream = made(env, Work(marks))
    assert collected(stream) == DOUBLES
    for end in (tmp_path / "cached").glob("*/end-0"):
        os.unlink(end)
    with pytest.raises(JobExecutionError, match=r"call invalidate\(\)"):
        collected(stream)
    # A program that waits for its job does not notice the loss, because the stream is computed again.
    before = marks.stat().st_size
    stream.filter(lambda value: False).print()
    env.execute()
    assert marks.stat().st_size == before + 100
    assert collected(stream) == DOUBLES
    assert marks.stat().st_size == before + 100
