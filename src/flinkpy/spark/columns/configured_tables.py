"""Tells from settings if a session that does not run yet will have Spark's connectors for Iceberg and Delta.

`flinkpy explain` needs it. The running session decides: the jars may be for another Spark, and it may have no access to
the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

#: The beginning of the names of the connectors' jars.
_ARTIFACTS = {"iceberg": "iceberg-spark", "delta": "delta-spark"}
_JARS = ("spark.jars.packages", "spark.jars", "spark.driver.extraClassPath")
#: The settings without which Delta refuses to read, each with a part of its value.
_DELTA_SETTINGS = {
    "spark.sql.extensions": "DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "DeltaCatalog",
}


def missing_setting(table_format: str, conf: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    """Returns the setting without which Spark cannot read tables of this format itself; None if nothing is missing.

    Args:
        conf: Spark's configuration of the job.
        environment: the variables of this process. Spark's own jars and `spark-defaults.conf` count as on this host.
    """
    all_conf = {**_defaults(environment), **conf}
    artifact = _ARTIFACTS[table_format]
    if not any(artifact in all_conf.get(key, "") for key in _JARS) and not _is_installed(artifact, environment):
        return f"spark.jars.packages with {artifact}"
    if table_format == "delta":
        for key, part in _DELTA_SETTINGS.items():
            if part not in all_conf.get(key, ""):
                return f"{key} with {part}"
    return None


def _home(environment: Mapping[str, str]) -> Path:
    home = environment.get("SPARK_HOME")
    if home:
        return Path(home)
    import pyspark

    return Path(pyspark.__file__).parent


def _is_installed(artifact: str, environment: Mapping[str, str]) -> bool:
    return any((_home(environment) / "jars").glob(f"{artifact}*.jar"))


def _defaults(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the entries of `spark-defaults.conf`: a key and a value in each line."""
    directory = environment.get("SPARK_CONF_DIR")
    path = (Path(directory) if directory else _home(environment) / "conf") / "spark-defaults.conf"
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    words = (line.replace("=", " ", 1).split(None, 1) for line in lines if not line.lstrip().startswith("#"))
    return {pair[0]: pair[1].strip() for pair in words if len(pair) == 2}
