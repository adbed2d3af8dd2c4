"""Which parts of a batch job run in Spark, and how. Beyond Flink; see docs/spark.md."""

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
    "What runs the operators of a batch job: flinkpy's own tasks, Spark, or what pays for the size of the inputs. An "
    "operator may say otherwise with `set_batch_backend`.",
)
MASTER = string_option(
    "execution.batch.spark.master",
    None,
    "Spark's master: `local[n]`, `spark://host:port`, `yarn`, `k8s://...`, or `sc://host:port` for Spark Connect. By "
    "default `local` with the cores of the TaskExecutor's host.",
)
MIN_INPUT_SIZE = memory_option(
    "execution.batch.spark.min-input-size",
    "4 gb",
    "With the backend `auto`: the size of the files that an operator's sources read, from which on Spark runs it.",
)
STAGING_DIR = string_option(
    "execution.batch.spark.staging-dir",
    None,
    "A directory that the TaskExecutors and Spark's executors reach under one path, for what goes between Spark and "
    "operators outside it. By default a temporary directory, where the master is `local`; any other master gets and "
    "gives such records through the driver.",
)
MAX_INPUT_WITHOUT_STAGING = memory_option(
    "execution.batch.spark.max-input-without-staging",
    "256 mb",
    "Without a staging directory: the most that operators outside of Spark may send to operators in one that is not "
    "local.",
)
START_TIMEOUT = duration_option(
    "execution.batch.spark.start-timeout",
    "2 min",
    "How long the start of a Spark session, or the connection to one, may take before the job fails.",
)
PROGRESS_INTERVAL = duration_option(
    "execution.batch.spark.progress-interval",
    "1 s",
    "How often a task asks Spark how far its stages are.",
)
UI_ENABLED = bool_option(
    "execution.batch.spark.ui.enabled", False, "Whether the Spark session of a TaskExecutor serves Spark's web pages."
)
ARROW_BATCH_ROWS = int_option(
    "execution.batch.spark.arrow-batch-rows",
    10_000,
    "The most records that Spark hands to a Python function at once.",
)

#: What follows is set in the session's configuration as it is.
CONF_PREFIX = "execution.batch.spark.conf."
