"""The options of the connectors `kafka` and `upsert-kafka`.

Source: org.apache.flink.streaming.connectors.kafka.table.{KafkaConnectorOptions, KafkaConnectorOptionsUtil}.
"""

from __future__ import annotations

import re
from typing import Any

from flinkpy.common.errors import ConfigurationError, FlinkError, ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.connector_api.sink import DeliveryGuarantee
from flinkpy.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from flinkpy.connectors.kafka.partitions import KafkaTopicPartition
from flinkpy.connectors.kafka.serialization import FlinkFixedPartitioner
from flinkpy.table.connectors.kafka_messages import PartitionerClass
from flinkpy.table.connectors.table_options import FORMAT, SINK_PARALLELISM, TableOptions
from flinkpy.table.connectors.upsert_buffer import BufferLimits

#: The prefix of the options that are passed to the clients of Kafka.
PROPERTIES = "properties."

BOOTSTRAP_SERVERS: ConfigOption[str | None] = ConfigOption(
    "properties.bootstrap.servers", OptionType.STRING, None, "The brokers to connect to first: host:port, ..."
)
GROUP_ID: ConfigOption[str | None] = ConfigOption(
    "properties.group.id", OptionType.STRING, None, "The consumer group to which offsets are committed."
)
TOPIC: ConfigOption[str | None] = ConfigOption(
    "topic", OptionType.STRING, None, "The topic; for reading also several, separated by semicolons."
)
TOPIC_PATTERN: ConfigOption[str | None] = ConfigOption(
    "topic-pattern", OptionType.STRING, None, "A pattern of topics to read."
)
KEY_FORMAT: ConfigOption[str | None] = ConfigOption("key.format", OptionType.STRING, None, "The format of keys.")
KEY_FIELDS: ConfigOption[str | None] = ConfigOption(
    "key.fields", OptionType.STRING, None, "The columns in keys, separated by semicolons."
)
KEY_FIELDS_PREFIX = ConfigOption(
    "key.fields-prefix", OptionType.STRING, "", "The beginning of the names of key columns, not in the key itself."
)
VALUE_FORMAT: ConfigOption[str | None] = ConfigOption("value.format", OptionType.STRING, None, "The format of values.")
VALUE_FIELDS_INCLUDE = ConfigOption(
    "value.fields-include",
    OptionType.ENUM,
    "ALL",
    "The columns in values: all, or those that are not in keys.",
    choices=("ALL", "EXCEPT_KEY"),
)
STARTUP_MODE = ConfigOption(
    "scan.startup.mode",
    OptionType.ENUM,
    "group-offsets",
    "Where reading begins.",
    choices=("earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets"),
)
STARTUP_OFFSETS: ConfigOption[str | None] = ConfigOption(
    "scan.startup.specific-offsets", OptionType.STRING, None, "The offsets: partition:0,offset:42;partition:1,..."
)
STARTUP_TIMESTAMP: ConfigOption[int | None] = ConfigOption(
    "scan.startup.timestamp-millis", OptionType.INT, None, "The time of the first records in ms since 1970."
)
BOUNDED_MODE = ConfigOption(
    "scan.bounded.mode",
    OptionType.ENUM,
    "unbounded",
    "Where reading ends.",
    choices=("unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets"),
)
BOUNDED_OFFSETS: ConfigOption[str | None] = ConfigOption(
    "scan.bounded.specific-offsets", OptionType.STRING, None, "The offsets: partition:0,offset:42;partition:1,..."
)
BOUNDED_TIMESTAMP: ConfigOption[int | None] = ConfigOption(
    "scan.bounded.timestamp-millis", OptionType.INT, None, "The time of the last records in ms since 1970."
)
DISCOVERY_INTERVAL: ConfigOption[int | None] = ConfigOption(
    "scan.topic-partition-discovery.interval", OptionType.DURATION, None, "How often new partitions are looked for."
)
PARTITIONER = ConfigOption(
    "sink.partitioner",
    OptionType.STRING,
    "default",
    "The partition of a row: default (by the key, or at random), fixed (one for each subtask), round-robin, or a class "
    "derived from KafkaPartitioner: module.Class.",
)
DELIVERY = ConfigOption(
    "sink.delivery-guarantee",
    OptionType.ENUM,
    "at-least-once",
    "How often a row may appear after failures.",
    choices=("exactly-once", "at-least-once", "none"),
)
TRANSACTIONAL_ID_PREFIX: ConfigOption[str | None] = ConfigOption(
    "sink.transactional-id-prefix", OptionType.STRING, None, "The beginning of the ids of transactions."
)

FLUSH_ROWS = ConfigOption(
    "sink.buffer-flush.max-rows",
    OptionType.INT,
    0,
    "The number of changes after which the last one of each key is written; 0: changes are written as they come.",
    minimum=0,
)
FLUSH_INTERVAL = ConfigOption(
    "sink.buffer-flush.interval",
    OptionType.DURATION,
    0,
    "The longest time that a change is held back; 0: changes are written as they come.",
)

COMMON_OPTIONS: tuple[ConfigOption[Any], ...] = (
    GROUP_ID,
    KEY_FIELDS_PREFIX,
    BOUNDED_MODE,
    BOUNDED_OFFSETS,
    BOUNDED_TIMESTAMP,
    DISCOVERY_INTERVAL,
    DELIVERY,
    TRANSACTIONAL_ID_PREFIX,
    VALUE_FIELDS_INCLUDE,
)
KAFKA_OPTIONS: tuple[ConfigOption[Any], ...] = (
    *COMMON_OPTIONS,
    TOPIC,
    TOPIC_PATTERN,
    FORMAT,
    KEY_FORMAT,
    KEY_FIELDS,
    VALUE_FORMAT,
    STARTUP_MODE,
    STARTUP_OFFSETS,
    STARTUP_TIMESTAMP,
    PARTITIONER,
    SINK_PARALLELISM,
)

#: The class of the partitioner `fixed`.
_FIXED = f"{FlinkFixedPartitioner.__module__}.{FlinkFixedPartitioner.__name__}"
_GUARANTEES = {
    "exactly-once": DeliveryGuarantee.EXACTLY_ONCE,
    "at-least-once": DeliveryGuarantee.AT_LEAST_ONCE,
    "none": DeliveryGuarantee.NONE,
}
_OFFSET = re.compile(r"\s*partition\s*:\s*(\d+)\s*,\s*offset\s*:\s*(\d+)\s*")


def topics_of(options: TableOptions) -> list[str]:
    """Returns the topics of `topic`; none if there is `topic-pattern`. Raises: ValidationError."""
    topic, pattern = options.get(TOPIC), options.get(TOPIC_PATTERN)
    if topic is not None and pattern is not None:
        raise ValidationError("Option 'topic' and 'topic-pattern' shouldn't be set together.")
    if topic is None and pattern is None:
        raise ValidationError("Either 'topic' or 'topic-pattern' must be set.")
    return [each.strip() for each in (topic or "").split(";") if each.strip()]


def single_topic(options: TableOptions) -> str:
    """Returns the topic of a sink. Raises: ValidationError."""
    topics = topics_of(options)
    if len(topics) != 1:
        raise ValidationError(
            "The Kafka sink needs exactly one topic in option 'topic': it supports neither topic list nor topic pattern"
        )
    return topics[0]


def starting_offsets(options: TableOptions) -> KafkaOffsetsInitializer:
    """Returns where reading begins. Raises: ValidationError."""
    mode = options.get(STARTUP_MODE)
    if mode == "earliest-offset":
        return KafkaOffsetsInitializer.earliest()
    if mode == "latest-offset":
        return KafkaOffsetsInitializer.latest()
    if mode == "group-offsets":
        reset = options.raw.get(f"{PROPERTIES}auto.offset.reset", "none").upper()
        if reset not in KafkaOffsetResetStrategy.__members__:
            raise ValidationError(
                f"'{PROPERTIES}auto.offset.reset' is '{reset.lower()}', but must be one of "
                + ", ".join(each.lower() for each in KafkaOffsetResetStrategy.__members__)
            )
        return KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy[reset])
    return _offsets(options, mode, STARTUP_MODE, STARTUP_TIMESTAMP, STARTUP_OFFSETS)


def stopping_offsets(options: TableOptions) -> KafkaOffsetsInitializer | None:
    """Returns where reading ends; None: it does not. Raises: ValidationError."""
    mode = options.get(BOUNDED_MODE)
    if mode == "unbounded":
        return None
    if mode == "latest-offset":
        return KafkaOffsetsInitializer.latest()
    if mode == "group-offsets":
        return KafkaOffsetsInitializer.committed_offsets()
    return _offsets(options, mode, BOUNDED_MODE, BOUNDED_TIMESTAMP, BOUNDED_OFFSETS)


def _offsets(
    options: TableOptions,
    mode: str,
    mode_option: ConfigOption[Any],
    time_option: ConfigOption[int | None],
    offsets_option: ConfigOption[str | None],
) -> KafkaOffsetsInitializer:
    needed: ConfigOption[Any] = time_option if mode == "timestamp" else offsets_option
    if not options.contains(needed):
        raise ValidationError(
            f"'{needed.key}' is required in '{mode}' mode of '{mode_option.key}' but missing.",
            details={"option": needed.key},
        )
    if mode == "timestamp":
        return KafkaOffsetsInitializer.timestamp(options.get(time_option) or 0)
    (topic,) = topics_of(options) if len(topics_of(options)) == 1 else (None,)
    if topic is None:
        raise ValidationError(f"'{offsets_option.key}' works with exactly one topic in option 'topic'.")
    text = options.get(offsets_option) or ""
    found = {}
    for part in text.split(";"):
        match = _OFFSET.fullmatch(part)
        if match is None:
            raise ValidationError(
                f"Invalid properties '{offsets_option.key}' should follow the format "
                f"'partition:0,offset:42;partition:1,offset:300', but is '{text}'.",
                details={"option": offsets_option.key, "value": text},
            )
        found[KafkaTopicPartition(topic, int(match[1]))] = int(match[2])
    return KafkaOffsetsInitializer.offsets(found)


def delivery_of(options: TableOptions) -> DeliveryGuarantee:
    """Returns the guarantee of a sink. Raises: ValidationError."""
    found = _GUARANTEES[options.get(DELIVERY)]
    if found is DeliveryGuarantee.EXACTLY_ONCE and not options.contains(TRANSACTIONAL_ID_PREFIX):
        raise ValidationError(
            f"{TRANSACTIONAL_ID_PREFIX.key} must be specified when using DeliveryGuarantee.EXACTLY_ONCE."
        )
    return found


def partitioner_of(options: TableOptions) -> PartitionerClass | None:
    """Returns what chooses the partitions of rows; None if the producer does. Raises: ValidationError."""
    kind = options.get(PARTITIONER)
    if kind == "round-robin" and options.contains(KEY_FIELDS):
        raise ValidationError(
            "Currently 'round-robin' partitioner only works when option 'key.fields' is not specified.",
            details={"option": PARTITIONER.key},
        )
    if kind in ("default", "round-robin"):
        return None
    found = PartitionerClass(_FIXED if kind == "fixed" else kind)
    try:
        found.make()
    except ConfigurationError as error:
        raise ValidationError(
            f"Could not find and instantiate partitioner class '{kind}': '{PARTITIONER.key}' must be default, fixed, "
            f"round-robin, or the path of a class: {error.message}",
            details={"option": PARTITIONER.key, "value": kind},
        ) from error
    return found


def buffer_limits(options: TableOptions) -> BufferLimits | None:
    """Returns how long upserts are held back; None if they are not."""
    rows, interval_ms = options.get(FLUSH_ROWS), options.get(FLUSH_INTERVAL)
    return BufferLimits(rows, interval_ms) if rows and interval_ms else None


def client_properties(options: TableOptions) -> dict[str, str]:
    """Returns the properties of the clients: those with the prefix `properties.`."""
    return options.prefixed(PROPERTIES)


def built(builder: Any) -> Any:
    """Returns what a builder of the Kafka connector builds. Raises: ValidationError about its properties."""
    try:
        return builder.build()
    except FlinkError as error:
        raise ValidationError(f"kafka: {error.message}") from error
