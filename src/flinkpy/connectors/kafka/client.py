"""What all Kafka clients here share: confluent-kafka when it is needed, its settings, its errors as typed ones.

Properties are given as Flink's users write them, for the Java client. confluent-kafka takes librdkafka's names: most
are the same; the others are translated here, and those that say something about Java objects are left out.
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

#: A client that cannot reach its brokers says so several times a second; one line of a kind in this time is enough.
_REPEAT_INTERVAL_S = 30.0
#: How long it took is another one each time.
_VARYING = re.compile(r"\(after \d+ms.*|#\w+-\d+|\d+ms|\d+/\d+")
_MAX_KINDS = 256


class _Repeats(logging.Filter):
    """Lets one message of a kind through in a while. Thread: any; a race costs a line too many."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        #: When the last one of a kind was let through, and how many have not been since.
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
            record.msg, record.args = f"{message} (and {held_back} times since it was last said)", ()
        return True


_CLIENT_LOG.addFilter(_Repeats())

#: How long a call waits for the brokers, as the Java client's `default.api.timeout.ms`.
API_TIMEOUT = "default.api.timeout.ms"
DEFAULT_API_TIMEOUT_MS = 60_000

#: Options of the source, not of the client.
PARTITION_DISCOVERY_INTERVAL = "partition.discovery.interval.ms"
COMMIT_OFFSETS_ON_CHECKPOINT = "commit.offsets.on.checkpoint"
CLIENT_ID_PREFIX = "client.id.prefix"
REGISTER_METRICS = "register.consumer.metrics"
REGISTER_PRODUCER_METRICS = "register.producer.metrics"

#: Properties of the Java client that have nothing to act on here.
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

#: The same thing under librdkafka's name.
_RENAMED = {
    "sasl.mechanism": "sasl.mechanism",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "max.request.size": "message.max.bytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "connections.max.idle.ms": "connections.max.idle.ms",
    "buffer.memory": "",  # in bytes, there in KiB: see below
}
_JAVA_FILES = ("ssl.truststore.location", "ssl.keystore.location")
_JAAS_FIELD = re.compile(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


def load_confluent_kafka() -> Any:
    """The module `confluent_kafka`.

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
    """librdkafka's settings for properties of the Java client (its own names are kept).

    Raises:
        ConfigurationError: a property asks for what only Java has; names all of them.
    """
    wrong = [
        f"{key}: a Java key store cannot be read; give PEM files: ssl.ca.location, ssl.certificate.location, "
        "ssl.key.location"
        for key in _JAVA_FILES
        if key in properties
    ]
    settings: dict[str, Any] = {}
    for key, value in properties.items():
        if key in _WITHOUT_EFFECT or key in _JAVA_FILES:
            continue
        if key == "buffer.memory":
            settings["queue.buffering.max.kbytes"] = max(1, int(value) // 1024)
        elif key == "sasl.jaas.config":
            fields = dict(_JAAS_FIELD.findall(value))
            if "username" not in fields or "password" not in fields:
                wrong.append(f"{key}: no username and password in it; give sasl.username and sasl.password")
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
    """A Consumer, Producer or AdminClient of confluent-kafka.

    Raises:
        ConfigurationError: it does not know a setting, or refuses its value.
    """
    module = load_confluent_kafka()
    made_by = module.admin.AdminClient if kind == "AdminClient" else getattr(module, kind)
    try:
        return made_by(settings)
    except (module.KafkaException, TypeError, ValueError) as error:
        told = kafka_error_of(error)
        raise ConfigurationError(f"Kafka {kind}: {told.str() if told is not None else error}") from error


def kafka_error_of(error: BaseException) -> Any:
    """The confluent_kafka.KafkaError inside a KafkaException, or None."""
    module = load_confluent_kafka()
    if isinstance(error, module.KafkaException) and error.args and isinstance(error.args[0], module.KafkaError):
        return error.args[0]
    return None


def typed_error(error: Any, what: str) -> KafkaError:
    """`error` (a KafkaError or KafkaException of confluent-kafka) as ours; `what` says what was being done."""
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
