"""KinesisSource: reads data streams of Kinesis with exactly-once state.

Source: org.apache.flink.streaming.connectors.kinesis.{FlinkKinesisConsumer,config.ConsumerConfigConstants}. Differs:
the JobMaster discovers shards; shards created by resharding are read after their parents; LATEST is the time at which
the job starts, so that a failure before the first checkpoint loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from flinkpy.common.clock import SystemClock
from flinkpy.common.errors import ConfigurationError
from flinkpy.connector_api.source import (
    Boundedness,
    SourceBase,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkpy.connectors.aws.client import check_properties, load_boto3, new_client
from flinkpy.connectors.kinesis.deserialization import KinesisDeserializationSchema
from flinkpy.connectors.kinesis.enumerator import KinesisEnumerator, ShardDiscovery
from flinkpy.connectors.kinesis.fetcher import FetchSettings, ShardFetcher
from flinkpy.connectors.kinesis.shards import (
    KinesisEnumeratorState,
    KinesisShardAssigner,
    Position,
    starting_position,
)
from flinkpy.formats.schema import produced_type_of

_GET_RECORDS = "flink.shard.getrecords"
DISCOVERY_INTERVAL = "flink.shard.discovery.intervalmillis"
RECORD_PUBLISHER = "flink.stream.recordpublisher"
SHARD_IDLE_INTERVAL = "flink.shard.idle.interval"
WATERMARK_LOOKAHEAD = "flink.watermark.lookahead.millis"
WATERMARK_SYNC_INTERVAL = "flink.watermark.sync.interval"

_DEFAULT_DISCOVERY_INTERVAL_MS = 10_000
#: The largest number of records that AWS returns at once.
_MAX_RECORDS = 10_000


class KinesisSource(SourceBase):
    """Reads the shards of data streams.

    Args:
        streams: names or ARNs of the streams.
        make_client: creates a client, with the arguments of `client.new_client`.

    Raises: ConfigurationError if a property is invalid.
    """

    def __init__(
        self,
        streams: tuple[str, ...],
        schema: Any,
        properties: Mapping[str, str],
        assigner: KinesisShardAssigner,
        make_client: Callable[..., Any] = new_client,
    ) -> None:
        if not streams:
            raise ValueError("KinesisSource needs at least one stream")
        check_properties(properties)
        publisher = properties.get(RECORD_PUBLISHER, "POLLING").upper()
        if publisher != "POLLING":
            raise ConfigurationError(f"{RECORD_PUBLISHER} must be POLLING, not {publisher!r}")
        self.streams = streams
        self.schema = schema
        self.properties = dict(properties)
        self.assigner = assigner
        self.start_position = starting_position(self.properties)
        self.discovery_interval_ms = int_property(properties, DISCOVERY_INTERVAL, _DEFAULT_DISCOVERY_INTERVAL_MS)
        self.fetching = _fetch_settings(properties)
        self._make_client = partial(make_client, "kinesis", self.properties)

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def produced_type(self) -> Any:
        if isinstance(self.schema, KinesisDeserializationSchema):
            return self.schema.get_produced_type()
        return produced_type_of(self.schema)

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        start = self.start_position or Position("AT_TIMESTAMP", timestamp=SystemClock().now_ms() / 1000)
        return self.restore_enumerator(context, KinesisEnumeratorState(start))

    def restore_enumerator(self, context: SplitEnumeratorContext, state: KinesisEnumeratorState) -> SplitEnumerator:
        load_boto3()
        discovery = ShardDiscovery(self._make_client, self.streams)
        return KinesisEnumerator(context, discovery.find, self.assigner, self.discovery_interval_ms, state)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        from flinkpy.connectors.kinesis.reader import KinesisReader

        name = f"kinesis {','.join(self.streams)}"
        fetcher = ShardFetcher(self._make_client, self.fetching, name, context.notify_available)
        return KinesisReader(context, fetcher, self.schema)


def int_property(properties: Mapping[str, str], key: str, default: int, least: int = 0) -> int:
    """Returns an int property of at least `least`. Raises: ConfigurationError."""
    text = properties.get(key)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise ConfigurationError(f"{key} must be an int of at least {least}, not {text!r}")
    return value


def _fetch_settings(properties: Mapping[str, str]) -> FetchSettings:
    max_records = int_property(properties, f"{_GET_RECORDS}.maxrecordcount", _MAX_RECORDS, 1)
    if max_records > _MAX_RECORDS:
        raise ConfigurationError(f"{_GET_RECORDS}.maxrecordcount must be at most {_MAX_RECORDS}, not {max_records}")
    factor = properties.get(f"{_GET_RECORDS}.backoff.expconst", "1.5")
    try:
        backoff_factor = float(factor)
    except ValueError as error:
        raise ConfigurationError(f"{_GET_RECORDS}.backoff.expconst must be a number, not {factor!r}") from error
    return FetchSettings(
        max_records,
        int_property(properties, f"{_GET_RECORDS}.intervalmillis", 200) / 1000,
        int_property(properties, f"{_GET_RECORDS}.maxretries", 3),
        int_property(properties, f"{_GET_RECORDS}.backoff.base", 300) / 1000,
        int_property(properties, f"{_GET_RECORDS}.backoff.max", 1000) / 1000,
        backoff_factor,
    )
