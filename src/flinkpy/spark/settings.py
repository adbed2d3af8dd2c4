"""SparkSettings: which Spark a job wants, from its configuration."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import read_option, spark_options
from flinkpy.configuration.options import AnyConfiguration, entries_of

_LOCAL = re.compile(r"local(\[.*\])?$")
_MASTER = re.compile(r"(local(\[(\d+|\*)(, *\d+)?\])?|yarn|spark://.+|k8s://.+|sc://.+)$")

_KUBERNETES = "k8s://"
_PYTHON = "spark.pyspark.python"

#: Of a session of our own driver. What a job sets itself comes before all of these.
_OF_DRIVER = {
    "spark.app.name": "flinkpy",
    "spark.ui.showConsoleProgress": "false",
    # Several jobs at once share the executors.
    "spark.scheduler.mode": "FAIR",
    # A Python worker has flinkpy and Arrow loaded: it is used again.
    "spark.python.worker.reuse": "true",
    # Each call that makes a column would tell the driver of the line of the translation it comes from, in six more.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

#: Of every session, whatever its master.
_OF_SQL = {
    "spark.sql.session.timeZone": "UTC",
    # Columns are those of exactly that name; integers wrap around, and what cannot be computed is null: as here.
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
}

#: What runs on one host is reached from nowhere else.
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@dataclass(frozen=True)
class SparkSettings:
    """Jobs with equal settings share a session.

    `conf`: Spark's configuration but for secrets. `staging_dir`: None: records go through the driver, unless the master
    is local.
    """

    master: str
    conf: Mapping[str, str] = field(default_factory=dict)
    staging_dir: str | None = None
    start_timeout_ms: int = 120_000
    progress_interval_ms: int = 1_000
    max_input_without_staging: int = 256 << 20

    @property
    def is_connect(self) -> bool:
        return self.master.startswith("sc://")

    @property
    def is_local(self) -> bool:
        """Driver, executors and Python workers are processes of this host, which share its files."""
        return _LOCAL.match(self.master) is not None

    @property
    def session_key(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """What two jobs must have in common to share a session."""
        return self.master, tuple(sorted(self.conf.items()))

    @property
    def redacted_master(self) -> str:
        """For messages: the token of a Spark Connect address is left out."""
        return re.sub(r"(token=)[^;]*", r"\1***", self.master)


def settings_of(configuration: AnyConfiguration) -> SparkSettings:
    """Raises: ConfigurationError: the master is none that Spark knows, or is also given as a key of Spark's own."""
    entries = entries_of(configuration)
    own = {
        key.removeprefix(spark_options.CONF_PREFIX): value
        for key, value in entries.items()
        if key.startswith(spark_options.CONF_PREFIX)
    }
    if "spark.master" in own or "spark.remote" in own:
        raise ConfigurationError(f"the master of Spark is given by {spark_options.MASTER.key}, not as a key of Spark's")
    master = (read_option(configuration, spark_options.MASTER) or f"local[{len(os.sched_getaffinity(0))}]").strip()
    if _MASTER.match(master) is None:
        raise ConfigurationError(
            f"{spark_options.MASTER.key}: {master!r} is no master of Spark: expected local[n], spark://host:port, "
            "yarn, k8s://... or sc://host:port",
            details={"option": spark_options.MASTER.key, "value": master},
        )
    if master.startswith(_KUBERNETES) and "://" not in master.removeprefix(_KUBERNETES):
        # As spark-submit reads it; the context, which is told the master again, would not.
        master = f"{_KUBERNETES}https://{master.removeprefix(_KUBERNETES)}"
    conf = dict(_OF_SQL)
    if not master.startswith("sc://"):
        conf.update(_classic_defaults(master, configuration))
    rows = read_option(configuration, spark_options.ARROW_BATCH_ROWS)
    conf["spark.sql.execution.arrow.maxRecordsPerBatch"] = str(rows)
    conf.update(own)
    if conf.get(_PYTHON) == sys.executable and _LOCAL.match(master):
        # That Python has flinkpy: workers need not import it each for itself.
        conf.setdefault("spark.python.daemon.module", "flinkpy.spark.worker_daemon")
    return SparkSettings(
        master=master,
        conf=conf,
        staging_dir=read_option(configuration, spark_options.STAGING_DIR),
        start_timeout_ms=read_option(configuration, spark_options.START_TIMEOUT),
        progress_interval_ms=max(50, read_option(configuration, spark_options.PROGRESS_INTERVAL)),
        max_input_without_staging=read_option(configuration, spark_options.MAX_INPUT_WITHOUT_STAGING),
    )


def _classic_defaults(master: str, configuration: AnyConfiguration) -> dict[str, str]:
    conf = dict(_OF_DRIVER)
    conf["spark.ui.enabled"] = str(read_option(configuration, spark_options.UI_ENABLED)).lower()
    if _LOCAL.match(master):
        conf.update(_LOOPBACK)
        conf[_PYTHON] = conf["spark.pyspark.driver.python"] = sys.executable
        # Everything is on this host: what stands for a partition there may be small.
        conf["spark.sql.shuffle.partitions"] = str(2 * _cores(master))
        conf["spark.authenticate"] = "true"
    return conf


def _cores(master: str) -> int:
    found = re.match(r"local\[(\d+|\*)", master)
    if found is None:
        return 1
    return len(os.sched_getaffinity(0)) if found[1] == "*" else int(found[1])
