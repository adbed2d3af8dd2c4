"""How a program becomes a job. Source: org.apache.flink.configuration.PipelineOptions."""

from __future__ import annotations

from flinkpy.configuration.options import bool_option, duration_option, int_option, map_option, string_option

NAME = string_option("pipeline.name", None, "Name of the job.")
AUTO_GENERATE_UIDS = bool_option(
    "pipeline.auto-generate-uids", True, "Whether operators without a uid get one derived from the graph."
)
AUTO_WATERMARK_INTERVAL = duration_option(
    "pipeline.auto-watermark-interval", "200 ms", "Time between two periodic watermarks; 0 for none."
)
GENERIC_TYPES = bool_option(
    "pipeline.generic-types", True, "Whether values of no declared type may be pickled between tasks."
)
GLOBAL_JOB_PARAMETERS = map_option("pipeline.global-job-parameters", "Parameters that every function can read.")
MAX_PARALLELISM = int_option(
    "pipeline.max-parallelism",
    -1,
    "Number of key groups; derived from the parallelism where -1.",
    minimum=-1,
    maximum=32768,
)
OPERATOR_CHAINING = bool_option(
    "pipeline.operator-chaining.enabled", True, "Whether operators are chained into one task where they can be."
)
OPERATOR_CHAINING_DIFFERENT_MAX_PARALLELISM = bool_option(
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism",
    True,
    "Whether operators of different max parallelism may be chained.",
)
ALLOW_UNALIGNED_SOURCE_SPLITS = bool_option(
    "pipeline.watermark-alignment.allow-unaligned-source-splits",
    False,
    "Whether a source with watermark alignment may go on where its reader cannot pause a split that is ahead.",
)
WATERMARK_ALIGNMENT_BUFFER_SIZE = int_option(
    "pipeline.watermark-alignment.buffer-size",
    3,
    "With watermark alignment, how many update intervals ago the watermark was that is compared with the allowed one, "
    "because an announcement is as old when it arrives; 0 compares the newest.",
    minimum=0,
)
CACHED_FILES = string_option(
    "pipeline.cached-files",
    None,
    "Files that functions find by name, as with `register_cached_file`: `name:factors,path:/data/factors.txt;name:run,"
    "path:/data/run.sh,executable:true`. A file that the program registers under the same name counts.",
)
JOB_ID = string_option("$internal.pipeline.job-id", None, "JobID to submit under; drawn at random where unset.")
