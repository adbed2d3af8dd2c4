"""TPC-H queries on column streams give the results of DuckDB, exact to the last digit."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from clusters import RunningCluster
from engines import ENGINES, engine_properties
from job_support import environment

from benchmarks.tpch import QUERIES, SQL, TABLES, generate, tables_of

#: The time limit of a test. The first Spark job starts Spark.
pytestmark = pytest.mark.timeout(300)

SCALE = 0.1
ONE, MANY = pytest.mark.short_on_spark, pytest.mark.differential
#: DuckDB divides decimals as doubles, so it returns (dividend, divisor) here.
EXACT_SQL = {
    1: SQL[1]
    .replace("avg(l_quantity) as avg_qty", "sum(l_quantity), count(l_quantity)")
    .replace("avg(l_extendedprice) as avg_price", "sum(l_extendedprice), count(l_extendedprice)")
    .replace("avg(l_discount) as avg_disc", "sum(l_discount), count(l_discount)"),
    14: SQL[14].replace(")\n       / sum", "), sum"),
}


@pytest.fixture(scope="module")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tpch")
    generate(directory, SCALE)
    return directory


def quotient(dividend: Decimal, divisor: Any, places: int) -> Decimal:
    return (dividend / Decimal(divisor)).quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)


def answer(number: int, directory: Path) -> list[tuple[Any, ...]]:
    """Returns the answer of DuckDB, with averages and the single quotient as SQL decimals."""
    connection = duckdb.connect()
    for table in TABLES:
        connection.execute(f"create view {table} as select * from '{directory / table}.parquet'")
    rows = connection.execute(EXACT_SQL.get(number, SQL[number])).fetchall()
    connection.close()
    if number == 1:
        return [
            (*row[:6], *(quotient(row[6 + i], row[7 + i], 6) for i in (0, 2, 4)), row[12])  #
            for row in rows
        ]
    if number == 14:
        return [(quotient(dividend, divisor, 6),) for dividend, divisor in rows]
    return rows


#: All queries run in batch mode. One of them, with joins, an aggregate and an order, also runs as a stream and on
#: Spark.
CASES = [
    pytest.param(engine, number, marks=[] if engine == "native-batch" else [ONE if number == 3 else MANY])
    for engine in ENGINES
    for number in QUERIES
]


@pytest.mark.parametrize(("engine", "number"), CASES)
def test_query_has_the_answer_of_duckdb(request: pytest.FixtureRequest, tpch: Path, number: int, engine: str) -> None:
    properties = engine_properties(engine)
    # One TaskExecutor, because each has its own Spark session.
    cluster: RunningCluster = request.getfixturevalue("engine_cluster" if engine == "spark" else "shared_cluster")
    env = environment(cluster, 2, **properties)

    with QUERIES[number](tables_of(env, tpch)).execute_and_collect() as results:
        rows = [tuple(row) for row in results]

    assert rows == answer(number, tpch)
