"""Options of the history server.

Source: org.apache.flink.configuration.HistoryServerOptions.
"""

from __future__ import annotations

from flinkpy.configuration.options import bool_option, duration_option, int_option, string_option

ARCHIVE_DIRECTORIES = string_option(
    "historyserver.archive.fs.dir",
    None,
    "Directories, separated by commas, from which the history server reads the archives of ended jobs. Dispatchers "
    "write them to `jobmanager.archive.fs.dir`.",
)
ARCHIVE_REFRESH_INTERVAL = duration_option(
    "historyserver.archive.fs.refresh-interval",
    "10 s",
    "How often the history server looks for new archives.",
    minimum_ms=1,
)
RETAINED_JOBS = int_option(
    "historyserver.archive.retained-jobs",
    -1,
    "How many archives of single jobs, as releases of Flink before 2.3 write them, stay in each directory. Older ones "
    "are deleted. -1: all.",
    minimum=-1,
)
RETAINED_APPLICATIONS = int_option(
    "historyserver.archive.retained-applications",
    -1,
    "How many archives of applications stay in each directory. A job that was submitted by itself is an application, "
    "too. Older ones are deleted. -1: all.",
    minimum=-1,
)
RETAINED_TTL = duration_option(
    "historyserver.archive.retained-ttl",
    None,
    "How long archives stay in each directory. Older ones are deleted. Default: for ever.",
    minimum_ms=1,
)
CLEAN_EXPIRED_JOBS = bool_option(
    "historyserver.archive.clean-expired-jobs",
    False,
    "Forget jobs whose archives, as releases of Flink before 2.3 write them, are no longer in their directory.",
)
CLEAN_EXPIRED_APPLICATIONS = bool_option(
    "historyserver.archive.clean-expired-applications",
    False,
    "Forget applications whose archives are no longer in their directory.",
)
WEB_ADDRESS = string_option(
    "historyserver.web.address", None, "Address that the history server binds to. Default: the loopback address."
)
WEB_PORT = int_option(
    "historyserver.web.port", 8082, "Port of the history server. 0: any free port.", minimum=0, maximum=65535
)
WEB_REFRESH_INTERVAL = duration_option(
    "historyserver.web.refresh-interval", "10 s", "How often its page asks for new values.", minimum_ms=1
)
WEB_DIRECTORY = string_option(
    "historyserver.web.tmpdir",
    None,
    "Directory for the copy of the archives that the history server reads from. Default: a temporary directory.",
)
WEB_SSL_ENABLED = bool_option(
    "historyserver.web.ssl.enabled", False, "Serve with TLS, with the key store of `security.ssl.rest.*`."
)
JOB_MANAGER_LOG_URL = string_option(
    "historyserver.log.jobmanager.url-pattern",
    None,
    "URL of the log of the JobManager of a job, in which `<jobid>` is replaced. Only http and https.",
)
TASK_MANAGER_LOG_URL = string_option(
    "historyserver.log.taskmanager.url-pattern",
    None,
    "URL of the log of a TaskManager of a job, in which `<jobid>` and `<tmid>` are replaced. Only http and https.",
)
