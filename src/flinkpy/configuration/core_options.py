"""Options every component may need. Source: org.apache.flink.configuration.{CoreOptions,DeploymentOptions}."""

from __future__ import annotations

from flinkpy.configuration.options import bool_option, enum_option, int_option, string_option

PARALLELISM = int_option(
    "parallelism.default", 1, "Parallelism of operators that set none of their own.", minimum=1, maximum=32768
)
TMP_DIRS = string_option(
    "io.tmp.dirs",
    None,
    "Directories for temporary files, separated by `,` or the system's path separator; the system's own where unset.",
)
LOG_LEVEL = enum_option(
    "env.log.level",
    ("DEBUG", "INFO", "WARNING", "WARN", "ERROR", "OFF", "TRACE"),
    "INFO",
    "Level of the log that processes write to standard error or their log file.",
)
LOG_RUNTIME_LEVEL = enum_option(
    "env.log.runtime-level",
    ("DEBUG", "INFO", "WARNING", "WARN", "ERROR", "OFF", "TRACE"),
    None,
    "Level of what flinkpy itself logs, where it differs from `env.log.level`, which then is that of user functions. "
    "Unset: `env.log.level`; `ERROR` where the processes share the output of a program (an embedded cluster, an "
    "application) and `env.log.level` is unset too.",
)
LOG_RATE_LIMIT = int_option(
    "env.log.rate-limit",
    0,
    "Records of user functions that one process logs in a second at most, on average; it says how many it left out. "
    "0 is no limit; where the processes share the output of a program, 50 is the default.",
    minimum=0,
)
LOG_DIR = string_option("env.log.dir", None, "Directory of the processes' log files.")
PID_DIR = string_option("env.pid.dir", None, "Directory where `flinkpy cluster` keeps what it knows of its processes.")

EXECUTION_TARGET = enum_option(
    "execution.target",
    ("local", "remote", "embedded", "local-application"),
    None,
    "Where `execute()` sends a job: `remote` to the cluster of `jobmanager.rpc.address`, `local` to an embedded "
    "cluster of this program. Unset: `remote` where an address is configured, else `local`. `local-application` is for "
    "`flinkpy run`: the program gets a cluster of its own on this host, and runs there.",
)
EXECUTION_ATTACHED = bool_option(
    "execution.attached", False, "Whether the client of a submitted job waits for its end."
)
SHUTDOWN_ON_ATTACHED_EXIT = bool_option(
    "execution.shutdown-on-attached-exit",
    False,
    "Whether a job that a client waits for ends with the client: the client cancels it when it is told to end "
    "(SIGTERM, SIGHUP), and the cluster cancels it where nothing was heard of the client for "
    "`client.heartbeat.timeout`. Ctrl-C always cancels it.",
)
