"""The options of the connector `mongodb`.

Source: org.apache.flink.connector.mongodb.table.{MongoConnectorOptions, config.MongoConfiguration}.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import FlinkError, UnsupportedOperationError, ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.connectors.mongodb.client import MongoConnectionOptions
from flinkpy.connectors.mongodb.sink import MongoWriteOptions
from flinkpy.connectors.mongodb.splitters import STRATEGIES, MongoReadOptions
from flinkpy.table.connectors.lookup_options import LOOKUP_OPTIONS
from flinkpy.table.connectors.table_options import TableOptions

_STRING, _INT, _BOOL = OptionType.STRING, OptionType.INT, OptionType.BOOL
_ENUM, _DURATION, _MEMORY = OptionType.ENUM, OptionType.DURATION, OptionType.MEMORY

URI: ConfigOption[str | None] = ConfigOption("uri", _STRING, None, "The address, such as mongodb://host:27017.")
DATABASE: ConfigOption[str | None] = ConfigOption("database", _STRING, None, "The database of the collection.")
COLLECTION: ConfigOption[str | None] = ConfigOption("collection", _STRING, None, "The collection.")
FETCH_SIZE = ConfigOption("scan.fetch-size", _INT, 2048, "The documents of an answer.", minimum=1)
NO_TIMEOUT = ConfigOption(
    "scan.cursor.no-timeout", _BOOL, True, "True to let the server keep cursors that are not used for ten minutes."
)
STRATEGY = ConfigOption(
    "scan.partition.strategy", _ENUM, "default", "How the collection is divided.", choices=STRATEGIES
)
PARTITION_SIZE = ConfigOption("scan.partition.size", _MEMORY, 64 << 20, "The size of a partition.", minimum=1)
SAMPLES = ConfigOption(
    "scan.partition.samples", _INT, 10, "The samples per partition of the strategy 'sample'.", minimum=1
)
RECORD_SIZE: ConfigOption[int | None] = ConfigOption(
    "scan.partition.record-size", _INT, None, "The documents per partition of the strategy 'pagination'.", minimum=1
)
RETRY_INTERVAL = ConfigOption("lookup.retry.interval", _DURATION, 1_000, "The pause before the first repeated lookup.")
FILTERS = ConfigOption(
    "filter.handling.policy",
    _ENUM,
    "always",
    "Whether the server evaluates conditions of queries.",
    choices=("always", "never"),
)
FLUSH_ROWS = ConfigOption(
    "sink.buffer-flush.max-rows", _INT, 1_000, "The changes of a request; -1: no limit.", minimum=-1
)
FLUSH_INTERVAL = ConfigOption(
    "sink.buffer-flush.interval", _DURATION, 1_000, "The longest time that a change waits; 0: no limit."
)
DELIVERY = ConfigOption(
    "sink.delivery-guarantee",
    _ENUM,
    "at-least-once",
    "at-least-once: checkpoints wait until all changes are written.",
    choices=("none", "at-least-once", "exactly-once"),
)
SINK_RETRIES = ConfigOption("sink.max-retries", _INT, 3, "How often a failed request is repeated.", minimum=0)
SINK_RETRY_INTERVAL = ConfigOption("sink.retry.interval", _DURATION, 1_000, "The pause before the first repetition.")
ORDERED = ConfigOption(
    "sink.ordered-writes", _BOOL, True, "True to execute the changes of a request in their order, up to an error."
)
BYPASS = ConfigOption(
    "sink.bypass-validation", _BOOL, False, "True to write documents that the rules of the collection refuse."
)

REQUIRED_OPTIONS: tuple[ConfigOption[Any], ...] = (URI, DATABASE, COLLECTION)
OPTIONAL_OPTIONS: tuple[ConfigOption[Any], ...] = (
    FETCH_SIZE,
    NO_TIMEOUT,
    STRATEGY,
    PARTITION_SIZE,
    SAMPLES,
    RECORD_SIZE,
    RETRY_INTERVAL,
    FILTERS,
    FLUSH_ROWS,
    FLUSH_INTERVAL,
    DELIVERY,
    SINK_RETRIES,
    SINK_RETRY_INTERVAL,
    ORDERED,
    BYPASS,
    *LOOKUP_OPTIONS,
)


def connection_of(options: TableOptions) -> MongoConnectionOptions:
    """Returns the collection. Raises: ValidationError about the URI; UnsupportedOperationError without a client."""
    connection = MongoConnectionOptions(
        options.get(URI) or "", options.get(DATABASE) or "", options.get(COLLECTION) or ""
    )
    try:
        connection.check()
    except UnsupportedOperationError:
        raise
    except FlinkError as error:
        raise ValidationError(f"mongodb: {error.message}", details={"option": URI.key}) from error
    return connection


def reading_of(options: TableOptions) -> MongoReadOptions:
    """Returns how the collection is read. Raises: ValidationError."""
    strategy, records = options.get(STRATEGY), options.get(RECORD_SIZE)
    if (strategy == "pagination") != (records is not None):
        raise ValidationError(
            f"'{RECORD_SIZE.key}' must be set if '{STRATEGY.key}' is 'pagination', and only then",
            details={"option": RECORD_SIZE.key},
        )
    return MongoReadOptions(
        options.get(FETCH_SIZE),
        options.get(NO_TIMEOUT),
        strategy,
        options.get(PARTITION_SIZE),
        options.get(SAMPLES),
        records,
    )


def writing_of(options: TableOptions) -> MongoWriteOptions:
    """Returns when changes are written. Raises: ValidationError."""
    delivery = options.get(DELIVERY)
    if delivery == "exactly-once":
        raise ValidationError(
            f"'{DELIVERY.key}' = 'exactly-once' is not supported by MongoDB sinks: use at-least-once with a primary "
            "key, which writes a change again with the same result",
            details={"option": DELIVERY.key},
        )
    return MongoWriteOptions(
        options.get(FLUSH_ROWS) or -1,
        options.get(FLUSH_INTERVAL) or -1,
        options.get(SINK_RETRIES),
        options.get(SINK_RETRY_INTERVAL),
        delivery == "at-least-once",
        options.get(ORDERED),
        options.get(BYPASS),
    )
