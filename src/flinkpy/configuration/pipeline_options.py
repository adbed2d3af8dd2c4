"""How a program becomes a job. Source: org.apache.flink.configuration.PipelineOptions."""

from __future__ import annotations

from flinkpy.configuration.options import bool_option, duration_option, int_option, map_option, string_option

NAME = string_option("pipeline.name", None, "Name of the job.")
AUTO_GENERATE_UIDS = bool_option(
    "pipeline.auto-generate-uids",
    True,
    "Generate uids from the graph for operators without a uid. If false, such an operator is an error.",
)
AUTO_WATERMARK_INTERVAL = duration_option(
    "pipeline.auto-watermark-interval",
    "200 ms",
    "Interval between two periodic watermarks. 0 disables periodic watermarks.",
)
GENERIC_TYPES = bool_option(
    "pipeline.generic-types", True, "Allow values without a declared type, which are pickled between tasks."
)
GLOBAL_JOB_PARAMETERS = map_option(
    "pipeline.global-job-parameters", "Parameters that every function of the job can read."
)
MAX_PARALLELISM = int_option(
    "pipeline.max-parallelism",
    -1,
    "Maximum parallelism, which is also the number of key groups. -1 derives it from the parallelism.",
    minimum=-1,
    maximum=32768,
)
OPERATOR_CHAINING = bool_option(
    "pipeline.operator-chaining.enabled", True, "Chain operators into one task where possible."
)
OPERATOR_CHAINING_DIFFERENT_MAX_PARALLELISM = bool_option(
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism",
    True,
    "Allow operators with different maximum parallelism to be chained.",
)
ALLOW_UNALIGNED_SOURCE_SPLITS = bool_option(
    "pipeline.watermark-alignment.allow-unaligned-source-splits",
    False,
    "Allow watermark alignment with source readers that cannot pause single splits. A split that is ahead then "
    "continues.",
)
WATERMARK_ALIGNMENT_BUFFER_SIZE = int_option(
    "pipeline.watermark-alignment.buffer-size",
    3,
    "Number of update intervals by which the compared watermark lies in the past, because an announced watermark is "
    "that old when it arrives. 0 compares the newest watermark.",
    minimum=0,
)
CACHED_FILES = string_option(
    "pipeline.cached-files",
    None,
    "Files that functions find by name, as with `register_cached_file`: "
    "`name:factors,path:/data/factors.txt;name:run,path:/data/run.sh,executable:true`. A file that the program "
    "registers under the same name takes precedence.",
)
JOB_ID = string_option("$internal.pipeline.job-id", None, "JobID of the submitted job. Default: a random id.")
