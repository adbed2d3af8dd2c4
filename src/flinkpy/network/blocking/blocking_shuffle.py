"""BlockingShuffle: the blocking partitions of one TaskExecutor process, with their memory, files and readers.

Source: org.apache.flink.runtime.io.network.partition.ResultPartitionFactory.
Differs: if fewer buffers than `taskmanager.network.sort-shuffle.min-buffers` are available, the partition uses those
and writes smaller regions, instead of failing its task.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from flinkpy.common.job_modules import in_current_modules
from flinkpy.logs.context import in_current_context
from flinkpy.network.blocking.read_scheduler import SortMergeReadScheduler
from flinkpy.network.blocking.sort_merge_result_partition import SortMergeResultPartition
from flinkpy.network.buffer_pool import NetworkBufferPool
from flinkpy.network.options import BlockingShuffleOptions
from flinkpy.network.result_partition import ResultPartition

#: The maximum size of a partition's pool as a multiple of the buffers that it asks for: larger regions only fall out of
#: the CPU caches.
_MAX_POOL_FACTOR = 2
#: The maximum number of threads that encode regions: more would only compete with tasks.
_MAX_ENCODERS = 4
_UNSAFE = re.compile(r"[^A-Za-z0-9_.@#-]")
#: The part of a file name taken from the partition id. A file name has at most 255 bytes.
_NAME_LENGTH = 160


class BlockingShuffle:
    """Creates blocking partitions. Thread: any.

    Args:
        directories: the directories for the files, used in turn; by default a temporary one is created.
    """

    def __init__(
        self, options: BlockingShuffleOptions, buffer_pool: NetworkBufferPool, directories: Sequence[Path] = ()
    ) -> None:
        self.options = options
        self.scheduler = SortMergeReadScheduler(options.read_memory_bytes, buffer_pool.segment_size_bytes)
        self._buffer_pool = buffer_pool
        self._directories = list(directories)
        self._temporary: Path | None = None
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        cores = min(_MAX_ENCODERS, len(os.sched_getaffinity(0)))
        #: Shared by all tasks. Its threads start with the first use.
        self._encoders = ThreadPoolExecutor(cores, thread_name_prefix="blocking-shuffle-encode") if cores > 1 else None

    def create_partition(
        self,
        partition_id: str,
        num_subpartitions: int,
        owner: str,
        on_released: Callable[[ResultPartition], None],
    ) -> SortMergeResultPartition:
        """Creates a partition. Raises: InsufficientNetworkBuffersError, PartitionWriteError."""
        pool_of_process = self._buffer_pool
        wanted = self.options.min_buffers
        # It takes at most a quarter of the segments that are not required yet: later gates and partitions need some
        # too. One segment is enough: a larger batch is written immediately.
        free = pool_of_process.total - pool_of_process.required
        required = max(1, min(wanted, free // 4))
        pool = pool_of_process.create_local_pool(
            f"blocking partition {partition_id}", required, wanted * _MAX_POOL_FACTOR
        )
        number = next(self._numbers)
        try:
            directory = self._directory(number)
            return SortMergeResultPartition(
                partition_id,
                num_subpartitions,
                pool,
                pool_of_process.segment_size_bytes,
                path=directory / f"{_UNSAFE.sub('_', partition_id)[:_NAME_LENGTH]}-{number}",
                scheduler=self.scheduler,
                compression=self.options.compression,
                parallel_map=map if self._encoders is None else self._map,
                owner=owner,
                on_released=on_released,
            )
        except Exception:
            pool.destroy()
            raise

    def close(self) -> None:
        """Ends the threads and removes the temporary directory. All partitions must be released. Idempotent."""
        self.scheduler.close()
        if self._encoders is not None:
            self._encoders.shutdown()
        with self._lock:
            temporary, self._temporary = self._temporary, None
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)

    def _map(self, call: Callable[..., Any], *values: Iterable[Any]) -> Iterator[Any]:
        assert self._encoders is not None
        return self._encoders.map(in_current_context(in_current_modules(call)), *values)

    def _directory(self, number: int) -> Path:
        if self._directories:
            return self._directories[number % len(self._directories)]
        with self._lock:
            if self._temporary is None:
                self._temporary = Path(tempfile.mkdtemp(prefix="flinkpy-blocking-shuffle-"))
            return self._temporary
