"""RecordProducer: sends batches with a producer of confluent-kafka and reports records that were not stored."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from flinkpy.common.errors import KafkaError
from flinkpy.connector_api.sink import SendMetrics
from flinkpy.connectors.kafka.client import load_confluent_kafka, new_client, typed_error
from flinkpy.connectors.kafka.serialization import EncodedRecords

_LOG = logging.getLogger(__name__)

#: The longest wait for the producer's queue before errors are checked again.
_WAIT_S = 0.5
#: The interval of librdkafka's statistics, which `currentSendTime` comes from. They are a text of some kilobytes.
STATISTICS_INTERVAL_MS = 5_000
#: The default of Java's producer. librdkafka's is five minutes.
DEFAULT_DELIVERY_TIMEOUT_MS = 120_000


class RecordProducer:
    """Sends records and waits until they are stored. It counts in `sends`, which producers of one writer share.

    After `delivery.timeout.ms` every record is stored or has failed, so no call waits longer than that.

    Thread: task thread. librdkafka sends on its own threads.

    Raises (all calls):
        KafkaError: records of an earlier call could not be stored.
    """

    def __init__(self, settings: dict[str, Any], sends: SendMetrics, logs_failures: bool = False) -> None:
        self._logs_failures = logs_failures
        self._sends = sends
        self._brokers = settings["bootstrap.servers"]
        self._error: KafkaError | None = None
        #: The number of records queued so far.
        self.num_sent = 0
        self._partitions: dict[str, list[int]] = {}
        self._producer = new_client(
            "Producer",
            {
                "statistics.interval.ms": STATISTICS_INTERVAL_MS,
                **settings,
                "stats_cb": self._on_statistics,
                "on_delivery": self._on_delivery_error,
                "delivery.report.only.error": True,
                "error_cb": self._on_client_error,
            },
        )

    @property
    def client(self) -> Any:
        return self._producer

    def send(self, records: EncodedRecords) -> None:
        """Queues the records in their order. Waits while the queue is full."""
        self._serving(self._producer.poll, 0)
        self.check()
        produce = self._producer.produce
        headers: Iterable[Any] = repeat(None) if records.headers is None else records.headers
        for topic, value, key, partition, timestamp, header in zip(
            records.topics, records.values, records.keys, records.partitions, records.timestamps, headers
        ):
            while True:
                try:
                    if header:
                        produce(topic, value, key, partition, timestamp=timestamp, headers=header)
                    else:
                        produce(topic, value, key, partition, timestamp=timestamp)
                    break
                except BufferError:
                    self._serving(self._producer.poll, _WAIT_S)
                    self.check()
                except load_confluent_kafka().KafkaException as error:
                    raise typed_error(error, f"Kafka topic {topic}") from error
        self.num_sent += len(records.values)
        self._sends.num_bytes = (self._sends.num_bytes or 0) + sum(map(len, filter(None, records.values)))

    def flush(self) -> None:
        """Waits until all records are stored."""
        while self._serving(self._producer.flush, _WAIT_S):
            self.check()
        self.check()

    def partitions_of(self, topic: str) -> list[int]:
        """Returns the partitions of a topic. The first call for a topic asks the brokers."""
        known = self._partitions.get(topic)
        if known is None:
            module = load_confluent_kafka()
            try:
                described = self._producer.list_topics(topic, timeout=60).topics[topic]
            except module.KafkaException as error:
                raise typed_error(error, f"Kafka topic {topic}: brokers {self._brokers} do not answer") from error
            if described.error is not None:
                raise typed_error(described.error, f"Kafka topic {topic} of brokers {self._brokers}")
            known = self._partitions[topic] = sorted(described.partitions)
        return known

    def close(self) -> None:
        """Drops the client. Unlike `Producer.close`, it neither waits for queued records nor ends a transaction."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge(blocking=False)

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def _serving(self, call: Callable[[float], int], timeout_s: float) -> int:
        """Makes a call that runs our callbacks, and converts its errors.

        confluent-kafka raises fatal errors here. After a callback has run, the error is the cause of a SystemError.
        """
        try:
            return call(timeout_s)
        except (load_confluent_kafka().KafkaException, SystemError) as error:
            self.check()
            raise typed_error(error.__cause__ or error, f"Kafka brokers {self._brokers}") from error

    def _on_delivery_error(self, error: Any, message: Any) -> None:
        if error is None:
            return
        self._sends.num_errors = (self._sends.num_errors or 0) + 1
        failed = typed_error(error, f"Kafka topic {message.topic()}, brokers {self._brokers}: a record was not stored")
        if self._logs_failures:
            _LOG.error("%s", failed)
        elif self._error is None:
            self._error = failed

    def _on_statistics(self, text: str) -> None:
        """Takes the send time from librdkafka's statistics: the wait in its queues and the request, in us."""
        times_us = [
            sum(broker.get(part, {}).get("avg", 0) for part in ("int_latency", "outbuf_latency", "rtt"))
            for broker in json.loads(text).get("brokers", {}).values()
        ]
        self._sends.last_send_ms = max(times_us, default=0) // 1000

    def _on_client_error(self, error: Any) -> None:
        if error.fatal() and self._error is None:
            self._error = typed_error(error, f"Kafka brokers {self._brokers}")
        else:
            _LOG.warning("Kafka brokers %s: %s", self._brokers, error)
