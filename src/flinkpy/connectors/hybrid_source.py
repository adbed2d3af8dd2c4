"""HybridSource: one source after the other, as if they were one: files of the past, then the topic that goes on.

All sources but the last are bounded. When every reader has finished a source, the enumerator of the next one is made,
perhaps from what the enumerator before it knows (SourceFactory), and the readers are told to switch. How a switch and a
failure go together is told in `hybrid_enumerator`.

Source: org.apache.flink.connector.base.source.hybrid.HybridSource.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flinkpy.connector_api.serializer import SimpleVersionedSerializer
from flinkpy.connector_api.source import (
    Boundedness,
    SourceBase,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkpy.connectors.hybrid_enumerator import HybridSplitEnumerator
from flinkpy.connectors.hybrid_events import HybridSplitSerializer, SourceEntry, SourceSwitchContext
from flinkpy.connectors.hybrid_reader import HybridSourceReader

__all__ = ["HybridSource", "HybridSourceBuilder", "SourceFactory"]

#: Makes a source when it is its turn.
SourceFactory = Callable[[SourceSwitchContext], SourceBase]


class HybridSource(SourceBase):
    """Build it with `HybridSource.builder(first).add_source(next).build()`."""

    def __init__(self, entries: tuple[SourceEntry, ...]) -> None:
        self._entries = entries

    @staticmethod
    def builder(first_source: SourceBase) -> HybridSourceBuilder:
        return HybridSourceBuilder().add_source(first_source)

    @property
    def boundedness(self) -> Boundedness:
        return self._entries[-1].boundedness

    @property
    def produced_type(self) -> Any:
        """Of the first source that says one."""
        for entry in self._entries:
            if entry.source is not None and entry.source.produced_type is not None:
                return entry.source.produced_type
        return None

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return HybridSplitEnumerator(context, self._entries)

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        return HybridSplitEnumerator(context, self._entries, state)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return HybridSourceReader(context, self._entries)

    @property
    def split_serializer(self) -> SimpleVersionedSerializer:
        return HybridSplitSerializer(self._entries)

    def for_coordinator(self) -> SourceBase:
        return HybridSource(
            tuple(
                entry if entry.source is None else replace(entry, source=entry.source.for_coordinator())
                for entry in self._entries
            )
        )


class HybridSourceBuilder:
    """Collects the sources in their order."""

    def __init__(self) -> None:
        self._entries: list[SourceEntry] = []

    def add_source(self, source: SourceBase) -> HybridSourceBuilder:
        """Read `source` after those before it.

        Raises: ValueError where the source before is not bounded: this one would never be read.
        """
        if not isinstance(source, SourceBase):
            raise TypeError(f"a source is needed, not {source!r}; what makes one is for add_source_factory")
        if source.source_function is not None:
            raise TypeError("a SourceFunction cannot be part of a HybridSource: nobody can tell how far it has come")
        return self._add(SourceEntry(source, None, source.boundedness))

    def add_source_factory(
        self, factory: SourceFactory, boundedness: Boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    ) -> HybridSourceBuilder:
        """Read what `factory` makes when it is its turn. Beyond PyFlink.

        Args:
            factory: is given a SourceSwitchContext, whose `get_previous_enumerator()` is the enumerator of the source
                before. Called once in the life of a job, in the JobMaster.
            boundedness: of what it makes.
        """
        if not callable(factory):
            raise TypeError(f"a function that makes a source is needed, not {factory!r}")
        if not self._entries:
            raise ValueError("The first source must be a source: nothing comes before it that a factory could ask.")
        return self._add(SourceEntry(None, factory, boundedness))

    def _add(self, entry: SourceEntry) -> HybridSourceBuilder:
        if self._entries and self._entries[-1].boundedness is not Boundedness.BOUNDED:
            raise ValueError("All sources except the final source need to be bounded.")
        self._entries.append(entry)
        return self

    def build(self) -> HybridSource:
        return HybridSource(tuple(self._entries))
