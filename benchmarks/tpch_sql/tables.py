"""The tables of TPC-H: their definitions in Flink's dialect, their files, and the 22 queries.

The queries are those of the standard with its validation parameters. Two forms differ between dialects: intervals have
quoted numbers, which all three engines take, and names that are keywords have back quotes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from flinkpy.table import TableEnvironment

_KEY = "BIGINT NOT NULL"
_MONEY = "DECIMAL(15, 2) NOT NULL"
_TEXT = "STRING NOT NULL"
_INT = "INT NOT NULL"
_DATE = "DATE NOT NULL"
#: The columns of each table with their types.
TABLES: dict[str, dict[str, str]] = {
    "region": {"r_regionkey": _KEY, "r_name": _TEXT, "r_comment": _TEXT},
    "nation": {"n_nationkey": _KEY, "n_name": _TEXT, "n_regionkey": _KEY, "n_comment": _TEXT},
    "supplier": {
        "s_suppkey": _KEY,
        "s_name": _TEXT,
        "s_address": _TEXT,
        "s_nationkey": _KEY,
        "s_phone": _TEXT,
        "s_acctbal": _MONEY,
        "s_comment": _TEXT,
    },
    "customer": {
        "c_custkey": _KEY,
        "c_name": _TEXT,
        "c_address": _TEXT,
        "c_nationkey": _KEY,
        "c_phone": _TEXT,
        "c_acctbal": _MONEY,
        "c_mktsegment": _TEXT,
        "c_comment": _TEXT,
    },
    "part": {
        "p_partkey": _KEY,
        "p_name": _TEXT,
        "p_mfgr": _TEXT,
        "p_brand": _TEXT,
        "p_type": _TEXT,
        "p_size": _INT,
        "p_container": _TEXT,
        "p_retailprice": _MONEY,
        "p_comment": _TEXT,
    },
    "partsupp": {
        "ps_partkey": _KEY,
        "ps_suppkey": _KEY,
        "ps_availqty": _INT,
        "ps_supplycost": _MONEY,
        "ps_comment": _TEXT,
    },
    "orders": {
        "o_orderkey": _KEY,
        "o_custkey": _KEY,
        "o_orderstatus": _TEXT,
        "o_totalprice": _MONEY,
        "o_orderdate": _DATE,
        "o_orderpriority": _TEXT,
        "o_clerk": _TEXT,
        "o_shippriority": _INT,
        "o_comment": _TEXT,
    },
    "lineitem": {
        "l_orderkey": _KEY,
        "l_partkey": _KEY,
        "l_suppkey": _KEY,
        "l_linenumber": _INT,
        "l_quantity": _MONEY,
        "l_extendedprice": _MONEY,
        "l_discount": _MONEY,
        "l_tax": _MONEY,
        "l_returnflag": _TEXT,
        "l_linestatus": _TEXT,
        "l_shipdate": _DATE,
        "l_commitdate": _DATE,
        "l_receiptdate": _DATE,
        "l_shipinstruct": _TEXT,
        "l_shipmode": _TEXT,
        "l_comment": _TEXT,
    },
}
QUERIES = tuple(range(1, 23))


def generate(directory: Path, scale: float) -> None:
    """Writes `<directory>/<table>.parquet` for all tables. The files of a scale are always the same."""
    directory.mkdir(parents=True, exist_ok=True)
    tool = Path(sys.executable).with_name("tpchgen-cli")
    arguments = ["--scale-factor", str(scale), "--output-dir", str(directory)]
    subprocess.run([tool, "parquet", *arguments], check=True, capture_output=True)


def create_tables(tables: TableEnvironment, directory: Path) -> None:
    """Defines the tables over the generated files."""
    for name, columns in TABLES.items():
        listed = ", ".join(f"{column} {kind}" for column, kind in columns.items())
        tables.execute_sql(
            f"CREATE TABLE {name} ({listed}) "
            f"WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{directory / name}.parquet')"
        )


def query(number: int) -> str:
    """Returns the text of a query."""
    return (Path(__file__).parent / "queries" / f"q{number}.sql").read_text()
