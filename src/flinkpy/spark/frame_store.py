"""FrameStore: keeps frames that several jobs of a region read, so that all of them read the same records.

A Python function may give other records when Spark runs it again. If each reader computed the frame for itself, or if
Spark computed a part of it again for one of them, they could see different records. What is kept where depends on the
Spark:

| | the records are | if an executor is lost |
|---|---|---|
| a master on this host | in the driver, which is the only executor | the driver is lost too |
| `spark.checkpoint.dir` or a staging directory | files there | nothing has to be computed again |
| otherwise | on two executors each | the other copy is read |

Without a directory, Spark computes records again if both copies are lost. The region then only goes on if the records
are the same as before. Otherwise it fails with the option to set, and runs again as its restart strategy says.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from flinkpy.common.errors import SparkError
from flinkpy.configuration.spark_options import CONF_PREFIX, STAGING_DIR

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_LOG = logging.getLogger(__name__)

#: Spark's option for a directory that all executors reach.
CHECKPOINT_DIR = "spark.checkpoint.dir"
#: A SparkContext has one directory for checkpoints. Regions with other directories wait for each other.
_DIRECTORY_LOCK = threading.Lock()


class FrameStore(Protocol):
    """Keeps the frames of one attempt of a region. Thread: one at a time."""

    def keep(self, frame: DataFrame, name: str) -> DataFrame:
        """Computes a frame and returns a frame of the kept records, in the same partitions.

        Args:
            name: the operators that make it, for messages.
        """
        ...

    def check(self) -> None:
        """Checks that all readers have seen the same records.

        Raises:
            SparkError: they may have seen different ones. The region has to run again.
        """
        ...

    def close(self) -> None:
        """Removes all that is kept."""
        ...


class DriverStore:
    """Keeps frames in a driver that is the only executor."""

    def keep(self, frame: DataFrame, name: str) -> DataFrame:
        return frame.localCheckpoint()

    def check(self) -> None:
        return

    def close(self) -> None:
        return


class FileStore:
    """Keeps frames in files that all executors reach.

    Args:
        directory: the URI of a directory that is removed with the attempt; None for the one of `spark.checkpoint.dir`.
    """

    def __init__(self, session: SparkSession, directory: str | None) -> None:
        self._session = session
        self._directory = directory
        #: The files in the directory of `spark.checkpoint.dir`, as paths of Hadoop.
        self._files: list[Any] = []

    def keep(self, frame: DataFrame, name: str) -> DataFrame:
        if self._directory is None:
            kept = frame.checkpoint()
            if hasattr(kept, "_jdf"):
                self._files.append(_rdd_of(kept).getCheckpointFile().get())
            return kept
        with _DIRECTORY_LOCK:
            self._session.sparkContext.setCheckpointDir(f"{self._directory}/kept")
            kept = frame.checkpoint(eager=False)
        # The files already have their directory, so other regions may set theirs while this one is written.
        _rdd_of(kept).doCheckpoint()
        return kept

    def check(self) -> None:
        return

    def close(self) -> None:
        if not self._files:
            return
        context = self._session.sparkContext
        files, self._files = self._files, []
        try:
            for file in files:
                path = context._jvm.org.apache.hadoop.fs.Path(file)  # type: ignore[union-attr]
                path.getFileSystem(context._jsc.hadoopConfiguration()).delete(path, True)  # type: ignore[attr-defined]
        except Exception as error:  # noqa: BLE001 - the result does not depend on it
            from flinkpy.spark.errors import cause_of

            _LOG.warning("files in %s could not be removed: %s", CHECKPOINT_DIR, cause_of(str(error)))


@dataclass(frozen=True, slots=True)
class _Kept:
    """A frame on two executors, and a digest of its records."""

    name: str
    frame: DataFrame
    digest: tuple[Any, ...]


class ReplicaStore:
    """Keeps each partition on two executors, and checks that records which Spark computes again are the same."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._kept: list[_Kept] = []
        self._executors = _executors(session)

    def keep(self, frame: DataFrame, name: str) -> DataFrame:
        from pyspark import StorageLevel

        frame = frame.persist(StorageLevel.MEMORY_AND_DISK_2)
        if not self._kept:
            self._executors = _executors(self._session)
        self._kept.append(_Kept(name, frame, _digest(frame)))
        return frame

    def check(self) -> None:
        if not self._kept:
            return
        now = _executors(self._session)
        if self._executors is not None and now is not None and self._executors <= now:
            return
        for kept in self._kept:
            if _digest(kept.frame) != kept.digest:
                raise SparkError(
                    f"executors were lost with records of {kept.name}, and Spark's second computation of them gave "
                    "other records, so that its consumers may have read different ones. To keep such records, set "
                    f"{STAGING_DIR.key} or {CONF_PREFIX}{CHECKPOINT_DIR} to a directory that all executors reach"
                )

    def close(self) -> None:
        kept, self._kept = self._kept, []
        for one in kept:
            one.frame.unpersist()


def frame_store(session: SparkSession, is_local: bool, directory: str | None) -> FrameStore:
    """Returns the store for a region.

    Args:
        is_local: True if the driver is the only executor.
        directory: the URI of a directory of the attempt that all executors reach; None if there is none.
    """
    if is_local:
        return DriverStore()
    if session.conf.get(CHECKPOINT_DIR, None):
        return FileStore(session, None)
    if directory is not None and _context(session) is not None:
        return FileStore(session, directory)
    return ReplicaStore(session)


def _context(session: SparkSession) -> Any:
    """Returns the SparkContext of a driver of our own; None with Spark Connect."""
    return getattr(session, "_sc", None)


def _rdd_of(frame: DataFrame) -> Any:
    """Returns the RDD of a frame that `checkpoint` has made."""
    return frame._jdf.queryExecution().logical().rdd()  # type: ignore[operator]


def _executors(session: SparkSession) -> frozenset[str] | None:
    """Returns the addresses of the executors; None if they are not known, as with Spark Connect."""
    context = _context(session)
    if context is None:
        return None
    known = context._jsc.sc().getExecutorMemoryStatus().keySet().mkString(" ")
    return frozenset(known.split())


def _digest(frame: DataFrame) -> tuple[Any, ...]:
    """Returns a digest of all rows, which does not depend on their order."""
    from pyspark.sql import functions as F

    hashed = F.xxhash64(*[_hashable(frame, name) for name in frame.columns])
    (row,) = frame.agg(
        F.count(F.lit(1)), F.bit_xor(hashed), F.sum(hashed.cast("decimal(20,0)")), F.max(hashed)
    ).collect()
    return tuple(row)


def _hashable(frame: DataFrame, name: str) -> Column:
    """Returns a column that Spark can hash. It refuses maps."""
    from pyspark.sql import functions as F

    column = frame[f"`{name}`"]
    return F.to_json(F.struct(column)) if "map<" in frame.schema[name].dataType.simpleString() else column
