"""Loads confluent-kafka, creates its clients, and translates its settings and errors.

Users give the properties of the Java client, as with Flink. confluent-kafka takes librdkafka's names. Most names are
the same. This module translates the others and leaves out properties that name Java objects.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import Any

from flinkpy.common.errors import ConfigurationError, KafkaError, ProducerFencedError, UnsupportedOperationError

_LOG = logging.getLogger(__name__)
_CLIENT_LOG = logging.getLogger("flinkpy.connectors.kafka.client.librdkafka")

#: A client that cannot reach its brokers logs it several times a second. One line of a kind per interval is enough.
_REPEAT_INTERVAL_S = 30.0
#: Parts that differ between messages of one kind.
_VARYING = re.compile(r"\(after \d+ms.*|#\w+-\d+|\d+ms|\d+/\d+")
#: Enough for all kinds of librdkafka's messages about a few brokers. Beyond it the filter starts afresh.
_MAX_KINDS = 256


class _Repeats(logging.Filter):
    """Lets one message of a kind through per interval.

    Thread: any. A race may let one message too many through.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        #: By kind: the time of the last message that was let through, and the number of messages held back since.
        self._kinds: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        kind = _VARYING.sub("", message)
        now_s = self._now_s()
        last_s, held_back = self._kinds.get(kind, (-_REPEAT_INTERVAL_S, 0))
        if now_s - last_s < _REPEAT_INTERVAL_S:
            self._kinds[kind] = (last_s, held_back + 1)
            return False
        if len(self._kinds) >= _MAX_KINDS:
            self._kinds.clear()
        self._kinds[kind] = (now_s, 0)
        if held_back:
            record.msg = f"{message} (repeated {held_back} times since it was last logged)"
            record.args = ()
        return True


_CLIENT_LOG.addFilter(_Repeats())

#: The longest wait for the brokers in one call, as in the Java client.
API_TIMEOUT = "default.api.timeout.ms"
DEFAULT_API_TIMEOUT_MS = 60_000

#: Options of the source and the sink, not of the client.
PARTITION_DISCOVERY_INTERVAL = "partition.discovery.interval.ms"
COMMIT_OFFSETS_ON_CHECKPOINT = "commit.offsets.on.checkpoint"
CLIENT_ID_PREFIX = "client.id.prefix"
REGISTER_METRICS = "register.consumer.metrics"
REGISTER_PRODUCER_METRICS = "register.producer.metrics"

#: Properties without an effect on librdkafka: options of flinkpy, and properties that name Java objects or buffers.
_WITHOUT_EFFECT = {
    "key.deserializer",
    "value.deserializer",
    "key.serializer",
    "value.serializer",
    "partitioner.class",
    "interceptor.classes",
    "partition.assignment.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "max.poll.records",
    "auto.include.jmx.reporter",
    "send.buffer.bytes",
    "receive.buffer.bytes",
    "max.block.ms",
    "exclude.internal.topics",
    "request.timeout.ms",
    "sasl.login.callback.handler.class",
    API_TIMEOUT,
    PARTITION_DISCOVERY_INTERVAL,
    "stream-metadata-discovery-interval-ms",
    "stream-metadata-discovery-failure-threshold",
    COMMIT_OFFSETS_ON_CHECKPOINT,
    CLIENT_ID_PREFIX,
    REGISTER_METRICS,
    REGISTER_PRODUCER_METRICS,
}

#: librdkafka's names of Java properties.
_RENAMED = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "max.request.size": "message.max.bytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
}
_JAVA_FILES = ("ssl.truststore.location", "ssl.keystore.location")
_JAAS_FIELD = re.compile(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


def load_confluent_kafka() -> Any:
    """Returns the module `confluent_kafka`.

    Raises:
        UnsupportedOperationError: it is not installed.
    """
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError as error:
        raise UnsupportedOperationError(
            f"Kafka needs confluent-kafka, which cannot be imported ({error}): pip install 'flinkpy[kafka]'"
        ) from error
    return confluent_kafka


def client_settings(properties: dict[str, str]) -> dict[str, Any]:
    """Returns the librdkafka settings for properties of the Java client. Names of librdkafka are kept.

    Raises:
        ConfigurationError: properties need Java; the message names all of them.
    """
    wrong = [
        f"{key}: a Java key store cannot be read; set PEM files instead: ssl.ca.location, ssl.certificate.location, "
        "ssl.key.location"
        for key in _JAVA_FILES
        if key in properties
    ]
    settings: dict[str, Any] = {}
    for key, value in properties.items():
        if key in _WITHOUT_EFFECT or key in _JAVA_FILES:
            continue
        if key == "buffer.memory":  # in bytes; librdkafka counts in KiB
            settings["queue.buffering.max.kbytes"] = max(1, int(value) // 1024)
        elif key == "sasl.jaas.config":
            fields = dict(_JAAS_FIELD.findall(value))
            if "username" not in fields or "password" not in fields:
                wrong.append(f"{key} has no username and password; set sasl.username and sasl.password instead")
            settings.setdefault("sasl.username", fields.get("username", ""))
            settings.setdefault("sasl.password", fields.get("password", ""))
        else:
            settings[_RENAMED.get(key, key)] = value
    if wrong:
        raise ConfigurationError("; ".join(wrong))
    settings.setdefault("log_level", 4)
    settings["logger"] = _CLIENT_LOG
    return settings


def api_timeout_s(properties: dict[str, str]) -> float:
    return int_property(properties, API_TIMEOUT, DEFAULT_API_TIMEOUT_MS) / 1000


def int_property(properties: dict[str, str], key: str, default: int) -> int:
    value = properties.get(key)
    if value is None:
        return default
    try:
        return int(value)
    except ValueError:
        raise ConfigurationError(f"Kafka property {key} must be a whole number, not {value!r}") from None


def boolean_property(properties: dict[str, str], key: str, default: bool) -> bool:
    value = str(properties.get(key, default)).lower()
    if value not in ("true", "false"):
        raise ConfigurationError(f"Kafka property {key} must be true or false, not {properties[key]!r}")
    return value == "true"


def new_client(kind: str, settings: dict[str, Any]) -> Any:
    """Creates a client of confluent-kafka.

    Args:
        kind: "Consumer", "Producer" or "AdminClient".

    Raises:
        ConfigurationError: the client does not know a setting, or refuses its value.
    """
    module = load_confluent_kafka()
    client_class = module.admin.AdminClient if kind == "AdminClient" else getattr(module, kind)
    try:
        return client_class(settings)
    except (module.KafkaException, TypeError, ValueError) as error:
        inner = kafka_error_of(error)
        reason = error if inner is None else inner.str()
        raise ConfigurationError(f"Kafka {kind}: {reason}") from error


def kafka_error_of(error: BaseException) -> Any:
    """Returns the confluent_kafka.KafkaError inside a KafkaException, or None."""
    module = load_confluent_kafka()
    if isinstance(error, module.KafkaException) and error.args and isinstance(error.args[0], module.KafkaError):
        return error.args[0]
    return None


def typed_error(error: Any, what: str) -> KafkaError:
    """Converts a KafkaError or KafkaException of confluent-kafka to a FlinkError.

    Args:
        what: the operation and its brokers, topic or transaction; the message begins with it.
    """
    inner = error if hasattr(error, "code") else kafka_error_of(error)
    if inner is None:
        return KafkaError(f"{what}: {type(error).__name__}: {error}")
    module = load_confluent_kafka()
    code = inner.code()
    fenced = {module.KafkaError._FENCED, module.KafkaError.PRODUCER_FENCED, module.KafkaError.INVALID_PRODUCER_EPOCH}
    kind = ProducerFencedError if code in fenced else KafkaError
    made = kind(f"{what}: {inner.name()}: {inner.str()}", details={"code": inner.name()})
    made.__cause__ = error if isinstance(error, BaseException) else None
    return made
