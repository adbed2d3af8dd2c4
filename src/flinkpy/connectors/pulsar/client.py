"""PulsarConnection: the operations of source and sink on a Pulsar cluster. DriverConnection uses `pulsar-client`.

Lists of topics and subscriptions come from Pulsar's admin URL, because `pulsar-client` does not offer them.
"""

from __future__ import annotations

import datetime
import json
import urllib.error
import urllib.parse
import urllib.request
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from flinkpy.common.errors import ConfigurationError, PulsarError, UnsupportedOperationError
from flinkpy.connectors.pulsar.cursors import StartPosition
from flinkpy.connectors.pulsar.message_id import PulsarMessageId


class PulsarMessage(NamedTuple):
    """A message. Times are in milliseconds since the epoch; an `event_time` of 0 means that there is none."""

    message_id: PulsarMessageId
    data: bytes
    event_time: int
    publish_time: int


class Subscription(ABC):
    """A reader's consumer of one partition. Thread: one thread may receive while another acknowledges."""

    @abstractmethod
    def receive(self) -> list[PulsarMessage]:
        """Returns messages that have arrived or arrive within a moment. May be empty. Raises: PulsarError."""

    @abstractmethod
    def acknowledge(self, message_ids: list[PulsarMessageId], is_cumulative: bool) -> None:
        """Acknowledges messages; with `is_cumulative`, all messages before them too. Raises: PulsarError."""

    @abstractmethod
    def close(self) -> None: ...


class TopicProducer(ABC):
    """Sends messages to one partition."""

    @abstractmethod
    def send_async(
        self,
        data: bytes,
        event_time: int | None,
        delay_ms: int | None,
        on_done: Callable[[str | None], None],
    ) -> None:
        """Sends a message. `on_done` is called by any thread, with an error text or None."""

    @abstractmethod
    def close(self) -> None: ...


class PulsarConnection(ABC):
    """A connection to a cluster. All methods may raise PulsarError."""

    @abstractmethod
    def partitions(self, topic: str) -> list[str]:
        """Returns the names of a topic's partitions, or the topic's name if it has none."""

    @abstractmethod
    def topics(self, namespace: str) -> list[str]:
        """Returns all topics of `tenant/namespace`, as `persistent://tenant/namespace/name`."""

    @abstractmethod
    def subscribe_at(self, partition: str, start: StartPosition, resets: bool) -> bool:
        """Creates the subscription if needed, so that a new one begins at `start`.

        With `resets` an existing subscription begins there too. Returns False if an existing subscription keeps its
        position although `start` is a message id or a time.
        """

    @abstractmethod
    def last_message_id(self, partition: str) -> PulsarMessageId | None:
        """Returns the id of the last message; None if the partition is empty."""

    @abstractmethod
    def subscribe(
        self, partition: str, ranges: tuple[tuple[int, int], ...], seek_to: PulsarMessageId | None
    ) -> Subscription:
        """Begins to receive messages.

        Args:
            ranges: ranges of key hashes. If empty, the subscription is exclusive to this reader.
            seek_to: the first message to receive. Some messages before it may come too.
        """

    @abstractmethod
    def produce(self, partition: str) -> TopicProducer: ...

    @abstractmethod
    def close(self) -> None: ...


SERVICE_URL = "pulsar.client.serviceUrl"
ADMIN_URL = "pulsar.admin.adminUrl"
AUTH_PLUGIN = "pulsar.client.authPluginClassName"
AUTH_PARAMS = "pulsar.client.authParams"
SUBSCRIPTION_NAME = "pulsar.consumer.subscriptionName"
CONSUMER_NAME = "pulsar.consumer.consumerName"
PRODUCER_NAME = "pulsar.producer.producerName"

_RECEIVE_MS = 100
_ADMIN_TIMEOUT_S = 30
_COMPRESSIONS = {"NONE": "NONE", "LZ4": "LZ4", "ZLIB": "ZLib", "ZSTD": "ZSTD", "SNAPPY": "SNAPPY"}


def load_pulsar() -> Any:
    try:
        import pulsar
    except ImportError as error:
        raise UnsupportedOperationError("Pulsar needs its client: pip install 'flinkpy[pulsar]'") from error
    return pulsar


def new_connection(properties: Mapping[str, str]) -> PulsarConnection:
    """Connects with pulsar-client. Raises: UnsupportedOperationError if it is not installed."""
    return DriverConnection(properties)


class DriverConnection(PulsarConnection):
    """A connection of pulsar-client."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._pulsar = load_pulsar()
        self._properties = properties
        self._name = properties.get(SUBSCRIPTION_NAME, "")
        self._client = self._call(SERVICE_URL, lambda: self._pulsar.Client(**self._client_arguments()))

    def partitions(self, topic: str) -> list[str]:
        return list(self._call(topic, lambda: self._client.get_topic_partitions(topic)))

    def topics(self, namespace: str) -> list[str]:
        listed = json.loads(self._admin(f"persistent/{namespace}"))
        return sorted({topic.split("-partition-")[0] for topic in listed})

    def subscribe_at(self, partition: str, start: StartPosition, resets: bool) -> bool:
        is_plain = start.kind in ("earliest", "latest")
        if not is_plain and not resets:
            resets = not self._has_subscription(partition)
        initial = self._pulsar.InitialPosition
        position = initial.Latest if start.kind == "latest" else initial.Earliest
        consumer = self._call(
            partition, lambda: self._client.subscribe(partition, self._name, initial_position=position)
        )
        try:
            if resets:
                self._call(partition, lambda: consumer.seek(self._seek_argument(start)))
        finally:
            consumer.close()
        return is_plain or resets

    def last_message_id(self, partition: str) -> PulsarMessageId | None:
        reader = self._call(
            partition, lambda: self._client.subscribe(partition, f"{self._name}-end", self._pulsar.ConsumerType.Shared)
        )
        try:
            found = self._id_of(self._call(partition, reader.get_last_message_id))
        finally:
            self._call(partition, reader.unsubscribe)
        return None if found.entry_id < 0 else found

    def subscribe(
        self, partition: str, ranges: tuple[tuple[int, int], ...], seek_to: PulsarMessageId | None
    ) -> Subscription:
        pulsar, properties = self._pulsar, self._properties
        arguments: dict[str, Any] = {"consumer_type": pulsar.ConsumerType.Exclusive}
        if ranges:
            arguments["consumer_type"] = pulsar.ConsumerType.KeyShared
            arguments["key_shared_policy"] = pulsar.ConsumerKeySharedPolicy(
                pulsar.KeySharedMode.Sticky, sticky_ranges=list(ranges)
            )
        if CONSUMER_NAME in properties:
            arguments["consumer_name"] = properties[CONSUMER_NAME]
        if "pulsar.consumer.receiverQueueSize" in properties:
            arguments["receiver_queue_size"] = int(properties["pulsar.consumer.receiverQueueSize"])
        max_records = int(properties.get("pulsar.source.maxFetchRecords", 1000))
        policy = pulsar.ConsumerBatchReceivePolicy(max_records, -1, _RECEIVE_MS)
        consumer = self._call(
            partition,
            lambda: self._client.subscribe(
                partition,
                self._name,
                start_message_id_inclusive=True,
                batch_receive_policy=policy,
                batch_index_ack_enabled=True,
                **arguments,
            ),
        )
        if seek_to is not None:
            self._call(partition, lambda: consumer.seek(pulsar.MessageId.deserialize(seek_to.to_bytes())))
        return _DriverSubscription(self, partition, consumer)

    def produce(self, partition: str) -> TopicProducer:
        properties = self._properties
        arguments: dict[str, Any] = {
            "block_if_queue_full": True,
            "batching_enabled": properties.get("pulsar.producer.batchingEnabled", "true").lower() == "true",
            "chunking_enabled": properties.get("pulsar.producer.chunkingEnabled", "false").lower() == "true",
            "send_timeout_millis": int(properties.get("pulsar.producer.sendTimeoutMs", 30_000)),
            "batching_max_messages": int(properties.get("pulsar.producer.batchingMaxMessages", 1000)),
        }
        delay_us = properties.get("pulsar.producer.batchingMaxPublishDelayMicros")
        if delay_us is not None:
            arguments["batching_max_publish_delay_ms"] = max(1, int(delay_us) // 1000)
        compression = properties.get("pulsar.producer.compressionType", "NONE").upper()
        if compression not in _COMPRESSIONS:
            raise ConfigurationError(
                f"pulsar.producer.compressionType must be one of {[*_COMPRESSIONS]}, not {compression!r}"
            )
        arguments["compression_type"] = getattr(self._pulsar.CompressionType, _COMPRESSIONS[compression])
        if PRODUCER_NAME in properties:
            # Pulsar refuses a second producer with the same name, so every subtask and attempt needs its own.
            arguments["producer_name"] = properties[PRODUCER_NAME].replace("%s", str(uuid.uuid4()))
        return _DriverProducer(
            self._call(partition, lambda: self._client.create_producer(partition, **arguments)), self._pulsar.Result.Ok
        )

    def close(self) -> None:
        self._client.close()

    def _client_arguments(self) -> dict[str, Any]:
        properties = self._properties
        arguments: dict[str, Any] = {"service_url": properties[SERVICE_URL]}
        for key, name, divisor in (
            ("pulsar.client.operationTimeoutMs", "operation_timeout_seconds", 1000),
            ("pulsar.client.connectionTimeoutMs", "connection_timeout_ms", 1),
            ("pulsar.client.numIoThreads", "io_threads", 1),
        ):
            if key in properties:
                arguments[name] = max(1, int(properties[key]) // divisor)
        for key, name in (
            ("pulsar.client.tlsAllowInsecureConnection", "tls_allow_insecure_connection"),
            ("pulsar.client.tlsHostnameVerificationEnable", "tls_validate_hostname"),
        ):
            if key in properties:
                arguments[name] = properties[key].lower() == "true"
        if "pulsar.client.tlsTrustCertsFilePath" in properties:
            arguments["tls_trust_certs_file_path"] = properties["pulsar.client.tlsTrustCertsFilePath"]
        if AUTH_PLUGIN in properties:
            arguments["authentication"] = self._authentication()
        return arguments

    def _authentication(self) -> Any:
        plugin, params = self._properties[AUTH_PLUGIN], self._properties.get(AUTH_PARAMS, "")
        if plugin.rpartition(".")[2] in ("AuthenticationToken", "token"):
            return self._pulsar.AuthenticationToken(params.removeprefix("token:"))
        return self._pulsar.Authentication(plugin, params)

    def _has_subscription(self, partition: str) -> bool:
        domain, _, name = partition.partition("://")
        tenant, namespace, topic = name.split("/", 2) if domain != partition else ("public", "default", partition)
        path = f"persistent/{tenant}/{namespace}/{urllib.parse.quote(topic, safe='')}/subscriptions"
        return self._name in json.loads(self._admin(path))

    def _admin(self, path: str) -> bytes:
        url = f"{self._properties[ADMIN_URL].rstrip('/')}/admin/v2/{path}"
        request = urllib.request.Request(url)
        params = self._properties.get(AUTH_PARAMS, "")
        if params.startswith("token:"):
            request.add_header("Authorization", f"Bearer {params.removeprefix('token:')}")
        try:
            with urllib.request.urlopen(request, timeout=_ADMIN_TIMEOUT_S) as answer:
                content: bytes = answer.read()
                return content
        except (OSError, urllib.error.HTTPError) as error:
            raise PulsarError(f"Pulsar's admin service at {url}: {error}") from error

    def _seek_argument(self, start: StartPosition) -> Any:
        message_id = self._pulsar.MessageId
        if start.kind == "publish_time":
            return start.timestamp
        if start.message_id is not None:
            return message_id.deserialize(start.message_id.to_bytes())
        return message_id.latest if start.kind == "latest" else message_id.earliest

    def _id_of(self, message_id: Any) -> PulsarMessageId:
        return PulsarMessageId(
            message_id.ledger_id(), message_id.entry_id(), message_id.batch_index(), message_id.partition()
        )

    def _call(self, what: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except self._pulsar.PulsarException as error:
            service = self._properties[SERVICE_URL]
            raise PulsarError(f"Pulsar at {service}, {what}: {type(error).__name__}: {error}") from error


class _DriverSubscription(Subscription):
    def __init__(self, connection: DriverConnection, partition: str, consumer: Any) -> None:
        self._connection = connection
        self._partition = partition
        self._consumer = consumer

    def receive(self) -> list[PulsarMessage]:
        return [
            PulsarMessage(
                self._connection._id_of(message.message_id()),
                message.data(),
                message.event_timestamp(),
                message.publish_timestamp(),
            )
            for message in self._connection._call(self._partition, self._consumer.batch_receive)
        ]

    def acknowledge(self, message_ids: list[PulsarMessageId], is_cumulative: bool) -> None:
        deserialize = self._connection._pulsar.MessageId.deserialize
        consumer = self._consumer
        acknowledge = consumer.acknowledge_cumulative if is_cumulative else consumer.acknowledge
        for message_id in message_ids:
            self._connection._call(self._partition, partial(acknowledge, deserialize(message_id.to_bytes())))

    def close(self) -> None:
        self._consumer.close()


class _DriverProducer(TopicProducer):
    def __init__(self, producer: Any, ok: Any) -> None:
        self._producer = producer
        self._ok = ok

    def send_async(
        self,
        data: bytes,
        event_time: int | None,
        delay_ms: int | None,
        on_done: Callable[[str | None], None],
    ) -> None:
        delay = None if delay_ms is None else datetime.timedelta(milliseconds=delay_ms)
        self._producer.send_async(
            data,
            lambda result, _: on_done(None if result == self._ok else str(result)),
            event_timestamp=event_time,
            deliver_after=delay,
        )

    def close(self) -> None:
        self._producer.close()


_Builder = TypeVar("_Builder", bound="PulsarBuilder")


class PulsarBuilder:
    """Collects the properties of a source or sink."""

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
