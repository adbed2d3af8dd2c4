"""Options of SQL and the Table API.

Source: org.apache.flink.table.api.config.{TableConfigOptions, ExecutionConfigOptions, OptimizerConfigOptions}.
"""

from __future__ import annotations

from flinkpy.configuration.options import duration_option, string_option

LOCAL_TIME_ZONE = string_option(
    "table.local-time-zone",
    "default",
    "Time zone of the session: a name such as `Europe/Berlin`, an offset such as `GMT+03:00`, or `default` for that of "
    "the client. TIMESTAMP_LTZ values are shown in it, and casts between DATE, TIMESTAMP and TIMESTAMP_LTZ use it.",
)
BUILTIN_CATALOG_NAME = string_option(
    "table.builtin-catalog-name", "default_catalog", "Name of the catalog that a new TableEnvironment begins with."
)
BUILTIN_DATABASE_NAME = string_option(
    "table.builtin-database-name", "default_database", "Name of the database that a new TableEnvironment begins with."
)
STATE_TTL = duration_option(
    "table.exec.state.ttl",
    "0 ms",
    "Time after which state that was not updated may be dropped. Results may then be wrong, but state stays bounded. 0 "
    "for never. The hint STATE_TTL sets it for an input of a join or an aggregate.",
)
