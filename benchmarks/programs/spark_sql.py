"""TPC-H as SQL in PySpark: `spark_sql.py DIRECTORY TABLE ...`.

Reads one JSON string per line, a query, and prints its rows as JSON with the seconds that it took.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from spark_session import local_session


def main(directory: Path, tables: list[str]) -> None:
    session = local_session(**{"spark.sql.execution.arrow.pyspark.enabled": "true"})
    for name in tables:
        session.read.parquet(f"{directory / name}.parquet").createOrReplaceTempView(name)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        started = time.perf_counter()
        rows = session.sql(json.loads(line)).collect()
        seconds = time.perf_counter() - started
        found = [[None if value is None else str(value) for value in row] for row in rows]
        print(json.dumps({"seconds": seconds, "rows": found}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
