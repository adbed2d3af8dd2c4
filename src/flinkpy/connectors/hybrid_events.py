"""What enumerator and reader of a HybridSource say to one another, and what both keep in checkpoints.

Source: org.apache.flink.connector.base.source.hybrid.{HybridSourceSplit,SourceReaderFinishedEvent,SwitchSourceEvent}.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flinkpy.connector_api.serializer import SimpleVersionedSerializer, read_versioned, write_versioned
from flinkpy.connector_api.source import Boundedness, SourceBase, SplitEnumerator


class SourceSwitchContext:
    """What a SourceFactory is given. Thread: JobMaster main thread."""

    def __init__(self, previous_enumerator: SplitEnumerator) -> None:
        self._previous_enumerator = previous_enumerator

    def get_previous_enumerator(self) -> SplitEnumerator:
        """Of the source that has just been finished; it still knows all it knew, and is closed afterwards."""
        return self._previous_enumerator


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """One of the sources: itself, or what makes it."""

    source: SourceBase | None
    factory: Callable[[SourceSwitchContext], SourceBase] | None
    boundedness: Boundedness


@dataclass(frozen=True, slots=True)
class HybridSplit:
    """A split of the source at `source_index`."""

    source_index: int
    split: Any

    @property
    def split_id(self) -> str | None:
        """Unique over all sources; None where the source's splits have none."""
        own = getattr(self.split, "split_id", None)
        return None if own is None else f"{self.source_index}:{own}"


class HybridSplitSerializer(SimpleVersionedSerializer):
    """Each split as its own source stores it; those of a source that a factory makes are pickled."""

    def __init__(self, entries: tuple[SourceEntry, ...]) -> None:
        self._entries = entries

    @property
    def version(self) -> int:
        return 1

    def serialize(self, value: HybridSplit) -> bytes:
        written = write_versioned(self._serializer_of(value.source_index), value.split)
        return pickle.dumps((value.source_index, written), protocol=pickle.HIGHEST_PROTOCOL)

    def deserialize(self, version: int, data: bytes) -> HybridSplit:
        source_index, written = pickle.loads(data)
        what = f"a split of source {source_index} of a hybrid source"
        return HybridSplit(source_index, read_versioned(self._serializer_of(source_index), written, what))

    def _serializer_of(self, source_index: int) -> SimpleVersionedSerializer | None:
        source = self._entries[source_index].source
        return None if source is None else source.split_serializer


@dataclass(frozen=True, slots=True)
class ReaderAt:
    """From a reader that has started: it has splits of that source; None: it has none of any."""

    source_index: int | None


@dataclass(frozen=True, slots=True)
class SourceFinished:
    """From a reader: it has read all it will get of that source.

    `has_splits_of`: the next source that it has splits of already; None: it has none.
    """

    source_index: int
    has_splits_of: int | None


@dataclass(frozen=True, slots=True)
class SwitchSource:
    """To a reader: read that source now. `made`: the source itself where a factory made it, else None."""

    source_index: int
    made: SourceBase | None
    is_final: bool


@dataclass(frozen=True, slots=True)
class NoMoreSplitsOf:
    """To a reader: there are no more splits of that source for it."""

    source_index: int


@dataclass(frozen=True, slots=True)
class EventOf:
    """An event of that source's own, in either direction."""

    source_index: int
    payload: Any
