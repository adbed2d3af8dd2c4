"""The options of the connectors `kinesis` and `firehose`.

Source: org.apache.flink.connector.kinesis.table.KinesisConnectorOptions,
org.apache.flink.connector.base.table.AsyncSinkConnectorOptions and
org.apache.flink.connector.aws.table.util.AWSOptionUtils.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import FlinkError, ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.connectors.kinesis import client
from flinkpy.connectors.kinesis.sinks import BufferSettings
from flinkpy.table.connectors.table_options import FORMAT, TableOptions

_STRING, _INT, _DURATION = OptionType.STRING, OptionType.INT, OptionType.DURATION


def _text(key: str, description: str, *fallback_keys: str) -> ConfigOption[str | None]:
    return ConfigOption(key, _STRING, None, description, fallback_keys)


STREAM = _text("stream.arn", "The data stream, by its ARN or name.", "stream")
DELIVERY_STREAM = _text("delivery-stream", "The delivery stream.")
REGION = _text("aws.region", "The region of the stream.")
ENDPOINT = _text("aws.endpoint", "The address of the service, if it is not that of the region.")
PROVIDER = _text("aws.credentials.provider", "The source of credentials: AUTO, BASIC, ENV_VAR, PROFILE, ...")
ACCESS_KEY = _text("aws.credentials.basic.accesskeyid", "The access key.", client.ACCESS_KEY)
SECRET_KEY = _text("aws.credentials.basic.secretkey", "The secret key.", client.SECRET_KEY)
PROFILE = _text("aws.credentials.profile.name", "The profile.", client.PROFILE)
TRUST_ALL = ConfigOption(client.TRUST_ALL, OptionType.BOOL, False, "True to accept any certificate of the service.")
INIT_POSITION = ConfigOption(
    "source.init.position",
    OptionType.ENUM,
    "LATEST",
    "Where reading begins.",
    ("scan.stream.initpos",),
    choices=("LATEST", "TRIM_HORIZON", "AT_TIMESTAMP"),
)
INIT_TIMESTAMP = _text("source.init.timestamp", "The time at which reading begins.", "scan.stream.initpos-timestamp")
INIT_FORMAT = _text("source.init.timestamp.format", "The form of that time.", "scan.stream.initpos-timestamp-format")
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
PARTITIONER = _text("sink.partitioner", "The partition key of rows: random or fixed.")
DELIMITER = ConfigOption(
    "sink.partitioner-field-delimiter", _STRING, "|", "Separates the columns of PARTITIONED BY in partition keys."
)
FAIL_ON_ERROR = ConfigOption(
    "sink.fail-on-error", OptionType.BOOL, False, "True if every refused record fails the job."
)
BATCH_SIZE: ConfigOption[int | None] = ConfigOption("sink.batch.max-size", _INT, None, "The records of a request.")
IN_FLIGHT: ConfigOption[int | None] = ConfigOption(
    "sink.requests.max-inflight", _INT, None, "The unanswered requests above which the task waits."
)
BUFFERED: ConfigOption[int | None] = ConfigOption(
    "sink.requests.max-buffered", _INT, None, "The buffered records above which the task waits."
)
FLUSH_SIZE: ConfigOption[int | None] = ConfigOption(
    "sink.flush-buffer.size", _INT, None, "The bytes at which a request is sent."
)
FLUSH_TIMEOUT: ConfigOption[int | None] = ConfigOption(
    "sink.flush-buffer.timeout", _INT, None, "The longest time in milliseconds that a record waits."
)

AWS_OPTIONS: tuple[ConfigOption[Any], ...] = (ENDPOINT, PROVIDER, ACCESS_KEY, SECRET_KEY, PROFILE, TRUST_ALL)
SOURCE_OPTIONS: tuple[ConfigOption[Any], ...] = (
    INIT_POSITION,
    INIT_TIMESTAMP,
    INIT_FORMAT,
    DISCOVERY,
    MAX_RECORDS,
    READER_TYPE,
)
BUFFER_OPTIONS: tuple[ConfigOption[Any], ...] = (
    FAIL_ON_ERROR,
    BATCH_SIZE,
    IN_FLIGHT,
    BUFFERED,
    FLUSH_SIZE,
    FLUSH_TIMEOUT,
)
REQUIRED_OPTIONS: tuple[ConfigOption[Any], ...] = (REGION, FORMAT)

#: Option -> the property of the client.
_AWS_PROPERTIES: dict[ConfigOption[Any], str] = {
    REGION: client.REGION,
    ENDPOINT: client.ENDPOINT,
    PROVIDER: client.PROVIDER,
    ACCESS_KEY: client.ACCESS_KEY,
    SECRET_KEY: client.SECRET_KEY,
    PROFILE: client.PROFILE,
    TRUST_ALL: client.TRUST_ALL,
}
_SOURCE_PROPERTIES: dict[ConfigOption[Any], str] = {
    INIT_POSITION: "flink.stream.initpos",
    INIT_TIMESTAMP: "flink.stream.initpos.timestamp",
    INIT_FORMAT: "flink.stream.initpos.timestamp.format",
    DISCOVERY: "flink.shard.discovery.intervalmillis",
    MAX_RECORDS: "flink.shard.getrecords.maxrecordcount",
    READER_TYPE: "flink.stream.recordpublisher",
}
_BUFFER_FIELDS: dict[ConfigOption[int | None], str] = {
    BATCH_SIZE: "max_batch_size",
    IN_FLIGHT: "max_in_flight_requests",
    BUFFERED: "max_buffered_requests",
    FLUSH_SIZE: "max_batch_size_in_bytes",
    FLUSH_TIMEOUT: "max_time_in_buffer_ms",
}


def client_properties(options: TableOptions, is_source: bool) -> dict[str, str]:
    """Returns the properties of the client, and those of the source. Raises: ValidationError."""
    wanted = {**_AWS_PROPERTIES, **(_SOURCE_PROPERTIES if is_source else {})}
    found = {key: str(options.get(option)) for option, key in wanted.items() if options.contains(option)}
    if client.TRUST_ALL in found:
        found[client.TRUST_ALL] = found[client.TRUST_ALL].lower()
    try:
        client.check_properties(found)
    except FlinkError as error:
        raise ValidationError(error.message) from error
    return found


def buffer_settings(options: TableOptions, defaults: BufferSettings) -> BufferSettings:
    """Returns the limits of the buffer and of requests. Raises: ValidationError."""
    changed = {name: options.get(option) for option, name in _BUFFER_FIELDS.items() if options.contains(option)}
    found = BufferSettings(**{**vars(defaults), **changed})
    try:
        found.check()
    except FlinkError as error:
        raise ValidationError(error.message) from error
    return found
