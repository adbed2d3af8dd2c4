"""SQL programs on real processes: definitions, queries, inserts, views, functions, and the errors of wrong ones."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from clusters import RunningCluster
from job_support import environment

from flinkpy.common import Types
from flinkpy.common.errors import SqlParseError, ValidationError
from flinkpy.common.types import Row, RowKind
from flinkpy.table import DataTypes, StreamTableEnvironment, TableEnvironment
from flinkpy.table.udf import AggregateFunction, FunctionContext, udaf, udf, udtf

ORDERS = """
CREATE TABLE orders (
  id BIGINT,
  item STRING,
  price DECIMAL(8, 2),
  ts TIMESTAMP(3),
  total AS price * 2,
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')
"""
ROWS = [
    "1,apple,1.50,2024-05-01 10:00:01",
    "2,pear,2.00,2024-05-01 10:00:04",
    "3,apple,0.25,2024-05-01 10:00:11",
    "4,,7.00,2024-05-01 10:00:12",
    "5,pear,,2024-05-01 10:00:21",
]


@pytest.fixture
def tables(shared_cluster: RunningCluster, tmp_path: Path) -> TableEnvironment:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "a.csv").write_text("\n".join(ROWS) + "\n")
    made = StreamTableEnvironment.create(environment(shared_cluster))
    made.execute_sql(ORDERS.format(path=tmp_path / "orders"))
    return made


def rows(tables: TableEnvironment, query: str) -> list[list[Any]]:
    with tables.execute_sql(query).collect() as found:
        return [list(row) for row in found]


def final(tables: TableEnvironment, query: str) -> list[dict[str, Any]]:
    return tables.sql_query(query).to_arrow().to_pylist()


def test_a_query_reads_computed_columns_and_keeps_types(tables: TableEnvironment) -> None:
    found = final(tables, "SELECT id, total, UPPER(item) AS item FROM orders WHERE price > 1 OR item = 'apple'")
    by_id = {row["id"]: row for row in found}
    assert sorted(by_id) == [1, 2, 3, 4]
    assert str(by_id[1]["total"]) == "3.00" and by_id[1]["item"] == "APPLE"
    assert by_id[4]["item"] == ""


def test_a_group_by_sends_the_changelog_of_a_record_at_a_time_engine(tables: TableEnvironment) -> None:
    with tables.execute_sql("SELECT item, COUNT(*) AS n FROM orders GROUP BY item").collect() as found:
        changes = [(row.get_row_kind(), *row) for row in found if row[0] == "apple"]
    assert changes == [
        (RowKind.INSERT, "apple", 1),
        (RowKind.UPDATE_BEFORE, "apple", 1),
        (RowKind.UPDATE_AFTER, "apple", 2),
    ]


def test_windows_close_with_the_watermark(tables: TableEnvironment) -> None:
    found = final(
        tables,
        """
        SELECT window_start, COUNT(*) AS n, SUM(price) AS s
        FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND))
        GROUP BY window_start, window_end
        """,
    )
    summary = sorted((row["window_start"].second, row["n"], str(row["s"])) for row in found)
    assert summary == [(0, 2, "3.50"), (10, 2, "7.25"), (20, 1, "None")]


def test_nested_values_are_keys_of_groups_and_of_distinct_values(tables: TableEnvironment) -> None:
    found = final(
        tables,
        """
        SELECT a, m, COUNT(*) AS n, COUNT(DISTINCT r) AS prices
        FROM (
          SELECT ARRAY[item] AS a, ROW(item, price > 1) AS r,
            CASE WHEN id > 2 THEN MAP['i', item, 'k', 'x'] ELSE MAP['k', 'x', 'i', item] END AS m
          FROM orders)
        GROUP BY a, m
        """,
    )
    shown = sorted((row["a"], sorted(row["m"]), row["n"], row["prices"]) for row in found)
    assert shown == [
        ([item], [("i", item), ("k", "x")], n, k) for item, n, k in [("", 1, 1), ("apple", 2, 2), ("pear", 2, 2)]
    ]
    found = final(
        tables,
        """
        SELECT COUNT(DISTINCT ARRAY[item]) AS items, COLLECT(DISTINCT ROW(item)) AS collected
        FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end
        """,
    )
    assert [(row["items"], len(row["collected"])) for row in found] == [(3, 3)]


def test_an_insert_writes_a_table_that_another_query_reads(tables: TableEnvironment, tmp_path: Path) -> None:
    tables.execute_sql(
        f"""
        CREATE TABLE sold (item STRING, price DECIMAL(8, 2))
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path / "sold"}', 'format' = 'json')
        """
    )
    result = tables.execute_sql("INSERT INTO sold SELECT item, price FROM orders WHERE price IS NOT NULL")
    result.wait()
    assert [list(row) for row in result.collect()] == [[-1]]
    found = final(tables, "SELECT item, SUM(price) AS s FROM sold GROUP BY item")
    assert sorted((row["item"], str(row["s"])) for row in found) == [("", "7.00"), ("apple", "1.75"), ("pear", "2.00")]


def test_several_inserts_of_a_statement_set_are_one_job(tables: TableEnvironment, tmp_path: Path) -> None:
    for name in ("cheap", "dear"):
        tables.execute_sql(
            f"""
            CREATE TABLE {name} (id BIGINT)
            WITH ('connector' = 'filesystem', 'path' = '{tmp_path / name}', 'format' = 'csv')
            """
        )
    statements = tables.create_statement_set()
    statements.add_insert_sql("INSERT INTO cheap SELECT id FROM orders WHERE price < 2")
    statements.add_insert_sql("INSERT INTO dear SELECT id FROM orders WHERE price >= 2")
    statements.execute().wait()
    assert sorted(rows(tables, "SELECT id FROM cheap")) == [[1], [3]]
    assert sorted(rows(tables, "SELECT id FROM dear")) == [[2], [4]]


def test_views_and_functions_of_python_take_part(tables: TableEnvironment) -> None:
    tables.create_temporary_system_function("shout", udf(lambda text: text + "!", result_type=DataTypes.STRING()))
    tables.execute_sql("CREATE VIEW apples AS SELECT id, shout(item) AS item FROM orders WHERE item = 'apple'")
    assert sorted(rows(tables, "SELECT * FROM apples")) == [[1, "apple!"], [3, "apple!"]]
    assert tables.list_views() == ["apples"]


def test_table_functions_and_arrays_are_joined_with_their_rows(tables: TableEnvironment) -> None:
    letters = udtf(lambda text: enumerate(text or ""), result_types=["INT", "STRING"])
    tables.create_temporary_system_function("letters", letters)
    query = "SELECT id, place, letter FROM orders LEFT JOIN LATERAL TABLE(letters(item)) AS l(place, letter) ON TRUE"
    assert sorted(rows(tables, f"{query} WHERE id > 3"), key=str)[-2:] == [[5, 2, "a"], [5, 3, "r"]]
    found = rows(
        tables, "SELECT item, x, n FROM orders, UNNEST(ARRAY[id, -id]) WITH ORDINALITY AS u(x, n) WHERE x < -3"
    )
    assert sorted(found) == [["", -4, 2], ["pear", -5, 2]]


class _Spread(AggregateFunction[Any, list[Any]]):
    """The difference between the largest and the smallest value; its accumulator is a list of values."""

    def open(self, function_context: FunctionContext) -> None:
        self.unit = function_context.get_job_parameter("unit", "cents")

    def create_accumulator(self) -> list[Any]:
        return []

    def accumulate(self, accumulator: list[Any], value: Any) -> None:
        if value is not None:
            accumulator.append(value)

    def merge(self, accumulator: list[Any], accumulators: Any) -> None:
        for each in accumulators:
            accumulator.extend(each)

    def get_value(self, accumulator: list[Any]) -> str | None:
        return f"{(max(accumulator) - min(accumulator)) * 100:.0f} {self.unit}" if accumulator else None


def test_aggregate_functions_of_python_take_part_in_groups_and_windows(tables: TableEnvironment) -> None:
    spread = udaf(_Spread(), result_type="STRING", accumulator_type=DataTypes.LIST_VIEW(DataTypes.DOUBLE()))
    tables.create_temporary_system_function("spread", spread)
    total = udaf(pc.sum, result_type="DECIMAL(10, 2)", func_type="arrow")
    tables.create_temporary_system_function("total", total)
    found = final(tables, "SELECT item, spread(price) AS s, JSON_ARRAYAGG(id) AS ids FROM orders GROUP BY item")
    assert {(row["item"], row["s"], row["ids"]) for row in found} == {
        ("apple", "125 cents", "[1,3]"),
        ("pear", "0 cents", "[2,5]"),
        ("", "0 cents", "[4]"),
    }
    query = """
        SELECT total(price), spread(price) FROM TABLE(SESSION(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' SECOND))
        GROUP BY window_start, window_end
    """
    assert sorted(rows(tables, query), key=str) == [
        [Decimal("3.50"), "50 cents"],
        [Decimal("7.25"), "675 cents"],
        [None, None],
    ]


def test_patterns_of_rows_are_found_with_aggregates_of_python(tables: TableEnvironment) -> None:
    spread = udaf(_Spread(), result_type="STRING", accumulator_type=DataTypes.LIST_VIEW(DataTypes.DOUBLE()))
    tables.create_temporary_system_function("spread", spread)
    query = """
        SELECT * FROM orders MATCH_RECOGNIZE (
            ORDER BY ts
            MEASURES A.id AS a, LAST(B.id) AS b, COUNT(B.id) AS n, spread(price) AS s
            AFTER MATCH SKIP PAST LAST ROW
            PATTERN (A B+? C)
            DEFINE A AS A.id = 1, B AS spread(B.price) IS NOT NULL OR B.price IS NULL, C AS C.id > 3
        )
    """
    assert rows(tables, query) == [[1, 3, 2, "675 cents"]]


def test_a_joined_table_is_the_join_of_all_its_rows(tables: TableEnvironment) -> None:
    found = final(tables, "SELECT a.id AS x, b.id AS y FROM orders a JOIN orders b ON a.item = b.item AND a.id < b.id")
    assert sorted((row["x"], row["y"]) for row in found) == [(1, 3), (2, 5)]


def test_rows_of_python_and_pandas_are_tables(tables: TableEnvironment) -> None:
    import pandas as pd

    prices = tables.from_pandas(pd.DataFrame({"item": ["apple", "pear"], "factor": [2, 3]}), splits_num=2)
    tables.create_temporary_view("factors", prices)
    names = tables.from_elements([("apple", "Apfel"), ("pear", None)], ["item", "german"])
    tables.create_temporary_view("names", names)
    found = tables.sql_query("SELECT n.german, f.factor FROM names n JOIN factors f ON n.item = f.item").to_pandas()
    assert sorted(found.itertuples(index=False, name=None), key=lambda row: row[1]) == [("Apfel", 2), (None, 3)]


def test_a_table_becomes_a_data_stream_of_rows(tables: TableEnvironment) -> None:
    assert isinstance(tables, StreamTableEnvironment)
    stream = tables.to_data_stream(tables.sql_query("SELECT id, item FROM orders WHERE id < 3"))
    with stream.map(lambda row: f"{row[0]}:{row.item}").execute_and_collect() as found:
        assert sorted(found) == ["1:apple", "2:pear"]


def test_a_data_stream_becomes_a_table_with_its_timestamps_and_changes(tables: TableEnvironment) -> None:
    assert isinstance(tables, StreamTableEnvironment)
    env = tables.execution_environment
    rowed = Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.INT()])
    stream = env.from_collection([Row("a", 1), Row("b", 2), Row("a", 3)], rowed)
    tables.create_temporary_view("numbers", stream, "k", "m")
    found = final(tables, "SELECT k, SUM(m) AS s FROM numbers GROUP BY k")
    assert sorted((row["k"], row["s"]) for row in found) == [("a", 4), ("b", 2)]

    changes = [Row("a", 1), Row("b", 2), Row("a", 1), Row("a", 5)]
    changes[2].set_row_kind(RowKind.UPDATE_BEFORE)
    changes[3].set_row_kind(RowKind.UPDATE_AFTER)
    table = tables.from_changelog_stream(env.from_collection(changes, rowed).set_parallelism(1))
    assert sorted(row["n"] for row in table.to_arrow().to_pylist()) == [2, 5]


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("SELEC id FROM orders", SqlParseError, "line 1, column 1"),
        ("SELECT prise FROM orders", ValidationError, "price"),
        ("SELECT id FROM oders", ValidationError, "orders"),
        ("SELECT LOWERR(item) FROM orders", ValidationError, "LOWER"),
        ("SELECT item + 1 AS x, SUM(id) FROM orders GROUP BY id", ValidationError, "not being grouped"),
        ("INSERT INTO orders SELECT 1", ValidationError, "do not match"),
    ],
)
def test_wrong_statements_name_the_culprit(
    tables: TableEnvironment, statement: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        tables.execute_sql(statement)


def test_a_sink_of_files_refuses_updates_and_names_the_operator(tables: TableEnvironment, tmp_path: Path) -> None:
    tables.execute_sql(
        f"""
        CREATE TABLE counts (item STRING, n BIGINT)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path / "counts"}', 'format' = 'csv')
        """
    )
    with pytest.raises(Exception, match=r"doesn't support consuming update changes.*GroupAggregate"):
        tables.execute_sql("INSERT INTO counts SELECT item, COUNT(*) FROM orders GROUP BY item")


def test_a_table_is_created_and_replaced_by_queries(tables: TableEnvironment, tmp_path: Path) -> None:
    def options(name: str) -> str:
        return f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path / name}', 'format' = 'csv')"

    declared = "note STRING, id DOUBLE"
    tables.execute_sql(f"CREATE TABLE kept ({declared}) {options('first')} AS SELECT id FROM orders").wait()
    assert rows(tables, "SELECT id, note FROM kept WHERE id = 3") == [[3.0, ""]]
    tables.execute_sql(f"REPLACE TABLE kept {options('second')} AS SELECT id AS n FROM kept WHERE id < 3").wait()
    assert sorted(rows(tables, "SELECT n FROM kept")) == [[1.0], [2.0]]


def test_a_multi_join_has_the_rows_of_a_chain_of_joins(tables: TableEnvironment) -> None:
    query = """
        SELECT a.id, b.id AS other, c.n FROM orders a
        LEFT JOIN (SELECT * FROM orders WHERE price < 2) b ON a.item = b.item
        LEFT JOIN (SELECT item, COUNT(*) AS n FROM orders GROUP BY item) c ON c.item = b.item
    """
    expected = sorted(map(str, final(tables, query)))
    tables.get_config().set("table.optimizer.multi-join.enabled", "true")
    assert "MultiJoin(commonJoinKey=[item], joinTypes=[LEFT, LEFT]" in tables.explain_sql(query)
    assert sorted(map(str, final(tables, query))) == expected
