"""KafkaOffsetsInitializer: the offsets at which reading begins and ends.

Source: org.apache.flink.connector.kafka.source.enumerator.initializer. Differs: the enumerator resolves all offsets.
In Flink, the readers resolve the earliest, latest and committed ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ConfigurationError, KafkaError
from flinkpy.connectors.kafka.client import load_confluent_kafka, typed_error
from flinkpy.connectors.kafka.partitions import KafkaTopicPartition

if TYPE_CHECKING:
    from concurrent.futures import Future

Offsets = dict[KafkaTopicPartition, int]


class KafkaOffsetResetStrategy(Enum):
    """The point at which reading continues if an offset does not exist: the end, the beginning, or none.

    Source: pyflink.datastream.connectors.kafka.KafkaOffsetResetStrategy.
    """

    LATEST = 0
    EARLIEST = 1
    NONE = 2


class PartitionOffsets:
    """Asks the brokers for offsets.

    Thread: an I/O thread. Every call blocks, for at most `timeout_s` seconds.

    Raises (all calls):
        KafkaError: the answer is late or an error; the message names the partition or the consumer group.
    """

    def __init__(self, admin: Any, group_id: str | None, is_read_committed: bool, timeout_s: float) -> None:
        self._admin = admin
        self._group_id = group_id
        self._is_read_committed = is_read_committed
        self._timeout_s = timeout_s

    def beginning(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """Returns the offset of the first record that still exists in each partition."""
        spec = load_confluent_kafka().admin.OffsetSpec.earliest()
        return self._list(dict.fromkeys(partitions, spec))

    def end(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """Returns the end of each partition. With `read_committed`, an open transaction lies behind the end."""
        spec = load_confluent_kafka().admin.OffsetSpec.latest()
        return self._list(dict.fromkeys(partitions, spec))

    def for_timestamp(self, partitions: Iterable[KafkaTopicPartition], timestamp: int) -> Offsets:
        """Returns the offset of the first record at or after a time in each partition. Omits partitions without one.

        Args:
            timestamp: milliseconds since 1970.
        """
        spec = load_confluent_kafka().admin.OffsetSpec.for_timestamp(timestamp)
        return {key: offset for key, offset in self._list(dict.fromkeys(partitions, spec)).items() if offset >= 0}

    def committed(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """Returns the offsets that the consumer group has committed. Omits partitions without one.

        Raises:
            ConfigurationError: the source has no consumer group.
        """
        if self._group_id is None:
            raise ConfigurationError("Kafka: committed offsets need a consumer group: set_group_id(...)")
        module = load_confluent_kafka()
        wanted = [module.TopicPartition(key.topic, key.partition) for key in partitions]
        if not wanted:
            return {}
        request = module.ConsumerGroupTopicPartitions(self._group_id, wanted)
        [future] = self._admin.list_consumer_group_offsets([request], request_timeout=self._timeout_s).values()
        found = self._result(future, f"the offsets of Kafka consumer group {self._group_id}")
        for answer in found.topic_partitions:
            if answer.error is not None:
                raise typed_error(answer.error, f"the committed offset of {answer.topic}-{answer.partition}")
        return {
            KafkaTopicPartition(answer.topic, answer.partition): answer.offset
            for answer in found.topic_partitions
            if answer.offset >= 0
        }

    def _list(self, specs: dict[KafkaTopicPartition, Any]) -> Offsets:
        if not specs:
            return {}
        module = load_confluent_kafka()
        asked = {module.TopicPartition(key.topic, key.partition): spec for key, spec in specs.items()}
        options: dict[str, Any] = {"request_timeout": self._timeout_s}
        if self._is_read_committed:
            options["isolation_level"] = module.IsolationLevel.READ_COMMITTED
        answers = self._admin.list_offsets(asked, **options)
        return {
            KafkaTopicPartition(key.topic, key.partition): self._result(
                future, f"the offsets of Kafka partition {key.topic}-{key.partition}"
            ).offset
            for key, future in answers.items()
        }

    def _result(self, future: Future[Any], what: str) -> Any:
        try:
            return future.result(self._timeout_s + 5)
        except TimeoutError as error:
            raise KafkaError(f"{what}: no answer within {self._timeout_s:g} s") from error
        except load_confluent_kafka().KafkaException as error:
            raise typed_error(error, what) from error


class KafkaOffsetsInitializer(ABC):
    """Determines the offsets at which reading begins or ends. Beyond PyFlink: subclass it.

    Source: pyflink.datastream.connectors.kafka.KafkaOffsetsInitializer.
    """

    @abstractmethod
    def get_partition_offsets(self, partitions: Iterable[KafkaTopicPartition], offsets: PartitionOffsets) -> Offsets:
        """Returns an offset per partition. Starting offsets need all partitions; stopping offsets may leave some out.

        Thread: an I/O thread.

        Args:
            partitions: the partitions to find offsets of.
            offsets: asks the brokers for offsets.
        """

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        """Returns where reading continues if a starting offset is out of range: deleted, or not written yet."""
        return KafkaOffsetResetStrategy.EARLIEST

    @property
    def needs_group(self) -> bool:
        """True if it asks for committed offsets."""
        return False

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """Returns an initializer with the offsets that the consumer group has committed.

        Args:
            offset_reset_strategy: used for partitions without a committed offset. With NONE, the job fails.
        """
        return _CommittedOffsets(_strategy(offset_reset_strategy))

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """Returns an initializer with the first record at or after a time, or the end of a partition without one.

        Args:
            timestamp: milliseconds since 1970.

        Raises:
            ValueError: `timestamp` is not a number from 0.
        """
        if isinstance(timestamp, bool) or not isinstance(timestamp, int) or timestamp < 0:
            raise ValueError(f"KafkaOffsetsInitializer.timestamp needs milliseconds since 1970, not {timestamp!r}")
        return _TimestampOffsets(timestamp)

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """Returns an initializer with the first record that still exists."""
        return _EarliestOffsets()

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Returns an initializer with the end of each partition when the job starts."""
        return _LatestOffsets()

    @staticmethod
    def offsets(
        offsets: dict[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Returns an initializer with given offsets.

        Args:
            offsets: an offset per partition.
            offset_reset_strategy: used for other partitions, and for offsets that are out of range.

        Raises:
            TypeError: a key is not a KafkaTopicPartition, or the strategy is not a KafkaOffsetResetStrategy.
            ValueError: a value is not an offset.
        """
        for key, offset in offsets.items():
            if not isinstance(key, KafkaTopicPartition):
                raise TypeError(f"KafkaOffsetsInitializer.offsets: {key!r} is not a KafkaTopicPartition")
            if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
                raise ValueError(f"KafkaOffsetsInitializer.offsets: {key}: {offset!r} is not an offset")
        return _SpecifiedOffsets(dict(offsets), _strategy(offset_reset_strategy))


class NoStoppingOffsets(KafkaOffsetsInitializer):
    """Stopping offsets of a source without an end."""

    def get_partition_offsets(self, partitions: Iterable[KafkaTopicPartition], offsets: PartitionOffsets) -> Offsets:
        return {}


class _EarliestOffsets(KafkaOffsetsInitializer):
    def get_partition_offsets(self, partitions: Iterable[KafkaTopicPartition], offsets: PartitionOffsets) -> Offsets:
        return offsets.beginning(partitions)


class _LatestOffsets(KafkaOffsetsInitializer):
    def get_partition_offsets(self, partitions: Iterable[KafkaTopicPartition], offsets: PartitionOffsets) -> Offsets:
        return offsets.end(partitions)

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        return KafkaOffsetResetStrategy.LATEST


class _TimestampOffsets(KafkaOffsetsInitializer):
    def __init__(self, timestamp: int) -> None:
        self._timestamp = timestamp

    def get_partition_offsets(self, partitions: Iterable[KafkaTopicPartition], offsets: PartitionOffsets) -> Offsets:
        partitions = list(partitions)
        found = offsets.for_timestamp(partitions, self._timestamp)
        return found | offsets.end(key for key in partitions if key not in found)

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        return KafkaOffsetResetStrategy.NONE


class _WithResetStrategy(KafkaOffsetsInitializer):
    def __init__(self, strategy: KafkaOffsetResetStrategy) -> None:
        self._strategy = strategy

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        return self._strategy

    def _reset(self, partitions: list[KafkaTopicPartition], offsets: PartitionOffsets, reason: str) -> Offsets:
        if not partitions:
            return {}
        if self._strategy is KafkaOffsetResetStrategy.NONE:
            names = ", ".join(map(repr, partitions))
            raise ConfigurationError(f"Kafka partitions {names}: {reason}, and the offset reset strategy is NONE")
        if self._strategy is KafkaOffsetResetStrategy.EARLIEST:
            return offsets.beginning(partitions)
        return offsets.end(partitions)


class _CommittedOffsets(_WithResetStrategy):
    @property
    def needs_group(self) -> bool:
        return True

    def get_partition_offsets(self, partitions: Iterable[KafkaTopicPartition], offsets: PartitionOffsets) -> Offsets:
        partitions = list(partitions)
        found = offsets.committed(partitions)
        missing = [key for key in partitions if key not in found]
        return found | self._reset(missing, offsets, "the consumer group has committed no offset")


class _SpecifiedOffsets(_WithResetStrategy):
    def __init__(self, given: Offsets, strategy: KafkaOffsetResetStrategy) -> None:
        super().__init__(strategy)
        self._given = given

    def get_partition_offsets(self, partitions: Iterable[KafkaTopicPartition], offsets: PartitionOffsets) -> Offsets:
        partitions = list(partitions)
        found = {key: self._given[key] for key in partitions if key in self._given}
        missing = [key for key in partitions if key not in found]
        return found | self._reset(missing, offsets, "no offset is given")


def _strategy(value: Any) -> KafkaOffsetResetStrategy:
    if not isinstance(value, KafkaOffsetResetStrategy):
        raise TypeError(f"{value!r} is not a KafkaOffsetResetStrategy")
    return value
