"""RocksDB's own figures are metrics if they are switched on."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("rocksdict")

from flinkpy.common.configuration import Configuration
from flinkpy.metrics.metric_registry import NamedMetricGroup, read_metric
from flinkpy.state.rocksdb.database import RocksDatabase
from flinkpy.state.rocksdb.native_metrics import register_native_metrics
from flinkpy.state.rocksdb.settings import RocksDBSettings


def test_only_figures_that_are_switched_on_are_metrics(tmp_path: Path) -> None:
    prefix = "state.backend.rocksdb.metrics"
    configuration = Configuration.from_dict(
        {f"{prefix}.estimate-num-keys": "true", f"{prefix}.num-files-at-level": "true"}
    )
    settings = RocksDBSettings.read(configuration)
    database = RocksDatabase(tmp_path / "state", settings.database_options(), 1 << 20)
    try:
        for options, name in (
            (configuration, "default.rocksdb.estimate-num-keys"),
            (
                Configuration.from_dict({**configuration.to_dict(), f"{prefix}.column-family-as-variable": "true"}),
                "column_family.default.rocksdb.estimate-num-keys",
            ),
        ):
            group = NamedMetricGroup()
            register_native_metrics(database, options, group)
            metrics = dict(group.metrics())
            assert len(metrics) == 8  # and seven levels
            before = read_metric(metrics[name]).value
            database.write([(str(before).encode(), b"v")])
            assert read_metric(metrics[name]).value == int(before) + 1
        group = NamedMetricGroup()
        register_native_metrics(database, Configuration(), group)
        assert list(group.metrics()) == []
    finally:
        database.release()
