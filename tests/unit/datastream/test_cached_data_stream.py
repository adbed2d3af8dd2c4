"""CachedDataStream: when a program computes, stores or reads it."""

from __future__ import annotations

import gc
import os
import tempfile
from pathlib import Path

import pytest

from flinkpy.common import Configuration, Types, WatermarkStrategy
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.connector_api.source import Boundedness
from flinkpy.connectors.number_sequence import NumberSequenceSource
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.data_stream import CachedDataStream


@pytest.fixture
def env(tmp_path: Path) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment(Configuration.from_dict({"execution.cached-stream.dir": str(tmp_path)}))
    env.set_parallelism(2)
    return env


def cached(env: StreamExecutionEnvironment) -> CachedDataStream:
    return env.from_sequence(1, 10).map(lambda value: value, Types.LONG()).name("work").cache()


def planned(env: StreamExecutionEnvironment) -> list[str]:
    """Returns the operators of the next job, and lets it count as submitted."""
    graph = env.generate_job_graph()
    return sorted(operator.name for vertex in graph.vertices for operator in vertex.chain)


def has(names: list[str], *parts: str) -> bool:
    return len(names) == len(parts) and all(any(part in name for name in names) for part in parts)


def test_the_first_job_writes_and_later_ones_read(env: StreamExecutionEnvironment) -> None:
    stream = cached(env)
    stream.print()
    assert has(planned(env), "Writer", "Print", "Sequence Source", "work")
    env.cluster_datasets.submitted(lambda: True)
    for _ in range(2):
        stream.print()
        assert has(planned(env), "Cached Stream", "Print")


def test_a_job_that_runs_beside_the_writing_job_computes_the_stream_itself(env: StreamExecutionEnvironment) -> None:
    stream = cached(env)
    stream.print()
    planned(env)
    state: list[bool | None] = [None]
    env.cluster_datasets.submitted(lambda: state[0])
    stream.print()
    assert has(planned(env), "Print", "Sequence Source", "work")
    state[0] = True
    stream.print()
    assert has(planned(env), "Cached Stream", "Print")


def test_the_next_job_writes_the_cache_after_a_failed_one(env: StreamExecutionEnvironment) -> None:
    stream = cached(env)
    for _ in range(2):
        stream.print()
        assert has(planned(env), "Writer", "Print", "Sequence Source", "work")
        env.cluster_datasets.submitted(lambda: False)


def test_requesting_the_plan_changes_nothing(env: StreamExecutionEnvironment) -> None:
    stream = cached(env)
    stream.print()
    for _ in range(2):
        assert "Writer" in env.get_execution_plan()
    assert has(planned(env), "Writer", "Print", "Sequence Source", "work")


def test_unused_cached_stream_is_not_written(env: StreamExecutionEnvironment) -> None:
    cached(env)
    env.from_sequence(1, 2).print()
    assert not any("Writer" in name for name in planned(env))


@pytest.mark.parametrize("by", ["stream", "environment", "close"])
def test_an_invalidated_stream_is_computed_again(env: StreamExecutionEnvironment, tmp_path: Path, by: str) -> None:
    stream = cached(env)
    stream.print()
    planned(env)
    env.cluster_datasets.submitted(lambda: True)
    stream.print()
    planned(env)
    (directory,) = env.cluster_datasets._directories
    os.makedirs(directory)
    if by == "stream":
        stream.invalidate()
        stream.invalidate()
    elif by == "environment":
        env.invalidate_cluster_dataset(stream.dataset_id)
        env.invalidate_cluster_dataset("of nobody")
    else:
        env.close()
    assert list(tmp_path.iterdir()) == []
    stream.print()
    assert has(planned(env), "Writer", "Print", "Sequence Source", "work")


def test_cached_records_are_deleted_with_the_environment(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment(Configuration.from_dict({"execution.cached-stream.dir": str(tmp_path)}))
    cached(env).print()
    planned(env)
    (directory,) = env.cluster_datasets._directories
    os.makedirs(directory)
    del env
    gc.collect()
    assert list(tmp_path.iterdir()) == []


class Endless(NumberSequenceSource):
    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED


def test_an_unbounded_stream_cannot_be_cached(env: StreamExecutionEnvironment) -> None:
    stream = env.from_source(Endless(1, 2), WatermarkStrategy.no_watermarks(), "endless")
    stream.cache().print()
    with pytest.raises(UnsupportedOperationError, match="the source 'endless' is unbounded"):
        env.generate_job_graph()


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("set_parallelism", (1,), "Set parallelism for CachedDataStream is not supported."),
        ("name", ("x",), "Set name for CachedDataStream is not supported."),
        ("get_name", (), "Get name of CachedDataStream is not supported."),
        ("uid", ("x",), "Set uid for CachedDataStream is not supported."),
        ("set_uid_hash", ("x",), "Set uid hash for CachedDataStream is not supported."),
        ("set_max_parallelism", (1,), "Set max parallelism for CachedDataStream is not supported."),
        ("force_non_parallel", (), "Set force non-parallel for CachedDataStream is not supported."),
        ("set_buffer_timeout", (1,), "Set buffer timeout for CachedDataStream is not supported."),
        ("start_new_chain", (), "Start new chain for CachedDataStream is not supported."),
        ("disable_chaining", (), "Disable chaining for CachedDataStream is not supported."),
        ("slot_sharing_group", ("x",), "Setting slot sharing group for CachedDataStream is not supported."),
    ],
)
def test_settings_of_a_cached_stream_are_refused(
    env: StreamExecutionEnvironment, method: str, arguments: tuple[object, ...], message: str
) -> None:
    with pytest.raises(Exception, match=message.replace(".", r"\.")):
        getattr(cached(env), method)(*arguments)


def test_directory_of_a_killed_program_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    base = tmp_path / f"flinkpy-cached-streams-{os.getuid()}"
    killed = base / f"{os.getpid()}-1"  # another process has this number now
    killed.mkdir(parents=True)
    env = StreamExecutionEnvironment(Configuration())
    cached(env).print()
    planned(env)
    (directory,) = env.cluster_datasets._directories
    assert Path(directory).parent.parent == base
    assert not killed.exists()
