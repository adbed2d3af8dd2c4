"""KafkaSink: writes to topics of Apache Kafka, without a guarantee, at least once or exactly once.

Source: org.apache.flink.connector.kafka.sink.KafkaSink, pyflink.datastream.connectors.kafka.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import CommitError, ConfigurationError, KafkaError
from flinkpy.connector_api.serializer import SimpleVersionedSerializer
from flinkpy.connector_api.sink import Committer, DeliveryGuarantee, SinkBase, SinkWriter, WriterContext
from flinkpy.connectors.kafka.client import api_timeout_s, boolean_property, client_settings, int_property
from flinkpy.connectors.kafka.record_producer import DEFAULT_DELIVERY_TIMEOUT_MS
from flinkpy.connectors.kafka.serialization import KafkaRecordSerializationSchema

#: Flink's default. Brokers allow 15 minutes by default (`transaction.max.timeout.ms`).
DEFAULT_TRANSACTION_TIMEOUT_MS = 3_600_000
TRANSACTION_TIMEOUT = "transaction.timeout.ms"
#: Kafka's protocol stores the length of a transactional id in 16 bits. The subtask and the number need the rest.
MAX_PREFIX_BYTES = 64_000
#: Options of the sink, not of the client.
IGNORE_FAILURES = "ignore.failures.after.transaction.timeout"
LOG_FAILURES_ONLY = "log.failures.only"


class KafkaSink(SinkBase):
    """Writes to topics of a Kafka cluster.

    | delivery guarantee | after a failure | a checkpoint waits |
    |---|---|---|
    | NONE | records may be lost or duplicated | for nothing |
    | AT_LEAST_ONCE | records may be duplicated | until all records are stored |
    | EXACTLY_ONCE | a reader of committed records sees each once | until all are stored in an open transaction |

    Example:
        sink = (
            KafkaSink.builder()
            .set_bootstrap_servers("broker:9092")
            .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .set_transactional_id_prefix("billing")
            .set_property("transaction.timeout.ms", "900000")
            .set_record_serializer(schema)
            .build()
        )
        stream.sink_to(sink)
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
        """Returns a builder of a KafkaSink."""
        return KafkaSinkBuilder()

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        return self._guarantee

    @property
    def properties(self) -> dict[str, str]:
        """The properties of the producer, as the builder completed them."""
        return dict(self._properties)

    @property
    def transactional_id_prefix(self) -> str | None:
        return self._prefix

    @property
    def record_serializer(self) -> KafkaRecordSerializationSchema:
        return self._schema

    def get_transformer(self) -> None:
        """Returns None: the writer calls topic selectors, so the sink needs no transformation before it."""
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
        from flinkpy.connectors.kafka.writer import ExactlyOnceKafkaWriter

        assert self._prefix is not None
        timeout_s = api_timeout_s(self._properties)
        return ExactlyOnceKafkaWriter(context, settings, self._schema, self._prefix, timeout_s, states)

    def remove_uncommitted(self, job_id: str, committables: list[Any]) -> None:
        """Implements SupportsRemovingUncommitted. The prefix belongs to this sink, whatever the job."""
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return
        from flinkpy.connectors.kafka.transaction_client import TransactionClient
        from flinkpy.connectors.kafka.transactions import FENCING_TIMEOUT_MS, parse_transactional_id

        assert self._prefix is not None
        counted = {committable.transactional_id for committable in committables}
        client = TransactionClient(producer_settings(self._properties), api_timeout_s(self._properties))
        try:
            for transactional_id in client.list_open(f"{self._prefix}-"):
                if transactional_id not in counted and parse_transactional_id(self._prefix, transactional_id):
                    client.fence(transactional_id, FENCING_TIMEOUT_MS)
            for committable in committables:
                _check_open(client, committable)
        finally:
            client.close()

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
        from flinkpy.connectors.kafka.transaction_client import KafkaCommittableSerializer

        return KafkaCommittableSerializer()

    def __repr__(self) -> str:
        return f"KafkaSink({self._properties['bootstrap.servers']}, {self._guarantee.name})"


class KafkaSinkBuilder:
    """Builds a KafkaSink.

    Bootstrap servers and a record serializer are required. EXACTLY_ONCE also requires a prefix for transactional ids
    that no other job uses. The delivery guarantee is NONE by default.
    """

    def __init__(self) -> None:
        self._guarantee = DeliveryGuarantee.NONE
        self._properties: dict[str, str] = {}
        self._prefix: str | None = None
        self._schema: KafkaRecordSerializationSchema | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Sets the brokers to connect to first: `host:port`, separated by commas."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """Sets the delivery guarantee: NONE by default."""
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise TypeError(f"{delivery_guarantee!r} is not a DeliveryGuarantee")
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """Sets the prefix of the transactional ids, which EXACTLY_ONCE requires.

        It must stay the same over restarts of a job. No other job on the Kafka cluster may use it: the jobs would abort
        each other's transactions.

        Raises:
            TypeError: the argument is not a string, or is empty.
            ConfigurationError: the prefix is longer than 64,000 bytes.
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
        """Sets the schema that turns a record into a Kafka record."""
        if not isinstance(record_serializer, KafkaRecordSerializationSchema):
            raise TypeError(f"{record_serializer!r} is not a KafkaRecordSerializationSchema")
        self._schema = record_serializer
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """Sets a property of the Kafka producer.

        Args:
            key: the name of the property in Java, or in librdkafka.
            value: the value; it is converted to a string.
        """
        if not isinstance(key, str):
            raise TypeError(f"set_property: {key!r} is not the name of a property")
        self._properties[key] = str(value)
        return self

    def ignore_failures_after_transaction_timeout(self) -> KafkaSinkBuilder:
        """Makes the job continue if Kafka has aborted a transaction of a checkpoint. Its records are lost.

        Beyond PyFlink. Without this setting the job fails for good. It must then be started from an older checkpoint,
        or with this setting.
        """
        return self.set_property(IGNORE_FAILURES, "true")

    def build(self) -> KafkaSink:
        """Returns the sink.

        Raises:
            ConfigurationError: a required setting is missing, or settings contradict each other.
        """
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


def _check_open(client: Any, committable: Any) -> None:
    """Checks that a transaction can be committed. The writer of a later attempt of its subtask may have aborted it.

    Raises:
        CommitError: it was aborted. The records have to be written again.
    """
    try:
        found = client.describe(committable.transactional_id)
    except KafkaError as error:
        if error.details.get("code") != "TRANSACTIONAL_ID_NOT_FOUND":
            raise
        found = None
    producer = committable.producer_id, committable.producer_epoch
    if found is None or found.state != "Ongoing" or (found.producer_id, found.producer_epoch) != producer:
        raise CommitError(
            f"Kafka transaction {committable.transactional_id!r} was aborted before its commit, by another attempt of "
            "its subtask or by a timeout. Its records have to be written again"
        )


def producer_settings(properties: dict[str, str]) -> dict[str, Any]:
    """Returns the librdkafka settings of a producer, with the defaults of Java's producer where they matter."""
    own = (IGNORE_FAILURES, LOG_FAILURES_ONLY)
    settings = client_settings({key: value for key, value in properties.items() if key not in own})
    # Java's partitioner: other programs expect a key in the partition where Java puts it.
    settings.setdefault("partitioner", "murmur2_random")
    if not {"delivery.timeout.ms", "message.timeout.ms"} & settings.keys():
        # A record that is not stored before its transaction times out is lost anyway.
        timeout_ms = int_property(properties, TRANSACTION_TIMEOUT, DEFAULT_TRANSACTION_TIMEOUT_MS)
        settings["delivery.timeout.ms"] = min(DEFAULT_DELIVERY_TIMEOUT_MS, timeout_ms)
    if "enable.idempotence" not in settings and str(settings.get("acks", "all")) in ("all", "-1"):
        settings["enable.idempotence"] = True
    return settings
