"""CachedDataStream: a stream that one job computes and later jobs read.

Source: pyflink.datastream.CachedDataStream, org.apache.flink.streaming.api.transformations.CacheTransformation.
Differs: it works in STREAMING mode too, if all sources are bounded.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import (
    ClusterDatasetCorruptedError,
    JobExecutionError,
    UnsupportedOperationError,
    chain_of_causes,
)
from flinkpy.common.private_directory import PrivateDirectory
from flinkpy.common.process import ProcessIdentity
from flinkpy.configuration import execution_options, read_option
from flinkpy.datastream.base_stream import DataStream
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.transformation import OperatorTransformation, Transformation, UnionTransformation

if TYPE_CHECKING:
    from concurrent.futures import Future

    from flinkpy.datastream.slot_sharing_group import SlotSharingGroup
    from flinkpy.datastream.stream_execution_environment import StreamExecutionEnvironment

__all__ = ["CachedDataStream"]


class CacheTransformation(UnionTransformation):
    """Stands for the stream itself until a job has written its records, and then for a source that reads them."""

    def __init__(self, stream: Transformation) -> None:
        super().__init__((stream,))
        self.stream = stream
        self.dataset_id = uuid.uuid4().hex
        self.directory = ""
        self.num_writers = 0
        #: The result of the job that writes the records: True once it has finished, False if it ended in another way,
        #: None while it runs. The attribute is None if no job writes them.
        self.writing: Callable[[], bool | None] | None = None
        self.is_complete = False


class CachedDataStream(DataStream):
    """A stream whose records are cached on the cluster. `DataStream.cache` creates it.

    The first job that uses the stream computes its records and writes them. Later jobs of the same environment read
    them. A job that starts while the first one still runs computes them too. `execute()` computes them again if the
    written records have disappeared.
    """

    def invalidate(self) -> None:
        """Deletes the cached records. The next job that uses the stream computes them again."""
        self._environment.invalidate_cluster_dataset(self.dataset_id)

    @property
    def dataset_id(self) -> str:
        """The id of the cached records, for `invalidate_cluster_dataset`. Beyond PyFlink."""
        assert isinstance(self._transformation, CacheTransformation)
        return self._transformation.dataset_id

    def set_parallelism(self, parallelism: int) -> NoReturn:
        raise UnsupportedOperationError("Set parallelism for CachedDataStream is not supported.")

    def name(self, name: str) -> NoReturn:
        raise UnsupportedOperationError("Set name for CachedDataStream is not supported.")

    def get_name(self) -> NoReturn:
        raise UnsupportedOperationError("Get name of CachedDataStream is not supported.")

    def uid(self, uid: str) -> NoReturn:
        raise UnsupportedOperationError("Set uid for CachedDataStream is not supported.")

    def set_uid_hash(self, uid_hash: str) -> NoReturn:
        raise UnsupportedOperationError("Set uid hash for CachedDataStream is not supported.")

    def set_max_parallelism(self, max_parallelism: int) -> NoReturn:
        raise UnsupportedOperationError("Set max parallelism for CachedDataStream is not supported.")

    def force_non_parallel(self) -> NoReturn:
        raise UnsupportedOperationError("Set force non-parallel for CachedDataStream is not supported.")

    def set_buffer_timeout(self, timeout_millis: int) -> NoReturn:
        raise UnsupportedOperationError("Set buffer timeout for CachedDataStream is not supported.")

    def start_new_chain(self) -> NoReturn:
        raise UnsupportedOperationError("Start new chain for CachedDataStream is not supported.")

    def disable_chaining(self) -> NoReturn:
        raise UnsupportedOperationError("Disable chaining for CachedDataStream is not supported.")

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> NoReturn:
        raise UnsupportedOperationError("Setting slot sharing group for CachedDataStream is not supported.")


class ClusterDatasets:
    """The cached streams of one environment, and the directories of their records."""

    def __init__(self) -> None:
        self._caches: dict[str, CacheTransformation] = {}
        #: The streams that the latest job graph writes, until its job is submitted.
        self._planned: list[CacheTransformation] = []
        #: The directories on disk. They are deleted with the environment, or when the program exits.
        self._directories: set[str] = set()
        weakref.finalize(self, _remove, self._directories)

    def cached(self, stream: DataStream, environment: StreamExecutionEnvironment) -> CachedDataStream:
        """Returns the cached form of a stream."""
        cache = CacheTransformation(stream.transformation)
        self._caches[cache.dataset_id] = cache
        return CachedDataStream(cache, environment)

    def plan(
        self, operators: Iterable[OperatorTransformation], configuration: Configuration, parallelism: int
    ) -> list[OperatorTransformation]:
        """Decides for each cached stream that these operators use whether the job reads or writes its records.

        Returns:
            the operators, and the sinks that write cached records.

        Raises: UnsupportedOperationError if a cached stream is not bounded.
        """
        program = list(operators)
        self._planned = []
        seen: set[int] = set()
        waiting: list[Transformation] = list(program)
        while waiting:
            current = waiting.pop()
            if current.id in seen:
                continue
            seen.add(current.id)
            if isinstance(current, CacheTransformation):
                self._look_at(current)
                if current.writing is None and not current.is_complete:
                    program.append(self._writer(current, configuration, parallelism))
                    self._planned.append(current)
            waiting.extend(current.inputs)
        return program

    def submitted(self, has_finished: Callable[[], bool | None]) -> None:
        """Records that the job of the latest plan was submitted.

        Args:
            has_finished: returns True if the job has finished, False if it ended in another way, None while it runs.
        """
        for cache in self._planned:
            cache.writing = has_finished
        self._planned = []

    def invalidate(self, dataset_id: str) -> None:
        """Deletes the records of a cached stream. It has no effect for an unknown id, or one of another environment."""
        cache = self._caches.pop(dataset_id, None)
        if cache is None:
            return
        self._reset(cache)
        cache.dataset_id = uuid.uuid4().hex
        self._caches[cache.dataset_id] = cache

    def forget_corrupted(self, error: BaseException) -> bool:
        """Returns True if a job failed because cached records are gone. The next job computes them again."""
        cause = error.cause if isinstance(error, JobExecutionError) else error
        corruptions = (link for link in chain_of_causes(cause) if isinstance(link, ClusterDatasetCorruptedError))
        corruption = next(corruptions, None)
        directory = "" if corruption is None else corruption.details.get("directory", "")
        corrupted = [cache for cache in self._caches.values() if directory and cache.directory == directory]
        for cache in corrupted:
            self._reset(cache)
        return bool(corrupted)

    def close(self) -> None:
        """Deletes all cached records."""
        for cache in self._caches.values():
            self._reset(cache)

    def _reset(self, cache: CacheTransformation) -> None:
        cache.writing, cache.is_complete, cache.inputs = None, False, (cache.stream,)
        if cache.directory:
            shutil.rmtree(cache.directory, ignore_errors=True)
            self._directories.discard(cache.directory)
            cache.directory = ""

    def _look_at(self, cache: CacheTransformation) -> None:
        has_finished = None if cache.writing is None else cache.writing()
        if has_finished:
            from flinkpy.connectors.cluster_dataset import ClusterDatasetSource

            source = ClusterDatasetSource(cache.directory, cache.num_writers, cache.output_type)
            reading = OperatorTransformation(
                "Cached Stream", specs.SourceSpec(source, None, output_type=cache.output_type), ()
            )
            reading.parallelism = cache.num_writers
            reading.set_uid(f"flinkpy-cached-stream-{cache.dataset_id}")
            cache.writing, cache.is_complete, cache.inputs = None, True, (reading,)
        elif has_finished is False:
            self._reset(cache)

    def _writer(
        self, cache: CacheTransformation, configuration: Configuration, parallelism: int
    ) -> OperatorTransformation:
        from flinkpy.connectors.cluster_dataset import ClusterDatasetSink

        _check_bounded(cache.stream)
        root = read_option(configuration, execution_options.CACHED_STREAM_DIR)
        cache.directory = os.path.join(root or _own_root(), f"{cache.dataset_id}-{uuid.uuid4().hex[:8]}")
        self._directories.add(cache.directory)
        producer = cache.stream
        cache.num_writers = (
            producer.parallelism if isinstance(producer, OperatorTransformation) else None
        ) or parallelism
        sink = ClusterDatasetSink(cache.directory)
        spec = specs.SinkSpec(sink, input_types=(cache.output_type,), output_type=None)
        writer = OperatorTransformation("Cached Stream: Writer", spec, (cache.stream,))
        writer.parallelism = cache.num_writers
        writer.set_uid(f"flinkpy-cached-stream-{cache.dataset_id}")
        return writer


def _check_bounded(stream: Transformation) -> None:
    waiting: list[Transformation] = [stream]
    seen: set[int] = set()
    while waiting:
        current = waiting.pop()
        if current.id not in seen:
            seen.add(current.id)
            if isinstance(current, OperatorTransformation) and current.is_source and not current.is_bounded:
                raise UnsupportedOperationError(
                    f"cache: the source '{current.name}' is unbounded; only bounded streams can be cached"
                )
            waiting.extend(current.inputs)


def has_finished(end: Future[Any]) -> Callable[[], bool | None]:
    """Returns the argument of `ClusterDatasets.submitted` for the future of a JobResult."""

    def answer() -> bool | None:
        from flinkpy.common.states import JobState

        if not end.done():
            return None
        return end.exception() is None and JobState(end.result().status) is JobState.FINISHED

    return answer


def _own_root() -> str:
    """Returns the name of this process's directory in the temporary directory. Removes those of ended processes.

    Raises: PrivateDirectoryError if another user owns the parent directory.
    """
    process = ProcessIdentity.of(os.getpid())
    assert process is not None
    from flinkpy.connectors.cluster_dataset import OWN_ROOT_PREFIX

    with PrivateDirectory.make(Path(tempfile.gettempdir()), f"{OWN_ROOT_PREFIX}{os.getuid()}") as base:
        for name in base.names():
            pid, _, start_ticks = name.partition("-")
            if pid.isdigit() and start_ticks.isdigit() and not ProcessIdentity(int(pid), int(start_ticks)).is_alive:
                base.remove(name)
        return str(base.path / f"{process.pid}-{process.start_ticks}")


def _remove(directories: set[str]) -> None:
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
