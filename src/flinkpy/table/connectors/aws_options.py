"""The options of all connectors of AWS: region, credentials, and the limits of buffers and requests of sinks.

Source: org.apache.flink.connector.aws.table.util.AWSOptionUtils and
org.apache.flink.connector.base.table.AsyncSinkConnectorOptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flinkpy.common.errors import FlinkError, ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.connectors.aws import client
from flinkpy.connectors.aws.async_writer import BufferSettings
from flinkpy.table.connectors.table_options import TableOptions

_INT = OptionType.INT


def text_option(key: str, description: str, *fallback_keys: str) -> ConfigOption[str | None]:
    return ConfigOption(key, OptionType.STRING, None, description, fallback_keys)


REGION = text_option("aws.region", "The region of the stream.")
ENDPOINT = text_option("aws.endpoint", "The address of the service, if it is not that of the region.")
PROVIDER = text_option("aws.credentials.provider", "The source of credentials: AUTO, BASIC, ENV_VAR, PROFILE, ...")
ACCESS_KEY = text_option("aws.credentials.basic.accesskeyid", "The access key.", client.ACCESS_KEY)
SECRET_KEY = text_option("aws.credentials.basic.secretkey", "The secret key.", client.SECRET_KEY)
PROFILE = text_option("aws.credentials.profile.name", "The profile.", client.PROFILE)
TRUST_ALL = ConfigOption(client.TRUST_ALL, OptionType.BOOL, False, "True to accept any certificate of the service.")
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
BUFFER_OPTIONS: tuple[ConfigOption[Any], ...] = (
    FAIL_ON_ERROR,
    BATCH_SIZE,
    IN_FLIGHT,
    BUFFERED,
    FLUSH_SIZE,
    FLUSH_TIMEOUT,
)

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
_BUFFER_FIELDS: dict[ConfigOption[int | None], str] = {
    BATCH_SIZE: "max_batch_size",
    IN_FLIGHT: "max_in_flight_requests",
    BUFFERED: "max_buffered_requests",
    FLUSH_SIZE: "max_batch_size_in_bytes",
    FLUSH_TIMEOUT: "max_time_in_buffer_ms",
}


def given_properties(options: TableOptions, properties: Mapping[ConfigOption[Any], str]) -> dict[str, str]:
    """Returns the values of the options that are set, by the names of properties."""
    return {key: str(options.get(option)) for option, key in properties.items() if options.contains(option)}


def client_properties(options: TableOptions) -> dict[str, str]:
    """Returns the properties of the client. Raises: ValidationError."""
    found = given_properties(options, _AWS_PROPERTIES)
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
