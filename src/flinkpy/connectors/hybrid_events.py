"""The events between enumerator and reader of a HybridSource, and the splits that both store in checkpoints.

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
    """The argument of a SourceFactory. Thread: JobMaster main thread."""

    def __init__(self, previous_enumerator: SplitEnumerator) -> None:
        self._previous_enumerator = previous_enumerator

    def get_previous_enumerator(self) -> SplitEnumerator:
        """Returns the enumerator of the finished source, which is closed after the factory has returned."""
        return self._previous_enumerator


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """One source of a HybridSource: either the source or the factory that creates it."""

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
        """An id that is unique among all sources; None if the source's splits have no ids."""
        own = getattr(self.split, "split_id", None)
        return None if own is None else f"{self.source_index}:{own}"


class HybridSplitSerializer(SimpleVersionedSerializer):
    """Stores each split with the serializer of its source. Splits of sources from factories are pickled."""

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
    """Sent by a reader that has started. `source_index` is the first source of which it has splits, if any."""

    source_index: int | None


@dataclass(frozen=True, slots=True)
class SourceFinished:
    """Sent by a reader that has finished a source.

    `has_splits_of` is the next source of which the reader already has splits; None if there is none.
    """

    source_index: int
    has_splits_of: int | None


@dataclass(frozen=True, slots=True)
class SwitchSource:
    """Tells a reader to read a source. `made` is the source if a factory created it, otherwise None."""

    source_index: int
    made: SourceBase | None
    is_final: bool


@dataclass(frozen=True, slots=True)
class NoMoreSplitsOf:
    """Tells a reader that it gets no more splits of a source."""

    source_index: int


@dataclass(frozen=True, slots=True)
class EventOf:
    """An event between the enumerator and the reader of one source, in either direction."""

    source_index: int
    payload: Any
