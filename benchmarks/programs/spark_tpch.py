"""TPC-H's queries as PySpark DataFrame programs: `spark_tpch.py DIRECTORY NUMBER ...`; prints seconds of each run."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from spark_session import local_session

ROUNDS = 3
Tables = Callable[[str], DataFrame]


def pricing_summary(tables: Tables) -> DataFrame:
    price = F.col("l_extendedprice") * (1 - F.col("l_discount"))
    return (
        tables("lineitem")
        .where(F.col("l_shipdate") <= F.lit(date(1998, 9, 2)))
        .groupBy("l_returnflag", "l_linestatus")
        .agg(
            F.sum("l_quantity"),
            F.sum("l_extendedprice"),
            F.sum(price),
            F.sum(price * (1 + F.col("l_tax"))),
            F.avg("l_quantity"),
            F.avg("l_extendedprice"),
            F.avg("l_discount"),
            F.count("*"),
        )
        .orderBy("l_returnflag", "l_linestatus")
    )


def shipping_priority(tables: Tables) -> DataFrame:
    day = F.lit(date(1995, 3, 15))
    customers = tables("customer").where(F.col("c_mktsegment") == "BUILDING").select("c_custkey")
    orders = tables("orders").where(F.col("o_orderdate") < day)
    lines = tables("lineitem").where(F.col("l_shipdate") > day)
    return (
        customers.join(orders, F.col("c_custkey") == F.col("o_custkey"))
        .join(lines, F.col("l_orderkey") == F.col("o_orderkey"))
        .groupBy("l_orderkey", "o_orderdate", "o_shippriority")
        .agg(F.sum(F.col("l_extendedprice") * (1 - F.col("l_discount"))).alias("revenue"))
        .orderBy(F.col("revenue").desc(), "o_orderdate")
        .limit(10)
    )


def revenue_change(tables: Tables) -> DataFrame:
    return (
        tables("lineitem")
        .where(
            (F.col("l_shipdate") >= F.lit(date(1994, 1, 1)))
            & (F.col("l_shipdate") < F.lit(date(1995, 1, 1)))
            & F.col("l_discount").between(Decimal("0.05"), Decimal("0.07"))
            & (F.col("l_quantity") < 24)
        )
        .agg(F.sum(F.col("l_extendedprice") * F.col("l_discount")))
    )


def shipping_modes(tables: Tables) -> DataFrame:
    lines = tables("lineitem").where(
        F.col("l_shipmode").isin("MAIL", "SHIP")
        & (F.col("l_commitdate") < F.col("l_receiptdate"))
        & (F.col("l_shipdate") < F.col("l_commitdate"))
        & (F.col("l_receiptdate") >= F.lit(date(1994, 1, 1)))
        & (F.col("l_receiptdate") < F.lit(date(1995, 1, 1)))
    )
    is_high = F.col("o_orderpriority").isin("1-URGENT", "2-HIGH")
    return (
        tables("orders")
        .join(lines, F.col("o_orderkey") == F.col("l_orderkey"))
        .groupBy("l_shipmode")
        .agg(F.sum(F.when(is_high, 1).otherwise(0)), F.sum(F.when(is_high, 0).otherwise(1)))
        .orderBy("l_shipmode")
    )


def promotion_effect(tables: Tables) -> DataFrame:
    price = F.col("l_extendedprice") * (1 - F.col("l_discount"))
    promo = F.when(F.col("p_type").like("PROMO%"), price).otherwise(0)
    return (
        tables("lineitem")
        .where((F.col("l_shipdate") >= F.lit(date(1995, 9, 1))) & (F.col("l_shipdate") < F.lit(date(1995, 10, 1))))
        .join(tables("part"), F.col("l_partkey") == F.col("p_partkey"))
        .agg((100.00 * F.sum(promo) / F.sum(price)).alias("promo_revenue"))
    )


QUERIES: dict[int, Callable[[Tables], DataFrame]] = {
    1: pricing_summary,
    3: shipping_priority,
    6: revenue_change,
    12: shipping_modes,
    14: promotion_effect,
}


def main(directory: Path, numbers: list[int]) -> None:
    spark = local_session()
    for number in numbers:
        seconds = []
        for _ in range(ROUNDS):
            started = time.perf_counter()
            rows = QUERIES[number](lambda name: spark.read.parquet(str(directory / f"{name}.parquet"))).collect()
            seconds.append(time.perf_counter() - started)
        sys.stdout.write(json.dumps({"query": number, "seconds": seconds, "rows": len(rows)}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(number) for number in sys.argv[2:]])
