"""PulsarSource: reads topics of Apache Pulsar with exactly-once state.

Source: org.apache.flink.connector.pulsar.source.{PulsarSource,PulsarSourceOptions}.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from flinkpy.connector_api.source import (
    Boundedness,
    SourceBase,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkpy.connectors.pulsar.client import PulsarConnection, load_pulsar, new_connection
from flinkpy.connectors.pulsar.cursors import RangeGenerator, StartCursor, StopCursor
from flinkpy.connectors.pulsar.enumerator import PartitionDiscovery, PulsarEnumerator, PulsarEnumeratorState
from flinkpy.formats.schema import produced_type_of

DISCOVERY_INTERVAL = "pulsar.source.partitionDiscoveryIntervalMs"
RESET_CURSOR = "pulsar.source.resetSubscriptionCursor"

_DEFAULT_DISCOVERY_INTERVAL_MS = 300_000


class PulsarSource(SourceBase):
    """Reads topics of Apache Pulsar. Create it with `PulsarSource.builder()`."""

    def __init__(
        self,
        j_pulsar_source: tuple[str, ...] | re.Pattern[str],
        properties: Mapping[str, str],
        schema: Any,
        start: StartCursor,
        stop: StopCursor,
        ranges: RangeGenerator,
        boundedness: Boundedness,
        make_connection: Callable[[Mapping[str, str]], PulsarConnection] = new_connection,
    ) -> None:
        self.topics = j_pulsar_source
        self.properties = dict(properties)
        self.schema = schema
        self.start_cursor = start
        self.stop_cursor = stop
        self.range_generator = ranges
        self.make_connection = make_connection
        self._boundedness = boundedness

    @staticmethod
    def builder() -> Any:
        """Returns a PulsarSourceBuilder."""
        from flinkpy.datastream.connectors.pulsar import PulsarSourceBuilder

        return PulsarSourceBuilder()

    @property
    def boundedness(self) -> Boundedness:
        return self._boundedness

    @property
    def produced_type(self) -> Any:
        return produced_type_of(self.schema)

    @property
    def discovery_interval_ms(self) -> int:
        """The interval of partition discovery; 0 if the source ends when the partitions found at its start end."""
        if self._boundedness is Boundedness.BOUNDED or self.stop_cursor.position.kind != "never":
            return 0
        return int(self.properties.get(DISCOVERY_INTERVAL, _DEFAULT_DISCOVERY_INTERVAL_MS))

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return self.restore_enumerator(context, PulsarEnumeratorState())

    def restore_enumerator(self, context: SplitEnumeratorContext, state: PulsarEnumeratorState) -> SplitEnumerator:
        if self.make_connection is new_connection:
            load_pulsar()
        discovery = PartitionDiscovery(
            self.make_connection,
            self.properties,
            self.topics,
            self.start_cursor.position,
            self.stop_cursor.position,
            self.properties.get(RESET_CURSOR, "false").lower() == "true",
        )
        return PulsarEnumerator(context, discovery, self.discovery_interval_ms, state)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        from flinkpy.connectors.pulsar.reader import PartitionFetcher, PulsarReader

        ranges = self.range_generator.ranges
        fetcher = PartitionFetcher(self.make_connection, self.properties, ranges, context.notify_available)
        return PulsarReader(context, fetcher, self.schema, not ranges)
