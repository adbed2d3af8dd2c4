"""The source and the sink of Apache Pulsar: PyFlink's `pyflink.datastream.connectors.pulsar`.

It needs `pip install 'flinkpy[pulsar]'`. Properties have Flink's keys: `pulsar.client...`, `pulsar.consumer...`,
`pulsar.producer...`, `pulsar.source...`, `pulsar.sink...`.
"""

from __future__ import annotations

import re
import warnings
from typing import Any, TypeVar

from flinkpy.common.config_options import ConfigOption
from flinkpy.common.errors import ConfigurationError, UnsupportedOperationError
from flinkpy.common.serialization import DeserializationSchema, SerializationSchema
from flinkpy.connector_api.source import Boundedness
from flinkpy.connectors.pulsar.client import (
    ADMIN_URL,
    AUTH_PARAMS,
    AUTH_PLUGIN,
    CONSUMER_NAME,
    PRODUCER_NAME,
    SERVICE_URL,
    SUBSCRIPTION_NAME,
)
from flinkpy.connectors.pulsar.cursors import RangeGenerator, StartCursor, StopCursor
from flinkpy.connectors.pulsar.sink import MessageDelayer, PulsarSink, TopicRouter, TopicRoutingMode
from flinkpy.connectors.pulsar.source import PulsarSource
from flinkpy.datastream.connectors.base import DeliveryGuarantee

__all__ = [
    "MessageDelayer",
    "PulsarSink",
    "PulsarSinkBuilder",
    "PulsarSource",
    "PulsarSourceBuilder",
    "RangeGenerator",
    "StartCursor",
    "StopCursor",
    "TopicRoutingMode",
]

_Builder = TypeVar("_Builder", bound="_PulsarBuilder")


class _PulsarBuilder:
    def __init__(self) -> None:
        self._properties: dict[str, str] = {}

    def _set(self: _Builder, key: str, value: Any) -> _Builder:
        """Sets a property. Raises: ConfigurationError if it already has another value."""
        text = str(value).lower() if isinstance(value, bool) else str(value)
        known = self._properties.setdefault(key, text)
        if known != text:
            raise ConfigurationError(f"{key} is already {known!r} and cannot be set to {text!r}")
        return self

    def _authenticate(self: _Builder, plugin: str, params: str | dict[str, str]) -> _Builder:
        if not isinstance(params, str):
            params = ",".join(f"{key}:{value}" for key, value in params.items())
        return self._set(AUTH_PLUGIN, plugin)._set(AUTH_PARAMS, params)

    def _require(self, **keys: str) -> None:
        for setter, key in keys.items():
            if not self._properties.get(key):
                raise ConfigurationError(f"{key} is needed: call {setter}")


class PulsarSourceBuilder(_PulsarBuilder):
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


class PulsarSinkBuilder(_PulsarBuilder):
    """Builds a sink. Service URL, admin URL, a serialization schema, and topics or a router are required."""

    def __init__(self) -> None:
        super().__init__()
        self._topics: tuple[str, ...] = ()
        self._schema: SerializationSchema | None = None
        self._guarantee = DeliveryGuarantee.NONE
        self._routing = TopicRoutingMode.ROUND_ROBIN
        self._router: TopicRouter | None = None
        self._delayer = MessageDelayer.never()

    def set_admin_url(self, admin_url: str) -> PulsarSinkBuilder:
        return self._set(ADMIN_URL, admin_url)

    def set_service_url(self, service_url: str) -> PulsarSinkBuilder:
        return self._set(SERVICE_URL, service_url)

    def set_producer_name(self, producer_name: str) -> PulsarSinkBuilder:
        """Sets the name of the producers in Pulsar's statistics.

        Pulsar does not allow two producers of a topic with the same name. Each name therefore contains a UUID: in place
        of `%s`, or at the end ("name - UUID") if there is no `%s`.
        """
        return self._set(PRODUCER_NAME, producer_name)

    def set_topics(self, topics: str | list[str]) -> PulsarSinkBuilder:
        """Sets the topics by name. They are written with all their partitions."""
        self._topics = (topics,) if isinstance(topics, str) else tuple(topics)
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> PulsarSinkBuilder:
        """Sets the guarantee. With NONE (the default) messages in flight are lost in a failure. With AT_LEAST_ONCE a
        checkpoint waits for them.
        """
        if delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise ConfigurationError(
                "PulsarSink does not support the EXACTLY_ONCE guarantee: Pulsar's Python client has no transactions"
            )
        self._guarantee = delivery_guarantee
        return self

    def set_topic_routing_mode(self, topic_routing_mode: TopicRoutingMode) -> PulsarSinkBuilder:
        """Sets how messages are distributed to partitions. `set_topic_router` sets CUSTOM."""
        if topic_routing_mode is TopicRoutingMode.CUSTOM:
            raise ConfigurationError("CUSTOM mode should be set by using set_topic_router method.")
        if not isinstance(topic_routing_mode, TopicRoutingMode):
            raise TypeError(f"{topic_routing_mode!r} is not a TopicRoutingMode")
        self._routing = topic_routing_mode
        return self

    def set_topic_router(self, topic_router_class_name: Any) -> PulsarSinkBuilder:
        """Sets a function that chooses the topic of each record.

        Args:
            topic_router_class_name: a function of the record and the partitions of `set_topics` that returns a topic.

        Raises:
            UnsupportedOperationError: it is the name of a Java class.
        """
        if not callable(topic_router_class_name):
            raise UnsupportedOperationError(
                f"set_topic_router: {topic_router_class_name!r} is a Java class, and flinkpy has no JVM; pass a "
                "callable (record, partitions) -> topic"
            )
        self._routing, self._router = TopicRoutingMode.CUSTOM, topic_router_class_name
        return self

    def set_serialization_schema(self, serialization_schema: SerializationSchema) -> PulsarSinkBuilder:
        self._schema = serialization_schema
        return self

    def set_authentication(
        self, auth_plugin_class_name: str, auth_params_string: str | dict[str, str]
    ) -> PulsarSinkBuilder:
        """Sets the authentication, as PulsarSourceBuilder does."""
        return self._authenticate(auth_plugin_class_name, auth_params_string)

    def delay_sending_message(self, message_delayer: MessageDelayer) -> PulsarSinkBuilder:
        if not isinstance(message_delayer, MessageDelayer):
            raise TypeError(f"{message_delayer!r} is not a MessageDelayer")
        self._delayer = message_delayer
        return self

    def set_config(self, key: str, value: Any) -> PulsarSinkBuilder:
        """Sets a property. Raises: ConfigurationError if it already has another value."""
        return self._set(key, value)

    def set_properties(self, config: dict[str, Any]) -> PulsarSinkBuilder:
        for key, value in config.items():
            self._set(key, value)
        return self

    def build(self) -> PulsarSink:
        """Returns the sink. Raises: ConfigurationError if a required setting is missing."""
        self._require(set_service_url=SERVICE_URL, set_admin_url=ADMIN_URL)
        if self._schema is None:
            raise ConfigurationError("A serialization schema is needed: call set_serialization_schema")
        if not self._topics and self._router is None:
            raise ConfigurationError("Neither topic names nor a topic router are provided")
        properties = dict(self._properties)
        if "%s" not in properties.get(PRODUCER_NAME, "%s"):
            properties[PRODUCER_NAME] += " - %s"
        waits = self._guarantee is DeliveryGuarantee.AT_LEAST_ONCE
        return PulsarSink(self._topics, properties, self._schema, waits, self._routing, self._router, self._delayer)
