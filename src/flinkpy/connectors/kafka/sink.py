"""KafkaSink: writes to topics of Apache Kafka: as records come, at least once, or exactly once.

Source: org.apache.flink.connector.kafka.sink.KafkaSink, pyflink.datastream.connectors.kafka.
"""

from __future__ import annotations

import logging
from typing import Any

from flinkpy.common.errors import ConfigurationError
from flinkpy.connector_api.serializer import SimpleVersionedSerializer
from flinkpy.connector_api.sink import Committer, SinkBase, SinkWriter, WriterContext
from flinkpy.connectors.kafka.client import api_timeout_s, boolean_property, client_settings, int_property
from flinkpy.connectors.kafka.committable import KafkaCommittableSerializer
from flinkpy.connectors.kafka.record_producer import DEFAULT_DELIVERY_TIMEOUT_MS
from flinkpy.connectors.kafka.serialization import KafkaRecordSerializationSchema
from flinkpy.datastream.connectors.base import DeliveryGuarantee

_LOG = logging.getLogger(__name__)

#: Flink's default: more than brokers allow unless told to (`transaction.max.timeout.ms`, 15 minutes).
DEFAULT_TRANSACTION_TIMEOUT_MS = 3_600_000
TRANSACTION_TIMEOUT = "transaction.timeout.ms"
#: A transactional id is a string of Kafka's protocol, which has a length of 16 bits.
MAX_PREFIX_BYTES = 64_000
#: Options of the sink, not of the client.
IGNORE_FAILURES = "ignore.failures.after.transaction.timeout"
LOG_FAILURES_ONLY = "log.failures.only"


class KafkaSink(SinkBase):
    """Built with `KafkaSink.builder()`.

    | delivery guarantee | after a failure | what a checkpoint waits for |
    |---|---|---|
    | NONE | records may be lost, or come twice | nothing |
    | AT_LEAST_ONCE | records may come twice | all records are stored |
    | EXACTLY_ONCE | a reader of committed records sees each once | all are stored, in a transaction not yet visible |
    """

    def __init__(
        self,
        guarantee: DeliveryGuarantee,
        properties: dict[str, str],
        transactional_id_prefix: str | None,
        schema: KafkaRecordSerializationSchema,
    ) -> None:
        self._guarantee = guarantee
        self._properties = properties
        self._prefix = transactional_id_prefix
        self._schema = schema

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        return KafkaSinkBuilder()

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        return self._guarantee

    @property
    def properties(self) -> dict[str, str]:
        """Of the producer, as the builder completed them."""
        return dict(self._properties)

    @property
    def transactional_id_prefix(self) -> str | None:
        return self._prefix

    @property
    def record_serializer(self) -> KafkaRecordSerializationSchema:
        return self._schema

    def get_transformer(self) -> None:
        """There is nothing to do before the sink: topic selectors are called by its writer."""
        return

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return self.restore_writer(context, [])

    def restore_writer(self, context: WriterContext, states: list[Any]) -> SinkWriter:
        settings = producer_settings(self._properties)
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            from flinkpy.connectors.kafka.writer import KafkaWriter

            logs_failures = boolean_property(self._properties, LOG_FAILURES_ONLY, False)
            flushes = self._guarantee is DeliveryGuarantee.AT_LEAST_ONCE
            return KafkaWriter(context, settings, self._schema, flushes, logs_failures)
        from flinkpy.connectors.kafka.exactly_once_writer import ExactlyOnceKafkaWriter

        assert self._prefix is not None
        timeout_s = api_timeout_s(self._properties)
        return ExactlyOnceKafkaWriter(context, settings, self._schema, self._prefix, timeout_s, states)

    def create_committer(self) -> Committer | None:
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return None
        from flinkpy.connectors.kafka.committer import KafkaCommitter

        ignores = boolean_property(self._properties, IGNORE_FAILURES, False)
        return KafkaCommitter(producer_settings(self._properties), api_timeout_s(self._properties), ignores)

    @property
    def commits_at_checkpoints(self) -> bool:
        return self._guarantee is DeliveryGuarantee.EXACTLY_ONCE

    @property
    def committable_serializer(self) -> SimpleVersionedSerializer:
        return KafkaCommittableSerializer()

    def __repr__(self) -> str:
        return f"KafkaSink({self._properties['bootstrap.servers']}, {self._guarantee.name})"


class KafkaSinkBuilder:
    """Builds a KafkaSink: bootstrap servers and a record serializer are needed, and for EXACTLY_ONCE a prefix for
    transactional ids that no other job has. The delivery guarantee is NONE unless set.
    """

    def __init__(self) -> None:
        self._guarantee = DeliveryGuarantee.NONE
        self._properties: dict[str, str] = {}
        self._prefix: str | None = None
        self._schema: KafkaRecordSerializationSchema | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """`host:port`, several with commas between."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise TypeError(f"{delivery_guarantee!r} is not a DeliveryGuarantee")
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """The names of transactions begin with it. It must stay the same over restarts of a job, and no other job on
        the same Kafka cluster may have it: they would roll back each other's transactions.
        """
        if not isinstance(transactional_id_prefix, str) or not transactional_id_prefix:
            raise TypeError(f"set_transactional_id_prefix: {transactional_id_prefix!r} is not a name")
        if len(transactional_id_prefix.encode()) > MAX_PREFIX_BYTES:
            raise ConfigurationError(
                "The configured prefix is too long and the resulting transactionalId might exceed Kafka's "
                "transactionalIds size."
            )
        self._prefix = transactional_id_prefix
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
        if not isinstance(record_serializer, KafkaRecordSerializationSchema):
            raise TypeError(f"{record_serializer!r} is not a KafkaRecordSerializationSchema")
        self._schema = record_serializer
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """A property of the Kafka producer, under the name that it has in Java or in librdkafka."""
        if not isinstance(key, str):
            raise TypeError(f"set_property: {key!r} is not the name of a property")
        self._properties[key] = str(value)
        return self

    def ignore_failures_after_transaction_timeout(self) -> KafkaSinkBuilder:
        """Beyond PyFlink: where Kafka has rolled back a transaction that a checkpoint has, go on without its records.
        Otherwise the job fails, and stays so until it is started from an older checkpoint, or with this.
        """
        return self.set_property(IGNORE_FAILURES, "true")

    def build(self) -> KafkaSink:
        """Raises: ConfigurationError: something is missing, or does not go together."""
        properties = dict(self._properties)
        if "bootstrap.servers" not in properties:
            raise ConfigurationError("bootstrapServers: Property bootstrap.servers is required but not provided")
        if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE and self._prefix is None:
            raise ConfigurationError(
                "EXACTLY_ONCE delivery guarantee requires a transactionalIdPrefix to be set to provide unique "
                "transaction names across multiple KafkaSinks writing to the same Kafka cluster."
            )
        if self._schema is None:
            raise ConfigurationError("recordSerializer: a record serializer is required but not provided")
        properties.setdefault(TRANSACTION_TIMEOUT, str(DEFAULT_TRANSACTION_TIMEOUT_MS))
        int_property(properties, TRANSACTION_TIMEOUT, 0)
        client_settings(properties)
        return KafkaSink(self._guarantee, properties, self._prefix, self._schema)


def producer_settings(properties: dict[str, str]) -> dict[str, Any]:
    """librdkafka's, with the defaults of Java's producer where they matter."""
    own = (IGNORE_FAILURES, LOG_FAILURES_ONLY)
    settings = client_settings({key: value for key, value in properties.items() if key not in own})
    # Java's way to choose a partition: other programs must find a key where they look for it.
    settings.setdefault("partitioner", "murmur2_random")
    if not {"delivery.timeout.ms", "message.timeout.ms"} & settings.keys():
        # A record that is not stored when its transaction times out has failed anyway.
        timeout_ms = int_property(properties, TRANSACTION_TIMEOUT, DEFAULT_TRANSACTION_TIMEOUT_MS)
        settings["delivery.timeout.ms"] = min(DEFAULT_DELIVERY_TIMEOUT_MS, timeout_ms)
    if "enable.idempotence" not in settings and str(settings.get("acks", "all")) in ("all", "-1"):
        settings["enable.idempotence"] = True
    return settings
