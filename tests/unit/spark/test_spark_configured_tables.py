"""The settings tell if Spark will read tables itself, before it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from flinkpy.spark.columns.configured_tables import missing_setting

DELTA = {
    "spark.jars.packages": "io.delta:delta-spark_4.1_2.13:4.4.0",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """The variables of a Spark without further jars and settings."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "conf").mkdir()
    return {"SPARK_HOME": str(tmp_path)}


def test_settings_of_the_job_name_the_connectors(home: dict[str, str]) -> None:
    assert (
        missing_setting("iceberg", {"spark.jars.packages": f"{DELTA['spark.jars.packages']},{ICEBERG}"}, home) is None
    )
    assert missing_setting("delta", DELTA, home) is None
    assert missing_setting("iceberg", DELTA, home) == "spark.jars.packages with iceberg-spark"


@pytest.mark.parametrize("key", ["spark.sql.extensions", "spark.sql.catalog.spark_catalog"])
def test_delta_needs_two_settings_of_sql(home: dict[str, str], key: str) -> None:
    conf = {name: value for name, value in DELTA.items() if name != key}
    missing = missing_setting("delta", conf, home)
    assert missing is not None and missing.startswith(f"{key} with Delta")


def test_jars_of_spark_and_its_defaults_count(home: dict[str, str]) -> None:
    root = Path(home["SPARK_HOME"])
    (root / "jars" / "delta-spark_2.13-4.4.0.jar").touch()
    lines = ["# of this cluster", "", "spark.sql.extensions   io.delta.sql.DeltaSparkSessionExtension"]
    lines.append("spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog")
    (root / "conf" / "spark-defaults.conf").write_text("\n".join(lines))
    assert missing_setting("delta", {}, home) is None
    elsewhere = {**home, "SPARK_CONF_DIR": str(root / "nowhere")}
    assert missing_setting("delta", {}, elsewhere) == "spark.sql.extensions with DeltaSparkSessionExtension"
