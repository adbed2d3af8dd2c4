"""The unified Source: an enumerator in the JobMaster hands splits to readers in the tasks.

A checkpoint holds, of a source: what its enumerator has not handed out (`SplitEnumerator.snapshot_state`), and the
splits that its readers have not finished, each with the position behind the last record that was emitted
(`SourceReader.snapshot_state`). Every split is in exactly one of the two, or is finished.

Watermarks per split. A reader that reads several splits side by side (partitions of a topic) says which split each of
its batches is from. Then every split has a watermark generator and idleness of its own, and the watermark of the source
is the lowest of its splits: one that is behind is not late because another is ahead. Such a reader

* has `names_splits = True`, and its splits have a `split_id: str`, which is unique in the source (those without one
  count as one split together);
* sets `current_split_id` before `poll_batch` returns a batch; all records of a batch are of that one split;
* calls `context.split_finished(split_id)` when a split has no more records, at the latest before it asks for the next
  one. What it returned before counts, and what the current `poll_batch` is about to return does too;
* may have `pause_or_resume_splits`, which watermark alignment uses to hold splits back that are ahead of others.

A split holds the watermark of the source back from `add_splits` on, also when it is restored, until it has records, is
idle, or is finished. A reader without `names_splits` counts as one split.

Source: org.apache.flink.api.connector.source (FLIP-27). Differs: readers emit batches, not records, and name the split
of a batch where Flink's have an output for each split.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from flinkpy.common.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from flinkpy.connector_api.serializer import SimpleVersionedSerializer
    from flinkpy.records.batch import Batch


class Boundedness(enum.Enum):
    BOUNDED = "BOUNDED"
    CONTINUOUS_UNBOUNDED = "CONTINUOUS_UNBOUNDED"


class ReaderStatus(enum.Enum):
    """What `SourceReader.poll_batch` answers when it has no batch to give."""

    NOTHING_AVAILABLE = "nothing now: poll again when the availability callback has been called"
    END_OF_INPUT = "all splits are finished and no more will come"


class SplitEnumeratorContext(Protocol):
    """Thread: JobMaster main thread."""

    @property
    def parallelism(self) -> int: ...

    @property
    def registered_readers(self) -> set[int]:
        """Subtasks whose reader is running now."""
        ...

    def assign_splits(self, assignment: dict[int, list[Any]]) -> None:
        """Hand splits out. They belong to the reader from now on, also where it has not registered yet."""
        ...

    def signal_no_more_splits(self, subtask_index: int) -> None: ...

    def send_event_to_reader(self, subtask_index: int, event: Any) -> None:
        """Deliver `event` to the connector's reader as `handle_source_event(event)`."""
        ...

    def call_async(self, call: Any, on_done: Any) -> None:
        """Run `call()` on an I/O thread, then `on_done(result, error)` on the main thread."""
        ...

    def schedule(self, delay_ms: int, action: Any) -> None: ...

    def set_is_processing_backlog(self, is_processing_backlog: bool) -> None:
        """Whether what readers read now is old, so that how fast it is done counts and not how soon: checkpoints are
        then taken at execution.checkpointing.interval-during-backlog. False at first, and after every reset.
        """
        ...


class SplitEnumerator(ABC):
    """Thread: JobMaster main thread; `start` may do blocking work only through `context.call_async`.

    Any method may be called between `start` and `close`, in any order.
    """

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def handle_split_request(self, subtask_index: int) -> None:
        """A reader has nothing left: assign it a split or signal that there are no more."""

    def add_reader(self, subtask_index: int) -> None:
        """A reader has registered, for the first time or anew after a failure. It may have splits from a checkpoint;
        what it was signalled before the failure it no longer knows.
        """
        return

    @abstractmethod
    def add_splits_back(self, splits: list[Any], subtask_index: int) -> None:
        """Splits that a failed reader was assigned after the checkpoint that it is restored from. To be read again, by
        whichever reader.
        """

    def snapshot_state(self, checkpoint_id: int) -> Any:
        """What `SourceBase.restore_enumerator` needs to go on from here, as of now: no split that has been assigned.
        Must not change afterwards (copy what does).
        """
        raise UnsupportedOperationError(f"{type(self).__name__} cannot be checkpointed: it has no snapshot_state")

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """May be left out: the next one says the same of all before it."""
        return

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        return

    def handle_source_event(self, subtask_index: int, event: Any) -> None:
        """An event of this connector's reader."""
        return

    def close(self) -> None:
        return


class SourceReaderContext(Protocol):
    """Thread: task thread."""

    @property
    def subtask_index(self) -> int: ...

    @property
    def parallelism(self) -> int: ...

    @property
    def is_checkpointing_enabled(self) -> bool:
        """Whether the job takes checkpoints periodically. Without, there may still be some that somebody asks for."""
        ...

    @property
    def max_batch_rows(self) -> int:
        """Emit no more rows than this in one batch. Changes: ask before each batch.

        What a longer batch has too much waits in the task. It is not lost in a checkpoint, but it is stored there as
        data, together with all splits of the reader, which then stay together when the parallelism changes.
        """
        ...

    def send_split_request(self) -> None: ...

    def send_source_event(self, event: Any) -> None: ...

    def emit_watermark(self, timestamp: int) -> None:
        """Emit a watermark of the reader's own, behind all records polled so far and before the batch that the current
        `poll_batch` returns. Task thread, and only from there. Those that would go back are dropped.
        """
        ...

    def mark_idle(self) -> None:
        """Nobody waits for the watermarks of this reader until `mark_active` or its next watermark. As above."""
        ...

    def mark_active(self) -> None: ...

    def split_finished(self, split_id: str) -> None:
        """Nothing more comes of that split behind the batch that is returned next or was returned last: it does not
        hold watermarks back any more. Task thread. Only where the reader `names_splits`.
        """
        ...

    @property
    def metric_group(self) -> Any:
        """The metrics of the operator."""
        ...

    def emit_to_side_output(self, tag_id: str, batch: Batch) -> None:
        """Records that do not go to the stream itself; dropped where nobody reads that side output. Task thread, within
        `poll_batch`: they count with the batch that it returns.
        """
        ...

    def monotonic_ns(self) -> int:
        """A clock that never goes back."""
        ...

    def schedule(self, delay_ms: int, action: Any) -> None:
        """Call `action(time)` on the task thread after `delay_ms`, and poll the reader then; `time` is in ms."""
        ...

    def notify_available(self) -> None:
        """May be called from any thread: `poll_batch` is worth calling again."""
        ...


class SourceReader(ABC):
    """Thread: task thread. A reader with threads of its own calls `context.notify_available()`.

    The first call is `add_splits` with what a checkpoint held, where there is any, then `start`. A reader without
    splits asks for one with `context.send_split_request()` and answers `NOTHING_AVAILABLE` until `add_splits` or
    `notify_no_more_splits` is called.

    Attributes:
        names_splits: whether it says which split a batch is from; see the top of this module.
        current_split_id: of the batch that `poll_batch` last returned; None: of no split in particular.
    """

    names_splits: bool = False
    current_split_id: str | None = None

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def poll_batch(self) -> Batch | ReaderStatus: ...

    @abstractmethod
    def add_splits(self, splits: list[Any]) -> None: ...

    @abstractmethod
    def notify_no_more_splits(self) -> None: ...

    def handle_source_event(self, event: Any) -> None:
        return

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        """Return no records of the former until they are among the latter; the other splits go on. Ids of splits that
        have been added. Called only where the reader `names_splits` and the program aligns watermarks.

        A reader that cannot do this fails the job as soon as a split is too far ahead, unless
        `pipeline.watermark-alignment.allow-unaligned-source-splits` is set.
        """
        raise UnsupportedOperationError(
            f"{type(self).__name__} cannot pause splits, and watermark alignment asks it to; set "
            "pipeline.watermark-alignment.allow-unaligned-source-splits to let splits of one reader drift apart"
        )

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """The splits not finished, each with its position: reading it gives exactly the records that no batch polled so
        far had. In the order in which they are to be read. Must not change afterwards (copy what does).
        """
        raise UnsupportedOperationError(f"{type(self).__name__} cannot be checkpointed: it has no snapshot_state")

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """All up to that checkpoint will not be read again. May be left out: the next one says the same."""
        return

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        return

    def close(self) -> None:
        return


class SourceBase(ABC):
    """What a source must offer. Pickled into the JobGraph."""

    @property
    @abstractmethod
    def boundedness(self) -> Boundedness: ...

    @abstractmethod
    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator: ...

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        """An enumerator that goes on from what `snapshot_state` of an earlier one gave. `start` is called on it too."""
        raise UnsupportedOperationError(f"{type(self).__name__} cannot be restored: it has no restore_enumerator")

    @abstractmethod
    def create_reader(self, context: SourceReaderContext) -> SourceReader: ...

    @property
    def split_serializer(self) -> SimpleVersionedSerializer | None:
        """How splits are stored in checkpoints; None: pickled, so that their class must stay what it is."""
        return None

    @property
    def enumerator_state_serializer(self) -> SimpleVersionedSerializer | None:
        """How the enumerator's state is stored in checkpoints; None: pickled."""
        return None

    @property
    def produced_type(self) -> Any:
        """TypeInformation of the records, or None: pickled Python objects."""
        return None

    def projected_to(self, columns: list[str]) -> SourceBase | None:
        """A source of the same records with only these columns, in this order; None: it gives all of them always.

        Source: org.apache.flink.table.connector.source.abilities.SupportsProjectionPushDown.
        """
        return None

    def filtered_by(self, predicate: Any) -> SourceBase | None:
        """A source that may leave out records for which `predicate` (a `flinkpy.expressions` tree over its columns) is
        not true; None: it makes no use of it.

        Source: org.apache.flink.table.connector.source.abilities.SupportsFilterPushDown.
        """
        return None

    @property
    def source_function(self) -> Any:
        """A SourceFunction that the operator opens and whose state it keeps; None for every other source."""
        return None

    @property
    def is_local_to_task(self) -> bool:
        """Whether what it reads is only there for the processes of this cluster, and not for Spark's."""
        return False

    def estimated_size_bytes(self) -> int | None:
        """How much there is to read, at the time of the call; None where that is not known. Blocks."""
        return None

    def infer_parallelism(self, upper_bound: int) -> int | None:
        """How many subtasks could have something to do: of a batch job's source whose parallelism nobody has set. None:
        it cannot know, and gets `upper_bound`. Called in the JobMaster on what `for_coordinator` gave, before the job
        starts; may block (it looks at files). What it raises fails the job.
        """
        return None

    def for_coordinator(self) -> SourceBase:
        """What of this source the JobMaster needs (`create_enumerator` is called on it): may leave the data out."""
        return self


# Events between SourceOperator (task) and SourceCoordinator (JobMaster).
@dataclass(frozen=True, slots=True)
class ReaderRegistered:
    #: What the reader's attempt is restored from; None: it begins at the beginning.
    restored_checkpoint_id: int | None = None


@dataclass(frozen=True, slots=True)
class RequestSplit:
    pass


@dataclass(frozen=True, slots=True)
class AddSplits:
    splits: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class NoMoreSplits:
    pass


@dataclass(frozen=True, slots=True)
class SourceEvent:
    """An event of the connector's own, in either direction."""

    payload: Any
