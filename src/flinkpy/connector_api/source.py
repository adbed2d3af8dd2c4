"""The unified source: an enumerator in the JobMaster assigns splits to readers in the tasks.

A checkpoint of a source has two parts. The enumerator stores the splits that it has not assigned
(`SplitEnumerator.snapshot_state`). The readers store their unfinished splits, each with the position after the last
emitted record (`SourceReader.snapshot_state`). Every unfinished split is in exactly one of the two parts.

Watermarks per split. A reader may read several splits side by side, for example partitions of a topic, and name the
split of each batch. Then every split has its own watermark generator and idleness, and the watermark of the source is
the lowest of its splits. So records of a slow split are not late because another split is ahead. Such a reader

* has `names_splits = True`. Its splits have a `split_id: str` that is unique in the source. Splits without an id count
  together as one split;
* sets `current_split_id` before `poll_batch` returns a batch. All records of the batch are from that split;
* calls `context.split_finished(split_id)` when a split has no more records, at the latest before it requests the next
  split. The batches that were returned before, and the batch of the current `poll_batch`, still count for the split;
* may implement `pause_or_resume_splits`, with which watermark alignment pauses splits that are ahead of others.

A split holds back the watermark of the source from `add_splits` (also after a restore) until it has records, is idle or
is finished. A reader without `names_splits` counts as one split.

Source: org.apache.flink.api.connector.source (FLIP-27). Differs: readers emit batches, not records. They name the split
of a batch, while Flink's readers have an output per split.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from flinkpy.common.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from flinkpy.connector_api.serializer import SimpleVersionedSerializer
    from flinkpy.records.batch import Batch


class Boundedness(enum.Enum):
    """Tells whether a source ends."""

    BOUNDED = "BOUNDED"
    CONTINUOUS_UNBOUNDED = "CONTINUOUS_UNBOUNDED"


class ReaderStatus(enum.Enum):
    """The result of `SourceReader.poll_batch` if there is no batch."""

    NOTHING_AVAILABLE = "nothing now: poll again when the availability callback has been called"
    END_OF_INPUT = "all splits are finished and no more will come"


class SplitEnumeratorContext(Protocol):
    """The services of the JobMaster for a SplitEnumerator. Thread: JobMaster main thread."""

    @property
    def parallelism(self) -> int:
        """The number of readers."""
        ...

    @property
    def registered_readers(self) -> set[int]:
        """The subtasks whose readers are running now."""
        ...

    def assign_splits(self, assignment: dict[int, list[Any]]) -> None:
        """Assigns splits to subtasks. From now on they belong to the readers, even if these have not registered yet."""
        ...

    def signal_no_more_splits(self, subtask_index: int) -> None:
        """Tells a reader that it will get no more splits."""
        ...

    def send_event_to_reader(self, subtask_index: int, event: Any) -> None:
        """Sends an event to a reader, which gets it as `handle_source_event(event)`."""
        ...

    def call_async(self, call: Any, on_done: Any) -> None:
        """Runs `call()` on an I/O thread, then `on_done(result, error)` on the main thread. One of the two is None."""
        ...

    def schedule(self, delay_ms: int, action: Any) -> None:
        """Runs `action()` on the main thread after a delay."""
        ...

    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        """Sets whether the readers process a backlog of old records, for which throughput matters more than latency.

        Checkpoints are then taken every `execution.checkpointing.interval-during-backlog`. The value is False at first
        and after every reset.
        """
        ...


class SplitEnumerator(ABC):
    """Discovers splits and assigns them to readers.

    Between `start` and `close` the methods may be called in any order. Blocking work needs `context.call_async`.

    Thread: JobMaster main thread.
    """

    @abstractmethod
    def start(self) -> None:
        """Called once, before every other method."""

    @abstractmethod
    def handle_split_request(self, subtask_index: int) -> None:
        """Called when a reader has no splits left. Assign it a split, or signal that there are no more."""

    def add_reader(self, subtask_index: int) -> None:
        """Called when a reader registers, for the first time or again after a failure.

        It may have splits from a checkpoint. It has forgotten the signals from before the failure.
        """
        return

    @abstractmethod
    def add_splits_back(self, splits: list[Any], subtask_index: int) -> None:
        """Takes back splits that a failed reader was assigned after the checkpoint that it restores.

        Assign them again, to any reader.
        """

    def adopt_splits(self, splits: list[Any]) -> bool:
        """Marks splits as assigned that running readers got after the checkpoint from which this enumerator starts.

        The JobMaster was lost, and the readers go on. Called before `start`, with the splits as they were assigned.
        Returns False if this enumerator might assign the same records again. Then the job restores the checkpoint.

        Source: FLIP-537 (SupportsSplitReassignmentOnRecovery) has the same purpose for restored readers.
        """
        return False

    @property
    def num_unassigned_splits(self) -> int | None:
        """The number of splits that are not assigned; None if it is not known or new splits may be found.

        The progress of a job is estimated from it.
        """
        return None

    def snapshot_state(self, checkpoint_id: int) -> Any:
        """Returns the state that `SourceBase.restore_enumerator` needs, without the assigned splits.

        The returned object must not change later: copy mutable parts.
        """
        raise UnsupportedOperationError(f"{type(self).__name__} cannot be checkpointed: it has no snapshot_state")

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Called when a checkpoint completes. Calls may be skipped: each covers all earlier checkpoints."""
        return

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        return

    def handle_source_event(self, subtask_index: int, event: Any) -> None:
        """Handles an event that a reader of this connector sent with `send_source_event`."""
        return

    def close(self) -> None:
        return


class SourceReaderContext(Protocol):
    """The services of a task for a SourceReader. Thread: task thread, unless a method says otherwise."""

    @property
    def subtask_index(self) -> int: ...

    @property
    def parallelism(self) -> int: ...

    @property
    def is_checkpointing_enabled(self) -> bool:
        """True if the job takes periodic checkpoints. Otherwise users may still trigger checkpoints."""
        ...

    @property
    def max_batch_rows(self) -> int:
        """The maximum number of rows of a batch. The value changes, so read it before each batch.

        The excess rows of a longer batch wait in the task. A checkpoint stores them as data together with all splits of
        the reader, and these splits then stay together when the parallelism changes.
        """
        ...

    def send_split_request(self) -> None:
        """Asks the enumerator for a split."""
        ...

    def send_source_event(self, event: Any) -> None:
        """Sends an event to the enumerator of the connector."""
        ...

    def emit_watermark(self, timestamp: int) -> None:
        """Emits a watermark after all polled records and before the batch that the current `poll_batch` returns.

        Call it only within `poll_batch`. Watermarks that are not higher than the last one are dropped.
        """
        ...

    def mark_idle(self) -> None:
        """Excludes this reader from the watermark until `mark_active` or its next watermark. Only in `poll_batch`."""
        ...

    def mark_active(self) -> None: ...

    def split_finished(self, split_id: str) -> None:
        """Marks the end of a split, so that it no longer holds back watermarks.

        No records of the split follow the batch that was returned last, or that the current `poll_batch` returns. Only
        readers with `names_splits` call this.
        """
        ...

    @property
    def metric_group(self) -> Any:
        """The metric group of the operator."""
        ...

    def emit_to_side_output(self, tag_id: str, batch: Batch) -> None:
        """Emits records to a side output. They are dropped if nothing reads the side output.

        Call it only within `poll_batch`: the records belong to the batch that it returns.
        """
        ...

    def monotonic_ns(self) -> int:
        """The time of a clock that never goes back, in nanoseconds."""
        ...

    def schedule(self, delay_ms: int, action: Any) -> None:
        """Calls `action(time in ms)` on the task thread after `delay_ms`, then polls the reader."""
        ...

    def notify_available(self) -> None:
        """Tells the task to call `poll_batch` again. May be called from any thread."""
        ...


class SourceReader(ABC):
    """Reads splits.

    The runtime first calls `add_splits` with the splits of the restored checkpoint, if any, and then `start`. A reader
    without splits requests one with `context.send_split_request()` and returns NOTHING_AVAILABLE until `add_splits` or
    `notify_no_more_splits` is called.

    Thread: task thread. A reader with its own threads calls `context.notify_available()` from them.

    Attributes:
        names_splits: True if the reader names the split of each batch, see the module docstring.
        current_split_id: the split of the batch that `poll_batch` returned last; None: no particular split.
        fetch_time_ms: when the records of that batch arrived from the external system, in ms since 1970; None: not
            known.
    """

    names_splits: bool = False
    current_split_id: str | None = None
    fetch_time_ms: int | None = None

    @property
    def pending_bytes(self) -> int | None:
        """The bytes of the splits of this reader that it has not read; None if it does not know. Thread: any."""
        return None

    @abstractmethod
    def start(self) -> None:
        """Called once, before the first `poll_batch`."""

    @abstractmethod
    def poll_batch(self) -> Batch | ReaderStatus:
        """Returns the next batch, or why there is none. Must not block."""

    @abstractmethod
    def add_splits(self, splits: list[Any]) -> None:
        """Adds splits to read."""

    @abstractmethod
    def notify_no_more_splits(self) -> None:
        """Called when no more splits will be added."""

    def handle_source_event(self, event: Any) -> None:
        """Handles an event that the enumerator sent with `send_event_to_reader`."""
        return

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        """Pauses and resumes splits. A paused split returns no records; the other splits continue.

        It is only called if the reader has `names_splits` and the program aligns watermarks. Without an implementation,
        the job fails as soon as a split is too far ahead, unless
        `pipeline.watermark-alignment.allow-unaligned-source-splits` is set.

        Args:
            splits_to_pause: ids of added splits.
            splits_to_resume: ids of added splits.
        """
        raise UnsupportedOperationError(
            f"{type(self).__name__} cannot pause splits, which watermark alignment needs; set "
            "pipeline.watermark-alignment.allow-unaligned-source-splits to let splits of one reader drift apart"
        )

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Returns the unfinished splits in reading order, each with its position.

        Reading them yields exactly the records that no polled batch contained. The returned objects must not change
        later: copy mutable ones.
        """
        raise UnsupportedOperationError(f"{type(self).__name__} cannot be checkpointed: it has no snapshot_state")

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Called when a checkpoint completes. Records before it will not be read again. Calls may be skipped."""
        return

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        return

    def close(self) -> None:
        """Releases all resources. Called once, also after a failure."""
        return


class SourceBase(ABC):
    """The interface of a source. Pickled into the JobGraph.

    Example:
        class Numbers(SourceBase):
            boundedness = Boundedness.BOUNDED

            def create_enumerator(self, context):
                return NumbersEnumerator(context)

            def create_reader(self, context):
                return NumbersReader(context)

        env.from_source(Numbers(), WatermarkStrategy.no_watermarks(), "numbers")
    """

    @property
    @abstractmethod
    def boundedness(self) -> Boundedness:
        """Tells whether the source ends."""

    @abstractmethod
    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        """Returns the enumerator of a job that starts from the beginning. Called in the JobMaster."""

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        """Returns an enumerator that continues from a state of `SplitEnumerator.snapshot_state`."""
        raise UnsupportedOperationError(f"{type(self).__name__} cannot be restored: it has no restore_enumerator")

    @abstractmethod
    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        """Returns a reader. Called in each task."""

    @property
    def split_serializer(self) -> SimpleVersionedSerializer | None:
        """Stores splits in checkpoints. None: splits are pickled, so their class must not change."""
        return None

    @property
    def enumerator_state_serializer(self) -> SimpleVersionedSerializer | None:
        """Stores the state of the enumerator in checkpoints. None: it is pickled."""
        return None

    @property
    def produced_type(self) -> Any:
        """The TypeInformation of the records. None: pickled Python objects."""
        return None

    def projected_to(self, columns: list[str]) -> SourceBase | None:
        """Returns a source with only the given columns, in this order; None if the source cannot leave out columns.

        Source: org.apache.flink.table.connector.source.abilities.SupportsProjectionPushDown.
        """
        return None

    def filtered_by(self, predicate: Any) -> SourceBase | None:
        """Returns a source that may leave out records for which a predicate is not true; None if it ignores predicates.

        Source: org.apache.flink.table.connector.source.abilities.SupportsFilterPushDown.

        Args:
            predicate: a `flinkpy.expressions` tree over the columns of the source.
        """
        return None

    @property
    def source_function(self) -> Any:
        """The SourceFunction that the operator opens and whose state it keeps; None for every other source."""
        return None

    @property
    def is_local_to_task(self) -> bool:
        """True if only processes of this cluster can read the data, and not those of Spark."""
        return False

    def estimated_size_bytes(self) -> int | None:
        """Returns the present size of the data, or None if it is not known. May block."""
        return None

    def infer_parallelism(self, upper_bound: int) -> int | None:
        """Returns the number of subtasks that have data to read, or None if it is not known.

        It is called for sources of batch jobs without a set parallelism, in the JobMaster before the job starts, on the
        result of `for_coordinator`. None means `upper_bound`. It may block. An exception fails the job.
        """
        return None

    def for_coordinator(self) -> SourceBase:
        """Returns the part of the source that the JobMaster needs. It may leave out the data."""
        return self


# Events between SourceOperator (task) and SourceCoordinator (JobMaster).
#
# `is_repeated_on_request`: a reader sends the event again when it gets RegisterAgain, or sends it regularly.
# `is_kept` False: the next JobMaster need not know that the event was sent. All others are kept (`TaskLedger`).
@dataclass(frozen=True, slots=True)
class ReaderRegistered:
    is_repeated_on_request: ClassVar[bool] = True
    #: The checkpoint that the attempt of the reader restores; None: it starts from the beginning.
    restored_checkpoint_id: int | None = None


@dataclass(frozen=True, slots=True)
class RequestSplit:
    is_repeated_on_request: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class AddSplits:
    splits: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class NoMoreSplits:
    is_kept: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class RegisterAgain:
    """Asks a running reader to register, and to request a split if it waits for one.

    A new JobMaster has continued its task.
    """

    is_kept: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class SourceEvent:
    """An event of a connector, in either direction."""

    payload: Any
