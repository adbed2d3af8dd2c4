"""PulsarSource: reads topics of Apache Pulsar with exactly-once state.

Source: org.apache.flink.connector.pulsar.source.{PulsarSource,PulsarSourceOptions}.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from flinkpy.common.config_options import ConfigOption
from flinkpy.common.errors import ConfigurationError
from flinkpy.common.serialization import DeserializationSchema
from flinkpy.connector_api.source import (
    Boundedness,
    SourceBase,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkpy.connectors.pulsar.client import (
    ADMIN_URL,
    CONSUMER_NAME,
    SERVICE_URL,
    SUBSCRIPTION_NAME,
    PulsarBuilder,
    PulsarConnection,
    load_pulsar,
    new_connection,
)
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


class PulsarSourceBuilder(PulsarBuilder):
    """Builds a source. Service URL, admin URL, subscription name, topics and a deserialization schema are required."""

    def __init__(self) -> None:
        super().__init__()
        self._topics: tuple[str, ...] | re.Pattern[str] | None = None
        self._schema: DeserializationSchema | None = None
        self._start = StartCursor.default_start_cursor()
        self._stop = StopCursor.default_stop_cursor()
        self._ranges = RangeGenerator.full()
        self._boundedness = Boundedness.CONTINUOUS_UNBOUNDED

    def set_admin_url(self, admin_url: str) -> PulsarSourceBuilder:
        """Sets the URL of the admin API, such as `http://host:8080`."""
        return self._set(ADMIN_URL, admin_url)

    def set_service_url(self, service_url: str) -> PulsarSourceBuilder:
        """Sets the URL of the brokers, such as `pulsar://host:6650`."""
        return self._set(SERVICE_URL, service_url)

    def set_subscription_name(self, subscription_name: str) -> PulsarSourceBuilder:
        return self._set(SUBSCRIPTION_NAME, subscription_name)

    def set_topics(self, topics: str | list[str]) -> PulsarSourceBuilder:
        """Sets the topics by name. A topic is read with all its partitions; a name may also be that of a partition."""
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        if not names:
            raise ValueError("set_topics: no topic is given")
        return self._subscribe(names)

    def set_topic_pattern(self, topic_pattern: str) -> PulsarSourceBuilder:
        """Sets the topics by a pattern of whole names.

        Args:
            topic_pattern: a pattern such as `persistent://tenant/namespace/name.*`, or `name.*` for `public/default`.
        """
        return self._subscribe(re.compile(topic_pattern))

    def set_consumer_name(self, consumer_name: str) -> PulsarSourceBuilder:
        return self._set(CONSUMER_NAME, consumer_name)

    def set_range_generator(self, range_generator: RangeGenerator) -> PulsarSourceBuilder:
        """Reads only a part of the keys. The subscription is then Key_Shared, and messages are read at least once."""
        if not isinstance(range_generator, RangeGenerator):
            raise TypeError(f"{range_generator!r} is not a RangeGenerator")
        self._ranges = range_generator
        return self

    def set_start_cursor(self, start_cursor: StartCursor) -> PulsarSourceBuilder:
        """Sets where a new subscription starts; with `pulsar.source.resetSubscriptionCursor` also an existing one."""
        if not isinstance(start_cursor, StartCursor):
            raise TypeError(f"{start_cursor!r} is not a StartCursor")
        self._start = start_cursor
        return self

    def set_unbounded_stop_cursor(self, stop_cursor: StopCursor) -> PulsarSourceBuilder:
        """Stops at the cursor. The source still counts as unbounded."""
        return self._stop_at(stop_cursor, Boundedness.CONTINUOUS_UNBOUNDED)

    def set_bounded_stop_cursor(self, stop_cursor: StopCursor) -> PulsarSourceBuilder:
        """Stops at the cursor. The source is bounded and does not discover new partitions."""
        return self._stop_at(stop_cursor, Boundedness.BOUNDED)

    def set_deserialization_schema(self, deserialization_schema: DeserializationSchema) -> PulsarSourceBuilder:
        self._schema = deserialization_schema
        return self

    def set_authentication(
        self, auth_plugin_class_name: str, auth_params_string: str | dict[str, str]
    ) -> PulsarSourceBuilder:
        """Sets the authentication.

        Args:
            auth_plugin_class_name: Java's name of the plugin, such as
                `org.apache.pulsar.client.impl.auth.AuthenticationToken`; or the path of a library of the C++ client.
            auth_params_string: the parameters of the plugin, such as `token:...`, or a dict of them.
        """
        return self._authenticate(auth_plugin_class_name, auth_params_string)

    def set_config(self, key: str | ConfigOption, value: Any) -> PulsarSourceBuilder:
        """Sets a property. Raises: ConfigurationError if it already has another value."""
        if isinstance(key, ConfigOption):
            warnings.warn(
                "set_config(key: ConfigOption, value) is deprecated. Use set_config(key: str, value) instead.",
                DeprecationWarning,
                stacklevel=2,
            )
            key = key.key
        return self._set(key, value)

    def set_config_with_dict(self, config: dict[str, Any]) -> PulsarSourceBuilder:
        """Sets properties. Deprecated: use set_properties."""
        warnings.warn(
            "set_config_with_dict is deprecated. Use set_properties instead.", DeprecationWarning, stacklevel=2
        )
        return self.set_properties(config)

    def set_properties(self, config: dict[str, Any]) -> PulsarSourceBuilder:
        for key, value in config.items():
            self._set(key, value)
        return self

    def build(self) -> PulsarSource:
        """Returns the source. Raises: ConfigurationError if a required setting is missing."""
        self._require(set_service_url=SERVICE_URL, set_admin_url=ADMIN_URL, set_subscription_name=SUBSCRIPTION_NAME)
        if self._topics is None:
            raise ConfigurationError("No topic names or topic pattern are provided.")
        if self._schema is None:
            raise ConfigurationError("A deserialization schema is needed: call set_deserialization_schema")
        return PulsarSource(
            self._topics,
            self._properties,
            self._schema,
            self._start,
            self._stop,
            self._ranges,
            self._boundedness,
        )

    def _subscribe(self, topics: tuple[str, ...] | re.Pattern[str]) -> PulsarSourceBuilder:
        if self._topics is not None:
            raise ConfigurationError(f"The topics are already {self._topics!r}: they can be set only once")
        self._topics = topics
        return self

    def _stop_at(self, stop_cursor: StopCursor, boundedness: Boundedness) -> PulsarSourceBuilder:
        if not isinstance(stop_cursor, StopCursor):
            raise TypeError(f"{stop_cursor!r} is not a StopCursor")
        self._stop, self._boundedness = stop_cursor, boundedness
        return self
