"""Options that every component may need: parallelism, directories, logs, the execution target and file systems.

Source: org.apache.flink.configuration.{CoreOptions,DeploymentOptions}, org.apache.flink.fs.s3.common.
"""

from __future__ import annotations

from flinkpy.configuration.options import (
    bool_option,
    enum_option,
    int_option,
    memory_option,
    string_option,
)

PARALLELISM = int_option(
    "parallelism.default", 1, "Parallelism of operators that do not set their own.", minimum=1, maximum=32768
)
TMP_DIRS = string_option(
    "io.tmp.dirs",
    None,
    "Directories for temporary files, separated by `,` or the system's path separator. Default: the system's "
    "temporary directory.",
)
LOG_LEVEL = enum_option(
    "env.log.level",
    ("DEBUG", "INFO", "WARNING", "WARN", "ERROR", "OFF", "TRACE"),
    "INFO",
    "Log level of all processes. They log to standard error or to their log file.",
)
LOG_RUNTIME_LEVEL = enum_option(
    "env.log.runtime-level",
    ("DEBUG", "INFO", "WARNING", "WARN", "ERROR", "OFF", "TRACE"),
    None,
    "Log level of flinkpy's own messages; `env.log.level` then applies to user functions. Default: `env.log.level`. "
    "If that is unset too and the processes share the output of a program (embedded cluster or application), the "
    "default is `ERROR`.",
)
LOG_RATE_LIMIT = int_option(
    "env.log.rate-limit",
    0,
    "Maximum average number of log records per second that user functions of one process may write. The process "
    "logs how many it dropped. 0 means no limit. If the processes share the output of a program, the default is 50.",
    minimum=0,
)
LOG_DIR = string_option(
    "env.log.dir",
    None,
    "Directory for the log files of all processes. A process whose standard error is no file there also writes its "
    "log to a file in it.",
)
LOG_FORMAT = enum_option(
    "env.log.format",
    ("text", "json"),
    "text",
    "Format of log records: `text` for people, `json` for machines. Both name the job and the task of each record.",
)
LOG_MAX = int_option(
    "env.log.max",
    10,
    "The maximum number of old log files to keep, for each process and for each JobMaster.",
    minimum=0,
)
LOG_MAX_SIZE = memory_option(
    "env.log.max-size",
    "100 mb",
    "A log file in `env.log.dir` of this size becomes an old one, and a new one begins. 0 means never.",
)
LOG_MAX_JOBS = int_option(
    "env.log.max-jobs",
    100,
    "The number of JobMasters whose log files stay in `env.log.dir`. Those of ended jobs are removed first.",
    minimum=1,
)
PID_DIR = string_option("env.pid.dir", None, "Directory where `flinkpy cluster` records its processes.")

#: The `execution.target` for debugging, see docs/debugging.md.
LOCAL_THREADS = "local-threads"
KUBERNETES_SESSION, KUBERNETES_APPLICATION = KUBERNETES_TARGETS = ("kubernetes-session", "kubernetes-application")
EXECUTION_TARGET = enum_option(
    "execution.target",
    ("local", LOCAL_THREADS, "remote", "embedded", "local-application", "spark", *KUBERNETES_TARGETS),
    None,
    "Where `execute()` submits a job: `remote` uses the cluster at `jobmanager.rpc.address`, `local` an embedded "
    "cluster of this program, `local-threads` a cluster of threads of this program, for debugging (see "
    "docs/debugging.md). `local-application` is for `flinkpy run`: the program runs in a dedicated cluster on "
    "this host. `spark` runs batch jobs in the Spark session of the program, without a cluster (see docs/spark.md). "
    "`kubernetes-session` and `kubernetes-application` are for `flinkpy run` and `flinkpy run-application` (see "
    "docs/kubernetes.md). "
    "Default: `remote` if an address is configured, otherwise `local`.",
)
EXECUTION_ATTACHED = bool_option(
    "execution.attached", False, "Let the client wait for the end of a job that it submits."
)
SHUTDOWN_ON_ATTACHED_EXIT = bool_option(
    "execution.shutdown-on-attached-exit",
    False,
    "End a job together with the client that waits for it. The client cancels the job on SIGTERM and SIGHUP, and "
    "the cluster cancels it after `client.heartbeat.timeout` without a heartbeat. Ctrl-C always cancels the job.",
)

# Without these options a file system finds its credentials by its own rules (environment, profile, role of the host).
S3_ACCESS_KEY = string_option("s3.access-key", None, "Access key for S3.", "s3.access.key")
S3_SECRET_KEY = string_option("s3.secret-key", None, "Secret key for S3.", "s3.secret.key")
S3_SESSION_TOKEN = string_option("s3.session-token", None, "Session token of temporary S3 credentials.")
S3_ENDPOINT = string_option("s3.endpoint", None, "Endpoint of an S3-compatible store, e.g. `http://localhost:9000`.")
S3_REGION = string_option("s3.endpoint.region", None, "Region of S3.", "s3.region")
S3_PATH_STYLE_ACCESS = bool_option(
    "s3.path.style.access",
    False,
    "Put the bucket name into the path instead of the host name. Most S3-compatible stores other than AWS need this.",
    "s3.path-style-access",
)
