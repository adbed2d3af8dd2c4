"""Options of SQL and the Table API.

Source: org.apache.flink.table.api.config.{TableConfigOptions, ExecutionConfigOptions, OptimizerConfigOptions}.
"""

from __future__ import annotations

from flinkpy.configuration.options import bool_option, duration_option, enum_option, int_option, string_option

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
IDLE_TIMEOUT = duration_option(
    "table.exec.source.idle-timeout",
    "0 ms",
    "Time after which a source without rows no longer holds back watermarks. 0 for never.",
)
MINI_BATCH_ENABLED = bool_option(
    "table.exec.mini-batch.enabled",
    False,
    "Fold the changes of a key within a mini-batch, so that fewer changes are sent. The resulting rows are the same.",
)
MINI_BATCH_ALLOW_LATENCY = duration_option(
    "table.exec.mini-batch.allow-latency",
    "0 ms",
    "Longest time that rows wait in a mini-batch. Above 0 if mini-batches are enabled.",
)
MINI_BATCH_SIZE = int_option(
    "table.exec.mini-batch.size", -1, "Most rows of a mini-batch. Above 0 if mini-batches are enabled."
)
INTERVAL_JOIN_MIN_CLEANUP_INTERVAL = duration_option(
    "table.exec.interval-join.min-cleanup-interval",
    "0 ms",
    "How much longer an interval join keeps rows that can have no more partners. Above 0, the rows of outer joins that "
    "have no partner come later than the watermark, so operators after the join may drop them.",
)
ASYNC_LOOKUP_BUFFER_CAPACITY = int_option(
    "table.exec.async-lookup.buffer-capacity",
    100,
    "Most calls side by side of a lookup join whose connector looks up asynchronously. The hint LOOKUP sets it for one "
    "join.",
    minimum=1,
)
ASYNC_LOOKUP_TIMEOUT = duration_option(
    "table.exec.async-lookup.timeout", "3 min", "How long an asynchronous lookup may take, retries included."
)
ASYNC_LOOKUP_OUTPUT_MODE = enum_option(
    "table.exec.async-lookup.output-mode",
    ("ORDERED", "ALLOW_UNORDERED"),
    "ORDERED",
    "Whether the results of asynchronous lookups keep the order of their rows. With ALLOW_UNORDERED they do so only if "
    "the input has updates.",
)
ASYNC_SCALAR_CAPACITY = int_option(
    "table.exec.async-scalar.max-concurrent-operations",
    10,
    "Most calls side by side of the asynchronous scalar functions of an operator.",
    minimum=1,
)
MATERIALIZED_TABLE_FRESHNESS_THRESHOLD = duration_option(
    "materialized-table.refresh-mode.freshness-threshold",
    "30 min",
    "A materialized table without REFRESH_MODE whose FRESHNESS is shorter is refreshed continuously.",
)
MATERIALIZED_TABLE_FRESHNESS_CONTINUOUS = duration_option(
    "materialized-table.default-freshness.continuous",
    "3 min",
    "The freshness of a materialized table without FRESHNESS that is refreshed continuously.",
)
MATERIALIZED_TABLE_FRESHNESS_FULL = duration_option(
    "materialized-table.default-freshness.full",
    "1 h",
    "The freshness of a materialized table without FRESHNESS in FULL refresh mode.",
)
ASYNC_ML_PREDICT_CAPACITY = int_option(
    "table.exec.async-ml-predict.max-concurrent-operations",
    10,
    "Most calls side by side of the model of an ML_PREDICT.",
    minimum=1,
)
ASYNC_ML_PREDICT_TIMEOUT = duration_option(
    "table.exec.async-ml-predict.timeout", "3 min", "How long the prediction of a row by ML_PREDICT may take."
)
ASYNC_ML_PREDICT_OUTPUT_MODE = enum_option(
    "table.exec.async-ml-predict.output-mode",
    ("ORDERED", "ALLOW_UNORDERED"),
    "ORDERED",
    "If the results of ML_PREDICT may overtake one another. They keep the order of their rows with both values.",
)
ASYNC_SCALAR_TIMEOUT = duration_option(
    "table.exec.async-scalar.timeout", "3 min", "How long a call of an asynchronous scalar function may take."
)
ASYNC_SCALAR_RETRY_STRATEGY = enum_option(
    "table.exec.async-scalar.retry-strategy",
    ("NO_RETRY", "FIXED_DELAY"),
    "FIXED_DELAY",
    "Whether an asynchronous scalar function that fails is called again.",
)
ASYNC_SCALAR_RETRY_DELAY = duration_option(
    "table.exec.async-scalar.retry-delay", "100 ms", "The delay before another call."
)
ASYNC_SCALAR_MAX_ATTEMPTS = int_option(
    "table.exec.async-scalar.max-attempts",
    3,
    "How often an asynchronous scalar function that fails is called again before the job fails.",
    minimum=1,
)
UPSERT_MATERIALIZE = enum_option(
    "table.exec.sink.upsert-materialize",
    ("NONE", "AUTO", "FORCE"),
    "AUTO",
    "Whether an operator before an upsert sink brings the changes of a primary key into order. AUTO: if the query "
    "sends updates by another key.",
)
EMIT_EARLY_FIRE_ENABLED = bool_option(
    "table.exec.emit.early-fire.enabled",
    False,
    "Send results of group windows before their ends. A result that changes later is updated.",
)
EMIT_EARLY_FIRE_DELAY = duration_option(
    "table.exec.emit.early-fire.delay",
    None,
    "Interval of early results, from the first row of a window. 0 for each row. Required for early results.",
)
EMIT_LATE_FIRE_ENABLED = bool_option(
    "table.exec.emit.late-fire.enabled",
    False,
    "Take late rows of group windows, and update the results that they change.",
)
EMIT_LATE_FIRE_DELAY = duration_option(
    "table.exec.emit.late-fire.delay",
    None,
    "Interval of late results, from the first late row of a window. 0 for each row. Required for late results.",
)
EMIT_ALLOW_LATENESS = duration_option(
    "table.exec.emit.allow-lateness",
    None,
    "Time after the end of a window in which late rows are taken. By default `table.exec.state.ttl`.",
)
DML_SYNC = bool_option("table.dml-sync", False, "True makes `execute_sql` of an INSERT wait until the job has ended.")
MAX_COLUMN_WIDTH = int_option(
    "table.display.max-column-width", 30, "Longest text of a printed column; longer ones are cut.", minimum=1
)
AGG_PHASE_STRATEGY = enum_option(
    "table.optimizer.agg-phase-strategy",
    ("AUTO", "ONE_PHASE", "TWO_PHASE"),
    "AUTO",
    "Whether a GROUP BY with mini-batches aggregates rows before the exchange, too. AUTO: if its functions allow it.",
)
MULTI_JOIN_ENABLED = bool_option(
    "table.optimizer.multi-join.enabled",
    False,
    "Whether one operator computes a chain of inner and left joins over one key, without state for the results in "
    "between. The hint MULTI_JOIN asks for it for the joins of some tables.",
)
DISTINCT_AGG_SPLIT_ENABLED = bool_option(
    "table.optimizer.distinct-agg.split.enabled",
    False,
    "Whether aggregates of DISTINCT values of a GROUP BY are computed per bucket of values first, so that all subtasks "
    "take part where most rows are of few groups. It costs a second aggregation, and a row more per distinct column.",
)
DISTINCT_AGG_SPLIT_BUCKET_NUM = int_option(
    "table.optimizer.distinct-agg.split.bucket-num",
    1024,
    "The number of buckets of `table.optimizer.distinct-agg.split.enabled`.",
    minimum=1,
)
INCREMENTAL_AGG_ENABLED = bool_option(
    "table.optimizer.incremental-agg-enabled",
    True,
    "Whether an aggregation that `table.optimizer.distinct-agg.split.enabled` has split in two, each in two phases, "
    "runs in three operators: the second phase of the first and the first phase of the second are one.",
)
REUSE_SUB_PLAN_ENABLED = bool_option(
    "table.optimizer.reuse-sub-plan-enabled", True, "Whether equal parts of the plans of a job are computed once."
)
REUSE_SOURCE_ENABLED = bool_option(
    "table.optimizer.reuse-source-enabled",
    True,
    "Whether a table that a job reads several times in the same way is read once. Needs "
    "`table.optimizer.reuse-sub-plan-enabled`.",
)
REUSE_SINK_ENABLED = bool_option(
    "table.optimizer.reuse-sink-enabled",
    True,
    "Whether INSERTs of a statement set into the same table share one sink. Needs "
    "`table.optimizer.reuse-sub-plan-enabled`.",
)
DELTA_JOIN_STRATEGY = enum_option(
    "table.optimizer.delta-join.strategy",
    ("AUTO", "FORCE", "NONE"),
    "AUTO",
    "Whether joins look up each other's tables instead of keeping rows in state. None do so here: FORCE is an error.",
)
PLAN_COMPILE_CATALOG_OBJECTS = enum_option(
    "table.plan.compile.catalog-objects",
    ("ALL", "SCHEMA", "IDENTIFIER"),
    "ALL",
    "How much of permanent tables a compiled plan has: ALL is their schema and options, SCHEMA is no options, "
    "IDENTIFIER is the name only. Temporary tables are always written by name.",
)
PLAN_RESTORE_CATALOG_OBJECTS = enum_option(
    "table.plan.restore.catalog-objects",
    ("ALL", "ALL_ENFORCED", "IDENTIFIER"),
    "ALL",
    "Where a restored plan gets its tables from: ALL is the plan, and the catalog for what the plan lacks. "
    "ALL_ENFORCED is the plan alone. IDENTIFIER is the catalog alone.",
)
PLAN_FORCE_RECOMPILE = bool_option(
    "table.plan.force-recompile",
    False,
    "True makes COMPILE PLAN overwrite a file that exists. Use it for debugging only: the state of a job belongs to "
    "the plan that it was started with.",
)
UID_GENERATION = enum_option(
    "table.exec.uid.generation",
    ("PLAN_ONLY", "ALWAYS", "DISABLED"),
    "PLAN_ONLY",
    "Which operators get a uid from the planner: those of compiled plans, all, or none. Operators without a uid have "
    "an id that follows from their position in the job.",
)
UID_FORMAT = string_option(
    "table.exec.uid.format",
    "<id>_<transformation>",
    "Pattern of the uids of operators. `<id>` is the number of the node in its plan, `<type>` and `<version>` are its "
    "type, such as `stream-exec-calc` and `1`, and `<transformation>` is the operator.",
)
BATCH_ENGINE = enum_option(
    "table.exec.batch.engine",
    ("AUTO", "DUCKDB", "OPERATORS"),
    "AUTO",
    "What computes joins, aggregates, sorts and ranks in batch mode. DUCKDB: the embedded engine DuckDB, for all parts "
    "of a query in which its results are Flink's. OPERATORS: the operators of streaming mode. AUTO: Spark for a job "
    "that runs there (`execution.batch.backend`), and otherwise DuckDB if it is installed.",
)
RESOURCE_DEFAULT_PARALLELISM = int_option(
    "table.exec.resource.default-parallelism",
    -1,
    "Threads of each part of a batch query that DuckDB computes. -1 for the parallelism of the job.",
)
NONDETERMINISTIC_UPDATE_STRATEGY = enum_option(
    "table.optimizer.non-deterministic-update.strategy",
    ("TRY_RESOLVE", "IGNORE"),
    "IGNORE",
    "What happens to a query whose updates may be wrong because a function has another value when a row is taken back: "
    "IGNORE logs a warning, TRY_RESOLVE mends it where that is possible and otherwise refuses the query.",
)
SINK_NOT_NULL_ENFORCER = enum_option(
    "table.exec.sink.not-null-enforcer",
    ("ERROR", "DROP"),
    "ERROR",
    "What happens to a row with NULL in a NOT NULL column of the sink's table: ERROR fails the job, DROP drops it.",
)
SINK_TYPE_LENGTH_ENFORCER = enum_option(
    "table.exec.sink.type-length-enforcer",
    ("IGNORE", "TRIM_PAD", "ERROR"),
    "IGNORE",
    "What happens to values that do not have the length of CHAR, VARCHAR, BINARY or VARBINARY columns of the sink's "
    "table: IGNORE writes them, TRIM_PAD cuts them, and pads those for CHAR and BINARY, ERROR fails the job.",
)
SINK_KEYED_SHUFFLE = enum_option(
    "table.exec.sink.keyed-shuffle",
    ("NONE", "AUTO", "FORCE"),
    "AUTO",
    "Whether rows are partitioned by the primary key of the sink's table, so that changes of a key stay in order. "
    "AUTO: if the sink has more than one subtask and another parallelism than its input.",
)
SINK_REQUIRE_ON_CONFLICT = bool_option(
    "table.exec.sink.require-on-conflict",
    True,
    "True refuses an INSERT without ON CONFLICT whose rows do not have the primary key of the sink's table as a key, "
    "so that several of them may be written under one key.",
)
CATALOG_STORE_KIND = string_option(
    "table.catalog-store.kind",
    "generic_in_memory",
    "Where the options of CREATE CATALOG are kept: `generic_in_memory` is the session, `file` a directory, from which "
    "other sessions make the same catalogs.",
)
CATALOG_STORE_FILE_PATH = string_option(
    "table.catalog-store.file.path", "", "Directory of the catalog store `file`: a YAML file per catalog."
)
