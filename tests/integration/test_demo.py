"""The demo computes the same numbers as pyarrow, and runs by `make demo`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pytest
from clusters import ROOT, RunningCluster

from flinkpy.common.configuration import Configuration
from flinkpy.datastream import StreamExecutionEnvironment

DATA = ROOT / ".data" / "nycflights13"


@pytest.fixture(scope="module", autouse=True)
def _data() -> None:
    result = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "fetch_flights.py"), str(DATA)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def expected() -> dict[tuple[str, str, str], tuple[int, int, float, int]]:
    """Returns (carrier, airline, origin) -> (flights, departed, mean delay, worst delay)."""
    options = pa_csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
    flights = pa_csv.read_csv(DATA / "flights.csv", convert_options=options)
    airlines = pa_csv.read_csv(DATA / "airlines.csv")
    names = dict(zip(airlines["carrier"].to_pylist(), airlines["name"].to_pylist()))
    groups = flights.group_by(["carrier", "origin"]).aggregate(
        [
            ([], "count_all"),
            ("dep_time", "count"),
            ("dep_delay", "mean"),
            ("dep_delay", "max"),
        ]
    )
    assert pc.sum(groups["count_all"]).as_py() == 336_776
    return {
        (row["carrier"], names[row["carrier"]], row["origin"]): (
            row["count_all"],
            row["dep_time_count"],
            row["dep_delay_mean"],
            row["dep_delay_max"],
        )
        for row in groups.to_pylist()
    }


def test_the_demo_computes_the_same_numbers_as_pyarrow(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import flights

    configuration = Configuration.from_dict({**cluster.properties, "parallelism.default": "2"})
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    with flights.delays(environment, str(DATA)).execute_and_collect("demo") as rows:
        found = {tuple(row)[:3]: tuple(row)[3:] for row in rows}
    wanted = expected()
    assert found.keys() == wanted.keys()
    for key, (count, departed, mean, worst) in wanted.items():
        assert found[key][:2] == (count, departed), key
        assert found[key][2] == pytest.approx(mean, rel=1e-12), key
        assert found[key][3] == worst, key


def test_the_demo_prints_a_table_and_shows_its_progress(cluster: RunningCluster) -> None:
    result = cluster.flinkpy("run", "-p", "2", str(Path("examples") / "flights.py"), "--data", str(DATA))
    assert result.returncode == 0, result.stderr
    assert "Hawaiian Airlines Inc." in result.stdout
    assert "46,087" in result.stdout
    assert [line.rpartition(" ")[2] for line in result.stderr.splitlines()][-1] == "FINISHED"


def test_make_demo_starts_a_cluster_shows_the_table_and_stops_the_cluster() -> None:
    result = subprocess.run(["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, timeout=20, check=True)
    assert "cluster start --taskmanagers 2" in result.stdout
    assert "trap" in result.stdout and "cluster stop" in result.stdout
