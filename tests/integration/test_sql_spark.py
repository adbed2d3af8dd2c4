"""SQL in batch mode on the Spark backend: whole programs, with files, functions of users, sinks and errors."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from clusters import RunningCluster
from engines import engine_properties
from job_support import environment

from flinkpy.table import DataTypes, EnvironmentSettings, StreamTableEnvironment, TableEnvironment
from flinkpy.table.udf import ScalarFunction, udf

#: The time limit of a test. The first Spark job starts Spark.
pytestmark = pytest.mark.timeout(300)

MakeTables = Callable[..., TableEnvironment]


@pytest.fixture
def tables(engine_cluster: RunningCluster) -> MakeTables:
    def make(engine: str = "spark") -> TableEnvironment:
        properties = engine_properties("spark") if engine == "spark" else {}
        env = environment(engine_cluster, 2, **properties)
        return StreamTableEnvironment.create(env, EnvironmentSettings.in_batch_mode())

    return make


def rows(tables: TableEnvironment, text: str) -> list[tuple[Any, ...]]:
    with tables.execute_sql(text).collect() as found:
        return [tuple(row) for row in found]


def sales(directory: Path) -> str:
    """Writes a table with partitions, nulls and microseconds, and returns its definition."""
    times = [dt.datetime(1969, 12, 31, 23, 59, 59, 999_900), dt.datetime(2024, 2, 29, 1, 2, 3, 4_567), None]
    for day, numbers in (("2024-01-01", (1, 2, 3)), ("2024-01-02", (4, 5, 6)), ("2024-01-03", (7, 8, 9))):
        below = directory / f"day={day}"
        below.mkdir(parents=True)
        prices = pa.array([Decimal(number) / 4 for number in numbers], pa.decimal128(10, 2))
        columns = {"id": pa.array(numbers, pa.int64()), "at": pa.array(times, pa.timestamp("us")), "price": prices}
        pq.write_table(pa.table(columns), below / "part-0.parquet")
    return (
        "CREATE TABLE sales (id BIGINT, `at` TIMESTAMP(3), price DECIMAL(10, 2), `day` DATE) PARTITIONED BY (`day`) "
        f"WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{directory}')"
    )


def test_files_with_partitions_are_read_alike(tables: MakeTables, tmp_path: Path) -> None:
    definition = sales(tmp_path / "sales")
    query = (
        "SELECT `day`, id, `at`, price / 3 FROM sales WHERE `day` >= DATE '2024-01-02' "
        "ORDER BY `day` DESC, `at` DESC, id"
    )
    found = []
    for engine in ("spark", "native"):
        made = tables(engine)
        made.execute_sql(definition)
        found.append(rows(made, query))
    assert found[0] == found[1]
    assert [row[1] for row in found[0]] == [8, 7, 9, 5, 4, 6]
    assert found[0][0][2] == dt.datetime(2024, 2, 29, 1, 2, 3, 4_000)


class Discount(ScalarFunction):
    """Takes a part off a price. Because of its `open`, flinkpy's own operator calls it."""

    def open(self, context: Any) -> None:
        self.part = Decimal("0.5")

    def eval(self, price: Decimal) -> Decimal:
        return price * self.part


def test_functions_of_users_run_in_spark(tables: MakeTables, tmp_path: Path) -> None:
    made = tables()
    made.execute_sql(sales(tmp_path / "sales"))
    made.create_temporary_system_function("discount", udf(Discount(), result_type=DataTypes.DECIMAL(12, 3)))
    made.create_temporary_system_function(
        "doubled", udf(lambda number: number * 2, result_type=DataTypes.BIGINT(), func_type="pandas")
    )
    query = "SELECT `day`, SUM(discount(price)), MAX(doubled(id)) FROM sales GROUP BY `day` ORDER BY `day`"
    plain = made.explain_sql("SELECT `day`, MAX(doubled(id)) FROM sales GROUP BY `day`")
    assert rows(made, query) == [
        (dt.date(2024, 1, 1), Decimal("0.750"), 6),
        (dt.date(2024, 1, 2), Decimal("1.875"), 12),
        (dt.date(2024, 1, 3), Decimal("3.000"), 18),
    ]
    assert "Calc(" in made.explain_sql(query)
    assert "EngineQuery(engine=[Spark], kernels=[kernel_0=" in plain
    assert "Calc(" not in plain


def test_parts_that_spark_lacks_run_in_its_python_workers(tables: MakeTables) -> None:
    made = tables()
    items = made.from_elements([(1, "a", 1.0), (2, "b", 2.0), (3, "a", 4.0)], ["id", "k", "x"])
    made.create_temporary_view("items", items)
    query = "SELECT k, s FROM (SELECT k, STDDEV_POP(x) AS s FROM items GROUP BY k) WHERE s > 0 OR k = 'b' ORDER BY k"
    assert "GroupAggregate" in made.explain_sql(query)
    assert rows(made, query) == [("a", 1.5), ("b", 0.0)]


def test_a_result_is_written_once_to_files(tables: MakeTables, tmp_path: Path) -> None:
    made = tables()
    made.execute_sql(sales(tmp_path / "sales"))
    path = tmp_path / "sums"
    made.execute_sql(
        "CREATE TABLE sums (`day` DATE, total DECIMAL(20, 2)) "
        f"WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{path}')"
    )
    made.execute_sql("INSERT INTO sums SELECT `day`, SUM(price) FROM sales GROUP BY `day`").wait()
    written = pq.read_table(path).to_pylist()
    assert sorted((row["day"].day, row["total"]) for row in written) == [
        (1, Decimal("1.50")),
        (2, Decimal("3.75")),
        (3, Decimal("6.00")),
    ]


def test_errors_of_values_are_those_of_the_kernels(tables: MakeTables) -> None:
    made = tables()
    made.create_temporary_view("items", made.from_elements([(1, "x"), (0, "3")], ["id", "k"]))
    for query, message in (
        ("SELECT k, SUM(6 / id) FROM items GROUP BY k", "Division by zero"),
        ("SELECT SUM(CAST(k AS INT)) FROM items GROUP BY id", "x"),
    ):
        with pytest.raises(Exception, match=message) as caught:
            rows(made, query)
        assert "Spark failed" not in str(caught.value)
