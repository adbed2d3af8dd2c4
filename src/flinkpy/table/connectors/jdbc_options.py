"""The options of the connector `jdbc`.

Source: org.apache.flink.connector.jdbc.core.table.JdbcConnectorOptions.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType, without_effect
from flinkpy.connectors.jdbc.options import JdbcConnectionOptions, JdbcExecutionOptions
from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.connectors.lookup_options import LOOKUP_OPTIONS
from flinkpy.table.connectors.table_options import TableOptions

_STRING, _INT = OptionType.STRING, OptionType.INT

URL: ConfigOption[str | None] = ConfigOption("url", _STRING, None, "The JDBC URL, such as jdbc:postgresql://db/orders.")
TABLE_NAME: ConfigOption[str | None] = ConfigOption("table-name", _STRING, None, "The table of the database.")
DRIVER: ConfigOption[str | None] = ConfigOption("driver", _STRING, None, "The Python module of the driver.")
USERNAME: ConfigOption[str | None] = ConfigOption("username", _STRING, None, "The name of the user.")
PASSWORD: ConfigOption[str | None] = ConfigOption("password", _STRING, None, "The password of the user.")
PARTITION_COLUMN: ConfigOption[str | None] = ConfigOption(
    "scan.partition.column", _STRING, None, "The column by which the rows are divided."
)
PARTITION_NUM: ConfigOption[int | None] = ConfigOption(
    "scan.partition.num", _INT, None, "The number of partitions.", minimum=1
)
LOWER_BOUND: ConfigOption[int | None] = ConfigOption(
    "scan.partition.lower-bound", _INT, None, "The smallest value of the first partition."
)
UPPER_BOUND: ConfigOption[int | None] = ConfigOption(
    "scan.partition.upper-bound", _INT, None, "The largest value of the last partition."
)
FETCH_SIZE = ConfigOption("scan.fetch-size", _INT, 0, "The rows fetched at a time; 0: a default.", minimum=0)
_PARTITION_OPTIONS = (PARTITION_COLUMN, PARTITION_NUM, LOWER_BOUND, UPPER_BOUND)


AUTO_COMMIT = without_effect(
    ConfigOption("scan.auto-commit", OptionType.BOOL, True, "Results are always fetched in parts.")
)
RETRY_TIMEOUT = without_effect(
    ConfigOption(
        "connection.max-retry-timeout",
        OptionType.DURATION,
        60_000,
        "A broken connection is found when it is used.",
        minimum=1_000,
    )
)
FLUSH_ROWS = ConfigOption(
    "sink.buffer-flush.max-rows", _INT, 100, "The changes after which they are written; 0: no limit.", minimum=0
)
FLUSH_INTERVAL = ConfigOption(
    "sink.buffer-flush.interval", OptionType.DURATION, 1_000, "How long changes wait to be written; 0: no limit."
)
SINK_RETRIES = ConfigOption(
    "sink.max-retries", _INT, 3, "How often changes that could not be written are tried again.", minimum=0
)

JDBC_OPTIONS: tuple[ConfigOption[Any], ...] = (
    DRIVER,
    USERNAME,
    PASSWORD,
    RETRY_TIMEOUT,
    *_PARTITION_OPTIONS,
    FETCH_SIZE,
    AUTO_COMMIT,
    *LOOKUP_OPTIONS,
    FLUSH_ROWS,
    FLUSH_INTERVAL,
    SINK_RETRIES,
)


def connection_of(options: TableOptions) -> JdbcConnectionOptions:
    """Returns the address of the database. Raises: ValidationError."""
    url = options.get(URL)
    assert url is not None
    if options.contains(USERNAME) != options.contains(PASSWORD):
        raise ValidationError(
            f"Either all or none of the following options should be provided:\n{USERNAME.key}\n{PASSWORD.key}"
        )
    return JdbcConnectionOptions(url, options.get(DRIVER), options.get(USERNAME), options.get(PASSWORD))


def execution_of(options: TableOptions) -> JdbcExecutionOptions:
    """Returns when changes are written."""
    return JdbcExecutionOptions(options.get(FLUSH_ROWS), options.get(FLUSH_INTERVAL), options.get(SINK_RETRIES))


def check_partitions(options: TableOptions, row_type: RowType) -> None:
    """Checks the options of partitioned scans. Raises: ValidationError."""
    given = [option for option in _PARTITION_OPTIONS if options.contains(option)]
    if given and len(given) < len(_PARTITION_OPTIONS):
        raise ValidationError(
            "Either all or none of the following options should be provided:\n"
            + "\n".join(option.key for option in _PARTITION_OPTIONS)
        )
    lower, upper = options.get(LOWER_BOUND), options.get(UPPER_BOUND)
    if lower is not None and upper is not None and lower > upper:
        raise ValidationError(f"'{LOWER_BOUND.key}'='{lower}' must not be larger than '{UPPER_BOUND.key}'='{upper}'.")
    column = options.get(PARTITION_COLUMN)
    if column is not None and column not in row_type.names:
        raise ValidationError(
            f"'{PARTITION_COLUMN.key}' is '{column}', but the columns are {', '.join(row_type.names)}",
            details={"option": PARTITION_COLUMN.key, "value": column},
        )
