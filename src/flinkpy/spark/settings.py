"""SparkSettings: the master and the configuration of the Spark that a job uses."""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import read_option, spark_options, taskmanager_options
from flinkpy.configuration.options import AnyConfiguration, entries_of
from flinkpy.spark.staging_leases import MIN_AGE_MS

_LOCAL = re.compile(r"local(\[.*\])?$")
_MASTER = re.compile(r"(local(\[(\d+|\*)(, *\d+)?\])?|yarn|spark://.+|k8s://.+|sc://.+)$")

_KUBERNETES = "k8s://"
_PYTHON = "spark.pyspark.python"
_DEPLOY_MODE = "spark.submit.deployMode"

#: The defaults of a driver of our own. Options of the job override all defaults.
_DRIVER_DEFAULTS = {
    "spark.app.name": "flinkpy",
    "spark.ui.showConsoleProgress": "false",
    # Jobs that run at the same time share the executors.
    "spark.scheduler.mode": "FAIR",
    # A Python worker that has loaded flinkpy and Arrow is reused.
    "spark.python.worker.reuse": "true",
    # Otherwise each call that creates a column makes six more calls to report its line in the translation.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # The files of jobs have names of their own. An isolated session would have Python workers of its own too, and each
    # job would wait for their start.
    "spark.sql.artifact.isolation.enabled": "false",
}

#: The defaults of every session.
_SQL_DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    # As in flinkpy, column names are case-sensitive, integers wrap around, and undefined results are null.
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
    # Files have timestamps in microseconds, like those of flinkpy.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}

#: The defaults of dynamic allocation, where the master has it. An executor that holds shuffles or stored frames of a
#: region stays until the driver has forgotten them.
_DYNAMIC_ALLOCATION = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    # The first job does not wait for the first look at the backlog.
    "spark.dynamicAllocation.initialExecutors": "1",
    "spark.dynamicAllocation.executorIdleTimeout": "30s",
}
#: Settings with which a user asks for a fixed number of executors.
_FIXED_EXECUTORS = ("spark.executor.instances", "spark.dynamicAllocation.enabled")

#: How a task asks for the data of an executor that does not answer: 5 times within 5 s, by default 3 times within 15 s.
#: A task that reads from a lost executor holds up its job for so long, and several stages can do so one after another.
#: Executors that only pause, for a garbage collection, keep their connections.
_FETCH_RETRIES = {"spark.shuffle.io.maxRetries": "5", "spark.shuffle.io.retryWait": "1s"}
_SHUFFLE_SERVICE = "spark.shuffle.service.enabled"

#: A driver that has all of its workers on this host listens on loopback only.
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@dataclass(frozen=True)
class SparkSettings:
    """The settings of a job. Jobs with equal `session_key` share a session.

    Attributes:
        conf: Spark's configuration.
        staging_dir: the directory for files that TaskExecutors and executors exchange. Without one, records go through
            the driver unless the master is local.
        cleanup_age_ms: how long the process of an attempt must be dead until others remove its files in the staging
            directory; 0 if they never do.
        idle_timeout_ms: the session ends when no region has used it for this long.
        max_sessions: the maximum number of sessions of a TaskExecutor.
        driver_address: the settings by which executors on other hosts find the driver, unless the user has set them.
    """

    master: str
    conf: Mapping[str, str] = field(default_factory=dict)
    staging_dir: str | None = None
    cleanup_age_ms: int = 0
    start_timeout_ms: int = 120_000
    idle_timeout_ms: int = 300_000
    max_sessions: int = 4
    progress_interval_ms: int = 1_000
    max_input_without_staging: int = 256 << 20
    driver_address: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_connect(self) -> bool:
        return self.master.startswith("sc://")

    @property
    def is_kubernetes(self) -> bool:
        return self.master.startswith(_KUBERNETES)

    @property
    def is_local(self) -> bool:
        """True if driver, executors and Python workers are processes of this host and share its files."""
        return _LOCAL.match(self.master) is not None

    @property
    def session_key(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """The settings that two jobs must have in common to share a session."""
        return self.master, tuple(sorted(self.conf.items()))

    @property
    def redacted_master(self) -> str:
        """The master for messages, without the token of a Spark Connect address."""
        return re.sub(r"(token=)[^;]*", r"\1***", self.master)


def settings_of(configuration: AnyConfiguration) -> SparkSettings:
    """Returns the settings of a configuration.

    Raises:
        ConfigurationError: Spark does not know the master, it is set by a key of Spark, or its cluster is to run the
            driver.
    """
    entries = entries_of(configuration)
    own = {
        key.removeprefix(spark_options.CONF_PREFIX): value
        for key, value in entries.items()
        if key.startswith(spark_options.CONF_PREFIX)
    }
    if "spark.master" in own or "spark.remote" in own:
        raise ConfigurationError(
            f"spark.master and spark.remote cannot be set below {spark_options.CONF_PREFIX!r}: set the master of "
            f"Spark by {spark_options.MASTER.key}"
        )
    if own.get(_DEPLOY_MODE, "client") != "client":
        raise ConfigurationError(
            f"{spark_options.CONF_PREFIX}{_DEPLOY_MODE}: {own[_DEPLOY_MODE]!r} is not possible: Spark's driver runs "
            "beside the TaskExecutor, which exchanges records with it. Remove the setting",
            details={"option": f"{spark_options.CONF_PREFIX}{_DEPLOY_MODE}", "value": own[_DEPLOY_MODE]},
        )
    master = (read_option(configuration, spark_options.MASTER) or f"local[{len(os.sched_getaffinity(0))}]").strip()
    if _MASTER.match(master) is None:
        raise ConfigurationError(
            f"{spark_options.MASTER.key}: {master!r} is not a master of Spark: expected local[n], spark://host:port, "
            "yarn, k8s://... or sc://host:port",
            details={"option": spark_options.MASTER.key, "value": master},
        )
    if master.startswith(_KUBERNETES) and "://" not in master.removeprefix(_KUBERNETES):
        # spark-submit adds https itself, but the SparkContext, which gets the master too, does not.
        master = f"{_KUBERNETES}https://{master.removeprefix(_KUBERNETES)}"
    conf = dict(_SQL_DEFAULTS)
    if not master.startswith("sc://"):
        conf.update(_classic_defaults(master, configuration))
    rows = read_option(configuration, spark_options.ARROW_BATCH_ROWS)
    conf["spark.sql.execution.arrow.maxRecordsPerBatch"] = str(rows)
    conf.update(own)
    if conf.get(_PYTHON) == sys.executable and _LOCAL.match(master):
        # This Python has flinkpy, so a daemon can import it once for all workers.
        conf.setdefault("spark.python.daemon.module", "flinkpy.spark.worker_daemon")
    return SparkSettings(
        master=master,
        conf=conf,
        staging_dir=read_option(configuration, spark_options.STAGING_DIR),
        cleanup_age_ms=_cleanup_age_ms(configuration),
        start_timeout_ms=read_option(configuration, spark_options.START_TIMEOUT),
        idle_timeout_ms=read_option(configuration, spark_options.SESSION_IDLE_TIMEOUT),
        max_sessions=max(1, read_option(configuration, spark_options.MAX_SESSIONS)),
        progress_interval_ms=max(50, read_option(configuration, spark_options.PROGRESS_INTERVAL)),
        max_input_without_staging=read_option(configuration, spark_options.MAX_INPUT_WITHOUT_STAGING),
        driver_address=_driver_address(configuration),
    )


def _cleanup_age_ms(configuration: AnyConfiguration) -> int:
    age_ms = read_option(configuration, spark_options.STAGING_CLEANUP_AGE)
    if 0 < age_ms < MIN_AGE_MS:
        raise ConfigurationError(
            f"{spark_options.STAGING_CLEANUP_AGE.key}: {age_ms} ms is too short: an attempt on a busy host would be "
            f"taken for dead. Set at least {MIN_AGE_MS // 60_000} min, or 0 to keep the files of dead attempts",
            details={"option": spark_options.STAGING_CLEANUP_AGE.key, "value": str(age_ms)},
        )
    return age_ms


class PresentConf(Protocol):
    """The settings that a driver has before its job's: those of the user's spark-defaults.conf."""

    def contains(self, key: str) -> bool: ...

    def get(self, key: str, default: str) -> str: ...


def driver_defaults(settings: SparkSettings, present: PresentConf) -> dict[str, str]:
    """Returns the settings of a driver that the user has not decided about."""
    if settings.is_local or settings.is_connect:
        return {}
    found = {**dynamic_allocation_defaults(settings, present), **settings.driver_address}
    has_service = settings.conf.get(_SHUFFLE_SERVICE, present.get(_SHUFFLE_SERVICE, "false")).lower() == "true"
    # A shuffle service outlives the executors, and a task has to wait for it when it is restarted.
    if not has_service and not any(key in settings.conf or present.contains(key) for key in _FETCH_RETRIES):
        found.update(_FETCH_RETRIES)
    # Spark makes a secret for each application, which its processes can show each other. The secret of a standalone
    # cluster is the one that its master has. A shuffle service on the nodes of YARN has a setting of its own, which
    # must be the same as that of the application.
    if (settings.master == "yarn" or settings.is_kubernetes) and not has_service:
        found["spark.authenticate"] = "true"
    return {key: value for key, value in found.items() if key not in settings.conf and not present.contains(key)}


def dynamic_allocation_defaults(settings: SparkSettings, present: PresentConf) -> dict[str, str]:
    """Returns the defaults by which Spark asks for executors when it needs them, and gives them back when it does not.

    Returns nothing for a master without dynamic allocation, or if the user has decided about the number of executors.
    """
    if settings.is_local or settings.is_connect:
        return {}
    if any(key in settings.conf or present.contains(key) for key in _FIXED_EXECUTORS):
        return {}
    return {
        key: value
        for key, value in _DYNAMIC_ALLOCATION.items()
        if key not in settings.conf and not present.contains(key)
    }


def _classic_defaults(master: str, configuration: AnyConfiguration) -> dict[str, str]:
    conf = dict(_DRIVER_DEFAULTS)
    conf["spark.ui.enabled"] = str(read_option(configuration, spark_options.UI_ENABLED)).lower()
    if _LOCAL.match(master):
        conf.update(_LOOPBACK)
        conf[_PYTHON] = conf["spark.pyspark.driver.python"] = sys.executable
        # On one host a few partitions are enough.
        conf["spark.sql.shuffle.partitions"] = str(2 * _cores(master))
        conf["spark.authenticate"] = "true"
    return conf


def _driver_address(configuration: AnyConfiguration) -> dict[str, str]:
    """Returns the options by which executors on other hosts find the driver: under the address of its TaskExecutor.

    Empty if the TaskExecutor has no address for other hosts. Spark then chooses one by the name of the host.
    """
    host = read_option(configuration, taskmanager_options.HOST)
    if not host or _is_loopback(host):
        return {}
    found = {"spark.driver.host": _in_brackets(host)}
    bind_host = read_option(configuration, taskmanager_options.BIND_HOST)
    if bind_host and not _is_loopback(bind_host):
        found["spark.driver.bindAddress"] = _in_brackets(bind_host)
    return found


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _in_brackets(host: str) -> str:
    """Returns a host as Spark wants it: an IPv6 address stands in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _cores(master: str) -> int:
    found = re.match(r"local\[(\d+|\*)", master)
    if found is None:
        return 1
    return len(os.sched_getaffinity(0)) if found[1] == "*" else int(found[1])
