"""Options that turn a program into a job, and the Python dependencies of the program.

Source: org.apache.flink.configuration.PipelineOptions, org.apache.flink.python.PythonOptions.
"""

from __future__ import annotations

from flinkpy.configuration.options import (
    bool_option,
    duration_option,
    int_option,
    map_option,
    string_option,
)

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

PYTHON_FILES = string_option(
    "python.files",
    None,
    "Modules, packages and zip files that functions can import, separated by commas.",
)
PYTHON_REQUIREMENTS = string_option(
    "python.requirements",
    None,
    "Path of a requirements.txt; functions can import its packages. A directory of packages may follow after `#`. "
    "If it does, packages are installed only from there.",
)
PYTHON_ARCHIVES = string_option(
    "python.archives",
    None,
    "Archives to unpack into the working directory of functions, separated by commas. Each is unpacked into the "
    "directory named after `#`, or into one named like the archive.",
)
PYTHON_EXECUTABLE = string_option(
    "python.executable",
    "python",
    "Must be the program's own interpreter, because functions run inside the TaskExecutors.",
)
PYTHON_ENVIRONMENT_DIR = string_option(
    "python.environment.dir",
    None,
    "Directory on each host for the packages that jobs require. They are installed once and then reused. Default: "
    "one directory per user in the host's temporary directory.",
)
