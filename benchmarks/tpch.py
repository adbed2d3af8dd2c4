"""TPC-H on streams of columns: the queries whose shapes the batch benchmark measures, and what they are in SQL.

`QUERIES[number](tables)` builds a query; `tables(name)` gives a table's stream. Sorting at the end has parallelism 1.
"""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

from flinkpy.common import WatermarkStrategy
from flinkpy.datastream import DataStream, StreamExecutionEnvironment
from flinkpy.datastream.aggregates import avg, count, sum_
from flinkpy.datastream.connectors.file_system import FileSource
from flinkpy.datastream.expressions import col, if_then_else

Tables = Callable[[str], DataStream]
TABLES = ("customer", "orders", "lineitem", "part")


def generate(directory: Path, scale: float) -> None:
    """The tables as Parquet files `<directory>/<table>.parquet`, which are always the same for a scale."""
    directory.mkdir(parents=True, exist_ok=True)
    tool = Path(sys.executable).with_name("tpchgen-cli")
    arguments = ["--scale-factor", str(scale), "--tables", ",".join(TABLES), "--output-dir", str(directory)]
    subprocess.run([tool, "parquet", *arguments], check=True, capture_output=True)


def tables_of(env: StreamExecutionEnvironment, directory: Path) -> Tables:
    """Streams of the generated tables."""

    def table(name: str) -> DataStream:
        source = FileSource.for_parquet(str(directory / f"{name}.parquet"))
        return env.from_source(source, WatermarkStrategy.no_watermarks(), name)

    return table


def pricing_summary(tables: Tables) -> DataStream:
    """Q1."""
    price = col("l_extendedprice") * (1 - col("l_discount"))
    return (
        tables("lineitem")
        .filter_batches(col("l_shipdate") <= datetime.date(1998, 9, 2))
        .key_by(("l_returnflag", "l_linestatus"))
        .aggregate(
            sum_qty=sum_("l_quantity"),
            sum_base_price=sum_("l_extendedprice"),
            sum_disc_price=sum_(price),
            sum_charge=sum_(price * (1 + col("l_tax"))),
            avg_qty=avg("l_quantity"),
            avg_price=avg("l_extendedprice"),
            avg_disc=avg("l_discount"),
            count_order=count(),
            emit="FINAL",
        )
        .sort_columns("l_returnflag", "l_linestatus")
    )


def shipping_priority(tables: Tables) -> DataStream:
    """Q3."""
    day = datetime.date(1995, 3, 15)
    customers = tables("customer").filter_batches(col("c_mktsegment") == "BUILDING").select("c_custkey")
    orders = (
        tables("orders")
        .filter_batches(col("o_orderdate") < day)
        .select("o_orderkey", "o_custkey", "o_orderdate", "o_shippriority")
        .key_by("o_custkey")
        .join_columns(customers.key_by("c_custkey"), how="semi", broadcast=True)
    )
    lines = tables("lineitem").filter_batches(col("l_shipdate") > day)
    # As in the SQL, the price is computed for the lines that the join keeps. No engine moves it behind the join itself.
    price = col("l_extendedprice") * (1 - col("l_discount"))
    return (
        lines.select("l_orderkey", "l_extendedprice", "l_discount")
        .key_by("l_orderkey")
        .join_columns(orders.key_by("o_orderkey"))
        .key_by(("l_orderkey", "o_orderdate", "o_shippriority"))
        .aggregate(revenue=sum_(price), emit="FINAL")
        .select("l_orderkey", "revenue", "o_orderdate", "o_shippriority")
        .sort_columns(col("revenue").desc, "o_orderdate", limit=10)
    )


def revenue_change(tables: Tables) -> DataStream:
    """Q6."""
    return (
        tables("lineitem")
        .filter_batches(
            (col("l_shipdate") >= datetime.date(1994, 1, 1))
            & (col("l_shipdate") < datetime.date(1995, 1, 1))
            & col("l_discount").between(Decimal("0.05"), Decimal("0.07"))
            & (col("l_quantity") < 24)
        )
        .aggregate_columns(revenue=sum_(col("l_extendedprice") * col("l_discount")))
    )


def shipping_modes(tables: Tables) -> DataStream:
    """Q12."""
    lines = (
        tables("lineitem")
        .filter_batches(
            col("l_shipmode").in_("MAIL", "SHIP")
            & (col("l_commitdate") < col("l_receiptdate"))
            & (col("l_shipdate") < col("l_commitdate"))
            & (col("l_receiptdate") >= datetime.date(1994, 1, 1))
            & (col("l_receiptdate") < datetime.date(1995, 1, 1))
        )
        .select("l_orderkey", "l_shipmode")
    )
    orders = tables("orders").select("o_orderkey", col("o_orderpriority").in_("1-URGENT", "2-HIGH").alias("is_high"))
    return (
        orders.key_by("o_orderkey")
        .join_columns(lines.key_by("l_orderkey"), broadcast=True)
        .key_by("l_shipmode")
        .aggregate(
            high_line_count=sum_(if_then_else(col("is_high"), 1, 0)),
            low_line_count=sum_(if_then_else(col("is_high"), 0, 1)),
            emit="FINAL",
        )
        .sort_columns("l_shipmode")
    )


def promotion_effect(tables: Tables) -> DataStream:
    """Q14."""
    lines = (
        tables("lineitem")
        .filter_batches(
            (col("l_shipdate") >= datetime.date(1995, 9, 1)) & (col("l_shipdate") < datetime.date(1995, 10, 1))
        )
        .select("l_partkey", (col("l_extendedprice") * (1 - col("l_discount"))).alias("price"))
    )
    parts = tables("part").select("p_partkey", col("p_type").like("PROMO%").alias("is_promo"))
    return (
        lines.key_by("l_partkey")
        .join_columns(parts.key_by("p_partkey"))
        .aggregate_columns(promo=sum_(if_then_else(col("is_promo"), col("price"), 0)), total=sum_("price"))
        .select((Decimal("100.00") * col("promo") / col("total")).alias("promo_revenue"))
    )


QUERIES: dict[int, Callable[[Tables], DataStream]] = {
    1: pricing_summary,
    3: shipping_priority,
    6: revenue_change,
    12: shipping_modes,
    14: promotion_effect,
}

SQL: dict[int, str] = {
    1: """
select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty, sum(l_extendedprice) as sum_base_price,
       sum(l_extendedprice * (1 - l_discount)) as sum_disc_price,
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge,
       avg(l_quantity) as avg_qty, avg(l_extendedprice) as avg_price, avg(l_discount) as avg_disc,
       count(*) as count_order
from lineitem where l_shipdate <= date '1998-09-02'
group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus
""",
    3: """
select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate, o_shippriority
from customer, orders, lineitem
where c_mktsegment = 'BUILDING' and c_custkey = o_custkey and l_orderkey = o_orderkey
  and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
group by l_orderkey, o_orderdate, o_shippriority order by revenue desc, o_orderdate limit 10
""",
    6: """
select sum(l_extendedprice * l_discount) as revenue from lineitem
where l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01'
  and l_discount between 0.05 and 0.07 and l_quantity < 24
""",
    12: """
select l_shipmode,
       sum(case when o_orderpriority = '1-URGENT' or o_orderpriority = '2-HIGH' then 1 else 0 end) as high_line_count,
       sum(case when o_orderpriority <> '1-URGENT' and o_orderpriority <> '2-HIGH' then 1 else 0 end) as low_line_count
from orders, lineitem
where o_orderkey = l_orderkey and l_shipmode in ('MAIL', 'SHIP') and l_commitdate < l_receiptdate
  and l_shipdate < l_commitdate and l_receiptdate >= date '1994-01-01' and l_receiptdate < date '1995-01-01'
group by l_shipmode order by l_shipmode
""",
    14: """
select 100.00 * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount) else 0 end)
       / sum(l_extendedprice * (1 - l_discount)) as promo_revenue
from lineitem, part
where l_partkey = p_partkey and l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-10-01'
""",
}
