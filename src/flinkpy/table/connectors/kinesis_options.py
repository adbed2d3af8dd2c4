"""The options of the connectors `kinesis` and `firehose`.

Source: org.apache.flink.connector.kinesis.table.KinesisConnectorOptions.
"""

from __future__ import annotations

from typing import Any

from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.table.connectors.aws_options import REGION, client_properties, given_properties, text_option
from flinkpy.table.connectors.table_options import FORMAT, TableOptions

_STRING, _INT, _DURATION = OptionType.STRING, OptionType.INT, OptionType.DURATION


STREAM = text_option("stream.arn", "The data stream, by its ARN or name.", "stream")
DELIVERY_STREAM = text_option("delivery-stream", "The delivery stream.")
INIT_POSITION = ConfigOption(
    "source.init.position",
    OptionType.ENUM,
    "LATEST",
    "Where reading begins.",
    ("scan.stream.initpos",),
    choices=("LATEST", "TRIM_HORIZON", "AT_TIMESTAMP"),
)
INIT_TIMESTAMP = text_option(
    "source.init.timestamp", "The time at which reading begins.", "scan.stream.initpos-timestamp"
)
INIT_FORMAT = text_option(
    "source.init.timestamp.format", "The form of that time.", "scan.stream.initpos-timestamp-format"
)
DISCOVERY: ConfigOption[int | None] = ConfigOption(
    "source.shard.discovery.interval", _DURATION, None, "How often shards are looked for."
)
MAX_RECORDS: ConfigOption[int | None] = ConfigOption(
    "source.shard.get-records.max-record-count",
    _INT,
    None,
    "The largest number of records of an answer.",
    ("scan.shard.getrecords.maxrecordcount",),
)
READER_TYPE = ConfigOption(
    "source.reader.type", OptionType.ENUM, "POLLING", "How records are fetched.", choices=("POLLING", "EFO")
)
PARTITIONER = text_option("sink.partitioner", "The partition key of rows: random or fixed.")
DELIMITER = ConfigOption(
    "sink.partitioner-field-delimiter", _STRING, "|", "Separates the columns of PARTITIONED BY in partition keys."
)
SOURCE_OPTIONS: tuple[ConfigOption[Any], ...] = (
    INIT_POSITION,
    INIT_TIMESTAMP,
    INIT_FORMAT,
    DISCOVERY,
    MAX_RECORDS,
    READER_TYPE,
)
REQUIRED_OPTIONS: tuple[ConfigOption[Any], ...] = (REGION, FORMAT)

_SOURCE_PROPERTIES: dict[ConfigOption[Any], str] = {
    INIT_POSITION: "flink.stream.initpos",
    INIT_TIMESTAMP: "flink.stream.initpos.timestamp",
    INIT_FORMAT: "flink.stream.initpos.timestamp.format",
    DISCOVERY: "flink.shard.discovery.intervalmillis",
    MAX_RECORDS: "flink.shard.getrecords.maxrecordcount",
    READER_TYPE: "flink.stream.recordpublisher",
}


def source_properties(options: TableOptions) -> dict[str, str]:
    """Returns the properties of the client and of the source. Raises: ValidationError."""
    return {**client_properties(options), **given_properties(options, _SOURCE_PROPERTIES)}
