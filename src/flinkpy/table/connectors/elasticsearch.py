"""The connectors `elasticsearch-6`, `elasticsearch-7`, `elasticsearch-8`, `opensearch` and `opensearch-2`: sinks.

They differ in the document type that Elasticsearch 6 needs, and in one option of OpenSearch. All speak the bulk API.

Source: org.apache.flink.connector.elasticsearch.table.{ElasticsearchDynamicSinkFactoryBase, ElasticsearchDynamicSink},
org.apache.flink.connector.opensearch.table.OpensearchDynamicSinkFactory. Differs: `elasticsearch-8` has the options of
`elasticsearch-7`, and a failure handler is one of the named ones, not a class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import FlinkError, ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType, without_effect
from flinkpy.connectors.elasticsearch.bulk_client import ConnectionSettings
from flinkpy.connectors.elasticsearch.sink import (
    BulkSettings,
    ElasticsearchSink,
    FailureHandling,
    FlushBackoffType,
)
from flinkpy.table.connectors.changelog_mode import INSERT_ONLY, UPSERT, ChangelogMode
from flinkpy.table.connectors.elasticsearch_documents import DocumentEmitter, IndexNames, check_keys
from flinkpy.table.connectors.table_factory import FactoryContext, TableFactory
from flinkpy.table.connectors.table_options import SINK_PARALLELISM
from flinkpy.table.connectors.table_sink import DynamicTableSink
from flinkpy.table.formats.table_format import format_of
from flinkpy.table.formats.table_format import identifiers as format_identifiers
from flinkpy.table.table_config import TableConfig

if TYPE_CHECKING:
    from flinkpy.connector_api.sink import SinkBase
    from flinkpy.table.connectors.table_options import TableOptions

_STRING, _INT, _DURATION = OptionType.STRING, OptionType.INT, OptionType.DURATION
_MB = 1 << 20

HOSTS: ConfigOption[str | None] = ConfigOption("hosts", _STRING, None, "URLs of hosts, separated by semicolons.")
INDEX: ConfigOption[str | None] = ConfigOption(
    "index", _STRING, None, "The index, with {column}, {column|pattern of a time} or {now()|pattern} in it."
)
DOCUMENT_TYPE: ConfigOption[str | None] = ConfigOption("document-type", _STRING, None, "The type of the documents.")
KEY_DELIMITER = ConfigOption("document-id.key-delimiter", _STRING, "_", "Separates the key columns in ids.")
USERNAME: ConfigOption[str | None] = ConfigOption("username", _STRING, None, "The name of the user.")
PASSWORD: ConfigOption[str | None] = ConfigOption("password", _STRING, None, "The password of the user.")
PATH_PREFIX: ConfigOption[str | None] = ConfigOption("connection.path-prefix", _STRING, None, "Begins all paths.")
REQUEST_TIMEOUT: ConfigOption[int | None] = without_effect(
    ConfigOption("connection.request-timeout", _DURATION, None, "Each writer has its own connection.")
)
CONNECTION_TIMEOUT: ConfigOption[int | None] = ConfigOption(
    "connection.timeout", _DURATION, None, "How long a connection may take."
)
SOCKET_TIMEOUT: ConfigOption[int | None] = ConfigOption(
    "socket.timeout", _DURATION, None, "How long an answer may take."
)
ALLOW_INSECURE = ConfigOption("allow-insecure", OptionType.BOOL, False, "True to accept any certificate of the hosts.")
FAILURE_HANDLER = ConfigOption(
    "failure-handler",
    OptionType.ENUM,
    "fail",
    "What is done about documents that the cluster refuses.",
    choices=tuple(each.value for each in FailureHandling),
)
DELIVERY = ConfigOption(
    "sink.delivery-guarantee",
    OptionType.ENUM,
    "at-least-once",
    "at-least-once: checkpoints wait until all documents are written.",
    choices=("at-least-once", "none"),
)
FLUSH_ON_CHECKPOINT = ConfigOption(
    "sink.flush-on-checkpoint", OptionType.BOOL, True, "The former name of 'sink.delivery-guarantee'."
)
MAX_ACTIONS = ConfigOption(
    "sink.bulk-flush.max-actions", _INT, 1_000, "The largest number of actions in a request; 0: no limit.", minimum=0
)
MAX_SIZE = ConfigOption(
    "sink.bulk-flush.max-size", OptionType.MEMORY, 2 * _MB, "The size at which a request is sent; 0: no limit."
)
INTERVAL = ConfigOption(
    "sink.bulk-flush.interval", _DURATION, 1_000, "The longest time that a document waits; 0: no limit."
)
BACKOFF = ConfigOption(
    "sink.bulk-flush.backoff.strategy",
    OptionType.ENUM,
    "DISABLED",
    "The pauses before a refused document is sent again.",
    choices=("DISABLED", "CONSTANT", "EXPONENTIAL"),
)
MAX_RETRIES = ConfigOption("sink.bulk-flush.backoff.max-retries", _INT, 8, "How often it is sent again.", minimum=1)
DELAY = ConfigOption("sink.bulk-flush.backoff.delay", _DURATION, 50, "The pause, or the first one.")
FORMAT = ConfigOption("format", _STRING, "json", "The format of documents, which must be JSON.")

_OPTIONS: tuple[ConfigOption[Any], ...] = (
    KEY_DELIMITER,
    USERNAME,
    PASSWORD,
    PATH_PREFIX,
    REQUEST_TIMEOUT,
    CONNECTION_TIMEOUT,
    SOCKET_TIMEOUT,
    FAILURE_HANDLER,
    DELIVERY,
    FLUSH_ON_CHECKPOINT,
    MAX_ACTIONS,
    MAX_SIZE,
    INTERVAL,
    BACKOFF,
    MAX_RETRIES,
    DELAY,
    FORMAT,
)
_BACKOFFS = {
    "DISABLED": FlushBackoffType.NONE,
    "CONSTANT": FlushBackoffType.CONSTANT,
    "EXPONENTIAL": FlushBackoffType.EXPONENTIAL,
}


class ElasticsearchTableFactory(TableFactory):
    """`'connector' = 'elasticsearch-7'`."""

    identifier = "elasticsearch-7"
    required_options: Sequence[ConfigOption[Any]] = (HOSTS, INDEX)
    optional_options: Sequence[ConfigOption[Any]] = _OPTIONS

    @property
    def option_prefixes(self) -> Sequence[str]:  # type: ignore[override]
        return tuple(f"{each}." for each in format_identifiers())

    def create_sink(self, context: FactoryContext) -> DynamicTableSink:
        options, schema = context.options, context.table.resolved_schema
        row_type = schema.to_physical_row_type()
        keys = schema.primary_key_indexes
        check_keys(row_type, keys)
        owner = f"table '{context.table.identifier.as_summary_string()}'"
        found, own = format_of(options.get(FORMAT), options, owner)
        zone = TableConfig(context.configuration).get_local_timezone()
        index = IndexNames.of(options.get(INDEX) or "", row_type, zone)
        document_type = options.get(DOCUMENT_TYPE) if DOCUMENT_TYPE in self.required_options else None
        documents = found.serialization_schema(row_type, own)
        emitter = DocumentEmitter(row_type, index, keys, options.get(KEY_DELIMITER), document_type, documents)
        connection = _connection(options)
        return ElasticsearchTableSink(self.identifier, emitter, connection, _bulk(options), options)


class Elasticsearch6TableFactory(ElasticsearchTableFactory):
    """`'connector' = 'elasticsearch-6'`."""

    identifier = "elasticsearch-6"
    required_options = (HOSTS, INDEX, DOCUMENT_TYPE)


class Elasticsearch8TableFactory(ElasticsearchTableFactory):
    """`'connector' = 'elasticsearch-8'`."""

    identifier = "elasticsearch-8"


class OpensearchTableFactory(ElasticsearchTableFactory):
    """`'connector' = 'opensearch'`."""

    identifier = "opensearch"
    optional_options = (*_OPTIONS, ALLOW_INSECURE)


class Opensearch2TableFactory(OpensearchTableFactory):
    """`'connector' = 'opensearch-2'`."""

    identifier = "opensearch-2"


def _connection(options: TableOptions) -> ConnectionSettings:
    """Returns the address of the cluster. Raises: ValidationError."""
    if options.contains(USERNAME) and not options.get(PASSWORD):
        raise ValidationError(
            f"'{USERNAME.key}' and '{PASSWORD.key}' must be set at the same time. Got: username "
            f"'{options.get(USERNAME)}' and no password",
            details={"option": PASSWORD.key},
        )
    hosts = tuple(each.strip() for each in (options.get(HOSTS) or "").split(";") if each.strip())
    if not hosts:
        raise ValidationError(f"'{HOSTS.key}' names no host", details={"option": HOSTS.key})
    try:
        return ConnectionSettings(
            hosts,
            options.get(USERNAME),
            options.get(PASSWORD),
            options.get(PATH_PREFIX),
            options.get(CONNECTION_TIMEOUT),
            options.get(SOCKET_TIMEOUT),
            checks_certificates=not options.get(ALLOW_INSECURE),
        )
    except FlinkError as error:
        raise ValidationError(
            f"Could not parse host of option '{HOSTS.key}': {error.message}", details={"option": HOSTS.key}
        ) from error


def _bulk(options: TableOptions) -> BulkSettings:
    """Returns when documents are sent. Raises: ValidationError."""
    size = options.get(MAX_SIZE)
    if size % _MB:
        raise ValidationError(
            f"'{MAX_SIZE.key}' must be in MB granularity. Got: {options.raw[MAX_SIZE.key]}",
            details={"option": MAX_SIZE.key},
        )
    backoff = _BACKOFFS[options.get(BACKOFF)]
    return BulkSettings(
        options.get(MAX_ACTIONS) or -1,
        size // _MB or -1,
        options.get(INTERVAL) or -1,
        backoff,
        0 if backoff is FlushBackoffType.NONE else options.get(MAX_RETRIES),
        options.get(DELAY),
        FailureHandling(options.get(FAILURE_HANDLER)),
    )


@dataclass(frozen=True)
class ElasticsearchTableSink(DynamicTableSink):
    """Adds documents; with a primary key it updates and deletes them, too. Delivers at least once by default."""

    identifier: str
    emitter: DocumentEmitter
    connection: ConnectionSettings
    bulk: BulkSettings
    options: TableOptions

    @property
    def summary(self) -> str:
        return "OpenSearch" if self.identifier.startswith("opensearch") else f"Elasticsearch{self.identifier[-1]}"

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        if requested != INSERT_ONLY and self.emitter.index.is_now:
            raise ValidationError(
                "Dynamic indexing based on system time only works on append only stream.", details={"option": INDEX.key}
            )
        return UPSERT if self.emitter.keys else INSERT_ONLY

    @property
    def parallelism(self) -> int | None:
        return self.options.get(SINK_PARALLELISM)

    def sink(self) -> SinkBase:
        flushes = self.options.get(DELIVERY) == "at-least-once" and self.options.get(FLUSH_ON_CHECKPOINT)
        return ElasticsearchSink(self.emitter, self.connection, self.bulk, flushes)
