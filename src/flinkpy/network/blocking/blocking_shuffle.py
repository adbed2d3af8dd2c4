"""BlockingShuffle: the blocking partitions of one TaskExecutor process: their memory, files and readers.

Source: org.apache.flink.runtime.io.network.partition.ResultPartitionFactory.
Differs: a partition gets fewer buffers than `taskmanager.network.sort-shuffle.min-buffers` where there are not as many,
instead of failing its task: its regions are smaller then.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from flinkpy.network.blocking.read_scheduler import SortMergeReadScheduler
from flinkpy.network.blocking.sort_merge_result_partition import SortMergeResultPartition
from flinkpy.network.buffer_pool import NetworkBufferPool
from flinkpy.network.options import BlockingShuffleOptions
from flinkpy.network.result_partition import ResultPartition

#: A partition's pool gets at most so many times the buffers that it asks for: beyond, regions only fall out of the
#: caches.
_MAX_POOL_FACTOR = 2
#: Threads that encode regions: more would only compete with tasks.
_MAX_ENCODERS = 4
_UNSAFE = re.compile(r"[^A-Za-z0-9_.@#-]")
#: A file's name has at most 255 bytes.
_NAME_LENGTH = 160


class BlockingShuffle:
    """Thread: any.

    Args:
        directories: take the files by turns; a temporary one is made where none is given.
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
        #: Shared by all tasks; its threads start with the first use.
        self._encoders = ThreadPoolExecutor(cores, thread_name_prefix="blocking-shuffle-encode") if cores > 1 else None

    def create_partition(
        self,
        partition_id: str,
        num_subpartitions: int,
        owner: str,
        on_released: Callable[[ResultPartition], None],
    ) -> SortMergeResultPartition:
        """Raises: InsufficientNetworkBuffersError, PartitionWriteError."""
        pool_of_process = self._buffer_pool
        wanted = self.options.min_buffers
        # A quarter of what nobody is sure of yet at most: the gates and partitions that come next need some, too.
        # It works with one: a batch that is larger is written at once.
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
                parallel_map=map if self._encoders is None else self._encoders.map,
                owner=owner,
                on_released=on_released,
            )
        except Exception:
            pool.destroy()
            raise

    def close(self) -> None:
        """After all partitions were released. Idempotent."""
        self.scheduler.close()
        if self._encoders is not None:
            self._encoders.shutdown()
        with self._lock:
            temporary, self._temporary = self._temporary, None
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)

    def _directory(self, number: int) -> Path:
        if self._directories:
            return self._directories[number % len(self._directories)]
        with self._lock:
            if self._temporary is None:
                self._temporary = Path(tempfile.mkdtemp(prefix="flinkpy-blocking-shuffle-"))
            return self._temporary
