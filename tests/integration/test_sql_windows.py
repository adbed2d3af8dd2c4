"""Windows, ranks and order by time in SQL, on real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import environment

from flinkpy.table import StreamTableEnvironment, TableEnvironment

BIDS = """
CREATE TABLE bids (
  item STRING,
  price BIGINT,
  {columns},
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')
"""
#: (item, price, second).
ROWS = [("a", 4, 1), ("b", 2, 2), ("a", 4, 5), ("a", 7, 3), ("b", 9, 8), ("b", 1, 12), ("a", 3, 11), ("c", 5, 25)]


@pytest.fixture
def tables(shared_cluster: RunningCluster, tmp_path: Path) -> TableEnvironment:
    lines = [f"{item},{price},2024-05-01 10:00:{second:02}" for item, price, second in ROWS]
    (tmp_path / "bids.csv").write_text("\n".join(lines) + "\n")
    made = StreamTableEnvironment.create(environment(shared_cluster))
    made.execute_sql(BIDS.format(columns="ts TIMESTAMP(3)", path=tmp_path / "bids.csv"))
    return made


def rows(tables: TableEnvironment, query: str) -> list[tuple[Any, ...]]:
    with tables.execute_sql(query).collect() as found:
        return [tuple(row) for row in found]


def test_the_best_rows_of_each_window(tables: TableEnvironment) -> None:
    query = """
        SELECT EXTRACT(SECOND FROM window_start), item, price, n FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end{keys} ORDER BY price DESC) AS n
          FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND)))
        WHERE n <= 2
    """
    assert sorted(rows(tables, query.format(keys=""))) == [
        (0, "a", 7, 2),
        (0, "b", 9, 1),
        (10, "a", 3, 1),
        (10, "b", 1, 2),
        (20, "c", 5, 1),
    ]
    assert sorted(rows(tables, query.format(keys=", item")))[:4] == [
        (0, "a", 4, 2),
        (0, "a", 7, 1),
        (0, "b", 2, 2),
        (0, "b", 9, 1),
    ]


def test_the_best_groups_of_each_window(tables: TableEnvironment) -> None:
    query = """
        SELECT EXTRACT(SECOND FROM window_end), item, n FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, item) AS place
          FROM (SELECT item, window_start, window_end, COUNT(*) AS n
                FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '20' SECOND))
                GROUP BY item, window_start, window_end))
        WHERE place = 1
    """
    assert sorted(rows(tables, query)) == [(10, "a", 3), (20, "a", 4), (30, "a", 1), (40, "c", 1)]


def test_the_first_and_the_last_row_of_each_window(tables: TableEnvironment) -> None:
    query = """
        SELECT EXTRACT(SECOND FROM window_start), item, price FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY item, window_start, window_end ORDER BY ts {order}) AS n
          FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND)))
        WHERE n = 1
    """
    late = [(10, "a", 3), (10, "b", 1), (20, "c", 5)]
    assert sorted(rows(tables, query.format(order="ASC"))) == [(0, "a", 4), (0, "b", 2), *late]
    assert sorted(rows(tables, query.format(order="DESC"))) == [(0, "a", 4), (0, "b", 9), *late]


def test_windows_of_a_zone_have_their_rows_at_every_step(tables: TableEnvironment, tmp_path: Path) -> None:
    tables.get_config().set_local_timezone("America/New_York")
    tables.execute_sql("DROP TABLE bids")
    zoned = "local_time TIMESTAMP(3), ts AS CAST(local_time AS TIMESTAMP_LTZ(3))"
    tables.execute_sql(BIDS.format(columns=zoned, path=tmp_path / "bids.csv"))
    query = """
        SELECT EXTRACT(HOUR FROM window_start), item, n FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, item) AS place
          FROM (SELECT item, window_start, window_end, COUNT(*) AS n
                FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
                GROUP BY item, window_start, window_end))
        WHERE place <= 2
    """
    assert sorted(rows(tables, query)) == [(10, "a", 4), (10, "b", 3)]


def test_a_stream_is_sorted_by_time(tables: TableEnvironment) -> None:
    query = "SELECT EXTRACT(SECOND FROM ts), price FROM bids ORDER BY ts, price DESC"
    assert rows(tables, query) == sorted((second, price) for _, price, second in ROWS)


def test_over_by_time_has_ranks_lag_and_frames_side_by_side(tables: TableEnvironment) -> None:
    query = """
        SELECT item, price, ROW_NUMBER() OVER w, RANK() OVER w, LAG(price) OVER w, SUM(price) OVER w,
          MAX(price) OVER (PARTITION BY item ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
        FROM bids WINDOW w AS (PARTITION BY item ORDER BY ts)
    """
    assert [row[1:] for row in rows(tables, query) if row[0] == "a"] == [
        (4, 1, 1, None, 4, 4),
        (7, 2, 2, 4, 11, 7),
        (4, 3, 3, 7, 15, 7),
        (3, 4, 4, 4, 18, 4),
    ]


def test_group_windows_send_early_results(tables: TableEnvironment) -> None:
    tables.get_config().set("table.exec.emit.early-fire.enabled", "true")
    tables.get_config().set("table.exec.emit.early-fire.delay", "0 s")
    query = "SELECT item, COUNT(*) AS n FROM bids GROUP BY item, TUMBLE(ts, INTERVAL '10' SECOND)"
    with tables.execute_sql(query).collect() as found:
        changes = [(str(row.get_row_kind()), *row) for row in found if row[0] == "b"]
    assert changes == [("+I", "b", 1), ("-U", "b", 1), ("+U", "b", 2), ("+I", "b", 1)]
    assert sorted(tables.sql_query(query).to_arrow().column("n").to_pylist()) == [1, 1, 1, 2, 3]


def test_sessions_are_tables_of_their_own(tables: TableEnvironment) -> None:
    session = "TABLE(SESSION(TABLE bids PARTITION BY item, DESCRIPTOR(ts), INTERVAL '4' SECOND))"
    start = "EXTRACT(SECOND FROM window_start)"
    assert sorted(rows(tables, f"SELECT {start}, item, price FROM {session} WHERE price > 3")) == [
        (1, "a", 4),
        (1, "a", 4),
        (1, "a", 7),
        (8, "b", 9),
        (25, "c", 5),
    ]
    query = f"SELECT {start}, item, COUNT(*) FROM {session} {{}} GROUP BY item, window_start, window_end"
    assert sorted(rows(tables, query.format(""))) == [(1, "a", 3), (2, "b", 1), (8, "b", 2), (11, "a", 1), (25, "c", 1)]
    assert sorted(rows(tables, query.format("WHERE price > 3"))) == [(1, "a", 3), (8, "b", 1), (25, "c", 1)]
    shared = query.replace("TABLE bids PARTITION BY item,", "TABLE bids,").format("")
    assert sorted(rows(tables, shared)) == [(1, "a", 4), (1, "b", 3), (25, "c", 1)]


def test_windows_take_updates(tables: TableEnvironment) -> None:
    tables.execute_sql(
        """
        CREATE TEMPORARY VIEW latest AS SELECT item, price, ts FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY item, price ORDER BY ts DESC) AS n FROM bids) WHERE n = 1
        """
    )
    query = """
        SELECT EXTRACT(SECOND FROM window_start), COUNT(*), SUM(DISTINCT price), MAX(price), COUNT(DISTINCT item)
        FROM TABLE(TUMBLE(TABLE latest, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end
    """
    assert sorted(rows(tables, query)) == [(0, 4, 22, 9, 2), (10, 2, 4, 3, 2), (20, 1, 5, 5, 1)]
