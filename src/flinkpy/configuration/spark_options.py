"""Options of batch jobs that run in Spark. Beyond Flink; see docs/spark.md."""

from __future__ import annotations

from flinkpy.configuration.options import (
    bool_option,
    duration_option,
    enum_option,
    int_option,
    memory_option,
    string_option,
)

BACKEND = enum_option(
    "execution.batch.backend",
    ("auto", "native", "spark"),
    "auto",
    "What runs the operators of a batch job: `native` uses flinkpy's own tasks, `spark` uses Spark, `auto` chooses "
    "by the size of the inputs. `set_batch_backend` overrides it for one operator.",
)
MASTER = string_option(
    "execution.batch.spark.master",
    None,
    "Spark master: `local[n]`, `spark://host:port`, `yarn`, `k8s://...`, or `sc://host:port` for Spark Connect. "
    "Default: `local` with all cores of the TaskExecutor's host.",
)
MIN_INPUT_SIZE = memory_option(
    "execution.batch.spark.min-input-size",
    "4 gb",
    "With the backend `auto`: Spark runs an operator if the files that its sources read have at least this total size.",
)
STAGING_DIR = string_option(
    "execution.batch.spark.staging-dir",
    None,
    "Directory for records that pass between Spark and operators outside it: a path that TaskExecutors and Spark "
    "executors can access, or the URI of a file system that Spark has, such as `hdfs://`, `viewfs://`, `s3a://` "
    "(`s3://` is not one), `abfs://` or `gs://`, with their jars and settings in `execution.batch.spark.conf.*`. "
    "Spark's driver copies files to and from a URI. Spark Connect takes a path only. Default: a temporary directory "
    "if the master is `local`. With any other master, such records pass through the Spark driver.",
)
STAGING_CLEANUP_AGE = duration_option(
    "execution.batch.spark.staging-cleanup-age",
    "1 d",
    "The files of an attempt in the staging directory are removed if its process has not been alive for this time: it, "
    "its host or Spark's driver has died. At least 10 minutes; 0 keeps them.",
)
MAX_INPUT_WITHOUT_STAGING = memory_option(
    "execution.batch.spark.max-input-without-staging",
    "256 mb",
    "Maximum amount of data that operators outside Spark may send to a Spark that is not local, if there is no "
    "staging directory.",
)
START_TIMEOUT = duration_option(
    "execution.batch.spark.start-timeout",
    "2 min",
    "Timeout for starting a Spark session or connecting to one. After it, the job fails.",
)
SESSION_IDLE_TIMEOUT = duration_option(
    "execution.batch.spark.session.idle-timeout",
    "5 min",
    "A Spark session that no job has used for this long ends, with its driver and its executors. With dynamic "
    "allocation, which is on by default where the master has it, unused executors are given back earlier.",
)
MAX_SESSIONS = int_option(
    "execution.batch.spark.session.max-number",
    4,
    "Maximum number of Spark sessions that a TaskExecutor runs at a time. Jobs with other settings "
    "(`execution.batch.spark.master`, `execution.batch.spark.conf.*`) get sessions of their own. At the maximum, the "
    "session that was unused longest ends first. If all are in use, the job waits.",
)
PROGRESS_INTERVAL = duration_option(
    "execution.batch.spark.progress-interval",
    "1 s",
    "Interval at which a task asks Spark for the progress of its stages.",
)
UI_ENABLED = bool_option(
    "execution.batch.spark.ui.enabled", False, "Serve Spark's web UI from the Spark session of a TaskExecutor."
)
ARROW_BATCH_ROWS = int_option(
    "execution.batch.spark.arrow-batch-rows",
    10_000,
    "Maximum number of records that Spark passes to a Python function in one call.",
)

#: Prefix of options that are passed on to the configuration of the Spark session.
CONF_PREFIX = "execution.batch.spark.conf."
